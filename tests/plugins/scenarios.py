"""Scenarios 1 to 6 of the engine, run on components of another distribution: the child process of `test_second.py`.

Prints one JSON object: for each scenario what came out (`result`) and what its components saw (`seen`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import trio

import burnish
from burnish import (
    Budget,
    BudgetExhausted,
    Candidate,
    Complete,
    EngineConfig,
    EvalEngine,
    PluginManager,
    PredictState,
    abc,
)
from burnish._model.events import RolloutLanded
from burnish._runtime.fanout import services
from burnish._runtime.follow import Follower
from burnish._runtime.journal import RunJournal
from burnish._runtime.ledger import Ledger
from burnish._runtime.run_store import open_run_store, read_events
from burnish.abc import LMRequest, Message
from burnish.testing import ScriptedModel

STRONG = Candidate().with_instruction("answer", "strong")
WEAK = Candidate().with_instruction("answer", "weak")


class Leaf:
    """One predictor: asks the task's model under its instruction."""

    fingerprint = "leaf"

    def __init__(self) -> None:
        self.state = PredictState()

    def get_state(self) -> PredictState:
        return self.state

    def set_state(self, state: PredictState) -> None:
        self.state = state

    async def __call__(self, question: str) -> str:
        with burnish.span("answer", {"question": question}) as span:
            messages = (Message("system", self.state.instruction or ""), Message("user", question))
            reply = await burnish.call_model(burnish.model_for("task"), LMRequest(messages=messages))
            if span is not None:
                span.output({"answer": reply.text})
            return reply.text


class Program:
    """One leaf; before it answers, a rollout waits until as many as `party` are there."""

    fingerprint = "program"

    def __init__(self, party: int = 1) -> None:
        self.leaf = Leaf()
        self._party, self._there, self._all_there = party, 0, trio.Event()

    def predictors(self) -> Mapping[str, Leaf]:
        return {"answer": self.leaf}

    def copy(self) -> Program:
        return Program(self._party)

    async def __call__(self, question: str) -> str:
        self._there += 1
        if self._there >= self._party:
            self._all_there.set()
        with trio.fail_after(5):
            await self._all_there.wait()
        return await self.leaf(question)


class Metric:
    """A score by row and candidate."""

    __burnish_inline__ = True

    def __init__(self, name: str, score: Callable[[Any, str, int], float]) -> None:
        self.fingerprint, self._score = name, score

    def evaluate(self, example: Any, prediction: str, trace: Any = None) -> float:
        return self._score(example, prediction, trace.meta.candidate_hash)


def rows(count: int) -> list[dict[str, Any]]:
    return [{"question": f"q{i}", "answer": "right", "i": i} for i in range(count)]


TENTHS = Metric("tenths", lambda example, _, __: float(example["i"]) / 10)
EXACT = Metric("exact", lambda example, prediction, _: float(prediction == example["answer"]))
RIGHT = ScriptedModel(lambda request: "right", name="task")
BY_CANDIDATE = Metric("candidate", lambda _, __, candidate: 0.9 if candidate == STRONG.stable_hash else 0.1)


@attrs.frozen(kw_only=True)
class Bench:
    """The second distribution's components of one scenario, and the engine's faces over them."""

    executor: Any
    meter: Any
    cache: Any
    sink: Any
    store: Any
    follower: Follower

    def engine(
        self, count: int, metric: Metric, *, concurrency: int = 4, run: str = "one", model: Any = RIGHT, **caps: int
    ) -> EvalEngine:
        """Make an engine over `count` rows; all its parts but limits and journal are the second distribution's."""
        budget = Budget(**caps)
        return EvalEngine(
            rows(count),
            metric,
            EngineConfig(concurrency=concurrency, budget=budget),
            cache=self.cache,
            executor=self.executor,
            ledger=Ledger(budget, meter=self.meter, run=run),
            journal=RunJournal(self.store),
            models={} if model is None else {"task": model},
        )

    async def seen(self) -> dict[str, Any]:
        """Say what the components saw, beside what the run store holds."""
        await self.store.flush()
        assert await self.follower.drain()
        return seen(self, await self.store.read(0))


def seen(parts: Any, stored: Sequence[tuple[int, Any]]) -> dict[str, Any]:
    """Say what executor, meter, cache and sink of `parts` saw, beside the events that were stored."""
    landed = [event for _, event in stored if isinstance(event, RolloutLanded)]
    delivered = [pair for delivery in parts.sink.deliveries for pair in delivery.events]
    return {
        "executed": parts.executor.keys,
        "live": [event.key for event in landed if event.source == "live"],
        "cached": [event.key for event in landed if event.source == "cache"],
        "asked": [lease.amount.metric_calls for lease in parts.meter.asked],
        "lease_keys": [lease.key for lease in parts.meter.asked],
        "released": [[key, unused.metric_calls] for key, unused in parts.meter.released],
        "looked_up": parts.cache.asked,
        "written": parts.cache.written,
        "served": parts.cache.served,
        "numbers": [number for number, _ in delivered],
        "stored_numbers": [number for number, _ in stored],
        "same_events": delivered == stored,
        "deliveries": len(parts.sink.deliveries),
    }


