"""The steps that both strategies take: score the start, teach, draw, score the rest, report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from burnish import BudgetExhausted, Candidate, CandidateEntry, CandidateEval, Demo, Engine, Example, toolkit
from burnish.abc import Problem
from burnish_bootstrap._knobs import Knobs
from burnish_bootstrap._report import BootstrapReport


class Search:
    """One run of a strategy: what it has registered and found so far."""

    def __init__(
        self,
        engine: Engine,
        problem: Problem,
        knobs: Knobs,
        rows: toolkit.Separation,
        *,
        stop_at: float | None = None,
    ) -> None:
        self.engine, self.problem, self.knobs, self.rows, self._stop_at = engine, problem, knobs, rows, stop_at
        self._before = engine.spend
        self.room = engine.remaining
        """Rollouts that the budget had room for when the strategy began; None: no cap."""
        self.start = engine.register(problem.start)
        self.teacher = self.start
        if knobs.teacher is not None:
            self.teacher = engine.register(problem.start.merge(knobs.teacher))
        self.candidates: dict[int, tuple[str, Candidate]] = {self.start: ("start", problem.start)}
        """Origin and content by index, the start first."""
        self.evaluations: dict[int, CandidateEval] = {}
        """On the scoring rows, as far as the scoring came."""
        self.ended = ""
        """Why the scoring ended early; empty where it did not."""

    @property
    def pass_scores_start(self) -> bool:
        """Whether the teacher's pass is the scoring of the start at the same time: same program, same rows."""
        return self.rows.leave_one_out and self.teacher == self.start and self.knobs.max_bootstrapped_demos > 0

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

    async def score(self, wave: int | None = None) -> None:
        """Evaluate all candidates on the scoring rows: the start for itself, then the rest at once or in waves.

        What has a score of its own first is there to be kept when the run is interrupted or the budget ends.
        """
        if self.start not in self.evaluations:
            await self._score("start", 0, [self.start])
        rest = [index for index in self.candidates if index != self.start]
        size = wave or len(rest) or 1
        for number, first in enumerate(range(0, len(rest), size)):
            if not self.ended:
                await self._score("score", number, rest[first : first + size])

    async def score_start(self) -> None:
        """Score the start before anything else, unless the teacher's pass does so."""
        if not self.pass_scores_start:
            await self._score("start", 0, [self.start])

    async def _score(self, step: str, number: int, indices: Sequence[int]) -> None:
        with self.engine.step(step, number):
            outcome = await self.engine.evaluate_many([(index, self.rows.scoring) for index in indices])
        found = toolkit.evaluation_of(outcome)
        self.evaluations.update(found)
        if isinstance(outcome, BudgetExhausted):
            self.ended = f"budget: {outcome.cap}"
        elif self._stop_at is not None and any(_reached(e, self._stop_at) for e in found.values()):
            self.ended = "target score reached"

    def report(
        self, strategy: str, taught: toolkit.Taught | None = None, notes: Sequence[str] = ()
    ) -> BootstrapReport:
        """Choose among what was scored, and say how it came about; `taught` is None where no pass was made."""
        taught = taught or toolkit.Taught(ended=self.ended)
        evaluations = [self.evaluations[i] for i in self.candidates if i in self.evaluations]
        baseline = self.evaluations.get(self.start)
        best = toolkit.best_of(evaluations) if baseline is not None else None
        rival = toolkit.best_of(e for e in evaluations if e.candidate != self.start)
        winner = self.start if best is None else best.candidate
        cut = taught.ended if taught.ended.startswith("budget") else ""
        most = self.knobs.max_bootstrapped_demos
        return BootstrapReport(
            strategy=strategy,
            best=self.candidates[winner][1],
            baseline_score=toolkit.score_of(baseline),
            best_score=toolkit.score_of(best),
            candidates=tuple(self._entries()),
            stop_reason=self.ended or cut or "finished",
            spend=toolkit.spend_between(self._before, self.engine.spend),
            seed=self.problem.seed,
            notes=(*self.rows.notes, *self._notes(taught), *notes),
            adopted=winner != self.start,
            candidate_score=toolkit.score_of(rival),
            demos_per_predictor={n: min(most, len(d)) for n, d in taught.demos.items() if most},
            harvested={name: len(demos) for name, demos in taught.demos.items()},
            teacher_rows=taught.asked,
            accepted=taught.accepted,
            teacher_errors=taught.errors,
            teacher_ended=taught.ended,
            sources=self.rows.sources,
            scored_on=self.rows.scoring,
            shared=self.rows.shared,
        )

    def _entries(self) -> Iterator[CandidateEntry]:
        for index, (origin, candidate) in self.candidates.items():
            evaluation = self.evaluations.get(index)
            yield CandidateEntry(
                index=index,
                candidate=candidate,
                origin=origin,
                parent=None if index == self.start else self.start,
                mean=toolkit.score_of(evaluation),
                scores=() if evaluation is None else tuple(evaluation.scores()),
            )

    def _notes(self, taught: toolkit.Taught) -> Iterator[str]:
        if taught.errors:
            stopped = f"; it was stopped at max_errors = {self.knobs.max_errors}" if taught.ended == "errors" else ""
            yield f"{taught.errors} rollouts of the teacher failed, the first with {taught.first_error:.300}{stopped}"
        if taught.ended.startswith("budget"):
            yield f"the budget let the teacher try {taught.asked} of {len(self.rows.sources)} rows"
        if taught.asked and not taught.demos:
            yield (
                f"none of {taught.asked} rows gave a bootstrapped demo: no rollout reached a score of "
                f"{self.min_score:g}, so demos can only be labeled rows; "
                "set metric_threshold, or give a teacher that does better"
            )
        if self.start not in self.evaluations:
            yield f"the budget has no room for the {len(self.rows.scoring)} rollouts that scoring the start takes"
        elif self.evaluations[self.start].mean() is None:
            yield "no rollout of the start could be scored, so that nothing can be compared with it"
        left = len(self.candidates) - len(self.evaluations)
        if left and self.ended:
            yield f"{left} of {len(self.candidates)} candidates were not scored ({self.ended})"
        cells = [r for e in self.evaluations.values() for r in e.rollouts]
        unscored = sum(r.eval is None for r in cells)
        if unscored:
            yield f"{unscored} of {len(cells)} rollouts brought no score; candidates meet on the rows that both have"


def _reached(evaluation: CandidateEval, score: float) -> bool:
    mean = evaluation.mean()
    return mean is not None and evaluation.coverage == 1.0 and mean >= score
