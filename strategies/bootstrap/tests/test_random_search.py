"""BootstrapRandomSearch: candidate sets, honest scoring, and decisions that depend on answers alone."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from burnish import Candidate, Demo, Spend
from burnish._model.codec import dumps, loads
from burnish.errors import UsageError
from burnish_bootstrap import BootstrapFewShot, BootstrapRandomSearch, BootstrapReport

from ._program import Ask, Chain, engine_for, predictor

CLASSIFY = predictor("prompt -> answer: Literal['a', 'b', 'c', 'd']")
LABELS = "abcd"


def nearest(name: str, inputs: Mapping[str, Any], demos: Sequence[Demo], instruction: str) -> dict[str, Any]:
    """Answer like the demo whose prompt begins alike; without any, right on every third row."""
    text = inputs["prompt"]
    for demo in demos:
        if str(demo["prompt"])[0] == text[0]:
            return {"answer": demo["answer"]}
    return {"answer": text[0] if int(text[1:]) % 3 == 0 else "a"}


def rows(count: int, begin: int = 0, *, labeled: bool = True) -> list[dict[str, str]]:
    """Rows whose label is the first letter of the prompt."""
    made = [(LABELS[i % 4], f"{LABELS[i % 4]}{begin + i}") for i in range(count)]
    return [{"prompt": p, "expected": label, **({"answer": label} if labeled else {})} for label, p in made]


def origins(report: BootstrapReport) -> list[str]:
    return [entry.origin for entry in report.candidates]


def demos_of(entry_candidate: Candidate) -> Sequence[Demo]:
    overlay = entry_candidate.overlays.get("answer")
    return () if overlay is None else overlay.demos or ()


async def test_candidates_are_start_labeled_bootstrap_and_seeded_shuffles() -> None:
    """The start on the validation rows before all else, the others in one fan-out; the best is adopted.

    Each knows parent, origin, mean and scores."""
    engine, problem = engine_for(Chain(nearest, CLASSIFY), rows(24), rows(8, 100))
    report = await BootstrapRandomSearch(num_candidates=5, max_labeled_demos=4).compile(engine, problem)
    assert ["start", "labeled", "bootstrap", *(f"shuffle {i}" for i in range(5))] == origins(report)
    assert [None, *[report.candidates[0].index] * 7] == [entry.parent for entry in report.candidates]
    assert all(8 == len(entry.scores) and entry.mean is not None for entry in report.candidates)
    first, *teaching, scoring = engine.asks
    assert [(entry.index, problem.val) for entry in report.candidates] == [*first.requests, *scoring.requests]
    assert (1, {True}) == (len(first.requests), {ask.traces for ask in teaching})
    assert report.adopted
    assert (1.0, report.best_score) == (report.best_score, report.candidate_score)
    assert report.baseline_score is not None
    assert report.baseline_score < 1.0


async def test_the_first_of_the_best_wins() -> None:
    """Labeled demos of all four classes are perfect already, so that later ones, perfect too, do not replace them."""
    engine, problem = engine_for(Chain(nearest, CLASSIFY), rows(24), rows(8, 100))
    report = await BootstrapRandomSearch(num_candidates=3).compile(engine, problem)
    means = [entry.mean for entry in report.candidates]
    assert report.best == report.candidates[means.index(1.0)].candidate == report.candidates[1].candidate


async def test_sets_have_seeded_sizes_and_show_the_classes_evenly() -> None:
    """Sizes run from 1 to the maximum; in every set no class is two ahead of another."""
    engine, problem = engine_for(Chain(nearest, CLASSIFY), rows(48, labeled=False), rows(4, 100))
    strategy = BootstrapRandomSearch(num_candidates=12, max_bootstrapped_demos=8, metric_threshold=0.0)
    report = await strategy.compile(engine, problem)
    sets = [[d["prompt"] for d in demos_of(e.candidate)] for e in report.candidates if e.origin.startswith("shuffle")]
    assert 12 == len({tuple(drawn) for drawn in sets})
    assert {len(drawn) for drawn in sets} <= set(range(1, 9))
    assert 3 < len({len(drawn) for drawn in sets})
    assert 12 < len({prompt for drawn in sets for prompt in drawn})


async def test_no_scored_row_is_the_source_of_a_demo() -> None:
    """Without a valset half of the train rows is split off; the note says so; a program that can only copy its demos
    scores nothing on them, where DSPy reports full marks."""

    def memory(name: str, inputs: Mapping[str, Any], demos: Sequence[Demo], instruction: str) -> dict[str, Any]:
        known = {d["prompt"]: d["answer"] for d in demos}
        return {"answer": known.get(inputs["prompt"], "?")}

    train = [{"prompt": f"p{i}", "answer": f"p{i}", "expected": f"p{i}"} for i in range(20)]
    for val in ([], train):
        engine, problem = engine_for(Chain(memory, predictor("prompt -> answer")), train, val)
        report = await BootstrapRandomSearch(num_candidates=4).compile(engine, problem)
        scored = {problem.example(column).fingerprint for column in report.scored_on}
        sources = {d.source for entry in report.candidates for d in demos_of(entry.candidate)}
        assert (10, set()) == (len(scored), scored & sources)
        assert (0.0, False) == (report.best_score, report.adopted)
        assert any("10 of the 20 train rows were kept for scoring" in note for note in report.notes)


async def test_labeled_only_works() -> None:
    """No bootstrapped demos asked for: no teacher pass, and random sets of labeled rows of seeded sizes."""
    engine, problem = engine_for(Chain(nearest, CLASSIFY), rows(24), rows(4, 100))
    strategy = BootstrapRandomSearch(num_candidates=3, max_bootstrapped_demos=0, max_labeled_demos=6)
    report = await strategy.compile(engine, problem)
    assert ["start", "labeled", "shuffle 0", "shuffle 1", "shuffle 2"] == origins(report)
    assert [] == [ask for ask in engine.asks if ask.traces]
    assert report.adopted


async def test_a_pool_of_few_demos_is_used_up_without_paying_twice() -> None:
    """One demo makes one set: equal candidates are one candidate, and the report says how many there were."""
    engine, problem = engine_for(Chain(nearest, CLASSIFY), rows(2, labeled=False), rows(4, 100))
    report = await BootstrapRandomSearch(num_candidates=6).compile(engine, problem)
    assert ["start", "bootstrap"] == origins(report)
    assert "the demos make only 0 of num_candidates = 6 distinct random sets" in report.notes
    assert 2 + 2 * 4 == report.spend.metric_calls


async def test_a_score_that_is_good_enough_ends_the_search_after_its_wave() -> None:
    """Waves of two after the start: the labeled one in the first is perfect, so the other waves are not paid for."""
    engine, problem = engine_for(Chain(nearest, CLASSIFY), rows(24), rows(8, 100))
    strategy = BootstrapRandomSearch(num_candidates=6, stop_at_score=1.0, candidate_wave=2)
    report = await strategy.compile(engine, problem)
    assert ("target score reached", 1.0) == (report.stop_reason, report.best_score)
    assert [8, 8, 8, 0] == [len(entry.scores) for entry in report.candidates[:4]]
    assert "6 of 9 candidates were not scored (target score reached)" in report.notes


async def test_a_start_that_is_good_enough_ends_the_search_at_once() -> None:
    """Nothing is taught and nothing drawn: one scoring is all that is paid, and the report says so."""
    engine, problem = engine_for(Chain(nearest, CLASSIFY), rows(24), rows(8, 100))
    report = await BootstrapRandomSearch(stop_at_score=0.25).compile(engine, problem)
    assert ("target score reached", False, 8) == (report.stop_reason, report.adopted, report.spend.metric_calls)
    assert (report.baseline_score, report.best) == (report.best_score, Candidate())
    assert (["start"], (), "target score reached") == (origins(report), report.notes, report.teacher_ended)


@pytest.mark.parametrize("strategy", [BootstrapRandomSearch(), BootstrapFewShot()], ids=["random", "few-shot"])
async def test_an_early_interrupt_finds_the_start_scored(strategy: Any, autojump_clock: MockClock) -> None:
    """Two rollouts of a second at once, eight validation rows: after four seconds there is a baseline to report."""
    program = Chain(nearest, CLASSIFY, delay=lambda inputs: 1.0)
    engine, problem = engine_for(program, rows(24), rows(8, 100), concurrency=2)
    with trio.move_on_after(4.5) as scope:
        await strategy.compile(engine, problem)
    assert scope.cancelled_caught
    assert None not in engine.matrix.row(0)[:8]


async def test_a_small_budget_scores_the_leading_candidates() -> None:
    """Sixty rollouts: a quarter for the teacher at most, the rest for as many candidates as fit; it is a normal end."""
    engine, problem = engine_for(Chain(nearest, CLASSIFY), rows(80), rows(8, 100), rollouts=60)
    report = await BootstrapRandomSearch().compile(engine, problem)
    assert (15, "budget: max_metric_calls") == (report.teacher_rows, report.stop_reason)
    assert 5 == sum(entry.mean is not None for entry in report.candidates)
    assert 15 + 5 * 8 == report.spend.metric_calls
    assert report.adopted


@pytest.mark.parametrize("rollouts", [0, 3, 8, 11])
async def test_a_budget_too_small_to_compare_keeps_the_start(rollouts: int) -> None:
    """Nothing is learnt from one candidate's scores, so the teacher runs nothing; the baseline is there if it fits."""
    engine, problem = engine_for(Chain(nearest, CLASSIFY), rows(20), rows(8, 100), rollouts=rollouts)
    report = await BootstrapRandomSearch().compile(engine, problem)
    assert (Candidate(), 0) == (report.best, report.teacher_rows)
    assert (rollouts >= 8) is (report.baseline_score is not None)
    assert report.stop_reason.startswith("budget")
    assert rollouts < BootstrapRandomSearch().plan(problem).minimum


