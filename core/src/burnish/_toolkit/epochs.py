"""Minibatches: rows in seeded order, none twice within an epoch, however many are drawn ahead."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from burnish.errors import UsageError


class Epochs:
    """Gives minibatches of some columns, one epoch after the other, each in an order of its own.

    `rng` makes the random numbers of an epoch. Where the size does not divide the columns, an epoch's last minibatch is
    filled up with rows of the same epoch that were drawn least, so that all have one size.
    """

    def __init__(self, columns: Sequence[int], size: int, rng: Callable[[str], random.Random]) -> None:
        if not columns or size < 1:
            raise UsageError(f"minibatches of {size} rows cannot be drawn from {len(columns)} rows")
        self._columns, self._size, self._rng = list(columns), min(size, len(columns)), rng
        self._epoch, self._left = -1, list[int]()
        self._drawn: list[int] = []

    def draw(self) -> tuple[int, ...]:
        """Give the next minibatch, in the order of its columns."""
        if not self._left:
            self._epoch += 1
            self._left = list(self._columns)
            self._rng(f"epoch {self._epoch}").shuffle(self._left)
            self._drawn = []
        taken, self._left = self._left[: self._size], self._left[self._size :]
        short = self._size - len(taken)
        batch = taken + self._drawn[:short]
        self._drawn += taken
        return tuple(sorted(batch))
