"""BootstrapRandomSearch: many sets of demos, the best wins (DSPy: BootstrapFewShotWithRandomSearch)."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs

from burnish import Engine, Plan, toolkit
from burnish.abc import Problem
from burnish.errors import UsageError
from burnish_bootstrap._knobs import Knobs, at_least, finite_or_none
from burnish_bootstrap._report import BootstrapReport
from burnish_bootstrap._search import Search

REDRAWS = 8
"""Draws for one candidate before it is given up: a small pool has few distinct sets."""


def _share(owner: Any, attribute: Any, value: Any) -> None:
    if not isinstance(value, float) or not 0.0 < value < 1.0:
        raise UsageError(f"{type(owner).__name__}: {attribute.name} is {value!r}; it takes a number between 0 and 1")


@attrs.frozen(kw_only=True)
class BootstrapRandomSearch(Knobs):
    """Try the program as it is, labeled rows only, the first bootstrapped demos, and seeded random sets of demos.

    The start is scored on the validation rows before all else, so that a run that ends early has a best so far, and the
    others in one fan-out; the first of the best wins, so the start stays on a tie.

    The teacher runs once. DSPy bootstraps anew for every candidate, over a reshuffled train set; but a row's rollout is
    the same whoever asks, so the k demos that a reshuffled pass accepts first are just a random set of k of the demos
    that one pass over these rows accepts. So the pass fills a pool, and every candidate draws a set from it, of a
    seeded size from 1 to `max_bootstrapped_demos`, at no further rollout. The pass ends when the pool could give all
    candidates different demos (`pool`), and under a budget it leaves enough to score them.

    With `stratify`, which is the default, sets are spread evenly over the output values: of six classes, six demos show
    each once. Chance alone leaves out two of six on average, and a model that looks at its demos then never
    answers with those.

    Demos come from train rows only, and no scored row is ever the source of a demo: train rows that are validation
    rows too give none, and without validation rows a `val_share` of the train rows is kept apart.

    `compile` raises `UsageError`, before anything is spent, for an empty train set and for a program without a
    predictor that takes demos. Running out of budget, or into `max_errors`, ends it with the best so far.
    """

    num_candidates: int = attrs.field(default=16, validator=at_least(0))
    """Random sets, beside the start, the labeled and the bootstrapped candidate."""
    stop_at_score: float | None = attrs.field(default=None, validator=finite_or_none)
    """Validation mean that is good enough: the search ends with the start if that reaches it; the other candidates are
    then scored in waves of `candidate_wave`, and it ends after the first wave that does."""
    candidate_wave: int = attrs.field(default=4, validator=at_least(1))
    """Candidates scored at once where `stop_at_score` is set."""
    pool: int | None = attrs.field(default=None, validator=at_least(1, optional=True))
    """Demos for each predictor at which the teacher pass ends; None: `max_bootstrapped_demos` for each random set."""
    val_share: float = attrs.field(default=0.5, validator=_share)
    """Share of the train rows that is kept for scoring where there are no validation rows."""
    max_val_rows: int = attrs.field(default=200, validator=at_least(1))
    """Rows that are kept for scoring in this way, at most: every candidate runs on each."""

    replay_version: ClassVar[int] = 2

    async def compile(self, engine: Engine, problem: Problem) -> BootstrapReport:
        """Score the start, fill the pool, draw the sets, score them all, and report the first of the best."""
        self.check(problem)
        search = Search(engine, problem, self, self._rows(problem), stop_at=self.stop_at_score)
        await search.score_start()
        if search.ended:
            return search.report("bootstrap-random")
        taught = await search.teach(self._enough, self._allowance(search))
        pool = search.pool(taught)
        self._draw(search, pool)
        await search.score(None if self.stop_at_score is None else self.candidate_wave)
        notes = []
        made = sum(origin.startswith("shuffle") for origin, _ in search.candidates.values())
        if made < self.num_candidates:
            notes.append(f"the demos make only {made} of num_candidates = {self.num_candidates} distinct random sets")
        return search.report("bootstrap-random", taught, notes)

    def plan(self, problem: Problem) -> Plan:
        """Bound the rollouts: the teacher pass, and the scoring of all candidates."""
        self.check(problem)
        rows = self._rows(problem)
        taught = len(rows.sources) * self.max_rounds if self.max_bootstrapped_demos else 0
        candidates = self.num_candidates + 3
        return Plan(
            rollouts=taught + candidates * len(rows.scoring),
            candidates=candidates - 1,
            minimum=2 * len(rows.scoring) + (1 if taught else 0),
            note=f"the teacher on {len(rows.sources)} rows, then {candidates} candidates on {len(rows.scoring)}",
        )

    @property
    def _enough(self) -> int:
        return self.pool or self.max_bootstrapped_demos * max(1, self.num_candidates)

    def _rows(self, problem: Problem) -> toolkit.Separation:
        return toolkit.separate(problem, share=self.val_share, purpose="bootstrap/split", most=self.max_val_rows)

    def _allowance(self, search: Search) -> int | None:
        """Keep what scoring all candidates takes; of a smaller budget spend a quarter, and never what two cost."""
        left, scoring = search.room, len(search.rows.scoring)
        if left is None:
            return None
        return max(0, left - (self.num_candidates + 3) * scoring, min(left // 4, left - 2 * scoring))

    def _draw(self, search: Search, pool: toolkit.DemoPool) -> None:
        most, total = self.max_bootstrapped_demos, self.max_labeled_demos
        rng = search.problem.rng
        search.add("labeled", pool.draw(0, total, rng("bootstrap/labeled")))
        if pool.bootstrapped:
            search.add("bootstrap", pool.draw(most, total, rng("bootstrap/fill"), shuffle=False))
        sizes = min(most, pool.most_bootstrapped) or min(total, pool.most_labeled)
        for number in range(self.num_candidates if sizes else 0):
            draws = rng(f"bootstrap/shuffle {number}")
            for _ in range(REDRAWS):
                size = draws.randint(1, sizes)
                demos = pool.draw(size, total, draws) if pool.bootstrapped else pool.draw(0, size, draws)
                if search.add(f"shuffle {number}", demos):
                    break
