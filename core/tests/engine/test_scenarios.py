"""Scenarios 1 to 8 and 13 of the engine's acceptance list, with their exact numbers."""

from __future__ import annotations

from typing import Any

import pytest
import trio

import burnish as b
from burnish import BudgetExhausted, Complete, EngineConfig, EvalEngine, Promoted, Rejected
from burnish.errors import UnknownParameterError

from ._kit import Ambient, Leaf, Module, echo, evaluated, rows, tenth, told


class Barrier:
    """Lets everyone through as soon as so many wait."""

    def __init__(self, parties: int) -> None:
        self.parties, self.waiting, self.open = parties, 0, trio.Event()

    async def wait(self) -> None:
        self.waiting += 1
        if self.waiting == self.parties:
            self.waiting = 0
            opened, self.open = self.open, trio.Event()
            opened.set()
            return
        await self.open.wait()


def counts(spend: b.Spend) -> tuple[int, int, int]:
    return spend.metric_calls, spend.lm_calls, spend.cache_hits


class Answers:
    """Canned answers by row; asked beyond them it fails."""

    def __init__(self, **by_instruction: list[int]) -> None:
        self.left = {name: dict(enumerate(answers)) for name, answers in by_instruction.items()}

    async def __call__(self, q: Any, instruction: str) -> Any:
        await trio.lowlevel.checkpoint()
        return self.left[instruction].pop(q)


@b.inline
def right(example: Any, prediction: Any) -> float:
    return float(prediction == example["q"])


async def test_scenario_1_a_full_fan_out() -> None:
    """Scenario 1: 8 rows on 8 slots all meet at one barrier; order, scores, traces and spend are exact."""
    barrier = Barrier(8)

    async def meet(q: Any, instruction: str) -> Any:
        await barrier.wait()
        return q

    engine = EvalEngine(rows(8), tenth, EngineConfig(concurrency=8))
    evaluation = evaluated(await engine.evaluate(Ambient(meet), engine.register(b.Candidate())))
    assert list(range(8)) == [r.example for r in evaluation.rollouts]
    assert [i / 10 for i in range(8)] == evaluation.scores()
    assert all(r.trace is not None for r in evaluation.rollouts)
    assert (8, 8, 0) == counts(engine.spend)
    assert evaluation.mean() == engine.matrix.mean(0)


async def test_scenario_2_a_subset() -> None:
    """Scenario 2: a subset comes back in its own order and fills its cells alone."""
    engine = EvalEngine(rows(4), tenth)
    evaluation = evaluated(await engine.evaluate(Ambient(echo), engine.register(b.Candidate()), [3, 1, 2]))
    assert [3, 1, 2] == [r.example for r in evaluation.rollouts]
    assert [None, 0.1, 0.2, 0.3] == engine.matrix.row(0)


async def test_scenario_3_repeats_are_served() -> None:
    """Scenario 3: a repeat runs nothing and has no traces; a second candidate pays for itself, then is gone."""
    answers = Answers(seed=[0, 1, 2], other=[0, 1, 9])
    module, engine = Module(answers, answer=Leaf("seed")), EvalEngine(rows(3), right)
    first = engine.register(b.Candidate())
    assert 1.0 == evaluated(await engine.evaluate(module, first)).mean()
    assert (3, 3) == (engine.spend.lm_calls, engine.spend.lm_spans)

    repeat = evaluated(await engine.evaluate(module, first))
    assert (1.0, [None] * 3) == (repeat.mean(), [r.trace for r in repeat.rollouts])
    assert (3, 3, 3) == counts(engine.spend)

    second = engine.register(told("answer", "other"))
    assert 2 / 3 == evaluated(await engine.evaluate(module, second)).mean()
    assert (6, "seed") == (engine.spend.lm_calls, module.leaves["answer"].instruction)


async def test_scenario_4_the_cap() -> None:
    """Scenario 4: what does not fit runs nothing; repeats are free; what fits runs up to the cap."""
    module = Ambient(echo)
    engine = EvalEngine(rows(3), tenth, EngineConfig(budget=b.Budget(max_metric_calls=4)))
    first, second = engine.register(b.Candidate()), engine.register(told("answer", "x"))
    assert isinstance(await engine.evaluate(module, first), Complete)
    refused = await engine.evaluate(module, second)
    assert isinstance(refused, BudgetExhausted)
    assert (3, None, "max_metric_calls", 3) == (
        refused.needed, refused.partial, refused.cap, engine.spend.metric_calls,
    )
    assert isinstance(await engine.evaluate(module, first), Complete)
    assert isinstance(await engine.evaluate(module, second, [0]), Complete)
    assert (4, False) == (engine.spend.metric_calls, engine.budget_allows(1))


