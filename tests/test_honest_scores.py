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


def test_an_id_does_not_hide_that_rows_stand_in_two_sets() -> None:
    """Rows with other ids give the program the same inputs: it is said, and no prompt holds the answer as a demo."""
    rows = [{"id": i, "q": "same " if i % 2 else "same", "answer": "yes"} for i in range(6)]
    seen = []

    def reply(request: abc.LMRequest) -> str:
        seen.append("\n".join(message.content for message in request.messages))
        return "yes"

    model = ScriptedModel(reply)
    result = search(trainset=rows[:2], valset=rows[2:4], testset=rows[4:], models=model, metric="exact_match")
    warned = [warning for warning in result.warnings if "with the same inputs for the program" in warning]
    said = [warning[: warning.index(" stand")] for warning in warned]
    assert ["2 of the validation rows", "2 of the test rows", "2 of the test rows"] == said
    assert seen
    assert not [prompt for prompt in seen if "yes" in prompt]


def test_a_demo_of_another_id_is_not_shown_to_the_same_question() -> None:
    """Train rows serve both sides: the row with the same question is left out of its prompt, the other one is shown."""
    rows = [{"id": i, "q": "ab"[i // 2], "answer": "no"} for i in range(4)]
    seen = []

    def reply(request: abc.LMRequest) -> str:
        seen.append(request)
        return "no"

    search(trainset=rows, valset=None, models=ScriptedModel(reply))
    shown = ["".join(turn.content for turn in request.messages[:-1]) for request in seen]
    last = [request.messages[-1].content for request in seen]
    with_demos = [(text, asked) for text, asked in zip(shown, last, strict=True) if "no" in text]
    assert with_demos
    assert [] == [asked for text, asked in with_demos if f"q: {asked.strip()[-1]}" in text]
