"""What MIPROv2 reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import attrs

from burnish import Candidate, CandidateEntry, CandidateEval, Report, Spend, toolkit
from burnish.abc import Problem
from burnish_miprov2._proposer import Grounds

MIN_COVERAGE = 0.5
"""Share of its rows that must have brought a score for a trial's mean to say anything."""


@attrs.frozen(kw_only=True)
class Trial:
    """One evaluation of the search."""

    kind: Literal["minibatch", "full"]
    choice: Mapping[str, int]
    """The value of each dimension (`answer/instruction`, `answer/demos`), by its number; 0 is the program as it is."""
    candidate: int
    """The candidate's number in the engine."""
    columns: tuple[int, ...]
    """The rows that it was asked for."""
    score: float | None = None
    """Mean over those that brought a score; None where it is unknown, and TPE was told so."""


@attrs.frozen(kw_only=True)
class Proposed:
    """One instruction that the search chooses from."""

    parameter: str
    index: int
    """Its number in `choice`."""
    text: str
    tip: str = ""
    """The name of the tip that it was asked for with."""


@attrs.frozen(kw_only=True)
class Rejection:
    """One reply of the proposer that was not taken."""

    parameter: str
    reason: str
    text: str = ""


@attrs.frozen(kw_only=True)
class MIPROv2Report(Report):
    """A report with the facts of MIPROv2. Columns are those of the engine's matrix."""

    trials: tuple[Trial, ...] = ()
    """In the order in which they were told."""
    instructions: tuple[Proposed, ...] = ()
    rejected: tuple[Rejection, ...] = ()
    demo_sets: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    """How each set of a predictor was made: `start`, `labeled`, `bootstrap`, `shuffle 2`, ...; by number."""
    space: int = 0
    """How many combinations there are, the program as it is among them."""
    exhaustive: bool = False
    """Whether all of them were to be tried."""
    minibatch_rows: int = 0
    """Rows of a trial; those of `scored_on` where each trial is a full evaluation."""
    dataset_summary: str = ""
    program_description: str = ""
    teacher_rows: int = 0
    """Rows that the teacher tried."""
    teacher_ended: str = ""
    """Why its pass ended: `enough`, `rows`, `errors`, `budget: <cap>`; empty where there was none."""
    scored_on: tuple[int, ...] = ()
    """Columns of a full evaluation; `scores` of the candidates stand for them, in their order."""
    sources: tuple[int, ...] = ()
    """Columns that demos and the proposer's examples may come from."""
    strategy_seed: int = 0
    """The knob `seed`: all random numbers come from it and the run's own `seed`."""


class Facts:
    """What a search has found so far, of what its report tells."""

    def __init__(self, before: Spend, start: int, candidate: Candidate) -> None:
        self.before, self.start = before, start
        self.candidates: dict[int, tuple[str, Candidate]] = {start: ("start", candidate)}
        """Origin and content by index, the start first."""
        self.small: dict[int, CandidateEval] = {}
        """Evaluations on minibatches."""
        self.full: dict[int, CandidateEval] = {}
        """Evaluations on all validation rows, the start's first."""
        self.trials: list[Trial] = []
        self.rejected: list[Rejection] = []
        self.grounds = Grounds()
        self.combinations, self.exhaustive = 1, False

    def report(
        self,
        spend: Spend,
        problem: Problem,
        *,
        scoring: Sequence[int],
        rows: toolkit.Separation,
        taught: toolkit.Taught,
        sets: Mapping[str, tuple[str, ...]],
        instructions: tuple[Proposed, ...],
        batch: int,
        seed: int,
        ended: str,
    ) -> MIPROv2Report:
        """Choose among the full evaluations; the first of the best wins, so the start stays on a tie."""
        baseline = self.full.get(self.start)
        best = None if baseline is None else toolkit.best_of(self.full.values())
        used_up = "all combinations tried" if self.exhaustive else "finished"
        return MIPROv2Report(
            strategy="miprov2",
            best=self.candidates[self.start if best is None else best.candidate][1],
            baseline_score=toolkit.score_of(baseline),
            best_score=toolkit.score_of(best),
            candidates=tuple(self._entries(scoring)),
            stop_reason=ended or used_up,
            spend=toolkit.spend_between(self.before, spend),
            seed=problem.seed,
            notes=(*rows.notes, *self._notes(taught, instructions, len(scoring))),
            trials=tuple(self.trials),
            instructions=instructions,
            rejected=tuple(self.rejected),
            demo_sets=sets,
            space=self.combinations,
            exhaustive=self.exhaustive,
            minibatch_rows=batch,
            dataset_summary=self.grounds.summary,
            program_description=self.grounds.program,
            teacher_rows=taught.asked,
            teacher_ended=taught.ended,
            scored_on=tuple(scoring),
            sources=rows.sources,
            strategy_seed=seed,
        )

    def _entries(self, scoring: Sequence[int]) -> Iterator[CandidateEntry]:
        for index, (origin, candidate) in self.candidates.items():
            full, small = self.full.get(index), self.small.get(index)
            cells = {r.example: r.eval.score for e in (small, full) if e for r in e.rollouts if r.eval is not None}
            yield CandidateEntry(
                index=index,
                candidate=candidate,
                origin=origin,
                parent=None if index == self.start else self.start,
                mean=toolkit.score_of(full),
                scores=tuple(cells.get(column) for column in scoring) if cells else (),
            )

    def _notes(self, taught: toolkit.Taught, instructions: Sequence[Proposed], rows: int) -> Iterator[str]:
        if taught.errors:
            yield f"{taught.errors} rollouts of the teacher failed, the first with {taught.first_error:.300}"
        if taught.asked and not taught.demos:
            yield f"none of {taught.asked} rows gave a bootstrapped demo: demos can only be labeled rows"
        if self.rejected and all(one.index == 0 for one in instructions):
            yield f"the proposer brought no instruction that is of use; its first reply: {self.rejected[0].reason:.300}"
        if self.start not in self.full:
            yield f"the budget has no room for the {rows} rollouts that scoring the start takes"
        elif self.full[self.start].mean() is None:
            yield "no rollout of the start could be scored, so that nothing can be compared with it"
        unknown = sum(trial.score is None for trial in self.trials)
        if unknown:
            yield f"{unknown} of {len(self.trials)} evaluations brought no mean, and were told to TPE as unknown"


def trusted(evaluation: CandidateEval | None) -> float | None:
    """Give the mean of an evaluation; None where too few of its rows brought a score to say anything."""
    return None if evaluation is None or evaluation.coverage < MIN_COVERAGE else toolkit.score_of(evaluation)


def perfect(evaluation: CandidateEval | None, maximum: float | None) -> bool:
    """Say whether all rows have the best score there is."""
    if evaluation is None or maximum is None or evaluation.coverage < 1.0:
        return False
    score = toolkit.score_of(evaluation)
    return score is not None and score >= maximum
