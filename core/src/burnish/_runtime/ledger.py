"""The exact ledger of one run: reserve before, settle after; no call starts that could pass a cap."""

from __future__ import annotations

import time
from collections.abc import Callable

import attrs

from burnish import abc
from burnish._model.budget import Budget, RoleSpend, Spend
from burnish.errors import BudgetExceededError


class Ledger:
    """Holds what is spent and what is reserved, and answers whether more fits.

    All checks and reservations happen between two checkpoints, so that no interleaving can admit too much. A shared
    `meter`, where there is one, is asked after the run's own budget.
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
        self._meter, self._run, self._clock = meter, run, clock
        self._began = clock()
        self._spent = Spend()
        self._rollouts_reserved = 0
        self._requests_in_flight = 0
        self._set_aside = 0
        self._leases = 0

    @property
    def spend(self) -> Spend:
        """Everything settled so far, with the seconds that the run has taken."""
        return attrs.evolve(self._spent, seconds=self._clock() - self._began)

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
        self._leases += 1
        request = abc.Lease(amount=abc.Amount(metric_calls=count, lm_calls=count), key=f"{self._run}:{self._leases}")
        try:
            answer = await self._meter.lease(request)
        except BaseException:
            self._rollouts_reserved -= count
            raise
        if isinstance(answer, abc.Exhausted):
            self._rollouts_reserved -= count
            return f"meter: {answer.cap}"
        return None

    def settle_rollout(self, spent: Spend) -> None:
        """Book a rollout that ran, in place of its reservation. Its requests are booked already, one by one."""
        self._rollouts_reserved -= 1
        self._spent += Spend(metric_calls=spent.metric_calls, lm_calls=spent.lm_calls, lm_spans=spent.lm_spans)

    def release_rollouts(self, count: int) -> None:
        """Give back reservations of rollouts that did not run."""
        self._rollouts_reserved -= count

    def book(self, spent: Spend) -> None:
        """Book spend that needed no reservation: cache hits, charges."""
        self._spent += spent

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
        self._spent += Spend(
            tokens=spent.usage.total, requests=spent.requests, cost=spent.cost, by_role={role: spent}
        )

    def release_request(self) -> None:
        """Give back the reservation of a request that was never sent."""
        self._requests_in_flight -= 1
