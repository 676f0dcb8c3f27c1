"""How often the 95 % interval of a test holds the true gain, and how often "improved" is said of no gain.

    uv run --group test python benchmarks/interval.py

Scores of 0 and 1 first: a row is gained with one probability and lost with another, and every outcome of `n` rows is
weighed by its exact probability, so nothing is drawn. Then graded scores, drawn with a fixed seed. "lowest" is the
worst coverage over all pairs of probabilities, "false" the most "improved" where gains and losses are equally likely:
with at most half of the rows changing, and with any number of them.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable, Iterator

from burnish._model.stats import PairedComparison, compare_paired

ROWS = (8, 17, 24, 40, 120)
SHARES = (0, 0.01, 0.03, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 0.9, 1)
"""Probabilities that a row is gained, or lost."""
DRAWS = 1000


@functools.cache
def compared(rows: int, gained: int, lost: int) -> PairedComparison:
    """Compare where so many rows changed from 0 to 1 and from 1 to 0, and the others stayed."""
    before = [0.0] * gained + [1.0] * lost + [1.0] * (rows - gained - lost)
    after = [1.0] * gained + [0.0] * lost + [1.0] * (rows - gained - lost)
    found = compare_paired(before, after)
    assert found is not None
    return found


def holds(found: PairedComparison, gain: float) -> bool:
    """Say whether the interval holds a gain."""
    assert found.low is not None
    assert found.high is not None
    return found.low - 1e-9 <= gain <= found.high + 1e-9


def outcomes(rows: int, gain: float, loss: float) -> Iterator[tuple[float, PairedComparison]]:
    """Give each outcome that is likely at all, with its probability."""
    logs = [math.log(share) if share > 1e-12 else -1e9 for share in (gain, loss, 1 - gain - loss)]
    for gained in range(rows + 1):
        for lost in range(rows + 1 - gained):
            counts = (gained, lost, rows - gained - lost)
            weight = math.lgamma(rows + 1)
            weight += sum(n * log - math.lgamma(n + 1) for n, log in zip(counts, logs, strict=True))
            if weight > -25:
                yield math.exp(weight), compared(rows, gained, lost)


def binary(rows: int) -> tuple[float, float, float, float]:
    """Give the mean and the lowest coverage, and the most false "improved": at most half changing, and any number."""
    coverage, few, any_number = [], 0.0, 0.0
    for gain in SHARES:
        for loss in SHARES:
            if gain + loss > 1:
                continue
            found = list(outcomes(rows, gain, loss))
            coverage.append(sum(weight for weight, one in found if holds(one, gain - loss)))
            if gain == loss:
                false = sum(weight for weight, one in found if one.improved)
                any_number = max(any_number, false)
                few = max(few, false) if gain <= 0.25 else few
    return sum(coverage) / len(coverage), min(coverage), few, any_number


def graded(rows: int, shift: float, noise: float, steps: int | None) -> tuple[float, float]:
    """Give coverage and the share of "improved" for drawn scores in 0 to 1, in steps or continuous."""
    rng = random.Random(f"{rows} {shift} {noise} {steps}")

    def score(level: float) -> float:
        value = min(1.0, max(0.0, level + rng.gauss(0, noise)))
        return value if steps is None else round(value * steps) / steps

    def pair() -> tuple[float, float]:
        level = rng.betavariate(2, 2)
        return score(level), score(level + shift)

    true = sum(after - before for before, after in (pair() for _ in range(40_000))) / 40_000
    held = improved = 0
    for _ in range(DRAWS):
        before, after = zip(*(pair() for _ in range(rows)), strict=True)
        found = compare_paired(before, after)
        assert found is not None
        held, improved = held + holds(found, true), improved + found.improved
    return held / DRAWS, improved / DRAWS


def main(show: Callable[[str], None] = print) -> None:
    """Print both tables."""
    show("scores of 0 and 1, exact\nrows  mean   lowest  false (half change)  false (any)  where every row is gained")
    for rows in ROWS:
        mean, lowest, few, any_number = binary(rows)
        everything = compared(rows, rows, 0)
        show(f"{rows:4}  {mean:.3f}  {lowest:.3f}   {few:.3f}                {any_number:.3f}        {everything}")
    show(f"\ngraded scores, {DRAWS} draws\nrows  shift  noise  steps  coverage  improved")
    for steps in (3, None):
        for shift, noise in ((0.0, 0.1), (0.0, 0.3), (0.05, 0.1), (0.2, 0.3)):
            for rows in (8, 24, 120):
                held, improved = graded(rows, shift, noise, steps)
                show(f"{rows:4}  {shift:.2f}   {noise:.2f}   {steps or '-'!s:5}  {held:.3f}     {improved:.3f}")


if __name__ == "__main__":
    main()
