"""What is wrong with a configuration, gathered while it is read: all of it is told at once, each with its line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import cast

from burnish import did_you_mean
from burnish.errors import BurnishError, ConfigError, PluginError, PluginNotFoundError, UsageError
from burnish_cli.config import DataConfig, Problem
from burnish_cli.data import DataFileError, MissingColumnsError, read_text
from burnish_cli.references import BadReferenceError
from burnish_cli.structure import ConfigFileError, KeyPath, dotted

OPTIONS_FAULTS = "faults"
"""Where the core's error about a plugin's options holds path and text of each fault."""


class KeyFaultError(ConfigError):
    """One key of a configuration is wrong; `path` leads to it."""

    def __init__(self, path: KeyPath, what: str) -> None:
        self.path, self.what = path, what
        super().__init__(f"{dotted(path)}: {what}")


class Faults:
    """Faults of one configuration, from whatever step finds them."""

    def __init__(self, file: str | None, data: DataConfig) -> None:
        self._file, self._data = file, data
        self._problems: list[Problem] = []
        self._errors: list[BurnishError] = []
        self._elsewhere: list[str] = []

    def at(self, *path: str | int) -> AbstractContextManager[None, bool]:
        """Take in what the block raises about the key that the path leads to; what comes after it is read all the same.

        Usage and plugin errors are taken, others pass.
        """
        return cast("AbstractContextManager[None, bool]", self._at(path))

    @contextmanager
    def _at(self, path: KeyPath) -> Iterator[None]:
        try:
            yield
        except (UsageError, PluginError) as error:
            self._errors.append(error)
            problems = list(self._read(error, path))
            self._problems += problems
            if not problems:
                self._elsewhere.append(str(error))

    def add(self, problems: Iterable[Problem]) -> None:
        """Take in faults by key."""
        for path, what in problems:
            self._errors.append(KeyFaultError(path, what))
            self._problems.append((path, what))

    def raise_all(self) -> None:
        """Raise what was found: one error as it is where no file has its line, else all of them as one."""
        if not self._errors:
            return
        if len(self._errors) == 1 and (self._file is None or not self._problems):
            raise self._errors[0]
        text = "" if self._file is None else read_text(Path(self._file))
        raise ConfigFileError(self._file or "", self._problems, text, self._elsewhere) from self._errors[0].__cause__

    def _read(self, error: BurnishError, path: KeyPath) -> Iterator[Problem]:
        """Say which keys an error is about; none where it names a place in another file."""
        if isinstance(error, MissingColumnsError):
            for column, what in error.missing.items():
                yield from ((key, what) for key in _naming(self._data, column))
        elif isinstance(error, DataFileError):
            return
        elif isinstance(error, KeyFaultError):
            yield error.path, error.what
        elif isinstance(error, BadReferenceError):
            yield (*path, "use"), error.why
        elif isinstance(error, PluginNotFoundError):
            yield (*path, "use"), str(error)
        elif faults := getattr(error, OPTIONS_FAULTS, ()):
            for below, what in faults:
                yield (*path, *below.replace("[", ".[").split(".")) if below else path, what
        else:
            yield path, str(error).removeprefix(f"{dotted(path)}: ")


def _naming(data: DataConfig, column: str) -> Iterator[KeyPath]:
    """Give the keys that name a column."""
    for key in ("inputs", "labels"):
        if column in getattr(data, key).values():
            yield ("data", key)
    for key in ("id", "stratify"):
        if getattr(data, key) == column:
            yield ("data", key)


def near(name: str, known: Sequence[str]) -> str:
    """Give the hint to a name that may have been meant."""
    found = did_you_mean(name, known)
    return found and f"; {found}"
