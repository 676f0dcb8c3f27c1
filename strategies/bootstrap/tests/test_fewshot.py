"""BootstrapFewShot: DSPy's knobs and meaning, without its faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import burnish
from burnish import Candidate, Demo, Eval, FieldInfo, Parameter
from burnish.errors import UnknownParameterError, UsageError
from burnish_bootstrap import BootstrapFewShot, BootstrapRandomSearch

from ._program import Chain, engine_for, exact, predictor

ANSWER = predictor("prompt -> answer")


def echo(name: str, inputs: Mapping[str, Any], demos: Sequence[Demo], instruction: str) -> dict[str, Any]:
    return {"answer": inputs["prompt"]}


def rows(count: int, expected: str | None = None) -> list[dict[str, str]]:
    return [{"prompt": f"p{i}", "expected": f"p{i}" if expected is None else expected} for i in range(count)]


@pytest.mark.parametrize("strategy", [BootstrapFewShot(), BootstrapRandomSearch()], ids=["few-shot", "random"])
async def test_an_empty_trainset_is_refused_before_anything_is_spent(strategy: Any) -> None:
    """In DSPy it is an UnboundLocalError; `plan` says the same as `compile`."""
    engine, problem = engine_for(Chain(echo, ANSWER), [], rows(3))
    with pytest.raises(UsageError, match="the trainset is empty"):
        await strategy.compile(engine, problem)
    with pytest.raises(UsageError, match="the trainset is empty"):
        strategy.plan(problem)
    assert [] == engine.asks


@pytest.mark.parametrize("strategy", [BootstrapFewShot(), BootstrapRandomSearch()], ids=["few-shot", "random"])
async def test_a_program_without_predictors_is_refused(strategy: Any) -> None:
    """Demos have nowhere to stand; the error names what the program has instead."""
    page = Parameter(name="page", kind="text", inputs=(FieldInfo(name="prompt"),))
    engine, problem = engine_for(Chain(echo, page), rows(3))
    with pytest.raises(UsageError, match=r"it has `page`; tune its instructions instead \(COPRO, GEPA\)"):
        await strategy.compile(engine, problem)
    assert [] == engine.asks


async def score_zero(example: Any, prediction: Any) -> Eval:
    return Eval(0)


@burnish.inline
def half(example: Any, prediction: Any) -> float:
    return 0.5


class OutOfTen:
    """A metric whose best score is 10."""

    __burnish_inline__ = True
    maximum = 10.0

    def evaluate(self, example: Any, prediction: Any, trace: Any = None) -> float:
        return 10.0 if example["prompt"] == "p1" else 9.0


@pytest.mark.parametrize(
    ("metric", "threshold", "accepted"),
    [
        (score_zero, None, 0),
        (half, None, 0),
        (half, 0.5, 4),
        (half, 0.6, 0),
        (OutOfTen(), None, 1),
        (OutOfTen(), 9.0, 4),
    ],
    ids=["async, zero", "half", "half, threshold", "half, high", "maximum", "below the maximum"],
)
async def test_success_is_the_metrics_maximum_or_a_threshold(
    metric: Any, threshold: float | None, accepted: int
) -> None:
    """Never a truthy value: in DSPy a coroutine, `Eval(0)` and 0.5 all count as success."""
    engine, problem = engine_for(Chain(echo, ANSWER), rows(4), metric=metric)
    report = await BootstrapFewShot(metric_threshold=threshold).compile(engine, problem)
    assert accepted == len(report.accepted)


def fails_on_even(name: str, inputs: Mapping[str, Any], demos: Sequence[Demo], instruction: str) -> dict[str, Any]:
    if int(inputs["prompt"][1:]) % 2 == 0:
        raise ValueError(f"cannot read {inputs['prompt']}")
    return {"answer": inputs["prompt"]}


async def test_a_failed_rollout_is_no_demo_whatever_its_failure_score() -> None:
    """The failure score may reach the threshold; the failures are counted and the first is named."""
    engine, problem = engine_for(Chain(fails_on_even, ANSWER), rows(6), failure_score=1.0)
    report = await BootstrapFewShot(metric_threshold=0.0).compile(engine, problem)
    assert ((1, 3, 5), 3) == (report.accepted, report.teacher_errors)
    assert "3 rollouts of the teacher failed, the first with ValueError: cannot read p0" in report.notes


async def test_more_than_max_errors_stop_the_teacher_and_keep_its_demos() -> None:
    """It is checked wave by wave, so that order of completion decides nothing. DSPy raises and loses the demos."""
    engine, problem = engine_for(Chain(fails_on_even, ANSWER), rows(40), rows(2, expected="x"))
    strategy = BootstrapFewShot(max_errors=2, wave=2, max_bootstrapped_demos=10)
    report = await strategy.compile(engine, problem)
    # `wave` is the least that is asked for; ten demos missing need ten rows anyway
    assert ("errors", 10, 5) == (report.teacher_ended, report.teacher_rows, report.teacher_errors)
    assert {"answer": 5} == report.demos_per_predictor
    assert any(note.endswith("it was stopped at max_errors = 2") for note in report.notes)
    assert "finished" == report.stop_reason


async def test_the_teacher_stops_when_it_has_enough() -> None:
    """Two demos of forty easy rows: one wave of four is all that runs, then the scoring."""
    engine, problem = engine_for(Chain(echo, ANSWER), rows(40), rows(3, expected="x"))
    report = await BootstrapFewShot(max_bootstrapped_demos=2, wave=4).compile(engine, problem)
    assert ("enough", 4, {"answer": 2}) == (report.teacher_ended, report.teacher_rows, report.demos_per_predictor)
    assert 4 + 2 * 3 == report.spend.metric_calls


async def test_a_row_that_failed_is_sampled_again() -> None:
    """Round 1 asks for the next sample of the rows that failed, and of no other."""
    tries: Counter[str] = Counter()

    def second_time_right(
        name: str, inputs: Mapping[str, Any], demos: Sequence[Demo], instruction: str
    ) -> dict[str, Any]:
        tries[inputs["prompt"]] += 1
        easy = inputs["prompt"] in ("p0", "p2")
        return {"answer": inputs["prompt"] if easy or tries[inputs["prompt"]] == 2 else "?"}

    val = [{"prompt": "v", "expected": "x"}]
    engine, problem = engine_for(Chain(second_time_right, ANSWER), rows(4), val, keep_traces="all")
    report = await BootstrapFewShot(max_rounds=3, max_bootstrapped_demos=4).compile(engine, problem)
    assert {"p0": 1, "p2": 1, "p1": 2, "p3": 2} == {prompt: tries[prompt] for prompt in ("p0", "p2", "p1", "p3")}
    first, again = [ask for ask in engine.asks if ask.traces]
    assert ([1, 2, 3, 4], [2, 4]) == ([c for _, (c,) in first.requests], [c for _, (c,) in again.requests])
    assert (range(0, 1), range(1, 2)) == (first.samples, again.samples)
    assert {"answer": 4} == report.demos_per_predictor


def by_instruction(name: str, inputs: Mapping[str, Any], demos: Sequence[Demo], instruction: str) -> dict[str, Any]:
    return {"answer": inputs["prompt"] if instruction == "Think hard." or demos else "?"}


async def test_a_teacher_with_another_instruction_makes_the_demos() -> None:
    """The winner has the teacher's demos and the program's own instruction; the teacher is no candidate."""
    teacher = Candidate().set_instruction("answer", "Think hard.")
    engine, problem = engine_for(Chain(by_instruction, ANSWER), rows(3), rows(2))
    alone = await BootstrapFewShot().compile(engine, problem)
    taught = await BootstrapFewShot(teacher=teacher).compile(engine, problem)
    assert (0, False) == (len(alone.accepted), alone.adopted)
    assert (0.0, 1.0, True) == (taught.baseline_score, taught.candidate_score, taught.adopted)
    assert taught.best.overlays["answer"].instruction is None
    assert ["start", "bootstrap"] == [entry.origin for entry in taught.candidates]


async def test_a_teacher_that_does_not_fit_is_refused_before_anything_is_spent() -> None:
    """A predictor's name that the program does not have."""
    engine, problem = engine_for(Chain(echo, ANSWER), rows(3))
    with pytest.raises(UnknownParameterError, match="predictor `anwser` not found; the program has: `answer`"):
        await BootstrapFewShot(teacher=Candidate().set_instruction("anwser", "x")).compile(engine, problem)
    assert [] == engine.asks


