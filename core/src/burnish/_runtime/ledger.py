"""The exact ledger of one run: reserve before, settle after; no call starts that could pass a cap."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Hashable
from decimal import Decimal

import attrs

from burnish import abc
from burnish._model.budget import Budget, RoleSpend, Spend, Tally, spend_of_calls
from burnish._model.events import CallLanded, Event, Lost, RolloutLanded
from burnish._model.state import tally_event
from burnish._runtime.leases import Leases
from burnish._runtime.rations import NOTHING, UNBOUNDED, Bound, Call, Need, Rations, Share
from burnish.errors import BudgetExceededError


class Ledger:
    """Holds what is spent and what is reserved, and answers whether more fits.

    All checks and reservations happen between two checkpoints, so that no interleaving can admit too much. A shared
    `meter`, where there is one, is asked after the run's own budget, under keys that begin with `run`: a name of this
    ledger's alone, made up where none is given. A run that begins again has taken `seconds` already.
    """

    def __init__(
        self,
        budget: Budget,
        *,
        meter: abc.Meter | None = None,
        run: str = "",
        clock: Callable[[], float] = time.monotonic,
        seconds: float = 0.0,
    ) -> None:
        self.budget = budget
        self._leases = Leases(meter, run or uuid.uuid4().hex, clock)
        self._clock = clock
        self._began = clock() - seconds
        self._spent = Tally()
        self._rollouts_reserved = 0
        self._requests_in_flight = 0
        self._rations = Rations(budget)
        self._set_aside = 0
        self._aside = NOTHING

    @property
    def spend(self) -> Spend:
        """Everything settled so far, with the seconds that the run has taken."""
        spent = self._spent.spend
        return attrs.evolve(spent, seconds=spent.seconds + self._clock() - self._began)

    @property
    def rations(self) -> bool:
        """Whether requests, tokens or money are capped, so that each rollout is given a share before it starts."""
        return self._rations.active

    def _view(self, *, aside: bool = True, held: Need = NOTHING) -> Spend:
        """Give the spend as if all that is reserved were spent: `held`, and what the final test needs."""
        set_aside = self._set_aside if aside else 0
        need = held + self._aside if set_aside and self._rations.active else held
        rollouts = self._rollouts_reserved + set_aside
        spent = self.spend
        return attrs.evolve(
            spent,
            metric_calls=spent.metric_calls + rollouts,
            lm_calls=spent.lm_calls + rollouts,
            requests=spent.requests + self._requests_in_flight + need.requests,
            tokens=spent.tokens + need.tokens,
            cost=spent.cost + need.cost,
        )

    def refusal(self, rollouts: int) -> str | None:
        """Name the cap that so many more rollouts would pass; None if they fit.

        Of requests, tokens and money there must be enough for all at the least that a rollout has needed so far, and
        for one at the most; `ration` decides on each when its turn comes.
        """
        if rollouts == 0:
            return None
        view, rations = self._view(), self._rations
        return self.budget.refusal(view, rollouts) or self._too_dear(
            view, rations.bound.most(rations.least * rollouts)
        )

    def _too_dear(self, view: Spend, need: Need) -> str | None:
        """Name the cap on requests, tokens or money that so much more would pass."""
        budget = self.budget
        for name, cap, total in (
            ("max_requests", budget.max_requests, view.requests + max(1, need.requests)),
            ("max_tokens", budget.max_tokens, view.tokens + need.tokens),
            ("max_cost", budget.max_cost, view.cost + need.cost),
        ):
            if cap is not None and total > cap:
                return name
        return None

    def room(self) -> int | None:
        """How many more rollouts fit; None for no cap. Under a cap on requests, if each needs the most so far."""
        scarcest = self.scarcest()
        return None if scarcest is None else scarcest[0]

    def scarcest(self) -> tuple[int, str] | None:
        """Give `room` with the cap that it comes from."""
        view = self._view(held=self._rations.held())
        caps = [
            (max(0, (cap - used) // each), name)
            for name, cap, used, each in (
                ("max_metric_calls", self.budget.max_metric_calls, view.metric_calls, 1),
                ("max_lm_calls", self.budget.max_lm_calls, view.lm_calls, 1),
                ("max_requests", self.budget.max_requests, view.requests, max(1, self._rations.bound.requests)),
            )
            if cap is not None
        ]
        return min(caps, key=lambda found: found[0], default=None)

    def familiar(self, kind: Hashable) -> bool:
        """Whether it is known what a candidate's rollouts need of what is capped."""
        return not self._rations.active or self._rations.familiar(kind)

    def revise(self) -> None:
        """Set aside for the final test what its rollouts need as far as is known now.

        Not while rollouts are in flight: what is known then depends on which of them ended first.
        """
        if not self._rations.busy:
            usual = self._rations.usual
            self._aside = usual * self._set_aside + self._rations.bound.less(usual)

    async def ration(self, kind: Hashable) -> Share | str:
        """Reserve for one rollout of a candidate that is about to start; `Rations` says how much.

        Gives its share, or the cap that refuses it. What does not fit beside the rollouts and calls in flight waits for
        them, first in, first out, so that the answer does not depend on how many run at once. Cancelled, it has no
        share.
        """
        rations = self._rations
        async with rations.turn:
            while True:
                alone = not rations.busy
                times = 1 if alone else rations.beside(kind)
                if times is not None:
                    view = self._view(held=rations.held())
                    cap = self.budget.refusal(view, requests=1) or self._too_dear(view, rations.bound * times)
                    if cap is None:
                        return rations.open(kind, rations.usual * times)
                    if alone and not rations.in_flight:
                        return cap
                await rations.wait_settled()

    def end_ration(self, share: Share, *, conclusive: bool) -> None:
        """End the share of a rollout that is over; `conclusive` where it did all that a rollout does."""
        self._rations.close(share, conclusive=conclusive)

    def set_aside(self, rollouts: int) -> None:
        """Keep so many rollouts out of a strategy's reach: the final test needs them."""
        self._set_aside = rollouts
        self.revise()

    async def reserve_rollouts(self, count: int, *, granted: bool = False) -> str | None:
        """Reserve a block of rollouts, all or none; gives the cap that refused, None when they are reserved.

        What was `granted` in the run's earlier life is not refused now: as its rollouts start, each meets the caps.
        Raises `RunStoppedError` where the meter fails: nothing is reserved then, and what it may have granted is given
        back later. Cancelled, likewise.
        """
        refused = None if granted else self.refusal(count)
        if refused is not None or count == 0:
            return refused
        self._rollouts_reserved += count
        refused = "cancelled"
        try:
            refused = await self._leases.lease(count)
        finally:
            if refused is not None:
                self._rollouts_reserved -= count
        return refused

    @property
    def leased(self) -> bool:
        """Whether the meter holds leases of this run."""
        return self._leases.held

    async def renew(self) -> None:
        """Renew what the meter leased: whenever a rollout ends."""
        await self._leases.renew()

    async def hand_back(self) -> None:
        """Give the meter back what the rollouts that are over did not use."""
        await self._leases.hand_back()

    def _end(self, count: int, *, unused: bool) -> None:
        self._rollouts_reserved -= count
        self._leases.end(count, unused=unused)

    def settle_rollout(self, spans: int) -> None:
        """Book a rollout that ran, in place of its reservation. Its requests are booked already, one by one."""
        self._end(1, unused=False)
        self._spent.rollout(spans)

    def release_rollouts(self, count: int) -> None:
        """Give back reservations of rollouts that did not run."""
        self._end(count, unused=True)

    def replay(self, event: Event, kind: Callable[[int], Hashable]) -> None:
        """Book what an event of the run's earlier life cost, and learn of it what it showed then.

        `kind` gives what a candidate's rollouts are known by.
        """
        tally_event(self._spent, event)
        if isinstance(event, RolloutLanded) and event.source == "live" and self._rations.active:
            share, room = self._rations.open(kind(event.candidate), NOTHING), event.room
            share.book(spend_of_calls(event.record.calls))
            share.peak = share.peak.most(Need(room.requests, room.tokens, room.cost))
            self._rations.close(share, conclusive=event.record.telling)
        if isinstance(event, (RolloutLanded, CallLanded, Lost)):
            self._rations.keep_back(event.held)

    @property
    def kept_back(self) -> Decimal:
        """Money kept back for calls that may have been charged, though nobody said what."""
        return self._rations.kept_back

    def keep_back(self, cost: Decimal) -> None:
        """Keep back what was kept back in the run's earlier life."""
        self._rations.keep_back(cost)

    def hit(self) -> None:
        """Book a rollout that was served."""
        self._spent.hit()

    def book(self, spent: Spend) -> None:
        """Book spend that needed no reservation: charges, what was lost."""
        self._spent.add(spent)

    async def admit_request(self, role: str, bound: Bound = UNBOUNDED) -> Call:
        """Reserve one request to a provider. Raises `BudgetExceededError` where it would pass a cap.

        What does not fit beside what is in flight waits for it, first in, first out, and is refused when it does not
        fit then either. Cancelled while it waits, it has reserved nothing.
        """
        rations = self._rations
        call = rations.call(bound)
        cap, inside = self._refusal_of(call), rations.inside(call)
        if cap is None:
            waits = inside and rations.active and rations.calls.locked() and not rations.nested
        else:
            waits = rations.may_pass(call, cap)
        if not waits:
            return self._begin(role, call, cap)
        async with rations.calls if inside else rations.turn:
            while (cap := self._refusal_of(call)) is not None and rations.may_pass(call, cap):
                await rations.wait_settled()
            return self._begin(role, call, cap)

    def admit_request_nowait(self, role: str, bound: Bound = UNBOUNDED) -> Call:
        """Do `admit_request` without waiting: what does not fit now is refused."""
        call = self._rations.call(bound)
        return self._begin(role, call, self._refusal_of(call))

    def _refusal_of(self, call: Call) -> str | None:
        """Name the cap that a request would pass; None if it fits.

        A rollout's request draws on its share; one beyond it must fit beside the shares of all others, and each beside
        the bounds of all requests under way.
        """
        rations = self._rations
        if not rations.active:  # a single request can pass no other cap then
            return None if self.budget.max_seconds is None else self.budget.refusal(self.spend, requests=1)
        view = self._view(aside=not rations.inside(call), held=rations.held(but=call.share))
        return self.budget.refusal(view, requests=1) or self._too_dear(view, rations.need(call))

    def _begin(self, role: str, call: Call, cap: str | None) -> Call:
        if cap is not None:
            raise BudgetExceededError(
                f"the budget's {cap} leaves no room for one more {role} request; it was not made", cap=cap
            )
        self._requests_in_flight += 1
        if self._rations.active:
            self._rations.starts(call)
        return call

    def settle_request(self, call: Call, role: str, spent: RoleSpend, *, charged: bool = False) -> None:
        """Book a request that was made, in place of its reservation.

        `charged` is one that the provider may have charged, though nobody said what.
        """
        self._requests_in_flight -= 1
        if self._rations.active:
            self._rations.ends(call, spent, charged=charged)
        self._spent.call(role, spent)

    def release_request(self, call: Call) -> None:
        """Give back the reservation of a request that was never sent."""
        self._requests_in_flight -= 1
        if self._rations.active:
            self._rations.ends(call, None)
