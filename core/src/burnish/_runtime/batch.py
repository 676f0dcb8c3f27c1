"""The unique work of one request, and which of it is already under way."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import zip_longest
from typing import Any, Literal

import attrs
import trio

from burnish._model.budget import ZERO, Spend
from burnish._model.candidate import Candidate
from burnish._model.events import Lost, RequestSent, RolloutLanded, RolloutStarted, Source
from burnish._model.example import Example
from burnish._model.outcome import CandidateEval, RolloutOutcome, RolloutRecord, RolloutStatus
from burnish._runtime.faults import not_run
from burnish._runtime.identity import Baseline, Identity
from burnish._runtime.rations import Bound, Share, sent
from burnish._runtime.rollout import Kept

Request = tuple[int, Sequence[int]]
"""A candidate's index and the columns it is evaluated on."""

Fit = Literal["whole", "leading", "rows"]
"""What runs of requests that do not fit the budget: nothing, the leading candidates, or the leading rows of all."""


def leading_parts(requests: Sequence[Request], fit: Fit) -> list[list[Request]]:
    """Give what may run of some requests, from nothing to all of it."""
    if fit == "whole":
        return [[], list(requests)]
    if fit == "leading":
        return [list(requests[:count]) for count in range(len(requests) + 1)]
    most = max((len(columns) for _, columns in requests), default=0)
    return [[(index, columns[:count]) for index, columns in requests] for count in range(most + 1)]

_NO_ROOM = Spend()


class Flight:
    """A rollout under way: one task runs it, whoever needs it waits."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.record: RolloutRecord | None = None
        self.cap: str | None = None
        """The cap that cut it, where one did."""


@attrs.define(eq=False)
class Item:
    """One unique (candidate, column, sample) of a request.

    It comes to its `record` in one of three ways: it is known (from memory, a store or the cache, or `told` before the
    run began again); it `leads` a `flight`, in which its program runs, with a `share` where something is rationed, or
    in which its `kept` output is scored, which takes no budget; or it waits for a flight that another item leads. One
    that leads and has not landed when the run of its request ends gives back what was reserved for it, unless it is
    `counted`.
    """

    candidate: int
    column: int
    sample: int
    identity: Identity
    record: RolloutRecord | None = None
    source: Source = "store"
    kept: Kept | None = None
    prediction: Any = None
    """The live output of a rollout that this item led."""
    flight: Flight | None = None
    leads: bool = False
    """Whether this item runs it; otherwise it was known, or another one runs it."""
    share: Share | None = None
    """What it has reserved while it runs, where something is rationed."""
    number: int = 0
    """Its place in the order of starts."""
    counted: bool = False
    """Whether it was cancelled after it had made calls, and counts as a rollout though it has no result."""
    told: bool = False
    """Whether the run's journal holds its result already."""

    @property
    def landed(self) -> bool:
        return self.flight is None or self.flight.done.is_set()

    @property
    def unserved(self) -> bool:
        """Whether a rollout has to run for it: it has none, or one that a budget ended."""
        return self.kept is None if self.record is None else self.record.cut

    def started(self, step: str) -> RolloutStarted:
        """Give the event of its start."""
        return RolloutStarted(
            key=self.identity.key,
            candidate=self.candidate,
            example=self.column,
            sample=self.sample,
            step=step,
        )

    def sent(self, step: str, role: str, bound: Bound) -> RequestSent:
        """Give the event of a request that leaves."""
        return RequestSent(
            key=self.identity.key, example=self.column, sample=self.sample, step=step, spend=sent(role, bound)
        )

    def lost(self, step: str, spend: Spend, held: Decimal) -> Lost:
        """Give the event of an end without a record."""
        return Lost(
            key=self.identity.key, example=self.column, sample=self.sample, step=step, spend=spend, held=held
        )

    def answer(
        self, record: RolloutRecord, source: Source, step: str, held: Decimal = ZERO
    ) -> RolloutLanded:
        """Give the event of its record."""
        return RolloutLanded(
            key=self.identity.key,
            candidate=self.candidate,
            example=self.column,
            sample=self.sample,
            record=record,
            source=source,
            step=step,
            room=_NO_ROOM if self.share is None else self.share.peak.spend,
            held=held,
        )

    def land(self, record: RolloutRecord | None, cap: str | None = None) -> None:
        """End the flight that this item leads; no record where it did not run, `cap` where one cut it."""
        self.record = record
        if self.flight is not None:
            self.flight.record, self.flight.cap = record, cap
            self.flight.done.set()

    async def wait_landed(self) -> str | None:
        """Wait for whoever runs it, and take the result; gives the cap that cut it."""
        if self.record is None and self.flight is not None:
            await self.flight.done.wait()
            self.record = self.flight.record
        return None if self.flight is None else self.flight.cap


