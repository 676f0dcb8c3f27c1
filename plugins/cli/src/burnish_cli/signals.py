"""What signals mean: the first ends the search, a second the run, and where a thread hangs then, the process."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import attrs
import trio

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
SLOW = 1.0
"""Seconds after the first signal before what is being waited for is named."""
PATIENCE = 5.0
"""Seconds after the second signal before the process ends."""
OWN = frozenset({"burnish", "contextlib", "contextvars", "outcome", "threading", "trio"})


class Halt:
    """Ends a trio run from any thread; one that was asked for before the run began ends it then."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted = False
        self._reached: tuple[trio.lowlevel.TrioToken, trio.CancelScope] | None = None

    def reach(self, scope: trio.CancelScope) -> None:
        """Say what to cancel; called inside the run."""
        with self._lock:
            self._reached = trio.lowlevel.current_trio_token(), scope
            if self._wanted:
                scope.cancel()

    def now(self) -> None:
        """Cancel it."""
        with self._lock:
            self._wanted, reached = True, self._reached
        if reached is not None:
            with contextlib.suppress(trio.RunFinishedError):
                reached[0].run_sync_soon(reached[1].cancel)


@attrs.frozen(kw_only=True)
class Heed:
    """What is done at which signal, in a thread of its own: none of it may hang on the run or on the terminal."""

    first: Callable[[], None]
    second: Callable[[], None]
    rescue: Callable[[str], None]
    """Write what can be written, and say so; it gets what the run hangs on, and five seconds."""
    say: Callable[[str], None]
    code: int
    """The exit code of a process that is given up."""

    def watch(self, received: queue.SimpleQueue[int | None]) -> None:
        """Take signals until None comes."""
        if received.get() is None:
            return
        self.say("stopping, the best so far is kept; interrupt again to stop at once")
        self.first()
        if self._again(received) is None:
            return
        self.say("stopping at once")
        self.second()
        with contextlib.suppress(queue.Empty):
            if received.get(timeout=PATIENCE) is None:
                return
        worker = threading.Thread(target=self.rescue, args=[waited_for()], daemon=True)
        worker.start()
        worker.join(PATIENCE)
        os._exit(self.code)

    def _again(self, received: queue.SimpleQueue[int | None]) -> int | None:
        try:
            return received.get(timeout=SLOW)
        except queue.Empty:
            self.say(f"waiting for {waited_for()} to return; interrupt again to stop at once")
            return received.get()


@contextlib.contextmanager
def heeded(heed: Heed) -> Iterator[None]:
    """Heed SIGINT, SIGTERM and SIGHUP while the block runs, but for those that the process ignores (`nohup`, `&`).

    Outside the main thread, where Python takes no signals, nothing is done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: queue.SimpleQueue[int | None] = queue.SimpleQueue()  # the one queue that a signal handler may use

    def take(number: int, _: FrameType | None) -> None:
        if number == getattr(signal, "SIGHUP", None):
            signal.signal(number, signal.SIG_IGN)  # shell and kernel both send it: that is no second wish
        received.put(number)

    numbers = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    thread = threading.Thread(target=heed.watch, args=[received], name="burnish signals", daemon=True)
    thread.start()
    for number in (number for number in numbers if before[number] is not signal.SIG_IGN):
        signal.signal(number, take)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        received.put(None)
        thread.join(PATIENCE)


def waited_for() -> str:
    """Name the user's code that runs in worker threads, or that holds the loop: neither can be interrupted."""
    found = [place for frame in sys._current_frames().values() if (place := _place(frame)) is not None]
    return ", ".join(dict.fromkeys(found)) or "the calls under way"


def _place(frame: FrameType | None) -> str | None:
    """Give the outermost frame of the user's below trio's, as function, file and line."""
    stack: list[FrameType] = []
    while frame is not None:
        stack.append(frame)
        frame = frame.f_back
    below = False
    for outer in reversed(stack):
        package = str(outer.f_globals.get("__name__", "")).partition(".")[0]
        below = below or package == "trio"
        if below and package not in OWN and not package.startswith("burnish_"):
            name = Path(outer.f_code.co_filename).name
            return f"`{outer.f_code.co_qualname}` ({name}:{outer.f_lineno})"
    return None
