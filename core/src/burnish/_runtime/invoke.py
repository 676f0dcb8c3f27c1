"""Calling what users wrote: sync or async, in a worker thread or on the loop."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import trio

from burnish._runtime.log import log

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

HOLD_LIMIT = 0.050
"""Seconds that inline code may hold the loop before it is named."""


def inline(function: F) -> F:
    """Mark a sync metric or model as quick, so that it runs on the loop instead of in a worker thread.

    A hop to a thread costs about 0.26 ms; code that takes longer, or waits for anything, must not be marked.
    """
    function.__burnish_inline__ = True  # type: ignore[attr-defined]
    return function


def exposed(function: F) -> F:
    """Mark a function so that a configuration may name it as `module:attribute`.

    A configuration is data: without the mark it could call whatever can be imported. Objects of burnish (programs,
    metrics, models) need none.
    """
    function.__burnish_exposed__ = True  # type: ignore[attr-defined]
    return function


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling gives an awaitable by declaration: an async function, method, or object with async `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


async def in_thread(call: Callable[[], T], limiter: trio.CapacityLimiter | None = None) -> T:
    """Run sync code in a worker thread with the caller's context; cancellation waits for it to return.

    Without a `limiter` nothing waits for a thread: who calls bounds how many run at once. The limiter that trio shares
    would cap them all at 40, and a thread that has the loop run something in a further thread could wait for ever.
    """
    # in a tuple, as trio refuses what gives a coroutine back: `lambda e, p: judge(e, p)` is fine here
    (result,) = await trio.to_thread.run_sync(lambda: (call(),), limiter=limiter or trio.CapacityLimiter(1))
    return result


class Invoker:
    """Runs callables of one run: it owns the run's worker threads and remembers whom it has named."""

    def __init__(self, threads: int | None) -> None:
        """Run at most so many sync callables at once; None leaves that to who calls."""
        self._threads = None if threads is None else trio.CapacityLimiter(max(1, threads))
        self._named: set[str] = set()

    def bind(self, function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        """Make an async function of whatever it is; how it has to be called is found out once.

        Sync code runs in a worker thread with the caller's context; it cannot be interrupted, so cancellation waits for
        it to return. What is called raises what the callable raises.
        """
        if is_async(function):
            return function
        owner = getattr(function, "__self__", None)
        if getattr(function, "__burnish_inline__", False) or getattr(owner, "__burnish_inline__", False):
            return self._on_loop(function)
        return self._in_thread(function)

    def _on_loop(self, function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            result = self._inline(function, *args, **kwargs)
            return await result if inspect.isawaitable(result) else result

        return call

    def _in_thread(self, function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            result = await in_thread(partial(function, *args, **kwargs), self._threads)
            return await result if inspect.isawaitable(result) else result

        return call

    def _inline(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            held = time.perf_counter() - began
            name = getattr(function, "__qualname__", type(function).__name__)
            if held > HOLD_LIMIT and name not in self._named:
                self._named.add(name)
                log.warning(
                    "inline code held the loop; without @burnish.inline it would run in a thread",
                    function=name,
                    milliseconds=round(held * 1000),
                )
