"""What every strategy owes: budgets, texts of all kinds, models by role, plans, reports, runs that begin again."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

import burnish as b
from burnish import abc
from burnish._model.canonical import hash64
from burnish._model.codec import dumps, loads
from burnish.abc import Json
from burnish.errors import BudgetRefusedError, MetricError, ModelServerError, UsageError
from burnish.events import RolloutStarted, fold, read_events
from burnish.testing import ScriptedModel
from burnish_copro import COPRO, COPROReport
from burnish_programs import Predict, PromptProgram

from ._task import (
    BASE,
    KINDS,
    TRAIN,
    VAL,
    Watched,
    exact,
    is_proposal,
    model,
    prompt_of,
    proposals_in,
    rollouts_in,
    run,
    solve,
    texts_of,
    told,
)


@pytest.mark.parametrize("cap", [10, 25, 34, 40, 61])
def test_a_budget_that_runs_out_is_a_normal_stop(cap: int) -> None:
    """The best so far is the result; what is left would score no candidate, and each that was made is scored."""
    scripted = model()
    if cap < 20:
        with pytest.raises(BudgetRefusedError) as refused:
            run(COPRO(breadth=3, depth=4), scripted, budget=b.Budget(max_metric_calls=cap))
        assert (20, 0) == (refused.value.needed, scripted.calls)
        return
    result, report = run(COPRO(breadth=3, depth=4), scripted, budget=b.Budget(max_metric_calls=cap), metric=told)
    assert "budget: max_metric_calls" == report.stop_reason
    assert 0 <= cap - result.spend.metric_calls < len(VAL)
    assert len(report.candidates) > 1
    assert all(entry.mean is not None for entry in report.candidates)
    assert (result.candidate, 0.2) == (report.best, report.baseline_score)


@pytest.mark.parametrize("cap", [20, 22, 23, 27, 33, 60])
def test_a_cap_on_requests_keeps_the_best_so_far(cap: int) -> None:
    """The cap may strike among proposals or rollouts: it is never passed, and what was found is the result."""
    scripted = model()
    result, report = run(COPRO(breadth=3, depth=4), scripted, budget=b.Budget(max_requests=cap), metric=told)
    assert ("budget: max_requests", True) == (report.stop_reason, scripted.calls <= cap)
    assert 0.2 == report.baseline_score
    assert result.candidate == report.best


def test_a_plan_is_never_passed() -> None:
    """`plan` bounds rollouts, proposals and candidates; the worst proposer meets the bound of its calls."""
    for metric, proposals in ((told, lambda request: f"{BASE} [1] {request.sample}"), (told, lambda request: "")):
        watched, scripted = Watched(breadth=3, depth=2), model(proposals)
        result, report = run(watched, scripted, metric=metric)
        assert result.spend.metric_calls <= watched.planned.rollouts
        assert len(proposals_in(scripted)) <= watched.planned.proposer_calls
        assert len(report.candidates) - 1 <= watched.planned.candidates == 5
    assert 2 * len(VAL) == watched.planned.minimum


def test_prompt_files_keep_their_placeholders() -> None:
    """A text parameter is replaced whole; a proposal without a placeholder, or with one too many, is refused."""

    def proposals(request: abc.LMRequest) -> str:
        assert "{{question}}" in prompt_of(request)
        return {
            0: "no place [1]", 1: "{{question}} {{answer}} [1]", 2: "Q: {{question}} [1]", 1000: "{{question}} [2]",
        }.get(request.sample, "again no place")

    def reply(request: abc.LMRequest) -> str:
        return proposals(request) if is_proposal(request) else solve(request)

    program = PromptProgram("Answer {{question}}", "answer")
    result, report = run(COPRO(breadth=4, depth=1), ScriptedModel(reply), program=program)
    assert {"Q: {{question}} [1]", "{{question}} [2]"} == {
        entry.candidate.overlays["prompt"].instruction for entry in report.candidates[1:]
    }
    assert "Q: {{question}} [1]" == report.best.overlays["prompt"].instruction or report.best_score == 0.4
    assert {"it has lost {{question}}", "it has {{answer}}, which the program does not fill in"} == {
        rejected.reason for rejected in report.rejected
    }
    assert isinstance(result.program, PromptProgram)


def test_protected_parts_stay() -> None:
    """A part that the user protects stands in every candidate, word by word."""
    proposals = model(lambda request: f"Other [1] {BASE}" if request.sample % 2 else "Other [1]")
    _, report = run(COPRO(breadth=3, depth=1, protected=BASE), proposals)
    assert [BASE, f"Other [1] {BASE}"] == texts_of(report)
    assert all("protected part" in rejected.reason for rejected in report.rejected)
    assert report.rejected


def test_prompt_model_is_who_proposes() -> None:
    """`prompt_model` writes proposals in place of the run's `proposer`, booked as the proposer's, at 1.4."""
    task, writer, other = model(name="task"), model(name="writer"), model(name="other")
    copro = COPRO(breadth=3, depth=2, prompt_model=writer)
    result, _ = run(copro, {"task": task, "proposer": other})
    assert (5, 0, 0) == (len(proposals_in(writer)), len(rollouts_in(writer)), other.calls)
    assert 5 == result.spend.by_role["proposer"].requests
    assert {1.4} == {request.temperature for request in proposals_in(writer)}
    assert {None} == {request.temperature for request in rollouts_in(task)}
    again = model(name="writer")
    run(COPRO(breadth=3, depth=2, init_temperature=None), {"task": task, "proposer": again})
    assert (5, {None}) == (len(again.requests), {request.temperature for request in again.requests})
    result, _ = run(COPRO(breadth=3, depth=1), (alone := model()))
    assert 2 == result.spend.by_role["proposer"].requests == len(proposals_in(alone))


def test_a_failing_metric_leaves_the_program_as_it_was() -> None:
    """Scenario 51: the metric's failure is raised, and the program that was given holds what it held."""

    @b.inline
    def broken(example: Any, prediction: Any) -> float:
        if prediction.answer != "unknown" and "1-" in prediction.answer:
            raise ValueError("broken")
        return 0.0

    program = Predict("question -> answer", BASE, name="answer")
    with pytest.raises(MetricError, match="broken"):
        run(COPRO(breadth=8, depth=3), model(), metric=broken, program=program)
    assert BASE == program.instruction


