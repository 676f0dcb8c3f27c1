"""The search as a whole: what it finds, what it costs, and why it ends."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import attrs
import pytest

import burnish as b
from burnish import abc
from burnish.errors import BudgetRefusedError, MetricError, ModelServerError, UsageError
from burnish_gepa import GEPA, MemberEntry
from burnish_gepa._knobs import Auto, automatic
from burnish_programs import Predict

from ._kinds import BASE, TRAIN, VAL, Run, answer, improve, metric, program, rows


def test_it_learns_what_the_feedback_teaches() -> None:
    """Scenario 40: every cue is found, one a candidate; the search ends with a perfect score, far from its bound."""
    run = Run()
    assert ("perfect score", 0.25, 1.0) == (run.report.stop_reason, run.report.baseline_score, run.report.best_score)
    assert ["[cue 1]", "[cue 2]", "[cue 3]"] == sorted(re.findall(r"\[cue \d\]", run.text))
    assert 3 == run.report.spend.by_role["proposer"].requests == run.proposer.calls
    assert run.result.spend.metric_calls == run.task.calls == run.report.asked < 60


def test_the_report_tells_the_whole_lineage() -> None:
    """Every candidate with parent, origin, what was changed and its score on each row; all of it has a JSON form."""
    report = Run().report
    entries = [entry for entry in report.candidates if isinstance(entry, MemberEntry)]
    assert ["start", "reflection", "reflection", "reflection"] == [entry.origin for entry in entries]
    assert [None, *[entry.index for entry in entries[:-1]]] == [entry.parent for entry in entries]
    assert [(), ("answer",), ("answer",), ("answer",)] == [entry.changed for entry in entries]
    assert [len(VAL)] * 4 == [len(entry.scores) for entry in entries]
    assert [0.25, 0.5, 0.75, 1.0] == [entry.mean for entry in entries]
    assert (entries[-1].index,) == report.frontier
    assert {"validated", "perfect"} >= {line.outcome for line in report.iterations}
    assert report.best == entries[-1].candidate
    json.dumps(b.to_json(report.iterations))


@pytest.mark.parametrize("cap", [22, 23, 30, 40])
def test_the_budget_is_never_passed(cap: int) -> None:
    """gepa checks between iterations and uses 106 to 946 of 100; here each rollout is admitted; the best is kept."""
    run = Run(GEPA(), budget=b.Budget(max_metric_calls=cap))
    assert run.task.calls <= cap
    assert run.report.stop_reason in ("budget: max_metric_calls", "perfect score")
    assert run.report.best_score == max(entry.mean or 0.0 for entry in run.report.candidates)


def test_a_budget_that_buys_no_round_is_refused() -> None:
    """The start, one minibatch twice and one validation: with less nothing is spent, and the number is told."""
    with pytest.raises(BudgetRefusedError, match="allow at least 22"):
        Run(GEPA(), budget=b.Budget(max_metric_calls=21))
    with pytest.raises(BudgetRefusedError, match="max_metric_calls allows 21 rollouts, and one round needs 22"):
        Run(GEPA(max_metric_calls=21))


@pytest.mark.parametrize(
    ("knobs", "bound"), [({"max_metric_calls": 30}, 30), ({"max_full_evals": 2}, 32)]
)
def test_its_own_bound_is_kept(knobs: dict[str, Any], bound: int) -> None:
    """`max_metric_calls` and `max_full_evals` (of train and validation rows) bound the search beside the budget."""
    run = Run(GEPA(**knobs))
    assert run.task.calls <= run.report.asked <= bound
    assert f"bound: {next(iter(knobs))}" == run.report.stop_reason
    assert run.task.calls <= GEPA(**knobs).plan(problem()).rollouts


def problem(train: int = 8, val: int = 8) -> abc.Problem:
    return abc.Problem(
        parameters={"answer": b.Parameter(name="answer", instruction=BASE)},
        train=tuple(range(val, val + train)), val=tuple(range(val)), start=b.Candidate(), metric=abc.MetricInfo(),
        examples=b.make_examples([*VAL[:val], *TRAIN[:train]]),
    )


def test_automatic_bounds_are_those_of_dspy() -> None:
    """`auto` reckons as DSPy does: light, medium and heavy for one text and eight rows, light for two and a hundred."""
    wide = abc.Problem(
        parameters={n: b.Parameter(name=n) for n in "ab"}, train=(), val=tuple(range(100)), start=b.Candidate(),
        metric=abc.MetricInfo(),
    )
    sizes: list[Auto] = ["light", "medium", "heavy"]
    assert [
        (1 + 2 + 1) * 8 + 30 + 35 * 10,
        (1 + 3 + 1) * 8 + 60 + 35 * 18,
        (1 + 5 + 1) * 8 + 90 + 35 * 27,
    ] == [automatic(size, problem()) for size in sizes]
    assert (1 + 4 + 1) * 100 + 30 + 35 * 20 == automatic("light", wide)


def test_the_plan_bounds_what_it_asks() -> None:
    """Rollouts and proposer's calls stay within the plan; one round is its minimum; no bound of its own is said."""
    plan = GEPA(max_metric_calls=60).plan(problem())
    run = Run(GEPA(max_metric_calls=60))
    assert run.task.calls <= plan.rollouts == 60
    assert run.proposer.calls <= plan.proposer_calls
    assert (22, 17) == (plan.minimum, plan.candidates)
    assert "the run's budget is the bound" in GEPA().plan(problem()).note
    assert GEPA(auto="light").plan(problem()).rollouts < 500


