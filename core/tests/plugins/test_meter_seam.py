"""The ledger and a shared meter: each block of rollouts is leased once, and what did not run goes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

import burnish
from burnish import Budget, EngineConfig, EvalEngine, abc, errors
from burnish._runtime.leases import Leases
from burnish._runtime.ledger import Ledger


class Meter:
    """Grants up to a quota; writes down what it is told. `deaf` makes every release fail, `slow` every lease hang."""

    def __init__(self, quota: int = 100) -> None:
        self.left, self.deaf, self.slow = quota, False, False
        self.leases: dict[str, int] = {}
        self.released: list[tuple[str, int]] = []

    async def lease(self, request: abc.Lease) -> abc.Grant | abc.Exhausted:
        if request.amount.metric_calls > self.left:
            return abc.Exhausted(cap="metric_calls")
        self.left -= request.amount.metric_calls
        self.leases[request.key] = request.amount.metric_calls
        if self.slow:
            await trio.sleep_forever()
        return abc.Grant(key=request.key)

    async def release(self, key: str, unused: abc.Amount) -> None:
        await trio.lowlevel.checkpoint()
        if self.deaf:
            raise ConnectionError("no such server")
        self.left += unused.metric_calls
        self.released.append((key, unused.metric_calls))


async def test_what_did_not_run_goes_back() -> None:
    """Of three leased rollouts two ran: the lease is ended with one unused, once, and not before all three are over."""
    meter = Meter()
    ledger = Ledger(Budget(), meter=meter, run="run")
    assert await ledger.reserve_rollouts(3) is None
    ledger.settle_rollout(0)
    ledger.settle_rollout(0)
    await ledger.hand_back()
    assert [] == meter.released
    ledger.release_rollouts(1)
    await ledger.hand_back()
    await ledger.hand_back()
    assert ([("run:1", 1)], 98) == (meter.released, meter.left)


async def test_sums_are_exact_over_leases_that_overlap() -> None:
    """Two blocks under way at once: whichever rollout lands first, both leases end and the sums agree."""
    meter = Meter()
    ledger = Ledger(Budget(), meter=meter, run="run")
    await ledger.reserve_rollouts(2)
    await ledger.reserve_rollouts(3)
    ledger.release_rollouts(2)
    for _ in range(3):
        ledger.settle_rollout(0)
    await ledger.hand_back()
    assert {"run:1", "run:2"} == {key for key, _ in meter.released}
    assert (97, 3) == (meter.left, ledger.spend.metric_calls)


async def test_the_meter_is_asked_after_the_run_s_own_budget() -> None:
    """What the budget refuses is not leased; what the meter refuses is reserved nowhere and names the meter's cap."""
    meter = Meter(quota=2)
    ledger = Ledger(Budget(max_metric_calls=3), meter=meter)
    assert "max_metric_calls" == await ledger.reserve_rollouts(4)
    assert {} == meter.leases
    assert "meter: metric_calls" == await ledger.reserve_rollouts(3)
    assert 3 == ledger.room()
    assert await ledger.reserve_rollouts(0) is None
    assert await ledger.reserve_rollouts(2) is None
    assert [2] == list(meter.leases.values())


async def test_ledgers_without_a_name_share_no_lease() -> None:
    """The keys of two ledgers differ, so that one meter counts both (idempotence is by key)."""
    meter = Meter()
    for _ in range(2):
        await Ledger(Budget(), meter=meter).reserve_rollouts(1)
    assert 2 == len(meter.leases)


async def test_a_meter_that_fails_is_told_again() -> None:
    """Its failure does not reach the run; the lease is ended with the next one, in order."""
    meter = Meter()
    ledger = Ledger(Budget(), meter=meter, run="run")
    for deaf in (True, False):
        meter.deaf = deaf
        await ledger.reserve_rollouts(1)
        ledger.settle_rollout(0)
        await ledger.hand_back()
    assert [("run:1", 0), ("run:2", 0)] == meter.released


async def test_a_lease_whose_answer_was_lost_is_ended_unused() -> None:
    """Cancelled while the meter answers: nothing is reserved here, and all of it goes back there."""
    meter = Meter()
    ledger = Ledger(Budget(max_metric_calls=5), meter=meter, run="run")
    meter.slow = True
    with trio.move_on_after(0.01):
        await ledger.reserve_rollouts(5)
    assert 5 == ledger.room()
    await ledger.hand_back()
    assert ([("run:1", 5)], 100) == (meter.released, meter.left)


async def test_a_cancelled_run_still_gives_back() -> None:
    """The end of a cancelled evaluation is shielded, so that a team's quota is not lost with it."""
    meter = Meter()
    ledger = Ledger(Budget(), meter=meter, run="run")
    await ledger.reserve_rollouts(2)
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.sleep_forever()
        finally:
            ledger.release_rollouts(2)
            await ledger.hand_back()
    assert [("run:1", 2)] == meter.released


class Gone(Meter):
    """Answers no lease."""

    async def lease(self, request: abc.Lease) -> abc.Grant | abc.Exhausted:
        await trio.lowlevel.checkpoint()
        raise OSError("no route")


@burnish.inline
def good(example: object, prediction: object) -> float:
    """Score 1.0."""
    return 1.0


async def test_a_meter_that_fails_stops_the_run_by_name() -> None:
    """Nothing has run and nothing is reserved; the error says whose fault it was."""
    ledger = Ledger(Budget(max_metric_calls=3), meter=Gone())
    engine = EvalEngine([{"q": 1}], good, ledger=ledger)
    with pytest.raises(errors.RunStoppedError, match=r"the meter `Gone` failed on lease .*: OSError: no route"):
        await engine.evaluate(lambda q: q, engine.register(burnish.Candidate()))
    assert (3, 0) == (ledger.room(), engine.spend.metric_calls)


