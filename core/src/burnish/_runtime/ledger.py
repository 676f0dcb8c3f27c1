"""The exact ledger of one run: reserve before, settle after; no call starts that could pass a cap."""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable

import attrs
import trio

from burnish import abc
from burnish._model.budget import Budget, RoleSpend, Spend, Tally
from burnish._runtime.log import log
from burnish.errors import BudgetExceededError, first_line


@attrs.define
class _Lease:
    """What the meter granted: rollouts that are still under way, and how many of them never ran."""

    key: str
    under_way: int
    unused: int = 0


class Ledger:
    """Holds what is spent and what is reserved, and answers whether more fits.

    All checks and reservations happen between two checkpoints, so that no interleaving can admit too much. A shared
    `meter`, where there is one, is asked after the run's own budget, under keys that begin with `run`: a name of this
    ledger's alone, made up where none is given.
    """

    def __init__(
        self,
        budget: Budget,
        *,
        meter: abc.Meter | None = None,
        run: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.budget = budget
        self._meter, self._run, self._clock = meter, run or uuid.uuid4().hex, clock
        self._began = clock()
        self._spent = Tally()
        self._rollouts_reserved = 0
        self._requests_in_flight = 0
        self._set_aside = 0
        self._asked = 0
        self._leases: deque[_Lease] = deque()
        self._told = False

    @property
    def spend(self) -> Spend:
        """Everything settled so far, with the seconds that the run has taken."""
        return attrs.evolve(self._spent.spend, seconds=self._clock() - self._began)

    def _view(self, honour_reserve: bool = True) -> Spend:
        reserved = self._rollouts_reserved + (self._set_aside if honour_reserve else 0)
        spent = self.spend
        return attrs.evolve(
            spent,
            metric_calls=spent.metric_calls + reserved,
            lm_calls=spent.lm_calls + reserved,
            requests=spent.requests + self._requests_in_flight,
        )

    def refusal(self, rollouts: int) -> str | None:
        """Name the cap that so many more rollouts would pass; None if they fit."""
        return None if rollouts == 0 else self.budget.refusal(self._view(), rollouts)

    def room(self) -> int | None:
        """How many more rollouts fit; None for no cap."""
        view = self._view()
        caps = [
            cap - used
            for cap, used in (
                (self.budget.max_metric_calls, view.metric_calls),
                (self.budget.max_lm_calls, view.lm_calls),
            )
            if cap is not None
        ]
        return max(0, min(caps)) if caps else None

    def set_aside(self, rollouts: int) -> None:
        """Keep so many rollouts out of a strategy's reach: the final test needs them."""
        self._set_aside = rollouts

    async def reserve_rollouts(self, count: int) -> str | None:
        """Reserve a block of rollouts, all or none; gives the cap that refused, None when they are reserved."""
        refused = self.refusal(count)
        if refused is not None or count == 0:
            return refused
        self._rollouts_reserved += count
        if self._meter is None:
            return None
        self._asked += 1
        request = abc.Lease(amount=_rollouts(count), key=f"{self._run}:{self._asked}")
        try:
            answer = await self._meter.lease(request)
        except BaseException:
            self._rollouts_reserved -= count
            self._leases.append(_Lease(request.key, 0, unused=count))  # it may have been granted; nobody knows
            raise
        if isinstance(answer, abc.Exhausted):
            self._rollouts_reserved -= count
            return f"meter: {answer.cap}"
        self._leases.append(_Lease(request.key, count))
        return None

    async def hand_back(self) -> None:
        """End the meter's leases whose rollouts are over, so that it takes back what they did not use.

        A lease that is not ended comes back as a whole when its time is over, used or not. A meter that fails is told
        again with the next leases. Cancelled, it still tells, for at most five seconds.
        """
        over = [lease for lease in self._leases if not lease.under_way]
        self._leases = deque(lease for lease in self._leases if lease.under_way)
        while over and self._meter is not None:
            try:
                with trio.fail_after(5, shield=True):
                    await self._meter.release(over[0].key, _rollouts(over[0].unused))
            except Exception as error:
                self._leases.extendleft(reversed(over))
                if not self._told:
                    self._told = True
                    log.warning("the meter did not take a lease back; it will be told again", error=first_line(error))
                return
            del over[0]

    def _end(self, count: int, *, unused: bool) -> None:
        """Take rollouts off the oldest leases: the sums are exact, whichever lease each of them came from."""
        self._rollouts_reserved -= count
        for lease in self._leases:
            ended = min(count, lease.under_way)
            lease.under_way -= ended
            lease.unused += ended if unused else 0
            count -= ended

    def settle_rollout(self, spans: int) -> None:
        """Book a rollout that ran, in place of its reservation. Its requests are booked already, one by one."""
        self._end(1, unused=False)
        self._spent.rollout(spans)

    def release_rollouts(self, count: int) -> None:
        """Give back reservations of rollouts that did not run."""
        self._end(count, unused=True)

    def book(self, spent: Spend) -> None:
        """Book spend that needed no reservation: cache hits, charges."""
        self._spent.add(spent)

    def admit_request(self, role: str) -> None:
        """Reserve one request to a provider. Raises `BudgetExceededError` where it would pass a cap."""
        cap = self.budget.refusal(self._view(honour_reserve=False), requests=1)
        if cap is not None:
            raise BudgetExceededError(
                f"the budget's {cap} leaves no room for one more {role} request; it was not made", cap=cap
            )
        self._requests_in_flight += 1

    def settle_request(self, role: str, spent: RoleSpend) -> None:
        """Book a request that was made, in place of its reservation."""
        self._requests_in_flight -= 1
        self._spent.calls({role: spent})

    def release_request(self) -> None:
        """Give back the reservation of a request that was never sent."""
        self._requests_in_flight -= 1


def _rollouts(count: int) -> abc.Amount:
    return abc.Amount(metric_calls=count, lm_calls=count)
