"""An engine for one of several strategies at once: it knows what this one was told, and nothing of the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import attrs

from burnish._model.budget import Spend, Tally
from burnish._model.candidate import Candidate
from burnish._model.events import Event
from burnish._model.matrix import ScoreMatrix
from burnish._model.outcome import BudgetExhausted, CandidateEval, Complete, EvalOutcome, RolloutOutcome, RolloutStatus
from burnish._model.state import tally_event
from burnish._runtime.batch import Fit, Request, leading_parts
from burnish._runtime.engine import Engine, current_step
from burnish.errors import UnknownIndexError

SHARE = "share"
"""What refuses where the rollouts of one strategy are used up: told where else a cap is named."""

_Cell = tuple[int, int, int]
"""Candidate (by its number with the whole engine), column and sample."""


class Apart(Engine):
    """A strategy's own view of a run that others share: registry, matrix and room are as if it ran alone.

    A rollout counts against `rollouts` where this strategy has not been told its score yet, whether or not another one
    has paid for it meanwhile: which of several comes first is the scheduler's choice, and no decision may depend on
    it. So all together pay for the sum of their shares at most. `spend` is what really ran under the step in which the
    view was made; None for `rollouts` leaves it to the run's budget.
    """

    def __init__(self, engine: Engine, rollouts: int | None) -> None:
        super().__init__(engine._evaluator, engine._target)
        self._whole, self._room = engine, rollouts
        self._taken = 0
        self._matrix = ScoreMatrix(len(self._evaluator.examples))
        self._numbers: dict[int, int] = {}
        """Index here by the number with the whole engine, in order."""
        self._known: set[_Cell] = set()
        self._tally, self._inside = Tally(), current_step()
        self._evaluator.listeners.append(self._see)

    def _see(self, event: Event) -> None:
        step = getattr(event, "step", "")
        if step.startswith(self._inside) and step[len(self._inside) :][:1] in ("", "/", "#"):
            tally_event(self._tally, event)

    def register(self, candidate: Candidate) -> int:
        """Give the candidate's index here. Raises as `Engine.register`."""
        index = self._numbers.setdefault(self._whole.register(candidate), len(self._numbers))
        self._matrix.ensure_rows(index + 1)
        return index

    async def _evaluate(
        self, requests: Sequence[Request], *, samples: int | range = 1, traces: bool = False, fit: Fit = "leading"
    ) -> EvalOutcome:
        taken = range(samples) if isinstance(samples, int) else samples
        asked = self._numbered(requests)
        wanted, fitting = self._fresh(asked, taken), asked
        if self._room is not None and len(wanted) > self._room - self._taken:
            parts = leading_parts(asked, fit)
            fitting = [p for p in parts if len(self._fresh(p, taken)) <= self._room - self._taken][-1]
            if not fitting:
                return BudgetExhausted(needed=len(wanted), cap=SHARE)
        mine = self._fresh(fitting, taken)
        self._taken += len(mine)
        self._known.update(mine)
        told: list[CandidateEval] = []
        ran: set[_Cell] = set()
        try:
            outcome = await self._whole._evaluate(fitting, samples=samples, traces=traces, fit=fit)
            done = outcome.evaluations if isinstance(outcome, Complete) else outcome.partial or ()
            for evaluation in [done] if isinstance(done, CandidateEval) else done:
                told.append(self._told(evaluation, taken, mine, ran))
        finally:
            self._taken -= len(mine.keys() - ran)
        if isinstance(outcome, BudgetExhausted):
            return attrs.evolve(outcome, partial=tuple(told) or None)
        if len(fitting) < len(asked):
            return BudgetExhausted(needed=len(wanted) - len(mine), cap=SHARE, partial=tuple(told))
        return Complete(evaluations=tuple(told))

    def _numbered(self, requests: Sequence[Request]) -> list[Request]:
        numbers = list(self._numbers)
        for index, _ in requests:
            if not 0 <= index < len(numbers):
                raise UnknownIndexError(f"candidate index {index} is not registered")
        return [(numbers[index], tuple(columns)) for index, columns in requests]

    def _fresh(self, requests: Sequence[Request], taken: range) -> dict[_Cell, None]:
        """Give the cells of some requests that this strategy does not know yet, each once."""
        cells = (cell for request in requests for cell in _cells(request, taken))
        return dict.fromkeys(cell for cell in cells if cell not in self._known)

    def _told(
        self, evaluation: CandidateEval, taken: range, mine: dict[_Cell, None], ran: set[_Cell]
    ) -> CandidateEval:
        """Take an evaluation in, and give it as this strategy is to see it; what was run for it is added to `ran`."""
        index = self._numbers[evaluation.candidate]
        columns = [rollout.example for rollout in evaluation.rollouts[:: len(taken)]]
        rollouts: list[RolloutOutcome] = []
        for cell, rollout in zip(_cells((evaluation.candidate, columns), taken), evaluation.rollouts, strict=True):
            if rollout.status is not RolloutStatus.REJECTED:
                ran.add(cell)
            if rollout.eval is None:
                self._known.discard(cell)  # asked for again it would run again
            else:
                self._matrix.record(index, cell[1], rollout.eval, cell[2])
            rollouts.append(attrs.evolve(rollout, cached=cell not in mine))
        return CandidateEval(candidate=index, rollouts=tuple(rollouts))

    @property
    def matrix(self) -> ScoreMatrix:
        return self._matrix

    @property
    def spend(self) -> Spend:
        return self._tally.spend

    @property
    def remaining(self) -> int | None:
        """Rollouts that are left of this strategy's share; None for no cap."""
        return None if self._room is None else max(0, self._room - self._taken)

    @property
    def scarce(self) -> str | None:
        return None if self._room is None else SHARE


def _cells(request: Request, taken: range) -> Iterator[_Cell]:
    number, columns = request
    return ((number, column, sample) for column, sample in product(columns, taken))
