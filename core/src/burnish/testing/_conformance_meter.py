"""Whether a meter keeps its word: never more than there is, whoever asks, and nothing lost for good."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import attrs
import trio

from burnish import abc
from burnish.testing._conformance_base import (
    Conformance,
    check_loop_is_free,
    check_nothing_is_left,
    expect,
    fail,
    needs,
)

UNITS = tuple(field.name for field in attrs.fields(abc.Amount))


def lease(key: str, ttl: float = 600.0, **amounts: int) -> abc.Lease:
    """Ask for an allowance under a key."""
    return abc.Lease(key=key, ttl=ttl, amount=abc.Amount(**amounts))


class MeterConformance(Conformance[abc.Meter], kind=frozenset({"persistent", "shared"})):
    """What every `burnish.abc.Meter` owes. `open(self, tmp_path)` gives a meter with the caps `caps`, nothing leased.

    `wait` lets time pass; override it where the meter's clock is yours. Capabilities: `persistent` (opened again with
    one `tmp_path` it knows its leases), `shared` (several instances with one `tmp_path` grant from the same caps).
    """

    caps: ClassVar[abc.Amount] = abc.Amount(metric_calls=10, lm_calls=20, requests=30, tokens=1000)
    """What the opened meter has to give: no more and no less."""
    short_ttl: ClassVar[float] = 0.05
    """Seconds; the shortest life of a lease that the meter can tell from a longer one, and that outlasts two calls."""

    async def wait(self, seconds: float) -> None:
        """Let so much time pass."""
        await trio.sleep(seconds)

    async def _granted(self, meter: abc.Meter, request: abc.Lease, why: str) -> None:
        expect(abc.Grant(key=request.key), await meter.lease(request), why)

    async def _refused(self, meter: abc.Meter, request: abc.Lease, cap: str, why: str) -> abc.Exhausted:
        answer = await meter.lease(request)
        if not isinstance(answer, abc.Exhausted):
            fail(f"{why}: {answer}")
        expect(cap, answer.cap, "the refusal names another cap than the one that ran out")
        return answer

    async def test_is_a_meter(self, tmp_path: Path) -> None:
        """What `open` gives has the methods of the kind."""
        async with self.open(tmp_path) as meter:
            expect(True, isinstance(meter, abc.Meter), f"{type(meter).__name__} lacks a method of burnish.abc.Meter")

    async def test_grants_what_there_is_and_no_more(self, tmp_path: Path) -> None:
        """Each unit is granted up to its cap, and the refusal names it and says what is left."""
        async with self.open(tmp_path) as meter:
            for unit in UNITS:
                cap = getattr(self.caps, unit)
                await self._granted(meter, lease(f"{unit}-most", **{unit: cap - 1}), "what there is was refused")
                over = lease(f"{unit}-over", **{unit: 2})
                answer = await self._refused(meter, over, unit, "more than the cap was granted")
                expect(1, getattr(answer.remaining, unit), "`remaining` is not what is left")
                await self._granted(meter, lease(f"{unit}-last", **{unit: 1}), "the last one was refused")

    async def test_nothing_is_always_granted(self, tmp_path: Path) -> None:
        """A lease of nothing is granted when all is used up."""
        async with self.open(tmp_path) as meter:
            await meter.lease(abc.Lease(key="all", amount=self.caps))
            await self._granted(meter, lease("nothing"), "a lease of nothing was refused")

    async def test_refusal_takes_nothing(self, tmp_path: Path) -> None:
        """A lease that does not fit in one unit takes nothing of the others."""
        async with self.open(tmp_path) as meter:
            too_much = lease("much", metric_calls=self.caps.metric_calls, tokens=self.caps.tokens + 1)
            await self._refused(meter, too_much, "tokens", "more than the cap was granted")
            await self._granted(meter, lease("rest", metric_calls=self.caps.metric_calls), "a refused lease took some")

    async def test_one_key_is_one_lease(self, tmp_path: Path) -> None:
        """A lease asked for again, after a lost answer or at the same time, counts once."""
        half = self.caps.metric_calls // 2
        async with self.open(tmp_path) as meter:
            async with trio.open_nursery() as nursery:
                for _ in range(8):
                    nursery.start_soon(self._granted, meter, lease("one", metric_calls=half), "a repeated lease failed")
            rest = lease("rest", metric_calls=self.caps.metric_calls - half)
            await self._granted(meter, rest, "a repeated lease was counted more than once")
            await self._granted(meter, lease("one", metric_calls=half), "a held lease was refused when all was leased")

    async def test_never_grants_too_much_to_many(self, tmp_path: Path) -> None:
        """Of many who ask for one at the same time, as many get it as there is."""
        granted: list[str] = []

        async def ask(meter: abc.Meter, n: int) -> None:
            if isinstance(await meter.lease(lease(f"k{n}", metric_calls=1)), abc.Grant):
                granted.append(f"k{n}")

        async with self.open(tmp_path) as meter, trio.open_nursery() as nursery:
            for n in range(5 * self.caps.metric_calls):
                nursery.start_soon(ask, meter, n)
        expect(self.caps.metric_calls, len(granted), "not as many leases were granted as there are")

    async def test_release_gives_back_what_was_not_used(self, tmp_path: Path) -> None:
        """What a lease did not use can be leased again; what it used can not."""
        cap = self.caps.metric_calls
        async with self.open(tmp_path) as meter:
            await meter.lease(lease("all", metric_calls=cap))
            await meter.release("all", abc.Amount(metric_calls=4))
            await self._refused(meter, lease("five", metric_calls=5), "metric_calls", "what was used was granted again")
            await self._granted(meter, lease("four", metric_calls=4), "what was given back is lost")

    async def test_release_counts_once_and_for_known_keys(self, tmp_path: Path) -> None:
        """Releasing twice, an unknown key, or more than was leased, makes nothing out of nothing."""
        cap = self.caps.metric_calls
        async with self.open(tmp_path) as meter:
            await meter.lease(lease("rest", metric_calls=cap - 2))
            await meter.lease(lease("two", metric_calls=2))
            await meter.release("never", abc.Amount(metric_calls=5))
            for _ in range(2):
                await meter.release("two", abc.Amount(metric_calls=7))
            await self._granted(meter, lease("back", metric_calls=2), "what was given back is lost")
            await self._refused(meter, lease("over", metric_calls=1), "metric_calls", "a release gave back too much")

    async def test_forgotten_lease_comes_back(self, tmp_path: Path) -> None:
        """A lease whose holder died comes back after its time, and not before; its release then changes nothing."""
        cap = self.caps.metric_calls
        async with self.open(tmp_path) as meter:
            await meter.lease(lease("dead", ttl=self.short_ttl, metric_calls=cap))
            await self._refused(meter, lease("early", metric_calls=1), "metric_calls", "a lease ended before its time")
            await self.wait(2 * self.short_ttl)
            await self._granted(meter, lease("heir", metric_calls=cap), "a forgotten lease never comes back")
            await meter.release("dead", abc.Amount(metric_calls=cap))
            await self._refused(meter, lease("over", metric_calls=1), "metric_calls", "a lease came back twice")

    async def test_calls_reach_a_checkpoint(self, tmp_path: Path) -> None:
        """A cancelled scope ends at each call, and leaves the meter usable."""
        async with self.open(tmp_path) as meter:
            calls = (lambda: meter.lease(lease("c", metric_calls=1)), lambda: meter.release("c", abc.Amount()))
            for call in calls:
                with trio.CancelScope() as scope:
                    scope.cancel()
                    await call()
                expect(True, scope.cancelled_caught, "a call in a cancelled scope is not ended")
            await self._granted(meter, lease("c", metric_calls=1), "after a cancelled call the meter is broken")

    async def test_never_holds_the_event_loop(self, tmp_path: Path) -> None:
        """A hundred leases and releases make no other task wait."""
        async with self.open(tmp_path) as meter:

            async def work() -> None:
                for n in range(100):
                    await meter.lease(lease(f"w{n}", tokens=1))
                    await meter.release(f"w{n}", abc.Amount(tokens=1))

            await check_loop_is_free(work)

    async def test_leaves_nothing_running(self, tmp_path: Path) -> None:
        """After closing there are no tasks, threads or files of it, cancelled or not."""
        async with self.open(tmp_path) as meter:
            await meter.lease(lease("warm"))
        async with check_nothing_is_left():
            for n in range(3):
                async with self.open(tmp_path) as meter:
                    await meter.lease(lease(f"n{n}", tokens=1))
            with trio.move_on_after(0.01):
                async with self.open(tmp_path) as meter:
                    await trio.sleep_forever()

    @needs("persistent")
    async def test_reopened_meter_knows_its_leases(self, tmp_path: Path) -> None:
        """Closing a meter gives nothing away: its leases still count when it is opened again."""
        cap = self.caps.metric_calls
        async with self.open(tmp_path) as meter:
            await meter.lease(lease("held", metric_calls=cap - 1))
        async with self.open(tmp_path) as meter:
            await self._refused(meter, lease("over", metric_calls=2), "metric_calls", "closing forgot a lease")
            await self._granted(meter, lease("held", metric_calls=cap - 1), "closing forgot a lease's key")

    @needs("shared")
    async def test_instances_grant_from_the_same_caps(self, tmp_path: Path) -> None:
        """Several instances together never grant more than there is."""
        granted: list[int] = []

        async def ask(meter: abc.Meter, n: int) -> None:
            if isinstance(await meter.lease(lease(f"k{n}", metric_calls=1)), abc.Grant):
                granted.append(n)

        async with self.open(tmp_path) as one, self.open(tmp_path) as two, trio.open_nursery() as nursery:
            for n in range(3 * self.caps.metric_calls):
                nursery.start_soon(ask, (one, two)[n % 2], n)
        expect(self.caps.metric_calls, len(granted), "two instances grant more, or less, than there is")
