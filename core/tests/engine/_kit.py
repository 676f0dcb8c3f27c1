"""Small programs for the engine's tests: no predictor library, real spans, real injection, real model calls."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import trio

import burnish as b
from burnish import abc
from burnish.abc import InputField, LMRequest, Message

Act = Callable[[Any, str], Awaitable[Any]]
"""`(q, instruction) -> output`: what a program does with a row's `q` under the instruction in force."""


def rows(n: int) -> list[dict[str, Any]]:
    """Make rows `{"q": 0}`, `{"q": 1}`, ..."""
    return [{"q": i} for i in range(n)]


def ask(text: str = "hi") -> LMRequest:
    """Make a request of one turn."""
    return LMRequest(messages=(Message("user", text),))


def told(name: str, text: str) -> b.Candidate:
    """Make a candidate that changes one instruction."""
    return b.Candidate().with_instruction(name, text)


class Ambient:
    """A target with predictors that read the candidate in force; each of them is one span."""

    metering: abc.Metering = "call"
    injection: abc.Injection = "ambient"

    def __init__(self, act: Act, *, names: Sequence[str] = ("answer",), fingerprint: str = "ambient") -> None:
        self.act, self.names, self.fingerprint = act, names, fingerprint
        self.inputs: Sequence[InputField] | None = [InputField(name="q")]
        self.ran: list[Any] = []
        """The `q` of each run, in order of start."""
        self.in_flight = self.peak = 0

    def parameters(self) -> Mapping[str, b.Parameter]:
        return {name: b.Parameter(name=name, instruction="seed") for name in self.names}

    async def run(self, inputs: Mapping[str, Any], candidate: b.Candidate) -> Any:
        self.ran.append(inputs["q"])
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            output: Any = None
            for name in self.names:
                with b.span(name, inputs) as span:
                    output = await self.act(inputs["q"], instruction_of(name))
                    if span is not None:
                        span.output({"a": output})
            return output
        finally:
            self.in_flight -= 1


def instruction_of(name: str) -> str:
    """Read a predictor's text as a program does at render time."""
    injection = b.current_injection()
    overlay = None if injection is None else injection.read(name)
    return "seed" if overlay is None or overlay.instruction is None else overlay.instruction


async def echo(q: Any, instruction: str) -> Any:
    """Give the input back."""
    await trio.lowlevel.checkpoint()
    return q


@attrs.define
class Leaf:
    """A predictor for the mutation seam."""

    instruction: str | None = None
    demos: tuple[b.Demo, ...] = ()
    fails: bool = False
    """Whether `set_state` fails."""

    def get_state(self) -> b.PredictState:
        return b.PredictState(instruction=self.instruction, demos=self.demos)

    def set_state(self, state: b.PredictState) -> None:
        if self.fails:
            raise RuntimeError("this predictor cannot be written")
        self.instruction, self.demos = state.instruction, state.demos


class Module:
    """A program whose candidates are written into its predictors: `apply` injection."""

    fingerprint = "module"

    def __init__(self, act: Act = echo, **leaves: Leaf) -> None:
        self.act, self.leaves = act, leaves or {"answer": Leaf("seed")}
        self.ran = 0

    def predictors(self) -> Mapping[str, Leaf]:
        return self.leaves

    async def __call__(self, q: Any) -> Any:
        self.ran += 1
        name, leaf = next(iter(self.leaves.items()))
        with b.span(name, {"q": q}) as span:
            output = await self.act(q, leaf.instruction or "default")
            if span is not None:
                span.output({"a": output})
        return output


@b.inline
def always(example: Any, prediction: Any) -> float:
    """Score 1.0."""
    return 1.0


@b.inline
def tenth(example: Any, prediction: Any) -> float:
    """Score a tenth of the row's number."""
    return float(example["q"]) / 10


@b.inline
def as_said(example: Any, prediction: Any) -> float:
    """Score what the program gave, as a number."""
    return float(prediction)


def evaluated(outcome: Any) -> b.CandidateEval:
    """Give the one evaluation of a complete outcome."""
    assert isinstance(outcome, b.Complete), outcome
    return outcome.evaluation


def idle(engine: b.EvalEngine) -> None:
    """Check that nothing is left reserved or under way, and that the books agree."""
    evaluator = engine._evaluator
    ledger, state = evaluator.ledger, evaluator.state
    assert (0, 0, {}) == (ledger._rollouts_reserved, ledger._requests_in_flight, evaluator._dispatcher.flights)
    counted, booked = state.spend, ledger.spend
    assert attrs.evolve(counted, seconds=0) == attrs.evolve(booked, seconds=0)


def cut(directory: Path, to: Path, events: int) -> Path:
    """Copy a run as it was after so many events."""
    shutil.copytree(directory, to)
    with sqlite3.connect(to / "run.db") as connection:
        for table in ("events", "traces"):
            connection.execute(f"DELETE FROM {table} WHERE n > ?", (events,))
    connection.close()
    return to
