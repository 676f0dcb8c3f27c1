"""MIPROv2: three phases, one search, honest figures."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from burnish import Budget, Candidate, Plan, abc
from burnish._model.example import make_examples
from burnish.abc import MetricInfo, Problem
from burnish.errors import UsageError
from burnish_miprov2 import MIPROv2, MIPROv2Report
from burnish_programs import Predict, PromptProgram

from ._kinds import (
    BASE,
    SMALL,
    TRAIN,
    VAL,
    ZERO,
    Two,
    inputs,
    model,
    outputs,
    prompts,
    propose,
    report_of,
    small,
    solve,
    tune,
)


def test_a_better_program_is_found() -> None:
    """Instruction and demos are chosen together: neither alone reaches what both do."""
    result = small()
    report = report_of(result)
    assert 0.25 == report.baseline_score
    assert report.best_score is not None
    assert report.best_score >= 0.75
    best = next(entry for entry in report.candidates if entry.candidate == report.best)
    overlay = best.candidate.overlays["predict"]
    assert overlay.instruction or overlay.demos
    assert (report.best, report.best_score) == (result.candidate, best.mean)


def test_sets_are_the_starts_labeled_bootstrapped_and_seeded_shuffles() -> None:
    """Phase 1: one pool, each set once; sizes of the random ones are seeded."""
    report = report_of(small())
    assert ("start", "labeled", "bootstrap") == report.demo_sets["predict"][:3]
    assert all(origin.startswith("shuffle") for origin in report.demo_sets["predict"][3:])
    other = report_of(tune(attrs.evolve(SMALL, seed=1)))
    assert [e.candidate for e in other.candidates] != [e.candidate for e in report.candidates]


def test_the_original_competes_as_index_0() -> None:
    """The instruction in force is the first of its predictor's, whoever set it, and proposals come after it."""
    report = report_of(small())
    texts = [(one.index, one.text) for one in report.instructions]
    assert [(0, BASE), (1, f"{BASE} [cue 1]"), (2, f"{BASE} [cue 2]"), (3, f"{BASE} [cue 3]")] == texts
    tried = report_of(tune(attrs.evolve(SMALL, num_candidates=2))).trials
    assert [(0, 1), (1, 0), (1, 1)] == [(*trial.choice.values(),) for trial in tried]


def test_the_proposer_sees_what_is_known() -> None:
    """Phase 2: summary, program, part, demos of a set, a tip, the basic instruction; each can be switched off."""
    proposer = model(propose, "proposer")
    tune(SMALL, proposer=proposer)
    asked = [request for request in proposer.requests if "instruction" in outputs(request)]
    assert ["dataset_summary", "program_description", "part", "part_description", "basic_instruction"] == [
        name for name in inputs(asked[0]) if name not in ("examples", "q", "a", "tip")
    ]
    assert all("examples: q: Q" in request.messages[-1].content for request in asked)
    assert any("tip" in inputs(request) for request in asked)
    assert {1.0} == {request.temperature for request in asked}
    proposer = model(propose, "proposer")
    off: Any = dict.fromkeys(("program_aware", "data_aware", "tip_aware", "fewshot_aware"), False)
    tune(attrs.evolve(SMALL, **off), proposer=proposer)
    assert {("part", "basic_instruction")} == {tuple(inputs(request)) for request in proposer.requests}


def test_what_is_independent_is_asked_for_at_once() -> None:
    """Three rounds of proposer calls, however many rows, predictors and candidates there are."""
    proposer = model(propose, "proposer")
    result = tune(ZERO, program=Two(), task=model(lambda request: f"{outputs(request)[0]}: x"), proposer=proposer)
    assert 2 + 1 + (1 + 2) + 2 * 3 <= proposer.calls
    steps = [trial.kind for trial in report_of(result).trials]
    assert {"full"} == {*steps}


def test_every_few_trials_the_best_mean_is_scored_in_full() -> None:
    """Phase 3: minibatches of one size; of those without a full evaluation the best mean gets one on schedule, and the
    winner is the best of the full ones."""
    report = report_of(tune(attrs.evolve(SMALL, minibatch_full_eval_steps=2)))
    small = [trial for trial in report.trials if trial.kind == "minibatch"]
    full = [trial for trial in report.trials if trial.kind == "full"]
    assert (6, {6}) == (len(small), {len(trial.columns) for trial in small})
    assert (3, {report.scored_on}) == (len(full), {trial.columns for trial in full})
    for trial in full:
        before = report.trials[: report.trials.index(trial)]
        done = {t.candidate for t in before if t.kind == "full"}
        rivals = [t.score or 0.0 for t in before if t.kind == "minibatch" and t.candidate not in done]
        assert max(rivals) >= next(t.score or 0.0 for t in small if t.candidate == trial.candidate)
    assert report.best_score == max(score for t in full if (score := t.score) is not None)


