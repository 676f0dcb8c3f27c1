"""What the conformance classes share: async tests as plain functions, capabilities, and ways to look for harm."""

from __future__ import annotations

import inspect
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Generic, NoReturn, TypeVar

import attrs
import trio

from burnish.errors import UsageError, unwrap

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

LONGEST_STEP = 0.05
"""Seconds for which one task may hold the event loop."""


@attrs.frozen
class Xfail:
    """Stands in a subclass for a test that is known to fail, and must fail."""

    reason: str

    def __call__(self, function: Callable[..., Any]) -> Xfail:
        """Mark a method that stands in the test's place; the inherited test is what runs."""
        return self


def xfail(reason: str) -> Xfail:
    """Say that a plugin fails one test, and why: `test_name = xfail(reason="...")`, or as a decorator.

    The test still runs; when it passes one day, that is reported as a failure, so that the mark goes.
    """
    if not reason.strip():
        raise UsageError("xfail needs a reason: it is what the next reader has")
    return Xfail(reason)


def needs(*capabilities: str) -> Callable[[F], F]:
    """Mark a test of a kind as one for plugins with these capabilities only."""

    def mark(function: F) -> F:
        function.burnish_needs = frozenset(capabilities)  # type: ignore[attr-defined]
        return function

    return mark


class Conformance(Generic[T]):
    """Base of the conformance classes. `open` is what a plugin's author writes.

    The tests are written as async methods and become plain functions that run trio themselves, when a subclass is
    defined: no plugin of pytest can take them over, and pytest itself is not needed to import them. A test of a
    capability that the subclass does not claim is not there; nothing is ever skipped. To override a test is an error,
    but for `xfail`.
    """

    capabilities: ClassVar[Collection[str]] = frozenset()
    """What the plugin claims: the same names as in its `Spec`, and what the class's docstring lists."""
    known_capabilities: ClassVar[frozenset[str]] = frozenset()
    patience: ClassVar[float] = 60.0
    """Seconds after which a test has failed."""
    _tests: ClassVar[Mapping[str, Callable[..., Any]]] = {}
    _xfails: ClassVar[Mapping[str, Xfail]] = {}

    def open(self, tmp_path: Path) -> AbstractAsyncContextManager[T]:
        """Open an instance; those opened with one `tmp_path` share what they keep, with another they share nothing."""
        raise NotImplementedError(f"{type(self).__name__} must define `open(self, tmp_path)`")

    def __init_subclass__(cls, kind: frozenset[str] | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if kind is not None:
            cls.known_capabilities = kind
            cls._tests = {name: getattr(cls, name) for name in dir(cls) if _is_async_test(cls, name)}
            return
        unknown = sorted(set(cls.capabilities) - cls.known_capabilities)
        if unknown:
            raise UsageError(
                f"{cls.__qualname__} claims {', '.join(unknown)}; its kind knows {', '.join(cls.known_capabilities)}"
            )
        cls._xfails = {**cls._xfails, **_own_xfails(cls)}
        for name, function in cls._tests.items():
            claimed = getattr(function, "burnish_needs", frozenset()) <= set(cls.capabilities)
            setattr(cls, name, _plain(function, cls._xfails.get(name)) if claimed else None)
        for name in [n for n in vars(cls) if n not in cls._tests and _is_async_test(cls, n)]:
            setattr(cls, name, _plain(getattr(cls, name), None))


def _is_async_test(cls: type, name: str) -> bool:
    return name.startswith("test_") and inspect.iscoroutinefunction(getattr(cls, name))


def _own_xfails(cls: type[Conformance[Any]]) -> dict[str, Xfail]:
    """Give the tests that this class or a mixin marks; a mark is the only thing that may stand in a test's place."""
    marks: dict[str, Xfail] = {}
    for owner in cls.__mro__:
        if owner is not cls and issubclass(owner, Conformance):
            continue
        for name in vars(owner).keys() & cls._tests.keys():
            mark = vars(owner)[name]
            if not isinstance(mark, Xfail):
                raise UsageError(
                    f"{owner.__qualname__} overrides the conformance test `{name}`; a plugin that fails it says so: "
                    f'`{name} = xfail(reason="...")`'
                )
            marks.setdefault(name, mark)
    return marks


def _plain(function: Callable[..., Any], mark: Xfail | None) -> Callable[..., None]:
    """Make a plain function of an async test: with its name, and its signature, by which pytest finds fixtures."""

    def test(self: Conformance[Any], *args: Any, **fixtures: Any) -> None:
        async def bounded() -> None:
            with trio.fail_after(self.patience):
                await function(self, *args, **fixtures)

        try:
            trio.run(bounded)
        except Exception as error:
            if mark is not None:
                _failed_as_expected(mark.reason)
                return
            if unwrap(error) is error:
                raise
            raise unwrap(error)  # noqa: B904 - the group around it says nothing more
        if mark is not None:
            raise AssertionError(f"{function.__name__} passes; remove its xfail ({mark.reason})")

    test.__name__, test.__qualname__, test.__doc__ = function.__name__, function.__qualname__, function.__doc__
    test.__module__ = function.__module__
    test.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return test


def _failed_as_expected(reason: str) -> None:
    try:
        import pytest
    except ImportError:
        return
    pytest.xfail(reason)


# --- looking for harm --------------------------------------------------------------------------------------------


def fail(why: str) -> NoReturn:
    """End the test: this is what a user would meet."""
    raise AssertionError(why)


def expect(expected: object, actual: object, why: str) -> None:
    """Compare; `why` says what it means for a user if they differ."""
    if expected != actual:
        fail(f"{why}\n  expected: {_short(expected)}\n  actual:   {_short(actual)}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:200]} ... {text[-90:]}"


class _StepClock(trio.abc.Instrument):
    """Measures for how long tasks hold the loop."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.name = ""
        self._began = time.perf_counter()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = time.perf_counter()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        held = time.perf_counter() - self._began
        if held > self.longest:
            self.longest, self.name = held, task.name


async def check_loop_is_free(work: Callable[[], Awaitable[object]], limit: float = LONGEST_STEP) -> None:
    """Fail where the work holds the event loop for longer than `limit` seconds at a stretch.

    A machine under load can stall any step, so that only three long steps in three tries count.
    """
    for _ in range(3):
        clock = _StepClock()
        trio.lowlevel.add_instrument(clock)
        try:
            await work()
            await trio.lowlevel.checkpoint()
        finally:
            trio.lowlevel.remove_instrument(clock)
        if clock.longest <= limit:
            return
    fail(
        f"the event loop stood still for {clock.longest * 1000:.0f} ms in {clock.name}: every other rollout waits "
        f"meanwhile (at most {limit * 1000:.0f} ms); call what blocks with trio.to_thread.run_sync"
    )


@asynccontextmanager
async def check_nothing_is_left() -> AsyncIterator[None]:
    """Fail where tasks, threads or open files are left two seconds after the block."""
    tasks, threads, files = _tasks(), _threads(), _files()
    yield
    with trio.move_on_after(2):
        while _tasks() > tasks or _threads() - threads or _files() > files:  # noqa: ASYNC110 - nobody tells us
            await trio.sleep(0.005)
    expect(tasks, _tasks(), "tasks are left after closing: cancel them, or wait for them, before `open` ends")
    left = sorted(thread.name for thread in _threads() - threads)
    expect([], left, "threads are left after closing: end them before `open` ends")
    if _files() > files:
        fail(f"{_files() - files} open files are left after closing: a nightly service runs out of them")


def _tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


def _threads() -> set[threading.Thread]:
    """Give the threads, but for trio's own idle workers, which end by themselves."""
    return {t for t in threading.enumerate() if not t.name.startswith("Trio thread")}


def _files() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0
