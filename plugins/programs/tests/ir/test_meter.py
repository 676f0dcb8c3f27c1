"""The budget of one run: what it refuses, in which order, and who else has to agree."""

from __future__ import annotations

import pytest
import trio.testing

from burnish.abc import Usage
from burnish.errors import BudgetExceededError, EvaluationError, UsageError
from burnish_programs.ir._faults import RunBudgetError
from burnish_programs.ir._meter import Budget, BudgetMeter


def refusal(meter: BudgetMeter, at: str = "leaf") -> str:
    """Reserve a call, and name the cap that refused it."""
    with pytest.raises(RunBudgetError) as caught:
        meter.reserve(at)
    assert at == caught.value.at
    return caught.value.cap


def test_without_caps_nothing_is_refused() -> None:
    """An unlimited meter counts calls and tokens."""
    meter = BudgetMeter(Budget.unlimited())
    for _ in range(3):
        meter.reserve("leaf")
        meter.record_usage(Usage(input_tokens=40, output_tokens=2))
    assert (3, 126) == (meter.lm_calls, meter.tokens)


def test_calls_are_never_passed() -> None:
    """Scenario 70, in small: of a budget of 1 call the second is refused, at the leaf that wanted it."""
    meter = BudgetMeter(Budget(max_lm_calls=1))
    meter.reserve("first")
    assert "max_lm_calls" == refusal(meter, "second")
    assert 1 == meter.lm_calls
    assert "max_lm_calls" == refusal(BudgetMeter(Budget(max_lm_calls=0)))


def test_tokens_may_be_passed_once() -> None:
    """A call may pass the cap on tokens; the next one is refused, at the cap already."""
    meter = BudgetMeter(Budget(max_tokens=10))
    meter.reserve("leaf")
    meter.record_usage(Usage(input_tokens=9))
    meter.reserve("leaf")
    meter.record_usage(Usage(output_tokens=50))
    assert ("max_tokens", 59, 2) == (refusal(meter), meter.tokens, meter.lm_calls)
    exact = BudgetMeter(Budget(max_tokens=10))
    exact.record_usage(Usage(input_tokens=10))
    assert "max_tokens" == refusal(exact)


def test_the_deadline_comes_first_then_tokens_then_calls() -> None:
    """Where several caps are hit, the first of this order is named; a deadline is hit at its very moment."""
    now = [1.0]
    meter = BudgetMeter(Budget(max_lm_calls=0, max_tokens=0, deadline=2.0), now=lambda: now[0])
    assert "max_tokens" == refusal(meter)
    now[0] = 2.0
    assert "deadline" == refusal(meter)
    assert "max_lm_calls" == refusal(BudgetMeter(Budget(max_lm_calls=0, max_tokens=1)))


async def test_the_deadline_is_on_trios_clock(autojump_clock: trio.testing.MockClock) -> None:
    """A call may start until the deadline, and none from then on."""
    meter = BudgetMeter(Budget(deadline=trio.current_time() + 5))
    await trio.sleep(4.9)
    meter.reserve("leaf")
    await trio.sleep(0.1)
    assert "deadline" == refusal(meter)


def test_a_child_asks_its_parent() -> None:
    """A call of a part counts in the whole; what the whole refuses is not counted in the part either."""
    run = BudgetMeter(Budget(max_lm_calls=2))
    agent = run.child(Budget(max_lm_calls=5))
    inner = agent.child(Budget())
    inner.reserve("leaf")
    run.reserve("other")
    assert "max_lm_calls" == refusal(inner)
    assert (2, 1, 1) == (run.lm_calls, agent.lm_calls, inner.lm_calls)


def test_a_child_that_refuses_asks_nobody() -> None:
    """The part's own caps come first: the whole does not count a call that the part has no room for."""
    run = BudgetMeter(Budget(max_lm_calls=2))
    agent = run.child(Budget(max_lm_calls=0))
    assert "max_lm_calls" == refusal(agent)
    assert (0, 0) == (run.lm_calls, agent.lm_calls)


def test_usage_reaches_every_meter_above() -> None:
    """Tokens of a part are tokens of each whole that it is in."""
    run = BudgetMeter(Budget(max_tokens=3))
    inner = run.child(Budget()).child(Budget())
    inner.record_usage(Usage(input_tokens=2, output_tokens=1))
    assert (3, 3) == (run.tokens, inner.tokens)
    assert "max_tokens" == refusal(inner)
    assert (0, 0) == (run.lm_calls, inner.lm_calls)


def test_the_error_is_not_the_searchs() -> None:
    """A run that ran out of its own budget failed; it is not the search's budget that refused (E51, WE)."""
    assert issubclass(RunBudgetError, EvaluationError)
    assert not issubclass(RunBudgetError, BudgetExceededError)
    with pytest.raises(RunBudgetError) as caught:
        BudgetMeter(Budget(max_lm_calls=1, max_tokens=0)).reserve("answer")
    assert "the run's budget refused a call at `answer`: 0 tokens of 0 are used (max_tokens)" == str(caught.value)


@pytest.mark.parametrize("cap", ["max_lm_calls", "max_tokens", "deadline"])
@pytest.mark.parametrize("wrong", [-1, True, "3", float("nan"), -1.5])
def test_a_cap_is_a_number(cap: str, wrong: object) -> None:
    """What is no number of at least 0 is refused by name."""
    with pytest.raises(UsageError, match=f"Budget.{cap} is a (whole )?number that is not negative"):
        Budget(**{cap: wrong})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"Budget\.max_tokens is a whole number"):
        Budget(max_tokens=1.5)  # type: ignore[arg-type]
