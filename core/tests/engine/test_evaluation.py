"""Evaluating without an engine: rows in order, failures of the lowest row, outputs without scores."""

from __future__ import annotations

import math
from typing import Any

import attrs
import pytest
import trio
import trio.testing

import burnish as b
from burnish import Eval, errors
from burnish._runtime.evaluation import RowFailedError
from burnish.testing import ScriptedModel

from ._kit import Ambient, Module, always, ask, echo, rows

Clock = trio.testing.MockClock


async def test_scenario_24_two_rows() -> None:
    """Scenario 24 (E55): two rows, an echo, exact match; the metric saw the whole rows in order, with a trace each."""
    saw: list[Any] = []

    class Exact:
        def evaluate(self, example: Any, prediction: Any, trace: b.Trace | None = None) -> float:
            assert trace is not None
            saw.append(example["text"])
            return float(prediction == example["text"])

    async def program(text: str) -> str:
        return text

    evals = await b.evaluate_trainset_with_concurrency(program, [{"text": "one"}, {"text": "two"}], Exact(), 1)
    assert ([Eval(1.0)] * 2, 1.0, ["one", "two"]) == (evals, b.average_score(evals), saw)


async def test_scenario_25_a_metrics_error() -> None:
    """Scenario 25: its text reaches the caller, with the row."""

    @b.inline
    def metric(example: Any, prediction: Any) -> float:
        raise ValueError("no gold answer")

    with pytest.raises(errors.MetricError, match=r"no gold answer \(row 0\)") as caught:
        await b.evaluate_trainset(Ambient(echo), rows(2), metric)
    assert 0 == caught.value.row


async def test_scenario_26_order(autojump_clock: Clock) -> None:
    """Scenario 26 (E59): eight rows at the default concurrency, whoever ends first: scores exactly 0 to 7 in order."""

    async def act(q: Any, instruction: str) -> Any:
        await trio.sleep(8 - q)
        return q

    @b.inline
    def number(example: Any, prediction: Any) -> float:
        return float(prediction)

    program = Ambient(act)
    evals = await b.evaluate_trainset(program, rows(8), number)
    assert ([float(i) for i in range(8)], 8) == ([e.score for e in evals], program.peak)


async def test_scenario_27_spans() -> None:
    """Scenario 27: the metric reads the recorded question of the one span; its feedback carries both."""

    @b.inline
    def metric(example: Any, prediction: Any, trace: b.Trace) -> Eval:
        (span,) = trace.for_component("step")
        return Eval(1.0, f"{span.inputs['q']} -> {prediction}")

    (result,) = await b.evaluate_trainset(Ambient(echo, names=("step",)), [{"q": "why"}], metric)
    assert Eval(1.0, "why -> why") == result


async def test_scenario_28_a_plain_function() -> None:
    """Scenario 28: a plain function over four rows, one at a time."""
    running, peak = 0, 0

    async def program(q: int) -> int:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await trio.lowlevel.checkpoint()
        running -= 1
        return q

    for concurrency in (1, 0):
        evals = await b.evaluate_trainset_with_concurrency(program, rows(4), always, concurrency)
        assert ([1.0] * 4, 1) == ([e.score for e in evals], peak)


def test_evals_are_plain() -> None:
    """E57, E60: a score and a text, no bound but finite; the average of none is 0.0."""
    assert (Eval(7.5), Eval(-1.0, "why")) == (Eval(7.5, None), Eval(-1, "why"))
    assert (0.0, 2.0) == (b.average_score([]), b.average_score([Eval(1), Eval(3)]))
    assert pytest.approx(0.8) == b.average_score([Eval(0.8), Eval(0.9), Eval(0.7)])
    for score in (math.nan, math.inf):
        with pytest.raises(errors.UsageError, match="finite"):
            Eval(score)


@pytest.mark.parametrize("lowest", ["program", "metric", "infrastructure"])
async def test_all_rows_finish_then_the_lowest_failure_is_raised(lowest: str, autojump_clock: Clock) -> None:
    """E59: whichever fails first in time, and whoever is to blame."""
    kinds = {3: lowest, 5: "metric", 6: "program", 7: "infrastructure"}

    async def act(q: Any, instruction: str) -> Any:
        await trio.sleep(10 - q)
        if kinds.get(q) == "program":
            raise ValueError(f"program {q}")
        if kinds.get(q) == "infrastructure":
            raise errors.ModelServerError(f"infrastructure {q}")
        return q

    @b.inline
    def metric(example: Any, prediction: Any) -> float:
        if kinds.get(example["q"]) == "metric":
            raise ValueError(f"metric {example['q']}")
        return 1.0

    program = Ambient(act)
    with pytest.raises(errors.EvaluationError, match=f"{lowest} 3") as caught:
        await b.evaluate_trainset(program, rows(9), metric)
    assert isinstance(caught.value, errors.MetricError if lowest == "metric" else RowFailedError)
    assert 3 == caught.value.row
    assert list(range(9)) == sorted(program.ran)


async def test_missing_credentials_end_it() -> None:
    """No further row starts; the error is that of the row that met it."""
    model = ScriptedModel([errors.ModelAuthError("bad key")])

    async def act(q: Any, instruction: str) -> Any:
        return (await b.call_model(model, ask())).text

    with pytest.raises(RowFailedError, match="row 0: ModelAuthError: bad key"):
        await b.evaluate_trainset_with_concurrency(Ambient(act), rows(5), always, 1)
    assert 1 == model.calls


@attrs.frozen
class Answer:
    text: str


async def test_forward_all_gives_live_outputs() -> None:
    """E61: one result a row, in order, failures as values; outputs are live objects, for equal rows too."""

    async def program(q: Any) -> Answer:
        if q == 1:
            raise ValueError("no")
        return Answer(f"a{q}")

    results = await b.forward_all(program, [*rows(3), {"q": 0}])
    assert [Answer("a0"), None, Answer("a2"), Answer("a0")] == [r.output for r in results]
    assert [True, False, True, True] == [r.ok for r in results]
    assert "ValueError: no" == str(results[1].error)


async def test_forward_all_tolerates_every_fault() -> None:
    """E61: also where going on is pointless, each row has its result; the bound is clamped."""

    async def program(q: Any) -> str:
        if q == 1:
            raise errors.ModelAuthError("bad key")
        return "ok"

    results = await b.forward_all(program, rows(4), concurrency=0)
    assert ["ok", None, None, None] == [r.output for r in results]
    assert ["ModelAuthError", "NotRun", "NotRun"] == [r.error.type for r in results[1:] if r.error is not None]


async def test_modules_are_evaluated_as_they_are() -> None:
    """Nothing is written into a module's predictors."""
    module = Module()
    module.leaves["answer"].instruction = "installed"
    seen: list[str] = []

    async def act(q: Any, instruction: str) -> Any:
        seen.append(instruction)
        return q

    module.act = act
    await b.evaluate_trainset(module, rows(2), always)
    assert (["installed"] * 2, "installed") == (seen, module.leaves["answer"].instruction)
