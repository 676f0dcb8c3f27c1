"""What docs and READMEs show runs, and what they quote is so."""

from __future__ import annotations

import inspect
import re
import sys
import types
from pathlib import Path

import pytest

from burnish import hookspecs
from burnish.abc import KINDS

ROOT = Path(__file__).resolve().parents[1]
READMES = [ROOT / "README.md", ROOT / "core" / "README.md", *ROOT.glob("*/*/README.md")]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *READMES])


def blocks(path: Path) -> str:
    """Join a page's Python blocks; one marked `python no-run` is shown only."""
    found = re.findall(r"^```python\n(.*?)^```", path.read_text("utf-8"), re.S | re.M)
    return "\n".join(found)


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python blocks of a page run, in order, as one module."""
    monkeypatch.chdir(tmp_path)
    name = f"page_{page.stem}"
    module = types.ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(compile(blocks(page), str(page), "exec"), module.__dict__)
    assert "__builtins__" in module.__dict__


def test_every_hook_has_a_chapter_with_its_signature() -> None:
    """docs/plugins.md has a chapter a kind, with the signature that `burnish.hookspecs` has."""
    text = (ROOT / "docs" / "plugins.md").read_text("utf-8")
    hooks = {n: f for n, f in vars(hookspecs).items() if n.startswith("burnish_") and inspect.isfunction(f)}
    assert len(KINDS) == len(hooks)
    for kind in KINDS:
        assert f"\n### {kind}\n" in text
    for name, function in hooks.items():
        signature = str(inspect.signature(function)).replace("'", "")
        assert f"{name}{signature}" in text
