"""Sinks follow the run store with a cursor: they never slow or break a run, and catch up after an outage."""

from __future__ import annotations

from functools import partial

import trio

from burnish import abc
from burnish._runtime.blame import stops
from burnish._runtime.fanout import Detached
from burnish._runtime.log import log
from burnish._runtime.run_store import RunStore
from burnish.errors import first_line

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 30.0
GRACE = 0.1
"""Of the time to drain: what a sink has to end when it is cancelled."""


class Follower:
    """Delivers one run's committed events to one sink, in order and at least once."""

    def __init__(self, store: RunStore, sink: abc.Sink, run: str, name: str) -> None:
        self._store, self._sink, self._run, self._name = store, sink, run, name
        self._cursor = 0
        self._told = False
        self._under_way: tuple[Detached, int] | None = None
        """A delivery, and the number of its last event."""

    async def follow(self) -> None:
        """Deliver until cancelled; what the sink raises is logged once, and the batch comes again later.

        Cancelled, it waits for no sink: what is being delivered then is left to `drain`.
        """
        pause = FIRST_PAUSE
        while True:
            await self._store.wait_beyond(self._cursor)
            if await self._deliver():
                pause = FIRST_PAUSE
            else:
                await trio.sleep(pause)
                pause = min(LONGEST_PAUSE, pause * 2)

    async def drain(self, seconds: float = 5.0) -> bool:
        """Deliver what is left, for at most so long; says whether the sink has everything.

        A sink that is not done then is cancelled; one that does not end on that either is left behind.
        """
        ended = True
        with trio.CancelScope(shield=True):
            with trio.move_on_after(seconds * (1 - GRACE)):
                while self._cursor < self._store.committed:
                    if not await self._deliver():
                        break
            if self._under_way is not None:
                ended = await self._under_way[0].end(seconds * GRACE)
        behind = self._store.committed - self._cursor
        if behind:
            log.warning("a sink did not get the last events; they are in the run store", sink=self._name, events=behind)
        if not ended:
            what = "a sink does not end on its cancellation; only the event loop waits for it, when it closes"
            log.warning(what, sink=self._name)
        return not behind

    async def _deliver(self) -> bool:
        try:
            if self._under_way is None:
                events = await self._store.read(self._cursor)
                if not events:
                    return True
                batch = abc.Delivery(run=self._run, events=tuple(events))
                self._under_way = Detached(partial(self._sink.deliver, batch)), events[-1][0]
            call, last = self._under_way
            await call.wait()
        except BaseException as error:  # also where the store cannot be read: following a run never breaks it
            stop = stops(error)
            if stop is not None:
                raise stop from None
            self._under_way = None
            if not self._told:
                self._told = True
                log.warning("a sink failed; its events will come again", sink=self._name, error=first_line(error))
            return False
        self._under_way, self._cursor = None, last
        return True
