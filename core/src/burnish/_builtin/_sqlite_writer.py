"""The one thread that writes a cache file: whatever waits is committed together."""

from __future__ import annotations

import contextlib
import queue
import sqlite3
import struct
import threading
import zlib
from collections.abc import Sequence
from typing import TypeAlias

import trio
import xxhash

from burnish._builtin._sqlite_file import IS_TRACE, Database, is_damage, patiently, store_error
from burnish.abc import TRACE_KEY, CacheRecord
from burnish.errors import BurnishError, InternalError, UsageError

Row: TypeAlias = tuple[str, str, bytes, float, bytes]

MOST_BATCHES = 256
"""Batches in one commit."""

_UPSERT = """
INSERT INTO rollout (key, fingerprint, body, created, digest) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET
    fingerprint = excluded.fingerprint, body = excluded.body, created = excluded.created, digest = excluded.digest
"""

_TRACE_BYTES = f"SELECT COALESCE(SUM(LENGTH(body)), 0) FROM rollout WHERE {IS_TRACE}"
_DROP_OLDEST = f"""
DELETE FROM rollout WHERE rowid IN (
    SELECT rowid FROM (
        SELECT rowid, SUM(LENGTH(body)) OVER (ORDER BY created DESC, rowid DESC) AS bytes FROM rollout WHERE {IS_TRACE}
    ) WHERE bytes > ?
)
"""
_PACKED = b"\xff"
"""How a compressed body begins: no text in UTF-8 does."""
_SMALL = 1024
"""Bytes up to which a body is left as it is: most are records without their traces, read again and again."""


def encode(text: str) -> bytes:
    """Give the bytes of a text. Models do send half a surrogate pair; it must not cost the rollout."""
    return text.encode("utf-8", "surrogatepass")


def pack(body: bytes) -> bytes:
    """Compress a body where that makes it smaller."""
    if len(body) <= _SMALL:
        return body
    packed = _PACKED + zlib.compress(body, 1)
    return packed if len(packed) < len(body) else body


def unpack(body: bytes) -> bytes:
    """Give the body that was packed. Raises `zlib.error` for what `pack` has not made."""
    return zlib.decompress(body[1:]) if body.startswith(_PACKED) else body


def digest(key: bytes, check: bytes, body: bytes, created: float) -> bytes:
    """Give the checksum of a row (XXH3, 16 bytes), over length-prefixed columns."""
    head = struct.pack("<qqd", len(key), len(check), created)
    return xxhash.xxh3_128_digest(b"".join((head, key, check, body)))


class Batch:
    """One `put_many`: its records, and how its end is told to the task that waits."""

    def __init__(self, records: Sequence[CacheRecord], token: trio.lowlevel.TrioToken) -> None:
        self.records = records
        self.done = trio.Event()
        self.error: BurnishError | None = None
        self._token = token

    def rows(self) -> list[Row]:
        """Give the table's rows. Raises `UsageError` for a record that is not made of text."""
        try:
            return [_row(record) for record in self.records]
        except (AttributeError, TypeError, ValueError, struct.error) as error:
            raise UsageError(f"a cache record must hold text for key, check and body: {error}") from error

    def finish(self, error: BurnishError | None = None) -> None:
        """Wake the waiting task, from the writer's thread."""
        self.error = error
        # The run may be over: then nobody is left who could wait.
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self.done.set)


class Writer:
    """Commits batches, in order, until `stop`; each batch is in one commit, so that it is never torn.

    Beyond `max_trace_bytes` the oldest traces go. Other processes may write too, so what there is in all is counted
    anew each time that a sixteenth of it has come from here.
    """

    def __init__(self, database: Database, connection: sqlite3.Connection, max_trace_bytes: int | None = None) -> None:
        self._database = database
        self._max_trace_bytes = max_trace_bytes
        self._until_count = 0
        """Bytes of traces that may be written before the next count."""
        self._connection = connection
        self._path = database.path
        self._queue: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self.commits = 0
        self.thread = threading.Thread(target=self._run, name="burnish-cache-writer", daemon=True)
        self.thread.start()

    def submit(self, records: Sequence[CacheRecord]) -> Batch:
        """Queue a batch; `done` of what it returns is set once it is committed or refused."""
        batch = Batch(records, trio.lowlevel.current_trio_token())
        self._queue.put(batch)
        return batch

    def stop(self) -> None:
        """Ask the thread to commit what is queued, close its connection and end."""
        self._queue.put(None)

    def _run(self) -> None:
        try:
            while (group := self._next_group()) is not None:
                self._settle(group)
        finally:
            self._connection.close()

    def _next_group(self) -> list[Batch] | None:
        """Wait for a batch and take along what else waits by then; None once stopped and empty."""
        first = self._queue.get()
        if first is None:
            return None
        group = [first]
        while len(group) < MOST_BATCHES:
            try:
                batch = self._queue.get_nowait()
            except queue.Empty:
                break
            if batch is None:
                self._queue.put(None)
                break
            group.append(batch)
        return group

    def _settle(self, group: list[Batch]) -> None:
        accepted: list[Batch] = []
        rows: list[Row] = []
        for batch in group:
            try:
                rows.extend(batch.rows())
            except UsageError as error:
                batch.finish(error)
            else:
                accepted.append(batch)
        failure: Exception | None = None
        try:
            self._commit(rows)
        except Exception as error:
            failure = error
        for batch in accepted:
            batch.finish(None if failure is None else self._explain(failure))

    def _explain(self, error: Exception) -> BurnishError:
        if isinstance(error, BurnishError):
            return error
        if isinstance(error, (sqlite3.Error, OSError)):
            return store_error(error, self._path)
        return InternalError(f"writing the cache file {self._path} failed: {error!r}")

    def _commit(self, rows: list[Row]) -> None:
        try:
            patiently(lambda: self._transaction(rows))
        except sqlite3.Error as error:
            if not is_damage(error):
                raise
            connection = self._database.replace(self._path, f"is damaged ({error})")
            self._connection.close()
            self._connection, self._path = connection, self._database.path
            patiently(lambda: self._transaction(rows))
        self.commits += 1

    def _transaction(self, rows: list[Row]) -> None:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany(_UPSERT, rows)
            self._make_room(rows)
            connection.execute("COMMIT")
        except BaseException:
            # A full disk makes SQLite roll back by itself.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _make_room(self, rows: list[Row]) -> None:
        limit = self._max_trace_bytes
        if limit is None:
            return
        self._until_count -= sum(len(body) for key, _, body, _, _ in rows if key.endswith(TRACE_KEY))
        if self._until_count > 0:
            return
        (used,) = self._connection.execute(_TRACE_BYTES).fetchone()
        if used > limit:
            self._connection.execute(_DROP_OLDEST, (limit - limit // 16,))
        self._until_count = limit // 16


def _row(record: CacheRecord) -> Row:
    body, created = pack(encode(record.body)), float(record.created)
    return record.key, record.check, body, created, digest(encode(record.key), encode(record.check), body, created)
