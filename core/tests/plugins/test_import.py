"""`import burnish` loads no plugin and next to nothing else; every public name is there all the same."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import types
from pathlib import Path

import pytest

import burnish

PACKAGE = Path(burnish.__file__).parent

HEAVY = {"structlog", "cattrs", "rich", "pygments", "httpx2", "httpx", "cyclopts", "xllamacpp", "asyncio", "numpy"}
"""Console libraries, HTTP clients, engines of models, another event loop: none of them before somebody needs it."""


def loaded(code: str) -> set[str]:
    """Run code in a fresh process; gives the modules that it brought in."""
    head, tail = "import sys; before = set(sys.modules)", "new = sorted(set(sys.modules) - before)"
    script = f"{head}\n{code}\n{tail}\nimport json; print(json.dumps(new))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)
    return set(json.loads(done.stdout))


def plugins(modules: set[str]) -> list[str]:
    """Pick out the modules of plugins, built-in ones included."""
    return sorted(m for m in modules if m.startswith(("burnish_", "burnish._builtin")))


def roots(modules: set[str]) -> set[str]:
    """Give the top-level packages that are not the standard library's."""
    return {m.partition(".")[0] for m in modules} - set(sys.stdlib_module_names)


@pytest.mark.slow
def test_import_burnish_loads_nothing_but_itself() -> None:
    """Rule 13: no plugin, no HTTP client, no console library, not even the event loop."""
    modules = loaded("import burnish")
    assert {"burnish"} == {m for m in modules if m.startswith("burnish")}
    assert {"burnish"} == roots(modules)


@pytest.mark.slow
def test_using_every_public_name_loads_no_plugin_and_nothing_heavy() -> None:
    """All of the surface, an engine, a plugin manager and the list of what is installed: still none of them."""
    modules = loaded(
        "import burnish\n"
        "for name in dir(burnish): getattr(burnish, name)\n"
        "burnish.EvalEngine([{'q': 1}], lambda example, prediction: 1.0)\n"
        "assert burnish.PluginManager().available()"
    )
    assert [] == plugins(modules)
    assert set() == roots(modules) & HEAVY
    assert "asyncio" not in modules


@pytest.mark.slow
def test_composing_loads_the_plugin_that_is_named_and_no_other() -> None:
    """`cache.memory` by name: its module, and no other of the built-ins or of what else is installed."""
    assert ["burnish._builtin", "burnish._builtin.memory"] == plugins(
        loaded("import burnish; burnish.PluginManager().spec('cache', 'memory')")
    )


def public_names() -> list[str]:
    """Read the names off `_public.py`, where each is imported as itself."""
    tree = ast.parse((PACKAGE / "_public.py").read_text("utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert len(imports) == len(tree.body) - 1
    aliases = [alias for node in imports for alias in node.names]
    assert [] == [alias.name for alias in aliases if alias.asname != alias.name]
    return [alias.name for alias in aliases]


def test_every_public_name_is_there_once() -> None:
    """Each name of `_public.py` is an attribute, in `dir` and in what `import *` takes; anything else is an error."""
    names = public_names()
    assert sorted(set(names)) == sorted(names) == burnish.__all__
    assert set(names) <= set(dir(burnish))
    assert [] == [name for name in names if isinstance(getattr(burnish, name), types.ModuleType)]
    space: dict[str, object] = {}
    exec("from burnish import *", space)
    assert set(names) <= set(space)
    for name in ("nope", "_public_", "__wrapped__"):
        with pytest.raises(AttributeError, match=f"module 'burnish' has no attribute '{name}'"):
            getattr(burnish, name)


def test_every_public_module_is_there_without_being_imported() -> None:
    """`burnish.testing.ScriptedModel` works after `import burnish` alone (rule 4)."""
    modules = {path.stem for path in PACKAGE.iterdir() if not path.name.startswith("_") and path.name != "py.typed"}
    assert {"abc", "errors", "hookspecs", "testing", "toolkit"} <= modules
    assert modules <= set(dir(burnish))
    for name in modules:
        assert f"burnish.{name}" == getattr(burnish, name).__name__
