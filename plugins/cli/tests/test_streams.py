"""Streams that take nothing, and displays that fail."""

from __future__ import annotations

import errno
import io
import queue

import pytest

from burnish import RunHandle
from burnish.events import Event, Warned
from burnish_cli.replies import WrongReplies
from burnish_cli.runner import Notes, watched
from burnish_cli.streams import Steady, unprinted


class Broken(io.StringIO):
    """Takes one line, then none."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def write(self, text: str) -> int:
        if self.getvalue():
            raise OSError(self.number, "it broke")
        return super().write(text)


@pytest.mark.parametrize(("number", "told"), [(errno.ENOSPC, "the output could not be written: it broke"), (32, None)])
def test_a_broken_stream_drops_what_it_gets(number: int, told: str | None) -> None:
    """The first error is kept and told, but for that of a reader that has seen enough; nobody who writes meets it."""
    stream = Steady(broken := Broken(number))
    assert unprinted(stream) is None
    for line in ("one\n", "two\n", "three\n"):
        assert len(line) == stream.write(line)
        stream.flush()
    stream.writelines(["four\n"])
    assert ("one\n", told) == (broken.getvalue(), unprinted(stream))


class Failing:
    """A display with a fault."""

    def feed(self, event: Event) -> None:
        raise ZeroDivisionError

    def tick(self) -> None: ...

    def say(self, line: str) -> None: ...

    def close(self) -> None: ...


def test_a_display_that_fails_is_a_note() -> None:
    """The run goes on, no thread prints a traceback, and the summary says so."""
    handle, notes = RunHandle(), Notes()
    with watched(handle, Failing(), WrongReplies(), queue.SimpleQueue(), notes):
        handle._put(Warned(kind="x", message="y"))
        handle._end()
    assert ["the display failed: ZeroDivisionError; please report it"] == notes.lines
