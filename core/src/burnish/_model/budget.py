"""What a search may spend, and what it has spent (seed 000; E26-E30)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import attrs

from burnish._model.lm import Usage
from burnish._model.portable import Portable
from burnish.errors import UsageError

ZERO = Decimal(0)


def _money(value: Any) -> Decimal | None:
    if value is None or isinstance(value, Decimal):
        return value
    try:
        return Decimal(str(value))
    except ArithmeticError:
        raise UsageError(f"{value!r} is not an amount of money") from None


def _from_zero(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return False
    return not math.isnan(value) and value >= 0


def _cap(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not _from_zero(value):
        raise UsageError(f"{attribute.name} must be a number from 0 on, or None for no cap; it is {value!r}")


def _count(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not (isinstance(value, int) and _from_zero(value)):
        raise UsageError(f"{attribute.name} must be a whole number from 0 on, or None for no cap; it is {value!r}")


@attrs.frozen(kw_only=True)
class Budget:
    """Hard caps; None is no cap."""

    max_metric_calls: int | None = attrs.field(default=None, validator=_count)
    """Rollouts that run (served ones are free)."""
    max_lm_calls: int | None = attrs.field(default=None, validator=_count)
    """The seed's unit: one a rollout, however many calls it makes, plus what is charged."""
    max_requests: int | None = attrs.field(default=None, validator=_count)
    """Requests to model providers: every role, retries included."""
    max_tokens: int | None = attrs.field(default=None, validator=_count)
    """Tokens of all roles. Where replies have a bound, no call starts that could pass it: prompt and reply are reserved
    beforehand. Else no call starts once this many are recorded, so that what is in flight may pass it."""
    max_cost: Decimal | None = attrs.field(default=None, converter=_money, validator=_cap)
    """US dollars. The most that a call can cost (prompt, bound of the reply, the model's prices) is reserved before it
    starts, so that none starts that could pass the cap; `optimize` refuses the cap where a model's prices or bound are
    unknown. In an engine by itself a model without prices whose answers say their cost is taken for as dear as the
    dearest so far, and may pass it by what a call is dearer than all before; one that says none ends the run."""
    max_seconds: float | None = attrs.field(default=None, validator=_cap)
    """From the start of the search to the end of the test, of which the test's share is the last fifth where `optimize`
    has test rows. What is in flight when the search's time is over is cancelled, what has landed stays, and the test
    runs; when its time is over too, there is none. Sync code cannot be cancelled: after five seconds it is left behind.
    An engine by itself starts no rollout after this time, and cancels none."""

    @classmethod
    def unlimited(cls) -> Budget:
        """No cap at all."""
        return cls()

    @property
    def is_unlimited(self) -> bool:
        """Whether nothing is capped."""
        return self == Budget()

    def allows(self, spend: Spend, upcoming_rollouts: int) -> bool:
        """Say whether so many more rollouts fit; none at all always fit (E26)."""
        return upcoming_rollouts == 0 or self.refusal(spend, upcoming_rollouts) is None

    def refusal(self, spend: Spend, rollouts: int = 0, requests: int = 0) -> str | None:
        """Name the first cap that so many more rollouts or requests would pass; None if they fit.

        Calls are checked ahead (spent + upcoming within the cap), tokens and money afterwards (refused once the
        recorded amount has reached the cap). How many requests a rollout makes is not known ahead: it needs room for
        one.
        """
        ahead = (
            ("max_metric_calls", self.max_metric_calls, spend.metric_calls, rollouts),
            ("max_lm_calls", self.max_lm_calls, spend.lm_calls, rollouts),
            ("max_requests", self.max_requests, spend.requests, max(requests, min(rollouts, 1))),
        )
        for name, cap, used, more in ahead:
            if cap is not None and more > 0 and used + more > cap:
                return name
        if self.max_tokens is not None and spend.tokens >= self.max_tokens:
            return "max_tokens"
        if self.max_cost is not None and spend.cost >= self.max_cost:
            return "max_cost"
        if self.max_seconds is not None and spend.seconds >= self.max_seconds:
            return "max_seconds"
        return None


@attrs.frozen(kw_only=True)
class RoleSpend:
    """What the calls of one role (task, proposer, judge) have cost."""

    requests: int = 0
    usage: Usage = Usage()
    cost: Decimal = ZERO
    unpriced: int = 0
    """Requests whose price nobody knows; they are not in `cost`."""

    def __add__(self, other: RoleSpend) -> RoleSpend:
        return RoleSpend(
            requests=self.requests + other.requests,
            usage=self.usage + other.usage,
            cost=self.cost + other.cost,
            unpriced=self.unpriced + other.unpriced,
        )


