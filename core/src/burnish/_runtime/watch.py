"""Naming what blocks the event loop: async code that waits, or computes, on the loop's own thread."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import CodeType, FrameType

import attrs
import trio

from burnish._runtime.invoke import Invoker

HELD = 0.5
"""Seconds in all that a function may hold the loop before it is named."""
LOOK = 0.025
"""Seconds between two looks: a step of a task that is shorter is none of our business."""
INLINE = Invoker._inline.__code__


@attrs.frozen(eq=False)
class _Step:
    """What the loop was seen running: the call by which it entered the user's code, and how deep it has got."""

    entry: FrameType
    code: CodeType
    line: int

    def __str__(self) -> str:
        return f"{self.code.co_filename}:{self.line} (in `{self.code.co_name}`)"


class Watch(trio.abc.Instrument):
    """Looks from a thread at the event loop while a block lasts, and names once what makes all others wait.

    The loop only notes when its turns begin and end. In one turn a task runs at most once: what two looks in a row find
    in the same call has held the loop in between. Imports do not count, as they block once.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        """Give what is to be said to `tell`, on the loop's thread."""
        self._tell = tell
        self._told = False
        self._blocks = 0
        self._ended = threading.Event()
        self._since: float | None = None
        self._held: dict[CodeType, float] = {}
        self._found: str | None = None
        """For how long, and where."""

    @contextmanager
    def on(self) -> Iterator[None]:
        """Watch the loop that runs this; blocks of one loop may overlap."""
        if self._told:
            yield
            return
        self._blocks += 1
        if self._blocks == 1:
            self._begin()
        try:
            yield
        finally:
            self._blocks -= 1
            if not self._blocks:
                self._end()

    def _begin(self) -> None:
        self._since, self._ended = time.perf_counter(), threading.Event()
        trio.lowlevel.add_instrument(self)
        arguments = (threading.get_ident(), self._ended)
        threading.Thread(target=self._look, args=arguments, name="burnish watch", daemon=True).start()

    def _end(self) -> None:
        self._ended.set()
        with suppress(KeyError):
            trio.lowlevel.remove_instrument(self)
        self._say()

    def before_io_wait(self, timeout: float) -> None:
        """Note that a turn has ended."""
        self._since = None

    def after_io_wait(self, timeout: float) -> None:
        """Note that a turn begins. What was found is told here, where tasks may be woken."""
        self._since = time.perf_counter()
        if self._found is not None:
            self._say()

    def _say(self) -> None:
        if self._found is not None and not self._told:
            self._told = True
            self._ended.set()
            self._tell(
                f"async code has held the event loop for {self._found}: no other rollout moves meanwhile; make the "
                "function sync (`def`), so that it runs in a thread of its own, or run what waits there through `await "
                "trio.to_thread.run_sync(...)`"
            )

    def _look(self, thread: int, ended: threading.Event) -> None:
        turn, step, looked = None, None, 0.0
        while not ended.wait(LOOK):
            since, now, seen = self._since, time.perf_counter(), None
            if since is not None and now - since > LOOK:
                seen = _users_step(sys._current_frames().get(thread))
            if seen is not None and step is not None and seen.entry is step.entry and since == turn:
                held = self._held[seen.code] = self._held.get(seen.code, 0.0) + now - looked
                if held >= HELD:
                    self._found = f"{held:.1f} s at {seen}"
            turn, step, looked = since, seen, now


def _users_step(frame: FrameType | None) -> _Step | None:
    """Give what the loop runs of the user's own code; None where it is elsewhere.

    What is marked as inline is left to `invoke`, which times each call of it.
    """
    inner = entry = None
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        package = module.partition(".")[0]
        if package == "importlib" or frame.f_code is INLINE:
            return None
        if module.startswith("trio._core."):
            break
        if not _is_library(package, frame.f_code.co_filename):
            inner, entry = inner or (frame.f_code, frame.f_lineno), frame
        frame = frame.f_back
    return None if inner is None or entry is None else _Step(entry, *inner)


def _is_library(package: str, file: str) -> bool:
    ours = package == "burnish" or package.startswith("burnish_")
    installed = "site-packages" in file or "dist-packages" in file or file.startswith("<")
    return ours or installed or package in sys.stdlib_module_names
