"""A run that begins again: told what it was told, paid for what it had not (`spec/replay.md`)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

import burnish as b
from burnish import Plan, Report, abc, toolkit
from burnish._runtime.intact import WHOLE, digest_of
from burnish.abc import LMResponse, Usage
from burnish.errors import ModelServerError, ReplayDivergedError, ResumeRefusedError, StoreError, UsageError
from burnish.events import RequestSent, RolloutLanded, RolloutStarted, Told, fold, read_events
from burnish.testing import ScriptedModel
from burnish_programs import Predict

from ._kit import cut

ROWS = [{"q": f"say x{n}", "a": f"x{n}"} for n in range(36)]
SETS: dict[str, Any] = {"trainset": ROWS[:8], "valset": ROWS[8:20], "testset": ROWS[20:]}


def answer(request: abc.LMRequest) -> LMResponse:
    """Answer right where there is a demo; without one, for two rows in three."""
    demos = any(message.role == "assistant" for message in request.messages)
    word = request.messages[-1].content.split()[-1]
    right = demos or int(word[1:]) % 3
    return LMResponse(text=f"a: {word if right else 'wrong'}", cost=Decimal("0.01"), usage=Usage(output_tokens=3))


@attrs.frozen
class Climb:
    """Gate some candidates in turn, each made of what was told before: one more demo a step."""

    steps: int = 4
    replay_version = 3

    def plan(self, problem: abc.Problem) -> Plan:
        return Plan(rollouts=99, candidates=self.steps, minimum=2)

    async def compile(self, engine: b.Engine, problem: abc.Problem) -> Report:
        start = engine.register(problem.start)
        outcome = await engine.evaluate_many([(start, problem.val)])
        best, mean, stop = problem.start, toolkit.evaluation_of(outcome)[start].mean() or 0.0, "finished"
        baseline, rng, seen = mean, problem.rng("climb"), []
        for step in range(self.steps):
            with engine.step("climb", step):
                demos = [problem.row(column) for column in rng.sample(list(problem.train), 1 + step)]
                index = engine.register(best.set_demos("predict", demos))
                gate = await engine.evaluate_gated(index, problem.val[:4], mean - 1e-6, full=problem.val)
            seen.append((type(gate).__name__, engine.spend, engine.remaining))
            if isinstance(gate, b.BudgetExhausted):
                stop = f"budget: {gate.cap}"
                break
            if isinstance(gate, b.Promoted) and (gate.full.mean() or 0.0) > mean:
                best, mean = engine_candidate(engine, index), gate.full.mean() or 0.0
        return Report(
            strategy="climb",
            best=best,
            baseline_score=baseline,
            best_score=mean,
            stop_reason=stop,
            notes=tuple(map(repr, seen)),
        )


def engine_candidate(engine: b.Engine, index: int) -> b.Candidate:
    return engine._evaluator.candidate(index)


LIMITS = abc.ModelLimits(
    key="m", retries=0, max_output_tokens=3, price=abc.ModelPrice(input=0, output=Decimal(10_000) / 3)
)


def scripted(reply: Callable[[abc.LMRequest], LMResponse] = answer, **options: Any) -> ScriptedModel:
    """Make a model with a price and a bound, so that money can be capped."""
    return ScriptedModel(reply, limits=LIMITS, **options)


def run(directory: Path, model: ScriptedModel, strategy: Any = None, **options: Any) -> b.Result:
    """Run, or go on with, a small search over one predictor."""
    given: dict[str, Any] = {"metric": "exact_match", "budget": b.Budget(max_requests=150), "models": model, **SETS}
    return b.optimize(Predict("q -> a"), strategy=strategy or Climb(), run_dir=directory, **{**given, **options})


def sign(connection: sqlite3.Connection) -> None:
    """Have what a test has changed in a store pass for what was written."""
    for *row, _ in connection.execute(f"SELECT {WHOLE}").fetchall():
        connection.execute("UPDATE events SET digest = ? WHERE n = ?", (digest_of(row), row[0]))


def trajectory(result: b.Result, directory: Path) -> Any:
    """What a run did and found: reports with what the strategy saw of spend, winner, test, scores."""
    state = fold(read_events(directory / "run.db"))
    reports = [attrs.evolve(report, spend=b.Spend()) for report in result.reports]
    scores = [state.matrix.row(index) for index in range(len(state.candidates))]
    assert result.test is not None
    test = result.test.baseline_scores, result.test.winner_scores
    return reports, result.candidate, result.stop_reason, test, state.candidates, scores


def events_in(directory: Path) -> int:
    with sqlite3.connect(directory / "run.db") as connection:
        (count,) = connection.execute("SELECT COUNT(*) FROM events").fetchone()
    connection.close()
    return int(count)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"strategy": Climb()},
        {"strategy": b.Use("bootstrap-random", num_candidates=3)},
        {"strategy": [b.Use("bootstrap"), Climb(2)]},
        {"budget": b.Budget(max_requests=70)},
        {"budget": b.Budget(max_cost=Decimal("0.71"))},
    ],
    ids=str,
)
def test_a_run_that_was_cut_anywhere_goes_on_as_it_would_have(options: dict[str, Any], tmp_path: Path) -> None:
    """R2, R5, R8, R10, R13, R15: cut after any event and resumed, the same trajectory, and no answer paid twice."""
    whole = scripted()
    expected = trajectory(run(tmp_path / "whole", whole, concurrency=1, **options), tmp_path / "whole")
    # not while a rollout is under way: what it had reserved would count as spent, and shows in what is told of spend
    kinds = [type(event) for event in read_events(tmp_path / "whole" / "run.db")]
    last = len(kinds)
    for number, after in enumerate(sorted({1, last - 1, last, *range(3, last, max(1, last // 11))})):
        while kinds[after - 1] in (RolloutStarted, RequestSent):
            after -= 1
        concurrency = 1 if number % 2 else 16
        place, model = tmp_path / f"cut {after}", scripted()
        cut(tmp_path / "whole", place, after)
        landed = sum(isinstance(e, RolloutLanded) and e.source == "live" for e in read_events(place / "run.db"))
        result = run(place, model, resume=True, concurrency=concurrency, **options)
        assert expected == trajectory(result, place), after
        assert whole.calls - landed == model.calls, after


def test_a_finished_run_is_told_again_for_nothing(tmp_path: Path) -> None:
    """Resumed after its end, a run asks no model, tells the same result and adds up to the same spend (scenario 7)."""
    first = run(tmp_path / "run", scripted())
    model = scripted()
    again = run(tmp_path / "run", model, resume=True)
    assert (0, first.spend.requests, first.spend.cost) == (model.calls, again.spend.requests, again.spend.cost)
    assert (first.candidate, first.test, first.best) == (again.candidate, again.test, again.best)
    assert again.spend.seconds > first.spend.seconds


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 7}, "seed"),
        ({"metric": "contains"}, "metric"),
        ({"valset": [*ROWS[8:19], ROWS[20]]}, "rows"),
        ({"testset": ROWS[21:]}, "rows"),
        ({"strategy": Climb(5)}, "strategies"),
        ({"models": scripted(name="another")}, "models"),
        ({"cache_salt": 1}, "salt"),
    ],
    ids=str,
)
def test_what_is_another_run_is_refused_by_name(change: dict[str, Any], named: str, tmp_path: Path) -> None:
    """R14: changed rows, metric, strategy, model, seed or salt are named; nothing is asked, nothing is written."""
    run(tmp_path / "run", scripted(), Climb(1))
    before, model = events_in(tmp_path / "run"), scripted()
    with pytest.raises(ResumeRefusedError) as caught:
        run(tmp_path / "run", **{"model": model, "strategy": Climb(1), "resume": True, **change})
    assert ((named,), 0, before) == (caught.value.changed, model.calls, events_in(tmp_path / "run"))


def test_other_versions_are_accepted_on_demand(tmp_path: Path) -> None:
    """R14: another Python or burnish is refused by name, and taken with `accept_versions`."""
    run(tmp_path / "run", scripted(), Climb(1))
    with sqlite3.connect(tmp_path / "run" / "run.db") as connection:
        connection.execute("UPDATE events SET body = replace(body, '\"python\":\"3.', '\"python\":\"2.') WHERE n = 1")
        sign(connection)
    connection.close()
    with pytest.raises(ResumeRefusedError, match=r"it began under python 2\.\d+.*--accept-versions"):
        run(tmp_path / "run", scripted(), Climb(1), resume=True)
    model = scripted()
    run(tmp_path / "run", model, Climb(1), resume=b.Resume(accept_versions=True))
    assert 0 == model.calls


def test_another_budget_goes_on_from_the_first_refusal(tmp_path: Path) -> None:
    """R3: under a larger budget what was told is told again up to the refusal, and the search goes on from there."""
    small, model = scripted(), scripted()
    first = run(tmp_path / "run", small, budget=b.Budget(max_requests=66))
    assert "budget: max_requests" == first.stop_reason
    again = run(tmp_path / "run", model, budget=b.Budget(max_requests=500), resume=True)
    fresh = scripted()
    unbroken = run(tmp_path / "other", fresh, budget=b.Budget(max_requests=500))
    assert (unbroken.candidate, unbroken.best, "finished") == (again.candidate, again.best, again.stop_reason)
    state = fold(read_events(tmp_path / "run" / "run.db"))
    assert small.calls + model.calls == again.spend.requests == state.spend.requests
    run(tmp_path / "run", model, budget=b.Budget(max_requests=500), resume=True)
    assert small.calls + model.calls == again.spend.requests


def test_a_refusal_under_the_budget_that_holds_is_told_again(tmp_path: Path) -> None:
    """R3: resumed twice under the same raised budget that refuses too, the second time nothing is asked or paid."""
    run(tmp_path / "run", scripted(), budget=b.Budget(max_requests=66))
    raised = b.Budget(max_requests=80)
    second = run(tmp_path / "run", scripted(), budget=raised, resume=True)
    model = scripted()
    third = run(tmp_path / "run", model, budget=raised, resume=True)
    assert (0, second.spend.requests, second.test) == (model.calls, third.spend.requests, third.test)
    assert "budget: max_requests" == second.stop_reason == third.stop_reason


def test_a_run_that_asks_something_else_is_refused(tmp_path: Path) -> None:
    """R1: the first ask that does not match is named with both; `continue_live` goes on with the results so far."""

    class Fickle(Climb):
        """Takes other rows the second time."""

        times = 0

        async def compile(self, engine: b.Engine, problem: abc.Problem) -> Report:
            start = engine.register(problem.start)
            await engine.evaluate_many([(start, problem.val)])
            Fickle.times += 1
            with engine.step("odd"):
                outcome = await engine.evaluate_many([(start, problem.train[: 2 * Fickle.times])])
            mean = toolkit.evaluation_of(outcome)[start].mean()
            return Report(strategy="fickle", best=problem.start, baseline_score=mean, best_score=mean)

    run(tmp_path / "run", scripted(), Fickle())
    (tmp_path / "run" / "best.json").write_text("what was found", encoding="utf-8")
    best, ended = (tmp_path / "run" / "best.json").read_bytes(), events_in(tmp_path / "run")
    model = scripted()
    with pytest.raises(ReplayDivergedError) as caught:
        run(tmp_path / "run", model, Fickle(), resume=True)
    assert ("stage 0/odd#0", "candidates 0 on 2 rows", "candidates 0 on 4 rows", 0) == (
        caught.value.step,
        caught.value.recorded,
        caught.value.asked,
        model.calls,
    )
    assert best == (tmp_path / "run" / "best.json").read_bytes()
    assert ended == events_in(tmp_path / "run") - 1  # that it began again
    result = run(tmp_path / "run", model, Fickle(), resume=b.Resume(continue_live=True))
    assert "finished" == result.stop_reason
    assert 6 - 2 + 16 == model.calls  # of six train rows two are known; the test follows the break and is fresh
    state = fold(read_events(tmp_path / "run" / "run.db"))
    assert state.spend.requests == result.spend.requests == 12 + 2 + 16 + model.calls


def test_what_failed_for_others_sake_is_told_again_and_asked_anew_on_demand(tmp_path: Path) -> None:
    """R7: an unscored cell is told again on resume; `retry_failed` asks it anew, and the search goes on from there."""
    down = {"x9", "x13"}

    def flaky(request: abc.LMRequest) -> LMResponse:
        if request.messages[-1].content.split()[-1] in down:
            raise ModelServerError("503")
        return answer(request)

    first = run(tmp_path / "run", scripted(flaky), Climb(2))
    assert 2 == first.baseline_failures.count
    down.clear()
    model = scripted(flaky)
    run(tmp_path / "run", model, Climb(2), resume=True)
    assert 0 == model.calls
    again = run(tmp_path / "run", model, Climb(2), resume=b.Resume(retry_failed=True))
    fresh = run(tmp_path / "fresh", scripted(flaky), Climb(2))
    assert (fresh.candidate, fresh.baseline, fresh.best) == (again.candidate, again.baseline, again.best)


def test_a_directory_without_a_run_cannot_be_resumed(tmp_path: Path) -> None:
    """Nothing to go on with is said before anything is opened."""
    with pytest.raises(UsageError, match="holds no run that could go on"):
        run(tmp_path, scripted(), resume=True)
    with pytest.raises(UsageError, match="name it"):
        b.optimize(
            Predict("q -> a"), metric="exact_match", strategy=Climb(), budget=b.Budget(), resume=True, **SETS
        )


def test_seconds_count_across_lives(tmp_path: Path) -> None:
    """R4: the time that a run took before it was stopped counts against `max_seconds` when it goes on."""
    run(tmp_path / "run", scripted(), Climb(1))
    with sqlite3.connect(tmp_path / "run" / "run.db") as connection:
        connection.execute("DELETE FROM events WHERE n > 8")
        connection.execute("UPDATE events SET seconds = 1000 WHERE n = 8")
        sign(connection)
    connection.close()
    result = run(tmp_path / "run", scripted(), Climb(1), budget=b.Budget(max_seconds=900), resume=True)
    assert "budget: max_seconds" == result.stop_reason
    assert result.spend.seconds > 1000


def test_rollouts_in_flight_at_a_kill_count_as_spent(tmp_path: Path) -> None:
    """R15: a request that left counts, whether or not its answer came: against requests, never against metric calls."""
    run(tmp_path / "run", scripted(), Climb(1), concurrency=1)
    kinds = [type(event).__name__ for event in read_events(tmp_path / "run" / "run.db")]
    starts = [n for n, kind in enumerate(kinds, 1) if kind == "RolloutStarted"]
    sends = [n for n, kind in enumerate(kinds, 1) if kind == "RequestSent"]
    for number, (after, lost) in enumerate([(starts[2], 0), (sends[2], 1)]):
        place, model = tmp_path / f"killed {number}", scripted()
        cut(tmp_path / "run", place, after)
        result = run(place, model, Climb(1), resume=True)
        assert 2 + lost + model.calls == result.spend.requests
        assert 2 + model.calls == result.spend.metric_calls
        assert result.spend.requests == sum(role.requests for role in result.spend.by_role.values())


def test_a_run_that_was_interrupted_keeps_its_rollouts(tmp_path: Path) -> None:
    """R15: what was cut off by `cancel` counts as a rollout where it runs again, once: the cap holds as without it."""
    needed = run(tmp_path / "uncapped", scripted(), budget=b.Budget(max_metric_calls=500)).spend.metric_calls
    budget, handle = b.Budget(max_metric_calls=needed), b.RunHandle()

    class Stopping(ScriptedModel):
        """Has the run stopped while others of its calls are under way."""

        async def complete(self, request: abc.LMRequest) -> LMResponse:
            mine = self.calls
            response = await super().complete(request)
            await trio.sleep(0.01 * mine)
            if mine == 6:
                handle.cancel()
            return response

    expected = trajectory(run(tmp_path / "whole", scripted(), budget=budget), tmp_path / "whole")
    first = run(tmp_path / "run", Stopping(answer, limits=LIMITS), budget=budget, handle=handle)
    assert ("cancelled", True) == (first.stop_reason, first.spend.metric_calls > 0)
    for _ in range(2):
        again = run(tmp_path / "run", scripted(), budget=budget, resume=True)
        assert expected[1:] == trajectory(again, tmp_path / "run")[1:]
        assert ("finished", needed) == (again.stop_reason, again.spend.metric_calls)


async def test_what_is_told_again_comes_with_its_traces(tmp_path: Path) -> None:
    """R2: whoever asks for traces is told them again from the record, equal to the first time."""
    told: list[Any] = []

    class Looks(Climb):
        async def compile(self, engine: b.Engine, problem: abc.Problem) -> Report:
            start = engine.register(problem.start)
            outcome = await engine.evaluate_many([(start, problem.val)], traces=True)
            again = await engine.evaluate_many([(start, problem.val[:3])], traces=True)
            bare = await engine.evaluate_many([(start, problem.val[:3])])
            told.append((outcome, again, bare))
            return Report(strategy="looks", best=problem.start)

    for resume in (False, True):
        await trio.to_thread.run_sync(
            lambda resume=resume: run(tmp_path / "run", scripted(), Looks(), resume=resume)
        )
    assert told[0] == told[1]
    outcome, again, bare = told[1]
    assert all(r.trace is not None and r.trace.spans for e in (outcome, again) for r in e.evaluation.rollouts)
    assert [None] * 3 == [r.trace for r in bare.evaluation.rollouts]


def test_asks_are_written_before_and_answers_before_they_are_told(tmp_path: Path) -> None:
    """Each ask has one answer behind it; nothing lands for it outside of the two."""
    run(tmp_path / "run", scripted(), Climb(2))
    names = [(type(e).__name__, getattr(e, "step", "")) for e in read_events(tmp_path / "run" / "run.db")]
    for step in {step for name, step in names if name == "Asked"}:
        mine = [name for name, at in names if at == step]
        assert ("Asked", "Told") == (mine[0], mine[-1])
        assert {"Admitted", "RolloutStarted", "RequestSent", "RolloutLanded"} >= set(mine[1:-1])
    assert any(isinstance(event, Told) for event in read_events(tmp_path / "run" / "run.db"))




def test_a_new_run_on_the_answers_of_an_old_one_pays_for_what_is_new(tmp_path: Path) -> None:
    """A fork: what the old run knows of the same rollouts is served; the test is scored fresh (R13)."""
    run(tmp_path / "old", scripted())
    before, model = (tmp_path / "old" / "run.db").read_bytes(), scripted()
    result = run(tmp_path / "new", model, answers=tmp_path / "old")
    test = 2 * len(SETS["testset"])
    assert (test, test) == (model.calls, result.spend.requests)
    assert before == (tmp_path / "old" / "run.db").read_bytes()
    other = run(tmp_path / "other", model, answers=tmp_path / "old", seed=5)
    assert 12 <= other.spend.cache_hits  # the start, at least
    with pytest.raises(StoreError, match="name a directory that holds a run"):
        run(tmp_path / "none", model, answers=tmp_path / "nowhere")
