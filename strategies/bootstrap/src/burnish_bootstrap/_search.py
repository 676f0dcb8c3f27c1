"""The steps that both strategies take: teach, draw, score, report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from burnish import BudgetExhausted, Candidate, CandidateEntry, CandidateEval, Demo, Engine, Example, toolkit
from burnish.abc import Problem
from burnish_bootstrap._knobs import Knobs
from burnish_bootstrap._report import BootstrapReport


@attrs.frozen(kw_only=True)
class Scored:
    """Evaluations by candidate, as far as the scoring came, and why it ended early ('' if it did not)."""

    evaluations: Mapping[int, CandidateEval]
    ended: str = ""


class Search:
    """One run of a strategy: what it has registered and found so far."""

    def __init__(self, engine: Engine, problem: Problem, knobs: Knobs, rows: toolkit.Separation) -> None:
        self.engine, self.problem, self.knobs, self.rows = engine, problem, knobs, rows
        self._before = engine.spend
        self.start = engine.register(problem.start)
        self.teacher = self.start
        if knobs.teacher is not None:
            self.teacher = engine.register(problem.start.merge(knobs.teacher))
        self.candidates: dict[int, tuple[str, Candidate]] = {self.start: ("start", problem.start)}
        """Origin and content by index, the start first."""

    @property
    def min_score(self) -> float:
        """The score that makes a success."""
        return toolkit.success_bar(self.knobs.metric_threshold, self.problem.metric.maximum)

    async def teach(self, enough: int, allowance: int | None) -> toolkit.Taught:
        """Run the teacher over the rows that demos may come from."""
        columns: Sequence[int] = self.rows.sources
        if self.knobs.stratify:
            columns = toolkit.draw(columns, len(columns), label=self._row_label)
        wanted = toolkit.Teaching(
            columns=tuple(columns),
            enough=enough if self.knobs.max_bootstrapped_demos else 0,
            min_score=self.min_score,
            max_rounds=self.knobs.max_rounds,
            wave=self.knobs.wave,
            max_errors=self.knobs.max_errors,
            allowance=allowance,
        )
        return await toolkit.teach(self.engine, self.problem, self.teacher, wanted)

    def _row_label(self, column: int) -> str | None:
        example: Example = self.problem.example(column)
        return toolkit.row_label(example, self.problem.parameters)

    def pool(self, taught: toolkit.Taught) -> toolkit.DemoPool:
        """Give all demos that sets are drawn from."""
        parameters = {name: p for name, p in self.problem.parameters.items() if p.takes_demos}
        labeled = toolkit.labeled_demos(self.rows.sources, self.problem.examples, parameters)
        return toolkit.DemoPool(
            parameters=parameters, bootstrapped=taught.demos, labeled=labeled, stratify=self.knobs.stratify
        )

    def add(self, origin: str, demos: Mapping[str, tuple[Demo, ...]]) -> bool:
        """Register the start with other demos; says whether that is a new candidate."""
        candidate = toolkit.with_demos(self.problem.start, demos)
        index = self.engine.register(candidate)
        if index in self.candidates:
            return False
        self.candidates[index] = (origin, candidate)
        return True

    async def score(self, *, stop_at: float | None = None, wave: int = 1) -> Scored:
        """Evaluate all candidates on the scoring rows: one fan-out, or waves of some where a score may end it."""
        indices = list(self.candidates)
        size = len(indices) if stop_at is None else wave
        done: dict[int, CandidateEval] = {}
        for number, first in enumerate(range(0, len(indices), size)):
            requests = [(index, self.rows.scoring) for index in indices[first : first + size]]
            with self.engine.step("score", number):
                outcome = await self.engine.evaluate_many(requests)
            done.update(toolkit.evaluation_of(outcome))
            if isinstance(outcome, BudgetExhausted):
                return Scored(evaluations=done, ended=f"budget: {outcome.cap}")
            if stop_at is not None and any(_reached(e, stop_at) for e in done.values()):
                return Scored(evaluations=done, ended="target score reached")
        return Scored(evaluations=done)

    def report(
        self, strategy: str, taught: toolkit.Taught, pool: toolkit.DemoPool, scored: Scored, notes: Sequence[str] = ()
    ) -> BootstrapReport:
        """Choose among what was scored, and say how it came about."""
        evaluations = [scored.evaluations[i] for i in self.candidates if i in scored.evaluations]
        baseline = scored.evaluations.get(self.start)
        best = toolkit.best_of(evaluations) if baseline is not None else None
        rival = toolkit.best_of(e for e in evaluations if e.candidate != self.start)
        winner = self.start if best is None else best.candidate
        cut = taught.ended if taught.ended.startswith("budget") else ""
        most = self.knobs.max_bootstrapped_demos
        return BootstrapReport(
            strategy=strategy,
            best=self.candidates[winner][1],
            baseline_score=None if baseline is None else baseline.mean(),
            best_score=None if best is None else best.mean(),
            candidates=tuple(self._entries(scored.evaluations)),
            stop_reason=scored.ended or cut or "finished",
            spend=toolkit.spend_between(self._before, self.engine.spend),
            seed=self.problem.seed,
            notes=(*self.rows.notes, *self._notes(taught, scored), *notes),
            adopted=winner != self.start,
            candidate_score=None if rival is None else rival.mean(),
            demos_per_predictor={n: min(most, len(d)) for n, d in pool.bootstrapped.items() if most},
            harvested={name: len(demos) for name, demos in taught.demos.items()},
            teacher_rows=taught.asked,
            accepted=taught.accepted,
            teacher_errors=taught.errors,
            teacher_ended=taught.ended,
            sources=self.rows.sources,
            scored_on=self.rows.scoring,
            shared=self.rows.shared,
        )

    def _entries(self, evaluations: Mapping[int, CandidateEval]) -> Iterator[CandidateEntry]:
        for index, (origin, candidate) in self.candidates.items():
            evaluation = evaluations.get(index)
            yield CandidateEntry(
                index=index,
                candidate=candidate,
                origin=origin,
                parent=None if index == self.start else self.start,
                mean=None if evaluation is None else evaluation.mean(),
                scores=() if evaluation is None else tuple(evaluation.scores()),
            )

    def _notes(self, taught: toolkit.Taught, scored: Scored) -> Iterator[str]:
        if taught.errors:
            stopped = f"; it was stopped at max_errors = {self.knobs.max_errors}" if taught.ended == "errors" else ""
            yield f"{taught.errors} rollouts of the teacher failed, the first with {taught.first_error:.300}{stopped}"
        if taught.ended.startswith("budget"):
            yield f"the budget let the teacher try {taught.asked} of {len(self.rows.sources)} rows"
        if taught.asked and not taught.demos:
            yield (
                f"none of {taught.asked} rows gave a demo: no rollout reached a score of {self.min_score:g}; "
                "set metric_threshold, or give a teacher that does better"
            )
        if self.start not in scored.evaluations:
            yield f"the budget has no room for the {len(self.rows.scoring)} rollouts that scoring the start takes"
        elif scored.evaluations[self.start].mean() is None:
            yield "no rollout of the start could be scored, so that nothing can be compared with it"
        left = len(self.candidates) - len(scored.evaluations)
        if left and scored.ended:
            yield f"{left} of {len(self.candidates)} candidates were not scored ({scored.ended})"
        cells = [r for e in scored.evaluations.values() for r in e.rollouts]
        unscored = sum(r.eval is None for r in cells)
        if unscored:
            yield f"{unscored} of {len(cells)} rollouts brought no score; candidates meet on the rows that both have"


def _reached(evaluation: CandidateEval, score: float) -> bool:
    mean = evaluation.mean()
    return mean is not None and evaluation.coverage == 1.0 and mean >= score
