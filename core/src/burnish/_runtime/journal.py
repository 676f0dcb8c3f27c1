"""Where a run's events go: into the run store, and to whoever watches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from burnish._model.events import Event
from burnish._runtime.run_store import RunStore


class Journal(Protocol):
    """Takes events in order; `flush` returns when they are safe."""

    def emit(self, event: Event) -> None: ...

    async def flush(self) -> None: ...


class RunJournal:
    """The journal of a run: its store, then its watcher."""

    def __init__(self, store: RunStore, watch: Callable[[Event], None] | None = None) -> None:
        self._store, self._watch = store, watch

    def emit(self, event: Event) -> None:
        self._store.append(event)
        if self._watch is not None:
            self._watch(event)

    async def flush(self) -> None:
        await self._store.flush()
