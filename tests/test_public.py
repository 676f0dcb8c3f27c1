"""Plugins and strategies are written against what `burnish` makes public, as anybody's are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted([*ROOT.glob("plugins/*/src/**/*.py"), *ROOT.glob("strategies/*/src/**/*.py")])


def private(source: Path) -> Iterator[str]:
    """Give each private name of the core that a module imports, type checkers' imports included."""
    for node in ast.walk(ast.parse(source.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            top, *rest = name.split(".")
            if top == "burnish" and any(part.startswith("_") for part in rest):
                yield f"{source.relative_to(ROOT)}:{node.lineno}: {name}"


def test_no_plugin_imports_what_is_private() -> None:
    """What one of them needs has a public home (style rule 4)."""
    assert 40 < len(SOURCES)
    assert [] == [use for source in SOURCES for use in private(source)]
