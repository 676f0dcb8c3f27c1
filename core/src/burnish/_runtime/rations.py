"""What the rollouts in flight may still need under caps on requests, tokens and money."""

from __future__ import annotations

from collections.abc import Hashable
from contextvars import ContextVar
from decimal import Decimal

import attrs
import trio

from burnish import abc
from burnish._model.budget import ZERO, Budget, RoleSpend, Spend
from burnish._model.lm import Usage
from burnish._runtime.within import Within


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

    @property
    def spend(self) -> Spend:
        """The same as spend."""
        return Spend(requests=self.requests, tokens=self.tokens, cost=self.cost)

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


@attrs.frozen
class Bound:
    """The most that one request can need; None where nobody knows."""

    tokens: int | None = None
    cost: Decimal | None = None


UNBOUNDED = Bound()


def bound_of(prompt: int, reply: int | None, price: abc.ModelPrice | None) -> Bound:
    """Give the most that a request of so many tokens at most can need."""
    if reply is None:
        return UNBOUNDED if price is None or not price.free else Bound(None, ZERO)
    most = Usage(input_tokens=prompt, output_tokens=reply)
    return Bound(most.total, None if price is None else price.most(most))


@attrs.define(eq=False)
class Share:
    """What one rollout in flight has reserved, what of it is used, and what its requests under way may need."""

    owner: Rations
    kind: Hashable = None
    """Whose rollout it is: a candidate."""
    reserved: Need = NOTHING
    used: Need = NOTHING
    """Requests count from their start, tokens and money from their answer."""
    in_flight: int = 0
    """Requests under way."""
    unpriced: int = 0
    """Those of them whose cost has no bound."""
    bounds: Need = NOTHING
    """The bounds of the others."""
    peak: Need = NOTHING
    """The most room that it took at once: used, and bound for what was under way."""

    def book(self, spent: Spend) -> None:
        """Count calls that were made where nobody could see them start."""
        self.used += Need(spent.requests, spent.tokens, spent.cost)
        self.peak = self.peak.most(self.used)

    def at_stake(self, dearest: Decimal) -> Need:
        """Give what the requests under way may cost; one without a bound as much as the dearest one so far."""
        return self.bounds + Need(cost=dearest * self.unpriced)

    def left(self, dearest: Decimal) -> tuple[int, int, Decimal]:
        """Give the requests, tokens and money that it may still need, for all that is known now."""
        reserved, used, bounds = self.reserved, self.used, self.bounds
        stake = bounds.cost + dearest * self.unpriced if self.unpriced else bounds.cost
        return (
            max(0, reserved.requests - used.requests),
            max(bounds.tokens, reserved.tokens - used.tokens),
            max(stake, reserved.cost - used.cost),
        )

    def _carry(self, bound: Bound, way: int) -> None:
        self.in_flight += way
        self.unpriced += way if bound.cost is None else 0
        self.bounds += Need(0, bound.tokens or 0, bound.cost or ZERO) * way

    def starts(self, bound: Bound) -> None:
        """Count a request that starts."""
        self._carry(bound, 1)
        self.used += Need(requests=1)
        self.peak = self.peak.most(self.used + self.bounds)

    def ends(self, bound: Bound, spent: RoleSpend | None) -> None:
        """Count a request's answer; None where it was never sent."""
        self._carry(bound, -1)
        self.used = self.used.less(UNKNOWN) if spent is None else self.used + Need(0, spent.usage.total, spent.cost)
        self.peak = self.peak.most(self.used + self.bounds)


def sent(role: str, bound: Bound) -> Spend:
    """Give what a request of a role counts as that was sent and of whose answer nothing is known."""
    cost = bound.cost or ZERO
    alone = RoleSpend(requests=1, cost=cost, unpriced=1 if bound.cost is None else 0)
    return Spend(requests=1, tokens=bound.tokens or 0, cost=cost, by_role={role: alone})


@attrs.frozen(eq=False)
class Call:
    """One request under way: the share that it draws on, and the most that it needs."""

    share: Share
    bound: Bound


_share: ContextVar[Share | None] = ContextVar("burnish_share", default=None)
_within_call: ContextVar[bool] = ContextVar("burnish_within_call", default=False)


