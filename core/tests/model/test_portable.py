"""Values with read-only mappings can be copied and pickled by whoever needs it."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from burnish import Candidate, Demo, Eval, RoleSpend, RolloutRecord, RolloutStatus, Spend

DEMO = Demo({"q": ["a", 1]}, source="f" * 32, shadowed={"q": None})
CANDIDATE = Candidate().set_demos("answer", [DEMO]).set_instruction("other", "x")
SPEND = Spend(metric_calls=2, by_role={"task": RoleSpend(requests=1)})
EVAL = Eval(0.5, "why", {"cost": 2.0})
RECORD = RolloutRecord(status=RolloutStatus.SUCCEEDED, eval=EVAL)


@pytest.mark.parametrize("value", [DEMO, CANDIDATE, SPEND, EVAL, RECORD])
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_a_copy_is_the_same_value(value: Any, again: Any) -> None:
    """Equal, of equal hash where it has one, and as read-only as the original."""
    same = again(value)
    assert (value, type(value)) == (same, type(same))
    if isinstance(value, Candidate):
        assert (value.stable_hash, hash(value)) == (same.stable_hash, hash(same))
        with pytest.raises(TypeError):
            same.overlays["answer"] = None


def test_a_deep_copy_shares_nothing_that_can_change() -> None:
    """A list inside a demo's row is another one."""
    assert DEMO.row["q"] is not copy.deepcopy(DEMO).row["q"]


def test_a_program_that_holds_a_candidate_can_be_copied() -> None:
    """`optimize` takes a deep copy of a program without a `copy` of its own."""

    class Holds:
        def __init__(self) -> None:
            self.best = CANDIDATE

    assert CANDIDATE == copy.deepcopy(Holds()).best
