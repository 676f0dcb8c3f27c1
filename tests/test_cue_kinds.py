"""The benchmark *cue-kinds*, and compositions of real strategies on it: the same at any concurrency, and when cut."""

from __future__ import annotations

import importlib
import random
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

import burnish as b

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
KINDS = ("portfolio", "sequential")


@pytest.fixture(scope="module")
def scenario() -> Iterator[Any]:
    """The scenario's module, with `ours` beside it; forgotten afterwards."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        module = importlib.import_module("cue_kinds")
        module.ours = importlib.import_module("cue_kinds_ours")  # type: ignore[attr-defined]
        yield module
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name in ("cue_kinds", "cue_kinds_ours"):
            sys.modules.pop(name, None)


def test_a_row_is_right_by_cue_by_demo_or_by_kind(scenario: Any) -> None:
    """The last question of the prompt is the one that is asked; a demo counts where its answer is the right one."""
    assert "A0-50" == scenario.solve("Answer the question.\nQ0-50")
    assert "unknown" == scenario.solve("Answer the question.\nQ3-50")
    assert "A3-50" == scenario.solve("Answer the question. [cue 3]\nQ3-50")
    assert "A3-50" == scenario.solve("Answer the question.\nQ3-10 A3-10\nQ3-50")
    assert "unknown" == scenario.solve("Answer the question.\nQ3-10 unknown\nQ3-50")
    assert 0.125 == scenario.true_score(scenario.BASE, ())
    assert 0.375 == scenario.true_score("Answer the question. [cue 1]", [{"question": "Q2-10", "answer": "A2-10"}])
    assert (40, 40, 5) == (len(scenario.TRAIN), len(scenario.VAL), sum("Q7" in r["question"] for r in scenario.VAL))


def test_a_proposal_keeps_the_best_and_adds_one_cue(scenario: Any) -> None:
    """The first that feedback names, else by a hash of prompt and sample; the last of equally good ones is kept."""
    named = "Answer the question.\nmissing: [cue 4], missing: [cue 5]"
    assert "Answer the question. [cue 4]" == scenario.propose(named)
    text = "Answer the question. [cue 1]\nAnswer the question. [cue 2]\nAnswer the question."
    assert scenario.propose(text).startswith("Answer the question. [cue 2] [cue ")
    assert 1 < len({scenario.propose(text, sample) for sample in range(8)})
    full = scenario.BASE + "".join(f" {scenario.cue(kind)}" for kind in range(8))
    assert full == scenario.propose(full)


def composed(kind: str) -> Any:
    """Name a composition as a configuration file would."""
    few = {"use": "bootstrap-random", "num_candidates": 3, "max_labeled_demos": 3}
    if kind == "portfolio":
        return b.Use("portfolio", strategies=[{"use": "gepa", "in_flight": 2}, few, {"use": "copro", "breadth": 3}])
    return b.Use("sequential", strategies=[few, {"use": "portfolio", "strategies": ["gepa", few]}], shares=[1, 2])


def tuned(scenario: Any, kind: str, delays: int, **options: Any) -> tuple[dict[str, Any], int]:
    """Run a composition with random delays; gives what must not depend on them, and the calls."""
    draws, meter = random.Random(delays), scenario.Meter()

    def begin(*args: Any) -> float:
        scenario.Meter.begin(meter, *args)
        return draws.random() * 0.002

    meter.begin = begin
    result = trio.run(lambda: scenario.ours.tuned(composed(kind), budget=260, seed=0, meter=meter, **options))
    (report,) = result.reports
    return {
        "winner": result.candidate.to_json(),
        "scores": (result.baseline, result.best),
        "rollouts": result.spend.metric_calls,
        "parts": [
            (part.strategy, part.stop_reason, [(e.candidate.to_json(), e.mean) for e in part.candidates])
            for part in report.parts
        ],
    }, meter.calls


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_compositions_are_the_same_in_any_order_of_answers(scenario: Any, kind: str) -> None:
    """One at a time or sixteen: the same candidates in each part, the same winner, the same spend, within the cap."""
    told, calls = tuned(scenario, kind, 0, concurrency=1)
    assert (told, calls) == tuned(scenario, kind, 1, concurrency=16) == tuned(scenario, kind, 2, concurrency=16)
    assert told["rollouts"] <= 260
    assert told["scores"][1] > told["scores"][0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_compositions_that_were_cut_go_on(scenario: Any, kind: str, tmp_path: Path) -> None:
    """Killed after any event, they come to what they would have come to, and a whole run asks for nothing more."""
    told, calls = tuned(scenario, kind, 0, concurrency=16, run_dir=tmp_path / "run")
    assert (told, 0) == tuned(scenario, kind, 1, concurrency=3, run_dir=tmp_path / "run", resume=True)
    with sqlite3.connect(tmp_path / "run" / "run.db") as connection:
        (last,) = connection.execute("SELECT MAX(n) FROM events").fetchone()
    connection.close()
    for after in range(3, last, last // 6):
        place = tmp_path / f"cut {after}"
        shutil.copytree(tmp_path / "run", place)
        with sqlite3.connect(place / "run.db") as connection:
            for table in ("events", "traces"):
                connection.execute(f"DELETE FROM {table} WHERE n > ?", (after,))
        connection.close()
        again, more = tuned(scenario, kind, after, concurrency=8, run_dir=place, resume=True)
        assert told == again, after
        assert more <= calls
