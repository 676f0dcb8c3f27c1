"""A whole run: what it gives back, what it keeps apart, what it refuses, and what is left when it ends early."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

import burnish as b
from burnish import Budget, RolloutCache, errors
from burnish._model.events import RolloutLanded, RunEnded, RunStarted
from burnish._model.state import fold
from burnish._runtime.run_store import read_events
from burnish.abc import ModelLimits, ModelPrice, Usage
from burnish.testing import ScriptedModel

from ._kit import Ambient, as_said, ask, rows, told
from ._search import Tries, program, say, split, tune


def test_a_result_says_everything(tmp_path: Path) -> None:
    """Winner, baseline, test, spend, reports, stop reason, directory; the program that was given is untouched."""
    given, strategy = program(), Tries("0.5", "0.9", "0.7")
    result = tune(given, strategy, split(train=3, val=4, test=10), run_dir=tmp_path)
    assert (0.1, 0.9, told("answer", "0.9")) == (result.baseline, result.best, result.candidate)
    assert ("0.1", "0.9") == (given.leaves["answer"].instruction, result.program.leaves["answer"].instruction)
    assert result.test is not None
    assert result.test.comparison is not None
    assert (10, (0.1,) * 10, (0.9,) * 10) == (result.test.rows, result.test.baseline_scores, result.test.winner_scores)
    assert (True, True, False) == (result.improved, result.test.complete, result.test.same)
    assert ("finished", tmp_path, ()) == (result.stop_reason, result.run_dir, result.warnings)
    assert ["tries"] == [report.strategy for report in result.reports]
    assert (4 * 4 + 2 * 10, 0) == (result.spend.metric_calls, result.spend.cache_hits)
    problem = strategy.problem
    assert problem is not None
    assert ((0, 1, 2, 3), (4, 5, 6)) == (problem.val, problem.train)
    assert {"q": "val 0"} == problem.row(0)

    events = list(read_events(tmp_path / "run.db"))
    assert (RunStarted, RunEnded) == (type(events[0]), type(events[-1]))
    state = fold(events, 7)
    assert attrs.evolve(result.spend, seconds=0) == state.spend
    assert 7 == state.matrix.examples
    assert 20 == sum(isinstance(e, RolloutLanded) and e.split == "test" for e in events)


def test_no_improvement_is_scored_once() -> None:
    """Where nothing beats the program it is its own winner, and the test rows are paid once."""
    result = tune(program("0.9"), Tries("0.5"), split(train=2, val=2, test=3))
    assert result.test is not None
    assert (b.Candidate(), True, False) == (result.candidate, result.test.same, result.improved)
    assert 4 + 3 == result.spend.metric_calls


def test_without_validation_the_trainset_decides() -> None:
    """No valset, no testset: columns are the training rows, and there is no test."""
    result = tune(program(), Tries("0.5"), split(train=3))
    assert (0.5, None, 6) == (result.best, result.test, result.spend.metric_calls)


def test_twice_the_test_rows_are_set_aside() -> None:
    """The search stops where the test would go short; then the test is paid in full."""
    strategy = Tries("0.5", "0.6", "0.7", "0.8")
    result = tune(program(), strategy, split(train=1, val=4, test=5), budget=Budget(max_metric_calls=25))
    assert ("budget: max_metric_calls", 0.6) == (result.stop_reason, result.best)
    assert result.test is not None
    assert (True, 12 + 10) == (result.test.complete, result.spend.metric_calls)


@pytest.mark.parametrize("concurrency", [1, 16])
@pytest.mark.parametrize(
    "budget", [Budget(max_requests=50), Budget(max_tokens=500), Budget(max_cost="0.50"), Budget(max_requests=51)]
)
def test_what_the_test_rows_need_is_set_aside(budget: Budget, concurrency: int) -> None:
    """Under a cap on requests, tokens or money too, once a rollout has shown what it needs: two calls."""
    limits = ModelLimits(key="m", price=ModelPrice(input=0, output=1000))
    if budget.max_cost is not None:
        limits = attrs.evolve(limits, max_output_tokens=10)
    model = ScriptedModel(lambda request: "ok", usage=Usage(output_tokens=10), limits=limits)

    async def act(q: Any, text: str) -> float:
        for turn in range(2):
            await b.call_model(b.model_for("task"), ask(f"{q} {text} {turn}"))
        return float(text)

    given = Ambient(lambda q, text: act(q, text.replace("seed", "0.1")))
    options: dict[str, Any] = {"budget": budget, "models": model, "concurrency": concurrency}
    result = tune(given, Tries("0.5", "0.6", "0.7", "0.8"), split(train=1, val=4, test=5), **options)
    assert ("budget", 0.6) == (result.stop_reason.partition(":")[0], result.best)
    assert result.test is not None
    # three more would have fitted, but no candidate's four
    assert (True, 12 + 10, 44) == (result.test.complete, result.spend.metric_calls, model.calls)


def test_strategies_in_a_row_hand_on_their_best() -> None:
    """The second starts from the winner of the first; the baseline stays that of the program."""
    first, second = Tries("0.5"), Tries("0.8")
    result = tune(program(), [first, second], split(train=1, val=2))
    assert second.problem is not None
    assert told("answer", "0.5") == second.problem.start
    assert (0.1, 0.8, 2) == (result.baseline, result.best, len(result.reports))
    assert (6, 2) == (result.spend.metric_calls, result.spend.cache_hits)


@pytest.mark.parametrize("cap", ["max_metric_calls", "max_lm_calls"])
def test_a_useless_budget_is_refused_with_the_number(cap: str, tmp_path: Path) -> None:
    """Before anything is spent or made: two rounds of four rows and twice five test rows are eighteen."""
    given, run_dir = program(), tmp_path / "run"
    sets = split(train=1, val=4, test=5)
    with pytest.raises(errors.BudgetRefusedError, match="allow at least 18") as caught:
        tune(given, Tries("1"), sets, budget=Budget(**{cap: 17}), run_dir=run_dir)
    assert (cap, 18, 0, False) == (caught.value.cap, caught.value.needed, given.ran, run_dir.exists())
    assert 18 == tune(given, Tries("1"), sets, budget=Budget(**{cap: 18}), run_dir=run_dir).spend.metric_calls


@pytest.mark.parametrize("cap", ["max_requests", "max_tokens", "max_cost"])
def test_a_cap_that_cannot_be_kept_is_refused(cap: str) -> None:
    """Where a program's model calls cannot be seen, no cap on them is promised."""
    given = Ambient(say)
    given.metering = "opaque"
    with pytest.raises(errors.UsageError, match=f"{cap} cannot be kept"):
        tune(given, Tries("1"), split(train=1), budget=Budget(**{cap: 100}))
    assert [] == given.ran