def test_zero_shot_tunes_instructions_alone() -> None:
    """Without demos the space is the instructions: as small as that, it is scored in full; no teacher where rows are
    labeled, and the proposer sees labeled rows."""
    task, proposer = model(), model(propose, "proposer")
    report = report_of(
        tune(ZERO, task=task, proposer=proposer)
    )
    assert ({}, 4, True, 12) == (report.demo_sets, report.space, report.exhaustive, report.minibatch_rows)
    assert (0.25, 0.5, 4 * 12) == (report.baseline_score, report.best_score, task.calls)
    assert "examples: q: Q" in proposer.requests[-1].messages[-1].content
    assert "all combinations tried" == report.stop_reason


@pytest.mark.slow
def test_a_zero_shot_proposer_sees_demos_of_hidden_steps() -> None:
    """Where rows do not label every predictor, the teacher tries a few rows for the proposer's eyes alone."""

    def both(request: abc.LMRequest) -> str:
        return solve(request) if "a" in outputs(request) else "draft: something"

    proposer = model(propose, "proposer")
    report = report_of(tune(ZERO, program=Two(), task=model(both), proposer=proposer))
    assert (8, {}) == (report.teacher_rows, report.demo_sets)
    shown = [r.messages[-1].content for r in proposer.requests if "instruction" in outputs(r)]
    assert any("draft: something" in text for text in shown)
    assert all(overlay.demos is None for e in report.candidates for overlay in e.candidate.overlays.values())


def test_several_predictors_are_tuned_together() -> None:
    """Each has its own instruction and its own set of demos in a choice, and any of them may stay as it is."""

    def both(request: abc.LMRequest) -> str:
        return solve(request) if "a" in outputs(request) else "draft: something"

    report = report_of(tune(SMALL, program=Two(), task=model(both)))
    names = ["answer/instruction", "draft/instruction", "answer/demos", "draft/demos"]
    assert all(sorted(names) == sorted(trial.choice) for trial in report.trials)
    assert report.best_score is not None
    assert report.best_score > 0.25


def test_a_prompt_file_is_tuned_by_its_text() -> None:
    """A text parameter takes no demos and keeps its placeholders: a proposal that lost one is asked for again."""

    def lose(request: abc.LMRequest) -> str:
        text = propose(request)
        return text if request.sample < 1000 or "instruction" not in outputs(request) else f"{text} {{{{q}}}}"

    report = report_of(
        tune(
            MIPROv2(num_candidates=3),
            program=PromptProgram("Answer. {{q}}"),
            proposer=model(lose, "proposer"),
            task=model(lambda request: "unknown"),
            metric=lambda example, prediction: 0.5,
        )
    )
    assert {"it has lost {{q}}"} == {one.reason for one in report.rejected}
    assert all("{{q}}" in one.text for one in report.instructions)


def problem(val: int, train: int = 40) -> Problem:
    parameters = Predict("q -> a").parameter("p")
    return Problem(
        parameters={"p": parameters}, train=tuple(range(val, val + train)), val=tuple(range(val)), start=Candidate(),
        metric=MetricInfo(), examples=tuple(make_examples([{"q": f"q{n}", "a": f"a{n}"} for n in range(val + train)])),
    )


