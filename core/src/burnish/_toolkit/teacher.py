"""The teacher pass: run a program over train rows and keep what it did right as demos (DSPy's bootstrapping)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from burnish._model.candidate import Demo
from burnish._model.outcome import BudgetExhausted, CandidateEval, Complete, RolloutOutcome, RolloutStatus
from burnish._runtime.engine import Engine
from burnish._toolkit.harvest import harvest

if TYPE_CHECKING:
    from burnish.abc import Problem


@attrs.frozen(kw_only=True)
class Teaching:
    """What a teacher pass is to find, and when it ends."""

    columns: tuple[int, ...]
    """The rows, in the order in which their demos count as first."""
    enough: int
    """Demos for each predictor at which the pass ends."""
    min_score: float
    """What makes a rollout, or a span with an eval of its own, a success: see `success_bar`."""
    max_rounds: int = 1
    """How often a row is tried; each try is another sample of the rollout."""
    wave: int = 16
    """Rows asked for at once. It decides what is asked, so it is never taken from the engine's concurrency."""
    max_errors: int | None = None
    """The pass ends when more rollouts than this failed; None: never."""
    allowance: int | None = None
    """Rollouts that the pass may run; those that are served from a store are free. None: no limit but the budget."""


@attrs.frozen(kw_only=True)
class Taught:
    """What a teacher pass found."""

    demos: Mapping[str, tuple[Demo, ...]] = attrs.field(factory=dict)
    """Accepted demos by predictor, the first accepted first, one for equal inputs and one a rollout."""
    asked: int = 0
    """Rows that the teacher was asked for."""
    accepted: tuple[int, ...] = ()
    """Columns with a successful rollout, in order."""
    errors: int = 0
    """Rollouts that failed, by whoever's fault."""
    first_error: str = ""
    ended: str = "rows"
    """`enough`, `rows` (there were no more), `errors`, or `budget: <cap>`; of an `allowance` without a cap it is
    `budget: rollouts`."""


async def teach(engine: Engine, problem: Problem, teacher: int, wanted: Teaching) -> Taught:
    """Run the teacher (a registered candidate) over rows until there are enough demos for every predictor.

    Rows are asked for in waves of `wave`, or of as many as there are demos still missing, since so many rows are needed
    anyway; inside a wave all run at once, and what is asked never depends on which comes back first. The rows of a wave
    that failed are tried again, as further samples, before the next wave. Predictors that no rollout has called yet are
    not waited for. Whatever ends it, the demos found so far are kept.

    Raises what `Engine.evaluate_many` raises.
    """
    going = _Pass(engine, problem, teacher, wanted)
    position = wave = 0
    while position < len(wanted.columns) and not going.ended:
        rows = wanted.columns[position : position + max(wanted.wave, going.missing())]
        position += len(rows)
        with engine.step("teacher", wave):
            await going.wave(rows)
        wave += 1
    return going.result()


class _Pass:
    def __init__(self, engine: Engine, problem: Problem, teacher: int, wanted: Teaching) -> None:
        self.ended = "" if wanted.enough > 0 else "enough"
        self._engine, self._problem, self._teacher, self._wanted = engine, problem, teacher, wanted
        self._outcomes: list[RolloutOutcome] = []
        self._demos: Mapping[str, tuple[Demo, ...]] = {}
        self._called: set[str] = set()
        self._asked: dict[int, None] = {}
        self._accepted: dict[int, None] = {}
        self._ran = 0
        self._errors = 0
        self._first_error = ""

    def missing(self) -> int:
        """Count the demos that the predictor with the fewest still lacks, of those that were called at all."""
        called = [n for n, p in self._problem.parameters.items() if p.takes_demos and n in self._called]
        return max(0, self._wanted.enough - min((len(self._demos.get(name, ())) for name in called), default=0))

    async def wave(self, rows: Sequence[int]) -> None:
        """Try some rows, and those that failed again, until the rounds are used up or the pass ends."""
        for sample in range(self._wanted.max_rounds):
            rows = await self._try(rows, sample)
            if not rows or self.ended:
                return

    async def _try(self, rows: Sequence[int], sample: int) -> list[int]:
        """Ask for one sample of each row; gives the rows without success."""
        left = None if self._wanted.allowance is None else self._wanted.allowance - self._ran
        asked = rows if left is None else rows[: max(0, left)]
        evaluations: Sequence[CandidateEval] = ()
        # what is kept for later is told by the cap that it is kept from, as where that cap itself refuses
        refused = "" if len(asked) == len(rows) else f"budget: {self._engine.scarce or 'rollouts'}"
        if asked:
            # a request a row, so that the rows that still fit the budget run
            requests = [(self._teacher, (column,)) for column in asked]
            outcome = await self._engine.evaluate_many(requests, samples=range(sample, sample + 1), traces=True)
            evaluations = _evaluations(outcome)
            if isinstance(outcome, BudgetExhausted):
                refused = f"budget: {outcome.cap}"
        self._ran += sum(not rollout.cached for e in evaluations for rollout in e.rollouts)
        failed = [e.rollouts[0].example for e in evaluations if not self._take(e.rollouts[0])]
        self._demos = harvest(
            self._outcomes,
            self._problem.examples,
            self._problem.parameters,
            min_score=self._wanted.min_score,
            order="first",
            one_per_rollout=True,
        )
        self._end(refused)
        return failed

    def _take(self, outcome: RolloutOutcome) -> bool:
        """Book one rollout; says whether it is a success."""
        fault = outcome.error
        if outcome.status is RolloutStatus.REJECTED and fault is not None and fault.where == "budget":
            return False
        self._outcomes.append(outcome)
        self._asked[outcome.example] = None
        self._called.update(span.component for span in (outcome.trace.spans if outcome.trace else ()))
        if outcome.status is not RolloutStatus.SUCCEEDED:
            self._errors += 1
            self._first_error = self._first_error or str(fault or outcome.status)
            return False
        good = outcome.eval is not None and outcome.eval.score >= self._wanted.min_score
        if good:
            self._accepted[outcome.example] = None
        return good

    def _end(self, refused: str) -> None:
        limit = self._wanted.max_errors
        if self.missing() == 0:
            self.ended = "enough"
        elif limit is not None and self._errors > limit:
            self.ended = "errors"
        else:
            self.ended = refused

    def result(self) -> Taught:
        """Give what was found."""
        return Taught(
            demos=self._demos,
            asked=len(self._asked),
            accepted=tuple(self._accepted),
            errors=self._errors,
            first_error=self._first_error,
            ended=self.ended or "rows",
        )


def _evaluations(outcome: Complete | BudgetExhausted) -> Sequence[CandidateEval]:
    done = outcome.evaluations if isinstance(outcome, Complete) else outcome.partial
    return (done,) if isinstance(done, CandidateEval) else done or ()