async def test_the_plan_bounds_what_runs() -> None:
    """Every row is tried and every candidate is scored: the plan is met exactly."""

    def wrong(name: str, inputs: Mapping[str, Any], demos: Sequence[Demo], instruction: str) -> dict[str, Any]:
        return {"answer": "?"}

    engine, problem = engine_for(Chain(wrong, CLASSIFY), rows(24), rows(6, 100))
    strategy = BootstrapRandomSearch(num_candidates=4)
    report, plan = await strategy.compile(engine, problem), strategy.plan(problem)
    # without a success there is no `bootstrap` candidate
    assert plan.rollouts - len(problem.val) == report.spend.metric_calls
    assert 6 == plan.candidates


# --- replay ------------------------------------------------------------------------------------------------------


async def searched(concurrency: int, seed: int = 0, order: int = 0) -> tuple[list[Ask], BootstrapReport]:
    """Search over rows whose rollouts take times drawn from `order`."""
    times = random.Random(order)
    taken = {f"{label}{i}": times.random() for i in range(200) for label in LABELS}
    program = Chain(nearest, CLASSIFY, delay=lambda inputs: taken[inputs["prompt"]])
    engine, problem = engine_for(program, rows(40), rows(6, 100), seed=seed, concurrency=concurrency)
    strategy = BootstrapRandomSearch(num_candidates=6, pool=9, wave=5, stop_at_score=2.0, max_labeled_demos=3)
    report = await strategy.compile(engine, problem)
    return engine.asks, attrs.evolve(report, spend=Spend())


