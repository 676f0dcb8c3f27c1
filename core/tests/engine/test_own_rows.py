"""Each rollout has rows and answers of its own: what user code writes into them is seen by nobody else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import burnish as b
from burnish import EngineConfig, EvalEngine, RolloutCache
from burnish.errors import MetricError

from ._kit import evaluated


def rows() -> list[Any]:
    """Make rows that hold containers: plain, and as a pair."""
    plain = [{"history": [f"x{n}"], "labels": {"a": ["yes"]}} for n in range(3)]
    return [*plain, ({"history": ["pair"]}, {"labels": {"a": ["yes"]}})]


@b.inline
def writes(example: Any, prediction: Any) -> float:
    """Score by what it then overwrites, on every level."""
    labels = example[1] if isinstance(example, tuple) else example
    right = labels["labels"]["a"] == ["yes"] and prediction["said"] == [1]
    labels["labels"]["a"][0] = "overwritten"
    labels["labels"] = {}
    prediction["said"].clear()
    return float(right)


@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
async def test_what_is_written_into_a_row_is_seen_by_nobody(sync: bool) -> None:
    """A program that appends to its input and a metric that overwrites labels change no later score, nor the cache."""
    lengths: list[int] = []

    def answer(history: list[str]) -> dict[str, Any]:
        lengths.append(len(history))
        history.append("again")
        return {"said": [1]}

    async def awaited(history: list[str]) -> dict[str, Any]:
        return answer(history)

    given, cache = rows(), RolloutCache()
    program = answer if sync else awaited
    engine = EvalEngine(given, writes, EngineConfig(concurrency=2), cache=cache)
    index = engine.register(b.Candidate())
    for sample in range(3):
        outcome = await engine._evaluator.evaluate_many(
            engine._target(program), [(index, range(4))], samples=range(sample, sample + 1)
        )
        done = evaluated(outcome)
        assert [1.0] * 4 == done.scores()
        assert [{"said": [1]}] * 4 == [rollout.output for rollout in done.rollouts]
    assert [1] * 12 == lengths
    assert rows() == given == engine.examples
    engine.examples[0]["history"].append("by the caller")
    assert given == engine.examples


async def test_an_answer_is_what_it_was_when_it_was_given() -> None:
    """A program that gives out one list again and again, and goes on writing into it, is scored on what it gave."""
    said: list[int] = []

    async def answer(q: int) -> list[int]:
        said.append(q)
        return said

    async def metric(example: Any, prediction: Any) -> bool:
        prediction.append(-1)
        return len(prediction) == example["q"] + 2

    engine = EvalEngine([{"q": n} for n in range(4)], metric, EngineConfig(concurrency=1))
    done = evaluated(await engine.evaluate(answer, engine.register(b.Candidate())))
    assert [1.0] * 4 == done.scores()
    assert [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]] == [rollout.output for rollout in done.rollouts]


async def test_a_failed_metric_leaves_the_answer_as_it_was() -> None:
    """What the mended metric scores is what the program gave, not what the broken one made of it."""
    broken = [True]

    async def answer(q: int) -> dict[str, Any]:
        return {"said": [q]}

    @b.inline
    def metric(example: Any, prediction: Any) -> bool:
        right = bool(prediction == {"said": [example["q"]]})
        prediction["said"].append("seen")
        if broken[0]:
            raise ValueError("a bug")
        return right

    engine = EvalEngine([{"q": n} for n in range(2)], metric)
    index = engine.register(b.Candidate())
    with pytest.raises(MetricError, match="a bug"):
        await engine.evaluate(answer, index)
    broken[0] = False
    assert [1.0] * 2 == evaluated(await engine.evaluate(answer, index)).scores()


async def test_the_metric_of_spans_gets_copies_too() -> None:
    """`evaluate_spans` sees row and answer as they were before `evaluate` wrote into them."""
    seen: list[Any] = []

    class Metric:
        def evaluate(self, example: Any, prediction: Any, trace: Any = None) -> float:
            example["q"].clear()
            prediction.clear()
            return 1.0

        def evaluate_spans(self, example: Any, prediction: Any, trace: Any) -> Mapping[int, float]:
            seen.append((example["q"], prediction))
            return {}

    async def answer(q: list[int]) -> list[str]:
        return ["said"]

    engine = EvalEngine([{"q": [1]}], Metric())
    target, index = engine._target(answer), engine.register(b.Candidate())
    await engine._evaluator.evaluate_many(target, [(index, [0])], samples=2)
    assert [([1], ["said"])] * 2 == seen


async def test_what_a_metric_writes_into_a_trace_is_lost() -> None:
    """Demos are made of traces: a metric that normalises a span's output in place does so for itself alone."""

    async def answer(q: int) -> str:
        with b.span("step", {"q": [q]}) as span:
            assert span is not None
            span.output({"a": ["Yes"]})
        return "Yes"

    def metric(example: Any, prediction: Any, trace: Any) -> float:
        trace.spans[0].inputs["q"].append(2)
        trace.spans[0].output["a"][0] = "yes"
        return 1.0

    engine = EvalEngine([{"q": 1}], metric, EngineConfig(keep_traces="all"))
    (rollout,) = evaluated(await engine.evaluate(answer, engine.register(b.Candidate()))).rollouts
    assert rollout.trace is not None
    (span,) = rollout.trace.spans
    assert ({"q": [1]}, {"a": ["Yes"]}) == (span.inputs, span.output)
