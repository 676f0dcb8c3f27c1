"""What a plan says of budgets."""

from __future__ import annotations

from burnish import Plan


def test_a_plan_says_what_a_budget_buys() -> None:
    """Nothing below one round, one candidate for it, all of them for all of it, and evenly in between."""
    plan = Plan(rollouts=100, candidates=9, minimum=20)
    assert [0, 0, 1, 1, 2, 5, 8, 9, 9] == [plan.buys(n) for n in (0, 19, 20, 29, 30, 60, 99, 100, 500)]


def test_a_plan_of_one_round_or_of_none_buys_that() -> None:
    """No division by what lies between them."""
    assert [0, 1] == [Plan(rollouts=20, candidates=1, minimum=20).buys(n) for n in (19, 20)]
    assert 0 == Plan(rollouts=0).buys(5)
    assert 0 == Plan(rollouts=9, candidates=0, minimum=1).buys(4)
