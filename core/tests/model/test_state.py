"""The state of a run as the fold of its events."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from burnish._model.budget import RoleSpend, Spend
from burnish._model.candidate import Candidate
from burnish._model.codec import dumps, loads
from burnish._model.evals import Eval
from burnish._model.events import (
    CallLanded,
    CallStarted,
    CandidateRegistered,
    Charged,
    Event,
    RolloutLanded,
    RolloutStarted,
    RunEnded,
    RunStarted,
    Source,
    Split,
    Told,
    Warned,
)
from burnish._model.lm import Usage
from burnish._model.outcome import RolloutRecord, RolloutStatus
from burnish._model.state import State, fold
from burnish.errors import InternalError

EVENT: Any = Event
quick = settings(
    derandomize=True, deadline=None, max_examples=25, database=None, suppress_health_check=[HealthCheck.too_slow]
)
TASK = {"task": RoleSpend(requests=2, usage=Usage(input_tokens=10, output_tokens=5), cost=Decimal("0.01"))}
JUDGE = {"judge": RoleSpend(requests=1, usage=Usage(input_tokens=7), cost=Decimal("0.002"))}


def landed(
    example: int = 0,
    score: float | None = 1.0,
    status: RolloutStatus = RolloutStatus.SUCCEEDED,
    source: Source = "live",
    candidate: int = 0,
    sample: int = 0,
    calls: dict[str, RoleSpend] = TASK,
    split: Split = "search",
) -> RolloutLanded:
    record = RolloutRecord(status=status, eval=None if score is None else Eval(score), spans=3, calls=calls)
    key = f"{candidate}:{example}:{sample}"
    return RolloutLanded(
        key=key, candidate=candidate, example=example, sample=sample, record=record, source=source, split=split
    )


def facts(state: State) -> tuple[Any, ...]:
    matrix = state.matrix
    cells = [[matrix.cell(c, e) for e in range(matrix.examples)] for c in range(matrix.candidates)]
    return cells, state.spend, state.candidates, state.index, state.warnings, state.started, state.ended


def test_a_live_rollout_is_one_call_and_one_unit() -> None:
    """Fresh: metric_calls + 1, lm_calls + 1 however many calls it made, spans and tokens as they were (E28)."""
    expected = Spend(
        metric_calls=1, lm_calls=1, lm_spans=3, tokens=15, requests=2, cost=Decimal("0.01"), by_role=TASK
    )
    assert expected == fold([landed()]).spend


@pytest.mark.parametrize("source", ["cache", "store"])
def test_a_served_rollout_is_a_hit_and_nothing_else(source: Source) -> None:
    """Served: cache_hits + 1, its score enters the matrix, what it once cost is not spent again (E28, scenario 3)."""
    state = fold([landed(source=source, score=0.5)])
    assert Spend(cache_hits=1) == state.spend
    assert 0.5 == state.matrix.score(0, 0)


def test_a_scored_rollout_costs_its_judge_alone() -> None:
    """A kept output that is scored later is no new rollout: only the calls of the scoring are spent (E28)."""
    owing = landed(score=None)
    state = fold([owing, landed(source="scored", score=0.5, calls=JUDGE)])
    assert 0.5 == state.matrix.score(0, 0)
    assert (1, 1, 22, 3) == (
        state.spend.metric_calls,
        state.spend.lm_calls,
        state.spend.tokens,
        state.spend.requests,
    )
    assert {"judge": JUDGE["judge"], "task": TASK["task"]} == state.spend.by_role


@pytest.mark.parametrize("status", list(RolloutStatus))
def test_only_verdicts_enter_the_matrix(status: RolloutStatus) -> None:
    """A failed program scores, a failed transport does not; what ran was spent in any case (E86)."""
    state = fold([landed(score=0.0, status=status)], columns=1)
    assert (0.0 if status.scored else None) == state.matrix.score(0, 0)
    assert (0 if status is RolloutStatus.POLICY_BLOCKED else 1) == state.spend.metric_calls
    assert 2 == state.spend.requests


def test_the_final_test_never_enters_the_matrix() -> None:
    """Its rows have columns of their own: they are spent and not scored here."""
    state = fold([landed(split="test")], columns=1)
    assert [None] == state.matrix.row(0)
    assert 1 == state.spend.metric_calls


def test_an_unscored_landing_takes_nothing_away() -> None:
    """A later failure of the same cell leaves the score that was paid for."""
    later = landed(score=None, status=RolloutStatus.INFRASTRUCTURE_FAILED)
    assert 0.5 == fold([landed(score=0.5), later]).matrix.score(0, 0)


def test_calls_outside_rollouts_and_charges_are_spent() -> None:
    """A proposer's call counts as requests, tokens and money by role, not as a unit; a charge as what it says (E28)."""
    proposer = {"proposer": RoleSpend(requests=1, usage=Usage(output_tokens=4), cost=Decimal("0.5"), unpriced=1)}
    state = fold(
        [
            CallStarted(key="k", role="proposer"),
            CallLanded(key="k", role="proposer", calls=proposer, output="text"),
            Charged(spend=Spend(metric_calls=1, lm_calls=2)),
        ]
    )
    expected = Spend(
        metric_calls=1, lm_calls=2, requests=1, tokens=4, cost=Decimal("0.5"), by_role=proposer
    )
    assert expected == state.spend


