"""Objects that a configuration names as `module:attribute`: imported when a run starts, and only what is meant so."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from burnish import abc, load_attribute
from burnish.errors import ConfigError

MARKS = ("__burnish_target__", "__burnish_inline__", "__burnish_exposed__")
KINDS = (abc.Target, abc.Metric, abc.Strategy, abc.Model, abc.Cache, abc.Meter, abc.Sink, abc.Executor)


class BadReferenceError(ConfigError):
    """A `module:attribute` cannot be used; `where` is the key that names it, `reference` the text, `why` the fault."""

    def __init__(self, where: str, reference: str, why: str) -> None:
        self.where, self.reference, self.why = where, reference, why
        super().__init__(f"{where}: {why}")


def load_reference(reference: str, base_dir: Path, *, where: str) -> Any:
    """Import an object; a class stands for one made without arguments. Raises as `find_reference`."""
    value = find_reference(reference, base_dir, where=where)
    return value() if isinstance(value, type) else value


def find_reference(reference: str, base_dir: Path, *, where: str) -> Any:
    """Import what a reference names, as it is. Modules beside the configuration file are found too, before any others.

    Raises `BadReferenceError` where module or attribute is missing, the module fails, or the object is neither one of
    burnish nor a function marked with `@burnish.exposed`: a configuration may not call whatever can be imported.
    """
    look_beside(base_dir)
    try:
        value = load_attribute(reference)
    except ConfigError as error:
        raise BadReferenceError(where, reference, str(error)) from error.__cause__
    if not _is_meant(value):
        why = "is neither an object of burnish nor a marked function; put `@burnish.exposed` above it if it is meant"
        raise BadReferenceError(where, reference, f"`{reference}` {why}")
    return value


def look_beside(base_dir: Path) -> None:
    """Have modules of a directory found, before any others."""
    directory = str(base_dir.resolve())
    if directory not in sys.path:
        sys.path.insert(0, directory)


def _is_meant(value: Any) -> bool:
    if any(hasattr(value, mark) for mark in MARKS):
        return True
    return not isinstance(value, type) and isinstance(value, KINDS)