def test_a_program_without_texts_is_refused() -> None:
    """There is nothing to tune: said before anything is spent."""
    with pytest.raises(UsageError, match="COPRO tunes instructions"):
        b.optimize(
            lambda question: question, strategy=COPRO(), trainset=TRAIN, metric="exact_match", budget=b.Budget()
        )


def test_the_report_has_the_facts_of_the_search() -> None:
    """Candidates with parent, origin and scores per row; spend by role; turns; all of it JSON."""
    result, report = run(COPRO(breadth=3, depth=3), model(), metric=told, seed=7)
    assert ("copro", 7, "finished", tuple(range(len(VAL)))) == (
        report.strategy, report.seed, report.stop_reason, report.scored_on
    )
    start, *others = report.candidates
    assert ("start", None) == (start.origin, start.parent)
    for entry in others:
        assert 0 <= (-1 if entry.parent is None else entry.parent) < entry.index
        assert entry.origin.startswith("depth ")
        assert entry.origin.endswith(", answer")
        assert entry.mean == pytest.approx(sum(score or 0.0 for score in entry.scores) / len(VAL))
    assert {"task", "proposer"} == set(report.spend.by_role)
    assert report.spend.by_role["proposer"].requests == 2 + 3 + 3
    assert [0, 1, 2] == [turn.depth for turn in report.turns]
    scores = [attempt.score for attempt in report.attempts["answer"]]
    assert (sorted(scores), report.best_score) == (scores, scores[-1])
    assert report == loads(dumps(report), COPROReport)
    assert result.best == report.best_score