_NO_ROLES: Mapping[str, RoleSpend] = MappingProxyType({})


def _roles(value: Mapping[str, RoleSpend]) -> Mapping[str, RoleSpend]:
    if not value:
        return _NO_ROLES
    return MappingProxyType({k: value[k] for k in sorted(value)})


@attrs.frozen(kw_only=True)
class Spend(Portable):
    """What has been spent. `a + b` adds up."""

    metric_calls: int = 0
    """Rollouts that ran."""
    lm_calls: int = 0
    """One a rollout that ran, plus charges: the seed's unit."""
    lm_spans: int = 0
    """Predictor calls seen in traces, failed ones too."""
    cache_hits: int = 0
    """Rollouts that were served."""
    tokens: int = 0
    """Input and output tokens, all roles."""
    requests: int = 0
    """Requests to providers, all roles, retries included."""
    cost: Decimal = ZERO
    seconds: float = 0.0
    by_role: Mapping[str, RoleSpend] = attrs.field(factory=dict, converter=_roles)

    def __add__(self, other: Spend) -> Spend:
        roles: Mapping[str, RoleSpend] = self.by_role
        if other.by_role:
            roles = dict(roles)
            for name, more in other.by_role.items():
                roles[name] = roles[name] + more if name in roles else more
        return Spend(
            metric_calls=self.metric_calls + other.metric_calls,
            lm_calls=self.lm_calls + other.lm_calls,
            lm_spans=self.lm_spans + other.lm_spans,
            cache_hits=self.cache_hits + other.cache_hits,
            tokens=self.tokens + other.tokens,
            requests=self.requests + other.requests,
            cost=self.cost + other.cost,
            seconds=self.seconds + other.seconds,
            by_role=roles,
        )


def spend_of_calls(by_role: Mapping[str, RoleSpend]) -> Spend:
    """Give the spend of model calls alone: requests, tokens and money, in total and by role."""
    if not by_role:
        return Spend()
    return Spend(
        tokens=sum(r.usage.total for r in by_role.values()),
        requests=sum(r.requests for r in by_role.values()),
        cost=sum((r.cost for r in by_role.values()), ZERO),
        by_role=by_role,
    )


class _Calls:
    """The calls of one role, as plain numbers that are added to in place."""

    __slots__ = ("_cached", "_cost", "_input", "_output", "_requests", "_unpriced")

    def __init__(self) -> None:
        self._requests = self._input = self._output = self._cached = self._unpriced = 0
        self._cost = ZERO

    def add(self, spent: RoleSpend) -> None:
        """Add some."""
        usage = spent.usage
        self._requests += spent.requests
        self._input += usage.input_tokens
        self._output += usage.output_tokens
        self._cached += usage.cached_tokens
        self._unpriced += spent.unpriced
        if spent.cost:
            self._cost += spent.cost

    @property
    def spend(self) -> RoleSpend:
        """The sum."""
        usage = Usage(input_tokens=self._input, output_tokens=self._output, cached_tokens=self._cached)
        return RoleSpend(requests=self._requests, usage=usage, cost=self._cost, unpriced=self._unpriced)


class Tally:
    """A running total: what `Spend + Spend` gives, for those who add thousands of times and look rarely."""

    def __init__(self) -> None:
        self._metric_calls = self._lm_calls = self._lm_spans = self._cache_hits = 0
        self._roles: dict[str, _Calls] = {}
        self._rest = Spend()

    def rollout(self, spans: int) -> None:
        """Add one rollout that ran."""
        self._metric_calls += 1
        self._lm_calls += 1
        self._lm_spans += spans

    def hit(self) -> None:
        """Add one rollout that was served."""
        self._cache_hits += 1

    def add(self, spend: Spend) -> None:
        """Add anything."""
        self._rest += spend

    def call(self, role: str, spent: RoleSpend) -> None:
        """Add model calls of one role."""
        known = self._roles.get(role)
        if known is None:
            known = self._roles[role] = _Calls()
        known.add(spent)

    def calls(self, by_role: Mapping[str, RoleSpend]) -> None:
        """Add model calls."""
        for role, spent in by_role.items():
            self.call(role, spent)

    @property
    def spend(self) -> Spend:
        """The total."""
        by_role = {role: calls.spend for role, calls in self._roles.items()}
        counts = Spend(
            metric_calls=self._metric_calls,
            lm_calls=self._lm_calls,
            lm_spans=self._lm_spans,
            cache_hits=self._cache_hits,
        )
        return self._rest + counts + spend_of_calls(by_role)
