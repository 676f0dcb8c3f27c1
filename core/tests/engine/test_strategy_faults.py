"""A strategy that keeps none of its promises is named; what was found before it is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

import burnish as b
from burnish import Plan, Report, abc
from burnish.errors import PluginBrokenError

from ._search import Tries, program, split, tune


def leave(*_: Any) -> Any:
    """Leave the process, as a plugin must not."""
    raise SystemExit(3)


def as_it_is(given: Any) -> Any:
    """Give it back."""
    return given


class Odd(Tries):
    """Plans and reports what it is told to."""

    def __init__(self, plan: Callable[[Plan], Any] = as_it_is, report: Callable[[Report], Any] = as_it_is) -> None:
        super().__init__("0.5")
        self.odd_plan, self.odd_report = plan, report

    def plan(self, problem: abc.Problem) -> Any:
        return self.odd_plan(super().plan(problem))

    async def compile(self, engine: b.Engine, problem: abc.Problem) -> Any:
        return self.odd_report(await super().compile(engine, problem))


PLANS: dict[str, tuple[Callable[[Plan], Any], str]] = {
    "nothing": (lambda plan: None, "`plan` gave None instead of a burnish.Plan"),
    "a number": (lambda plan: 12, "`plan` gave 12 instead"),
    "below zero": (lambda plan: attrs.evolve(plan, minimum=-1), "`plan` gave minimum=-1, which is no whole number"),
    "half a rollout": (lambda plan: attrs.evolve(plan, rollouts=0.5), "`plan` gave rollouts=0.5, which"),  # type: ignore[arg-type]
    "an exit": (leave, "`plan` raised SystemExit: 3"),
}


@pytest.mark.parametrize("case", PLANS)
def test_a_plan_that_is_none_is_refused_before_anything_is_spent(case: str) -> None:
    """The error names the strategy and what it gave; no rollout ran."""
    answer, why = PLANS[case]
    given = program()
    with pytest.raises(PluginBrokenError, match=f"the strategy `Odd` is broken: {why}"):
        tune(given, Odd(plan=answer), split(train=1, val=2))
    assert 0 == given.ran


REPORTS: dict[str, tuple[Callable[[Report], Any], str]] = {
    "nothing": (lambda report: None, "`compile` gave None instead of a burnish.Report"),
    "the best alone": (lambda report: report.best, "`compile` gave Candidate"),
    "no candidate": (lambda report: attrs.evolve(report, best=1), "`best` is 1 instead of"),  # type: ignore[arg-type]
    "another program's": (
        lambda report: attrs.evolve(report, best=b.Candidate().with_instruction("other", "x")),
        "its report's `best` does not fit the program: predictor `other` not found",
    ),
    "a text as score": (
        lambda report: attrs.evolve(report, best_score="high"),  # type: ignore[arg-type]
        "its report's `best_score` is 'high' instead of a number or None",
    ),
    "an exit": (leave, "`compile` raised SystemExit: 3"),
}


@pytest.mark.parametrize("case", REPORTS)
def test_a_report_that_is_none_ends_the_run_with_what_was_found(case: str) -> None:
    """The error names the strategy and what it gave, and holds the best that was scored."""
    answer, why = REPORTS[case]
    with pytest.raises(PluginBrokenError, match=f"the strategy `Odd` is broken: .*{why}") as caught:
        tune(program(), Odd(report=answer), split(train=1, val=2))
    assert caught.value.result is not None
    assert 0.5 == caught.value.result.best


def test_a_strategy_s_own_exceptions_arrive_as_they_are() -> None:
    """A strategy's author sees where it was raised."""

    def fail(_: Any) -> Any:
        raise ZeroDivisionError("mine")

    for odd in (Odd(plan=fail), Odd(report=fail)):
        with pytest.raises(ZeroDivisionError, match="mine"):
            tune(program(), odd, split(train=1, val=2))
