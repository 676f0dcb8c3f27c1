"""Failed rollouts of a run: counted, with their cause, in the result and its warnings; errors that name their row."""

from __future__ import annotations

from typing import Any

import pytest

import burnish as b
from burnish import errors

from ._kit import Leaf, Module
from ._search import Tries, program, say, split, tune


async def always(q: Any, text: str) -> float:
    raise RuntimeError("disk is full\nand so on")


async def sometimes(q: Any, text: str) -> float:
    if q in ("val 2", "train 1", "test 3"):
        raise LookupError(f"nothing for {q}")
    return await say(q, text)


def test_a_program_that_always_fails_is_no_ordinary_result() -> None:
    """Count, status, cause and first row stand in the result, for search and test, and in its warnings (E45)."""
    result = tune(Module(always, answer=Leaf("0.1")), Tries("0.5"), split(train=1, val=3, test=4))
    assert result.test is not None
    search, baseline, test = result.failures, result.baseline_failures, result.test.baseline_failures
    assert [(6, 6), (3, 3), (4, 4)] == [(f.count, f.rollouts) for f in (search, baseline, test)]
    assert ({"agent_failed": 4}, "RuntimeError: disk is full", "test row 0") == (test.by_status, test.cause, test.where)
    assert (True, test) == (baseline.total, result.test.winner_failures)
    cause = "the most frequent cause: RuntimeError: disk is full"
    assert (
        f"6 of 6 search rollouts failed; {cause} (first in validation row 0)",
        f"4 of 4 test rollouts failed; {cause} (first in test row 0)",
    ) == result.warnings


def test_single_failures_are_told_too() -> None:
    """Baseline and winner are counted apart; the row is named within its set."""
    result = tune(Module(sometimes, answer=Leaf("0.1")), Tries("0.5"), split(train=2, val=3, test=5))
    assert result.test is not None
    found = [result.failures, result.test.baseline_failures, result.test.winner_failures]
    assert [(2, 6, False), (1, 5, False), (1, 5, False)] == [(f.count, f.rollouts, f.total) for f in found]
    assert ["validation row 2", "test row 3", "test row 3"] == [f.where for f in found]
    result = tune(Module(sometimes, answer=Leaf("0.1")), Tries("0.5"), split(train=2))
    assert ("train row 1", "LookupError: nothing for train 1") == (result.failures.where, result.failures.cause)


def test_without_failures_nothing_is_said() -> None:
    """A clean run has counts of rollouts and no warning; its `repr` is short."""
    result = tune(program(), Tries("0.5"), split(train=1, val=3, test=4))
    assert (0, 6, False, "") == (
        result.failures.count, result.failures.rollouts, result.failures.total, result.failures.cause
    )
    assert () == result.warnings
    assert "reports" not in repr(result)
    assert "program" not in repr(result)


@pytest.mark.parametrize(("struck", "place"), [("train 1", "train row 1"), ("val 2", "validation row 2")])
def test_a_metric_error_names_set_and_row(struck: str, place: str) -> None:
    """The matrix holds validation columns first, which a caller need not know; `row` is the column all the same."""

    class All(Tries):
        async def compile(self, engine: b.Engine, problem: Any) -> Any:
            return await engine.evaluate_many([(engine.register(problem.start), (*problem.val, *problem.train))])

    def metric(row: Any, prediction: Any) -> float:
        if row["q"] == struck:
            raise ValueError("no gold")
        return 1.0

    with pytest.raises(errors.MetricError, match=rf"ValueError: no gold \({place}, candidate 0\)") as caught:
        tune(program(), All(), split(train=2, val=3), metric=metric)
    assert {"train 1": 4, "val 2": 2}[struck] == caught.value.row


def test_a_metric_error_of_the_test_names_the_test_row() -> None:
    """A test row is named as one, by its index in the testset."""

    def metric(row: Any, prediction: Any) -> float:
        if row["q"] == "test 1":
            raise ValueError("no gold")
        return 1.0

    with pytest.raises(errors.MetricError, match=r"no gold \(test row 1, candidate 0\)") as caught:
        tune(program(), Tries("0.5"), split(train=1, val=3, test=4), metric=metric)
    assert caught.value.result is not None
    assert "(test row 1, candidate 0)" in caught.value.result.stop_reason


@pytest.mark.parametrize("budget", [None, 500])
def test_what_is_no_budget_is_refused(budget: Any) -> None:
    """None might mean none or no end: it is the caller who says which."""
    with pytest.raises(errors.UsageError, match=r"budget.*burnish\.Budget\(max_metric_calls=500\)"):
        tune(program(), Tries("0.5"), split(train=1), budget=budget)
