"""Failures in a row are counted in the order of starts, not of ends."""

from __future__ import annotations

from typing import Any

import pytest
import trio

import burnish as b
from burnish import EngineConfig, EvalEngine, errors

from ._kit import Ambient, always, evaluated, idle, rows


@pytest.mark.parametrize("concurrency", [1, 16, 40])
async def test_quick_failures_among_slow_successes_stop_nothing(concurrency: int, autojump_clock: Any) -> None:
    """Every second row fails at once, the others take their time: no two failures are in a row."""

    async def act(q: Any, instruction: str) -> Any:
        if q % 2 == 0:
            raise errors.ModelConnectionError("no route")
        await trio.sleep(1)
        return q

    engine = EvalEngine(rows(40), always, EngineConfig(concurrency=concurrency, max_failures_in_row=2))
    evaluation = evaluated(await engine.evaluate(Ambient(act), engine.register(b.Candidate())))
    assert [None, 1.0] * 20 == evaluation.scores()


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_failures_in_a_row_stop_it_though_they_end_out_of_order(concurrency: int, autojump_clock: Any) -> None:
    """Rows 3 to 5 fail, each sooner than the one before: the third in a row stops the run."""

    async def act(q: Any, instruction: str) -> Any:
        await trio.sleep(10 - q)
        if q >= 3:
            raise errors.ModelConnectionError("no route")
        return q

    engine = EvalEngine(rows(40), always, EngineConfig(concurrency=concurrency, max_failures_in_row=3))
    with pytest.raises(errors.RunStoppedError, match="3 rollouts in a row failed: 3 x ModelConnectionError"):
        await engine.evaluate(Ambient(act), engine.register(b.Candidate()))
    assert 6 <= engine.spend.metric_calls <= 6 + concurrency
    idle(engine)


async def test_a_cancelled_rollout_counts_neither_way(autojump_clock: Any) -> None:
    """What comes after it is judged all the same."""
    hangs = [True]

    async def act(q: Any, instruction: str) -> Any:
        if hangs[0]:
            await trio.sleep_forever()
        raise errors.ModelConnectionError("no route")

    engine = EvalEngine(rows(9), always, EngineConfig(concurrency=2, max_failures_in_row=2))
    index = engine.register(b.Candidate())
    with trio.move_on_after(1):
        await engine.evaluate(Ambient(act), index)
    hangs[0] = False
    with pytest.raises(errors.RunStoppedError, match="2 rollouts in a row"):
        await engine.evaluate(Ambient(act), index)
