"""The floors of the core: imports go down only, and each tool has its one place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import burnish

ROOT = Path(burnish.__file__).parent
FLOORS = {
    **dict.fromkeys(("_model", "abc.py", "errors.py", "hookspecs.py"), 0),
    "_runtime": 1,
    **dict.fromkeys(("_edges", "_toolkit", "events.py"), 2),
    **dict.fromkeys(("_builtin", "toolkit.py"), 3),
    **dict.fromkeys(("_public.py", "testing", "traces.py"), 4),
    "__init__.py": 5,
}
IMPURE = {
    *("asyncio", "threading", "trio", "pluggy", "structlog", "sqlite3"),
    *("os", "pathlib", "random", "sys", "time", "uuid"),
}
MODULES = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8")) for path in ROOT.rglob("*.py")}


def imports(node: ast.AST, package: str) -> Iterator[str]:
    """Give the full name of everything imported at run time below a node; `if TYPE_CHECKING` does not count."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            parts = package.split(".")
            base = [".".join(parts[: len(parts) + 1 - child.level])] if child.level else []
            source = ".".join([*base, *([child.module] if child.module else [])])
            yield from (f"{source}.{alias.name}" for alias in child.names)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from (name for other in child.orelse for name in imports(ast.Module([other], []), package))
        else:
            yield from imports(child, package)


IMPORTS = {
    module: set(imports(tree, ".".join(["burnish", *Path(module).parent.parts]))) for module, tree in MODULES.items()
}


def within(*tops: str) -> Iterator[tuple[str, set[str]]]:
    return ((module, names) for module, names in IMPORTS.items() if module.partition("/")[0] in tops)


def test_every_module_has_a_floor() -> None:
    """A new module or package says where it stands."""
    assert set(FLOORS) == {module.partition("/")[0] for module in MODULES}


def test_imports_go_down_only() -> None:
    """The ground floor knows nobody above it, `_runtime` no edge, and only what is public `_builtin` (style rule 1)."""
    upward = [
        (module, name)
        for floor in FLOORS
        for module, names in within(floor)
        for name in names
        for top in FLOORS
        if f"{name}.".startswith(f"burnish.{top.removesuffix('.py')}.") and FLOORS[top] > FLOORS[floor]
    ]
    assert [] == upward


def test_the_ground_floor_is_pure() -> None:
    """No loop, plugin, log, clock, random number, path or database in `_model` (style rule 2)."""
    impure = [(module, n) for module, names in within("_model") for n in names if n.partition(".")[0] in IMPURE]
    assert [] == impure


def test_only_the_plugin_module_touches_pluggy() -> None:
    """The hook specifications and the plugin manager, nobody else (style rule 12)."""
    users = {module for module, names in IMPORTS.items() if any(n.partition(".")[0] == "pluggy" for n in names)}
    assert users <= {"hookspecs.py", "_edges/plugins.py"}
    assert "hookspecs.py" in users


def test_nurseries_are_opened_in_one_module() -> None:
    """Everyone else calls it (style rule 9); only the tests that burnish ships race things on their own."""
    openers = {
        module
        for module, tree in MODULES.items()
        if any(isinstance(node, ast.Attribute) and node.attr == "open_nursery" for node in ast.walk(tree))
    }
    assert {"_runtime/fanout.py"} == {module for module in openers if not module.startswith("testing/")}
