"""What the rollouts in flight may still need under caps on requests, tokens and money."""

from __future__ import annotations

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


NOTHING = Need()


@attrs.define(eq=False)
class Share:
    """What one rollout in flight has reserved, and what of it is used."""

    owner: Rations
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
    """The shares of the rollouts in flight, and the most that one rollout has needed so far.

    That most is what the next rollout reserves. The first rollouts run one at a time, until one has shown what it
    needs. Calls outside rollouts have a share of their own in which nothing is reserved.
    """

    def __init__(self, budget: Budget) -> None:
        self.active = any(cap is not None for cap in (budget.max_requests, budget.max_tokens, budget.max_cost))
        """Whether anything is rationed at all."""
        self.turn = trio.StrictFIFOLock()
        """Whoever wants a share holds this meanwhile: first in, first out."""
        self._seen, self._known = NOTHING, False
        self._open: set[Share] = set()
        self._outside = Share(self)
        self._dearest = ZERO
        self._settled = trio.Event()

    @property
    def bound(self) -> Need:
        """The most that one rollout has needed, as far as known."""
        return self._seen if self._known else NOTHING

    @property
    def busy(self) -> bool:
        """Whether a rollout is in flight."""
        return bool(self._open)

    @property
    def learning(self) -> bool:
        """Whether the rollout in flight is to show first what one needs."""
        return self.busy and not self._known

    def open(self) -> Share:
        """Take a share for one rollout."""
        share = Share(self, self.bound)
        self._open.add(share)
        return share

    def close(self, share: Share, *, conclusive: bool) -> None:
        """End a share, and learn from it; `conclusive` where the rollout did all that one does."""
        self._open.discard(share)
        share.reserved = NOTHING
        self._seen = self._seen.most(share.used)
        self._known = self._known or conclusive
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
