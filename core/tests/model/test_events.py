"""`burnish.events`: what sinks, handles and run stores hold, by public names."""

from __future__ import annotations

from decimal import Decimal
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

import burnish
from burnish import Candidate, Spend, events

ONE_OF_EACH: list[events.Event] = [
    events.RunStarted(run="r", facts={"seed": 1}),
    events.Resumed(facts={"seed": 1}),
    events.Rewound(to=7, spend=Spend(metric_calls=3)),
    events.Asked(step="stage 0#0", digest="00ff", what="candidates 0 on 3 rows"),
    events.Told(step="stage 0#0", shown=1, cap="max_cost", needed=3),
    events.Lost(key="k", example=0, split="test", spend=Spend(requests=1), held=Decimal("0.1")),
    events.RequestSent(key="k", example=0, spend=Spend(requests=1, cost=Decimal("0.5"))),
    events.Admitted(step="stage 0#0", part=-1),
    events.CandidateRegistered(index=0, candidate=Candidate().set_instruction("answer", "\ud83d half a pair")),
    events.RolloutStarted(key="k", candidate=0, example=0),
    events.RolloutLanded(
        key="k", candidate=0, example=0, record=burnish.RolloutRecord(status=burnish.RolloutStatus.SUCCEEDED)
    ),
    events.CallStarted(key="k", role="proposer"),
    events.CallLanded(key="k", role="proposer", output={"a": [1.5, None]}),
    events.Charged(spend=Spend(metric_calls=3, by_role={"task": burnish.RoleSpend(requests=2)})),
    events.Warned(kind="overlap", message="2 rows"),
    events.RunEnded(stop_reason="finished", best=Candidate()),
]


def test_every_event_is_public_and_comes_back() -> None:
    """The module has each class of the union, and `loads` gives what `dumps` was given."""
    assert list(get_args(events.Event)) == [type(event) for event in ONE_OF_EACH]
    assert all(getattr(events, kind.__name__) is kind for kind in get_args(events.Event))
    assert ONE_OF_EACH == [events.loads(events.dumps(event)) for event in ONE_OF_EACH]


@given(st.text(), st.integers(min_value=0, max_value=2**40))
def test_a_fold_of_what_was_written_is_the_fold(text: str, calls: int) -> None:
    """State is a fold of events, whether they are told or read back."""
    told: list[events.Event] = [
        events.CandidateRegistered(index=0, candidate=Candidate().set_instruction("answer", text)),
        events.Charged(spend=Spend(metric_calls=calls)),
    ]
    first, second = events.fold(told), events.fold(events.loads(events.dumps(event)) for event in told)
    assert (calls, first.spend) == (second.spend.metric_calls, second.spend)
    assert first.candidates == second.candidates
