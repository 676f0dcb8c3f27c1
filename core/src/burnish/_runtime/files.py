"""Writing files whole or not at all."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path

from burnish._model.canonical import JsonMap
from burnish.errors import StoreError


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
