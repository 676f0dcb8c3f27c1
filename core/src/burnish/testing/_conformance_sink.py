"""Whether a sink keeps its word: it takes every event, in order, again after an outage, and holds nothing up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import trio

from burnish import abc
from burnish._model.budget import RoleSpend, Spend
from burnish._model.candidate import Candidate
from burnish._model.evals import Eval
from burnish._model.events import (
    CallLanded,
    CallStarted,
    CandidateRegistered,
    Charged,
    Event,
    RolloutLanded,
    RolloutStarted,
    RunEnded,
    RunStarted,
    Told,
    Warned,
)
from burnish._model.lm import Usage
from burnish._model.outcome import Fault, RolloutRecord, RolloutStatus
from burnish.testing._conformance_base import (
    Conformance,
    check_loop_is_free,
    check_nothing_is_left,
    expect,
    fail,
    needs,
)

LONGEST_END = 2.0
"""Seconds that a delivery may take to end once it is cancelled: a run that ends leaves behind what goes on."""
ODD = "🦀 日本語 \x00 \n \u2028 half a pair \ud83d"


def sample_events() -> tuple[Event, ...]:
    """Make one event of every kind, with texts as models write them."""
    spent = {"task": RoleSpend(requests=2, usage=Usage(input_tokens=10, output_tokens=3))}
    good = RolloutRecord(status=RolloutStatus.SUCCEEDED, eval=Eval(0.5, ODD), output={"answer": ODD}, calls=spent)
    bad = RolloutRecord(status=RolloutStatus.AGENT_FAILED, fault=Fault(type="ValueError", message=ODD))
    return (
        RunStarted(run="a", facts={"seed": 0}),
        CandidateRegistered(index=0, candidate=Candidate().with_instruction("answer", ODD)),
        RolloutStarted(key="k1", candidate=0, example=0),
        RolloutLanded(key="k1", candidate=0, example=0, record=good),
        RolloutLanded(key="k2", candidate=0, example=1, record=bad, source="cache"),
        CallStarted(key="c1", role="proposer"),
        CallLanded(key="c1", role="proposer", calls=spent, output=[ODD, 1, None]),
        Charged(spend=Spend(metric_calls=1)),
        Told(step="search#0", shown=1, cap="max_requests", needed=3),
        Warned(kind="unread", message=ODD),
        RunEnded(stop_reason="finished", best=Candidate()),
    )


def delivery(numbers: Iterable[int], run: str = "a", text: str = "") -> abc.Delivery:
    """Make a batch of events that say their number."""
    return abc.Delivery(run=run, events=tuple((n, Warned(kind=run, message=f"{n}{text}")) for n in numbers))


class SinkConformance(Conformance[abc.Sink], kind=frozenset({"persistent", "readable", "deduplicates"})):
    """What every `burnish.abc.Sink` owes. Give it `open(self, tmp_path)`; each `tmp_path` is a new sink.

    Capabilities: `persistent` (opened again with one `tmp_path` it goes on), `readable` (`delivered` can be written, so
    that the kit can look at what arrived), `deduplicates` (a number of a run that comes again is taken once).
    """

    async def delivered(self, tmp_path: Path) -> Sequence[tuple[str, int, Event]]:
        """Read what has arrived, in order, as (run, number, event): only for the capability `readable`."""
        raise NotImplementedError(f"{type(self).__name__} claims `readable`; it must define `delivered`")

    async def _expect_arrived(self, tmp_path: Path, batch: abc.Delivery, why: str) -> None:
        """Compare what arrived for a run, apart from repetitions where the sink may repeat."""
        arrived = [(n, event) for run, n, event in await self.delivered(tmp_path) if run == batch.run]
        if "deduplicates" not in self.capabilities:
            arrived = [pair for i, pair in enumerate(arrived) if pair not in arrived[:i]]
        expect(list(batch.events), arrived, why)

    async def test_is_a_sink(self, tmp_path: Path) -> None:
        """What `open` gives has the methods of the kind."""
        async with self.open(tmp_path) as sink:
            expect(True, isinstance(sink, abc.Sink), f"{type(sink).__name__} lacks a method of burnish.abc.Sink")

    async def test_takes_every_kind_of_event(self, tmp_path: Path) -> None:
        """There is no event that a sink chokes on, and no text; an empty batch is fine."""
        async with self.open(tmp_path) as sink:
            await sink.deliver(abc.Delivery(run="a", events=()))
            await sink.deliver(abc.Delivery(run="a", events=tuple(enumerate(sample_events(), start=1))))

    async def test_takes_events_again(self, tmp_path: Path) -> None:
        """After an outage numbers come again, in a batch with new ones: no error."""
        async with self.open(tmp_path) as sink:
            await sink.deliver(delivery(range(1, 6)))
            await sink.deliver(delivery(range(1, 6)))
            await sink.deliver(delivery(range(4, 9)))

    async def test_takes_large_batches(self, tmp_path: Path) -> None:
        """A sink that was away for long gets much at once: many events, and long ones."""
        async with self.open(tmp_path) as sink:
            await sink.deliver(delivery(range(1, 1001)))
            await sink.deliver(delivery([1001], text="x" * 1_000_000))

    async def test_takes_several_runs_at_once(self, tmp_path: Path) -> None:
        """Runs that share a sink deliver at the same time."""
        async with self.open(tmp_path) as sink, trio.open_nursery() as nursery:
            for run in ("a", "b", "c"):
                nursery.start_soon(self._deliver_all, sink, run)

    async def _deliver_all(self, sink: abc.Sink, run: str) -> None:
        for n in range(1, 11):
            await sink.deliver(delivery([n], run))

    async def test_calls_reach_a_checkpoint(self, tmp_path: Path) -> None:
        """A cancelled scope ends at a delivery."""
        async with self.open(tmp_path) as sink:
            with trio.CancelScope() as scope:
                scope.cancel()
                await sink.deliver(delivery([1]))
            expect(True, scope.cancelled_caught, "a delivery in a cancelled scope is not ended")

    async def test_cancelled_delivery_can_be_repeated(self, tmp_path: Path) -> None:
        """However late a delivery is cancelled, the batch may come again and the sink goes on."""
        async with self.open(tmp_path) as sink:
            for n, seconds in enumerate((0.0, 0.0001, 0.001, 0.005)):
                batch = delivery(range(100 * n + 1, 100 * n + 101))
                with trio.move_on_after(seconds):
                    await sink.deliver(batch)
                await sink.deliver(batch)

    async def test_cancelled_delivery_ends_soon(self, tmp_path: Path) -> None:
        """A delivery that is cancelled gives up: a run that ends waits for no sink that holds on."""
        async with self.open(tmp_path) as sink:
            for n, seconds in enumerate((0.0, 0.001, 0.01)):
                batch = delivery(range(100 * n + 1, 100 * n + 101), text="x" * 1000)
                with trio.move_on_after(seconds) as scope:
                    await sink.deliver(batch)
                late = trio.current_time() - scope.deadline
                if scope.cancel_called and late > LONGEST_END:
                    fail(f"a delivery went on for {late:.2f} s after it was cancelled, not {LONGEST_END} s at most")

    async def test_never_holds_the_event_loop(self, tmp_path: Path) -> None:
        """Four megabytes of events make no other task wait."""
        async with self.open(tmp_path) as sink:
            await check_loop_is_free(lambda: sink.deliver(delivery(range(1, 257), text="x" * 16384)))

    async def test_leaves_nothing_running(self, tmp_path: Path) -> None:
        """After closing there are no tasks, threads or files of it, cancelled or not."""
        async with self.open(tmp_path) as sink:
            await sink.deliver(delivery([1]))
        async with check_nothing_is_left():
            for n in range(2, 5):
                async with self.open(tmp_path) as sink:
                    await sink.deliver(delivery([n]))
            with trio.move_on_after(0.01):
                async with self.open(tmp_path) as sink:
                    await trio.sleep_forever()

    @needs("readable")
    async def test_events_arrive_unchanged_and_in_order(self, tmp_path: Path) -> None:
        """What arrived is what was delivered, with its numbers, when `deliver` returns."""
        events = abc.Delivery(run="a", events=tuple(enumerate(sample_events(), start=1)))
        async with self.open(tmp_path) as sink:
            await sink.deliver(part(events, 0, 4))
            await sink.deliver(part(events, 4, None))
            await self._expect_arrived(tmp_path, events, "events are lost, changed or out of order")

    @needs("readable")
    async def test_runs_are_kept_apart(self, tmp_path: Path) -> None:
        """Equal numbers of two runs are two events, whoever delivers first."""
        async with self.open(tmp_path) as sink:
            async with trio.open_nursery() as nursery:
                for run in ("a", "b"):
                    nursery.start_soon(self._deliver_all, sink, run)
            for run in ("a", "b"):
                await self._expect_arrived(tmp_path, delivery(range(1, 11), run), "events of one run hide another's")

    @needs("readable")
    async def test_cancelled_delivery_loses_nothing(self, tmp_path: Path) -> None:
        """A delivery that was cancelled and came again has arrived whole."""
        async with self.open(tmp_path) as sink:
            for n, seconds in enumerate((0.0, 0.0001, 0.001, 0.005)):
                batch = delivery(range(100 * n + 1, 100 * n + 101))
                with trio.move_on_after(seconds):
                    await sink.deliver(batch)
                await sink.deliver(batch)
            await self._expect_arrived(tmp_path, delivery(range(1, 401)), "a cancelled delivery left a gap")

    @needs("readable", "deduplicates")
    async def test_number_that_comes_again_is_taken_once(self, tmp_path: Path) -> None:
        """Numbers that come again, in one batch too, add nothing."""
        async with self.open(tmp_path) as sink:
            for numbers in ((1, 2, 3), (1, 2, 3), (3, 4), (2,), (5,), (5, 6)):
                await sink.deliver(delivery(numbers))
            await self._expect_arrived(tmp_path, delivery(range(1, 7)), "an event is there twice")

    @needs("persistent", "readable")
    async def test_reopened_sink_goes_on(self, tmp_path: Path) -> None:
        """Opened again, a sink keeps what it has, and takes what it missed, for each run."""
        async with self.open(tmp_path) as sink:
            await sink.deliver(delivery(range(1, 4), "a"))
            await sink.deliver(delivery(range(1, 6), "b"))
        async with self.open(tmp_path) as sink:
            await sink.deliver(delivery(range(2, 9), "a"))
            await sink.deliver(delivery(range(5, 7), "b"))
        await self._expect_arrived(tmp_path, delivery(range(1, 9), "a"), "reopening loses or repeats events")
        await self._expect_arrived(tmp_path, delivery(range(1, 7), "b"), "reopening loses or repeats events")


def part(batch: abc.Delivery, start: int, stop: int | None) -> abc.Delivery:
    """Give a part of a batch."""
    return abc.Delivery(run=batch.run, events=batch.events[start:stop])
