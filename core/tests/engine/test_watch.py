"""Async code that blocks the event loop makes all rollouts wait: it is named, with its line, once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import trio

import burnish as b
from burnish import EngineConfig, EvalEngine
from burnish._runtime import watch

from ._kit import Ambient, always, rows

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name it sooner, so that the tests need not block for long."""
    monkeypatch.setattr(watch, "HELD", 0.1)


def waits() -> None:
    """Stand for an HTTP client without async."""
    time.sleep(0.08)


async def blocks(q: Any, instruction: str) -> Any:
    await trio.lowlevel.checkpoint()
    waits()
    return q


async def sleeps(q: Any, instruction: str) -> Any:
    await trio.sleep(0.08)
    return q


async def threads(q: Any, instruction: str) -> Any:
    await trio.to_thread.run_sync(waits)
    return q


async def judges(example: Any, prediction: Any) -> float:
    waits()
    return 1.0


def judges_in_a_thread(example: Any, prediction: Any) -> float:
    waits()
    return 1.0


@b.inline
def judges_inline(example: Any, prediction: Any) -> float:
    waits()
    return 1.0


async def told(act: Callable[..., Any], metric: Any) -> list[str]:
    """Evaluate twice; give what was said of a blocked loop."""
    engine = EvalEngine(rows(5), metric, EngineConfig(concurrency=5))
    for index in (engine.register(b.Candidate()), engine.register(b.Candidate().with_instruction("answer", "x"))):
        await engine.evaluate(Ambient(act), index)
    return [w.message for w in engine._evaluator.state.warnings if w.kind == "blocked"]


@pytest.mark.parametrize(("act", "metric"), [(blocks, always), (sleeps, judges)], ids=["program", "metric"])
async def test_what_blocks_the_loop_is_named_once(act: Callable[..., Any], metric: Any) -> None:
    """The warning says the line of the user's own code, for how long, and the way out; one line a run is enough."""
    (message,) = await told(act, metric)
    line = waits.__code__.co_firstlineno + 2
    assert f"{__file__}:{line} (in `waits`)" in message
    assert message.startswith("async code has held the event loop for 0.")
    assert "make the function sync (`def`)" in message
    assert "trio.to_thread.run_sync" in message


@pytest.mark.parametrize(
    ("act", "metric"),
    [(sleeps, always), (threads, always), (sleeps, judges_in_a_thread), (sleeps, judges_inline)],
    ids=["async", "thread", "sync metric", "inline metric"],
)
async def test_what_does_not_block_is_not_named(act: Callable[..., Any], metric: Any) -> None:
    """Neither what waits as it should, nor what is inline: each call of that is timed and named by itself."""
    assert [] == await told(act, metric)
