"""Chains of steps in flight: each decides on what the steps a fixed lag before it have told, whichever ends first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Generic, TypeVar

import attrs
import trio

from burnish._model.canonical import hash64
from burnish._model.outcome import BudgetExhausted, CandidateEval, Complete, RolloutStatus

T = TypeVar("T")


@attrs.define
class _Chain(Generic[T]):
    """One step under way, or over."""

    number: int
    name: int
    """Tells it apart from all others in flight: its number; inside another chain a hash of that one's name too."""
    bound: int
    """Rollouts that it may take."""
    taken: int = 0
    """Rollouts that it took."""
    result: list[T] = attrs.field(factory=list)
    over: trio.Event = attrs.field(factory=trio.Event)


_chain: ContextVar[_Chain[object] | None] = ContextVar("burnish_chain", default=None)


def current_chain() -> int | None:
    """Give the name of the chain that this task belongs to; None outside of chains."""
    chain = _chain.get()
    return None if chain is None else chain.name


def count_rollouts(outcome: Complete | BudgetExhausted) -> None:
    """Count the rollouts that an evaluation ran for the chain that asked for it."""
    chain = _chain.get()
    if chain is None:
        return
    done = outcome.evaluations if isinstance(outcome, Complete) else outcome.partial or ()
    for evaluation in [done] if isinstance(done, CandidateEval) else done:
        chain.taken += sum(not r.cached and r.status is not RolloutStatus.REJECTED for r in evaluation.rollouts)


class Lagged(Generic[T]):
    """Up to `lag` chains in flight, told in the order of their start.

        async with engine.lagged("iteration", lag=4) as chains:
            for number in range(50):
                for told in await chains.turn():     # what the steps up to number - 4 found, each once
                    ...
                if not chains.start(partial(step, number), bound=12):
                    break                            # the budget has no room for 12 more rollouts
            for told in await chains.rest():
                ...

    Nothing that a chain does is visible to another but through what it is told. So the same seed and answers give the
    same run at any concurrency, and a run that begins again is told the same.
    """

    def __init__(
        self,
        begin: Callable[[Callable[[], Awaitable[None]]], None],
        step: Callable[[int], AbstractContextManager[None]],
        lag: int,
        room: int | None,
    ) -> None:
        self._begin, self._step, self._lag, self._room = begin, step, max(1, lag), room
        self._chains: list[_Chain[T]] = []
        self._told = 0

    @property
    def remaining(self) -> int | None:
        """Rollouts that fit the budget, as far as was told: of steps in flight what they may take counts as spent."""
        if self._room is None:
            return None
        told, flying = self._chains[: self._told], self._chains[self._told :]
        return max(0, self._room - sum(chain.taken for chain in told) - sum(chain.bound for chain in flying))

    async def turn(self) -> list[T]:
        """Wait until there is room for a further chain; gives what the next step may know and was not told yet."""
        return await self._tell(len(self._chains) - self._lag + 1)

    async def rest(self) -> list[T]:
        """Wait for all chains; gives what was not told yet, in order."""
        return await self._tell(len(self._chains))

    async def _tell(self, until: int) -> list[T]:
        results: list[T] = []
        while self._told < until:
            chain = self._chains[self._told]
            await chain.over.wait()
            self._told += 1
            results.extend(chain.result)
        return results

    def start(self, chain: Callable[[], Awaitable[T]], *, bound: int = 0) -> bool:
        """Start the next step; says whether there was room in the budget for the `bound` rollouts that it may take."""
        remaining = self.remaining
        if remaining is not None and remaining < bound:
            return False
        number, outer = len(self._chains), current_chain()
        mine = _Chain[T](number, number if outer is None else hash64(f"{outer}/{number}"), bound)
        self._chains.append(mine)

        async def run() -> None:
            _chain.set(mine)  # type: ignore[arg-type]
            with self._step(number):
                mine.result.append(await chain())
            mine.over.set()

        self._begin(run)
        return True