def test_a_perfect_start_asks_for_no_reflection() -> None:
    """Where the start is perfect on validation, nothing is tried."""
    run = Run(trainset=rows(10, 4, 1), valset=rows(50, 4, 1))
    assert (0, 4, "perfect score") == (run.proposer.calls, run.task.calls, run.report.stop_reason)
    assert run.result.candidate.is_empty


def test_perfect_minibatches_are_passed_over_for_nothing() -> None:
    """A minibatch that is known to be perfect costs no rollout and no reflection; where all are, the search ends."""
    train = rows(10, 6, 1)
    run = Run(GEPA(max_metric_calls=200), trainset=train)
    assert ("every minibatch is perfect", 0) == (run.report.stop_reason, run.proposer.calls)
    assert len(VAL) + len(train) == run.task.calls
    assert ["perfect", "perfect"] == [line.outcome for line in run.report.iterations]
    assert run.report.passed_over > 0


def test_perfect_minibatches_are_worked_on_where_asked() -> None:
    """`skip_perfect_score=False` reflects on them, and goes on after a perfect score."""
    run = Run(GEPA(max_metric_calls=30, skip_perfect_score=False), trainset=rows(10, 6, 1), valset=rows(50, 4, 1))
    assert run.proposer.calls > 0
    assert run.report.stop_reason.startswith(("bound", "no text of use"))
    assert run.result.candidate.is_empty


def test_scores_of_any_size() -> None:
    """Scores up to 100 are not perfect from 1 on: where nobody names a maximum, none is, and the report says so."""

    @b.inline
    def hundred(example: Any, prediction: Any, trace: Any = None) -> b.Eval:
        found = metric(example, prediction)
        return b.Eval(100 * found.score + 5, found.feedback)

    run = Run(GEPA(max_metric_calls=60), metric=hundred)
    assert (105.0, True) == (run.report.best_score, run.report.stop_reason != "perfect score")
    assert any("say perfect_score" in note for note in run.report.notes)
    run = Run(GEPA(max_metric_calls=60, perfect_score=105), metric=hundred)
    assert (105.0, "perfect score") == (run.report.best_score, run.report.stop_reason)


def test_no_rollout_is_paid_twice() -> None:
    """gepa repeats up to 45 % of a stalled run's evaluations: here each candidate runs once on a row, whatever for."""
    run = Run(GEPA(max_metric_calls=70), proposer=lambda request: f"new_text: of no use {hash_of(request)}")
    asked = Counter((r.messages[0].content, r.messages[-1].content) for r in run.task.requests)
    assert {1} == set(asked.values())
    assert "bound: max_metric_calls" == run.report.stop_reason
    assert ["start"] == [entry.origin for entry in run.report.candidates]


def hash_of(request: abc.LMRequest) -> str:
    return str(request.fingerprint)[:8]


def test_without_validation_rows_train_rows_serve_both() -> None:
    """Candidates are chosen on the train rows, parents' minibatches come from the store, and a note says so."""
    run = Run(valset=None)
    assert ("perfect score", 1.0) == (run.report.stop_reason, run.report.best_score)
    assert run.task.calls == 8 + 3 * 8
    assert any("no validation rows" in note for note in run.report.notes)
    assert tuple(range(8)) == run.report.scored_on


def test_one_train_and_one_validation_row() -> None:
    """Scenario 45: one child with the model's text; each row is run by the start and by the child."""
    run = Run(
        GEPA(max_metric_calls=4), trainset=[TRAIN[1]], valset=[VAL[1]],
        proposer=["new_text: Say the letter. [cue 1]"],
    )
    assert ["Say the letter. [cue 1]"] == [
        entry.candidate.overlays["answer"].instruction for entry in run.report.candidates[1:]
    ]
    assert (4, 1) == (run.task.calls, run.proposer.calls)


