"""Budget and spend: what may still run, and how spend adds up."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from burnish._model.budget import Budget, RoleSpend, Spend, spend_of_calls
from burnish._model.lm import Usage
from burnish.errors import UsageError

quick = settings(
    derandomize=True, deadline=None, max_examples=40, database=None, suppress_health_check=[HealthCheck.too_slow]
)
small = st.integers(0, 6)
cents = small.map(lambda n: Decimal(n) / 100)
budgets = st.builds(
    Budget,
    max_metric_calls=st.none() | small,
    max_lm_calls=st.none() | small,
    max_requests=st.none() | small,
    max_tokens=st.none() | small,
    max_cost=st.none() | cents,
    max_seconds=st.none() | small.map(float),
)
usages = st.builds(Usage, input_tokens=small, output_tokens=small, cached_tokens=small)
role_spends = st.builds(RoleSpend, requests=small, usage=usages, cost=cents, unpriced=small)
spends = st.builds(
    Spend,
    metric_calls=small,
    lm_calls=small,
    lm_spans=small,
    cache_hits=small,
    tokens=small,
    requests=small,
    cost=cents,
    seconds=small.map(float),
    by_role=st.dictionaries(st.sampled_from(["task", "proposer", "judge"]), role_spends, max_size=3),
)


def test_scenario_18() -> None:
    """Cap 4: allows 4, not 5; at 3 allows 1, not 2; at 10 allows none at all. A token cap counts afterwards."""
    budget = Budget(max_metric_calls=4)
    assert budget.allows(Spend(), 4)
    assert not budget.allows(Spend(), 5)
    assert budget.allows(Spend(metric_calls=3), 1)
    assert not budget.allows(Spend(metric_calls=3), 2)
    assert budget.allows(Spend(metric_calls=10), 0)
    assert not budget.allows(Spend(metric_calls=10), 1)
    assert Budget(max_tokens=100).allows(Spend(tokens=0), 1)
    assert Budget(max_tokens=100).allows(Spend(tokens=99), 1000)
    assert not Budget(max_tokens=100).allows(Spend(tokens=100), 1)


def test_lm_calls_are_the_units_of_the_seed() -> None:
    """One a rollout plus what is charged, checked ahead: scenario 7's arithmetic (E28, E30)."""
    budget = Budget(max_lm_calls=5)
    assert budget.allows(Spend(lm_calls=3), 2)
    assert not budget.allows(Spend(lm_calls=3) + Spend(lm_calls=2), 1)


def test_no_cap_is_unlimited() -> None:
    """None is no cap, and the default has none (E26)."""
    assert Budget() == Budget.unlimited()
    assert Budget().is_unlimited
    assert Budget().allows(Spend(metric_calls=10**12, tokens=10**12, cost=Decimal(10**6)), 10**9)
    assert not Budget(max_seconds=5).is_unlimited


@pytest.mark.parametrize(
    ("budget", "spend", "cap"),
    [
        (Budget(max_metric_calls=0), Spend(), "max_metric_calls"),
        (Budget(max_lm_calls=1), Spend(lm_calls=1), "max_lm_calls"),
        (Budget(max_requests=3), Spend(requests=3), "max_requests"),
        (Budget(max_tokens=7), Spend(tokens=8), "max_tokens"),
        (Budget(max_cost=Decimal("0.10")), Spend(cost=Decimal("0.1")), "max_cost"),
        (Budget(max_seconds=1.5), Spend(seconds=1.5), "max_seconds"),
        (Budget(max_metric_calls=0, max_tokens=0), Spend(), "max_metric_calls"),
    ],
)
def test_a_refusal_names_its_cap(budget: Budget, spend: Spend, cap: str) -> None:
    """Each cap refuses by its own name, the first one first (E26, E30)."""
    assert cap == budget.refusal(spend, 1)


def test_requests_are_checked_apart_from_rollouts() -> None:
    """A proposer's request needs no room for a rollout, a rollout needs room for one request."""
    budget = Budget(max_metric_calls=2, max_requests=3)
    assert budget.refusal(Spend(metric_calls=2, requests=2), requests=1) is None
    assert "max_requests" == budget.refusal(Spend(requests=2), requests=2)
    assert budget.allows(Spend(requests=2), 2)
    assert not budget.allows(Spend(requests=3), 1)


