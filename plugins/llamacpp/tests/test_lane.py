"""The lane to the CPU: one at a time, prompt cancellation, closing."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from burnish.errors import UsageError
from burnish_llamacpp._lane import Lane

MANY = 1000
"""Tokens for a test that does not mean to hold anybody back."""


@attrs.define(eq=False)
class StepServer:
    """Blocks in its thread like llama.cpp, and gives a token when the test lets one out."""

    asked: list[str] = attrs.field(factory=list)
    stopped: list[str] = attrs.field(factory=list)
    tokens: threading.Semaphore = attrs.field(factory=lambda: threading.Semaphore(0))
    """One release lets one token out."""
    at_once: int = 0
    most_at_once: int = 0

    def handle_completions(self, request: dict[str, Any], chunk: Callable[[Any], bool], /) -> None:
        """Give two tokens and an end; stop where the caller says so."""
        self.asked.append(request["prompt"])
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            for text in ("a", "b"):
                self.tokens.acquire()
                if chunk({"choices": [{"text": text, "finish_reason": None}]}):
                    self.stopped.append(request["prompt"])
                    return
            if request["prompt"] == "fails":
                raise RuntimeError("llama.cpp fell over")
            chunk({"choices": [{"text": "", "finish_reason": "stop"}], "usage": {"prompt_tokens": 1}})
        finally:
            self.at_once -= 1


@asynccontextmanager
async def lane_around(server: StepServer, tokens: int = 0) -> AsyncIterator[Lane]:
    """Open a lane; leaving lets all tokens out, so that no thread stays behind."""
    lane = Lane(server)
    if tokens:
        server.tokens.release(tokens)
    try:
        yield lane
    finally:
        server.tokens.release(MANY)
        await lane.aclose()


async def ask(lane: Lane, prompt: str, done: list[str] | None = None) -> None:
    """Run one call and note that it came back."""
    chunks = await lane.run(prompt, {"prompt": prompt})
    assert 3 == len(chunks)
    if done is not None:
        done.append(prompt)


async def wait_until_asked(server: StepServer, count: int) -> None:
    """Wait until the thread on the CPU has begun its call."""
    with trio.fail_after(5):
        while len(server.asked) < count:  # noqa: ASYNC110 (a thread, which no event of trio's tells about)
            await trio.sleep(0.001)


async def test_one_at_a_time_and_the_closest_first() -> None:
    """Of many calls one is on the CPU; the next is the one that shares most with it."""
    server = StepServer()
    async with lane_around(server) as lane, trio.open_nursery() as nursery:
        nursery.start_soon(ask, lane, "A: 1")
        await wait_until_asked(server, 1)
        for prompt in ("B: 1", "A: 2", "B: 2", "A: 3"):
            nursery.start_soon(ask, lane, prompt)
            await wait_all_tasks_blocked()
        assert 4 == lane.waiting
        server.tokens.release(MANY)
    assert (["A: 1", "A: 2", "A: 3", "B: 1", "B: 2"], 1) == (server.asked, server.most_at_once)


async def test_cancelled_while_waiting_is_never_asked() -> None:
    """A call that is cancelled in the queue leaves it at once; the others go on."""
    server, done = StepServer(), list[str]()
    async with lane_around(server) as lane, trio.open_nursery() as nursery:
        nursery.start_soon(ask, lane, "first", done)
        await wait_until_asked(server, 1)
        with trio.move_on_after(0.01) as scope:
            await ask(lane, "second", done)
        assert (True, 0) == (scope.cancelled_caught, lane.waiting)
        server.tokens.release(MANY)
        await ask(lane, "third", done)
    assert (["first", "third"], {"first", "third"}) == (server.asked, set(done))


async def test_cancelled_on_the_cpu_returns_at_once() -> None:
    """The caller is let go while its thread still computes; that stops at the next token, then the next call starts."""
    server = StepServer()
    async with lane_around(server) as lane, trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            nursery.start_soon(wait_until_asked_then_cancel, server, scope)
            await ask(lane, "dropped")
        nursery.start_soon(ask, lane, "next")
        await wait_all_tasks_blocked()
        assert (["dropped"], 1) == (server.asked, lane.waiting)
        server.tokens.release(MANY)
    assert (["dropped", "next"], ["dropped"], 1) == (server.asked, server.stopped, server.most_at_once)


async def wait_until_asked_then_cancel(server: StepServer, scope: trio.CancelScope) -> None:
    """Cancel a call when it is on the CPU."""
    await wait_until_asked(server, 1)
    scope.cancel()


async def test_cancelled_before_it_starts_lets_the_next_go() -> None:
    """A call that is cancelled when its turn has come, but its thread has not started, does not hold the lane."""
    server, done = StepServer(), list[str]()
    async with lane_around(server, MANY) as lane:
        with trio.CancelScope() as scope:
            scope.cancel()
            await ask(lane, "dropped", done)
        await ask(lane, "next", done)
    assert (["next"], ["next"]) == (server.asked, done)


async def test_a_failing_call_frees_the_cpu() -> None:
    """What the server raises reaches the caller, and the lane goes on."""
    server, done = StepServer(), list[str]()
    async with lane_around(server, MANY) as lane:
        with pytest.raises(RuntimeError, match="fell over"):
            await ask(lane, "fails")
        await ask(lane, "next", done)
    assert ["next"] == done


async def test_closing_waits_for_a_dropped_call() -> None:
    """Closing stops what is on the CPU and returns when its thread has ended."""
    server = StepServer()
    lane = Lane(server)
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            nursery.start_soon(wait_until_asked_then_cancel, server, scope)
            await ask(lane, "dropped")
        nursery.start_soon(lane.aclose)
        await wait_all_tasks_blocked()
        assert 1 == server.at_once
        server.tokens.release()
    assert (["dropped"], 0) == (server.stopped, server.at_once)


async def test_closed_lane_refuses() -> None:
    """A call after closing is the caller's mistake, and says so."""
    lane = Lane(StepServer())
    await lane.aclose()
    with pytest.raises(UsageError, match="closed"):
        await lane.run("late", {"prompt": "late"})
    assert 0 == lane.waiting
