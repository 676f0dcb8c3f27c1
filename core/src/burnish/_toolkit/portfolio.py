"""Strategies side by side at equal shares of one budget: `Portfolio`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import attrs

from burnish import abc
from burnish._model.candidate import Candidate
from burnish._model.outcome import BudgetExhausted
from burnish._model.report import Plan, Report
from burnish._runtime.apart import Apart
from burnish._runtime.engine import Engine, evaluation_of
from burnish._runtime.searching import plan_of, report_of
from burnish._toolkit.choose import best_of, score_of, spend_between
from burnish._toolkit.stages import ComposedReport, added_up, as_parts, check_parts, entries_of, notes_of


@attrs.frozen(kw_only=True)
class Portfolio:
    """Race strategies on one engine, at an equal share of the budget's rollouts; the best on validation wins.

    They run at once and share slots and cache, so that a rollout that two of them ask for runs once. But each sees what
    it was told itself, and a rollout that another one has paid for counts against its share all the same: so each does
    what it would do alone with that share, at any concurrency. Shares are of rollouts: where a budget caps requests,
    tokens or money, those go to who asks first.
    """

    strategies: tuple[abc.Strategy, ...] = attrs.field(converter=as_parts, validator=check_parts)

    replay_version: ClassVar[int] = 1

    async def compile(self, engine: Engine, problem: abc.Problem) -> ComposedReport:
        """Race them, and compare the start and the best of each on the validation rows; the earlier one wins ties.

        Those rollouts are mostly known by then. Raises what a strategy raises, which ends all.
        """
        before, room = engine.spend, engine.remaining
        rows = problem.val or problem.train
        share = None if room is None else self._share(room, len(rows))
        async with engine.lagged("entrant", lag=len(self.strategies)) as race:
            for strategy in self.strategies:
                race.start(partial(_enter, strategy, engine, problem, share))
            reports: list[Report] = await race.rest()
        best, baseline, best_score, cap = await _final(engine, problem, rows, reports)
        return ComposedReport(
            strategy="portfolio",
            best=best,
            baseline_score=baseline,
            best_score=best_score,
            candidates=tuple(entries_of(engine, reports)),
            stop_reason="finished" if cap is None else f"budget: {cap}",
            spend=spend_between(before, engine.spend),
            seed=problem.seed,
            notes=(*notes_of(reports), *([] if cap is None else ["the budget let not all of them be compared"])),
            facts={"share": share, "wins": [r.strategy for r in reports if r.best == best and best != problem.start]},
            parts=tuple(reports),
        )

    def _share(self, room: int, rows: int) -> int:
        """Keep back what comparing the bests takes where none is known, if that is no more than a tenth."""
        count = len(self.strategies)
        return (room - count * rows if room >= 10 * count * rows else room) // count

    def plan(self, problem: abc.Problem) -> Plan:
        """Add up what they may ask, and the comparison; the equal share must let each of them do one round."""
        plans = [plan_of(strategy, problem) for strategy in self.strategies]
        least = len(plans) * max(plan.minimum for plan in plans)
        final = (len(plans) + 1) * len(problem.val or problem.train)
        return added_up(self.strategies, plans, minimum=least, more=final)


async def _enter(strategy: abc.Strategy, engine: Engine, problem: abc.Problem, share: int | None) -> Report:
    return await report_of(strategy, Apart(engine, share), problem)


async def _final(
    engine: Engine, problem: abc.Problem, rows: Sequence[int], reports: Sequence[Report]
) -> tuple[Candidate, float | None, float | None, str | None]:
    """Score start and bests on the same rows; gives the winner, both scores, and the cap that cut it."""
    finalists = {engine.register(one): one for one in [problem.start, *(report.best for report in reports)]}
    with engine.step("final"):
        outcome = await engine.evaluate_many([(index, rows) for index in finalists])
    found = evaluation_of(outcome)
    start = found.get(next(iter(finalists)))
    best = best_of(found[index] for index in finalists if index in found) if start is not None else None
    cap = outcome.cap if isinstance(outcome, BudgetExhausted) else None
    winner = problem.start if best is None else finalists[best.candidate]
    return winner, score_of(start), score_of(best), cap
