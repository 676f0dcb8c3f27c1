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
from burnish._model.stats import gain_in_errors
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
    """Validation mean of the winner. As the highest of `compared` on the rows that it was chosen by, it tells more than
    the winner is worth, and the more so the noisier the scores: what it is worth is told by `test`."""
    test: TestResult | None
    """Baseline and winner on the test rows; None without test rows, or where the run was stopped before its end."""
    spend: Spend
    reports: tuple[Report, ...]
    stop_reason: str
    """`finished`, `budget: <cap>`, `cancelled`, `stopped: <why>`."""
    run_dir: Path | None
    compared: int = 0
    """Candidates that were scored on all validation rows, the program as it was among them."""
    warnings: tuple[str, ...] = ()
    failures: Failures = Failures()
    """What failed of the search's rollouts, all candidates together; those of the test are in `test`."""
    baseline_failures: Failures = Failures()
    """What failed of the search's rollouts of the program as it was."""

    def __str__(self) -> str:
        chosen = f" (chosen among {self.compared})" if self.compared > 1 and not self.candidate.is_empty else ""
        found = [f"validation {_shown(self.baseline)} -> {_shown(self.best)}{chosen}"]
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
    compared: int = 0
    """Candidates with a score on all rows that they are compared on."""
    kept: str | None = None
    """Why the program as it is stays, where another candidate has the higher mean."""


def choose(setup: Setup, evaluator: Evaluator, reports: Sequence[Report]) -> Choice:
    """Give the winner.

    Where the strategies did not get to all their reports, the best fully scored candidate so far, if it beats the
    program as it is on at least half of the rows. A mean over fewer than all rows is not told as a score. Where the
    winner is not ahead by the margin that was asked for, the program as it is stays.
    """
    matrix, columns = evaluator.state.matrix, _columns(setup, evaluator)
    compared = sum(matrix.coverage(index, columns) == len(columns) for index in range(matrix.candidates))
    found = attrs.evolve(_found(setup, evaluator, reports), compared=compared)
    if not setup.min_gain or found.best == setup.start:
        return found
    gain = _gain(evaluator, setup.start, found.best, columns)
    if gain >= setup.min_gain:
        return found
    told = f"a candidate is {gain:.2f} standard errors ahead on validation, less than min_gain = {setup.min_gain:g}"
    return attrs.evolve(
        found, best=setup.start, best_score=found.baseline_score, kept=f"{told}: the program stays as it is"
    )


def _columns(setup: Setup, evaluator: Evaluator) -> range:
    return range(len(setup.val)) if setup.val else range(len(evaluator.examples))


def _gain(evaluator: Evaluator, start: Candidate, best: Candidate, columns: Sequence[int]) -> float:
    """Say by how many standard errors a candidate is ahead on the rows that both have; 0 below two such rows.

    Validation rows, or all rows where the strategy compared on others.
    """
    matrix, index = evaluator.state.matrix, evaluator.state.index
    first, second = index.get(start.stable_hash, -1), index.get(best.stable_hash, -1)
    for some in (columns, range(len(evaluator.examples))):
        pairs = [(matrix.score(first, c), matrix.score(second, c)) for c in some]
        differences = [b - a for a, b in pairs if a is not None and b is not None]
        if len(differences) > 1:
            return gain_in_errors(differences)
    return 0.0


def _found(setup: Setup, evaluator: Evaluator, reports: Sequence[Report]) -> Choice:
    if len(reports) == len(setup.strategies):
        last = reports[-1]
        return Choice(best=last.best, baseline_score=reports[0].baseline_score, best_score=last.best_score)
    matrix, index = evaluator.state.matrix, evaluator.state.index.get(setup.start.stable_hash)
    columns = _columns(setup, evaluator)
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
