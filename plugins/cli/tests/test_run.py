"""burnish run, plan, tune and evaluate, end to end: the real core, a scripted model, real files."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from burnish_cli import main

CONFIG = """
seed = 1
[data]
path = "rows.jsonl"
inputs = ["q"]
labels = ["a"]
train = 4
val = 12
test = 20
stratify = "a"
[program]
use = "toy_parts:Program"
[models.task]
use = "toy_parts:model"
[metric]
use = "toy_parts:metric"
[[strategy]]
use = "toy_parts:good"
[budget]
max_metric_calls = 100
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with rows, parts and a configuration; what is imported from it is forgotten afterwards."""
    rows = [{"q": f"{i}: say {'ab'[i % 2]}", "a": "ab"[i % 2]} for i in range(40)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (tmp_path / "burnish.toml").write_text(CONFIG, encoding="utf-8")
    shutil.copy(Path(__file__).with_name("toy_parts.py"), tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("toy_parts", None)


def change(place: Path, *pairs: tuple[str, str]) -> None:
    text = CONFIG
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    (place / "burnish.toml").write_text(text, encoding="utf-8")


def result(place: Path, run: str = "burnish") -> dict[str, Any]:
    form: dict[str, Any] = json.loads((place / "runs" / run / "result.json").read_text(encoding="utf-8"))
    return form


def test_a_run_from_a_file(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan and plain progress go to stderr, the result to stdout and into the run directory (scenario 66)."""
    assert 0 == main(["run"])
    out, err = capsys.readouterr()
    assert "burnish: improved by +0.500 on untouched test rows" in out
    assert "test        0.500 → 1.000 on 20 rows, +0.500 (95% interval +0.260 to +0.740)" in out
    assert "strategy  Try: at most 24 rollouts for 1 candidate" in err
    assert "baseline 0.500 on 12 validation rows" in err
    assert "new best 1.000 (candidate 1)" in err
    form = result(place)
    assert ("improved", "finished", 1) == (form["outcome"], form["stop_reason"], form["seed"])
    assert (64, 64) == (form["spend"]["rollouts"], form["spend"]["by_role"]["task"]["requests"])
    assert [{"name": "leaf", "instruction": True, "demos": None}] == form["changes"]
    names = {path.name for path in (place / "runs" / "burnish").iterdir()}
    assert {"burnish.lock", "run.db", "best.json", "result.json"} <= names
