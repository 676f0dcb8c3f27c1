"""A program, a model, a metric and strategies that a configuration can name: copied beside it by the tests."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from typing import Any

import burnish
from burnish.abc import LMRequest, Message, Problem
from burnish.testing import NearestDemoModel, ScriptedModel


class Leaf:
    """A predictor whose instruction can be tuned."""

    def __init__(self) -> None:
        self.state = burnish.PredictState(instruction="Answer.")

    def get_state(self) -> burnish.PredictState:
        return self.state

    def set_state(self, state: burnish.PredictState) -> None:
        self.state = state


class Program:
    """Asks the task model for the answer to `q`."""

    __burnish_exposed__ = True

    def __init__(self) -> None:
        self.leaf = Leaf()

    def predictors(self) -> Mapping[str, Leaf]:
        return {"leaf": self.leaf}

    async def __call__(self, *, q: str) -> dict[str, str]:
        turns = (Message("system", self.leaf.state.instruction or ""), Message("user", q))
        response = await burnish.call_model(burnish.model_for("task"), LMRequest(messages=turns))
        print("printed by the program")
        return {"a": response.text}


class Failing(Program):
    """Never gets to its model."""

    async def __call__(self, *, q: str) -> dict[str, str]:
        raise RuntimeError("disk is full")


def answer(request: LMRequest) -> str:
    """Give the last word of the question where the instruction says so, else always `a`."""
    system, question = request.messages[0].content, request.messages[-1].content
    return question.split()[-1] if "last word" in system else "a"


model = ScriptedModel(answer, name="toy")
nearest = NearestDemoModel()


@burnish.exposed
def metric(example: Mapping[str, Any], prediction: Mapping[str, Any]) -> bool:
    return bool(example["a"] == prediction["a"])


@burnish.exposed
def broken_metric(example: Any, prediction: Any) -> float:
    raise ValueError("no score\x1b[2J")


TEST_ROWS = (0, 1, 4, 5, 13, 14, 15, 16, 19, 20, 23, 25, 27, 29, 30, 32, 34, 36, 37, 38)
"""Of the tests' forty rows, as `test = 20` and `split_seed = 0` choose them."""


@burnish.exposed
def broken_on_test(example: Mapping[str, Any], prediction: Mapping[str, Any]) -> bool:
    if int(example["q"].split(":")[0]) in TEST_ROWS:
        raise ValueError("no gold")
    return metric(example, prediction)


def unmarked(example: Any, prediction: Any) -> float:
    return 1.0


class Try:
    """Compares one candidate with the start."""

    def __init__(self, instruction: str, before: Any = None, demos: Any = None) -> None:
        self._instruction, self._before, self._demos = instruction, before, demos

    async def compile(self, engine: burnish.Engine, problem: Problem) -> burnish.Report:
        candidates = [problem.start, problem.start.set_instruction("leaf", self._instruction)]
        if self._demos is not None:
            candidates[1] = candidates[1].set_demos("leaf", self._demos)
        numbers = [engine.register(candidate) for candidate in candidates]
        await engine.evaluate_many([(numbers[0], problem.val)])
        if self._before is not None:
            self._before()
        await engine.evaluate_many([(numbers[1], problem.val)])
        means = [engine.matrix.mean(number, problem.val) or 0.0 for number in numbers]
        best = max((0, 1), key=means.__getitem__)
        return burnish.Report(strategy="try", best=candidates[best], baseline_score=means[0], best_score=means[best])

    def plan(self, problem: Problem) -> burnish.Plan:
        return burnish.Plan(rollouts=2 * len(problem.val), candidates=1, minimum=2 * len(problem.val))


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)
    time.sleep(0.01)


class Nothing:
    """Keeps the start."""

    async def compile(self, engine: burnish.Engine, problem: Problem) -> burnish.Report:
        await engine.evaluate_many([(engine.register(problem.start), problem.val)])
        return burnish.Report(strategy="nothing", best=problem.start)

    def plan(self, problem: Problem) -> burnish.Plan:
        return burnish.Plan(rollouts=len(problem.val))


nothing = Nothing()


def interrupt_twice() -> None:
    signal.raise_signal(signal.SIGTERM)
    interrupt()


good = Try("Say the last word.")
coloured = Try("Say the \x1b[1mlast word.\nNow.", demos=[{"q": "0: say a", "a": "a"}])
useless = Try("Say something.")
interrupted = Try("Say the last word.", interrupt)
impatient = Try("Say the last word.", interrupt_twice)
