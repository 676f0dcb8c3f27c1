"""Asking a strategy: what it gives is looked at, and what it does not keep is said by its name."""

from __future__ import annotations

from typing import Any

from burnish import abc
from burnish._model.candidate import Candidate
from burnish._model.report import Plan, Report
from burnish._runtime.blame import stops
from burnish._runtime.engine import Engine
from burnish._runtime.owed import shown
from burnish._runtime.target import check_candidate
from burnish.errors import BurnishError, PluginBrokenError, first_line


def plan_of(strategy: abc.Strategy, problem: abc.Problem) -> Plan:
    """Ask a strategy what it may ask at most. Raises `PluginBrokenError` where that is no plan."""
    try:
        plan: Any = strategy.plan(problem)
    except BaseException as error:
        meant = _meant(strategy, "plan", error)
        if meant is error:
            raise
        raise meant from error
    if not isinstance(plan, Plan):
        raise _broken(strategy, f"`plan` gave {shown(plan)} instead of a burnish.Plan")
    for name in ("rollouts", "proposer_calls", "candidates", "minimum"):
        number: Any = getattr(plan, name)
        if not isinstance(number, int) or number < 0:
            raise _broken(strategy, f"`plan` gave {name}={shown(number)}, which is no whole number from 0 on")
    return plan


async def report_of(strategy: abc.Strategy, engine: Engine, problem: abc.Problem) -> Report:
    """Have a strategy search. Raises `PluginBrokenError` where it gives no report of a candidate of the program.

    Its own exceptions arrive as they are; an exit, which would end the process, is its failure like any other.
    """
    try:
        report: Any = await strategy.compile(engine, problem)
    except BaseException as error:
        meant = _meant(strategy, "compile", error)
        if meant is error:
            raise
        raise meant from error
    if not isinstance(report, Report):
        raise _broken(strategy, f"`compile` gave {shown(report)} instead of a burnish.Report")
    if not isinstance(report.best, Candidate):
        raise _broken(strategy, f"its report's `best` is {shown(report.best)} instead of a burnish.Candidate")
    try:
        check_candidate(engine._target, report.best)
    except BurnishError as error:
        raise _broken(strategy, f"its report's `best` does not fit the program: {error}") from error
    for name in ("baseline_score", "best_score"):
        score: Any = getattr(report, name)
        if not isinstance(score, (int, float, type(None))):
            raise _broken(strategy, f"its report's `{name}` is {shown(score)} instead of a number or None")
    return report


def _meant(strategy: Any, method: str, error: BaseException) -> BaseException:
    """Give what an error of a strategy means to the run."""
    stop = stops(error)
    if stop is not None or isinstance(error, Exception):
        return stop or error
    return _broken(strategy, f"`{method}` raised {first_line(error)}")


def _broken(strategy: Any, what: str) -> PluginBrokenError:
    return PluginBrokenError(
        f"the strategy `{type(strategy).__qualname__}` is broken: {what}. Tell its authors, or choose another strategy"
    )