PRICE = ModelPrice(input="0.15", output="0.6")


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({}, r"the model `scripted` \(role `judge`\) says no price, so that max_cost cannot be kept"),
        ({"max_output_tokens": 50}, "says no price"),
        ({"price": PRICE}, "says no bound of its replies, so that max_cost cannot be kept: set its max_tokens"),
        (None, "says no price"),
    ],
)
def test_a_cap_in_money_needs_to_know_what_a_call_may_cost(limits: dict[str, Any] | None, message: str) -> None:
    """Before anything is spent: without a price, without a bound of replies, and for a plain callable."""
    task = ScriptedModel(lambda request: "1", limits=ModelLimits(key="t", price=PRICE, max_output_tokens=9))
    judge = ScriptedModel(lambda request: "1", limits=ModelLimits(key="j", **(limits or {})))
    by_role = {"task": task, "judge": judge if limits is not None else (lambda request: "1")}
    given = Ambient(say)
    with pytest.raises(errors.BudgetRefusedError, match=message) as caught:
        tune(given, Tries("1"), split(train=1), budget=Budget(max_cost=1), models=by_role)
    assert ("max_cost", [], 0) == (caught.value.cap, given.ran, task.calls)


def test_a_model_that_costs_nothing_needs_no_bound() -> None:
    """A price of 0 is a price: a local model runs under a cap in money."""
    free = ModelPrice(input=0, output=0)
    model = ScriptedModel(lambda request: "0.5", limits=ModelLimits(key="m", price=free))

    async def act(q: Any, text: str) -> float:
        return float((await b.call_model(b.model_for("task"), ask())).text)

    result = tune(Ambient(act), Tries("1"), split(train=1, val=3), budget=Budget(max_cost=0.01), models=model)
    assert (Decimal(0), True) == (result.spend.cost, model.calls > 0)