class Batch:
    """The items of some requests, each once however often it was asked for.

    They stand in the order of the requests, or row by row, all candidates on one row before the next. What is `bare` is
    told without traces.
    """

    def __init__(
        self, requests: Sequence[Request], samples: range, *, by_row: bool = False, bare: bool = False
    ) -> None:
        self.requests: list[Request] = [(index, tuple(columns)) for index, columns in requests]
        self.samples, self._by_row = samples, by_row
        self._bare = bare
        self.items: dict[tuple[int, int, int], Item] = {}
        self._all: list[Item] | None = None

    def __str__(self) -> str:
        rows = sorted({len(columns) for _, columns in self.requests})
        count = "no rows" if not rows else f"{rows[0]} rows" if len(rows) == 1 else f"{rows[0]} to {rows[-1]} rows"
        shown = ", ".join(str(index) for index, _ in self.requests[:8]) + (", ..." if len(self.requests) > 8 else "")
        return f"candidates {shown or 'none'} on {count}"

    def add(
        self, index: int, candidate: Candidate, column: int, example: Example, sample: int, baseline: Baseline
    ) -> None:
        """Take one asked-for rollout in."""
        place = (index, column, sample)
        if place not in self.items:
            self.items[place] = Item(index, column, sample, Identity(baseline, candidate, example))
            self._all = None

    def of(self, requests: Sequence[Request]) -> list[Item]:
        """Give the unique items of some requests, in order."""
        if requests is not self.requests:
            return self._of(requests)
        if self._all is None:  # asked for several times in each evaluation
            self._all = self._of(requests)
        return self._all

    def _of(self, requests: Sequence[Request]) -> list[Item]:
        by_request = [[(index, column, n) for column in columns for n in self.samples] for index, columns in requests]
        order = zip_longest(*by_request) if self._by_row else by_request
        places = dict.fromkeys(place for part in order for place in part if place is not None)
        return [self.items[place] for place in places]

    def needed(self, requests: Sequence[Request], flights: dict[str, Flight] | None = None) -> int:
        """Count the rollouts that would have to run: unknown, unique by content, and not under way already.

        It asks about the budget: a kept output takes none, and one that a cap ended would take it again.
        """
        keys = {item.identity.key for item in self.of(requests) if item.unserved}
        return len(keys) if not flights else sum(key not in flights for key in keys)

    def take_off(self, requests: Sequence[Request], flights: dict[str, Flight]) -> list[Item]:
        """Decide who runs what; gives the items that lead a flight of their own.

        It asks who acts: a kept output has to be scored, and one that a cap ended is not begun again in this request.
        """
        leaders = []
        for item in self.of(requests):
            if item.record is not None:
                continue
            flight = flights.get(item.identity.key)
            if flight is None:
                flight = flights[item.identity.key] = Flight()
                item.leads = True
                leaders.append(item)
            item.flight = flight
        return leaders

    def evaluation(self, request: Request) -> CandidateEval:
        """Give a request's result, a rollout at each position that was asked for."""
        index, columns = request
        rollouts = [
            self._outcome(self.items[index, column, sample]) for column in columns for sample in self.samples
        ]
        return CandidateEval(candidate=index, rollouts=tuple(rollouts))

    def _outcome(self, item: Item) -> RolloutOutcome:
        record = item.record or RolloutRecord(status=RolloutStatus.REJECTED, fault=not_run("rollout"))
        return RolloutOutcome(
            example=item.column,
            eval=record.eval if record.status.scored else None,
            trace=None if self._bare else record.trace,
            status=record.status if record.eval is not None else _told(record),
            error=record.fault,
            output=record.output,
            cached=not item.leads and item.record is not None,
        )


def _told(record: RolloutRecord) -> RolloutStatus:
    """Give the status that the caller sees: where the judge's call failed, the rollout is unscored, not succeeded."""
    if record.owes_score and record.fault is not None and record.fault.where in ("model", "budget"):
        return RolloutStatus.INFRASTRUCTURE_FAILED if record.fault.where == "model" else RolloutStatus.REJECTED
    return record.status
