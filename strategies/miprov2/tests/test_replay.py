"""The same answers ask the same: at any concurrency, in any order of completion, from every ask on."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from burnish import Budget, Spend, abc
from burnish.events import Asked, read_events

from ._kinds import SMALL, model, propose, report_of, rows, solve, tune

SETS: dict[str, Any] = {"trainset": rows(10, 2), "valset": rows(50, 2)}
STRATEGY = attrs.evolve(SMALL, num_trials=5, minibatch_size=4, minibatch_full_eval_steps=2)


def asks(place: Path) -> list[tuple[int, str, str]]:
    """Give number, step and digest of what a run has asked, in order of steps."""
    events = enumerate(read_events(place / "run.db"), start=1)
    return [(number, event.step, event.digest) for number, event in events if isinstance(event, Asked)]


def told(result: Any) -> Any:
    """Give what a run found, without what it cost."""
    return attrs.evolve(report_of(result), spend=Spend()), result.candidate, result.stop_reason


async def slow(request: abc.LMRequest) -> str:
    """Answer in an order that has nothing to do with that of the calls."""
    await trio.sleep(int(request.fingerprint[:8], 16) % 5 / 2000)
    return solve(request)


@pytest.mark.parametrize("budget", [Budget(), Budget(max_metric_calls=30)], ids=["open", "capped"])
def test_what_ends_first_changes_nothing(budget: Budget) -> None:
    """R5, R6, R12: one by one or sixteen at once, replies in any order: the same trials, the same winner."""
    one = tune(STRATEGY, concurrency=1, budget=budget, **SETS)
    many = tune(STRATEGY, concurrency=16, budget=budget, task=slow, **SETS)
    assert told(one) == told(many)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [Budget(), Budget(max_metric_calls=30)], ids=["open", "capped"])
def test_a_run_that_is_resumed_at_any_ask_goes_on_as_it_would_have(budget: Budget, tmp_path: Path) -> None:
    """R1, R2, R5, R8, R12: cut at each ask and resumed, at concurrency 1 and 16: the same asks, the same report."""
    whole = tmp_path / "whole"
    expected = told(tune(STRATEGY, concurrency=1, directory=whole, budget=budget, **SETS))
    known = asks(whole)
    assert 8 < len(known)
    for number, (at, *_) in enumerate(known):
        place = tmp_path / str(number)
        shutil.copytree(whole, place)
        with sqlite3.connect(place / "run.db") as connection:
            for table in ("events", "traces"):
                connection.execute(f"DELETE FROM {table} WHERE n > ?", (at,))
        connection.close()
        proposer = model(propose, "proposer")
        again = tune(
            STRATEGY, concurrency=(16, 1)[number % 2], directory=place, resume=True, proposer=proposer, budget=budget,
            **SETS,
        )
        assert expected == told(again), at
        assert sorted(ask[1:] for ask in known) == sorted(ask[1:] for ask in asks(place)), at
