"""Outcomes of evaluations: means, coverage, payloads, statuses."""

from __future__ import annotations

import json

import pytest

from burnish._model.evals import Eval
from burnish._model.outcome import (
    BudgetExhausted,
    CandidateEval,
    Complete,
    Fault,
    RolloutOutcome,
    RolloutRecord,
    RolloutStatus,
)

STATUSES = ["succeeded", "agent_failed", "infrastructure_failed", "policy_blocked", "timed_out", "rejected"]


def over(*scores: float | None) -> CandidateEval:
    rollouts = tuple(RolloutOutcome(example=i, eval=None if s is None else Eval(s)) for i, s in enumerate(scores))
    return CandidateEval(candidate=0, rollouts=rollouts)


def test_the_mean_is_over_scored_rows() -> None:
    """0.0 for an empty request, None where rows were asked and none scored (E44, E8, E86)."""
    assert 0.0 == over().mean()
    assert over(None, None).mean() is None
    assert 0.5 == over(1.0, None, 0.0).mean()
    assert 0.0 == over(0.0, 0.0).mean()


def test_scores_and_coverage_show_what_is_missing() -> None:
    """Scores stand in request order with None where unscored; coverage is the scored share (E44, E86)."""
    assert [1.0, None, 0.25] == over(1.0, None, 0.25).scores()
    assert [] == over().scores()
    assert (1.0, 0.0, 0.5) == (over().coverage, over(None).coverage, over(1.0, None).coverage)


def test_completed_gives_the_payload_or_none() -> None:
    """`Complete` gives the evaluation of one candidate or the tuple of several, `BudgetExhausted` None (E44)."""
    one, two = over(1.0), over(0.0)
    assert one == Complete((one,), single=True).completed() == Complete((one,)).evaluation
    assert (one,) == Complete((one,)).completed()
    assert (one, two) == Complete(evaluations=(one, two)).completed()
    exhausted = BudgetExhausted(needed=3, stage="full", partial=one)
    assert exhausted.completed() is None  # type: ignore[func-returns-value]
    assert (3, "full", one) == (exhausted.needed, exhausted.stage, exhausted.partial)
    with pytest.raises(ValueError, match="too many values"):
        _ = Complete(evaluations=(one, two)).evaluation


def test_statuses_are_the_six_of_the_contract() -> None:
    """Each status has the contract's name, equals its word, and prints and serializes as that word (E86)."""
    assert STATUSES == [status.value for status in RolloutStatus]
    for word in STATUSES:
        status = RolloutStatus(word)
        assert status is getattr(RolloutStatus, word) is getattr(RolloutStatus, word.upper())
        assert word == status == str(status)
        assert json.dumps(word) == json.dumps(status)


def test_only_the_programs_own_end_is_a_verdict() -> None:
    """Infrastructure failures, blocks, timeouts and refusals score nothing (E86)."""
    assert ["succeeded", "agent_failed"] == [s.value for s in RolloutStatus if s.scored]


def test_a_record_owes_a_score_where_only_the_metric_failed() -> None:
    """The output is kept, so that a mended metric scores it without a model call."""
    failed = Fault(type="MetricError", message="the metric raised", where="metric")
    assert RolloutRecord(status=RolloutStatus.SUCCEEDED, output="x", fault=failed).owes_score
    assert not RolloutRecord(status=RolloutStatus.SUCCEEDED, eval=Eval(1.0)).owes_score
    assert not RolloutRecord(status=RolloutStatus.TIMED_OUT, fault=failed).owes_score
    assert "MetricError: the metric raised" == str(failed)
    assert "Timeout" == str(Fault(type="Timeout", message=""))