async def test_labeled_rows_fill_up_without_repeating_a_source() -> None:
    """Two bootstrapped demos and three labeled rows make five; every row stands there once, with its fingerprint."""
    labels = ["p0", "p1", *(f"hard {i}" for i in range(6))]
    labeled = [{"prompt": f"p{i}", "answer": label, "expected": label} for i, label in enumerate(labels)]
    engine, problem = engine_for(Chain(echo, ANSWER), labeled, rows(1, "x"))
    report = await BootstrapFewShot(max_labeled_demos=5).compile(engine, problem)
    demos = report.candidates[1].candidate.overlays["answer"].demos or ()
    assert [["p0", "p1"], 5] == [[d["prompt"] for d in demos[:2]], len(demos)]
    sources = [d.source for d in demos]
    assert 5 == len(set(sources))
    assert set(sources) <= {problem.example(column).fingerprint for column in problem.train}


async def test_validation_rows_give_no_demos() -> None:
    """A row that stands in both sets is left out of the pass, and named."""
    engine, problem = engine_for(Chain(echo, ANSWER), rows(4), [*rows(1), {"prompt": "v", "expected": "x"}])
    report = await BootstrapFewShot().compile(engine, problem)
    assert ((3, 4, 5), (2,)) == (report.sources, report.shared)
    assert "1 of the 4 train rows are validation rows too and give no demos: train rows 0" in report.notes


