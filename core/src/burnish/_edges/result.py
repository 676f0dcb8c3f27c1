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
from burnish._model.matrix import ScoreMatrix
from burnish._model.report import Report
from burnish._runtime.evaluator import Evaluator


@attrs.frozen(kw_only=True)
class Result:
    """What a run found."""

    program: Any
    """A copy of the program with the winner installed; the program that was given is untouched."""
    candidate: Candidate
    """The winner; the empty candidate where nothing beat the program as it was."""
    baseline: float | None
    """Validation mean of the program as it was."""
    best: float | None
    """Validation mean of the winner."""
    test: TestResult | None
    """Baseline and winner on the test rows; None without test rows, or where the run was stopped before its end."""
    spend: Spend
    reports: tuple[Report, ...]
    stop_reason: str
    """`finished`, `budget: <cap>`, `cancelled`, `stopped: <why>`."""
    run_dir: Path | None
    warnings: tuple[str, ...] = ()
    failures: Failures = Failures()
    """What failed of the search's rollouts, all candidates together; those of the test are in `test`."""
    baseline_failures: Failures = Failures()
    """What failed of the search's rollouts of the program as it was."""

    def __str__(self) -> str:
        found = [f"validation {_shown(self.baseline)} -> {_shown(self.best)}"]
        found += [] if self.test is None else [f"test {self.test}"]
        return "; ".join([*found, f"{self.spend.metric_calls} rollouts", self.stop_reason])

    def __repr__(self) -> str:
        return f"<Result: {self}>"

    @property
    def improved(self) -> bool:
        """Whether the winner beats the baseline on the test rows by more than chance (95 %)."""
        return self.test is not None and self.test.improved


def _shown(score: float | None) -> str:
    return "unscored" if score is None else f"{score:.3f}"


@attrs.frozen(kw_only=True)
class Choice:
    """The winner with the validation means of baseline and winner."""

    best: Candidate
    baseline_score: float | None
    best_score: float | None


def choose(setup: Setup, evaluator: Evaluator, reports: Sequence[Report]) -> Choice:
    """Give the winner.

    Where the strategies did not get to all their reports, the best fully scored candidate so far, if it beats the
    program as it is on at least half of the rows. A mean over fewer than all rows is not told as a score.
    """
    if len(reports) == len(setup.strategies):
        last = reports[-1]
        return Choice(best=last.best, baseline_score=reports[0].baseline_score, best_score=last.best_score)
    matrix, index = evaluator.state.matrix, evaluator.state.index.get(setup.start.stable_hash)
    columns = range(len(setup.val)) if setup.val else range(len(evaluator.examples))
    start = -1 if index is None else index
    scored = [column for column in columns if matrix.cell(start, column) is not None]
    baseline = matrix.mean(start, columns) if len(scored) == len(columns) else None
    winner = matrix.best_by_mean(columns, min_coverage=len(columns))
    if winner is None or 2 * len(scored) < len(columns) or not _beats(matrix, winner, start, scored):
        return Choice(best=setup.start, baseline_score=baseline, best_score=baseline)
    best_score = matrix.mean(winner, columns)
    return Choice(best=evaluator.state.candidates[winner], baseline_score=baseline, best_score=best_score)


def _beats(matrix: ScoreMatrix, winner: int, start: int, columns: Sequence[int]) -> bool:
    new, old = matrix.mean(winner, columns), matrix.mean(start, columns)
    return new is not None and old is not None and new > old


def installed(target: abc.Target, best: Candidate) -> Any:
    """Give the program of a target with the winner installed."""
    install = getattr(target, "install", None)
    if install is not None:
        install(best)
    return getattr(target, "program", getattr(target, "function", target))
