"""`meter.standard` beyond the conformance kit: what its own options and words promise."""

from __future__ import annotations

import pytest
import trio

from burnish import abc
from burnish._builtin.meter import MeterOptions, StandardMeter
from burnish.errors import ConfigError, UsageError


class Clock:
    """Time as the test says."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_unit_without_cap_is_unlimited() -> None:
    """Only what has a cap runs out; of the others the refusal says that what was asked for is there."""
    meter = StandardMeter(MeterOptions(metric_calls=1))
    big = abc.Amount(metric_calls=1, tokens=10**12)
    assert abc.Grant(key="a") == await meter.lease(abc.Lease(key="a", amount=big))
    refused = abc.Exhausted(cap="metric_calls", remaining=abc.Amount(metric_calls=0, tokens=10**12))
    assert refused == await meter.lease(abc.Lease(key="b", amount=big))
    assert "<StandardMeter metric_calls 1/1, 1 leases>" == repr(meter)


async def test_asking_again_renews_the_time() -> None:
    """A holder that asks again under its key keeps its lease: the time starts anew."""
    clock = Clock()
    meter = StandardMeter(MeterOptions(tokens=10), clock=clock)
    request = abc.Lease(key="a", amount=abc.Amount(tokens=10), ttl=10.0)
    other = abc.Lease(key="b", amount=abc.Amount(tokens=1))
    for _ in range(3):
        assert isinstance(await meter.lease(request), abc.Grant)
        clock.now += 6.0
    assert isinstance(await meter.lease(other), abc.Exhausted)
    clock.now += 4.0
    assert isinstance(await meter.lease(other), abc.Grant)


async def test_one_key_for_two_amounts_is_refused() -> None:
    """A key that is held for another amount is the caller's mistake; the lease stays as it was."""
    meter = StandardMeter(MeterOptions(tokens=10))
    await meter.lease(abc.Lease(key="a", amount=abc.Amount(tokens=1)))
    with pytest.raises(UsageError, match="`a` is held"):
        await meter.lease(abc.Lease(key="a", amount=abc.Amount(tokens=2)))
    await meter.release("a", abc.Amount())
    assert isinstance(await meter.lease(abc.Lease(key="a", amount=abc.Amount(tokens=2))), abc.Grant)


@pytest.mark.parametrize(
    "request_", [abc.Lease(key="a", amount=abc.Amount(tokens=-1)), abc.Lease(key="a", amount=abc.Amount(), ttl=0.0)]
)
async def test_impossible_lease_is_refused(request_: abc.Lease) -> None:
    """Nobody leases less than nothing, or for no time."""
    with pytest.raises(UsageError, match="lease `a`"):
        await StandardMeter(MeterOptions()).lease(request_)


@pytest.mark.parametrize("cap", [-1, True, 1.5, "10"])
def test_impossible_cap_is_refused(cap: object) -> None:
    """A cap is a whole number from 0 on, or none."""
    with pytest.raises(ConfigError, match="tokens"):
        MeterOptions(tokens=cap)  # type: ignore[arg-type]


async def test_cancelled_release_still_holds_the_lease() -> None:
    """A release that was cancelled has not happened, and can be made again."""
    meter = StandardMeter(MeterOptions(tokens=1))
    await meter.lease(abc.Lease(key="a", amount=abc.Amount(tokens=1)))
    with trio.CancelScope() as scope:
        scope.cancel()
        await meter.release("a", abc.Amount(tokens=1))
    assert isinstance(await meter.lease(abc.Lease(key="b", amount=abc.Amount(tokens=1))), abc.Exhausted)
    await meter.release("a", abc.Amount(tokens=1))
    assert isinstance(await meter.lease(abc.Lease(key="b", amount=abc.Amount(tokens=1))), abc.Grant)
