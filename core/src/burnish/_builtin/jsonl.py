"""`sink.jsonl`: a run's events as lines of JSON, `{"n": number, "run": id, "event": {...}}`."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

from burnish import abc
from burnish._model import codec
from burnish._model.events import Event
from burnish._runtime.files import try_lock, warn_without_locks
from burnish.errors import StoreError
from burnish.hookspecs import hookimpl

_HEAD = re.compile(rb'\{"n":(\d+),"run":("(?:[^"\\]|\\.)*"),"event":')
_START = b'{"n":'
_BLOCK = 1 << 16
_PATIENCE = 30.0
"""Seconds that another process's lock is waited for."""


@attrs.frozen(kw_only=True)
class JsonlOptions:
    """Options of `sink.jsonl`."""

    path: str = "events.jsonl"
    """The file; relative to the configuration's directory, `~` is the home directory. Runs may share one."""


class JsonlSink:
    """Appends events to a file, each number of a run once.

    How far a run got is read from the file itself, so that nothing else can disagree with it. A line that a killed
    process left unfinished is cut off; its event was not acknowledged and so comes again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._cursors: dict[str, int] = {}
        self._one_writer = trio.CapacityLimiter(1)

    def __repr__(self) -> str:
        return f"<JsonlSink {self.path}>"

    async def deliver(self, batch: abc.Delivery) -> None:
        """Append what is new of a batch; returns once the disk has it.

        Raises `StoreError` where the file cannot be written or holds something else; nothing of the batch counts as
        delivered then. Cancelled once it writes, it ends after the batch.
        """
        await trio.to_thread.run_sync(self._deliver, batch, limiter=self._one_writer)

    def _deliver(self, batch: abc.Delivery) -> None:
        try:
            with _locked(self.path) as file:
                cursor = self._cursors.get(batch.run)
                end = _whole_length(file, self.path)
                if cursor is None:
                    cursor = _last_number(file, end, batch.run)
                data, cursor = _new_lines(batch, cursor)
                if data:
                    _append(file, end, data)
                self._cursors[batch.run] = cursor
        except OSError as error:
            self._cursors.pop(batch.run, None)
            raise StoreError(
                f"the event file {self.path} cannot be written ({error}): make room or make it writable, or name "
                "another `path` for sink.jsonl; the events will be delivered again",
                path=str(self.path),
            ) from error


def _new_lines(batch: abc.Delivery, cursor: int) -> tuple[bytes, int]:
    lines = []
    run = json.dumps(batch.run)
    for number, event in batch.events:
        if number > cursor:
            text = f'{{"n":{number},"run":{run},"event":{codec.dumps(event, Event)}}}\n'
            # Half a surrogate pair has no UTF-8 form, but it has a JSON escape, and Python writes just that.
            lines.append(text.encode("utf-8", "backslashreplace"))
            cursor = number
    return b"".join(lines), cursor


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o666)
    try:
        _lock(file)
        yield file
    finally:
        os.close(file)


def _lock(file: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not try_lock(file):
        if time.monotonic() >= deadline:
            raise BlockingIOError(errno.EWOULDBLOCK, "another process holds its lock")
        time.sleep(0.01)


def _append(file: int, end: int, data: bytes) -> None:
    os.ftruncate(file, end)
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(file, rest) :]
        os.fsync(file)
    except OSError:
        os.ftruncate(file, end)
        raise


def _whole_length(file: int, path: Path) -> int:
    """Give the length up to the last whole line. Raises `StoreError` where the file is not one of ours."""
    size = os.fstat(file).st_size
    unfinished = next(_lines_from_end(file, size))
    for text in (os.pread(file, len(_START), 0), unfinished[: len(_START)]):
        if not _START.startswith(text):
            raise StoreError(
                f"{path} is not an event file of burnish: name another `path` for sink.jsonl", path=str(path)
            )
    return size - len(unfinished)


def _last_number(file: int, end: int, run: str) -> int:
    """Give the number of a run's last line before `end`; -1 where it has none."""
    name = json.dumps(run).encode()
    for line in _lines_from_end(file, end):
        head = _HEAD.match(line)
        if head is not None and head[2] == name:
            return int(head[1])
    return -1


def _lines_from_end(file: int, end: int) -> Iterator[bytes]:
    """Give the lines before `end`, last first: what follows the last line break comes first, and may be empty."""
    line, position = b"", end
    while position > 0:
        start = max(0, position - _BLOCK)
        first, *later = (os.pread(file, position - start, start) + line).split(b"\n")
        yield from reversed(later)
        line, position = first, start
    yield line


@asynccontextmanager
async def open_jsonl(options: JsonlOptions | None, env: abc.Environment) -> AsyncIterator[JsonlSink]:
    """Make the sink of a file; the file is made with the first batch, and each batch is on disk when told."""
    path = _file(options or JsonlOptions(), env)
    warn_without_locks(path)
    yield JsonlSink(path)


def _file(options: JsonlOptions, env: abc.Environment) -> Path:
    return (env.base_dir / Path(options.path).expanduser()).absolute()


@hookimpl
def burnish_sinks() -> Iterable[abc.Spec[abc.Sink]]:
    """Offer `sink.jsonl`."""
    return [
        abc.Spec(
            name="jsonl",
            open=open_jsonl,
            options=JsonlOptions,
            capabilities={"persistent", "deduplicates"},
            summary="a run's events as lines of JSON",
        )
    ]
