"""Sinks that fail, exit or hold on: a run neither breaks nor waits for them longer than it says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs

from burnish import abc
from burnish._model.events import Warned
from burnish._runtime.fanout import gather, services
from burnish._runtime.follow import Follower
from burnish._runtime.run_store import open_run_store

from ._search import Tries, program, split, tune


class Sink:
    """Keeps the numbers that it gets, after it has done what it is told to."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self.act, self.numbers, self.asked = act, list[int](), 0

    async def deliver(self, batch: abc.Delivery) -> None:
        self.asked += 1
        await self.act()
        self.numbers += [number for number, _ in batch.events]


def raising(error: BaseException) -> Callable[[], Any]:
    async def act() -> None:
        raise error

    return act


def shielded(seconds: float) -> Callable[[], Any]:
    async def act() -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(seconds)

    return act


@pytest.mark.parametrize("error", [SystemExit(9), asyncio.CancelledError(), GeneratorExit(), OSError("gone")])
def test_a_sink_that_exits_breaks_no_run(error: BaseException) -> None:
    """Whatever it raises is its own failure: logged once, and the run ends as it would have."""
    with capture_logs() as logs:
        result = tune(program(), Tries("0.5"), split(train=1, val=2), sinks=[Sink(raising(error))])
    assert ("finished", 0.5) == (result.stop_reason, result.best)
    failed = [line["error"] for line in logs if line["event"] == "a sink failed; its events will come again"]
    assert [type(error).__name__] == [why.partition(":")[0] for why in failed]


async def drained(*sinks: Sink, seconds: float) -> tuple[list[bool], float]:
    """Deliver three events while a block runs, then drain: who has everything, and how long the end took."""
    async with open_run_store(None) as store:
        followers = [Follower(store, sink, "run", f"sink {n}") for n, sink in enumerate(sinks)]
        async with services(*(follower.follow for follower in followers)):
            for text in "abc":
                store.append(Warned(kind="x", message=text))
            await store.flush()
            while not all(sink.asked for sink in sinks):  # noqa: ASYNC110 - nobody tells us
                await trio.sleep(0.001)
            began = trio.current_time()
        have = await gather([partial(follower.drain, seconds) for follower in followers])
        return have, trio.current_time() - began


async def test_the_end_of_a_run_waits_for_no_sink_longer_than_it_says() -> None:
    """Sinks that shield themselves or hang cost the time to drain once, all together; the others have everything.

    Who does not end on its cancellation is left behind, and said so.
    """
    late, later = Sink(shielded(0.2)), Sink(shielded(0.2))
    stuck, good = Sink(trio.sleep_forever), Sink(trio.lowlevel.checkpoint)
    with capture_logs() as logs:
        have, took = await drained(late, later, stuck, good, seconds=0.05)
    assert [False, False, False, True] == have
    assert took < 0.15
    told = [line["sink"] for line in logs if line["event"].startswith("a sink does not end on its cancellation")]
    assert ["sink 0", "sink 1"] == sorted(told)
    assert 3 == sum(line["event"].startswith("a sink did not get the last events") for line in logs)


async def test_what_is_being_delivered_at_the_end_is_delivered_once() -> None:
    """A sink that is slow but in time is not cut off, and does not get its batch again."""
    slow = Sink(partial(trio.sleep, 0.03))
    have, _ = await drained(slow, seconds=5)
    assert [True] == have
    assert ([1, 2, 3], 1) == (slow.numbers, slow.asked)
