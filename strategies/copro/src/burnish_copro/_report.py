"""What COPRO reports beside what every strategy does."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import attrs

from burnish import CandidateEval, Report, toolkit

if TYPE_CHECKING:
    from burnish_copro._copro import Search


@attrs.frozen(kw_only=True)
class Attempt:
    """One text of a predictor, as proposers are told of it."""

    text: str
    score: float
    """Mean on the scoring rows of the best candidate that held it."""


@attrs.frozen(kw_only=True)
class RejectedProposal:
    """A reply of the proposer that made no candidate, and why."""

    depth: int
    predictor: str
    reason: str
    text: str = ""
    """Its beginning; empty where nothing could be read."""


@attrs.frozen(kw_only=True)
class Turn:
    """One predictor's turn at one depth."""

    depth: int
    predictor: str
    usable: int
    """Proposals that could be used, texts that were known already among them."""
    new: int
    """Candidates that they made; for a known text nothing was paid but the proposal."""
    best: float | None
    """Score of the best candidate after the turn."""


@attrs.frozen(kw_only=True)
class COPROReport(Report):
    """A report with the facts of the search. Columns are those of the engine's matrix."""

    attempts: Mapping[str, tuple[Attempt, ...]] = attrs.field(factory=dict)
    """All scored texts by predictor, the original among them, in ascending order of score."""
    turns: tuple[Turn, ...] = ()
    rejected: tuple[RejectedProposal, ...] = ()
    scored_on: tuple[int, ...] = ()
    """Columns that `scores` of the candidates stand for, in their order."""


def report_of(search: Search) -> COPROReport:
    """Say what came of a search."""
    baseline, best = search.evaluations.get(search.start), search.evaluations.get(search.best)
    return COPROReport(
        strategy="copro",
        best=search.candidate,
        baseline_score=toolkit.score_of(baseline),
        best_score=toolkit.score_of(best),
        candidates=tuple(
            attrs.evolve(entry, mean=toolkit.score_of(found), scores=_by_row(found))
            for entry, found in ((entry, search.evaluations.get(index)) for index, entry in search.entries.items())
        ),
        stop_reason=search.ended or "finished",
        spend=toolkit.spend_between(search.before, search.engine.spend),
        seed=search.problem.seed,
        notes=tuple(_notes(search)),
        attempts={name: tuple(_ascending(scores)) for name, scores in search.attempts.items()},
        turns=tuple(search.turns),
        rejected=tuple(search.rejected),
        scored_on=search.columns,
    )


def _ascending(scores: Mapping[str, float]) -> list[Attempt]:
    return [Attempt(text=text, score=score) for text, score in sorted(scores.items(), key=lambda item: item[1])]


def _by_row(evaluation: CandidateEval | None) -> tuple[float | None, ...]:
    """Give the score of each row, over its samples."""
    found: dict[int, list[float]] = {}
    for rollout in () if evaluation is None else evaluation.rollouts:
        scores = found.setdefault(rollout.example, [])
        scores += [] if rollout.eval is None else [rollout.eval.score]
    return tuple(math.fsum(scores) / len(scores) if scores else None for scores in found.values())


def _notes(search: Search) -> Iterator[str]:
    rows = len(search.columns)
    if not search.problem.val:
        yield (
            f"without validation rows, candidates were compared on the {rows} train rows: the winner's score there is "
            "too good by the luck of being the best; test rows say what it is worth"
        )
    if search.start not in search.evaluations:
        yield f"the budget has no room for the {rows * search.knobs.repeats} rollouts that scoring the start takes"
    elif search.evaluations[search.start].mean() is None:
        yield "no rollout of the start could be scored, so that nothing can be compared with it"
    if search.rejected:
        yield f"{len(search.rejected)} replies of the proposer were refused, the last because {_last(search)}"
    unscored = len(search.entries) - len(search.evaluations)
    if unscored and search.ended:
        yield f"{unscored} of {len(search.entries)} candidates were not scored ({search.ended})"
    cells = [rollout for found in search.evaluations.values() for rollout in found.rollouts]
    failed = sum(rollout.eval is None for rollout in cells)
    if failed:
        yield f"{failed} of {len(cells)} rollouts brought no score; candidates meet on the rows that both have"


def _last(search: Search) -> str:
    return f"{search.rejected[-1].reason:.300}"