def test_starts_and_refusals_change_nothing() -> None:
    """They are there for a resume, not for the books."""
    told = Told(step="s#0", needed=3, cap="max_metric_calls")
    events: list[Event] = [RolloutStarted(key="k", candidate=0, example=0), told]
    assert facts(State(2)) == facts(fold(events, columns=2))


def test_candidates_get_their_index_by_content() -> None:
    """Registration makes an empty row and finds the candidate by its hash again; a gap is a fault of ours (E4)."""
    first, second = Candidate(), Candidate().set_instruction("p", "x")
    state = fold([CandidateRegistered(index=0, candidate=first), CandidateRegistered(index=1, candidate=second)], 3)
    assert [first, second] == state.candidates
    assert {first.stable_hash: 0, second.stable_hash: 1} == state.index
    assert (2, [None, None, None]) == (state.matrix.candidates, state.matrix.row(1))
    with pytest.raises(InternalError, match="candidate 5"):
        state.apply(CandidateRegistered(index=5, candidate=first))


def test_the_ends_and_the_warnings_are_kept() -> None:
    """The first and last event, and every warning in order; what is said again is kept once."""
    start, end = RunStarted(run="r", facts={"seed": 7}), RunEnded(stop_reason="finished", best=Candidate())
    warnings = [Warned(kind="unread", message="candidate 1"), Warned(kind="slow", message="metric")]
    state = fold([start, *warnings, warnings[0], end])
    assert (start, end, warnings) == (state.started, state.ended, state.warnings)


records = st.builds(
    landed,
    example=st.integers(0, 3),
    score=st.none() | st.integers(0, 10).map(lambda n: n / 10),
    status=st.sampled_from(list(RolloutStatus)),
    source=st.sampled_from(["live", "cache", "store", "scored"]),
    candidate=st.integers(0, 2),
    sample=st.integers(0, 1),
    calls=st.sampled_from([{}, TASK, JUDGE, {**TASK, **JUDGE}]),
)
others: st.SearchStrategy[Event] = (
    st.builds(CallLanded, key=st.just("k"), role=st.just("proposer"), calls=st.sampled_from([{}, JUDGE]))
    | st.builds(Charged, spend=st.builds(Spend, metric_calls=st.integers(0, 3), lm_calls=st.integers(0, 3)))
    | st.builds(Warned, kind=st.just("w"), message=st.text(max_size=3))
)
histories: st.SearchStrategy[list[Event]] = st.lists(records | others, max_size=15)


@quick
@given(histories)
def test_the_fold_of_what_was_stored_is_the_live_state(events: list[Event]) -> None:
    """Applied as they happen or read back from their text later: the same scores, spend and warnings."""
    live = State(4)
    for event in events:
        live.apply(event)
    read = [loads(dumps(event, EVENT), EVENT) for event in events]
    assert events == read
    assert facts(live) == facts(fold(read, columns=4))


@quick
@given(st.lists(records, max_size=12, unique_by=lambda r: r.key), st.randoms(use_true_random=False))
def test_the_order_of_landing_is_nothing(events: list[RolloutLanded], rng: Any) -> None:
    """Rollouts of different cells may land in any order: scores and spend are the same (R10, R11)."""
    shuffled = list(events)
    rng.shuffle(shuffled)
    one, other = fold(events, columns=4), fold(shuffled, columns=4)
    assert one.spend == other.spend
    for c in range(3):
        assert one.matrix.row(c) == other.matrix.row(c)
        assert one.matrix.mean(c) == other.matrix.mean(c)
