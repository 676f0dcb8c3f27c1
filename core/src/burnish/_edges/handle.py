"""Watching and cancelling a run from outside."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

import trio

from burnish._model.events import Event


class RunHandle:
    """Give one to `optimize` or `aoptimize` as `handle=`; every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope: trio.CancelScope | None = None
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()

    def cancel(self) -> None:
        """End the search soon: what is in flight is cancelled, the best so far is kept and returned."""
        with self._lock:
            self._cancelled = True
            token, scope = self._token, self._scope
        if token is not None and scope is not None:
            try:
                token.run_sync_soon(scope.cancel)
            except trio.RunFinishedError:
                return

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    @property
    def events(self) -> Iterator[Event]:
        """Give the run's events as they happen, until it ends; waits for the next one. For one reader."""
        while (event := self._events.get()) is not None:
            yield event

    def _enter(self, scope: trio.CancelScope) -> None:
        with self._lock:
            self._token, self._scope = trio.lowlevel.current_trio_token(), scope
            if self._cancelled:
                scope.cancel()

    def _leave(self) -> None:
        with self._lock:
            self._token = self._scope = None

    def _put(self, event: Event) -> None:
        self._events.put(event)

    def _end(self) -> None:
        self._events.put(None)
