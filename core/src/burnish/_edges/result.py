"""What a run found, and how the winner is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from burnish import abc
from burnish._edges.failures import Failures
from burnish._edges.holdout import TestResult
from burnish._edges.setup import Setup
from burnish._model.budget import Spend
from burnish._model.candidate import Candidate
from burnish._model.report import Report
from burnish._runtime.evaluator import Evaluator


@attrs.frozen(kw_only=True)
class Result:
    """What a run found."""

    program: Any = attrs.field(repr=False)
    """A copy of the program with the winner installed; the program that was given is untouched."""
    candidate: Candidate
    """The winner; the empty candidate where nothing beat the program as it was."""
    baseline: float | None
    """Validation mean of the program as it was."""
    best: float | None
    """Validation mean of the winner."""
    test: TestResult | None
    """Baseline and winner on the test rows; None without test rows, or where the run was stopped before."""
    spend: Spend
    reports: tuple[Report, ...] = attrs.field(repr=False)
    stop_reason: str
    """`finished`, `budget: <cap>`, `cancelled`, `stopped: <why>`."""
    run_dir: Path | None
    warnings: tuple[str, ...] = ()
    failures: Failures = Failures()
    """What failed of the search's rollouts, all candidates together; those of the test are in `test`."""
    baseline_failures: Failures = Failures()
    """What failed of the search's rollouts of the program as it was."""

    @property
    def improved(self) -> bool:
        """Whether the winner beats the baseline on the test rows by more than chance (95 %)."""
        return self.test is not None and self.test.improved


@attrs.frozen(kw_only=True)
class Choice:
    """The winner with the validation means of baseline and winner."""

    best: Candidate
    baseline_score: float | None
    best_score: float | None


def choose(setup: Setup, evaluator: Evaluator, reports: Sequence[Report]) -> Choice:
    """Give the winner.

    Where the strategies did not get to all their reports, the best fully scored candidate so far: none is better than
    a program that is not fully scored itself.
    """
    if len(reports) == len(setup.strategies):
        last = reports[-1]
        return Choice(best=last.best, baseline_score=reports[0].baseline_score, best_score=last.best_score)
    state = evaluator.state
    columns = range(len(setup.val)) if setup.val else range(len(evaluator.examples))
    start = state.index.get(setup.start.stable_hash)
    baseline = None if start is None else state.matrix.mean(start, columns)
    winner = state.matrix.best_by_mean(columns, min_coverage=len(columns))
    if start is None or winner is None or state.matrix.coverage(start, columns) < len(columns):
        return Choice(best=setup.start, baseline_score=baseline, best_score=baseline)
    return Choice(
        best=state.candidates[winner], baseline_score=baseline, best_score=state.matrix.mean(winner, columns)
    )


def installed(target: abc.Target, best: Candidate) -> Any:
    """Give the program of a target with the winner installed."""
    install = getattr(target, "install", None)
    if install is not None:
        install(best)
    return getattr(target, "program", getattr(target, "function", target))
