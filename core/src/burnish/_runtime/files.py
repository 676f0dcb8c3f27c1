"""Writing files whole or not at all, and locking them."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from types import ModuleType

from burnish._model.canonical import JsonMap
from burnish._runtime.log import log
from burnish.errors import StoreError

RUN_STORE_ID = 0x6272756E  # "brun"
CACHE_ID = 0x6275726E  # "burn"
"""What SQLite's header says of whose file it is."""

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # not POSIX
    fcntl = None


def json_text(form: JsonMap) -> str:
    """Write a form as JSON text for people to read; half a surrogate pair, as a cut reply may hold, is escaped."""
    text = json.dumps(form, ensure_ascii=False, indent=2) + "\n"
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(form, indent=2) + "\n"
    return text


def write_atomic(path: Path, text: str) -> None:
    """Write a text file by temporary file, fsync and rename. Raises `StoreError`; the old content stays then.

    The file has the rights that any new file of this process has.
    """
    name = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        try:
            with open(name, "x", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            name.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}", path=str(path)) from error


def try_lock(file: int) -> bool:
    """Lock an open file for its descriptor, without waiting; says whether it has the lock.

    Always where the platform has no such locks: who relies on them calls `warn_without_locks`. Raises `OSError` where
    the file system refuses.
    """
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def warn_without_locks(path: Path) -> None:
    """Say so where the platform cannot keep a second process away from a file."""
    if fcntl is None:
        log.warning("this platform has no file locks; let only one process at once use this path", path=str(path))
