"""Reading a cache file: from one worker thread at a time, and never giving what is not whole."""

from __future__ import annotations

import itertools
import math
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from burnish._builtin._sqlite_file import Database, is_damage, patiently, store_error
from burnish._builtin._sqlite_writer import digest, unpack
from burnish._runtime.log import Log
from burnish.abc import CacheRecord
from burnish.errors import UsageError

RawRow: TypeAlias = tuple[object, object, object, object, object]

_CHUNK = 500
"""Keys in one statement; SQLite's oldest limit is 999."""
_SELECT = "SELECT key, fingerprint, body, created, digest FROM rollout WHERE key IN "

log = Log("burnish.cache")


class Reader:
    """One connection that reads. Blocks; not for two threads at once."""

    def __init__(self, database: Database, max_age: float | None, now: Callable[[], float]) -> None:
        self._database = database
        self._max_age = max_age
        self._now = now
        self._connection: sqlite3.Connection | None = None
        self._path = database.path
        self._warned: set[Path] = set()
        self._closed = False

    def read(self, keys: Sequence[str]) -> dict[str, CacheRecord]:
        """Give the records of these keys as of one moment; rows that are damaged or too old are absent.

        Raises `StoreError` where the file cannot be read at all.
        """
        try:
            rows = patiently(lambda: self._rows(keys))
        except (sqlite3.Error, OSError) as error:
            raise store_error(error, self._path) from error
        oldest = -math.inf if self._max_age is None else self._now() - self._max_age
        whole, damaged = {}, 0
        for row in rows:
            record = _record(row)
            if record is None:
                damaged += 1
            elif record.created >= oldest:
                whole[record.key] = record
        if damaged:
            self._warn(f"holds {damaged} damaged rows among those just read; they will be evaluated again")
        return whole

    def close(self) -> None:
        """Close the connection, for good."""
        self._closed = True
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _rows(self, keys: Sequence[str]) -> list[RawRow]:
        connection = self._connect()
        connection.execute("BEGIN")
        try:
            return [row for chunk in _chunks(keys) for row in _select(connection, chunk)]
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            self._warn(f"is damaged ({error}); what cannot be read will be evaluated again")
            return [row for key in keys for row in _whatever_is_left(connection, key)]
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _connect(self) -> sqlite3.Connection:
        if self._closed:
            raise UsageError(f"the cache {self._path} was closed while a read waited: close it after its last use")
        if self._connection is None or self._path != self._database.path:
            if self._connection is not None:
                self._connection.close()
            self._path = self._database.path
            connection = self._database.reopen()
            connection.text_factory = bytes
            self._connection = connection
        return self._connection

    def _warn(self, what: str) -> None:
        if self._path not in self._warned:
            self._warned.add(self._path)
            log.warning(f"the cache file {self._path} {what}", file=str(self._path))


def _chunks(keys: Iterable[str]) -> Iterator[list[str]]:
    keys = iter(keys)
    while chunk := list(itertools.islice(keys, _CHUNK)):
        yield chunk


def _select(connection: sqlite3.Connection, keys: list[str]) -> list[RawRow]:
    return connection.execute(f"{_SELECT}({','.join('?' * len(keys))})", keys).fetchall()


def _whatever_is_left(connection: sqlite3.Connection, key: str) -> list[RawRow]:
    try:
        return _select(connection, [key])
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        return []


def _record(row: RawRow) -> CacheRecord | None:
    """Give the record of a row, None where a byte of it is not as it was written."""
    key, check, body, created, stored = row
    if not (isinstance(key, bytes) and isinstance(check, bytes) and isinstance(body, bytes)):
        return None
    if not isinstance(created, float) or digest(key, check, body, created) != stored:
        return None
    try:
        text = unpack(body).decode("utf-8", "surrogatepass")
    except (zlib.error, UnicodeDecodeError):  # of a burnish that packs otherwise
        return None
    return CacheRecord(key=key.decode(), check=check.decode(), body=text, created=created)
