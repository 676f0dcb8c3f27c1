"""Calls that a program makes by a client of its own, metered like any other."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
import structlog
import trio
from structlog.testing import capture_logs

import burnish as b
from burnish import BudgetExhausted, EngineConfig, EvalEngine, RolloutStatus, errors
from burnish.abc import ModelPrice

from ._kit import always, evaluated, idle, rows

PRICE = ModelPrice(input=0, output=1000)


class Client:
    """A client of another framework: counts what it is asked."""

    def __init__(self) -> None:
        self.calls = 0

    def chat(self, text: str) -> int:
        self.calls += 1
        return 10


async def in_trio(client: Client, text: str, **how: Any) -> None:
    async with b.track_call(model="gpt", **how) as call:
        await trio.lowlevel.checkpoint()
        call.usage(5, client.chat(text))


async def sync_on_the_loop(client: Client, text: str, **how: Any) -> None:
    with b.track_call(model="gpt", **how) as call:
        call.usage(5, client.chat(text))


async def in_a_thread(client: Client, text: str, **how: Any) -> None:
    def ask() -> None:
        with b.track_call(model="gpt", **how) as call:
            call.usage(5, client.chat(text))

    await trio.to_thread.run_sync(ask)


async def in_a_foreign_thread(client: Client, text: str, **how: Any) -> None:
    failed: list[BaseException] = []

    def ask() -> None:
        try:
            with b.track_call(model="gpt", **how) as call:
                call.usage(5, client.chat(text))
        except errors.BudgetExceededError as error:
            failed.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(ask,))
    thread.start()
    await trio.to_thread.run_sync(thread.join)
    for error in failed:
        raise error


async def in_asyncio(client: Client, text: str, **how: Any) -> None:
    async def ask() -> None:
        async with b.track_call(model="gpt", **how) as call:
            await asyncio.sleep(0)
            call.usage(5, client.chat(text))

    await trio.to_thread.run_sync(asyncio.run, ask())


WAYS = [in_trio, sync_on_the_loop, in_a_thread, in_a_foreign_thread, in_asyncio]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("budget", [b.Budget(max_requests=3), b.Budget(max_cost="0.03")])
async def test_calls_of_an_own_client_are_metered(way: Any, budget: b.Budget) -> None:
    """E30: one request each, reserved before and settled after: the fourth is not made, in whatever thread or loop."""
    client = Client()

    async def program(q: int) -> str:
        await way(client, str(q), price=PRICE, prompt=str(q), max_output_tokens=10)
        return "ok"

    engine = EvalEngine(rows(5), always, EngineConfig(budget=budget, concurrency=1))
    outcome = await engine.evaluate(program, engine.register(b.Candidate()))
    assert isinstance(outcome, BudgetExhausted)
    assert isinstance(outcome.partial, tuple)
    assert [0, 1, 2] == [r.example for r in outcome.partial[0].rollouts if r.status is RolloutStatus.SUCCEEDED]
    spend = engine.spend
    assert (3, 3, 45, Decimal("0.03")) == (client.calls, spend.requests, spend.tokens, spend.cost)
    assert {"task": 3} == {role: share.requests for role, share in spend.by_role.items()}
    idle(engine)


async def test_a_refusal_ends_the_rollout_though_the_program_swallows_it() -> None:
    """As with `call_model`: what a program makes of a refused call is no result."""

    async def program(q: int) -> str:
        try:
            with b.track_call() as call:
                call.usage(1, 1)
        except errors.BudgetExceededError:
            return "made up"
        return "ok"

    engine = EvalEngine(rows(3), always, EngineConfig(budget=b.Budget(max_requests=1), concurrency=1))
    outcome = await engine.evaluate(program, engine.register(b.Candidate()))
    assert isinstance(outcome, BudgetExhausted)
    assert ("max_requests", 1) == (outcome.cap, engine.spend.metric_calls)


async def test_a_call_that_fails_is_counted() -> None:
    """A block that raises has made its request, and cost what it was told before."""

    async def program(q: int) -> str:
        with b.track_call(role="judge") as call:
            call.usage(7, 1, cost="0.5", model="gpt-1")
            raise ValueError("unreadable")

    engine = EvalEngine(rows(1), always)
    evaluation = evaluated(await engine.evaluate(program, engine.register(b.Candidate())))
    assert RolloutStatus.AGENT_FAILED is evaluation.rollouts[0].status
    (share,) = [engine.spend.by_role["judge"]]
    assert (1, 8, Decimal("0.5"), 0) == (share.requests, share.usage.total, share.cost, share.unpriced)
    idle(engine)


@pytest.mark.parametrize(
    ("how", "message", "requests"),
    [
        ({}, "the call of `gpt` says no price", 1),
        ({"price": PRICE}, "the call of `gpt` says no bound of its replies", 0),
    ],
)
async def test_a_cap_in_money_needs_price_and_bound(how: dict[str, Any], message: str, requests: int) -> None:
    """A bound is asked for before the call; a cost that nobody says is an error after it."""

    async def program(q: int) -> str:
        await in_trio(Client(), "hi", **how)
        return "ok"

    engine = EvalEngine(rows(3), always, EngineConfig(budget=b.Budget(max_cost=1), concurrency=1))
    with pytest.raises(errors.RunStoppedError, match=message):
        await engine.evaluate(program, engine.register(b.Candidate()))
    assert requests == engine.spend.requests
    idle(engine)


async def test_waiting_in_asyncio_can_be_cancelled() -> None:
    """What the thread that waits gets after that is given back: later calls find the room."""
    timed_out = []

    async def ask() -> None:
        try:
            async with asyncio.timeout(0.05), b.track_call(price=PRICE, prompt="", max_output_tokens=10):
                raise AssertionError("there is room for one")
        except TimeoutError:
            timed_out.append(True)

    async def program(q: int) -> str:
        async def other() -> None:
            async with b.track_call(price=PRICE, prompt="", max_output_tokens=10) as call:
                await trio.sleep(0.1)
                call.usage(0, 1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            await trio.sleep(0.01)
            await trio.to_thread.run_sync(asyncio.run, ask())
        await trio.sleep(0.02)
        await in_trio(Client(), "", price=PRICE, prompt="", max_output_tokens=10)
        return "ok"

    engine = EvalEngine(rows(1), always, EngineConfig(budget=b.Budget(max_cost="0.015")))
    evaluation = evaluated(await engine.evaluate(program, engine.register(b.Candidate())))
    assert ([True], 1.0, 2) == (timed_out, evaluation.mean(), engine.spend.requests)
    idle(engine)


def test_outside_a_rollout_it_counts_nothing() -> None:
    """A program under `track_call` runs by itself too, without an event loop."""
    with b.track_call(model="gpt", price=PRICE) as call:
        call.usage(1, 1)


async def test_a_component_gets_a_span() -> None:
    """With a name the call stands in the trace, with its text, tokens and the model that answered."""
    with b.capture() as captured:
        async with b.track_call(model="gpt", component="draft") as call:
            call.usage(3, 2, text="Paris", model="gpt-2026")
    (span,) = captured.trace.for_component("draft")
    assert ("Paris", 5, None) == (span.raw_output, span.usage.total, span.error)


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    """Gather what is logged, and leave structlog as it was."""
    before = structlog.get_config() if structlog.is_configured() else None
    with capture_logs() as gathered:
        yield gathered
    structlog.reset_defaults()
    if before is not None:
        structlog.configure(**before)


@pytest.mark.parametrize("tracked", [True, False])
async def test_a_tracked_call_counts_as_seen(tracked: bool, lines: list[Any]) -> None:
    """A function that tracks its client's calls is metered: no warning that a cap does not hold."""
    client = Client()

    def program(q: int) -> str:
        if tracked:
            with b.track_call() as call:
                call.usage(1, client.chat("hi"))
        return "ok"

    engine = EvalEngine(rows(2), always, EngineConfig(budget=b.Budget(max_requests=9)))
    await engine.evaluate(program, engine.register(b.Candidate()))
    assert (0 if tracked else 1) == len([line for line in lines if "caps" in line])
