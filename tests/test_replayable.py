"""Strategies decide on nothing that a resumed run could not decide again (R9)."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODULES = {"random", "time", "datetime", "uuid", "secrets", "os"}
FUNCTIONS = {"hash", "id"}


def faults(source: str) -> list[str]:
    """Name what a strategy's source takes from outside: chance, clock, environment, addresses."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name)) if module in MODULES:
                found.append(f"{module}.{name}")
            case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0] in MODULES:
                found += [name.name for name in names if not name.name[0].isupper()]  # types are no chance
            case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
                found.append(name)
    return found


def test_strategies_take_chance_from_the_problem_alone() -> None:
    """R9: no strategy, and nothing of the toolkit, calls clocks, random numbers, `hash` or `id`."""
    paths = [*(ROOT / "strategies").glob("*/src/**/*.py"), *(ROOT / "core/src/burnish/_toolkit").glob("*.py")]
    assert len(paths) > 5
    assert [] == [(path.name, fault) for path in paths for fault in faults(path.read_text(encoding="utf-8"))]
    assert ["path", "random.random", "hash"] == faults("from os import path\nrandom.random()\nhash(path)")
