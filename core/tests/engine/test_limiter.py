"""The limiter that all roles of a model share: how many at once, who goes first, and pauses."""

from __future__ import annotations

from typing import Any

import pytest
import structlog.testing
import trio
import trio.testing

import burnish as b
from burnish import errors
from burnish._runtime.limiter import Limiter, Limits
from burnish._runtime.scope import Account, accounted
from burnish.abc import LMRequest, LMResponse, ModelLimits

from ._kit import Ambient, always, ask, evaluated, rows

Clock = trio.testing.MockClock


class Endpoint:
    """A model that notes when each request arrives and how many it has at once."""

    def __init__(self, max_in_flight: int | None = None, retries: int = 3, **faults: list[Exception]) -> None:
        self.identity = {"provider": "test", "model": "endpoint"}
        self.limits = ModelLimits(key="endpoint", timeout=None, retries=retries, max_in_flight=max_in_flight)
        self.faults, self.arrived = faults, list[tuple[str, float]]()
        self.at_once = self.peak = 0

    async def complete(self, request: LMRequest) -> LMResponse:
        name = request.messages[0].content
        self.arrived.append((name, trio.current_time()))
        self.at_once += 1
        self.peak = max(self.peak, self.at_once)
        try:
            await trio.sleep(1)
        finally:
            self.at_once -= 1
        if self.faults.get(name):
            raise self.faults[name].pop(0)
        return LMResponse(text=name)


async def call(endpoint: Endpoint, *names: str, **roles: str) -> None:
    """Call once for each name, all at once."""
    with accounted(Account(limits=Limits())):
        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(run, endpoint, name, roles.get(name))
                await trio.testing.wait_all_tasks_blocked()


async def run(endpoint: Endpoint, name: str, role: str | None) -> None:
    await b.call_model(endpoint, ask(name), role=role)


async def test_calls_share_the_models_bound(autojump_clock: Clock) -> None:
    """So many at once and no more, in order of arrival."""
    endpoint = Endpoint(max_in_flight=2)
    await call(endpoint, *"abcde")
    assert [("a", 0), ("b", 0), ("c", 1), ("d", 1), ("e", 2)] == sorted(endpoint.arrived)
    assert 2 == endpoint.peak


async def test_proposals_go_first(autojump_clock: Clock) -> None:
    """Everything else waits for a proposal, so it is next whenever a slot is free."""
    endpoint = Endpoint(max_in_flight=1)
    await call(endpoint, *"abcp", p="proposer", a="task", b="judge")
    assert ["a", "p", "b", "c"] == [name for name, _ in endpoint.arrived]


async def test_waiting_for_a_retry_holds_no_slot(autojump_clock: Clock) -> None:
    """While one call waits for its next attempt another has the slot."""
    endpoint = Endpoint(max_in_flight=1, a=[errors.ModelServerError("502")])
    await call(endpoint, *"ab")
    assert ["a", "b", "a"] == [name for name, _ in endpoint.arrived]
    assert 1 == endpoint.arrived[1][1]


async def test_nobody_starts_while_the_provider_asked_for_a_pause(autojump_clock: Clock) -> None:
    """Retry-After holds for all, those that stood in the queue too; after it proposals go first."""
    endpoint = Endpoint(max_in_flight=1, a=[errors.ModelRateLimitError("429", retry_after=10)])
    await call(endpoint, *"abcdp", p="proposer")
    assert [("a", 0), ("p", 11)] == endpoint.arrived[:2]
    assert {"a", "b", "c", "d"} == {name for name, _ in endpoint.arrived[2:]}
    assert [12, 13, 14, 15] == [when for _, when in endpoint.arrived[2:]]


async def test_a_pause_may_be_prolonged(autojump_clock: Clock) -> None:
    """The later end counts, also for those that wait already; the shorter one changes nothing."""
    limiter, started = Limiter(4), []

    async def one() -> None:
        async with limiter.slot("task"):
            started.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        limiter.pause(5)
        nursery.start_soon(one)
        await trio.sleep(1)
        limiter.pause(9)
        limiter.pause(1)
        nursery.start_soon(one)
    assert ([10, 10], 0) == (started, limiter.in_flight)


async def test_a_notable_pause_is_told_once(autojump_clock: Clock) -> None:
    """Above five seconds; further refusals of the same burst say nothing new, a later pause does."""
    said: list[tuple[float, float, str]] = []
    limiter = Limiter(4, lambda seconds, why: said.append((trio.current_time(), seconds, why)))
    for delay, seconds, why in ((0, 5, "short"), (0, 20, "first"), (2, 20, "burst"), (1, 60, "more"), (90, 20, "next")):
        await trio.sleep(delay)
        limiter.pause(seconds, why)
    assert [(0, 20, "first"), (3, 60, "more"), (93, 20, "next")] == said


async def test_a_run_says_that_it_waits(autojump_clock: Clock) -> None:
    """One line a pause, however many calls wait, with seconds and the provider's words; equal ones are kept once."""

    async def act(q: Any, instruction: str) -> Any:
        return (await b.call_model(endpoint, ask(str(q)))).text

    refused = errors.ModelRateLimitError("429: slow down\nrequest 17", retry_after=20)
    endpoint = Endpoint()
    endpoint.faults = {"0": [refused, refused], "1": [refused], "2": [refused]}
    engine = b.EvalEngine(rows(6), always)
    with structlog.testing.capture_logs() as logs:
        outcome = await engine.evaluate(Ambient(act), engine.register(b.Candidate()))
    assert 1.0 == evaluated(outcome).mean()
    text = "the endpoint asks to wait 20 s (429: slow down); nothing is lost, the run goes on then"
    assert [(text, "paused")] * 2 == [(line["event"], line["kind"]) for line in logs]
    assert [text] == [w.message for w in engine._evaluator.state.warnings]


