"""The honest number at the end: baseline and winner on rows that the search never saw."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from burnish import abc
from burnish._edges.failures import FailureCount, Failures
from burnish._edges.setup import Setup
from burnish._model.candidate import Candidate
from burnish._model.events import (
    Asked,
    CandidateRegistered,
    Event,
    Lost,
    RequestSent,
    RolloutLanded,
    RolloutStarted,
    Warned,
)
from burnish._model.outcome import Complete
from burnish._model.stats import PairedComparison, compare_paired
from burnish._runtime.engine import evaluation_of
from burnish._runtime.evaluator import Evaluator
from burnish._runtime.journal import Recorded


@attrs.frozen(kw_only=True)
class TestResult:
    """Baseline and winner on the test rows, each row scored fresh."""

    rows: int
    baseline_scores: tuple[float | None, ...]
    winner_scores: tuple[float | None, ...]
    comparison: PairedComparison | None
    """None where no row was scored by both."""
    same: bool = False
    """Whether the winner is the unchanged program: it was then scored once."""
    complete: bool = True
    """False where the budget ended the test early."""
    failures: Failures = Failures()
    """What failed of the rollouts on the test rows."""
    baseline_failures: Failures = Failures()
    """What failed of the baseline's rollouts."""
    winner_failures: Failures = Failures()
    """What failed of the winner's; the baseline's where both are the same program."""

    __test__ = False

    def __str__(self) -> str:
        if self.comparison is None:
            return f"no test row of {self.rows} was scored by both"
        said = str(self.comparison)
        if self.same:
            said = f"{self.comparison.baseline:.3f} on {self.comparison.rows} rows, the program as it was"
        scored = "" if self.comparison.rows == self.rows else f" of {self.rows}"
        return said.replace(" rows", f"{scored} rows") + ("" if self.complete else ", cut short by the budget")

    def __repr__(self) -> str:
        return f"<TestResult: {self}>"

    @property
    def improved(self) -> bool:
        """Whether the 95 % interval of the gain lies above 0."""
        return not self.same and self.comparison is not None and self.comparison.improved


class _TestJournal:
    """Writes the test's events into the run's journal, marked as test and under the run's candidate numbers."""

    def __init__(self, main: Evaluator, numbers: Sequence[int]) -> None:
        assert main.journal is not None
        self._main, self._journal, self._numbers = main, main.journal, numbers

    def _told(self, event: Event) -> Event:
        if isinstance(event, (RolloutStarted, RolloutLanded)):
            return attrs.evolve(event, split="test", candidate=self._numbers[event.candidate])
        return attrs.evolve(event, split="test") if isinstance(event, (Lost, RequestSent)) else event

    def emit(self, event: Event) -> None:
        if isinstance(event, Warned):
            self._main.warn(event.kind, event.message)
        elif not isinstance(event, CandidateRegistered):  # the run has numbers of its own for them
            self._main.emit(self._told(event))

    def seen(self, event: Event) -> None:
        self._main.state.apply(self._told(event))
        self._journal.seen(self._told(event))

    async def begin(self, asked: Asked, *, traces: bool = False) -> Recorded:
        recorded = await self._journal.begin(asked, traces=traces)
        return attrs.evolve(recorded, events=[self._back(event) for event in recorded.events])

    def _back(self, event: Event) -> Event:
        if isinstance(event, (RolloutStarted, RolloutLanded)):
            return attrs.evolve(event, candidate=self._numbers.index(event.candidate))
        return event

    async def find(self, keys: Sequence[str], *, traces: bool = False) -> dict[str, RolloutLanded]:
        return {}  # the test is scored fresh: what it was told stands in its own ask

    async def flush(self) -> None:
        await self._main.flush()


async def compare_on_test(
    main: Evaluator, setup: Setup, best: Candidate, failures: FailureCount, executor: abc.Executor | None
) -> TestResult:
    """Score baseline and winner on the test rows, without any cache; `failures` has seen the run's events.

    Raises what `Evaluator.evaluate_many` raises. Cancelled, what has landed is in the run store.
    """
    start = setup.start
    candidates = [start] if best == start else [start, best]
    numbers = [main.register(candidate) for candidate in candidates]
    bench = Evaluator(
        setup.test,
        setup.metric,
        attrs.evolve(setup.config, preflight=False),
        executor=executor,
        ledger=main.ledger,
        limits=main.limits,
        journal=_TestJournal(main, numbers),
        models=setup.models,
        row_name=lambda row: f"test row {row}",
        watch=main.watch,
    )
    indices = [bench.register(candidate) for candidate in candidates]
    rows = range(len(bench.examples))
    requests = [(index, rows) for index in indices]
    outcome = await bench.evaluate_many(setup.target, requests, fit="rows", step="test")
    done = evaluation_of(outcome)
    nothing: tuple[float | None, ...] = (None,) * len(rows)
    scores = [tuple(done[index].scores()) if index in done else nothing for index in indices]
    return TestResult(
        rows=len(rows),
        baseline_scores=scores[0],
        winner_scores=scores[-1],
        comparison=compare_paired(scores[0], scores[-1], setup.metric_info.maximum),
        same=best == start,
        complete=isinstance(outcome, Complete),
        failures=failures.of("test"),
        baseline_failures=failures.of("test", numbers[0]),
        winner_failures=failures.of("test", numbers[-1]),
    )
