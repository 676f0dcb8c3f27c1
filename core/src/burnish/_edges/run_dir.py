"""A run's directory: its lock, its store, what it found."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from burnish._model.canonical import JsonMap
from burnish._runtime.files import json_text, write_atomic
from burnish.errors import StoreError, UsageError

LOCK, STORE, BEST, RESULT = "burnish.lock", "run.db", "best.json", "result.json"


@contextmanager
def claimed(run_dir: Path | None) -> Iterator[Path | None]:
    """Make a run directory and hold it for this process.

    Raises `StoreError` where it cannot be made or another process holds it, `UsageError` where it holds a run already.
    """
    if run_dir is None:
        yield None
        return
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        handle = os.open(run_dir / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StoreError(
            f"the run directory {run_dir} cannot be made: {error.strerror or error}; choose another", path=str(run_dir)
        ) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StoreError(
                f"another process runs in {run_dir}; wait for it or choose another directory", path=str(run_dir)
            ) from None
        if (run_dir / STORE).exists():
            raise UsageError(f"{run_dir} holds a run already; choose another directory")
        yield run_dir
    finally:
        os.close(handle)


def write_lock(run_dir: Path, facts: JsonMap) -> None:
    """Write what the run is made of into its lock file, in place: the file itself is locked."""
    text = json.dumps(facts, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
    try:
        with open(run_dir / LOCK, "r+", encoding="utf-8") as file:
            file.write(text)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StoreError(f"{run_dir / LOCK} cannot be written: {error.strerror or error}", path=str(run_dir)) from error


def write_json(path: Path, form: JsonMap) -> None:
    """Write a JSON file whole or not at all."""
    write_atomic(path, json_text(form))
