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
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if "TYPE_CHECKING" not in ast.dump(node)]
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found += [name.name for name in names if name.name.split(".")[0] in MODULES]
            case ast.ImportFrom(module=str(module)):
                found += [module] if module.split(".")[0] in MODULES else []
            case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS:
                found.append(name)
    return found


def test_strategies_take_chance_from_the_problem_alone() -> None:
    """R9: no strategy, and nothing of the toolkit, imports clocks or random numbers, or calls `hash` or `id`."""
    paths = [*(ROOT / "strategies").glob("*/src/**/*.py"), *(ROOT / "core/src/burnish/_toolkit").glob("*.py")]
    assert len(paths) > 5
    assert [] == [(path.name, fault) for path in paths for fault in faults(path.read_text(encoding="utf-8"))]
    assert ["random", "os.path", "hash"] == faults("import random\nfrom os.path import join\nhash(join)")
