"""The interval of a paired comparison: it stays within the scores' range and holds the true gain as it says."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from burnish._model.stats import PairedComparison, compare_paired, t_quantile_975


def compared(
    baseline: Sequence[float | None], winner: Sequence[float | None], maximum: float | None = None
) -> PairedComparison:
    found = compare_paired(baseline, winner, maximum)
    assert found is not None
    return found


def changed(rows: int, gained: int, lost: int) -> PairedComparison:
    """Compare binary scores of which so many went up and down."""
    same = rows - gained - lost
    return compared([0] * gained + [1] * lost + [1] * same, [1] * gained + [0] * lost + [1] * same)


def test_equal_gains_are_no_certainty() -> None:
    """All of 17 rows gained: the interval ends at the range and has a width; the estimate is the plain mean."""
    found = changed(17, 17, 0)
    assert (17, 0.0, 1.0, 1.0, 1.0) == (found.rows, found.baseline, found.winner, found.difference, found.high)
    assert found.low == pytest.approx(0.674, abs=0.001)
    assert changed(17, 16, 0).high == 1.0
    nothing = changed(17, 0, 0)
    assert nothing.low == pytest.approx(-0.161, abs=0.001)
    assert nothing.high == pytest.approx(0.161, abs=0.001)


@pytest.mark.parametrize("rows", [8, 17, 40])
def test_the_interval_is_proper(rows: int) -> None:
    """Within -1 to 1, never without width, around the estimate, and mirrored when the two change places."""
    for gained in range(rows + 1):
        for lost in range(rows + 1 - gained):
            found, turned = changed(rows, gained, lost), changed(rows, lost, gained)
            assert found.low is not None
            assert found.high is not None
            assert -1 <= found.low <= found.difference <= found.high <= 1
            assert found.low < found.high
            assert found.low == pytest.approx(-(turned.high or 0.0))


@pytest.mark.parametrize(("rows", "lowest", "false"), [(8, 0.97, 0.01), (17, 0.94, 0.025), (24, 0.935, 0.033)])
def test_it_holds_the_true_gain(rows: int, lowest: float, false: float) -> None:
    """Summed over all outcomes: coverage where rows are gained and lost at any rates, "improved" where they balance."""
    found = [(a, b, changed(rows, a, b)) for a in range(rows + 1) for b in range(rows + 1 - a)]
    rates = ((0.0, 0.05), (0.0, 0.25), (0.1, 0.1), (0.25, 0.25), (0.5, 0.5), (0.3, 0.1), (0.9, 0.05), (0.6, 0.0))
    for gain, loss in rates:
        held = improved = 0.0
        for a, b, one in found:
            ways = math.comb(rows, a) * math.comb(rows - a, b)
            weight = ways * gain**a * loss**b * max(0.0, 1 - gain - loss) ** (rows - a - b)
            assert one.low is not None
            assert one.high is not None
            held += weight * (one.low - 1e-9 <= gain - loss <= one.high + 1e-9)
            improved += weight * one.improved
        assert held >= lowest, (gain, loss)
        assert gain != loss or improved <= false, gain


def test_the_range_is_what_the_metric_says_or_what_is_seen() -> None:
    """Scores up to 100, or costs below 0, widen it; a declared maximum does so before any row reaches it."""
    ones, tens = [0.0] * 10, [1.0] * 10
    hundred = compared(ones, [100 * x for x in tens])
    unit = compared(ones, tens)
    assert hundred.low == pytest.approx(100 * (unit.low or 0))
    assert hundred.high == 100
    assert compared(ones, tens, maximum=10).low == pytest.approx(-1.887, abs=0.001)
    assert compared([-3.0] * 10, [-1.0] * 10, maximum=0).high == pytest.approx(2.618, abs=0.001)
    assert compared([0.0] * 10, [0.0] * 10, maximum=0).low is None


def test_few_rows_have_no_interval() -> None:
    """Below 8 rows that both scored there is none, and nothing is called improved; without any, no comparison."""
    few = compared([0] * 8, [1] * 7 + [None])
    assert (7, None, None, False) == (few.rows, few.low, few.high, few.improved)
    assert "0.000 -> 1.000, +1.000 on 7 rows" == str(few)
    assert "0.000 -> 1.000, +1.000 (+0.348 to +1.000) on 8 rows" == str(changed(8, 8, 0))
    assert compare_paired([None], [1.0]) is None


def test_quantiles() -> None:
    """Student's t against the tables."""
    for degrees, value in ((9, 2.262), (18, 2.101), (25, 2.060), (41, 2.020), (121, 1.980)):
        assert t_quantile_975(degrees) == pytest.approx(value, abs=0.0006)
