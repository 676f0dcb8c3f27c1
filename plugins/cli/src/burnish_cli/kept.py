"""The configuration as a run directory keeps it, in its lock: all that going on with the run takes, and no secret."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from burnish import LOCK_FILE, Candidate, candidate_from_json, names_secret
from burnish.errors import StoreError, UsageError
from burnish_cli.config import Component, Config, ProgramConfig
from burnish_cli.result import Command
from burnish_cli.structure import KeyPath, dotted, load_config, structure_config

VERSION = 1
_PLUGINS = ("program", "metric", "strategy", "models", "cache", "meter", "executor", "sink")
"""Tables of options that only a plugin knows, so that each may hold a secret."""
_ADDRESS = re.compile(r"://[^/]*@|://.*[?#]")
"""With a user's name or a query, either of which may be a credential."""
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")


@attrs.frozen(kw_only=True)
class Kept:
    """What a run was started with."""

    config: Config
    command: Command
    file: str | None
    """The configuration file, for messages."""
    given: Candidate | None
    """The candidate that an evaluation was given."""


def keep(
    config: Config, run_dir: Path, *, command: Command, file: str | None, given: Candidate | None = None
) -> dict[str, Any]:
    """Give what a run directory is to hold: JSON values, without those that may be secrets."""
    tables = json.loads(json.dumps(_tables(config), default=str))
    hidden = [list(path) for name in _PLUGINS for path in _hide(tables, name)]
    return {
        "version": VERSION,
        "command": command,
        "file": None if file is None else Path(file).name,
        "base_dir": os.path.relpath(config.base_dir.resolve(), run_dir.resolve()),
        "given": None if given is None else given.to_json(),
        "hidden": hidden,
        "tables": tables,
    }


def read_kept(run_dir: Path) -> Kept:
    """Read what a run was started with; what was kept out of the directory comes from the configuration file.

    Raises `UsageError` where the directory holds nothing to go on with, and `StoreError` where that is damaged.
    """
    path = run_dir / LOCK_FILE
    form = _read(path)
    try:
        if form["version"] != VERSION:
            raise StoreError(
                f"{path}: the configuration has version {form['version']}, this burnish reads version {VERSION}; "
                "go on with the burnish that wrote it",
                path=str(path),
            )
        base_dir = _shown(run_dir.resolve() / form["base_dir"])
        file = None if form["file"] is None or not (base_dir / form["file"]).is_file() else base_dir / form["file"]
        tables, given, command = form["tables"], form["given"], form["command"]
        _fill(tables, [tuple(found) for found in form["hidden"]], file, f"{base_dir / (form['file'] or '')}")
        return Kept(
            config=structure_config(tables, file=str(path), base_dir=base_dir),
            command=command,
            file=None if file is None else str(file),
            given=None if given is None else candidate_from_json(given),
        )
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise _damaged(path) from error


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(
            f"{path.parent} holds no run: there is no {LOCK_FILE} in it; name a directory in `runs`"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{path} cannot be read: {error}", path=str(path)) from error
    try:
        form = json.loads(text) if text else {}
        kept = form.get("configuration")
    except (ValueError, AttributeError, RecursionError) as error:
        raise _damaged(path) from error
    if kept is None:
        raise UsageError(
            f"{path.parent} was not begun by a command: {path} holds no configuration; "
            "go on from Python, with `burnish.optimize(..., resume=True)`"
        )
    if not isinstance(kept, dict):
        raise _damaged(path)
    return kept


def _damaged(path: Path) -> StoreError:
    return StoreError(
        f"{path} is damaged: it does not say what the run was started with; "
        "begin a new run on its answers: `burnish fork RUN --config FILE`",
        path=str(path),
    )


def _shown(path: Path) -> Path:
    """Give a directory from here where it is below, else in full."""
    whole, here = path.resolve(), Path.cwd()
    return whole.relative_to(here) if whole.is_relative_to(here) else whole


# --- tables ------------------------------------------------------------------------------------------------------


def _tables(config: Config) -> dict[str, Any]:
    """Write a configuration as the tables that it is read from."""
    caps = _set(config.budget)
    if config.budget.max_cost is not None:
        caps["max_cost"] = str(config.budget.max_cost)
    program = config.program
    tables: dict[str, Any] = {
        "name": config.name,
        "seed": config.seed,
        "concurrency": config.concurrency,
        "data": _set(config.data),
        "program": _set(program) if isinstance(program, ProgramConfig) else _component(program),
        "metric": _component(config.metric),
        "strategy": [_component(one) for one in config.strategy],
        "budget": caps or {"unlimited": True},
        "models": {role: _component(one) for role, one in config.models.items()},
        "engine": _set(config.engine),
        "sink": [_component(one) for one in config.sink],
    }
    for name in ("cache", "meter", "executor"):
        one = getattr(config, name)
        tables[name] = None if one is None else _component(one)
    return {name: value for name, value in tables.items() if value is not None}


def _component(component: Component) -> dict[str, Any]:
    return {"use": component.use, **component.options}


def _set(value: Any) -> dict[str, Any]:
    return {name: field for name, field in attrs.asdict(value, recurse=False).items() if field is not None}


# --- what may be a secret ----------------------------------------------------------------------------------------


def _hide(tables: dict[str, Any], name: str) -> Iterator[KeyPath]:
    """Take out what may be a secret, and give where it was."""
    if name == "program" and "use" not in tables[name]:  # none but our own keys
        return
    for path in list(_secrets(tables.get(name), (name,))):
        _at(tables, path[:-1])[path[-1]] = None
        yield path


def _secrets(value: Any, path: KeyPath) -> Iterator[KeyPath]:
    key = path[-1]
    if isinstance(key, str) and names_secret(key) and len(path) > 1:
        if not (key.endswith("_env") and _names_variables(value)):
            yield path
    elif isinstance(value, Mapping):
        for inner, below in value.items():
            yield from _secrets(below, (*path, inner))
    elif isinstance(value, list):
        for number, below in enumerate(value):
            yield from _secrets(below, (*path, number))
    elif isinstance(value, str) and _ADDRESS.search(value):
        yield path


def _names_variables(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(_names_variables(below) for below in value.values())
    return isinstance(value, str) and _VARIABLE.fullmatch(value) is not None


def _fill(tables: Any, hidden: Sequence[KeyPath], file: Path | None, name: str) -> None:
    """Put back what was kept out, from the configuration file. Raises `UsageError` naming what is not there."""
    if not hidden:
        return
    source = {} if file is None else _tables(load_config(file))
    for path in hidden:
        try:
            _at(tables, path[:-1])[path[-1]] = _at(source, path)
        except (KeyError, IndexError, TypeError):
            raise UsageError(
                f"`{dotted(path)}` may be a secret, so the run directory does not hold it, and {name} does not say it "
                "now; put it back there, or begin a new run: `burnish fork RUN --config FILE`"
            ) from None


def _at(tables: Any, path: KeyPath) -> Any:
    for step in path:
        tables = tables[step]
    return tables
