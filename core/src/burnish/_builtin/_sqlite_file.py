"""The file of `cache.sqlite`: which file it is, whether it is ours and whole, and what SQLite's errors mean.

Everything here blocks: it is called from worker threads only.
"""

from __future__ import annotations

import itertools
import random
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from burnish._runtime.files import CACHE_ID, RUN_STORE_ID
from burnish._runtime.log import Log
from burnish.abc import TRACE_KEY
from burnish.errors import StoreError

T = TypeVar("T")

SCHEMA = 1
"""SQLite's `user_version`; a file with a higher one was written by a later burnish."""
BUSY_TIMEOUT = 5.0
"""Seconds that one statement waits for a lock inside SQLite."""
PATIENCE = 30.0
"""Seconds that a lock of another process is waited for."""
CHECKED_BYTES = 64 << 20
"""Files up to this size are read through once when opened; in larger ones damage is met when it is read."""
MOST_SIBLINGS = 99

_MAGIC = b"SQLite format 3\0"
_TABLE = """
CREATE TABLE rollout (
    key TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, body BLOB NOT NULL, created REAL NOT NULL, digest BLOB NOT NULL
)
"""
IS_TRACE = f"substr(key, -{len(TRACE_KEY)}) = '{TRACE_KEY}'"
"""Whether a row is a trace; always written so, as SQLite uses an index for just the condition it was made with."""
_TRACES = f"CREATE INDEX IF NOT EXISTS traces ON rollout (created, LENGTH(body)) WHERE {IS_TRACE}"
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}

log = Log("burnish.cache")


class UnusableFileError(Exception):
    """This file is not ours, or not whole: another one is taken, and this one is left as it is."""


class Database:
    """The file in use. `replace` goes on to the next one beside it; who holds a connection compares `path`."""

    def __init__(self, asked: Path) -> None:
        self.asked = asked
        self.path = asked
        self._unusable: set[Path] = set()

    def open(self) -> sqlite3.Connection:
        """Connect to the first usable file: the one asked for, else `<name>.<n>.db` beside it.

        Raises `StoreError` where no file can be opened or made there.
        """
        for path in self._candidates():
            if path in self._unusable:
                continue
            try:
                connection = _connect(path)
            except UnusableFileError as error:
                self._unusable.add(path)
                log.warning(
                    f"the cache file {path} {error}; it is left as it is, and a file beside it is used instead. "
                    "Move it away, or name another `path`, to be rid of this warning",
                    file=str(path),
                )
            else:
                if path != self.asked:
                    log.info(f"the cache is kept in {path}", file=str(path), asked=str(self.asked))
                self.path = path
                return connection
        raise StoreError(
            f"{self.asked} and {MOST_SIBLINGS} files beside it are no usable caches: move them away, or name another "
            "`path` for cache.sqlite",
            path=str(self.asked),
        )

    def reopen(self) -> sqlite3.Connection:
        """Connect once more to the file in use."""
        return patiently(lambda: _plain_connection(self.path))

    def replace(self, path: Path, why: str) -> sqlite3.Connection:
        """Leave a file that turned out to be damaged, and connect to the next one."""
        log.warning(
            f"the cache file {path} {why}; it is left as it is, and a file beside it is used from now on",
            file=str(path),
        )
        self._unusable.add(path)
        return self.open()

    def _candidates(self) -> list[Path]:
        asked = self.asked
        beside = (asked.with_name(f"{asked.stem}.{n}{asked.suffix or '.db'}") for n in itertools.count(1))
        return [asked, *itertools.islice(beside, MOST_SIBLINGS)]


def code_of(error: BaseException) -> int | None:
    """Give SQLite's primary result code of an error, None where it has none."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def is_damage(error: BaseException) -> bool:
    """Whether an error says that the file is not a whole SQLite file."""
    # Its message about a damaged schema quotes the schema, which may then be no UTF-8.
    return isinstance(error, UnicodeDecodeError) or code_of(error) in _DAMAGED


def patiently(action: Callable[[], T]) -> T:
    """Do it again while another process holds a lock, for `PATIENCE` seconds.

    SQLite's own busy timeout does not cover all of it: changes of the journal mode and the recovery of a log left by a
    killed process answer "busy" at once.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            if code_of(error) not in _BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(random.uniform(0.002, 0.02))


