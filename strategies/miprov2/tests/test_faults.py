"""The faults that DSPy's MIPROv2 has, and what every strategy owes: none of them can happen here."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import pytest

import burnish
from burnish import Budget, Candidate, abc
from burnish._model.codec import dumps, loads
from burnish.abc import LMResponse
from burnish.errors import ModelServerError
from burnish_miprov2 import MIPROv2, MIPROv2Report

from ._kinds import (
    BASE,
    SMALL,
    TRAIN,
    VAL,
    ZERO,
    Two,
    model,
    outputs,
    prompts,
    propose,
    report_of,
    rows,
    small,
    solve,
    tune,
)


def test_only_unique_work_is_paid() -> None:
    """DSPy repeats 13 to 28 % of its calls exactly; here no prompt is asked twice, and no combination tried twice."""
    task, proposer = model(), model(propose, "proposer")
    report = report_of(tune(SMALL, task=task, proposer=proposer))
    for asked in (task, proposer):
        assert {1} == {*Counter(prompts(asked.requests)).values()}
    choices = [tuple(trial.choice.values()) for trial in report.trials if trial.kind == "minibatch"]
    assert len(choices) == len({*choices})


@pytest.mark.parametrize("most", [2, 3])
def test_a_small_space_is_a_normal_end(most: int) -> None:
    """DSPy raises a ValueError in the middle and loses everything; here all of it is tried, and the reason says so."""

    def right(example: Any, prediction: Any) -> float:  # names no maximum, so that no score is perfect
        return float(example["a"] == prediction.a)

    report = report_of(tune(attrs.evolve(SMALL, num_candidates=most, num_trials=20), metric=right))
    assert (most * most, True) == (report.space, report.exhaustive)
    assert most * most == 1 + len({trial.candidate for trial in report.trials})
    assert "all combinations tried" == report.stop_reason


def test_an_outage_is_no_verdict() -> None:
    """DSPy scores an outage 0.0 and feeds it to TPE; here the trial's value is unknown, and the winner is another."""

    def down(request: abc.LMRequest) -> str:
        if "[cue 1]" in request.messages[0].content:
            raise ModelServerError("503")
        return solve(request)

    report = report_of(tune(SMALL, task=model(down)))
    unknown = [trial for trial in report.trials if trial.choice["predict/instruction"] == 1]
    assert unknown
    assert {None} == {trial.score for trial in unknown}
    assert {"minibatch"} == {trial.kind for trial in unknown}
    assert "[cue 1]" not in str(report.best.to_json())
    assert any("told to TPE as unknown" in note for note in report.notes)


def test_labeled_only_works() -> None:
    """DSPy crashes without bootstrapped demos; here sets are labeled rows, and no teacher runs."""
    report = report_of(tune(attrs.evolve(SMALL, max_bootstrapped_demos=0)))
    assert (0, "") == (report.teacher_rows, report.teacher_ended)
    assert ("start", "labeled") == report.demo_sets["predict"][:2]
    assert (report.best_score or 0.0) > 0.25


def test_bootstrapped_only_works() -> None:
    """With no labeled rows asked for, sets hold what the teacher got right alone: kind 0 here."""
    report = report_of(tune(attrs.evolve(SMALL, max_labeled_demos=0)))
    assert "labeled" not in report.demo_sets["predict"]
    demos = [d for e in report.candidates for o in e.candidate.overlays.values() for d in o.demos or ()]
    assert {"Q0"} == {str(demo["q"])[:2] for demo in demos}


def test_spend_is_told_by_role() -> None:
    """DSPy's `total_calls` is always 0; here the report's spend is what the models were asked."""
    task, proposer = model(), model(propose, "proposer")
    spend = report_of(tune(SMALL, task=task, proposer=proposer)).spend
    assert (task.calls, proposer.calls) == (spend.by_role["task"].requests, spend.by_role["proposer"].requests)
    assert task.calls + proposer.calls == spend.requests


def test_the_report_is_json() -> None:
    """DSPy's trial logs hold modules; here a report is text and back, with every trial and candidate in it."""
    report = report_of(small())
    text = dumps(report, MIPROv2Report)
    assert report == loads(text, MIPROv2Report)
    data = json.loads(text)
    assert len(report.trials) == len(data["trials"])
    start, *others = report.candidates
    assert [start.index] * len(others) == [entry.parent for entry in others]
    assert {len(VAL)} == {len(entry.scores) for entry in report.candidates}
    full = {trial.candidate for trial in report.trials if trial.kind == "full"}
    assert all((entry.mean is not None) == (entry.index in full) for entry in others)


def test_the_unchanged_program_stays_on_a_tie() -> None:
    """Where nothing helps, the start is the best, and it is the start's score that is told."""
    report = report_of(tune(SMALL, task=model(lambda request: "a: A0-50")))
    assert (Candidate(), report.baseline_score) == (report.best, report.best_score)


