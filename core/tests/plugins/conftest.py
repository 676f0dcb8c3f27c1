"""Distributions for tests: real `*.dist-info` directories with modules beside them, put on `sys.path`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest


class Site:
    """A place to install small distributions into."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self._monkeypatch = root, monkeypatch
        self.modules: set[str] = set()

    def install(
        self, name: str, points: Mapping[str, str] | str, *, metadata: str | None = None, **modules: str
    ) -> Path:
        """Install a distribution with entry points (or the text of that file) and modules; gives its directory."""
        place = self.root / str(len(list(self.root.iterdir())))
        info = place / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir(parents=True)
        head = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n" if metadata is None else metadata
        (info / "METADATA").write_text(head, "utf-8")
        lines = points if isinstance(points, str) else "\n".join(f"{k} = {v}" for k, v in points.items())
        (info / "entry_points.txt").write_text(f"[burnish]\n{lines}\n", "utf-8")
        for module, source in modules.items():
            (place / f"{module}.py").write_text(source, "utf-8")
            self.modules.add(module)
        self._monkeypatch.syspath_prepend(place)
        return place

    def imported(self) -> set[str]:
        """Give the modules of its distributions that have been imported."""
        return self.modules & set(sys.modules)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Install distributions that are gone, their modules too, when the test ends."""
    place = Site(tmp_path / "site", monkeypatch)
    place.root.mkdir()
    yield place
    for module in place.imported():
        del sys.modules[module]
