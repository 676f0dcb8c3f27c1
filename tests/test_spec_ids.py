"""Every id of the checklist is pinned by a test, or docs/spec.md says why it is done otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WANTED = {*(f"E{n}" for n in range(1, 88)), *(f"R{n}" for n in range(1, 16))}
SCENARIOS = range(52, 63)


def named_in(paths: Iterable[Path]) -> set[str]:
    """Collect ids and ranges such as `E26-E30` from the text of files."""
    found: set[str] = set()
    for path in paths:
        for first, last in re.findall(r"\b([ER]\d{1,2})(?:\s*(?:-|to|–)\s*[ER]?(\d{1,2}))?\b", path.read_text("utf-8")):
            found.update(f"{first[0]}{n}" for n in range(int(first[1:]), int(last or first[1:]) + 1))
    return found


def test_every_id_of_the_checklists_is_named() -> None:
    """Each rule of the engine (E, up to 87) and of replay (R, up to 15) stands in a test or in docs/spec.md."""
    assert set() == WANTED - named_in([*files_of_tests(), ROOT / "docs" / "spec.md"])


def test_every_scenario_of_traces_is_named() -> None:
    """Scenarios 52 to 62 each stand in a test's docstring."""
    named: set[int] = set()
    for path in files_of_tests():
        for numbers in re.findall(r"\b[Ss]cenarios? (\d+(?:(?:, | and )\d+)*)", path.read_text("utf-8")):
            named.update(int(number) for number in re.findall(r"\d+", numbers))
    assert set() == set(SCENARIOS) - named


def files_of_tests() -> list[Path]:
    """Give all test files but this one."""
    found = [p for top in ("core", "plugins", "strategies", "tests") for p in (ROOT / top).rglob("test_*.py")]
    return [path for path in found if path != Path(__file__).resolve()]
