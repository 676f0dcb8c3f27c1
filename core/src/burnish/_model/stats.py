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

    @property
    def improved(self) -> bool:
        """Whether the whole interval lies above 0."""
        return self.low is not None and self.low > 0


def compare_paired(baseline: Sequence[float | None], winner: Sequence[float | None]) -> PairedComparison | None:
    """Compare row by row (Student's t interval of the mean difference); None where no row was scored by both."""
    pairs = [(a, b) for a, b in zip(baseline, winner, strict=True) if a is not None and b is not None]
    n = len(pairs)
    if n == 0:
        return None
    differences = [b - a for a, b in pairs]
    mean = math.fsum(differences) / n
    low = high = None
    if n >= FEWEST_FOR_INTERVAL:
        variance = math.fsum((d - mean) ** 2 for d in differences) / (n - 1)
        half = t_quantile_975(n - 1) * math.sqrt(variance / n)
        low, high = mean - half, mean + half
    return PairedComparison(
        rows=n,
        baseline=math.fsum(a for a, _ in pairs) / n,
        winner=math.fsum(b for _, b in pairs) / n,
        difference=mean,
        low=low,
        high=high,
    )


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
