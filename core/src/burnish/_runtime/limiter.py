"""One limiter a model: how many calls at once, when the next may start, and who goes first."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import trio

from burnish import abc

PRIORITY = {"proposer": 0}
"""Roles that go first: everything else waits for a proposal. Others have 1."""
NOTABLE = 5.0
"""Seconds from which on a pause is told: a run that only waits looks like one that hangs."""

UNLIMITED = 1_000_000
"""Calls at once where the model says no number, as long as the provider says nothing either."""

Told = Callable[[float, str], None]
"""Called once a pause with its seconds and the reason for it."""


class Limiter:
    """Shares one model among all roles of a run.

    The number of calls at once halves on a 429 and grows back by one for every full round of answers. While the
    provider has asked for a pause, nobody starts; waiting holds no slot.
    """

    def __init__(self, max_in_flight: int | None, told: Told | None = None) -> None:
        self._told = told
        self._ceiling = max_in_flight if max_in_flight is not None else UNLIMITED
        self._allowed = float(self._ceiling)
        self._in_flight = 0
        self._not_before = 0.0
        self._shrunk = float("-inf")
        self._queue: list[tuple[int, int, trio.Event]] = []
        self._arrivals = 0

    @property
    def in_flight(self) -> int:
        return self._in_flight

    def slot(self, role: str) -> Slot:
        """Hold one of the model's slots inside the block. Cancelled while waiting, it leaves the queue."""
        return Slot(self, PRIORITY.get(role, 1))

    def _paused(self) -> bool:
        return self._not_before > 0 and self._not_before > trio.current_time()

    def pause(self, seconds: float, why: str = "") -> None:
        """Let nobody start for so long; told where that is `NOTABLE` seconds more than was known before."""
        known = max(self._not_before, trio.current_time())
        self._not_before = max(known, trio.current_time() + seconds)
        if self._told is not None and self._not_before - known > NOTABLE:
            self._told(seconds, why)

    def shrink(self, began: float) -> None:
        """Halve the calls at once: the provider said that there were too many when a call began.

        Calls that began before the last halving belong to the same burst and do not halve again.
        """
        if began < self._shrunk:
            return
        self._shrunk = trio.current_time()
        self._allowed = max(1.0, min(self._allowed, float(max(1, self._in_flight))) / 2)

    def grow(self) -> None:
        """Let one more in for every full round of answers, up to the model's own limit."""
        if self._allowed < self._ceiling:
            self._allowed = min(float(self._ceiling), self._allowed + 1.0 / max(1.0, self._allowed))

    async def acquire(self, priority: int) -> None:
        """Take a slot, to be given back by `give_back`."""
        self._arrivals += 1
        arrival = self._arrivals
        if self._allowed >= UNLIMITED and not self._paused():  # nobody has to queue
            self._in_flight += 1
            try:
                await trio.lowlevel.checkpoint()
            except BaseException:
                self.give_back()
                raise
            if not self._paused():
                return
            self.give_back()
        while True:
            await self._take_turn(priority, arrival)
            if not self._paused():
                return
            self.give_back()  # a pause began while it stood in the queue: it is waited for without a slot
            await trio.sleep_until(self._not_before)

    async def _take_turn(self, priority: int, arrival: int) -> None:
        event = trio.Event()
        entry = (priority, arrival, event)
        heapq.heappush(self._queue, entry)
        try:
            await trio.lowlevel.checkpoint()  # all who wake from one pause stand in the queue before the first goes on
            self._wake()
            await event.wait()
        except BaseException:
            if event.is_set():
                self.give_back()
            else:
                self._queue.remove(entry)
                heapq.heapify(self._queue)
            raise

    def give_back(self) -> None:
        """Let the next one in."""
        self._in_flight -= 1
        self._wake()

    def _wake(self) -> None:
        while self._queue and self._in_flight < int(self._allowed):
            self._in_flight += 1
            heapq.heappop(self._queue)[2].set()


class Slot:
    """A slot for the length of a block: by hand, since each call takes one and a generator would take its time."""

    __slots__ = ("_limiter", "_priority")

    def __init__(self, limiter: Limiter, priority: int) -> None:
        self._limiter, self._priority = limiter, priority

    async def __aenter__(self) -> None:
        await self._limiter.acquire(self._priority)

    async def __aexit__(self, *_: object) -> None:
        self._limiter.give_back()


class Limits:
    """The limiters of one run, by the key that models share.

    Another event loop has another clock, so an engine that is used in one after the other begins anew in each.
    """

    def __init__(self, told: Told | None = None) -> None:
        self._told = told
        self._loop: trio.lowlevel.TrioToken | None = None
        self._limiters: dict[str, Limiter] = {}

    def of(self, limits: abc.ModelLimits) -> Limiter:
        """Give the limiter of a model."""
        loop = trio.lowlevel.current_trio_token()
        if loop is not self._loop:
            self._loop, self._limiters = loop, {}
        limiter = self._limiters.get(limits.key)
        if limiter is None:
            limiter = self._limiters[limits.key] = Limiter(limits.max_in_flight, self._told)
        return limiter