@pytest.mark.parametrize(
    ("auto", "demos", "candidates", "trials"),
    [("light", 4, 6, 10), ("medium", 4, 12, 18), ("heavy", 4, 18, 27), ("light", 0, 6, 9), ("medium", 0, 12, 18)],
)
def test_auto_sizes(auto: Any, demos: int, candidates: int, trials: int) -> None:
    """6, 12 or 18 candidates; max(2 V log2 n, 1.5 n) trials, where V is 1 a predictor zero-shot, else 2."""
    strategy = MIPROv2(auto=auto, max_bootstrapped_demos=demos, max_labeled_demos=demos)
    sizes = strategy.sizes(problem(40))
    assert (candidates if demos else 1, trials) == (sizes.sets, sizes.trials)
    assert (candidates // 2 if demos else candidates) == sizes.instructions


@pytest.mark.parametrize(("auto", "rows"), [("light", 100), ("medium", 300), ("heavy", 1000), (None, 1200)])
def test_the_valset_is_capped(auto: Any, rows: int) -> None:
    """100, 300 or 1000 validation rows, a seeded choice in column order; without auto all of them."""
    strategy = MIPROv2(auto=auto, num_candidates=3)
    _, _, scoring = strategy.layout(problem(1200))
    assert (rows, sorted(scoring)) == (len(scoring), list(scoring))
    assert (scoring == tuple(range(rows))) == (auto is None)


@pytest.mark.parametrize(
    ("knobs", "rows", "batch"),
    [
        ({}, 100, 35), ({}, 40, 20), ({}, 30, 20), ({}, 12, 12), ({"minibatch": False}, 100, 100),
        ({"auto": None, "num_candidates": 3}, 40, 35), ({"auto": None, "num_candidates": 3}, 30, 30),
    ],
)
def test_minibatches(knobs: Any, rows: int, batch: int) -> None:
    """35 rows; with auto at most half of the rows, but no fewer than 20, as then a minibatch saves nothing."""
    strategy = MIPROv2(**knobs)
    assert batch == strategy.sizes(problem(rows)).batch(strategy, rows)


@pytest.mark.parametrize("strategy", [MIPROv2(), SMALL, ZERO], ids=["light", "small", "zero"])
def test_the_plan_is_a_bound(strategy: MIPROv2) -> None:
    """No more rollouts and proposer calls than `plan` says."""
    task, proposer = model(), model(propose, "proposer")
    seen: list[Plan] = []

    class Planned(MIPROv2):
        async def compile(self, engine: Any, problem: Problem) -> MIPROv2Report:
            seen.append(self.plan(problem))
            return await super().compile(engine, problem)

    knobs = {f.name: getattr(strategy, f.name) for f in attrs.fields(MIPROv2) if f.init}
    tune(Planned(**knobs), task=task, proposer=proposer)
    (plan,) = seen
    assert task.calls <= plan.rollouts
    assert proposer.calls <= plan.proposer_calls
    assert 24 == plan.minimum


def test_without_a_valset_rows_are_kept_apart() -> None:
    """Four fifths of the train rows are for scoring, and no demo and no proposer's example is one of them."""
    proposer = model(propose, "proposer")
    report = report_of(tune(valset=None, trainset=[*TRAIN, *VAL], proposer=proposer))
    assert (19, 5, set()) == (len(report.scored_on), len(report.sources), {*report.scored_on} & {*report.sources})
    shown = "\n".join(text for _, text in prompts(proposer.requests))
    assert 5 == sum(row["q"] in shown for row in [*TRAIN, *VAL])


def test_an_empty_trainset_is_refused() -> None:
    """A usage error that says so, before anything is spent."""
    task = model()
    with pytest.raises(UsageError, match="trainset is empty"):
        tune(trainset=[], task=task)
    assert 0 == task.calls


@pytest.mark.parametrize("cap", [24, 30, 37, 50, 61])
def test_the_budget_ends_it_with_the_best_so_far(cap: int) -> None:
    """Out of budget is a normal stop, whatever it has room for; no cap is passed, and what was found by then counts."""
    task = model()
    report = report_of(tune(SMALL, task=task, budget=Budget(max_metric_calls=cap)))
    assert task.calls <= cap
    assert ("budget: max_metric_calls", 0.25) == (report.stop_reason, report.baseline_score)
    assert (report.best_score or 0.0) >= 0.25
    assert cap < 37 or any(trial.kind == "full" for trial in report.trials)


def test_a_perfect_start_ends_it() -> None:
    """Nothing can be better, so no teacher runs and no proposal is made."""
    task, proposer = model(lambda request: f"a: A{inputs(request)['q'][1:]}"), model(propose, "proposer")
    report = report_of(tune(SMALL, task=task, proposer=proposer))
    assert ("perfect score", 12, 0) == (report.stop_reason, task.calls, proposer.calls)


def test_a_perfect_score_ends_the_search() -> None:
    """The first full evaluation that has the best score there is is the last one."""

    def told(request: abc.LMRequest) -> str:
        return "instruction: [cue 1] [cue 2] [cue 3]" if "instruction" in outputs(request) else propose(request)

    report = report_of(tune(SMALL, proposer=model(told, "proposer")))
    assert ("perfect score", 1.0, "full") == (report.stop_reason, report.best_score, report.trials[-1].kind)