def test_a_cap_in_money_without_prices_costs_one_call() -> None:
    """A model of the program's own that says no price ends the run after one call: a cap that nobody keeps."""
    model = ScriptedModel(lambda request: "0.5")

    async def act(q: Any, text: str) -> float:
        return float((await b.call_model(model, ask())).text)

    sets = split(train=1, val=9)
    with pytest.raises(errors.RunStoppedError, match="says no price"):
        tune(Ambient(act), Tries("1"), sets, budget=Budget(max_cost=1))
    assert 1 == model.calls


def test_test_rows_are_always_scored_fresh() -> None:
    """With a cache the search of a second run is free; the test is paid again, and is in no matrix and no cache."""
    cache, ran = RolloutCache(), list[Any]()

    async def act(q: Any, text: str) -> float:
        ran.append(q)
        return await say(q, text.replace("seed", "0.1"))

    def run() -> b.Result:
        return tune(Ambient(act), Tries("0.5"), split(train=1, val=2, test=2), cache=cache)

    first = run()
    assert (4 + 4, 4) == (first.spend.metric_calls, len(cache))
    ran.clear()
    second = run()
    assert (4, 4, 4) == (second.spend.metric_calls, second.spend.cache_hits, len(cache))
    assert {"test 0", "test 1"} == set(ran)


def test_rows_in_two_sets_are_named() -> None:
    """A score on rows that were seen before says less: the result says which they are."""
    sets = split(train=3, val=2, test=2)
    sets["testset"][1] = dict(sets["trainset"][2])
    sets["valset"][0] = dict(sets["trainset"][0])
    result = tune(program(), Tries("0.5"), sets)
    assert (
        "1 of the validation rows stand in the train rows too (validation rows 0)",
        "1 of the test rows stand in the train rows too (test rows 1)",
    ) == result.warnings


@pytest.mark.parametrize("which", ["trainset", "valset", "testset"])
def test_rows_are_refused_before_anything_is_spent(which: str, tmp_path: Path) -> None:
    """Also those of the test, which is scored last; the message names the set and the row in it."""
    sets, given = split(train=2, val=2, test=2), program()
    sets[which][1] = {"other": 1}
    with pytest.raises(errors.RowError, match=f"{which}: row 1 has no field `q`") as caught:
        tune(given, Tries("0.5"), sets, run_dir=tmp_path / "run")
    assert (1, 0, False) == (caught.value.row, given.ran, (tmp_path / "run").exists())
    sets[which][1] = {"q": float("nan")}
    with pytest.raises(errors.RowError, match=f"{which}: row 1"):
        tune(given, Tries("0.5"), sets)


def test_usage_errors_leave_the_directory_free(tmp_path: Path) -> None:
    """No metric, no strategy, no rows: refused before the directory is taken, so that the mended call may use it."""
    sets = split(train=2)
    wrong: list[dict[str, Any]] = [{"metric": 3}, {"trainset": []}, {"models": {"task": None}}]
    for options in wrong:
        with pytest.raises(errors.UsageError):
            tune(program(), Tries("0.5"), sets, run_dir=tmp_path, **options)
    with pytest.raises(errors.UsageError, match="no strategy"):
        tune(program(), [], sets, run_dir=tmp_path)
    with pytest.raises(errors.UsageError, match="is no program"):
        tune(5, Tries("0.5"), sets, run_dir=tmp_path)
    with pytest.raises(errors.PluginNotFoundError, match="no target named `prompt` is installed"):
        tune("prompt", Tries("0.5"), sets, run_dir=tmp_path)
    assert 0.5 == tune(program(), Tries("0.5"), sets, run_dir=tmp_path).best


async def failing_on(name: str, example: Any, prediction: Any) -> float:
    if str(example["q"]).startswith(name):
        raise ValueError("no gold answer")
    return float(prediction)


@pytest.mark.parametrize(("name", "best"), [("test", "0.9"), ("val", "0.1")])
def test_a_metric_error_keeps_what_was_found(name: str, best: str, tmp_path: Path) -> None:
    """Raised as it is, once what was found is saved; the run store is whole and says why it ended."""

    async def metric(example: Any, prediction: Any) -> float:
        return await failing_on(name, example, prediction)

    metric.fingerprint = name  # type: ignore[attr-defined]
    with pytest.raises(errors.MetricError, match="no gold answer"):
        tune(program(), Tries("0.9"), split(train=1, val=2, test=2), metric=metric, run_dir=tmp_path)
    installed = b.load(tmp_path / "best.json").apply(program())
    assert best == installed.leaves["answer"].instruction
    end = list(read_events(tmp_path / "run.db"))[-1]
    assert isinstance(end, RunEnded)
    assert end.stop_reason.startswith("stopped: the metric raised ValueError: no gold answer")


