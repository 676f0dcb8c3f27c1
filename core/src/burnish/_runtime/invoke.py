"""Calling what users wrote: sync or async, in a worker thread or on the loop."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar, cast

import attrs
import trio

from burnish._runtime.log import log
from burnish.errors import UsageError

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

HOLD_LIMIT = 0.050
"""Seconds that inline code may hold the loop before it is named."""

PATIENCE = 5.0
"""Seconds that a cancellation waits for sync code to return before it is left behind."""


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


def is_inline(function: Callable[..., Any]) -> bool:
    """Whether sync code runs on the loop, by its own mark or that of the object that it belongs to."""
    owner = getattr(function, "__self__", None)
    marked = getattr(function, "__burnish_inline__", False) or getattr(owner, "__burnish_inline__", False)
    return bool(marked) and not is_async(function)


@attrs.define(eq=False)
class _Caller:
    """Who waits for sync code in a worker thread: the async code that it calls ends when its caller is cancelled."""

    token: trio.lowlevel.TrioToken
    scopes: set[trio.CancelScope] = attrs.field(factory=set)
    started: bool = False
    cancelled: bool = False

    def cancel(self) -> None:
        """End the async code that the thread runs now, and whatever it starts from now on."""
        self.cancelled = True
        for scope in self.scopes:
            scope.cancel()


_caller: ContextVar[_Caller | None] = ContextVar("burnish_caller", default=None)


def must_be_trio() -> None:
    """Say which event loop burnish runs on, where it is another. Raises `UsageError`."""
    if not trio.lowlevel.in_trio_run():
        raise UsageError(
            "burnish runs on trio, and no trio is running here (is this asyncio?): call it with `trio.run`, or in a "
            "thread, as in `await asyncio.to_thread(program.sync, question=...)` or "
            "`await asyncio.to_thread(burnish.optimize, ...)`"
        )


async def in_thread(call: Callable[[], T], limiter: trio.CapacityLimiter | None = None) -> T:
    """Run sync code in a worker thread with the caller's context.

    It cannot be interrupted: a cancellation ends the async code that it calls, waits five seconds for it to return, and
    then leaves it behind; what it gives after that is lost. Where it returns in time, its result counts.

    Without a `limiter` nothing waits for a thread: who calls bounds how many run at once. The limiter that trio shares
    would cap them all at 40, and a thread that has the loop run something in a further thread could wait for ever.
    """
    must_be_trio()
    done, caller = trio.Event(), _Caller(trio.lowlevel.current_trio_token())
    outcomes: list[tuple[T | None, BaseException | None]] = []

    def run() -> None:
        caller.started = True  # before the look at `cancelled`: either the caller waits, or nothing is called
        _caller.set(caller)
        try:
            if not caller.cancelled:
                outcomes.append((call(), None))
        except BaseException as error:
            outcomes.append((None, error))
        with suppress(trio.RunFinishedError):
            caller.token.run_sync_soon(done.set)

    try:
        await trio.to_thread.run_sync(run, limiter=limiter or trio.CapacityLimiter(1), abandon_on_cancel=True)
    except trio.Cancelled:
        caller.cancel()
        with trio.move_on_after(PATIENCE if caller.started else 0, shield=True) as waiting:
            await done.wait()
        if caller.started and waiting.cancelled_caught:
            log.warning("sync code did not return when it was cancelled and was left behind", seconds=PATIENCE)
        if not outcomes:
            raise
    value, error = outcomes.pop()
    try:
        if error is not None:
            raise error
    finally:
        del error  # its traceback holds this frame
    return cast("T", value)


async def for_caller(call: Callable[[], Awaitable[T]]) -> T:
    """Run async code that sync code in a worker thread calls: it is cancelled with whoever waits for that thread."""
    caller = _caller.get()
    if caller is None or caller.token is not trio.lowlevel.current_trio_token():
        return await call()
    ended: BaseException | None = None
    with trio.CancelScope() as scope:
        caller.scopes.add(scope)
        if caller.cancelled:
            scope.cancel()
        try:
            return await call()
        except BaseException as error:
            ended = error
            raise
        finally:
            caller.scopes.discard(scope)
    assert ended is not None
    try:
        raise ended  # once more: the scope ended the cancellation, and the thread has to see it
    finally:
        del ended


class Invoker:
    """Runs callables of one run: it owns the run's worker threads and remembers whom it has named."""

    def __init__(self, threads: int | None) -> None:
        """Run at most so many sync callables at once; None leaves that to who calls."""
        self._threads = None if threads is None else trio.CapacityLimiter(max(1, threads))
        self._named: set[str] = set()

    def bind(self, function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        """Make an async function of whatever it is; how it has to be called is found out once.

        Sync code runs as in `in_thread`. What is called raises what the callable raises.
        """
        if is_async(function):
            return function
        if is_inline(function):
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

    def _inline(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
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