def test_outages_are_no_scores() -> None:
    """A start that nobody answered ends the search; a text that few rows answered for is no attempt to learn from."""

    def down(request: abc.LMRequest) -> str:
        raise ModelServerError("503")

    limits = abc.ModelLimits(key="m", timeout=None, retries=0)
    task = ScriptedModel(down, limits=limits)
    proposer = model()
    _, report = run(COPRO(breadth=3, depth=2), {"task": task, "proposer": proposer})
    assert ("the start could not be scored", 0) == (report.stop_reason, proposer.calls)

    def patchy(request: abc.LMRequest) -> str:
        if "[1]" in prompt_of(request) and "Q1" not in prompt_of(request):
            raise ModelServerError("503")
        return solve(request)

    task = ScriptedModel(patchy, limits=limits)
    _, report = run(
        COPRO(breadth=3, depth=2), {"task": task, "proposer": model(lambda request: f"{BASE} [{1 + request.sample}]")}
    )
    assert f"{BASE} [1]" not in [attempt.text for attempt in report.attempts["answer"]]
    assert f"{BASE} [2]" == report.best.overlays["answer"].instruction


# --- runs that begin again ---------------------------------------------------------------------------------------


def _cut(directory: Path, to: Path, events: int) -> None:
    shutil.copytree(directory, to)
    with sqlite3.connect(to / "run.db") as connection:
        for table in ("events", "traces"):
            connection.execute(f"DELETE FROM {table} WHERE n > ?", (events,))
    connection.close()


def _did(done: tuple[b.Result, COPROReport], directory: Path) -> Any:
    result, report = done
    state = fold(read_events(directory / "run.db"))
    scores = [state.matrix.row(index) for index in range(len(state.candidates))]
    return attrs.evolve(report, spend=b.Spend()), result.candidate, state.candidates, scores


@pytest.mark.slow
@pytest.mark.parametrize("budget", [b.Budget(), b.Budget(max_metric_calls=47)], ids=["uncapped", "capped"])
def test_a_run_cut_at_any_ask_goes_on_as_it_would_have(budget: b.Budget, tmp_path: Path) -> None:
    """R1, R2, R8, R10: cut at each ask and resumed at concurrency 1 and 16, the same asks and the same result."""
    options: dict[str, Any] = {"metric": told, "budget": budget}
    watched = Watched(breadth=3, depth=3)
    whole = tmp_path / "whole"
    expected = _did(run(watched, model(), run_dir=whole, concurrency=1, **options), whole)
    kinds = [type(event) for event in read_events(whole / "run.db")]
    asks = [n for n, kind in enumerate(kinds, 1) if kind.__name__ in ("Asked", "Told")]
    middles = [n for n, kind in enumerate(kinds, 1) if kind.__name__ == "CallLanded"][::2]
    for number, after in enumerate(sorted({*asks, *middles, len(kinds)})):
        after -= kinds[after - 1] is RolloutStarted
        place, again = tmp_path / f"cut {after}", Watched(breadth=3, depth=3)
        _cut(whole, place, after)
        slots = 16 if number % 2 else 1
        got = _did(run(again, model(), run_dir=place, resume=True, concurrency=slots, **options), place)
        assert (watched.asks, expected) == (again.asks, got), after


class Shuffled:
    """A model whose calls take different times, so that they end in another order than they began."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.identity, self.limits = inner, inner.identity, inner.limits

    async def complete(self, request: abc.LMRequest) -> abc.LMResponse:
        await trio.sleep(hash64([prompt_of(request), request.sample]) % 4 / 1000)
        response: abc.LMResponse = await self.inner.complete(request)
        return response


@pytest.mark.slow
def test_concurrency_changes_nothing() -> None:
    """The same asks and the same report at any concurrency, whatever ends first."""
    told_of: list[tuple[Json, Any]] = []
    for concurrency in (1, 16):
        watched = Watched(breadth=4, depth=2)
        _, report = run(watched, Shuffled(model()), metric=told, concurrency=concurrency)
        told_of.append((str(watched.asks), attrs.evolve(report, spend=b.Spend())))
    assert told_of[0] == told_of[1]


@pytest.mark.slow
def test_cues_are_found_one_a_round() -> None:
    """Of five kinds, rounds with feedback find all cues; blind ones find as many as there are rounds, at most."""
    _, report = run(COPRO(breadth=4, depth=KINDS), model(), metric=told)
    assert 1.0 == report.best_score
    _, blind = run(COPRO(breadth=10, depth=3), model(), metric=exact)
    assert 0.8 == blind.best_score
