"""Writing files whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from burnish.errors import StoreError


def write_atomic(path: Path, text: str) -> None:
    """Write a text file by temporary file, fsync and rename. Raises `StoreError`; the old content stays then."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}", path=str(path)) from error