def test_no_use_is_asked_again_within_a_bound() -> None:
    """Empty, truncated and known replies are asked for again, reported with the reason, and the good ones are kept."""

    def poor(request: abc.LMRequest) -> str | LMResponse:
        if "instruction" not in outputs(request) or request.sample >= 1000:
            return propose(request)
        if request.sample == 0:
            return f"instruction: {BASE}"
        return LMResponse(text="instruction: half a", finish_reason="length") if request.sample == 1 else "instruction:"

    report = report_of(tune(ZERO, proposer=model(poor, "proposer")))
    assert 4 == len(report.instructions)
    assert "it is known already" == report.rejected[0].reason
    assert 3 <= len(report.rejected)


@pytest.mark.parametrize("reply", ["instruction:", ModelServerError("503")], ids=["empty", "down"])
def test_a_proposer_that_never_answers_costs_no_search(reply: Any) -> None:
    """Its calls are bounded; demos are searched all the same, and a note says what came of the proposals."""

    def never(request: abc.LMRequest) -> str:
        if isinstance(reply, Exception):
            raise reply
        return str(reply)

    proposer = model(never, "proposer")
    report = report_of(tune(SMALL, proposer=proposer))
    assert (1, 4) == (len(report.instructions), report.space)
    assert proposer.calls <= 3 * 8
    assert any("no instruction that is of use" in note for note in report.notes)
    assert (report.best_score or 0.0) > 0.25


def test_equal_texts_for_two_predictors_are_both_taken() -> None:
    """A text is known by its predictor: what is an instruction of one may be one of the other."""

    def same(request: abc.LMRequest) -> str:
        (wanted,) = outputs(request)
        return f"{wanted}: Be good {request.sample % 3}." if wanted == "instruction" else f"{wanted}: x"

    task = model(lambda request: f"{outputs(request)[0]}: x")
    report = report_of(tune(ZERO, program=Two(), task=task, proposer=model(same, "proposer")))
    assert Counter({"answer": 4, "draft": 4}) == Counter(one.parameter for one in report.instructions)


def test_an_instruction_quotes_no_train_row() -> None:
    """A reply that holds the text of a train row is dropped: that row would otherwise be learnt by heart."""
    long = "What is the name of the river that flows through the old town?"

    def quotes(request: abc.LMRequest) -> str:
        return f"instruction: If asked {long!r} say A." if "instruction" in outputs(request) else propose(request)

    train = [*TRAIN, {"q": f"Q1-99 {long}", "a": "A1-99"}, {"q": long, "a": "A"}]
    report = report_of(tune(ZERO, trainset=train, proposer=model(quotes, "proposer")))
    assert 1 == len(report.instructions)
    assert all("holds the training row" in one.reason for one in report.rejected)


def test_rows_of_both_sets_are_named() -> None:
    """A train row that is a validation row too gives no demo and is shown to no proposer; the note names it."""
    proposer = model(propose, "proposer")
    report = report_of(tune(SMALL, trainset=[*TRAIN, VAL[0]], proposer=proposer))
    assert any("train rows 12" in note for note in report.notes)
    assert VAL[0]["q"] not in "\n".join(text for _, text in prompts(proposer.requests))


def test_seed_0_is_a_seed() -> None:
    """Seed 0 is no missing seed: it gives a run of its own, and the report tells both seeds."""
    zero, again = (tune(attrs.evolve(SMALL, seed=0)) for _ in range(2))
    assert report_of(zero).trials == report_of(again).trials
    assert [e.candidate for e in report_of(zero).candidates] != [e.candidate for e in report_of(small()).candidates]
    assert (0, 0) == (report_of(zero).strategy_seed, report_of(zero).seed)


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    """optuna logs to the terminal by itself; a run of ours prints nothing."""
    tune(SMALL)
    assert ("", "") == capfd.readouterr()


def test_versions_of_optuna_are_in_the_lock(tmp_path: Path) -> None:
    """R12, R14: another optuna or numpy is another search, and a resume can say so."""
    tune(SMALL, directory=tmp_path / "run", trainset=rows(10, 2), valset=rows(50, 1))
    lock = (tmp_path / "run" / "burnish.lock").read_text("utf-8")
    assert {"optuna", "numpy"} == {*MIPROv2().versions}
    assert all(json.dumps(f"{version}") in lock for version in MIPROv2().versions.values())


CAPS = {"more": Budget(max_requests=40), "least": Budget(max_requests=24), "rollouts": Budget(max_metric_calls=24)}


@pytest.mark.parametrize("cap", CAPS.values(), ids=CAPS.keys())
def test_any_cap_is_a_normal_stop(cap: Budget) -> None:
    """Out of budget in any phase: the best so far, with the cap as the reason."""
    task, proposer = model(), model(propose, "proposer")
    result = tune(SMALL, task=task, proposer=proposer, budget=cap)
    report = report_of(result)
    assert report.stop_reason.startswith("budget: ")
    assert task.calls + proposer.calls <= (cap.max_requests or 99)
    assert isinstance(result, burnish.Result)
