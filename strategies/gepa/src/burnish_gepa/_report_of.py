"""From a search that is over to its report."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from burnish import CandidateEval, toolkit
from burnish_gepa._pool import Member
from burnish_gepa._report import GEPAReport, MemberEntry

if TYPE_CHECKING:
    from burnish_gepa._search import Search


def report_of(search: Search) -> GEPAReport:
    """Choose among the members that were wholly validated, and say how it came about."""
    pool = search.pool
    members = [member for member in pool.members.values() if member.evaluation.rollouts]
    whole = [member.evaluation for member in members if not member.inherited]
    best = toolkit.best_of(whole)
    winner = next((m for m in members if best is not None and m.index == best.candidate), None)
    baseline = members[0].evaluation if members else None
    numbers = {member.number: member.index for member in pool.members.values()}
    return GEPAReport(
        strategy="gepa",
        best=search.problem.start if winner is None else winner.candidate,
        baseline_score=toolkit.score_of(baseline),
        best_score=toolkit.score_of(best),
        candidates=tuple(_entry(member, numbers) for member in members),
        stop_reason=search.ended or "finished",
        spend=toolkit.spend_between(search.before, search.engine.spend),
        seed=search.problem.seed,
        notes=tuple(_notes(search)),
        iterations=tuple(line for told in search.told for line in told.lines),
        rejected_texts=tuple(text for told in search.told for text in told.rejected),
        frontier=tuple(numbers[number] for number in pool.frontier.weights(pool.means)),
        frontier_type=search.knobs.frontier_type,
        scored_on=tuple(search.val),
        asked=pool.asked,
        passed_over=search.passed_over,
        merges=search.merges,
        texts_cut=sum(told.cut for told in search.told),
    )


def _entry(member: Member, numbers: dict[int, int]) -> MemberEntry:
    scores = member.evaluation.scores()
    inherited = dict.fromkeys(member.inherited)
    own = [None if r.example in inherited else s for r, s in zip(member.evaluation.rollouts, scores, strict=True)]
    parents = tuple(numbers[number] for number in member.parents)
    return MemberEntry(
        index=member.index,
        candidate=member.candidate,
        origin=member.origin,
        parent=parents[0] if parents else None,
        mean=None if inherited else toolkit.score_of(member.evaluation),
        scores=tuple(own),
        parents=parents,
        changed=member.changed,
        iteration=member.iteration,
        objectives={} if inherited else _objectives(member.evaluation),
    )


def _objectives(evaluation: CandidateEval) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for rollout in evaluation.rollouts:
        for name, value in rollout.eval.objectives.items() if rollout.eval is not None else ():
            values.setdefault(name, []).append(value)
    return {name: math.fsum(some) / len(some) for name, some in values.items()}


def _notes(search: Search) -> Iterator[str]:
    if not search.pool.members[0].evaluation.rollouts:
        yield f"the budget has no room for the {len(search.val)} rollouts that validating the start takes"
    elif search.pool.members[0].evaluation.mean() is None:
        yield "no rollout of the start could be scored, so that nothing can be compared with it"
    if not search.problem.val:
        yield "there are no validation rows: candidates are chosen on the rows that they learn from"
    if search.pool.bar == math.inf:
        yield "scores pass 1.0 and the metric names no maximum, so none counts as perfect: say perfect_score"
    rejected, cut = [text for told in search.told for text in told.rejected], sum(told.cut for told in search.told)
    if rejected:
        yield f"{len(rejected)} replies of the reflection were not taken, the last because {rejected[-1].reason:.300}"
    if cut:
        yield f"in {cut} reflections examples were shortened to max_example_chars"
    cells = [rollout for member in search.pool.members.values() for rollout in member.evaluation.rollouts]
    unscored = sum(rollout.eval is None for rollout in cells)
    if unscored:
        yield f"{unscored} of {len(cells)} validation rollouts brought no score; candidates meet on rows that both have"