def store_error(error: BaseException, path: Path) -> StoreError:
    """Say what went wrong with a file, and what to do."""
    code, what = code_of(error), str(error) or type(error).__name__
    if code == sqlite3.SQLITE_FULL:
        advice = "there is no room left: free some, or name a `path` on another disk for cache.sqlite"
    elif code in _BUSY:
        advice = f"another process has kept it locked for {PATIENCE:.0f} s: end that process, or name another `path`"
    elif code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM) or isinstance(error, OSError):
        advice = "make its directory writable, or name another `path` for cache.sqlite"
    elif code == sqlite3.SQLITE_IOERR:
        advice = "check the file system and the room left on it, or name another `path` for cache.sqlite"
    else:
        advice = "move the file away, or name another `path` for cache.sqlite"
    return StoreError(f"the cache file {path} cannot be used ({what}); {advice}", path=str(path))


def _connect(path: Path) -> sqlite3.Connection:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _look_at_header(path)
        connection = _plain_connection(path)
    except (OSError, sqlite3.Error) as error:
        raise store_error(error, path) from error
    try:
        patiently(lambda: _make_ours(connection))
        _set_modes(connection)
        _check(connection, path)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        connection.close()
        if is_damage(error):
            raise UnusableFileError(f"is damaged ({error})") from error
        raise store_error(error, path) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _plain_connection(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)


def _look_at_header(path: Path) -> None:
    """Refuse a file of someone else's before SQLite may touch it.

    Our files carry their application id in the file itself from their first commit on, never only in a log beside it
    (see `_make_ours`), so that the first 100 bytes decide.
    """
    why = _not_ours(path)
    if why is not None:
        # Another process may be in the middle of its first commit.
        time.sleep(0.05)
        why = _not_ours(path)
    if why is not None:
        raise UnusableFileError(why)


def _not_ours(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            header = file.read(100)
    except FileNotFoundError:
        return None
    if not header:
        return None
    if not header.startswith(_MAGIC):
        return "is not an SQLite file"
    if len(header) < 100:
        return "is damaged (cut off)"
    if header[18] not in (1, 2) or header[19] not in (1, 2) or int.from_bytes(header[44:48], "big") > 4:
        return "is damaged (SQLite has written no such header)"  # it would take it for one of a later version
    owner = int.from_bytes(header[68:72], "big")
    if owner == RUN_STORE_ID:
        return "is the run store of a run, not a cache"
    return None if owner == CACHE_ID else "is the SQLite file of another application"


def _make_ours(connection: sqlite3.Connection) -> None:
    """Write header and table, in one transaction and before the write-ahead log is on; or see that they are there."""
    if _pragma(connection, "application_id") != CACHE_ID:
        connection.execute("BEGIN IMMEDIATE")
        try:
            if _pragma(connection, "application_id") != CACHE_ID:
                connection.execute(f"PRAGMA application_id = {CACHE_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA}")
                connection.execute(_TABLE)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    version = _pragma(connection, "user_version")
    if version != SCHEMA:
        writer = "a later burnish" if version > SCHEMA else "another burnish"
        raise UnusableFileError(f"was written by {writer} (its schema is {version}, not {SCHEMA})")


def _set_modes(connection: sqlite3.Connection) -> None:
    mode = patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone()[0])
    # Some file systems have no shared memory, and SQLite stays with its rollback journal there: NORMAL is then not
    # safe against power loss.
    connection.execute(f"PRAGMA synchronous = {'NORMAL' if mode == 'wal' else 'FULL'}")


def _check(connection: sqlite3.Connection, path: Path) -> None:
    try:
        connection.execute("SELECT key, fingerprint, body, created, digest FROM rollout LIMIT 1").fetchone()
    except sqlite3.OperationalError as error:
        if code_of(error) != sqlite3.SQLITE_ERROR:
            raise
        raise UnusableFileError(f"is damaged ({error})") from error
    patiently(lambda: connection.execute(_TRACES))
    if path.stat().st_size <= CHECKED_BYTES:
        verdict = patiently(lambda: connection.execute("PRAGMA quick_check(1)").fetchone()[0])
        if verdict != "ok":
            raise UnusableFileError(f"is damaged ({verdict})")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