@quick
@given(budgets, spends, small)
def test_allowed_rollouts_pass_no_cap(budget: Budget, spend: Spend, rollouts: int) -> None:
    """`allows` is true exactly where no cap would be passed and none is used up; no rollouts always fit (E26)."""

    def room(cap: Any, used: Any, more: int) -> bool:
        return cap is None or used + more <= cap

    fits = (
        room(budget.max_metric_calls, spend.metric_calls, rollouts)
        and room(budget.max_lm_calls, spend.lm_calls, rollouts)
        and room(budget.max_requests, spend.requests, 1)
        and (budget.max_tokens is None or spend.tokens < budget.max_tokens)
        and (budget.max_cost is None or spend.cost < budget.max_cost)
        and (budget.max_seconds is None or spend.seconds < budget.max_seconds)
    )
    assert (rollouts == 0 or fits) == budget.allows(spend, rollouts)


@pytest.mark.parametrize("name", ["max_metric_calls", "max_lm_calls", "max_requests", "max_tokens"])
@pytest.mark.parametrize("cap", [-1, True, "5", float("nan"), [1], 2.5, float("inf")])
def test_a_cap_that_is_none_is_refused(name: str, cap: Any) -> None:
    """A wrong cap is a usage error that names it, before anything is spent; there are no parts of a call."""
    with pytest.raises(UsageError, match=f"{name} must be a whole number from 0 on"):
        Budget(**{name: cap})


def test_seconds_may_be_parts_of_one() -> None:
    """Time is no count; text and negative times are refused."""
    assert 2.5 == Budget(max_seconds=2.5).max_seconds
    for wrong in (-0.5, "5", float("nan")):
        with pytest.raises(UsageError, match="max_seconds must be a number from 0 on"):
            Budget(max_seconds=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("cap", ["-1", "NaN", -0.5, float("nan"), "much", True])
def test_a_cap_in_money_is_checked_too(cap: Any) -> None:
    """Also a decimal that is no number."""
    with pytest.raises(UsageError, match=r"max_cost|amount of money"):
        Budget(max_cost=cap)


def test_money_is_decimal() -> None:
    """A cap given as a float or as text is the amount that it shows; ten times ten cents is a dollar (R11)."""
    assert Decimal("0.1") == Budget(max_cost=0.1).max_cost == Budget(max_cost="0.1").max_cost
    total = sum((Spend(cost=Decimal("0.1")) for _ in range(10)), Spend())
    assert Decimal("1.0") == total.cost


@quick
@given(spends, spends, spends)
def test_spend_adds_up_in_any_order(a: Spend, b: Spend, c: Spend) -> None:
    """Adding is exact, commutative and associative, by role too, and nothing added is nothing (E28)."""
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a == a + Spend() == Spend() + a
    assert a.metric_calls + b.metric_calls == (a + b).metric_calls
    for role in ("task", "proposer", "judge"):
        none = RoleSpend()
        assert a.by_role.get(role, none) + b.by_role.get(role, none) == (a + b).by_role.get(role, none)


def test_spend_of_calls_totals_the_roles() -> None:
    """Requests, tokens and money of model calls, and no metric call and no unit (E28, E30)."""
    usage = Usage(input_tokens=10, output_tokens=2, cached_tokens=8)
    by_role = {
        "task": RoleSpend(requests=3, usage=usage, cost=Decimal("0.2")),
        "judge": RoleSpend(requests=1, usage=Usage(input_tokens=5), cost=Decimal("0.05"), unpriced=1),
    }
    spend = spend_of_calls(by_role)
    assert Spend(requests=4, tokens=17, cost=Decimal("0.25"), by_role=by_role) == spend
    assert ["judge", "task"] == list(spend.by_role)


def test_spend_is_frozen() -> None:
    """A spend that was handed out cannot be changed, by role neither."""
    spend: Any = Spend(by_role={"task": RoleSpend(requests=1)})
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        spend.tokens = 5
    with pytest.raises(TypeError):
        spend.by_role["task"] = RoleSpend()
