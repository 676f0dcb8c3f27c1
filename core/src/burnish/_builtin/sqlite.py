"""`cache.sqlite`: rollouts in one SQLite file that several processes may use at once.

What a returned `put_many` stored survives the end of the process, however it ends (write-ahead log, one commit for all
batches that wait). After a power cut the last commits may be gone; the file stays whole. It belongs on a local disk:
SQLite's write-ahead log does not work on network file systems.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from burnish import abc
from burnish._builtin._sqlite_file import Database
from burnish._builtin._sqlite_reader import Reader
from burnish._builtin._sqlite_writer import Writer
from burnish._runtime.log import Log
from burnish.errors import ConfigError, UsageError
from burnish.hookspecs import hookimpl

CLOSING_SECONDS = 30.0
"""How long closing waits for the last commits, cancelled or not."""

log = Log("burnish.cache")


def _positive(_: object, attribute: attrs.Attribute[Any], value: float | None) -> None:
    if value is not None and not value > 0:
        raise ConfigError(f"{attribute.name} of cache.sqlite must be above 0, or left out; it is {value!r}")


@attrs.frozen(kw_only=True)
class SqliteOptions:
    """Options of `cache.sqlite`."""

    path: str = "burnish-cache.db"
    """The file; relative to the configuration's directory, `~` is the home directory."""
    max_age: float | None = attrs.field(default=None, validator=_positive)
    """Seconds after which a record is no answer any more; None: never. It stays in the file until it is replaced."""
    max_trace_bytes: int | None = attrs.field(default=1 << 30, validator=_positive)
    """Bytes that traces may take up in the file, packed; beyond it the oldest go, and their scores stay. None: any."""


class SqliteCache:
    """The open cache. One thread writes, another reads; the trio thread never waits for the disk.

    A row whose checksum does not fit is absent. A file that is not ours or is damaged is left alone, with a warning,
    and `<name>.<n>.db` beside it is used; the next run finds it by the same rule. Raises `StoreError`, with `path`,
    where nothing can be read or written there.
    """

    def __init__(
        self,
        database: Database,
        connection: sqlite3.Connection,
        reader: Reader,
        max_trace_bytes: int | None = None,
    ) -> None:
        self._database = database
        self._writer = Writer(database, connection, max_trace_bytes)
        self._reader = reader
        self._one_reader = trio.CapacityLimiter(1)
        self._closed = False

    def __repr__(self) -> str:
        return f"<SqliteCache {self.path}{' (closed)' if self._closed else ''}>"

    @property
    def path(self) -> Path:
        """The file in use."""
        return self._database.path

    @property
    def commits(self) -> int:
        """Commits so far; puts that wait at the same time share one."""
        return self._writer.commits

    async def get_many(self, request: abc.CacheGet) -> Mapping[str, abc.CacheRecord]:
        """Give the records it has, by key, as of one moment. Cancelled, it ends after the read under way."""
        self._check_open()
        return await trio.to_thread.run_sync(self._reader.read, request.keys, limiter=self._one_reader)

    async def put_many(self, request: abc.CachePut) -> None:
        """Store all records or, on an error, none; returns once they are committed.

        Cancelled before it is queued, it has stored nothing. Cancelled while it waits, it ends at once and its batch is
        still committed, as a whole.
        """
        await trio.lowlevel.checkpoint()
        # From here to `submit` nothing may wait: a batch queued after the end of the queue would never be answered.
        self._check_open()
        if not request.records:
            return
        batch = self._writer.submit(request.records)
        await batch.done.wait()
        if batch.error is not None:
            raise batch.error

    async def aclose(self) -> None:
        """Commit what is queued and close the file, cancelled or not; gives up after `CLOSING_SECONDS`."""
        if self._closed:
            return
        self._closed = True
        self._writer.stop()
        with trio.move_on_after(CLOSING_SECONDS, shield=True) as scope:
            await trio.to_thread.run_sync(self._reader.close, limiter=self._one_reader)
            await trio.to_thread.run_sync(self._writer.thread.join, abandon_on_cancel=True)
        if scope.cancelled_caught:
            log.warning(
                f"the cache file {self.path} did not take its last records within {CLOSING_SECONDS:.0f} s; "
                "those whose put had not returned may be missing",
                file=str(self.path),
            )

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError(f"the cache {self.path} is closed: use it inside its `async with` block")


@asynccontextmanager
async def open_sqlite(
    options: SqliteOptions | None, env: abc.Environment, *, now: Callable[[], float] = time.time
) -> AsyncIterator[SqliteCache]:
    """Open the file, made where there is none. Raises `StoreError` where it can be neither opened nor made.

    `now` gives seconds since the epoch, for `max_age`.
    """
    options = options or SqliteOptions()
    database = Database(_file(options, env))
    reader = Reader(database, options.max_age, now)
    connection = await trio.to_thread.run_sync(database.open)
    cache = SqliteCache(database, connection, reader, options.max_trace_bytes)
    try:
        yield cache
    finally:
        await cache.aclose()


def _file(options: SqliteOptions, env: abc.Environment) -> Path:
    return (env.base_dir / Path(options.path).expanduser()).absolute()


@hookimpl
def burnish_caches() -> Iterable[abc.Spec[abc.Cache]]:
    """Offer `cache.sqlite`."""
    return [
        abc.Spec(
            name="sqlite",
            open=open_sqlite,
            options=SqliteOptions,
            capabilities={"persistent", "shared"},
            summary="rollouts in one SQLite file, for several processes at once",
        )
    ]