@asynccontextmanager
async def opened(manager: PluginManager, quota: int | None = None) -> AsyncIterator[Bench]:
    """Open the four components by name, and a run store that the sink follows."""
    async with AsyncExitStack() as stack:

        async def open_part(kind: str, table: Mapping[str, Any] | None = None) -> Any:
            return await stack.enter_async_context(manager.open(kind, "second", table))

        executor, cache, sink = [await open_part(kind) for kind in ("executor", "cache", "sink")]
        meter = await open_part("meter", {"metric_calls": quota})
        store = await stack.enter_async_context(open_run_store(None))
        follower = Follower(store, sink, "run", "second")
        yield Bench(executor=executor, meter=meter, cache=cache, sink=sink, store=store, follower=follower)


# --- what came out, as data ------------------------------------------------------------------------------------------


def outcome(result: Any) -> dict[str, Any]:
    """Give an outcome of `evaluate` as data."""
    if isinstance(result, BudgetExhausted):
        return {"needed": result.needed, "stage": result.stage, "cap": result.cap}
    assert isinstance(result, Complete)
    return evaluation(result.evaluation)


def evaluation(done: Any) -> dict[str, Any]:
    """Give one candidate's evaluation as data."""
    return {
        "examples": [rollout.example for rollout in done.rollouts],
        "scores": done.scores(),
        "mean": done.mean(),
        "traces": sum(rollout.trace is not None for rollout in done.rollouts),
    }


def gate(result: Any) -> dict[str, Any]:
    """Give a gate's outcome as data."""
    if isinstance(result, BudgetExhausted):
        return outcome(result)
    full = getattr(result, "full", None)
    data = {"verdict": type(result).__name__, "minibatch": evaluation(result.minibatch)}
    return data if full is None else {**data, "full": evaluation(full)}


def spent(engine: EvalEngine) -> dict[str, int]:
    """Give the counts of a spend."""
    names = ("metric_calls", "lm_calls", "lm_spans", "cache_hits")
    return {name: getattr(engine.spend, name) for name in names}


# --- the scenarios ---------------------------------------------------------------------------------------------------


async def barrier(bench: Bench) -> Any:
    """Scenario 1: 8 rows on 8 slots, every rollout waits for the other seven."""
    engine = bench.engine(8, TENTHS, concurrency=8)
    candidate = engine.register(Candidate())
    done = outcome(await engine.evaluate(Program(party=8), candidate))
    return {"done": done, "spend": spent(engine), "matrix_mean": engine.matrix.mean(candidate)}


async def subset(bench: Bench) -> Any:
    """Scenario 2: a subset, in its own order."""
    engine = bench.engine(4, TENTHS)
    candidate = engine.register(Candidate())
    done = outcome(await engine.evaluate(Program(), candidate, [3, 1, 2]))
    return {"done": done, "row": [engine.matrix.score(candidate, column) for column in range(4)]}


async def repeat(bench: Bench) -> Any:
    """Scenario 3: canned answers; the repeat asks nobody; another candidate pays again, and leaves no trace."""
    program, steps = Program(), []
    engine = bench.engine(3, EXACT, model=None)

    async def step(candidate: Candidate, answers: Sequence[str]) -> None:
        model = ScriptedModel(list(answers), name="canned")
        with burnish.models(task=model):
            done = outcome(await engine.evaluate(program, engine.register(candidate)))
        steps.append({"done": done, "spend": spent(engine), "left": model.left})

    await step(Candidate(), ["right"] * 3)
    await step(Candidate(), [])
    await step(STRONG, ["right", "wrong", "right"])
    return {"steps": steps, "instruction": program.leaf.state.instruction}


async def cap(bench: Bench) -> Any:
    """Scenario 4: a cap of 4 on 3 rows."""
    engine = bench.engine(3, TENTHS, max_metric_calls=4)
    program, first, second = Program(), engine.register(Candidate()), engine.register(STRONG)
    asks = [(first, None), (second, None), (first, None), (second, [0])]
    steps = [
        {"done": outcome(await engine.evaluate(program, index, columns)), "metric_calls": engine.spend.metric_calls}
        for index, columns in asks
    ]
    return {"steps": steps, "allows": engine.budget_allows(1)}


async def gated(bench: Bench) -> Any:
    """Scenario 5: a weak candidate is rejected on its minibatch, a strong one promoted."""
    engine = bench.engine(6, BY_CANDIDATE)
    program, weak, strong = Program(), engine.register(WEAK), engine.register(STRONG)
    first = gate(await engine.evaluate_gated(program, weak, [0, 1], 0.5))
    after_first = [engine.spend.metric_calls, engine.matrix.score(weak, 2)]
    second = gate(await engine.evaluate_gated(program, strong, [0, 1], 0.5))
    view = engine.pareto()
    return {
        "weak": first,
        "after_weak": after_first,
        "strong": second,
        "metric_calls": engine.spend.metric_calls,
        "wins": [view.wins(weak), view.wins(strong)],
        "frontier_is_strong": list(view.frontier()) == [strong],
        "best_is_strong": engine.matrix.best_by_mean() == strong,
    }


