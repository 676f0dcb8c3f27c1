"""What may end a run before its end: its handle, `max_seconds`, an error. The first reason counts."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import attrs
import trio

from burnish._edges.handle import RunHandle
from burnish._runtime.ledger import Ledger
from burnish.errors import BurnishError, MetricError, RunStoppedError, first_line

TEST_SHARE = 0.2
"""Of `max_seconds`: where there are test rows, the search ends so much earlier."""


@attrs.define
class End:
    """Why a run ends before its end, if it does: the first reason counts."""

    reason: str | None = None
    error: Exception | None = None
    cap: str | None = None
    """The cap that cut the search or the test; a run goes on to its end all the same."""

    def failed(self, error: Exception) -> None:
        """Take in what went wrong."""
        why = str(error) if isinstance(error, (MetricError, RunStoppedError)) else first_line(error)
        self.reason, self.error = self.reason or f"stopped: {why}", self.error or error

    @contextlib.contextmanager
    def keeping(self) -> Iterator[None]:
        """Take in what the block raises, so that what comes after it is done all the same."""
        try:
            yield
        except Exception as error:
            self.failed(_single(error))


async def phase(
    handle: RunHandle, ledger: Ledger, end: End, call: Callable[[], Awaitable[Any]], *, aside: bool = False
) -> Any:
    """Run a part of the run that the handle and `max_seconds` may cancel; None where it did not get to its end.

    `aside` keeps the test's share of the time out of its reach.
    """
    done = False
    with end.keeping(), trio.CancelScope(deadline=_deadline(ledger, aside)) as scope:
        handle._enter(scope)
        try:
            value = await call()
            done = True
        finally:
            handle._leave()
    if done:
        return value
    if scope.cancelled_caught and not handle.cancelled:
        end.cap = "budget: max_seconds"
    else:
        end.reason = end.reason or "cancelled"
    return None


def _deadline(ledger: Ledger, aside: bool) -> float:
    """Say when `max_seconds` are over, on trio's clock, or all of them but the test's share."""
    most = ledger.budget.max_seconds
    if most is None:
        return math.inf
    return trio.current_time() + most * (1 - TEST_SHARE if aside else 1) - ledger.spend.seconds


def _single(error: Exception) -> Exception:
    decided = decisive(error) if isinstance(error, ExceptionGroup) else error
    return decided if isinstance(decided, Exception) else error


def decisive(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Give the one error to raise for several at once: an interrupt, or the first of ours; else all of them."""
    leaves = list(_leaves(group))
    for kind in (KeyboardInterrupt, trio.Cancelled):
        for leaf in leaves:
            if isinstance(leaf, kind):
                return leaf
    return leaves[0] if len(leaves) == 1 or all(isinstance(leaf, BurnishError) for leaf in leaves) else group


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for inner in error.exceptions:
        yield from _leaves(inner)
