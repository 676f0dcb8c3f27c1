"""Scenarios 29 to 33 of the engine's checklist: BootstrapFewShot with its exact numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from burnish import Candidate, Demo, Eval, Trace
from burnish_bootstrap import BootstrapFewShot, BootstrapReport

from ._program import Answer, Chain, engine_for, predictor

ROWS = [{"prompt": str(i), "expected": str(i)} for i in range(3)]


def answers(first: Sequence[str], then: Sequence[str]) -> Answer:
    """Answer prompt i with the i-th text: of `then` where the prompt shows demos, else of `first`."""

    def answer(name: str, inputs: Mapping[str, Any], demos: Sequence[Demo], instruction: str) -> dict[str, str]:
        return {"answer": (then if demos else first)[int(inputs["prompt"])]}

    return answer


async def bootstrapped(first: Sequence[str], then: Sequence[str], **knobs: Any) -> BootstrapReport:
    engine, problem = engine_for(Chain(answers(first, then), predictor("prompt -> answer")), ROWS)
    return await BootstrapFewShot(**knobs).compile(engine, problem)


def prompts(report: BootstrapReport) -> list[Any]:
    overlay = report.best.overlays.get("answer")
    return [] if overlay is None else [demo["prompt"] for demo in overlay.demos or ()]


async def test_the_successes_become_demos_and_are_adopted() -> None:
    """Scenario 29: 0, wrong, 2 then 0, 1, 2: 2/3 against 1.0, demos of prompts 0 and 2, six calls, same instruction."""
    report = await bootstrapped(["0", "wrong", "2"], ["0", "1", "2"])
    assert (2 / 3, 1.0, True) == (report.baseline_score, report.candidate_score, report.adopted)
    assert ["0", "2"] == prompts(report)
    assert {"answer": 2} == report.demos_per_predictor
    assert (6, 6) == (report.spend.metric_calls, report.spend.lm_calls)
    assert report.best.overlays["answer"].instruction is None
    assert ("bootstrap", "finished", 1.0) == (report.strategy, report.stop_reason, report.best_score)


async def test_a_worse_candidate_is_not_adopted() -> None:
    """Scenario 30: all right, then all wrong: the candidate scores 0.0 and the program keeps no demos."""
    report = await bootstrapped(["0", "1", "2"], ["x", "x", "x"])
    assert (1.0, 0.0, False) == (report.baseline_score, report.candidate_score, report.adopted)
    assert Candidate() == report.best
    assert 1.0 == report.best_score


async def test_without_a_success_there_is_no_candidate() -> None:
    """Scenario 31: all wrong: no candidate, three calls, no demos; the note says what to do."""
    report = await bootstrapped(["x", "x", "x"], ["0", "1", "2"])
    assert (0.0, None, False) == (report.baseline_score, report.candidate_score, report.adopted)
    assert 3 == report.spend.metric_calls
    assert ({}, Candidate()) == (report.demos_per_predictor, report.best)
    assert any("metric_threshold" in note for note in report.notes)


async def test_the_maximum_bounds_the_demos() -> None:
    """Scenario 32: at most one demo was asked for, so one it is."""
    report = await bootstrapped(["0", "wrong", "2"], ["0", "1", "2"], max_bootstrapped_demos=1)
    assert (["0"], {"answer": 1}) == (prompts(report), report.demos_per_predictor)


def draft_wrong_refine_right(
    name: str, inputs: Mapping[str, Any], demos: Sequence[Demo], instruction: str
) -> dict[str, str]:
    return {"draft": "wrong"} if name == "draft" else {"answer": inputs["prompt"]}


class RolloutMetric:
    """Scores the final answer."""

    __burnish_inline__ = True

    def evaluate(self, example: Any, prediction: Any, trace: Trace | None = None) -> float:
        return float(prediction["answer"] == example["expected"])


class SpanMetric(RolloutMetric):
    """Scores the draft for itself."""

    def evaluate_spans(self, example: Any, prediction: Any, trace: Trace) -> list[tuple[int, Eval]]:
        return [(s.id, Eval((s.output or {})["draft"] == example["expected"])) for s in trace.for_component("draft")]


async def test_a_metric_that_sees_spans_keeps_bad_drafts_out() -> None:
    """Scenario 33: by the rollout alone 3 drafts and 3 refinements; by spans no draft; the baseline is 1.0 in both."""
    steps = predictor("prompt -> draft", "draft"), predictor("prompt; draft -> answer", "refine")
    found = []
    for metric in (RolloutMetric(), SpanMetric()):
        engine, problem = engine_for(Chain(draft_wrong_refine_right, *steps), ROWS, metric=metric)
        report = await BootstrapFewShot().compile(engine, problem)
        found.append((report.baseline_score, dict(report.demos_per_predictor)))
    assert [(1.0, {"draft": 3, "refine": 3}), (1.0, {"refine": 3})] == found