async def test_the_same_is_asked_at_any_concurrency_and_in_any_order_of_completion(autojump_clock: MockClock) -> None:
    """Five rollouts at once or one, whichever comes back first: the same asks and the same report (R6, R10)."""
    asks, report = await searched(1)
    for concurrency, order in ((16, 0), (16, 1), (3, 2), (16, 3)):
        assert (asks, report) == await searched(concurrency, order=order)


async def test_another_seed_draws_other_sets(autojump_clock: MockClock) -> None:
    """Seed 0 is a seed; it stands in the report."""
    (_, zero), (_, one) = await searched(8), await searched(8, seed=1)
    assert (0, 1) == (zero.seed, one.seed)
    assert zero.candidates[3].candidate != one.candidates[3].candidate


async def test_the_report_is_json(autojump_clock: MockClock) -> None:
    """Written and read back it is the same report."""
    _, report = await searched(16)
    assert report == loads(dumps(report), BootstrapReport)


@pytest.mark.parametrize(
    "knobs", [{"num_candidates": -1}, {"val_share": 1.0}, {"val_share": 0}, {"pool": 0}, {"candidate_wave": 0}]
)
def test_a_knob_that_cannot_work_is_refused(knobs: Mapping[str, Any]) -> None:
    """When the strategy is made."""
    with pytest.raises(UsageError, match="BootstrapRandomSearch: "):
        BootstrapRandomSearch(**knobs)
