"""The standard streams of the command: closed, full or without a reader, they cost no run."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TextIO, cast


class Steady:
    """A text stream that never fails: from its first error on it drops what it gets, and keeps the error.

    A program under tuning that prints must not score 0 because nobody reads what it prints.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.error: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write, if the stream still takes anything."""
        self._try(lambda: self._stream.write(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each line."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush, if the stream still takes anything."""
        self._try(self._stream.flush)

    def _try(self, call: Callable[[], object]) -> None:
        if self.error is None:
            try:
                call()
            except OSError as error:
                self.error = error


@contextlib.contextmanager
def steady_streams() -> Iterator[Steady]:
    """Put steady streams in the place of stdout and stderr inside the block; gives that of stdout."""
    _occupy()
    out, err = Steady(_opened(sys.stdout)), Steady(_opened(sys.stderr))
    with contextlib.redirect_stdout(cast("TextIO", out)), contextlib.redirect_stderr(cast("TextIO", err)):
        try:
            yield out
        finally:
            out.flush()
            for stream in (out, err):
                if stream.error is not None:
                    _silence(stream)


def unprinted(out: Steady) -> str | None:
    """Say why the output did not get out; a reader that has seen enough (`| head -1`) is no fault."""
    error = out.error
    if error is None or error.errno == errno.EPIPE:
        return None
    return f"the output could not be written: {error.strerror or error}"


def _occupy() -> None:
    """Take the numbers of closed standard streams, which the next file would get, and then what is written to them."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _opened(stream: TextIO | None) -> TextIO:
    """A stream that was closed from the start (`2>&-`) is None."""
    return open(os.devnull, "w", encoding="utf-8") if stream is None else stream


def _silence(stream: Steady) -> None:
    """Let what is left in the buffer go nowhere: the interpreter's last flush would fail too, with exit code 120."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