async def tight_gate(bench: Bench) -> Any:
    """Scenario 6: a cap that not even the minibatch fits, and one that the promotion does not."""
    tight = bench.engine(4, BY_CANDIDATE, max_metric_calls=1)
    refused = gate(await tight.evaluate_gated(Program(), tight.register(STRONG), [0, 1], 0.5))
    engine = bench.engine(4, BY_CANDIDATE, run="two", max_metric_calls=3)
    candidate = engine.register(STRONG)
    passed = gate(await engine.evaluate_gated(Program(), candidate, [2, 3], 0.0))
    return {
        "tight": refused,
        "tight_spend": spent(tight),
        "passed": passed,
        "metric_calls": engine.spend.metric_calls,
        "cells": [engine.matrix.score(candidate, 2), engine.matrix.score(candidate, 0)],
    }


async def second_engine(bench: Bench) -> Any:
    """What one engine paid, another of the same program and rows gets from the shared cache."""
    first = bench.engine(3, TENTHS)
    await first.evaluate(Program(), first.register(STRONG))
    other = bench.engine(3, TENTHS, run="two")
    done = outcome(await other.evaluate(Program(), other.register(STRONG)))
    return {"done": done, "spend": spent(other)}


async def quota(bench: Bench) -> Any:
    """The meter has less than the run's own budget: it refuses, and nothing of the batch runs."""
    engine = bench.engine(4, TENTHS, max_metric_calls=100)
    program, candidate = Program(), engine.register(Candidate())
    steps = [outcome(await engine.evaluate(program, candidate, columns)) for columns in ([0, 1, 2], [3], None)]
    other = bench.engine(4, EXACT, run="two")
    steps.append(outcome(await other.evaluate(program, other.register(STRONG), [0])))
    return {"steps": steps, "spend": spent(engine)}


SCENARIOS: Mapping[str, tuple[Callable[[Bench], Awaitable[Any]], int | None]] = {
    "1": (barrier, None),
    "2": (subset, None),
    "3": (repeat, None),
    "4": (cap, None),
    "5": (gated, None),
    "6": (tight_gate, None),
    "second engine": (second_engine, None),
    "quota": (quota, 4),
}


class OneTry:
    """A strategy: the program as it is, then the strong candidate."""

    def plan(self, problem: abc.Problem) -> burnish.Plan:
        return burnish.Plan(rollouts=2 * len(problem.val), minimum=len(problem.val))

    async def compile(self, engine: burnish.Engine, problem: abc.Problem) -> burnish.Report:
        before = await engine.evaluate_many([(engine.register(problem.start), problem.val)])
        after = await engine.evaluate_many([(engine.register(STRONG), problem.val)])
        assert isinstance(before, Complete)
        assert isinstance(after, Complete)
        means = [done.evaluation.mean() for done in (before, after)]
        return burnish.Report(strategy="one try", best=STRONG, baseline_score=means[0], best_score=means[1])


class Watching(PluginManager):
    """Remembers what it opened, by kind."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = SimpleNamespace()

    @asynccontextmanager
    async def open(self, kind: str, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async with super().open(kind, *args, **kwargs) as part:
            setattr(self.parts, kind, part)
            yield part


async def whole_run(run_dir: Path) -> dict[str, Any]:
    """A run from `optimize`, its parts by name: search on 3 rows of validation, test on 2."""
    manager = Watching()
    every = rows(8)
    result = await burnish.aoptimize(
        Program(),
        trainset=every[:3],
        valset=every[3:6],
        testset=every[6:],
        metric=BY_CANDIDATE,
        strategy=OneTry(),
        budget=Budget(max_metric_calls=50),
        models={"task": RIGHT},
        cache="second",
        executor="second",
        meter=burnish.Use("second", metric_calls=50),
        sinks=["second"],
        run_dir=run_dir,
        plugins=manager,
    )
    stored = list(enumerate(read_events(run_dir / "run.db"), 1))
    data = {"scores": [result.baseline, result.best], "metric_calls": result.spend.metric_calls}
    return {"result": data, "seen": seen(manager.parts, stored)}


async def main(run_dir: Path) -> dict[str, Any]:
    """Run every scenario on components of its own."""
    manager = PluginManager()
    report: dict[str, Any] = {}
    for name, (scenario, left) in SCENARIOS.items():
        async with opened(manager, left) as bench:
            async with services(bench.follower.follow):
                result = await scenario(bench)
            report[name] = {"result": result, "seen": await bench.seen()}
    report["run"] = await whole_run(run_dir)
    report["distributions"] = {i.id: i.distribution for i in manager.available() if i.name == "second"}
    report["imported"] = sorted(name for name in sys.modules if name.startswith(("burnish_", "burnish._builtin")))
    return report


if __name__ == "__main__":
    json.dump(trio.run(main, Path(sys.argv[1])), sys.stdout)
