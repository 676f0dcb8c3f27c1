"""The commands that read and list: `show`, `plugins`, `doctor`. They import no program and spend nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from burnish import RESULT_FILE, STORE_FILE, PluginInfo, PluginManager
from burnish.abc import KINDS
from burnish.errors import StoreError
from burnish_cli import text, winner
from burnish_cli.exits import Exit
from burnish_cli.output import print_json, print_lines
from burnish_cli.result import read_result, to_json
from burnish_cli.words import in_words, verdict


def show_run(run: Path, *, prompt: bool, as_json: bool) -> Exit:
    """Print a run's result, or its winner's texts, in words or as JSON; of a directory of runs what each came to.

    Raises `StoreError` where the run, or what is asked of it, is not there.
    """
    directory = winner.directory_of(run)
    if prompt:
        _print(winner.winner_in_words(directory), winner.winner_to_json(directory) if as_json else None)
        return Exit.FINISHED
    path = directory / RESULT_FILE if run.is_dir() else run
    if not path.exists() and not as_json:
        inside = [] if (directory / STORE_FILE).exists() else winner.runs_in(directory)
        print_lines(_listed(inside) if inside else list(winner.unfinished(directory)), sys.stdout)
        return Exit.FINISHED
    result = read_result(path)
    if run.is_dir():  # where it is now, not where it was made
        result = attrs.evolve(result, run_dir=str(run))
    _print(in_words(result), to_json(result) if as_json else None)
    return Exit.FINISHED


def _listed(runs: Sequence[Path]) -> list[str]:
    """Say of each run what it came to, in a line."""
    return [_in_short(run) for run in runs]


def _in_short(run: Path) -> str:
    try:
        return f"{text.safe(str(run))}: {verdict(read_result(run / RESULT_FILE))}"
    except StoreError:
        return f"{text.safe(str(run))}: no {RESULT_FILE} that can be read"


def _print(lines: Iterable[str], form: Mapping[str, Any] | None) -> None:
    if form is None:
        print_lines(lines, sys.stdout)
    else:
        print_json(form, sys.stdout)


def list_plugins(*, as_json: bool) -> Exit:
    """Print kind, name and distribution of every installed component, and which of them clash."""
    infos = PluginManager(variables=os.environ).available()
    clashes = _clashes(infos)
    if as_json:
        print_json({"plugins": [attrs.asdict(info) for info in infos], "clashes": clashes}, sys.stdout)
    else:
        print_lines(_table(infos), sys.stdout)
        for name, offered_by in clashes.items():
            line = f"clash: {text.safe(name)} is offered by {text.safe(' and '.join(offered_by))}"
            text.write_line(sys.stdout, line)
    return Exit.FINISHED


def _clashes(infos: Sequence[PluginInfo]) -> dict[str, list[str]]:
    by_id: dict[str, list[str]] = {}
    for info in infos:
        if not info.blocked:
            by_id.setdefault(info.id, []).append(info.distribution)
    return {name: sorted(found) for name, found in by_id.items() if len(found) > 1}


def _table(infos: Sequence[PluginInfo]) -> list[str]:
    if not infos:
        return ["no component is installed"]
    rows = [
        (info.kind, info.name, f"{info.distribution} {info.version}", "blocked" if info.blocked else _kind(info.kind))
        for info in infos
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    return [
        "  ".join([*(text.safe(cell).ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]).rstrip()
        for row in rows
    ]


def _kind(kind: str) -> str:
    return "" if kind in KINDS else f"there is no kind `{text.safe(kind)}`"


def check_plugins(*, as_json: bool) -> Exit:
    """Import every component; exit code 2 where one cannot be used."""
    manager = PluginManager(variables=os.environ)
    faults = manager.check()
    if as_json:
        found = [{"plugin": info.id, "distribution": info.distribution, "fault": str(error)} for info, error in faults]
        print_json({"checked": len(manager.available()), "faults": found}, sys.stdout)
    else:
        found_lines = [f"{info.id} ({info.distribution}): {error}" for info, error in faults]
        total = f"{text.count(len(manager.available()), 'component')} checked, {len(faults)} unusable"
        print_lines((text.safe(line) for line in [*found_lines, total]), sys.stdout)
    return Exit.WRONG_INPUT if faults else Exit.FINISHED
