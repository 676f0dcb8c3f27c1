"""Strategies made of strategies, one after the other: `Sequential`, and what it shares with `Portfolio`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import attrs

from burnish import abc
from burnish._model.report import CandidateEntry, Plan, Report
from burnish._runtime.apart import Apart
from burnish._runtime.engine import Engine
from burnish._runtime.given import missing, not_ready
from burnish._runtime.searching import plan_of, report_of
from burnish._toolkit.choose import spend_between
from burnish.errors import UsageError


@attrs.frozen(kw_only=True)
class ComposedReport(Report):
    """What a strategy that is made of others reports."""

    parts: tuple[Report, ...] = ()
    """Of each of them, in order. Where they ran side by side, the numbers of candidates are each one's own."""


def as_parts(given: Iterable[abc.Strategy]) -> tuple[abc.Strategy, ...]:
    """Keep strategies that are parts of one as a tuple."""
    return tuple(given)


def _as_shares(given: Iterable[float]) -> tuple[float, ...]:
    return tuple(given)


def check_parts(owner: Any, _: Any, given: tuple[Any, ...]) -> None:
    """Refuse what is no strategy, or not open yet, among the parts of one."""
    name = type(owner).__name__
    if not given:
        raise UsageError(f"{name}: `strategies` is empty; name at least one")
    for number, one in enumerate(given):
        lacks = missing("strategy", one)
        reason = not_ready(one, "strategy") or (lacks and f"a {type(one).__qualname__} is no strategy")
        if reason:
            raise UsageError(
                f"{name}: strategies[{number}]: {reason}; pass strategies, or name plugins: "
                f'burnish.Use("{name.lower()}", strategies=[...])'
            )


async def in_stages(
    strategies: Sequence[abc.Strategy],
    engine: Engine,
    problem: abc.Problem,
    reports: list[Report],
    shares: Sequence[float] = (),
) -> None:
    """Run strategies in a row, each from the best so far; what each reports is added to `reports` as it ends.

    With `shares` a stage may run its share of the rollouts that are left, of the shares that are left, and sees what it
    asked for itself alone.
    """
    for number, strategy in enumerate(strategies):
        with engine.step("stage", number):
            room, given = engine.remaining, engine
            if shares and room is not None:
                given = Apart(engine, math.floor(room * shares[number] / math.fsum(shares[number:])))
            reports.append(await report_of(strategy, given, problem))
        problem = attrs.evolve(problem, start=reports[-1].best)


@attrs.frozen(kw_only=True)
class Sequential:
    """Run strategies in a row, on one engine: each starts from the best of the one before.

    One budget, one cache, one matrix: what a stage has scored the next one need not pay for again. A stage takes what
    it asks for, so put one that uses up any budget last, or give `shares`.
    """

    strategies: tuple[abc.Strategy, ...] = attrs.field(converter=as_parts, validator=check_parts)
    shares: tuple[float, ...] = attrs.field(default=(), converter=_as_shares)
    """What part of the budget's rollouts each stage may take, in proportion; what one leaves goes to those after it.
    Empty: each may take all that is left."""

    replay_version: ClassVar[int] = 1

    @shares.validator
    def _check_shares(self, _: Any, shares: tuple[float, ...]) -> None:
        if shares and (len(shares) != len(self.strategies) or not all(0 < s < math.inf for s in shares)):
            raise UsageError(
                f"Sequential: `shares` is {list(shares)}; it takes a number above 0 for each of the "
                f"{len(self.strategies)} strategies"
            )

    async def compile(self, engine: Engine, problem: abc.Problem) -> ComposedReport:
        """Run the stages; the best of the last one is the best of all, as each keeps its start where nothing beats it.

        Raises what a stage raises.
        """
        before, reports = engine.spend, list[Report]()
        await in_stages(self.strategies, engine, problem, reports, self.shares)
        return ComposedReport(
            strategy="sequential",
            best=reports[-1].best,
            baseline_score=reports[0].baseline_score,
            best_score=reports[-1].best_score,
            candidates=tuple(entries_of(engine, reports)),
            stop_reason=reports[-1].stop_reason,
            spend=spend_between(before, engine.spend),
            seed=problem.seed,
            notes=tuple(notes_of(reports)),
            parts=tuple(reports),
        )

    def plan(self, problem: abc.Problem) -> Plan:
        """Add up what the stages may ask; the first one must be able to do one round."""
        plans = [plan_of(strategy, problem) for strategy in self.strategies]
        shares = self.shares or (1.0,) * len(plans)
        first = plans[0].minimum * (math.fsum(shares) / shares[0] if self.shares else 1)
        return added_up(self.strategies, plans, minimum=math.ceil(first))


def added_up(strategies: Sequence[abc.Strategy], plans: Sequence[Plan], *, minimum: int, more: int = 0) -> Plan:
    """Give the plan of several strategies together; `more` are rollouts beside theirs."""
    notes = [f"{type(s).__name__}: {plan.note}" for s, plan in zip(strategies, plans, strict=True) if plan.note]
    return Plan(
        rollouts=sum(plan.rollouts for plan in plans) + more,
        proposer_calls=sum(plan.proposer_calls for plan in plans),
        candidates=sum(plan.candidates for plan in plans),
        minimum=minimum,
        note="; ".join(notes),
    )


def notes_of(reports: Sequence[Report]) -> Iterator[str]:
    """Give what the parts have to say, by their names."""
    for number, report in enumerate(reports):
        yield from (f"{number} ({report.strategy}): {note}" for note in report.notes)


def entries_of(engine: Engine, reports: Sequence[Report]) -> Iterator[CandidateEntry]:
    """Give all candidates under the engine's own numbers, each once: as the first report says that has its mean."""
    found: dict[int, CandidateEntry] = {}
    for report in reports:
        numbers = {entry.index: engine.register(entry.candidate) for entry in report.candidates}
        for entry in report.candidates:
            index = numbers[entry.index]
            if index in found and (found[index].mean is not None or entry.mean is None):
                continue
            parent = None if entry.parent is None else numbers.get(entry.parent)
            origin = f"{report.strategy}/{entry.origin}"
            found[index] = attrs.evolve(entry, index=index, parent=parent, origin=origin)
    yield from found.values()