@pytest.mark.parametrize("answers", [True, False])
async def test_leases_are_renewed_at_half_their_time(answers: bool) -> None:
    """Rollouts of a quarter of the time under one lease: the same key is asked for again after two of them, and four.

    A meter that does not renew it changes nothing.
    """
    hour, now, asked = abc.Lease(amount=abc.Amount(), key="").ttl, [0.0], list[tuple[float, abc.Lease]]()

    class Renewing(Meter):
        async def lease(self, request: abc.Lease) -> abc.Grant | abc.Exhausted:
            asked.append((now[0], request))
            if len(asked) > 1 and not answers:
                raise OSError("no route")
            return abc.Grant(key=request.key)

    async def program(q: int) -> int:
        await trio.lowlevel.checkpoint()
        now[0] += hour / 4
        return q

    ledger = Ledger(Budget(), meter=Renewing(), run="run", clock=lambda: now[0])
    engine = EvalEngine([{"q": q} for q in range(5)], good, EngineConfig(concurrency=1), ledger=ledger)
    outcome = await engine.evaluate(program, engine.register(burnish.Candidate()))
    assert isinstance(outcome, burnish.Complete)
    assert [0.0, hour / 2, hour] == [when for when, _ in asked]
    assert {("run:1", 5)} == {(request.key, request.amount.metric_calls) for _, request in asked}


async def test_a_lease_that_ends_while_it_is_renewed_is_given_back() -> None:
    """The meter may take the late question for a new lease: that one is ended too, unused."""
    meter, now = Meter(), [0.0]
    ledger = Ledger(Budget(), meter=meter, run="run", clock=lambda: now[0])
    await ledger.reserve_rollouts(2)
    now[0] = abc.Lease(amount=abc.Amount(), key="").ttl
    meter.slow = True
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ledger.renew)
            await trio.testing.wait_all_tasks_blocked()
            ledger.release_rollouts(1)
            ledger.settle_rollout(0)
            await ledger.hand_back()
            scope.cancel()
    await ledger.hand_back()
    assert ([("run:1", 1), ("run:1", 2)], 99) == (meter.released, meter.left)


def leave() -> object:
    """Leave the process, as a plugin must not."""
    raise SystemExit(3)


NO_GRANTS: dict[str, tuple[Callable[[abc.Lease], object], str]] = {
    "nothing": (lambda lease: None, "it answered None, which is neither a Grant of this lease nor Exhausted"),
    "a text": (lambda lease: "granted", "it answered 'granted'"),
    "the class": (lambda lease: abc.Grant, "which is neither a Grant"),
    "another lease": (lambda lease: abc.Grant(key="run:7"), r"it answered Grant\(key='run:7'\)"),
    "less": (lambda lease: abc.Amount(metric_calls=1), r"it answered Amount\(metric_calls=1"),
    "no cap": (lambda lease: abc.Exhausted(cap=None), r"it answered Exhausted\(cap=None"),  # type: ignore[arg-type]
    "an exit": (lambda lease: leave(), "SystemExit: 3"),
}


@pytest.mark.parametrize("case", NO_GRANTS)
async def test_what_a_meter_answers_is_no_grant_unless_it_is_one(case: str) -> None:
    """The run stops and names the meter and its answer; what it may have granted is given back later."""
    answer, why = NO_GRANTS[case]

    class Odd(Meter):
        async def lease(self, request: abc.Lease) -> Any:
            await super().lease(request)
            return answer(request)

    meter = Odd()
    ledger = Ledger(Budget(max_metric_calls=3), meter=meter, run="run")
    with pytest.raises(errors.RunStoppedError, match=rf"the meter `.*Odd` failed on lease `run:1`: .*{why}"):
        await ledger.reserve_rollouts(3)
    assert 3 == ledger.room()
    await ledger.hand_back()
    assert ([("run:1", 3)], 100) == (meter.released, meter.left)


async def test_a_meter_that_exits_when_it_is_told_is_told_again() -> None:
    """An exit in `release`, or when a lease is renewed, is the meter's failure and not the run's end."""

    class Leaving(Meter):
        async def lease(self, request: abc.Lease) -> abc.Grant | abc.Exhausted:
            return await super().lease(request) if request.key not in self.leases else leave()  # type: ignore[return-value]

        async def release(self, key: str, unused: abc.Amount) -> None:
            if not self.deaf:
                leave()
            self.deaf = False
            await super().release(key, unused)

    meter, now = Leaving(), [0.0]
    ledger = Ledger(Budget(), meter=meter, run="run", clock=lambda: now[0])
    await ledger.reserve_rollouts(2)
    now[0] = abc.Lease(amount=abc.Amount(), key="").ttl
    await ledger.renew()
    ledger.release_rollouts(2)
    await ledger.hand_back()
    assert [] == meter.released
    meter.deaf = True
    await ledger.hand_back()
    assert [("run:1", 2)] == meter.released


class FailsLate(Meter):
    """Grants, but hangs when it is asked again or told, and fails on its way out of that."""

    async def hang(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("fails while it is cancelled")

    async def lease(self, request: abc.Lease) -> abc.Grant | abc.Exhausted:
        if request.key in self.leases:
            await self.hang()
        return await super().lease(request)


async def test_cancelling_beats_what_a_meter_fails_with_on_its_way_out() -> None:
    """A meter that raises beside the cancellation of a renewal does not turn a `move_on_after` into a crash."""
    clock = [0.0]
    leases = Leases(FailsLate(), "run", lambda: clock[0])
    await leases.lease(1)
    clock[0] = 1e6
    with trio.move_on_after(0.02) as scope:
        await leases.renew()
    assert scope.cancelled_caught
