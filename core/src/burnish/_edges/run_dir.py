"""A run's directory: its lock, its store, what it found."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from burnish._model.canonical import JsonMap
from burnish._runtime.files import json_text, try_lock, warn_without_locks
from burnish.errors import StoreError, UsageError

LOCK_FILE, STORE_FILE, BEST_FILE, RESULT_FILE = "burnish.lock", "run.db", "best.json", "result.json"
"""What stands in a run directory: its configuration, what happened, the winner, and what it came to."""


@contextmanager
def claimed(run_dir: Path | None, *, resume: bool = False) -> Iterator[Path | None]:
    """Make a run directory and hold it for this process; where no run begins in it, it is left as it was.

    Raises `StoreError` where it cannot be made or another process holds it, `UsageError` where it holds a run already,
    or holds none that could be resumed.
    """
    if run_dir is None:
        yield None
        return
    if resume and not (run_dir / STORE_FILE).is_file():
        raise UsageError(f"{run_dir} holds no run that could go on: there is no {STORE_FILE} in it")
    made = not run_dir.exists()
    with _locked(run_dir):
        # a dangling link counts too: SQLite would make the file that it points to
        if os.path.lexists(run_dir / STORE_FILE) and (not resume or (run_dir / STORE_FILE).is_symlink()):
            raise UsageError(f"{run_dir} holds a run already; choose another directory")
        try:
            yield run_dir
        finally:
            if not os.path.lexists(run_dir / STORE_FILE):
                with suppress(OSError):
                    (run_dir / LOCK_FILE).unlink()
                    if made:
                        run_dir.rmdir()


@contextmanager
def _locked(run_dir: Path) -> Iterator[None]:
    warn_without_locks(run_dir)
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"the run directory {run_dir} cannot be made: {error.strerror or error}; choose another", path=str(run_dir)
        ) from error
    handle = _open_lock(run_dir, os.O_CREAT)
    try:
        # the file may have been taken away by who held it until now: then this lock keeps nobody out
        if not try_lock(handle) or not _is_at(handle, run_dir / LOCK_FILE):
            raise StoreError(
                f"another process runs in {run_dir}; wait for it or choose another directory", path=str(run_dir)
            )
        yield
    finally:
        os.close(handle)


def _open_lock(run_dir: Path, flags: int = 0) -> int:
    """Open the lock file itself: a link in its place would have another file written. Raises `StoreError`."""
    path = run_dir / LOCK_FILE
    flags |= os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        if path.is_symlink():
            raise OSError(errno.ELOOP, "it is a symbolic link, which is not followed")
        return os.open(path, flags, 0o644)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be opened: {error.strerror or error}; see to its rights, or choose another directory",
            path=str(run_dir),
        ) from error


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.lstat())
    except OSError:
        return False


def write_lock(run_dir: Path, facts: JsonMap) -> None:
    """Write what the run is made of into its lock file, in place: the file itself is locked."""
    text = json_text(facts)
    try:
        with open(_open_lock(run_dir), "r+", encoding="utf-8") as file:
            file.write(text)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StoreError(
            f"{run_dir / LOCK_FILE} cannot be written: {error.strerror or error}", path=str(run_dir)
        ) from error