def test_missing_credentials_stop_a_run_after_one_call(tmp_path: Path) -> None:
    """`RunStoppedError`, one rollout, and the run store says so."""

    async def act(q: Any, text: str) -> float:
        raise errors.ModelAuthError("bad key")

    given = Ambient(act)
    with pytest.raises(errors.RunStoppedError, match="bad key"):
        tune(given, Tries("1"), split(train=1, val=9), run_dir=tmp_path)
    assert 1 == len(given.ran)
    assert isinstance(list(read_events(tmp_path / "run.db"))[-1], RunEnded)


def test_errors_arrive_bare() -> None:
    """What a strategy raises is no exception group for the caller."""

    async def fail(text: str) -> None:
        raise LookupError("a bug in the strategy")

    with pytest.raises(LookupError, match="a bug in the strategy"):
        tune(program(), Tries(before=fail), split(train=1))


async def test_not_inside_a_trio_program() -> None:
    """`optimize` runs a loop of its own; inside one it is an error, `await aoptimize` is the way."""
    with pytest.raises(RuntimeError, match="run"):
        tune(program(), Tries(), split(train=1))


async def test_several_runs_in_one_trio_program() -> None:
    """One after the other and side by side; each has its own copy, its own books."""
    results: dict[str, b.Result] = {}

    async def run(text: str) -> None:
        results[text] = await b.aoptimize(
            given, trainset=rows(2), metric=as_said, strategy=Tries(text), budget=Budget(max_metric_calls=4)
        )

    given = program()
    await run("0.2")
    async with trio.open_nursery() as nursery:
        for text in ("0.3", "0.4"):
            nursery.start_soon(run, text)
    assert {"0.2": 0.2, "0.3": 0.3, "0.4": 0.4} == {text: result.best for text, result in results.items()}
    assert {4} == {result.spend.metric_calls for result in results.values()}
    assert "0.1" == given.leaves["answer"].instruction


def test_a_result_is_shown_in_a_line() -> None:
    """Scores, gain, interval, rows and why it ended: neither texts nor lists of scores, in `str` and in `repr`."""
    result = tune(program("0.1"), Tries("0.9"), split(train=3, val=4, test=10))
    assert result.test is not None
    assert "0.100 -> 0.900, +0.800 (+0.331 to +1.000) on 10 rows" == str(result.test)
    assert f"<TestResult: {result.test}>" == repr(result.test)
    assert f"validation 0.100 -> 0.900 (chosen among 2); test {result.test}; 28 rollouts; finished" == str(result)
    assert f"<Result: {result}>" == repr(result)

    same = tune(program("0.9"), Tries("0.5"), split(train=2, val=2, test=3))
    assert "0.900 on 3 rows, the program as it was" == str(same.test)
    few = b.TestResult(rows=3, baseline_scores=(1.0,) * 3, winner_scores=(None,) * 3, comparison=None, complete=False)
    assert "no test row of 3 was scored by both" == str(few)
    part = attrs.evolve(few, comparison=b.PairedComparison(rows=2, baseline=0.0, winner=1.0, difference=1.0))
    assert "0.000 -> 1.000, +1.000 on 2 of 3 rows, cut short by the budget" == str(part)


def test_a_run_without_a_model_is_refused_before_it_begins() -> None:
    """A part that says which roles it asks gets them or is refused; the task's model stands in for all."""
    calls: list[str] = []

    class Asking(Ambient):
        roles = ("judge",)

    class Judged:
        roles = ("judge",)

        def evaluate(self, example: Any, prediction: Any) -> float:
            calls.append("scored")
            return 1.0

    async def act(q: Any, text: str) -> str:
        await trio.lowlevel.checkpoint()
        calls.append("ran")
        return text

    rows = split(train=2)
    for who, given, metric in (("program", Asking(act), as_said), ("metric", Ambient(act), Judged())):
        with pytest.raises(errors.UsageError, match=f"the {who} asks a model of the role `judge`, and this run has"):
            tune(given, Tries("0.5"), rows, metric=metric)
        assert [] == calls
    for models in ({"judge": ScriptedModel(["x"])}, ScriptedModel(["x"])):
        assert "finished" == tune(Ambient(act), Tries("0.5"), rows, metric=Judged(), models=models).stop_reason
