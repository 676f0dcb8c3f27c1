"""What burnish does of the table's work."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio

import burnish
from benchmarks.table.worker import Measured, Work, resident_mb, serve
from burnish import abc
from burnish._builtin.sqlite import SqliteOptions, open_sqlite
from burnish._model.events import RunStarted
from burnish._model.matrix import ScoreMatrix
from burnish._runtime.engine import Engine
from burnish._runtime.evaluator import Evaluator
from burnish._runtime.history import History
from burnish._runtime.journal import RunJournal
from burnish._runtime.run_store import open_run_store
from burnish._runtime.target import as_target
from burnish.testing import ScriptedModel
from burnish_programs import Predict

DEMO_TEXT = "A question that takes up about as much room as questions do. "
CHUNK = 1000
"""Rows of the long runs; further rollouts are further samples of them."""


class Instant:
    """A model that answers at once."""

    identity = {"model": "instant"}  # noqa: RUF012 - a constant of this file
    limits = abc.ModelLimits(key="instant", timeout=None)

    async def complete(self, request: abc.LMRequest) -> abc.LMResponse:
        """Answer."""
        return abc.LMResponse(text="answer: 1")


@burnish.inline
def metric(example: Any, prediction: Any) -> float:
    """Score everything alike."""
    return 1.0


async def echo(question: str) -> dict[str, str]:
    """Answer with the question."""
    return {"answer": question}


def sleeper(seconds: float) -> Callable[..., Awaitable[dict[str, str]]]:
    """Make a program that takes so long."""

    async def program(question: str) -> dict[str, str]:
        await trio.sleep(seconds)
        return {"answer": question}

    return program


def rows(count: int) -> list[dict[str, str]]:
    """Make rows."""
    return [{"question": f"q{i}"} for i in range(count)]


@contextmanager
def clocked(measured: Measured) -> Iterator[None]:
    """Note wall and CPU time of the block, and how much memory grew."""
    memory, wall, cpu = resident_mb(), time.perf_counter(), time.process_time()
    yield
    measured.update(wall=time.perf_counter() - wall, cpu=time.process_time() - cpu, grown=resident_mb() - memory)


async def floor(count: int, seconds: float, slots: int) -> Measured:
    """Loop the sleep in bare trio tasks."""
    measured: Measured = {}

    async def loop() -> None:
        for _ in range(count // slots):
            await trio.sleep(seconds)

    with clocked(measured):
        async with trio.open_nursery() as nursery:
            for _ in range(slots):
                nursery.start_soon(loop)
    return measured


async def evaluate(count: int, slots: int, seconds: float = 0.0, kind: str = "bare") -> Measured:
    """Evaluate once, without a run directory: `kind` is `bare` or `predict`."""
    program: Any = Predict("question -> answer: int") if kind == "predict" else sleeper(seconds) if seconds else echo
    models = {"task": Instant()} if kind == "predict" else {}
    engine = burnish.EvalEngine(rows(count), metric, burnish.EngineConfig(concurrency=slots), models=models)
    index = engine.register(burnish.Candidate())
    measured: Measured = {}
    with clocked(measured):
        await engine.evaluate(program, index)
    return measured


async def captured(demos: int, times: int = 300, rounds: int = 5) -> Measured:
    """Call a predictor under capture and look at the trace; least CPU of a call, in microseconds."""
    shown = [{"question": DEMO_TEXT * 3, "answer": n} for n in range(demos)]
    predict, best = Predict("question -> answer: int", demos=shown), float("inf")
    with burnish.models(task=Instant()):
        for number in range(rounds + 1):
            began = time.process_time()
            for _ in range(times):
                with burnish.capture() as scope:
                    await predict(question="q")
                assert scope.trace.spans[0].output == {"answer": 1}
            best = min(best, time.process_time() - began) if number else best
    return {"us": best / times * 1e6}


async def served(where: str, count: int = 20_000) -> Measured:
    """Evaluate a second time: pairs a second from this engine's memory, or from a SQLite file by a new engine."""
    measured: Measured = {}
    with tempfile.TemporaryDirectory() as directory:
        options = SqliteOptions(path=str(Path(directory) / "cache.db"))
        async with open_sqlite(options, abc.Environment()) as cache:
            for number in range(2):
                if number == 0 or where == "sqlite":
                    engine = burnish.EvalEngine(rows(count), metric, cache=cache if where == "sqlite" else None)
                    index = engine.register(burnish.Candidate())
                with clocked(measured):
                    await engine.evaluate(echo, index)
            assert engine.spend.cache_hits == count
    return {"rate": count / measured["wall"], "cpu_rate": count / measured["cpu"]}