def test_a_seed_is_a_seed() -> None:
    """`seed=0` is one: it stands in the report, gives the same search again, and another seed gives another one."""
    first, again, other = (Run(GEPA(max_metric_calls=60, seed=seed)) for seed in (0, 0, 5))
    assert (0, 0, 5) == (first.report.seed, again.report.seed, other.report.seed)
    assert first.report.iterations == again.report.iterations != other.report.iterations


def test_a_tie_keeps_the_start() -> None:
    """A child that gains on its minibatch and nothing on validation is no winner."""
    val = [*rows(50, 2, 1), {"question": "Q3-9", "answer": "x"}]
    run = Run(GEPA(max_metric_calls=40), trainset=rows(10, 3, 2), valset=val)
    assert run.result.candidate.is_empty
    assert len(run.report.candidates) > 1


# --- feedback ------------------------------------------------------------------------------------------------------


def test_feedback_is_required() -> None:
    """Scenario 41: a score alone is an error that names the module, the generation and the example."""
    with pytest.raises(MetricError, match=r"module=`answer`, generation=0\).*validation row 0.*Q0-50"):
        Run(metric=lambda example, prediction, trace=None: 0.5)


def test_feedback_that_is_missing_later_is_required_too() -> None:
    """Scenario 42: the start has all of it, the first child lacks it: generation 1."""

    @b.inline
    def forgetful(example: Any, prediction: Any, trace: Any = None) -> b.Eval:
        found = metric(example, prediction)
        return b.Eval(found.score, None if found.score and example["question"][1] != "0" else found.feedback)

    with pytest.raises(MetricError, match=r"generation=1\).*train row") as caught:
        Run(metric=forgetful)
    assert caught.value.row is not None
    assert caught.value.row >= len(VAL)


# --- reflections that fail -----------------------------------------------------------------------------------------


def test_a_reflection_model_that_always_fails_stops_the_search() -> None:
    """gepa burns the whole budget and returns the seed as a success: here the cause ends it, with the best so far."""

    def broken(request: abc.LMRequest) -> str:
        raise ModelServerError("503 from the proposer")

    run = Run(GEPA(max_metric_calls=500, patience=3), proposer=broken)
    assert run.report.stop_reason.startswith("no text of use from 3 reflections in a row")
    assert "503 from the proposer" in run.report.stop_reason
    assert run.task.calls <= len(VAL) + len(TRAIN)
    assert 9 == run.proposer.calls


def test_replies_of_no_use_are_asked_for_again() -> None:
    """Truncated thoughts, cut replies, empty and known texts never become prompts; each stands in the report."""
    cut = abc.LMResponse(text="new_text: half of", finish_reason="length")
    replies = [f"new_text: {BASE}", cut, "new_text: <think>the user", "new_text:", "new_text: [cue 1] [cue 2] [cue 3]"]
    run = Run(GEPA(max_metric_calls=60), proposer=replies)
    assert ("perfect score", 1.0) == (run.report.stop_reason, run.report.best_score)
    reasons = [rejected.reason for rejected in run.report.rejected_texts]
    assert 4 == len(reasons)
    for reason, part in zip(reasons, ["known already", "bound of tokens", "thoughts", ""], strict=True):
        assert part in reason
    assert all(0 <= rejected.iteration <= 2 for rejected in run.report.rejected_texts)


@pytest.mark.parametrize(
    ("text", "knobs", "why"),
    [
        ("x" * 300, {"max_text_chars": 200}, "300 characters, more than 200"),
        (f"It is {'a long story of a row ' * 4}.", {"leak_chars": 40}, "it holds the training row"),
        ("Answer.", {"protected": ("the question",)}, "lost the protected part"),
        ("Never say no.", {"validators": (lambda name, text: "rude" if "Never" in text else None,)}, "rude"),
    ],
    ids=["long", "leak", "protected", "own"],
)
def test_texts_are_checked(text: str, knobs: dict[str, Any], why: str) -> None:
    """Length, leakage of training rows, protected parts and the user's own checks: what fails is no candidate."""
    train = [{**row, "context": "a long story of a row " * 4 if n == 1 else "c"} for n, row in enumerate(TRAIN)]
    strategy = GEPA(max_metric_calls=40, patience=1, **knobs)
    run = Run(strategy, trainset=train, proposer=lambda request: f"new_text: {text}")
    assert why in run.report.rejected_texts[0].reason
    assert ["start"] == [entry.origin for entry in run.report.candidates]
    assert why in run.report.stop_reason


def test_a_template_token_is_expanded_once() -> None:
    """What stands in braces in a row or a text reaches the reflection as it is, and the child as it was written."""
    run = Run(
        GEPA(max_metric_calls=40),
        program=Predict("question -> answer", "Keep {examples} and {{new_text}}.", name="answer"),
        proposer=lambda request: "new_text: Keep {examples} and {{current_text}}. [cue 1] [cue 2] [cue 3]",
    )
    assert "Keep {examples} and {{new_text}}." in run.prompts[0]
    assert "Keep {examples} and {{current_text}}. [cue 1] [cue 2] [cue 3]" == run.text


