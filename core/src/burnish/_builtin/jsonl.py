"""`sink.jsonl`: a run's events as lines of JSON, `{"n": number, "run": id, "event": {...}}`, or its traces."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import attrs
import trio

from burnish import abc
from burnish._model import codec, trace_text
from burnish._model.events import Event, RolloutLanded
from burnish._runtime.files import try_lock, warn_without_locks
from burnish.errors import StoreError
from burnish.hookspecs import hookimpl

_HEAD = re.compile(rb'\{"n":(\d+),"run":("(?:[^"\\]|\\.)*"),"')
_START = {"events": b'{"n":', "traces": b'{"h":'}
"""How a file of each form begins."""
_END = b'{"n":'
"""How a line begins with which an event is in the file as a whole: its only one, or the last of a trace."""
_BLOCK = 1 << 16
_PATIENCE = 30.0
"""Seconds that another process's lock is waited for."""


Form = Literal["events", "traces"]


@attrs.frozen(kw_only=True)
class JsonlOptions:
    """Options of `sink.jsonl`."""

    path: str = "events.jsonl"
    """The file; relative to the configuration's directory, `~` is the home directory. Runs may share one."""
    form: Form = "events"
    """`events`: one line an event. `traces`: the traces of all rollouts as `burnish.traces.loads_all` reads them, long
    texts cut; a trace's last line has run and number of its event too."""
    hide_env: tuple[str, ...] = ()
    """Environment variables (`OPENAI_API_KEY`) whose values are taken out of all texts, where a prompt, a reply or an
    error repeats them; those that are not set are nothing to hide."""


class JsonlSink:
    """Appends events to a file, each number of a run once.

    How far a run got is read from the file itself, so that nothing else can disagree with it. A line that a killed
    process left unfinished is cut off; its event was not acknowledged and so comes again.
    """

    def __init__(self, path: Path, form: Form = "events", hide: Iterable[str] = ()) -> None:
        self.path = path
        self._form: Form = form
        self._hide = tuple(hide)
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
                end = _whole_length(file, self.path, self._form)
                if cursor is None:
                    cursor = _last_number(file, end, batch.run)
                data, cursor = _new_lines(batch, cursor, self._form, self._hide)
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


def _new_lines(batch: abc.Delivery, cursor: int, form: Form, hide: tuple[str, ...]) -> tuple[bytes, int]:
    lines, shears = [], trace_text.Shears(hide)
    for number, event in batch.events:
        if number > cursor:
            place: dict[str, Any] = {"n": number, "run": batch.run}
            if form == "events":
                plain = codec.unstructure(event, Event)
                plain = shears.json(plain, sys.maxsize) if hide else plain
                lines.append(codec.json_line({**place, "event": plain}))
            elif isinstance(event, RolloutLanded) and event.record.trace is not None:
                first, *others = trace_text.lines(event.record.trace, hide)
                last = others.pop() if others and "f" in others[-1] else {"f": {}}
                lines += map(codec.json_line, (first, *others, {**place, **last}))
            cursor = number
    return "".join(f"{line}\n" for line in lines).encode(), cursor


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


def _whole_length(file: int, path: Path, form: Form) -> int:
    """Give the length up to the last whole event. Raises `StoreError` where the file is not one of ours."""
    size, start = os.fstat(file).st_size, _START[form]
    unfinished = next(_lines_from_end(file, size))
    known = (start,) if form == "events" else (start, _END, b'{"id":')
    first, last = os.pread(file, len(start), 0), unfinished[: len(start)]
    if not start.startswith(first) or not any(text[: len(last)] == last[: len(text)] for text in known):
        what = "an event file" if form == "events" else "a file of traces"
        raise StoreError(f"{path} is not {what} of burnish: name another `path` for sink.jsonl", path=str(path))
    whole = size - len(unfinished)
    if form == "traces":
        lines = _lines_from_end(file, whole)
        next(lines)  # nothing: it ends in a line break
        for line in lines:
            if line.startswith(_END):
                break
            whole -= len(line) + 1
    return whole


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
    options = options or JsonlOptions()
    path = _file(options, env)
    warn_without_locks(path)
    yield JsonlSink(path, options.form, filter(None, map(env.variables.get, options.hide_env)))


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
            summary="a run's events, or its traces, as lines of JSON",
        )
    ]