@b.inline
def by_candidate(example: Any, prediction: Any) -> float:
    return 0.9 if prediction == "strong" else 0.1


async def speak(q: Any, instruction: str) -> str:
    await trio.lowlevel.checkpoint()
    return instruction


async def test_scenario_5_the_gate() -> None:
    """Scenario 5: the weak candidate stops at the minibatch; the strong one pays only for the rest."""
    engine, program = EvalEngine(rows(6), by_candidate), Ambient(speak)
    weak, strong = engine.register(told("answer", "weak")), engine.register(told("answer", "strong"))
    rejected = await engine.evaluate_gated(program, weak, [0, 1], 0.5)
    assert isinstance(rejected, Rejected)
    assert (0.1, 2, None) == (rejected.minibatch.mean(), engine.spend.metric_calls, engine.matrix.score(weak, 2))

    promoted = await engine.evaluate_gated(program, strong, [0, 1], 0.5)
    assert isinstance(promoted, Promoted)
    assert (6, 2, 8) == (
        len(promoted.full.rollouts),
        sum(r.trace is None for r in promoted.full.rollouts),
        engine.spend.metric_calls,
    )
    view = engine.pareto()
    assert (6, 0, [strong], strong) == (
        view.wins(strong), view.wins(weak), view.frontier(), engine.matrix.best_by_mean(),
    )


async def test_scenario_6_a_gate_at_its_cap() -> None:
    """Scenario 6 (E46, WE): the stage says which part did not fit, and the minibatch comes along where it ran."""
    engine = EvalEngine(rows(2), tenth, EngineConfig(budget=b.Budget(max_metric_calls=1)))
    index = engine.register(b.Candidate())
    before = await engine.evaluate_gated(Ambient(echo), index, [0, 1], 0.5)
    assert isinstance(before, BudgetExhausted)
    assert (2, "minibatch", (0, 0, 0)) == (before.needed, before.stage, counts(engine.spend))

    engine = EvalEngine(rows(4), tenth, EngineConfig(budget=b.Budget(max_metric_calls=3)))
    index = engine.register(b.Candidate())
    between = await engine.evaluate_gated(Ambient(echo), index, [2, 3], 0.0)
    assert isinstance(between, BudgetExhausted)
    assert isinstance(between.partial, b.CandidateEval)
    assert (2, "full", [0.2, 0.3]) == (between.needed, between.stage, between.partial.scores())
    assert (2, 0.2, None) == (engine.spend.metric_calls, engine.matrix.score(index, 2), engine.matrix.score(index, 0))


async def test_scenario_7_charges() -> None:
    """Scenario 7, but for its resume: what the caller charges counts against the cap."""
    engine = EvalEngine(rows(3), tenth, EngineConfig(budget=b.Budget(max_lm_calls=5)))
    await engine.evaluate(Ambient(echo), engine.register(b.Candidate()))
    assert (3, True) == (engine.spend.lm_calls, engine.budget_allows(2))
    engine.charge(0, 2)
    assert (5, 3, False) == (engine.spend.lm_calls, engine.spend.metric_calls, engine.budget_allows(1))


async def test_scenario_8_the_bound() -> None:
    """Scenario 8: on two slots exactly two run at once."""
    barrier = Barrier(2)

    async def meet(q: Any, instruction: str) -> Any:
        await barrier.wait()
        return q

    program, engine = Ambient(meet), EvalEngine(rows(6), tenth, EngineConfig(concurrency=2))
    evaluation = evaluated(await engine.evaluate(program, engine.register(b.Candidate())))
    assert (2, 6) == (program.peak, len(evaluation.rollouts))


def test_scenario_13_the_mutation_seam() -> None:
    """Scenario 13 (E22): what is applied is there, what is restored is as before, an unknown name changes nothing."""
    module = Module(answer=Leaf("seed"))
    leaf = module.leaves["answer"]
    undo = b.apply_candidate(module, told("answer", "overlaid").set_demos("answer", [{"q": 1, "a": 2}]))
    assert ("overlaid", [{"q": 1, "a": 2}]) == (leaf.instruction, [dict(demo) for demo in leaf.demos])
    b.restore_candidate(module, undo)
    assert ("seed", ()) == (leaf.instruction, leaf.demos)
    with pytest.raises(UnknownParameterError, match="predictor `missing` not found"):
        b.apply_candidate(module, told("answer", "x").set_instruction("missing", "y"))
    assert "seed" == leaf.instruction