class Rations:
    """The shares of the rollouts in flight, and the most and the least that one rollout has needed so far.

    A rollout starts if the most so far fits once all before it have ended. It need not wait for them where it fits
    whatever they take: each reserves several times the most so far. As long as none takes more, the same rollouts run
    at any concurrency. The very first runs alone, and so does the first of a candidate among its own where tokens or
    money are capped, for that is how long its prompts are. Calls outside rollouts have a share of their own in which
    nothing is reserved.

    What a rollout takes in the end and the room that it needs meanwhile differ where its calls have bounds, for these
    are far above what calls take: it reserves what it takes, and starts where there is room for its bounds.
    """

    def __init__(self, budget: Budget) -> None:
        self._by_size = budget.max_tokens is not None or budget.max_cost is not None
        self.active = self._by_size or budget.max_requests is not None
        """Whether anything is rationed at all."""
        self.turn, self.calls = trio.StrictFIFOLock(), trio.StrictFIFOLock()
        """Who waits for room holds one meanwhile, first in, first out: rollouts and calls outside of them, and calls
        inside of them, which wait for other calls only."""
        self._seen, self._least, self._known = NOTHING, NOTHING, False
        self._peak = NOTHING
        self._kinds: set[Hashable] = set()
        self._open: set[Share] = set()
        self._outside = Share(self)
        self._dearest = ZERO
        self._unsettled = ZERO
        self._waiting = trio.lowlevel.ParkingLot()

    @property
    def usual(self) -> Need:
        """The most that one rollout has taken; one request as long as nothing is known."""
        return self._seen if self._known else UNKNOWN

    @property
    def bound(self) -> Need:
        """The most room that one rollout has needed, for its calls' bounds too."""
        return self._peak if self._known else UNKNOWN

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

    def beside(self, kind: Hashable) -> int | None:
        """Say how many times the most so far a rollout must reserve beside those in flight; None where it must wait."""
        if self.familiar(kind):
            return SLACK
        if not self._known or any(share.kind == kind for share in self._open):
            return None
        return SLACK_FIRST

    def open(self, kind: Hashable, reserved: Need) -> Share:
        """Take a share for one rollout."""
        share = Share(self, kind, reserved)
        self._open.add(share)
        return share

    def close(self, share: Share, *, conclusive: bool) -> None:
        """End a share, and learn from it; `conclusive` where the rollout did all that one does."""
        self._open.discard(share)
        self._unsettled += share.bounds.cost  # of a thread that was left behind
        share.reserved = NOTHING
        self._seen = self._seen.most(share.used)
        self._peak = self._peak.most(share.peak)
        if conclusive:
            self._least = self._least.least(share.used) if self._known else share.used
            self._known = True
            self._kinds.add(share.kind)
        self._waiting.unpark_all()

    @property
    def kept_back(self) -> Decimal:
        """Money that is kept back for good."""
        return self._unsettled

    def keep_back(self, cost: Decimal) -> None:
        """Keep money back for good that may have been spent, though nobody knows."""
        self._unsettled += cost

    async def wait_settled(self) -> None:
        """Wait until a rollout or a request in flight ends."""
        await self._waiting.park()

    def held(self, but: Share | None = None) -> Need:
        """Give what all shares may still need, or all but one, and what calls may have cost that nobody knows of."""
        left = [share.left(self._dearest) for share in (*self._open, self._outside) if share is not but]
        requests, tokens, costs = zip(*left, strict=True) if left else ((), (), ())
        return Need(sum(requests), sum(tokens), sum(costs, self._unsettled))

    # --- calls ---------------------------------------------------------------------------------------------------

    def call(self, bound: Bound) -> Call:
        """Make a request of this task's; it draws on the share of the rollout around it."""
        share = _share.get()
        if share is None or share.owner is not self:  # a proposal, or a run inside a rollout of another run
            share = self._outside
        return Call(share, bound)

    def inside(self, call: Call) -> bool:
        """Whether a call belongs to a rollout in flight."""
        return call.share in self._open

    def need(self, call: Call) -> Need:
        """Give what a further request of a share may need, together with those that it has under way.

        Without a bound it may cost as much as the dearest so far; but what is reserved is enough for what is left of a
        rollout.
        """
        share, bound = call.share, call.bound
        stake = share.at_stake(self._dearest)
        if bound.cost is not None:
            return stake + Need(0, bound.tokens or 0, bound.cost)
        cost, reserved = stake.cost + self._dearest, share.reserved.cost - share.used.cost
        if share.bounds.cost < reserved < cost:
            cost = reserved
        return Need(0, stake.tokens + (bound.tokens or 0), cost)

    def may_pass(self, call: Call, cap: str) -> bool:
        """Whether a cap that refuses a call now may leave room for it when what is in flight has ended.

        A call inside another one must not wait for it, nor a rollout's call for rollouts, which may wait for it.
        """
        if not self.active or self.nested or cap == "max_seconds":
            return False
        by_size = cap in ("max_tokens", "max_cost")
        if self.inside(call):
            return by_size and self.in_flight > 0
        return self.busy or (by_size and self.in_flight > 0)

    @property
    def nested(self) -> bool:
        """Whether this task is inside a request that is under way: it must not wait for that one."""
        return _within_call.get()

    @property
    def in_flight(self) -> int:
        """Requests under way, those outside rollouts included."""
        return sum(share.in_flight for share in (*self._open, self._outside))

    def starts(self, call: Call) -> None:
        """Count a request that starts."""
        call.share.starts(call.bound)

    def ends(self, call: Call, spent: RoleSpend | None, *, charged: bool = False) -> None:
        """Count a request's answer; None where it was never sent.

        `charged` is one of which nobody knows what it cost: as much as it could is kept back for good.
        """
        call.share.ends(call.bound, spent)
        if spent is not None:
            self._dearest = max(self._dearest, spent.cost)
        if charged and call.bound.cost is not None:
            self._unsettled += call.bound.cost
        self._waiting.unpark_all()


def draw_on(share: Share | None) -> None:
    """Have the calls of this task, and of the tasks and threads that it starts, draw on a rollout's share."""
    _share.set(share)


def within_call() -> Within[None]:
    """Mark the block as the inside of a request that is under way."""
    return Within(None, (_within_call, True))
