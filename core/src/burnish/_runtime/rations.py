"""What the rollouts in flight may still need under caps on requests, tokens and money."""

from __future__ import annotations

from collections.abc import Hashable
from contextvars import ContextVar
from decimal import Decimal

import attrs
import trio

from burnish._model.budget import ZERO, Budget, RoleSpend, Spend


@attrs.frozen
class Need:
    """An amount of what a rollout's calls cost."""

    requests: int = 0
    tokens: int = 0
    cost: Decimal = ZERO

    def __add__(self, other: Need) -> Need:
        return Need(self.requests + other.requests, self.tokens + other.tokens, self.cost + other.cost)

    def __mul__(self, times: int) -> Need:
        return Need(self.requests * times, self.tokens * times, self.cost * times)

    def less(self, used: Need) -> Need:
        """Give what is left of it, nothing below 0."""
        return Need(
            max(0, self.requests - used.requests), max(0, self.tokens - used.tokens), max(ZERO, self.cost - used.cost)
        )

    def most(self, other: Need) -> Need:
        """Give the larger amount of each."""
        return Need(
            max(self.requests, other.requests), max(self.tokens, other.tokens), max(self.cost, other.cost)
        )

    def least(self, other: Need) -> Need:
        """Give the smaller amount of each."""
        return Need(
            min(self.requests, other.requests), min(self.tokens, other.tokens), min(self.cost, other.cost)
        )


NOTHING = Need()
UNKNOWN = Need(requests=1)


SLACK = 2
"""How many times the most so far a rollout reserves while others are in flight."""
SLACK_FIRST = 8
"""The same for the first rollout of a candidate: longer prompts may cost several times as much."""


@attrs.define(eq=False)
class Share:
    """What one rollout in flight has reserved, and what of it is used."""

    owner: Rations
    kind: Hashable = None
    """Whose rollout it is: a candidate."""
    reserved: Need = NOTHING
    used: Need = NOTHING
    """Requests count from their start, tokens and money from their answer."""
    in_flight: int = 0
    """Requests under way."""

    def book(self, spent: Spend) -> None:
        """Count calls that were made where nobody could see them start."""
        self.used += Need(spent.requests, spent.tokens, spent.cost)

    def left(self, dearest: Decimal) -> Need:
        """Give what it may still need; a request under way may cost as much as the dearest one so far."""
        left = self.reserved.less(self.used)
        return Need(left.requests, left.tokens, max(left.cost, dearest * self.in_flight))


_share: ContextVar[Share | None] = ContextVar("burnish_share", default=None)


class Rations:
    """The shares of the rollouts in flight, and the most and the least that one rollout has needed so far.

    A rollout starts if the most so far fits once all before it have ended. It need not wait for them where it fits
    whatever they take: each reserves several times the most so far. As long as none takes more, the same rollouts run
    at any concurrency. The very first runs alone, and so does the first of a candidate among its own where tokens or
    money are capped, for that is how long its prompts are. Calls outside rollouts have a share of their own in which
    nothing is reserved.
    """

    def __init__(self, budget: Budget) -> None:
        self._by_size = budget.max_tokens is not None or budget.max_cost is not None
        self.active = self._by_size or budget.max_requests is not None
        """Whether anything is rationed at all."""
        self.turn = trio.StrictFIFOLock()
        """Whoever wants a share holds this meanwhile: first in, first out."""
        self._seen, self._least, self._known = NOTHING, NOTHING, False
        self._kinds: set[Hashable] = set()
        self._open: set[Share] = set()
        self._outside = Share(self)
        self._dearest = ZERO
        self._settled = trio.Event()

    @property
    def bound(self) -> Need:
        """The most that one rollout has needed; one request as long as nothing is known."""
        return self._seen if self._known else UNKNOWN

    @property
    def least(self) -> Need:
        """The least that one rollout has needed, as far as known."""
        return self._least

    @property
    def busy(self) -> bool:
        """Whether a rollout is in flight."""
        return bool(self._open)

    def familiar(self, kind: Hashable) -> bool:
        """Whether it is known what a candidate's rollouts need."""
        return self._known and (kind in self._kinds or not self._by_size)

    def beside(self, kind: Hashable) -> Need | None:
        """Give what a rollout must reserve to run beside those in flight; None where it has to wait for one."""
        if self.familiar(kind):
            return self.bound * SLACK
        if not self._known or any(share.kind == kind for share in self._open):
            return None
        return self.bound * SLACK_FIRST

    def open(self, kind: Hashable, reserved: Need) -> Share:
        """Take a share for one rollout."""
        share = Share(self, kind, reserved)
        self._open.add(share)
        return share

    def close(self, share: Share, *, conclusive: bool) -> None:
        """End a share, and learn from it; `conclusive` where the rollout did all that one does."""
        self._open.discard(share)
        share.reserved = NOTHING
        self._seen = self._seen.most(share.used)
        if conclusive:
            self._least = self._least.least(share.used) if self._known else share.used
            self._known = True
            self._kinds.add(share.kind)
        self._settled.set()

    async def wait_settled(self) -> None:
        """Wait until a rollout in flight ends."""
        self._settled = trio.Event()
        await self._settled.wait()

    def held(self, but: Share | None = None) -> Need:
        """Give what all shares may still need, or all but one."""
        left = [share.left(self._dearest) for share in (*self._open, self._outside) if share is not but]
        return Need(sum(n.requests for n in left), sum(n.tokens for n in left), sum((n.cost for n in left), ZERO))

    def current(self) -> tuple[Share, bool]:
        """Give the share that a call draws on, and whether it is that of a rollout in flight."""
        share = _share.get()
        if share is None or share.owner is not self:  # a proposal, or a run inside a rollout of another run
            share = self._outside
        return share, share in self._open

    def call_cost(self, share: Share) -> Decimal:
        """Give what a further request of a share may cost, those that it has under way included.

        Each may cost as much as the dearest so far; but what is reserved is enough for what is left of a rollout.
        """
        reserved, calls = share.reserved.cost - share.used.cost, self._dearest * (share.in_flight + 1)
        return min(reserved, calls) if reserved > 0 else calls

    def call_starts(self) -> None:
        """Count a request that starts."""
        share, _ = self.current()
        share.in_flight += 1
        share.used += Need(requests=1)

    def call_ends(self, spent: RoleSpend | None) -> None:
        """Count a request's answer; None where it was never sent."""
        share, _ = self.current()
        share.in_flight -= 1
        if spent is None:
            share.used = share.used.less(Need(requests=1))
        else:
            share.used += Need(0, spent.usage.total, spent.cost)
            self._dearest = max(self._dearest, spent.cost)


def draw_on(share: Share | None) -> None:
    """Have the calls of this task, and of the tasks and threads that it starts, draw on a rollout's share."""
    _share.set(share)
