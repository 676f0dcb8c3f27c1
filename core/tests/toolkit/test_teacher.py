"""The teacher pass: waves, what ends it, and what it asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import trio
from trio.testing import MockClock

import burnish
from burnish import Budget, BudgetExhausted, Candidate, Complete, Engine, EngineConfig, Parameter, toolkit
from burnish._runtime.evaluator import Evaluator
from burnish.abc import Problem


class Program:
    """Echoes the row's number; rows named as bad raise. Some rows call a second predictor too."""

    metering = "rollout"
    injection = "ambient"
    fingerprint = "echo"
    inputs = None

    def __init__(self, bad: Sequence[int] = (), rare: Sequence[int] = (), slow: Sequence[int] = ()) -> None:
        self.bad, self.rare, self.slow = bad, rare, slow

    def parameters(self) -> Mapping[str, Parameter]:
        return {"main": Parameter(name="main"), "rare": Parameter(name="rare")}

    async def run(self, inputs: Mapping[str, Any], candidate: Candidate) -> Any:
        number = inputs["n"]
        await trio.sleep(1 if number in self.slow else 0)
        if number in self.bad:
            raise ValueError(f"row {number}")
        for name in ("main", "rare") if number in self.rare else ("main",):
            with burnish.span(name, {"n": number}) as opened:
                assert opened is not None
                opened.output({"out": number})
        return {"out": number}


@burnish.inline
def even(example: Any, prediction: Any) -> float:
    """Score even numbers as right."""
    return float(prediction["out"] % 2 == 0)


class Asked(Engine):
    """The engine, with a list of the rows of each request."""

    def __init__(self, evaluator: Evaluator, program: Any) -> None:
        super().__init__(evaluator, program)
        self.waves: list[list[int]] = []

    async def evaluate_many(
        self, requests: Sequence[tuple[int, Sequence[int]]], *, samples: int | range = 1, traces: bool = False
    ) -> Complete | BudgetExhausted:
        self.waves.append([column for _, columns in requests for column in columns])
        return await super().evaluate_many(requests, samples=samples, traces=traces)


async def taught(
    program: Program, rows: int = 12, *, rollouts: int | None = None, **wanted: Any
) -> tuple[toolkit.Taught, list[list[int]]]:
    config = EngineConfig(budget=Budget(max_metric_calls=rollouts))
    evaluator = Evaluator([{"n": n} for n in range(rows)], even, config)
    columns = tuple(range(rows))
    problem = Problem(
        parameters=program.parameters(),
        train=columns,
        val=(),
        start=Candidate(),
        metric=evaluator.metric.info,
        examples=evaluator.examples,
    )
    engine = Asked(evaluator, program)
    teaching = toolkit.Teaching(**{"columns": columns, "enough": 3, "min_score": 1.0, "wave": 4, **wanted})
    return await toolkit.teach(engine, problem, engine.register(problem.start), teaching), engine.waves


def numbers(found: toolkit.Taught, name: str = "main") -> list[Any]:
    return [demo["n"] for demo in found.demos.get(name, ())]


async def test_it_goes_on_in_waves_until_there_is_enough() -> None:
    """Two of the first four rows are right, so a second wave is asked for, and no third."""
    found, waves = await taught(Program())
    assert [[0, 1, 2, 3], [4, 5, 6, 7]] == waves
    assert ("enough", 8, (0, 2, 4, 6)) == (found.ended, found.asked, found.accepted)


async def test_a_wave_is_as_large_as_what_is_missing() -> None:
    """Ten demos need ten rows at the least, so they are asked for at once; then five are missing."""
    _, waves = await taught(Program(), 30, enough=10)
    assert [10, 5, 4] == [len(wave) for wave in waves]


async def test_demos_stand_in_the_order_of_the_rows_whichever_finishes_first(autojump_clock: MockClock) -> None:
    """The first row takes longest and is the first demo all the same."""
    found, _ = await taught(Program(slow=[0]))
    assert [0, 2, 4, 6] == numbers(found)


async def test_a_predictor_is_waited_for_once_it_was_called() -> None:
    """Row 1 calls the rare one, in vain, so the pass goes on to the end; where none calls it, it is not waited for."""
    found, waves = await taught(Program(rare=[1, 4]))
    assert ("rows", 3, [4]) == (found.ended, len(waves), numbers(found, "rare"))


async def test_failures_are_counted_and_named_and_end_it_beyond_the_limit() -> None:
    """The demos up to there are kept."""
    found, waves = await taught(Program(bad=[1, 2, 5]), enough=9, wave=3, max_errors=1)
    assert ("errors", 1, 3, "ValueError: row 1") == (found.ended, len(waves), found.errors, found.first_error)
    assert [0, 4, 6, 8] == numbers(found)


async def test_a_budget_runs_the_rows_that_fit() -> None:
    """Six rollouts: a wave of four and two of the next; the cap is named."""
    found, _ = await taught(Program(), rollouts=6, enough=4)
    assert ("budget: max_metric_calls", 6, [0, 2, 4]) == (found.ended, found.asked, numbers(found))


async def test_an_allowance_is_kept() -> None:
    """Five rows may run; with an allowance of nothing, nothing is asked."""
    found, waves = await taught(Program(), enough=9, allowance=5)
    assert ("budget: rollouts", [[0, 1, 2, 3, 4]]) == (found.ended, waves)
    none, asked = await taught(Program(), allowance=0)
    assert ("budget: rollouts", 0, []) == (none.ended, none.asked, asked)


async def test_nothing_wanted_is_enough() -> None:
    """No demos asked for: no rollout."""
    found, waves = await taught(Program(), enough=0)
    assert ("enough", []) == (found.ended, waves)


class Down(Program):
    """Its model is out of reach: what failed is stored nowhere, so that asking for it again runs it again."""

    def __init__(self) -> None:
        super().__init__()
        self.ran = 0

    async def run(self, inputs: Mapping[str, Any], candidate: Candidate) -> Any:
        self.ran += 1
        await trio.lowlevel.checkpoint()
        raise burnish.errors.ModelConnectionError("no route")


async def test_a_further_round_runs_the_further_sample_alone() -> None:
    """Twelve rows in three rounds are at most 36 rollouts, also where those of the rounds before left nothing."""
    program = Down()
    found, waves = await taught(program, max_rounds=3)
    assert ("rows", 36, 36, 9) == (found.ended, program.ran, found.errors, len(waves))
