"""Choosing the best candidate, and spend between two states."""

from __future__ import annotations

from decimal import Decimal

from burnish import CandidateEval, Eval, RoleSpend, RolloutOutcome, RolloutStatus, Spend, toolkit
from burnish.abc import Usage


def evaluated(candidate: int, *scores: float | None) -> CandidateEval:
    cells = [RolloutOutcome(example=i, eval=None if s is None else Eval(s)) for i, s in enumerate(scores)]
    return CandidateEval(candidate=candidate, rollouts=tuple(cells))


def best(*evaluations: CandidateEval) -> int | None:
    found = toolkit.best_of(evaluations)
    return None if found is None else found.candidate


def test_the_earliest_wins_ties() -> None:
    """So the unchanged program stays unless another is strictly better."""
    assert 0 == best(evaluated(0, 1.0, 0.0), evaluated(1, 0.0, 1.0), evaluated(2, 0.5, 0.5))
    assert 2 == best(evaluated(0, 0.0, 0.0), evaluated(2, 1.0, 0.0), evaluated(1, 1.0, 0.0))


def test_candidates_meet_on_rows_that_both_have() -> None:
    """An unscored row is no zero: on the rest the second is better, although its mean over more rows is lower."""
    assert 1 == best(evaluated(0, None, 0.5, 0.5, None), evaluated(1, 0.0, 0.6, 0.6, 0.0))


def test_a_hardly_scored_candidate_wins_nothing() -> None:
    """One perfect row of four is no reason to change; where nothing is shared, the earlier stays."""
    assert 0 == best(evaluated(0, 0.5, 0.5, 0.5, 0.5), evaluated(1, 1.0, None, None, None))
    assert 0 == best(evaluated(0, None, None), evaluated(1, 1.0, 1.0))
    assert best() is None


def test_what_a_cap_left_out_leaves_no_score_to_tell() -> None:
    """The first rows of a set are no sample of it; rows that failed for others' sake leave the mean of the rest."""
    cut = RolloutOutcome(example=1, status=RolloutStatus.REJECTED)
    failed = RolloutOutcome(example=1, status=RolloutStatus.INFRASTRUCTURE_FAILED)
    first = RolloutOutcome(example=0, eval=Eval(1.0))
    told = [toolkit.score_of(CandidateEval(candidate=0, rollouts=(first, other))) for other in (cut, failed)]
    assert [None, 1.0, None] == [*told, toolkit.score_of(None)]


def test_equal_scores_in_another_order_are_a_tie() -> None:
    """Sums are exact, so that ten scores of 0.1 are no better than the same ten otherwise arranged."""
    low = [0.1] * 9 + [0.7]
    assert 0 == best(evaluated(0, *low), evaluated(1, *reversed(low)))


def test_spend_between_two_states_is_what_was_spent_meanwhile() -> None:
    """Every figure, roles included; roles that did nothing are left out."""
    task = RoleSpend(requests=2, usage=Usage(input_tokens=5, output_tokens=1), cost=Decimal("0.1"))
    judge = RoleSpend(requests=1)
    before = Spend(metric_calls=3, requests=3, by_role={"task": task, "judge": judge})
    more = Spend(metric_calls=2, lm_spans=4, requests=1, cost=Decimal("0.1"), by_role={"task": task, "proposer": judge})
    assert more == toolkit.spend_between(before, before + more)
    assert Spend() == toolkit.spend_between(before, before)
