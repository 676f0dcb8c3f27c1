"""The engine and an executor that runs rollouts elsewhere: what it gives is checked, kept, and never paid twice."""

from __future__ import annotations

from typing import Any

import pytest

from burnish import Candidate, Complete, EvalEngine, Fault, RolloutRecord, RolloutStatus, abc
from burnish._model.budget import RoleSpend
from burnish._model.codec import dumps, loads
from burnish._model.lm import Usage
from burnish.errors import MetricError

ROWS = [{"question": f"q{i}"} for i in range(3)]


async def program(question: str) -> dict[str, str]:
    raise AssertionError("it runs elsewhere")


class Elsewhere:
    """Gives records as another machine would: out of JSON text, without calling `here`. The metric fails over there."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def run(self, rollout: abc.Rollout) -> RolloutRecord:
        question = str(rollout.example.data["question"])
        self.asked.append(question)
        record = RolloutRecord(
            status=RolloutStatus.SUCCEEDED,
            output={"answer": question},
            fault=Fault(type="MetricError", message="no metric over there", where="metric"),
            calls={"task": RoleSpend(requests=2, usage=Usage(input_tokens=5, output_tokens=2))},
        )
        return loads(dumps(record), RolloutRecord)


class Odd:
    """Gives what is no record for one row, and runs the others here."""

    def __init__(self, odd: Any) -> None:
        self.odd = odd

    async def run(self, rollout: abc.Rollout) -> Any:
        return self.odd if rollout.example.data["question"] == "q1" else await rollout.here()


async def test_an_output_from_elsewhere_is_scored_here_and_asked_for_once() -> None:
    """The metric failed on the worker: all outputs are kept, and evaluating again calls neither model nor executor."""
    executor = Elsewhere()
    same = lambda example, prediction: prediction["answer"] == example["question"]  # noqa: E731
    engine = EvalEngine(ROWS, same, executor=executor)
    candidate = engine.register(Candidate())
    with pytest.raises(MetricError, match="no metric over there"):
        await engine.evaluate(program, candidate)
    assert ["q0", "q1", "q2"] == sorted(executor.asked)
    outcome = await engine.evaluate(program, candidate)
    assert isinstance(outcome, Complete)
    assert [1.0, 1.0, 1.0] == outcome.evaluation.scores()
    assert 3 == len(executor.asked)
    assert (3, 6, 21) == (engine.spend.metric_calls, engine.spend.requests, engine.spend.tokens)


@pytest.mark.parametrize("odd", [None, {"status": "succeeded"}, RolloutRecord])
async def test_what_is_no_record_is_the_executor_s_fault(odd: Any) -> None:
    """It counts as an infrastructure failure of that row, named; the siblings are scored and nothing hangs."""

    async def answers(question: str) -> dict[str, str]:
        return {"answer": question}

    engine = EvalEngine(ROWS, lambda example, prediction: 1.0, executor=Odd(odd))
    outcome = await engine.evaluate(answers, engine.register(Candidate()))
    assert isinstance(outcome, Complete)
    assert [1.0, None, 1.0] == outcome.evaluation.scores()
    failed = outcome.evaluation.rollouts[1]
    assert RolloutStatus.INFRASTRUCTURE_FAILED == failed.status
    assert failed.error is not None
    assert "instead of a RolloutRecord" in failed.error.message
    assert "executor" == failed.error.where