async def test_demos_of_a_trainset_sorted_by_class_show_every_class() -> None:
    """Sixty rows, ten a class in order: six demos are one of each; in DSPy's order all are of the first class."""
    classify = predictor("prompt -> answer: Literal['a', 'b', 'c', 'd', 'e', 'f']")
    train = [{"prompt": f"{label}{i}", "answer": label, "expected": label} for label in "abcdef" for i in range(10)]

    def first_letter(
        name: str, inputs: Mapping[str, Any], demos: Sequence[Demo], instruction: str
    ) -> dict[str, Any]:
        return {"answer": inputs["prompt"][0]}

    shown = []
    for stratify in (True, False):
        engine, problem = engine_for(Chain(first_letter, classify), train, rows(1, "x"))
        strategy = BootstrapFewShot(max_bootstrapped_demos=6, max_labeled_demos=6, stratify=stratify)
        report = await strategy.compile(engine, problem)
        shown.append("".join(str(d["answer"]) for d in report.candidates[1].candidate.overlays["answer"].demos or ()))
    assert ["abcdef", "aaaaaa"] == shown


# --- budget ------------------------------------------------------------------------------------------------------


def right_with_demos(name: str, inputs: Mapping[str, Any], demos: Sequence[Demo], instruction: str) -> dict[str, Any]:
    return {"answer": inputs["prompt"] if demos or inputs["prompt"] in ("p0", "p1") else "?"}


