"""Evals: a finite score or an error."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from burnish._model.evals import LARGEST, Eval, average_score
from burnish._model.matrix import Cell
from burnish.errors import UsageError


@pytest.mark.parametrize("score", [float("nan"), float("inf"), -float("inf"), 10**400, "0.5", None, Decimal("0.5")])
def test_a_score_is_a_finite_number(score: Any) -> None:
    """NaN, infinities and what is no number are refused where the eval is made (E40)."""
    with pytest.raises(UsageError, match="the score"):
        Eval(score)


def test_an_objective_is_finite_too() -> None:
    """The error names the objective."""
    with pytest.raises(UsageError, match="objective `recall`"):
        Eval(1.0, objectives={"recall": float("nan")})


@pytest.mark.parametrize("score", [1e308, -1e308, 1.1e150, 10**200])
def test_a_score_has_a_bound(score: float) -> None:
    """Scores that would add up to infinity are refused by name; up to the bound, sums and squares stay finite."""
    with pytest.raises(UsageError, match=r"the score is .*; beyond 1e\+150 sums overflow: scale it"):
        Eval(score)
    with pytest.raises(UsageError, match=r"objective `recall` is .*; beyond 1e"):
        Eval(1.0, objectives={"recall": score})
    largest = [Eval(LARGEST), Eval(-LARGEST), Eval(LARGEST)] * 1000
    assert LARGEST / 3 == pytest.approx(average_score(largest))
    cell = Cell(dict(enumerate(largest)))
    assert (True, True) == (math.isfinite(cell.total_squares), math.isfinite(cell.variance or math.nan))


def test_scores_become_floats() -> None:
    """A bool or an integer is a score; the range 0 to 1 is a convention only (E57)."""
    assert (1.0, 0.0, 7.0, -2.5) == tuple(Eval(s).score for s in (True, False, 7, -2.5))
    assert float is type(Eval(True).score)
    assert Eval(1, "good", {"recall": 1}) == Eval(1.0, "good", {"recall": 1.0})
    assert hash(Eval(1, "good", {"a": 1, "b": 2})) == hash(Eval(1.0, "good", {"b": 2, "a": 1}))


def test_average_score() -> None:
    """0.0 for none, else the mean, whatever the order (E60, scenario 47, R11)."""
    assert 0.0 == average_score([])
    assert 0.8 == pytest.approx(average_score([Eval(0.8), Eval(0.9), Eval(0.7)]))
    tenths = [Eval(0.1), Eval(0.7), Eval(0.2)] * 7
    assert average_score(tenths) == average_score(tenths[::-1]) == average_score(sorted(tenths, key=lambda e: e.score))
