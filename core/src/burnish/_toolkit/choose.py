"""Choosing among evaluated candidates, and what a stretch of work has cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from burnish._model.budget import RoleSpend, Spend
from burnish._model.outcome import CandidateEval, RolloutStatus


def best_of(evaluations: Iterable[CandidateEval], *, min_coverage: float = 0.5) -> CandidateEval | None:
    """Give the evaluation with the highest mean; the earliest wins ties, so put the simplest candidate first.

    Two candidates are compared on the columns that both have scores for; one that shares less than `min_coverage` of
    its rows with the best so far does not replace it. None where there is no evaluation.
    """
    best: CandidateEval | None = None
    for evaluation in evaluations:
        if best is None or _beats(evaluation, best, min_coverage):
            best = evaluation
    return best


def score_of(evaluation: CandidateEval | None) -> float | None:
    """Give an evaluation's mean as a score to tell; None where a cap left rows out, or none is scored.

    The rows that a budget still pays for are the first ones, no sample of all. Rows that failed for others' sake leave
    the mean of the rest.
    """
    if evaluation is None or any(rollout.status is RolloutStatus.REJECTED for rollout in evaluation.rollouts):
        return None
    return evaluation.mean()


def _beats(new: CandidateEval, old: CandidateEval, min_coverage: float) -> bool:
    before, after = _by_column(old), _by_column(new)
    both = [column for column in after if column in before]
    if not both or len(both) < min_coverage * len(new.rollouts):
        return False
    return math.fsum(after[column] for column in both) > math.fsum(before[column] for column in both)


def _by_column(evaluation: CandidateEval) -> dict[int, float]:
    scores: dict[int, list[float]] = {}
    for rollout in evaluation.rollouts:
        if rollout.eval is not None:
            scores.setdefault(rollout.example, []).append(rollout.eval.score)
    return {column: math.fsum(samples) / len(samples) for column, samples in scores.items()}


def spend_between(before: Spend, after: Spend) -> Spend:
    """Give what was spent from one state of a run's spend to a later one."""
    roles = {
        name: _difference(role, before.by_role.get(name, RoleSpend()))
        for name, role in after.by_role.items()
        if role != before.by_role.get(name)
    }
    spent: Spend = attrs.evolve(_difference(after, before), by_role=roles)
    return spent


def _difference(after: Any, before: Any) -> Any:
    """Subtract field by field; a field that holds figures of its own is subtracted in the same way."""
    changes: dict[str, Any] = {}
    for field in attrs.fields(type(after)):
        new, old = getattr(after, field.name), getattr(before, field.name)
        if attrs.has(type(new)):
            changes[field.name] = _difference(new, old)
        elif not isinstance(new, Mapping):
            changes[field.name] = new - old
    return attrs.evolve(after, **changes)
