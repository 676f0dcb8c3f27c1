"""Samples of one cell, told as one rollout."""

from __future__ import annotations

from burnish import BudgetExhausted, CandidateEval, Complete, Eval, RolloutOutcome, RolloutStatus
from burnish._runtime.repeated import merged


def told(*samples: RolloutOutcome, repeats: int) -> tuple[RolloutOutcome, ...]:
    outcome = merged(Complete((CandidateEval(0, samples),)), repeats)
    assert isinstance(outcome, Complete)
    return outcome.evaluation.rollouts


def test_a_cell_has_the_mean_score_and_the_feedback_of_the_worst() -> None:
    """Objectives are averaged over the samples that have them; the earliest of equals is shown."""
    first = RolloutOutcome(3, Eval(1.0, "good", {"cost": 2.0}), output="a", cached=True)
    second = RolloutOutcome(3, Eval(0.5, "bad", {"cost": 1.0}), output="b")
    other = RolloutOutcome(4, Eval(0.0, "worse"))
    one, two = told(first, second, other, other, repeats=2)
    assert (3, Eval(0.75, "bad", {"cost": 1.5}), "b", False) == (one.example, one.eval, one.output, one.cached)
    assert (4, Eval(0.0, "worse")) == (two.example, two.eval)


def test_what_failed_for_others_sake_leaves_the_mean_of_the_rest() -> None:
    """And a cell of which nothing was scored is unscored."""
    failed = RolloutOutcome(0, status=RolloutStatus.INFRASTRUCTURE_FAILED)
    some, none = told(failed, RolloutOutcome(0, Eval(0.5)), failed, failed, repeats=2)
    assert (Eval(0.5), None) == (some.eval, none.eval)
    assert RolloutStatus.INFRASTRUCTURE_FAILED is none.status


def test_a_cell_that_a_cap_cut_is_not_scored() -> None:
    """Half of its samples are no sample of it: which ones ran is the cap's choice. Needs are told in cells."""
    half = (RolloutOutcome(0, Eval(1.0)), RolloutOutcome(0, status=RolloutStatus.REJECTED))
    (cell,) = told(*half, repeats=2)
    assert (None, RolloutStatus.REJECTED) == (cell.eval, cell.status)
    outcome = merged(BudgetExhausted(needed=5, partial=(CandidateEval(0, half),), cap="max_requests"), 2)
    assert isinstance(outcome, BudgetExhausted)
    assert 3 == outcome.needed
    assert isinstance(outcome.partial, tuple)
    assert 1 == len(outcome.partial[0].rollouts)