def test_unscored_rows_are_no_verdict() -> None:
    """Rows that the infrastructure failed are left out on both sides; a minibatch of them alone is passed over."""

    def flaky(request: abc.LMRequest) -> str:
        if "Q3-10" in request.messages[-1].content:
            raise ModelServerError("down")
        return answer(request)

    run = Run(task=flaky)
    assert run.report.best_score == 1.0
    assert all(line.outcome in ("validated", "perfect", "no improvement", "unscored") for line in run.report.iterations)


# --- knobs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("knobs", "why"),
    [
        ({"max_metric_calls": 5, "auto": "light"}, "max_metric_calls and auto are bounds of the same thing"),
        ({"candidate_selection": "best"}, "candidate_selection is 'best'.*pareto, current_best"),
        ({"sampling": "PxN(2)"}, "wrong number of numbers"),
        ({"selection": 3}, "selection is 3.*TopK"),
        ({"frontier_type": "rows"}, "frontier_type is 'rows'"),
        ({"reflection_minibatch_size": 0}, "reflection_minibatch_size is 0"),
        ({"perfect_score": float("nan")}, "perfect_score is nan"),
        ({"proposer": "gpt"}, "proposer is 'gpt'"),
    ],
    ids=str,
)
def test_wrong_knobs_are_named(knobs: dict[str, Any], why: str) -> None:
    """A wrong value names its knob and says what it takes."""
    with pytest.raises(UsageError, match=why):
        GEPA(**knobs)


@pytest.mark.parametrize(
    "knobs",
    [
        {"candidate_selection": "current_best"},
        {"candidate_selection": "epsilon_greedy"},
        {"candidate_selection": "top_k_pareto(2)"},
        {"sampling": "SameParent(2)", "selection": "BestImprovement"},
        {"sampling": "Independent(2)", "selection": "TopK(1)"},
        {"sampling": "PxN(2, 2)", "acceptance": "improvement_or_equal"},
        {"component_selector": "all", "use_merge": False},
        {"in_flight": 3},
        {"racing": True},
    ],
    ids=str,
)
def test_every_way_of_searching_finds_it(knobs: dict[str, Any]) -> None:
    """All selectors, samplers and acceptances reach the top here, within their bound."""
    run = Run(GEPA(max_metric_calls=150, **knobs))
    assert 1.0 == run.report.best_score
    assert run.task.calls <= 150


def test_a_program_without_texts_is_refused() -> None:
    """Nothing to rewrite, nothing to learn from: said before anything is spent."""
    with pytest.raises(UsageError, match="no parameter"):
        GEPA().plan(abc.Problem(parameters={}, train=(0,), val=(), start=b.Candidate(), metric=abc.MetricInfo()))


def test_examples_are_cut_to_their_room() -> None:
    """A reflection never grows beyond `max_example_chars`, whatever the rows hold, and the report counts the cuts."""
    train = [{**row, "question": row["question"] + " " + "x" * 5000 + " " + row["question"]} for row in TRAIN]
    run = Run(GEPA(max_metric_calls=40, max_example_chars=1500), trainset=train)
    assert max(map(len, run.prompts)) < 2500
    assert (True, True) == (run.report.texts_cut > 0, "characters left out" in run.prompts[0])
    assert improve(run.proposer.requests[0]).startswith("new_text: Answer the question. [cue")


def test_a_second_search_goes_on_from_the_best() -> None:
    """In a composition the second stage starts from the first one's winner, whose scores it takes from the store."""
    stages = [GEPA(max_metric_calls=36, seed=1), GEPA(max_metric_calls=100, seed=2)]
    task, proposer = (b.testing.ScriptedModel(reply, name=name) for name, reply in (("t", answer), ("p", improve)))
    result = b.optimize(
        program(), trainset=TRAIN, valset=VAL, metric=metric, strategy=stages, budget=b.Budget(),
        models={"task": task, "proposer": proposer},
    )
    first, second = result.reports
    assert first.best == second.candidates[0].candidate
    assert (first.best_score, 1.0) == (second.baseline_score, second.best_score)
    asked = Counter((r.messages[0].content, r.messages[-1].content) for r in task.requests)
    assert {1} == set(asked.values())


def test_options_tell_choices_apart() -> None:
    """Two samplers with equal numbers are two options, so that a run is not resumed with the other one."""
    one, other = (attrs.asdict(GEPA(sampling=name), recurse=True) for name in ("SameParent(2)", "Independent(2)"))
    assert one["sampling"] != other["sampling"]
