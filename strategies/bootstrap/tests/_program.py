"""A program of some predictors for these tests: small, with real spans and real injection, and no model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import trio

import burnish
from burnish import (
    Budget,
    BudgetExhausted,
    Candidate,
    Complete,
    Demo,
    Engine,
    EngineConfig,
    FieldInfo,
    Parameter,
    current_injection,
)
from burnish._runtime.evaluator import Evaluator
from burnish.abc import InputField, Problem

Answer = Callable[[str, Mapping[str, Any], Sequence[Demo], str], Mapping[str, Any]]
"""`(predictor, inputs, demos shown, instruction) -> outputs`; what it raises is the program's failure."""


def predictor(signature: str, name: str = "answer") -> Parameter:
    """Make a parameter of `question -> answer: Literal['a', 'b']`; types are separated by `: `."""
    sides = [[field.strip().split(": ") for field in side.split(";")] for side in signature.split("->")]
    inputs, outputs = (
        tuple(FieldInfo(name=f[0], type=f[1] if len(f) > 1 else "str") for f in side) for side in sides
    )
    return Parameter(name=name, instruction="Answer.", inputs=inputs, outputs=outputs)


class Chain:
    """A target: its predictors are called one after another, each with the fields it asks for."""

    metering = "rollout"
    injection = "ambient"

    def __init__(
        self, answer: Answer, *steps: Parameter, delay: Callable[[Mapping[str, Any]], float] | None = None
    ) -> None:
        self.answer, self.steps, self.delay = answer, steps, delay
        self.fingerprint = f"chain of {[step.name for step in steps]}"
        first = steps[0].inputs
        self.inputs = [InputField(name=field.name) for field in first]
        self.in_flight = self.peak = 0

    def parameters(self) -> Mapping[str, Parameter]:
        return {step.name: step for step in self.steps}

    async def run(self, inputs: Mapping[str, Any], candidate: Candidate) -> Any:
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            await trio.sleep(0 if self.delay is None else self.delay(inputs))
            values = dict(inputs)
            for step in self.steps:
                values.update(self._call(step, {field.name: values[field.name] for field in step.inputs}))
            return values
        finally:
            self.in_flight -= 1

    def _call(self, step: Parameter, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        injection = current_injection()
        assert injection is not None
        overlay = injection.read(step.name)
        demos = [] if overlay is None else [d for d in overlay.demos or () if d.source != injection.source]
        instruction = step.instruction if overlay is None else overlay.instruction or step.instruction
        with burnish.span(step.name, inputs) as opened:
            assert opened is not None
            outputs = self.answer(step.name, inputs, demos, instruction)
            opened.output(outputs)
        return outputs


@burnish.inline
def exact(example: Any, prediction: Any) -> float:
    """Compare `answer` with `expected`."""
    return float(prediction["answer"] == example["expected"])


@attrs.frozen(kw_only=True)
class Ask:
    """One request of a strategy, as the engine got it."""

    requests: tuple[tuple[int, tuple[int, ...]], ...]
    samples: int | range
    traces: bool


class RecordingEngine(Engine):
    """The engine, with a list of what it was asked."""

    def __init__(self, evaluator: Evaluator, target: Any) -> None:
        super().__init__(evaluator, target)
        self.asks: list[Ask] = []

    async def evaluate_many(
        self, requests: Sequence[tuple[int, Sequence[int]]], *, samples: int | range = 1, traces: bool = False
    ) -> Complete | BudgetExhausted:
        plain = tuple((index, tuple(columns)) for index, columns in requests)
        self.asks.append(Ask(requests=plain, samples=samples, traces=traces))
        return await super().evaluate_many(requests, samples=samples, traces=traces)


def engine_for(
    target: Any,
    train: Sequence[Any],
    val: Sequence[Any] = (),
    *,
    metric: Any = exact,
    rollouts: int | None = None,
    seed: int = 0,
    start: Candidate | None = None,
    **config: Any,
) -> tuple[RecordingEngine, Problem]:
    """Make an engine for a program and rows, and the problem that a strategy gets."""
    budget = Budget(max_metric_calls=rollouts)
    evaluator = Evaluator([*val, *train], metric, EngineConfig(budget=budget, **config))
    problem = Problem(
        parameters=target.parameters(),
        train=tuple(range(len(val), len(val) + len(train))),
        val=tuple(range(len(val))),
        start=start or Candidate(),
        metric=evaluator.metric.info,
        seed=seed,
        examples=evaluator.examples,
    )
    return RecordingEngine(evaluator, target), problem
