"""What a run tells as a score is one: over all rows, of rows told apart, and not of answers that were shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import burnish
from burnish import abc
from burnish.testing import ScriptedModel
from burnish_bootstrap import BootstrapRandomSearch
from burnish_programs import Predict

ROWS = [{"q": str(i), "answer": "1"} for i in range(6)]


def search(**wanted: Any) -> burnish.Result:
    """Search with all defaults that a test does not name."""
    wanted = {
        "trainset": ROWS[:2],
        "valset": ROWS[2:4],
        "metric": "exact_match",
        "strategy": BootstrapRandomSearch(num_candidates=1),
        "budget": burnish.Budget(max_metric_calls=60),
        "models": ScriptedModel(lambda request: "1"),
        **wanted,
    }
    return burnish.optimize(Predict("q -> answer"), **wanted)


def test_a_baseline_that_a_cap_cut_off_is_not_told_as_a_score(tmp_path: Path) -> None:
    """The row that was paid for scores 1.0, all five 0.2: neither the result nor `best.json` says 1.0."""
    rows = [{"q": str(i), "answer": "1" if i == 0 else "0"} for i in range(5)]
    model = ScriptedModel(lambda request: "1", usage=abc.Usage(input_tokens=10, output_tokens=0))
    budget = burnish.Budget(max_tokens=12)
    result = search(valset=rows, models=model, budget=budget, concurrency=1, run_dir=tmp_path / "run")
    assert ("budget: max_tokens", None, None) == (result.stop_reason, result.baseline, result.best)
    assert {"validation": None, "baseline": None} == json.loads((tmp_path / "run" / "best.json").read_text())["scores"]
