"""BootstrapFewShot: one set of demos from the program's own successes (DSPy; the seed's BootstrapFewShot)."""

from __future__ import annotations

from typing import ClassVar

import attrs

from burnish import Engine, Plan, toolkit
from burnish.abc import Problem
from burnish_bootstrap._knobs import Knobs
from burnish_bootstrap._report import BootstrapReport
from burnish_bootstrap._search import Search


@attrs.frozen(kw_only=True)
class BootstrapFewShot(Knobs):
    """Give every predictor the first demos that the teacher got right, filled up with labeled rows.

    The teacher runs over the train rows in waves until every predictor has `max_bootstrapped_demos`; a rollout, or a
    span with an eval of its own, makes a demo when its score reaches `metric_threshold`, else the metric's maximum,
    else 1.0. Unlike DSPy's, the result is then compared with the program as it is, on the validation rows, and is the
    winner only when it is strictly better. Without validation rows both are scored on the train rows, each row without
    the demos made from it.

    With `stratify`, the pass takes rows of all labels in turn and the demos are chosen evenly over the labels; in
    DSPy's order a train set sorted by class gives demos of the first class alone.

    `compile` raises `UsageError`, before anything is spent, for an empty train set and for a program without a
    predictor that takes demos. Running out of budget, or into `max_errors`, ends it with the best so far.
    """

    replay_version: ClassVar[int] = 2

    async def compile(self, engine: Engine, problem: Problem) -> BootstrapReport:
        """Score the start, bootstrap, score, and report the better of the start and the start with demos."""
        self.check(problem)
        search = Search(engine, problem, self, self._rows(problem))
        await search.score_start()
        if search.ended:
            return search.report("bootstrap")
        taught = await search.teach(self.max_bootstrapped_demos, self._allowance(search))
        pool = search.pool(taught)
        origin = "bootstrap" if pool.bootstrapped else "labeled"
        rng = problem.rng("bootstrap/fill")
        search.add(origin, pool.draw(self.max_bootstrapped_demos, self.max_labeled_demos, rng, shuffle=False))
        await search.score()
        return search.report("bootstrap", taught)

    def plan(self, problem: Problem) -> Plan:
        """Bound the rollouts: the teacher pass, and the scoring of start and candidate."""
        self.check(problem)
        rows = self._rows(problem)
        taught = len(rows.sources) * self.max_rounds if self.max_bootstrapped_demos else 0
        scoring = 2 * len(rows.scoring)
        both = len(rows.sources) if taught and rows.leave_one_out and self.teacher is None else 0
        return Plan(
            rollouts=taught + scoring - both,
            candidates=1,
            minimum=scoring + (1 if taught and not rows.leave_one_out else 0),
            note=f"the teacher on {len(rows.sources)} rows, then 2 candidates on {len(rows.scoring)}",
        )

    def _rows(self, problem: Problem) -> toolkit.Separation:
        return toolkit.separate(problem, share=None, purpose="bootstrap/split")

    def _allowance(self, search: Search) -> int | None:
        """Leave enough of the budget to score the start and the candidate: without that nothing can be adopted."""
        left, scoring = search.room, len(search.rows.scoring)
        if left is None:
            return None
        if search.pass_scores_start:
            return left - scoring if left >= 2 * scoring else left
        return max(0, left - 2 * scoring)