async def test_a_pause_holds_no_slot_and_can_be_cancelled(autojump_clock: Clock) -> None:
    """Who gives up during a pause leaves the limiter as it was; the others go on."""
    limiter = Limiter(1)
    limiter.pause(10)
    with trio.move_on_after(3):
        async with limiter.slot("task"):
            raise AssertionError
    assert (0, []) == (limiter.in_flight, limiter._queue)
    async with limiter.slot("task"):
        assert (10, 1) == (trio.current_time(), limiter.in_flight)


async def test_rate_limits_shrink_and_answers_grow(autojump_clock: Clock) -> None:
    """A 429 halves what runs at once; each full round of answers lets one more in, up to the model's own bound."""
    limiter = Limiter(8)

    async def together(parties: int) -> int:
        peak = 0

        async def one() -> None:
            nonlocal peak
            async with limiter.slot("task"):
                peak = max(peak, limiter.in_flight)
                await trio.sleep(1)

        async with trio.open_nursery() as nursery:
            for _ in range(parties):
                nursery.start_soon(one)
        return peak

    assert 8 == await together(12)
    async with limiter.slot("task"), limiter.slot("task"), limiter.slot("task"), limiter.slot("task"):
        limiter.shrink(trio.current_time())
    assert 2 == await together(12)
    for expected in (3, 4, 5):
        for _ in range(expected):
            limiter.grow()
        assert expected == await together(12)
    for _ in range(200):
        limiter.grow()
    assert 8 == await together(12)
    for _ in range(10):
        limiter.shrink(trio.current_time())
    assert 1 == await together(4)


async def test_a_burst_of_rate_limits_halves_once(autojump_clock: Clock) -> None:
    """Eight calls that began together and were all refused are one sign, not eight; the next burst is another."""
    names = "abcdefgh"
    endpoint = Endpoint(max_in_flight=8)
    endpoint.faults = {name: [errors.ModelRateLimitError("429"), errors.ModelRateLimitError("429")] for name in names}
    limits = Limits()
    with accounted(Account(limits=limits)):
        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(run, endpoint, name, None)
            await trio.sleep(1.1)
            assert 4 == int(limits.of(endpoint.limits)._allowed)
    assert 24 == len(endpoint.arrived)


async def test_an_unbounded_limiter_shrinks_from_what_was_in_flight() -> None:
    """Without a bound of the model's own, half of what was in flight is allowed after a 429."""
    limiter = Limiter(None)
    async with trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(hold, limiter)
        await trio.testing.wait_all_tasks_blocked()
        assert 6 == limiter.in_flight
        limiter.shrink(trio.current_time())
        nursery.cancel_scope.cancel()
    assert (3, 0) == (int(limiter._allowed), limiter.in_flight)


async def hold(limiter: Limiter) -> None:
    async with limiter.slot("task"):
        await trio.sleep_forever()


@pytest.mark.parametrize("granted", [True, False])
async def test_cancelled_in_the_queue(granted: bool) -> None:
    """Cancelled while it waits, or in the very moment of its turn: the slot goes to the next."""
    limiter, scope, got = Limiter(1), trio.CancelScope(), []

    async def waits() -> None:
        with scope:
            async with limiter.slot("task"):
                got.append("cancelled")

    async def next_one() -> None:
        async with limiter.slot("task"):
            got.append("next")

    async with trio.open_nursery() as nursery:
        async with limiter.slot("task"):
            nursery.start_soon(waits)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(next_one)
            await trio.testing.wait_all_tasks_blocked()
            if not granted:
                scope.cancel()
                await trio.testing.wait_all_tasks_blocked()
        if granted:
            scope.cancel()
    assert (["next"], 0, []) == (got[-1:], limiter.in_flight, limiter._queue)


async def test_cancelled_in_the_moment_of_its_turn() -> None:
    """Whichever comes first, turn or cancellation: no slot is lost."""
    for _ in range(20):
        limiter, scope, near = Limiter(1), trio.CancelScope(), trio.Event()

        async def waits(limiter: Limiter, scope: trio.CancelScope, near: trio.Event) -> None:
            near.set()
            with scope:
                async with limiter.slot("task"):
                    await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            async with limiter.slot("task"):
                nursery.start_soon(waits, limiter, scope, near)
                await near.wait()
            scope.cancel()
        assert (0, []) == (limiter.in_flight, limiter._queue)


async def test_models_with_one_key_share_a_limiter() -> None:
    """One limiter a key in a run; callables have one each."""
    limits, keys = Limits(), [ModelLimits(key=key) for key in "aab"]
    assert limits.of(keys[0]) is limits.of(keys[1])
    assert limits.of(keys[0]) is not limits.of(keys[2])
    one, other = (b.as_model(lambda request, i=i: str(i)) for i in range(2))
    assert one.limits.key != other.limits.key


def test_a_pause_ends_with_its_event_loop() -> None:
    """An engine used in one loop after the other does not wait in the second for a time of the first's clock."""
    limits, spans = Limits(), list[float]()

    async def main(start: float) -> None:
        await trio.sleep(start)
        began = trio.current_time()
        with accounted(Account(limits=limits)):
            await run(endpoint, "a", None)
        limits.of(endpoint.limits).pause(50)
        spans.append(trio.current_time() - began)

    endpoint = Endpoint()
    for start in (1000, 0):
        trio.run(main, start, clock=Clock(autojump_threshold=0))
    assert [1, 1] == spans


def test_what_is_no_model_is_refused() -> None:
    """The message says what a model is."""
    bad: list[Any] = ["gpt", 3, None]
    for thing in bad:
        with pytest.raises(TypeError, match="is no model: pass an object with `identity`, `limits` and `complete`"):
            b.as_model(thing)
