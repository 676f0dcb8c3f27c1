"""Slots: one bound for candidates and rows together, shared evenly, and no decision that depends on it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

import burnish as b
from burnish import Complete, EngineConfig, EvalEngine

from ._kit import Ambient, Module, as_said, echo, rows, tenth, told


class Gauge:
    """A program's act that shows how many rollouts of each instruction run, and holds them until told."""

    def __init__(self) -> None:
        self.running: Counter[str] = Counter()
        self.peaks: list[dict[str, int]] = []
        self.total = 0
        self.go = trio.Event()

    async def __call__(self, q: Any, instruction: str) -> Any:
        self.running[instruction] += 1
        self.total = max(self.total, self.running.total())
        try:
            await self.go.wait()
        finally:
            self.running[instruction] -= 1
        return q


async def shares(candidates: int, slots: int, columns: int = 16) -> list[int]:
    """Start an evaluation and give how many rollouts of each candidate run once all slots are taken."""
    gauge, engine = Gauge(), EvalEngine(rows(columns), tenth, EngineConfig(concurrency=slots))
    indices = [engine.register(told("answer", str(i))) for i in range(candidates)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(engine.evaluate_many, Ambient(gauge), indices)
        await trio.testing.wait_all_tasks_blocked()
        held = [gauge.running[str(i)] for i in range(candidates)]
        gauge.go.set()
    assert gauge.total <= slots
    return held


@pytest.mark.parametrize(
    ("candidates", "slots", "expected"),
    [(4, 8, [2, 2, 2, 2]), (3, 8, [3, 3, 2]), (1, 8, [8]), (5, 3, [1, 1, 1, 0, 0]), (12, 8, [1] * 8 + [0] * 4)],
)
async def test_candidates_share_the_slots_evenly(candidates: int, slots: int, expected: list[int]) -> None:
    """E83: the next item is the one of the candidate with the fewest in flight."""
    assert expected == await shares(candidates, slots)


async def test_uneven_candidates_leave_no_slot_idle() -> None:
    """A candidate with few rows hands its slots on; a freed slot goes to whoever has the fewest in flight."""
    gauge, engine = Gauge(), EvalEngine(rows(10), tenth, EngineConfig(concurrency=8))
    evaluator, program = engine._evaluator, Ambient(gauge)
    few, many = engine.register(told("answer", "few")), engine.register(told("answer", "many"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(evaluator.evaluate_many, program, [(few, [0, 1]), (many, range(10))])
        await trio.testing.wait_all_tasks_blocked()
        assert {"few": 2, "many": 6} == dict(gauge.running)
        gauge.go.set()
    assert 8 == program.peak


async def test_two_evaluations_share_one_bound() -> None:
    """The bound is the engine's, however many calls are under way."""
    program, engine = Ambient(Gauge()), EvalEngine(rows(9), tenth, EngineConfig(concurrency=4))
    assert isinstance(program.act, Gauge)
    async with trio.open_nursery() as nursery:
        for i in range(3):
            nursery.start_soon(engine.evaluate, program, engine.register(told("answer", str(i))))
        await trio.testing.wait_all_tasks_blocked()
        assert 4 == program.in_flight
        program.act.go.set()
    assert (4, 27) == (program.peak, engine.spend.metric_calls)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
async def test_results_keep_the_order_of_the_request(
    order: Sequence[int], autojump_clock: trio.testing.MockClock
) -> None:
    """E10: whoever finishes first, results stand in request order (E84)."""

    async def late(q: Any, instruction: str) -> Any:
        await trio.sleep(order.index(q))
        return q

    engine = EvalEngine(rows(4), tenth)
    outcome = await engine.evaluate(Ambient(late), engine.register(b.Candidate()), [2, 0, 3, 1])
    assert isinstance(outcome, Complete)
    assert ([2, 0, 3, 1], [0.2, 0.0, 0.3, 0.1]) == (
        [r.example for r in outcome.evaluation.rollouts],
        outcome.evaluation.scores(),
    )


async def test_one_slot_is_strictly_sequential() -> None:
    """With one slot rows run one after another, in order."""
    program, engine = Ambient(echo), EvalEngine(rows(5), tenth, EngineConfig(concurrency=1))
    await engine.evaluate(program, engine.register(b.Candidate()), [4, 2, 3])
    assert ([4, 2, 3], 1) == (program.ran, program.peak)


async def test_applied_candidates_run_one_at_a_time() -> None:
    """E14: where candidates are written into the program, rows run in parallel and candidates do not (peak 1)."""
    together: list[set[str]] = []
    running: Counter[str] = Counter()

    async def act(q: Any, instruction: str) -> Any:
        running[instruction] += 1
        together.append({name for name, count in running.items() if count})
        await trio.testing.wait_all_tasks_blocked()
        running[instruction] -= 1
        return q

    module, engine = Module(act), EvalEngine(rows(4), tenth, EngineConfig(concurrency=8))
    indices = [engine.register(told("answer", text)) for text in "xy"]
    await engine.evaluate_many(module, indices)
    assert (1, {1}) == (engine.peak_candidate_concurrency, {len(names) for names in together})
    assert {"x", "y"} == set.union(*together)
    assert "seed" == module.leaves["answer"].instruction


async def test_scenario_14_candidates_meet() -> None:
    """Scenario 14 (E53): candidates that are read in place run side by side."""
    arrived, both = [0], trio.Event()

    async def meet(q: Any, instruction: str) -> Any:
        arrived[0] += 1
        if arrived[0] == 2:
            both.set()
        await both.wait()
        return q

    engine = EvalEngine(rows(1), tenth)
    await engine.evaluate_many(Ambient(meet), [engine.register(told("answer", text)) for text in "xy"])
    assert 2 == engine.peak_candidate_concurrency


async def decide(concurrency: int, delays: int) -> list[Any]:
    """Run a little search with a tight budget and write down everything it is told."""

    async def act(q: Any, instruction: str) -> Any:
        await trio.sleep((q * 7 + len(instruction) * delays) % 5)
        if q == 3:
            raise ValueError("row 3 always fails")
        return (q + len(instruction)) % 3 / 2

    budget = b.Budget(max_metric_calls=29)
    evaluator = EvalEngine(rows(6), as_said, EngineConfig(concurrency=concurrency, budget=budget))._evaluator
    engine = b.Engine(evaluator, Ambient(act))
    heard: list[Any] = []
    for wave in range(6):
        new = [engine.register(told("answer", "x" * (wave * 2 + i))) for i in range(2)]
        outcome = await engine.evaluate_many([(index, [wave % 6, 3, 5, 0]) for index in new])
        done = outcome.evaluations if isinstance(outcome, Complete) else outcome.partial or ()
        assert isinstance(done, tuple)
        heard += [(e.candidate, e.scores(), e.mean()) for e in done]
        heard += [engine.pareto_over(range(6)).frontier(), engine.remaining, engine.spend.metric_calls, type(outcome)]
    return heard


async def test_concurrency_decides_nothing(autojump_clock: trio.testing.MockClock) -> None:
    """The same answers, in the same order, and the same end of the budget at 1 and at 16, in any completion order."""
    expected = await decide(1, 1)
    assert b.BudgetExhausted in expected
    for delays in (1, 2, 3):
        assert expected == await decide(16, delays)