async def test_a_budget_for_the_baseline_alone_reports_it() -> None:
    """Train rows serve both sides: three rollouts are the pass and the baseline; the candidate is named as unscored."""
    engine, problem = engine_for(Chain(right_with_demos, ANSWER), rows(3), rollouts=3)
    report = await BootstrapFewShot().compile(engine, problem)
    assert (2 / 3, None, False) == (report.baseline_score, report.candidate_score, report.adopted)
    assert ("budget: max_metric_calls", 3) == (report.stop_reason, report.spend.metric_calls)
    assert [2 / 3, None] == [entry.mean for entry in report.candidates]
    assert "1 of 2 candidates were not scored (budget: max_metric_calls)" in report.notes


async def test_a_budget_below_the_baseline_is_a_normal_end_too() -> None:
    """Best is the start, without a baseline; what was affordable of the pass was run."""
    engine, problem = engine_for(Chain(right_with_demos, ANSWER), rows(3), rollouts=2)
    report = await BootstrapFewShot().compile(engine, problem)
    assert (Candidate(), None, None) == (report.best, report.baseline_score, report.best_score)
    assert ("budget: max_metric_calls", 2) == (report.stop_reason, report.spend.metric_calls)
    assert "the budget has no room for the 3 rollouts that scoring the start takes" in report.notes


async def test_the_teacher_leaves_enough_to_score_its_demos() -> None:
    """Twelve rollouts, four validation rows: the pass takes four, start and candidate the other eight."""
    val = [{"prompt": f"v{i}", "expected": f"v{i}"} for i in range(4)]
    engine, problem = engine_for(Chain(right_with_demos, ANSWER), rows(40), val, rollouts=12)
    report = await BootstrapFewShot().compile(engine, problem)
    assert (4, 12, True) == (report.teacher_rows, report.spend.metric_calls, report.adopted)
    assert (0.0, 1.0) == (report.baseline_score, report.best_score)
    assert "the budget let the teacher try 4 of 40 rows" in report.notes
    assert "budget: max_metric_calls" == report.stop_reason


@pytest.mark.parametrize("val", [0, 5])
@pytest.mark.parametrize("rounds", [1, 2])
async def test_the_plan_bounds_what_runs(val: int, rounds: int) -> None:
    """Nothing is ever right, so that every row is tried; the plan's figure is met exactly in the first round."""

    def wrong(name: str, inputs: Mapping[str, Any], demos: Sequence[Demo], instruction: str) -> dict[str, Any]:
        return {"answer": "?"}

    train = [{**row, "answer": row["expected"]} for row in rows(7)]
    engine, problem = engine_for(Chain(wrong, ANSWER), train, rows(val + 7)[7:], metric=exact, keep_traces="all")
    strategy = BootstrapFewShot(max_rounds=rounds)
    report = await strategy.compile(engine, problem)
    plan = strategy.plan(problem)
    assert report.spend.metric_calls == plan.rollouts
    assert plan.minimum <= plan.rollouts


# --- knobs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"max_rounds": 0}, "max_rounds is 0; it takes a whole number of at least 1"),
        ({"max_bootstrapped_demos": -1}, "at least 0"),
        ({"max_errors": 1.5}, "max_errors is 1.5"),
        ({"metric_threshold": float("nan")}, "metric_threshold is nan; it takes a finite number, or none"),
        ({"metric_threshold": True}, "metric_threshold is True"),
        ({"max_bootstrapped_demos": 0, "max_labeled_demos": 0}, "are both 0"),
    ],
)
def test_a_knob_that_cannot_work_is_refused(knobs: Mapping[str, Any], message: str) -> None:
    """When the strategy is made, with name and value."""
    with pytest.raises(UsageError, match=message):
        BootstrapFewShot(**knobs)


def test_the_defaults_are_dspys() -> None:
    """Whoever comes from DSPy finds the same knobs with the same values."""
    few, random = BootstrapFewShot(), BootstrapRandomSearch()
    assert (4, 16, 1) == (few.max_bootstrapped_demos, few.max_labeled_demos, few.max_rounds)
    assert (None, None, None) == (few.metric_threshold, few.teacher, few.max_errors)
    assert (16, None) == (random.num_candidates, random.stop_at_score)
