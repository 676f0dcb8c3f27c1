"""The evaluator as strategies see it: `Engine`, bound to the program under tuning."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import attrs

from burnish import abc
from burnish._model.budget import Spend
from burnish._model.candidate import Candidate
from burnish._model.matrix import ScoreMatrix
from burnish._model.outcome import (
    BudgetExhausted,
    CandidateEval,
    Complete,
    EvalOutcome,
    GateOutcome,
    Promoted,
    Rejected,
    Undecided,
)
from burnish._model.pareto import ParetoView
from burnish._runtime.batch import Fit, Request
from burnish._runtime.calls import CallRequest, Reply
from burnish._runtime.evaluator import Evaluator
from burnish._runtime.fanout import background
from burnish._runtime.lagged import Lagged, count_rollouts
from burnish._runtime.repeated import merged
from burnish._runtime.target import check_candidate

_step: ContextVar[str] = ContextVar("burnish_step", default="")


def current_step() -> str:
    """Give the path of the step that this task is in."""
    return _step.get()


async def gated(
    evaluate: Callable[[Sequence[Request]], Awaitable[EvalOutcome]],
    candidate: int,
    minibatch: Sequence[int],
    threshold: float,
    full: Sequence[int],
) -> GateOutcome:
    """Evaluate on a minibatch; only a mean strictly above the threshold earns the full evaluation (GEPA; E45-E47)."""
    first = await evaluate([(candidate, minibatch)])
    count_rollouts(first)
    if isinstance(first, BudgetExhausted):
        return attrs.evolve(first, stage="minibatch")
    small = first.evaluation
    mean = small.mean()
    if mean is None or small.coverage < 1.0:
        return Undecided(minibatch=small)
    if not mean > threshold:
        return Rejected(minibatch=small)
    second = await evaluate([(candidate, full)])
    count_rollouts(second)
    if isinstance(second, BudgetExhausted):
        return attrs.evolve(second, stage="full", partial=small)
    return Promoted(minibatch=small, full=second.evaluation)


class Engine:
    """What a strategy acts with: one evaluator, bound to the program under tuning.

    It has no clock, no concurrency and no configuration to look at: decisions depend on answers alone.
    """

    def __init__(self, evaluator: Evaluator, target: abc.Target, repeats: int = 1) -> None:
        self._evaluator, self._target, self._repeats = evaluator, target, repeats

    def register(self, candidate: Candidate) -> int:
        """Give the candidate's index. Raises `UnknownParameterError` for a name that the program does not have."""
        check_candidate(self._target, candidate)
        return self._evaluator.register(candidate)

    async def evaluate_many(
        self, requests: Sequence[Request], *, samples: int | range = 1, traces: bool = False
    ) -> Complete | BudgetExhausted:
        """Evaluate `(candidate, columns)` pairs in one fan-out, each row as often as `samples` says.

        A number asks for the samples from 0 on, a range for those alone: `range(2, 3)` is the third, and no other runs.
        Where the run repeats its rollouts, 1 is as many as it says, told as one with their mean score.

        Where the budget cannot pay for all, the leading candidates that fit are evaluated and `BudgetExhausted.partial`
        holds them. With `traces`, every rollout comes with its trace, without it none does. Unscored rows have `eval`
        None.
        """
        outcome = await self._evaluate(requests, samples=samples, traces=traces)
        count_rollouts(outcome)
        return outcome

    async def _evaluate(
        self, requests: Sequence[Request], *, samples: int | range = 1, traces: bool = False, fit: Fit = "leading"
    ) -> EvalOutcome:
        repeated = samples == 1 and self._repeats > 1
        outcome = await self._evaluator.evaluate_many(
            self._target,
            requests,
            samples=self._repeats if repeated else samples,
            traces=traces,
            fit=fit,
            step=_step.get(),
            bare=not traces,
        )
        return merged(outcome, self._repeats) if repeated else outcome

    async def evaluate_gated(
        self, candidate: int, minibatch: Sequence[int], threshold: float, *, full: Sequence[int]
    ) -> GateOutcome:
        """Evaluate on a minibatch; only a mean strictly above the threshold earns `full`."""
        return await gated(partial(self._evaluate, fit="whole"), candidate, minibatch, threshold, full)

    async def call(
        self, program: Any, inputs: Mapping[str, Any], *, role: str = "proposer", sample: int = 0
    ) -> Any:
        """Run a small program once, outside of the evaluation, and give its prediction.

        Its model calls are those of `role`, admitted and booked like all others. Raises `BudgetExceededError` where a
        cap leaves no room, `CallFailedError` where the program or its model failed.
        """
        request = CallRequest(program=program, inputs=inputs, role=role, sample=sample)
        (reply,) = await self.propose_many([request])
        return reply.get()

    async def propose_many(self, requests: Sequence[CallRequest]) -> list[Reply]:
        """Run small programs at once; gives their replies in order. A failed one is a value, and costs no other.

        Equal requests are further samples: n of them are n replies. A run that begins again is given the same replies.
        """
        return await self._evaluator.calls.ask(requests, _step.get())

    @contextmanager
    def step(self, name: str, number: int | None = None) -> Iterator[None]:
        """Name the effects inside, for the run store: `iteration 3/proposals`."""
        label = name if number is None else f"{name} {number}"
        outer = _step.get()
        token = _step.set(f"{outer}/{label}" if outer else label)
        try:
            yield
        finally:
            _step.reset(token)

    @asynccontextmanager
    async def lagged(self, name: str, *, lag: int) -> AsyncIterator[Lagged[Any]]:
        """Keep up to `lag` chains of effects in flight, one a step; `Lagged` shows how they are started and told.

        The block ends when all chains have; the failure of one ends all. What `spend` and `matrix` show inside depends
        on what happens to have ended: decide on what `turn` tells.
        """
        room = self.remaining
        async with background() as begin:
            yield Lagged(begin, lambda number: self.step(name, number), lag, room)

    @property
    def matrix(self) -> ScoreMatrix:
        return self._evaluator.state.matrix

    @property
    def spend(self) -> Spend:
        """What has been spent so far, without the time."""
        return self._evaluator.state.spend

    @property
    def remaining(self) -> int | None:
        """Rollouts that still fit the budget, the final test set aside; None for no cap. Repeated ones count as one."""
        room = self._evaluator.ledger.room()
        return None if room is None else room // self._repeats

    @property
    def scarce(self) -> str | None:
        """The cap that `remaining` comes from; None for no cap."""
        scarcest = self._evaluator.ledger.scarcest()
        return None if scarcest is None else scarcest[1]

    def frontier(self, columns: Iterable[int]) -> list[int]:
        """Give the candidates that are best or tie on some of these columns, ascending; kept up incrementally."""
        return self.matrix.frontier(columns)

    def pareto_over(self, columns: Iterable[int]) -> ParetoView:
        """Take a dominance snapshot; a copy of the viewed scores, so not for loops."""
        return self.matrix.pareto_over(columns)

    def note(self, kind: str, message: str) -> None:
        """Tell the user something, once."""
        self._evaluator.warn(kind, message)


def evaluation_of(outcome: Complete | BudgetExhausted) -> Mapping[int, CandidateEval]:
    """Give what was evaluated, by candidate, whether or not the budget sufficed."""
    done = outcome.evaluations if isinstance(outcome, Complete) else outcome.partial
    if done is None:
        return {}
    return {e.candidate: e for e in ([done] if isinstance(done, CandidateEval) else done)}