@asynccontextmanager
async def _run(directory: str) -> Any:
    async with open_run_store(Path(directory) / "run.db") as store:
        if not store.appended:
            store.append(RunStarted(run="benchmark"))
        yield store


async def _chunks(count: int, calls: list[int], journal: RunJournal | None = None) -> None:
    async def program(question: str) -> dict[str, str]:
        calls[0] += 1
        return {"answer": question}

    evaluator = Evaluator(rows(min(CHUNK, count)), metric, burnish.EngineConfig(concurrency=16), journal=journal)
    index, target = evaluator.register(burnish.Candidate()), as_target(program)
    for sample in range(max(1, count // CHUNK)):
        await evaluator.evaluate_many(target, [(index, range(min(CHUNK, count)))], samples=range(sample, sample + 1))


async def stored(count: int, again: bool = False) -> Measured:
    """Run so many zero-latency rollouts with and without a run store; `again` lets the run begin again, too."""
    plain, durable, resumed, calls = {}, {}, {}, [0]  # type: tuple[Measured, Measured, Measured, list[int]]
    with tempfile.TemporaryDirectory() as directory:
        async with _run(directory) as store:
            with clocked(durable):
                await _chunks(count, calls, RunJournal(store))
        size = (Path(directory) / "run.db").stat().st_size
        paid = calls[0]
        if again:
            async with _run(directory) as store:
                with clocked(resumed):
                    await _chunks(count, calls, RunJournal(store, history=await History.load(store)))
        extra = float(calls[0] - paid)
    with clocked(plain):
        await _chunks(count, calls)
    us = {f"{name}_us": (durable[name] - plain[name]) / count * 1e6 for name in ("wall", "cpu")}
    times = {f"resume_{name}": value for name, value in resumed.items()}
    return {**us, **times, "rate": count / durable["wall"], "bytes": size / count, "extra_calls": extra}


async def frontier(candidates: int, columns: int = 500) -> Measured:
    """Accept candidates with binary rows one by one; CPU of the frontier for the last ones, in milliseconds."""
    rng, matrix, taken = random.Random(0), ScoreMatrix(columns), list[float]()
    for candidate in range(candidates):
        for column in range(columns):
            matrix.record(candidate, column, float(rng.random() < 0.5))
        began = time.process_time()
        matrix.frontier(range(columns))
        taken.append((time.process_time() - began) * 1000)
    return {"ms": sorted(taken[-9:])[len(taken[-9:]) // 2]}


async def iteration(seconds: float = 0.080, slots: int = 4) -> Measured:
    """One proposal, then a minibatch, a full set and a merge's rows of four: 13 calls in four stages."""
    model = ScriptedModel(lambda request: "answer: 1", delay=seconds)
    evaluator = Evaluator(
        rows(12), metric, burnish.EngineConfig(concurrency=slots), models={"task": model, "proposer": model}
    )
    engine = Engine(evaluator, as_target(Predict("question -> answer: int")))
    index = engine.register(burnish.Candidate())
    measured: Measured = {}
    with clocked(measured):
        await engine.call(Predict("trouble -> answer: int", role="proposer"), {"trouble": "none"})
        for stage in range(3):
            await engine.evaluate_many([(index, range(4 * stage, 4 * stage + 4))])
    return {**measured, "calls": float(model.calls)}


def _sync(work: Callable[..., Awaitable[Measured]]) -> Work:
    return lambda **arguments: trio.run(partial(work, **arguments))


if __name__ == "__main__":
    works = (floor, evaluate, captured, served, stored, frontier, iteration)
    serve({work.__name__: _sync(work) for work in works})
