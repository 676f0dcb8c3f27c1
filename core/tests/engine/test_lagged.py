"""Chains in flight: decisions depend on what was told with a fixed lag, never on what ends first."""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

import burnish as b
from burnish import Plan, Report, abc
from burnish_programs import Predict

from ._kit import cut

ROWS = [{"q": f"say x{n}", "a": f"x{n}"} for n in range(8)]


class Walks:
    """Make each candidate of what was told when its step began."""

    replay_version = 1

    def __init__(self, lag: int, steps: int = 12) -> None:
        self.lag, self.steps = lag, steps
        self.log: list[Any] = []

    def plan(self, problem: abc.Problem) -> Plan:
        return Plan(rollouts=99, candidates=self.steps, minimum=1)

    async def compile(self, engine: b.Engine, problem: abc.Problem) -> Report:
        told: list[str] = []

        async def step(number: int, text: str) -> tuple[str, int]:
            index = engine.register(problem.start.set_instruction("predict", text))
            outcome = await engine.evaluate_many([(index, problem.train[: 1 + number % 3])])
            await engine.evaluate_many([(index, problem.train[3:5])])
            (evaluation,) = outcome.evaluations if isinstance(outcome, b.Complete) else ()
            return text, len(evaluation.rollouts)

        async with engine.lagged("walk", lag=self.lag) as chains:
            for number in range(self.steps):
                told += [text for text, _ in await chains.turn()]
                text = f"{number}<{told[-1].split('<')[0] if told else '-'}"
                self.log.append((text, chains.remaining))
                if not chains.start(partial(step, number, text), bound=5):
                    break
            told += [text for text, _ in await chains.rest()]
        self.log.append((tuple(told), chains.remaining))
        return Report(strategy="walks", best=problem.start)


def walk(lag: int, concurrency: int, directory: Path | None = None, **options: Any) -> tuple[list[Any], int]:
    """Run it under a model whose calls take different times."""

    async def answer(request: abc.LMRequest) -> str:
        await trio.sleep(hash_of(request) % 5 / 2000 * (1 if concurrency > 1 else 0))
        return f"a: {request.messages[-1].content.split()[-1]}"

    calls = 0

    async def counting(request: abc.LMRequest) -> str:
        nonlocal calls
        calls += 1
        return await answer(request)

    counting.fingerprint = "answer"  # type: ignore[attr-defined]
    strategy = Walks(lag)
    b.optimize(
        Predict("q -> a"), strategy=strategy, models=counting, metric="exact_match", trainset=ROWS,
        concurrency=concurrency, run_dir=directory, **{"budget": b.Budget(), **options},
    )
    return strategy.log, calls


def hash_of(request: abc.LMRequest) -> int:
    return int(request.fingerprint[:8], 16)


def test_a_step_decides_on_what_the_steps_a_lag_before_it_told() -> None:
    """With two in flight the third step knows the first; with one, each knows the one before."""
    log, _ = walk(2, 16)
    assert ["0<-", "1<-", "2<0", "3<1", "4<2"] == [text for text, _ in log[:5]]
    log, _ = walk(1, 16)
    assert ["0<-", "1<0", "2<1", "3<2", "4<3"] == [text for text, _ in log[:5]]


@pytest.mark.parametrize("budget", [b.Budget(), b.Budget(max_metric_calls=31)], ids=["open", "capped"])
def test_what_ends_first_changes_nothing(budget: b.Budget) -> None:
    """R5: the same steps at concurrency 1 and 16; what steps in flight may take counts as spent."""
    (first, calls), (second, others) = walk(3, 1, budget=budget), walk(3, 16, budget=budget)
    assert (first, calls) == (second, others)
    assert budget.max_metric_calls is None or calls <= budget.max_metric_calls


def test_chains_are_told_again(tmp_path: Path) -> None:
    """A run with chains in flight begins again: the same steps, and no call is paid twice."""
    log, calls = walk(3, 16, tmp_path / "run")
    again, more = walk(3, 4, tmp_path / "run", resume=True)
    assert (log, 0) == (again, more)
    assert calls == 12 * 2 + sum(1 + n % 3 for n in range(12))


def test_the_failure_of_a_chain_ends_all() -> None:
    """An error inside a chain reaches the strategy's caller as it is."""

    class Breaks(Walks):
        async def compile(self, engine: b.Engine, problem: abc.Problem) -> Report:
            async def bad() -> None:
                raise b.errors.UsageError("no such thing")

            async with engine.lagged("bad", lag=2) as chains:
                chains.start(bad)
                await chains.rest()
            raise AssertionError

    with pytest.raises(b.errors.UsageError, match="no such thing"):
        b.optimize(
            Predict("q -> a"), strategy=Breaks(1), models=lambda request: "a: 1", metric="exact_match", trainset=ROWS,
            budget=b.Budget(),
        )


@pytest.mark.slow
def test_chains_that_were_cut_anywhere_go_on(tmp_path: Path) -> None:
    """Killed with several chains in flight, a run goes on as it would have: told chains are no divergence (R1, R5)."""
    log, _ = walk(3, 16, tmp_path / "run")
    with sqlite3.connect(tmp_path / "run" / "run.db") as connection:
        (last,) = connection.execute("SELECT MAX(n) FROM events").fetchone()
    connection.close()
    for after in range(2, last, max(1, last // 14)):
        place = cut(tmp_path / "run", tmp_path / f"cut {after}", after)
        again, _ = walk(3, 16, place, resume=True)
        assert log == again, after
