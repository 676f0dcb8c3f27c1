"""The paired comparison of two candidates on the same rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

FEWEST_FOR_INTERVAL = 8
"""Rows below which an interval would promise more than the data hold."""


@attrs.frozen(kw_only=True)
class PairedComparison:
    """Means of two candidates on the rows that both scored, and their difference with a 95 % interval."""

    rows: int
    baseline: float
    winner: float
    difference: float
    """Winner minus baseline."""
    low: float | None = None
    """Lower end of the 95 % interval of the difference; None with fewer than 8 rows."""
    high: float | None = None

    def __str__(self) -> str:
        interval = "" if self.low is None or self.high is None else f" ({self.low:+.3f} to {self.high:+.3f})"
        return f"{self.baseline:.3f} -> {self.winner:.3f}, {self.difference:+.3f}{interval} on {self.rows} rows"

    @property
    def improved(self) -> bool:
        """Whether the whole interval lies above 0."""
        return self.low is not None and self.low > 0


def compare_paired(
    baseline: Sequence[float | None], winner: Sequence[float | None], maximum: float | None = None
) -> PairedComparison | None:
    """Compare row by row; None where no row was scored by both. `maximum` is the best score there is, where known.

    The interval is Student's t of the differences and two more: one row gained in full and one lost in full. "In full"
    is the range of the scores: from 0 to `maximum`, or 1 where it is not known, and wider where a score lies outside.
    So equal differences do not pass for certainty. The ends lie within what the range allows. Source: Agresti and Min
    (2005), "Simple improved confidence intervals for comparing matched proportions", whose two rows are half as heavy;
    see "What the test may claim" in `docs/design.md`.
    """
    pairs = [(a, b) for a, b in zip(baseline, winner, strict=True) if a is not None and b is not None]
    n = len(pairs)
    if n == 0:
        return None
    scores = [score for pair in pairs for score in pair]
    span = max(*scores, 1.0 if maximum is None else maximum) - min(*scores, 0.0)
    differences = [b - a for a, b in pairs]
    low = high = None
    if n >= FEWEST_FOR_INTERVAL and span > 0:
        low, high = _interval([*differences, span, -span])
        low, high = max(low, -span), min(high, span)
    return PairedComparison(
        rows=n,
        baseline=math.fsum(a for a, _ in pairs) / n,
        winner=math.fsum(b for _, b in pairs) / n,
        difference=math.fsum(differences) / n,
        low=low,
        high=high,
    )


def gain_in_errors(differences: Sequence[float]) -> float:
    """Give the mean of two or more differences in standard errors; without spread the sign of their mean, times inf."""
    n = len(differences)
    mean = math.fsum(differences) / n
    variance = math.fsum((value - mean) ** 2 for value in differences) / (n - 1)
    if variance == 0:
        return 0.0 if mean == 0 else math.copysign(math.inf, mean)
    return mean / math.sqrt(variance / n)


def _interval(values: Sequence[float]) -> tuple[float, float]:
    """Give the 95 % interval of a mean by Student's t."""
    n = len(values)
    mean = math.fsum(values) / n
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    half = t_quantile_975(n - 1) * math.sqrt(variance / n)
    return mean - half, mean + half


def t_quantile_975(degrees: int) -> float:
    """Give the 97.5 % quantile of Student's t, by the Cornish-Fisher expansion (within 0.001 from 7 degrees on)."""
    z, v = 1.959963984540054, float(degrees)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / v**power for power, term in enumerate(terms, start=1))
