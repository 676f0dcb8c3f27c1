"""`cache.memory`: rollouts in memory, gone with the process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from burnish import abc
from burnish._runtime.rollout_cache import RolloutCache
from burnish.hookspecs import hookimpl


@asynccontextmanager
async def open_memory(options: None, env: abc.Environment) -> AsyncIterator[RolloutCache]:
    """Open an empty cache; closing it forgets everything."""
    yield RolloutCache()


@hookimpl
def burnish_caches() -> Iterable[abc.Spec[abc.Cache]]:
    """Offer `cache.memory`."""
    return [abc.Spec(name="memory", open=open_memory, summary="rollouts in memory, gone with the process")]
