"""What one run of a program may spend: calls, tokens, time. The search's own budget is `burnish.Budget`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import trio

from burnish.abc import Usage
from burnish.errors import UsageError
from burnish_programs.ir._faults import RunBudgetError


def _cap(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0):
        raise UsageError(f"Budget.{field.name} is a number that is not negative, or None; not {value!r:.80}")


def _count(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise UsageError(f"Budget.{field.name} is a whole number that is not negative, or None; not {value!r:.80}")


@attrs.frozen(kw_only=True)
class Budget:
    """Caps on one run of a program; None is no cap. All runs that get one budget get it each, but for the deadline.

    It counts the calls of the program's leaves, as often as `Retry` has them made. What a hole's function asks by
    itself is not counted, nor is what the model's own retries send again.
    """

    max_lm_calls: int | None = attrs.field(default=None, validator=_count)
    """Never passed, not even by calls that run at once."""
    max_tokens: int | None = attrs.field(default=None, validator=_count)
    """Once so many were used no call starts; the one that reaches it may pass it."""
    deadline: float | None = attrs.field(default=None, validator=_cap)
    """On trio's clock (`trio.current_time() + 30`): from then on no call starts. It ends none that is in flight."""

    @staticmethod
    def unlimited() -> Budget:
        """Give the budget without caps."""
        return UNLIMITED


UNLIMITED = Budget()


class BudgetMeter:
    """Meters one run; with a parent, a part of one, which must fit into both.

    Each call is reserved before it is made, and its tokens are told afterwards. Reserving happens without a checkpoint,
    so that calls which run at once never pass the cap together.
    """

    def __init__(
        self, budget: Budget, parent: BudgetMeter | None = None, *, now: Callable[[], float] = trio.current_time
    ) -> None:
        self.budget, self.parent = budget, parent
        self.lm_calls = 0
        """Calls reserved so far."""
        self.tokens = 0
        """Tokens used so far."""
        self._now = now

    def __repr__(self) -> str:
        return f"<BudgetMeter: {self.lm_calls} calls, {self.tokens} tokens of {self.budget}>"

    def child(self, budget: Budget) -> BudgetMeter:
        """Give a meter whose calls count here, too."""
        return BudgetMeter(budget, self, now=self._now)

    def reserve(self, at: str) -> None:
        """Take one call for the leaf `at`.

        Raises `RunBudgetError` where this meter or one above it has no room; none of them counts the call then. The
        deadline is looked at first, then the tokens, then the calls.
        """
        self._check(at)
        self.lm_calls += 1
        if self.parent is not None:
            try:
                self.parent.reserve(at)
            except RunBudgetError:
                self.lm_calls -= 1
                raise

    def record_usage(self, usage: Usage) -> None:
        """Book what a call used, here and in every meter above."""
        self.tokens += usage.total
        if self.parent is not None:
            self.parent.record_usage(usage)

    def _check(self, at: str) -> None:
        budget = self.budget
        if budget.deadline is not None and self._now() >= budget.deadline:
            raise _refused("deadline", "its deadline has passed", at)
        if budget.max_tokens is not None and self.tokens >= budget.max_tokens:
            raise _refused("max_tokens", f"{self.tokens} tokens of {budget.max_tokens} are used", at)
        if budget.max_lm_calls is not None and self.lm_calls >= budget.max_lm_calls:
            raise _refused("max_lm_calls", f"all {budget.max_lm_calls} calls are used", at)


def _refused(cap: str, why: str, at: str) -> RunBudgetError:
    return RunBudgetError(f"the run's budget refused a call at `{at}`: {why} ({cap})", at=at, cap=cap)
