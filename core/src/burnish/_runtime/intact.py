"""Whether a run store is as it was written: SQLite itself does not see bytes that changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import xxhash

from burnish.errors import StoreError

WHOLE = "e.n, e.seconds, e.type, e.key, e.step, e.body, t.body, e.digest FROM events e LEFT JOIN traces t USING (n)"
"""Columns of a row that `is_whole` takes."""
MEND = "put a copy of it in its place, or begin a new run: what the cache holds is not paid twice"


def digest_of(row: Sequence[Any]) -> int:
    """Give what tells a row of events, with its trace or None as the last, from one whose bytes have changed."""
    text = f"{[*row[:-2]]!r} {len(str(row[-2]))} {row[-2]}{row[-1]}"
    return int.from_bytes(xxhash.xxh3_64_digest(text.encode(errors="surrogatepass")), "big", signed=True)


def is_whole(row: Sequence[Any]) -> bool:
    """Whether a row of `WHOLE` is what was written."""
    return bool(digest_of(row[:-1]) == row[-1])


def check(connection: sqlite3.Connection, path: Path | None) -> None:
    """Check that all events are there as they were written. Raises `StoreError` and SQLite's errors where not."""
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise damaged(path, found)
    for number, row in enumerate(connection.execute(f"SELECT {WHOLE} ORDER BY e.n"), start=1):
        if row[0] != number or not is_whole(row):
            raise damaged(path, f"event {number} is not what was written")


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an error of SQLite says that a file is not what it was, rather than that it cannot be used now."""
    code = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or "decode" in str(error)


def damaged(path: Path | str | None, why: object) -> StoreError:
    """Say what is wrong with a run store, and what to do."""
    return StoreError(f"the run store {path} is damaged: {why!s:.300}; {MEND}", path=str(path))
