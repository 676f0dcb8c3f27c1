"""The file of a run store: its schema, how it is opened, and whose it is."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from burnish._runtime.files import CACHE_ID, RUN_STORE_ID
from burnish._runtime.intact import MEND, damaged, is_damage
from burnish.errors import StoreError

STORE_VERSION = 3

_SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
    n INTEGER PRIMARY KEY,
    seconds REAL NOT NULL,
    type TEXT NOT NULL,
    key TEXT,
    step TEXT,
    body TEXT NOT NULL,
    digest INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS traces (n INTEGER PRIMARY KEY REFERENCES events, body TEXT NOT NULL);
"""


def open_file(path: Path | None, read_only: bool) -> tuple[sqlite3.Connection, int]:
    """Open the file at `path` (None: in memory); gives the number of its last event, too, to write after.

    Raises `StoreError` for a file that cannot be opened, is another program's, or a newer burnish's.
    """
    target = ":memory:" if path is None else str(path)
    connection = None
    try:
        if read_only and path is not None:
            connection = connect_for_reading(path)
            check_ours(connection, target)
            return connection, 0
        connection = sqlite3.connect(target, check_same_thread=False, timeout=30.0)
        check_ours(connection, target)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(f"PRAGMA application_id={RUN_STORE_ID}")
        connection.execute(f"PRAGMA user_version={STORE_VERSION}")
        connection.executescript(_SCHEMA)
        (last,) = connection.execute("SELECT COALESCE(MAX(n), 0) FROM events").fetchone()
        return connection, last
    except BaseException as error:
        if connection is not None:
            connection.close()
        if not isinstance(error, sqlite3.Error):
            raise
        step = "name a directory that holds a run" if read_only else "choose a directory that can be written"
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
            step = "free space, then run again"
        raise StoreError(
            f"the run store {target} cannot be opened: {error}; {MEND if is_damage(error) else step}", path=target
        ) from error


def connect_for_reading(path: Path) -> sqlite3.Connection:
    """Open a store that nothing is written into, also where nothing can be: on a read-only disk it must be whole."""
    still = not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists()
    uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if still else ''}"
    return sqlite3.connect(uri, uri=True, check_same_thread=False, timeout=30.0)


def check_ours(connection: sqlite3.Connection, path: str) -> None:
    """Refuse a database that is none of ours, or a newer one, before anything is written into it."""
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    if owner != RUN_STORE_ID and (owner or version or tables):
        what = "a cache of burnish" if owner == CACHE_ID else "a database"
        raise StoreError(f"{path} is {what}, but not a run store of burnish; it was left alone", path=path)
    if version > STORE_VERSION or (owner == RUN_STORE_ID and version < STORE_VERSION):
        raise StoreError(
            f"the run store {path} has version {version}; this burnish reads version {STORE_VERSION}: "
            f"{'upgrade burnish' if version > STORE_VERSION else 'it is of a burnish before the first release'}",
            path=path,
        )


class Guard:
    """Turns SQLite's errors into ours, with the file's name."""

    def __init__(self, connection: sqlite3.Connection, path: Path | None) -> None:
        self._connection, self._path = connection, path

    def __enter__(self) -> sqlite3.Connection:
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, sqlite3.Error):
            if is_damage(error):
                raise damaged(self._path, error) from error
            raise StoreError(
                f"the run store {self._path} cannot be used: {error}; free space or mend the directory, then run again",
                path=str(self._path),
            ) from error
