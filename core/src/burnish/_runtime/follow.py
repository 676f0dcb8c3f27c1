"""Sinks follow the run store with a cursor: they never slow or break a run, and catch up after an outage."""

from __future__ import annotations

import trio

from burnish import abc
from burnish._runtime.log import log
from burnish._runtime.run_store import RunStore
from burnish.errors import first_line

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 30.0


class Follower:
    """Delivers one run's committed events to one sink, in order and at least once."""

    def __init__(self, store: RunStore, sink: abc.Sink, run: str, name: str) -> None:
        self._store, self._sink, self._run, self._name = store, sink, run, name
        self._cursor = 0
        self._told = False

    async def follow(self) -> None:
        """Deliver until cancelled; what the sink raises is logged once, and the batch comes again later."""
        pause = FIRST_PAUSE
        while True:
            await self._store.wait_beyond(self._cursor)
            if await self._deliver():
                pause = FIRST_PAUSE
            else:
                await trio.sleep(pause)
                pause = min(LONGEST_PAUSE, pause * 2)

    async def drain(self, seconds: float = 5.0) -> bool:
        """Deliver what is left, for at most so long; says whether the sink has everything."""
        with trio.move_on_after(seconds, shield=True):
            while self._cursor < self._store.committed:
                if not await self._deliver():
                    break
        behind = self._store.committed - self._cursor
        if behind:
            log.warning("a sink did not get the last events; they are in the run store", sink=self._name, events=behind)
        return not behind

    async def _deliver(self) -> bool:
        try:
            events = await self._store.read(self._cursor)
            if not events:
                return True
            await self._sink.deliver(abc.Delivery(run=self._run, events=tuple(events)))
        except Exception as error:  # also where the store cannot be read: following a run never breaks it
            if not self._told:
                self._told = True
                log.warning("a sink failed; its events will come again", sink=self._name, error=first_line(error))
            return False
        self._cursor = events[-1][0]
        return True
