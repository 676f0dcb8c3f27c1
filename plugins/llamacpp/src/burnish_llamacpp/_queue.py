"""Who goes next: the waiting prompt that shares most with the last one, within bounds.

There is one key-value cache. A prompt that starts like the last one is nearly free, another one throws the cache away;
so where several candidates with different demos are in flight, first come, first served would pay for every prompt in
full. Pure: no clock, no thread.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import attrs

T = TypeVar("T")

PATIENCE = 32
"""Prompts in a row that may go before the one that has waited longest."""


@attrs.define(eq=False)
class AffinityQueue(Generic[T]):
    """Waiting items with their prompts.

    After `patience` takes in a row that passed over the oldest item, the oldest goes: an item with k older ones before
    it is passed over at most (k + 1) * `patience` times.
    """

    patience: int = PATIENCE
    _waiting: dict[T, str] = attrs.field(factory=dict, init=False)
    _last: str = attrs.field(default="", init=False)
    _passed_over: int = attrs.field(default=0, init=False)

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, item: T, prompt: str) -> None:
        """Let an item wait; items are told apart by equality."""
        self._waiting[item] = prompt

    def discard(self, item: T) -> None:
        """Drop an item that no longer waits for its turn; an unknown one changes nothing."""
        self._waiting.pop(item, None)

    def take(self) -> T | None:
        """Take the next item: it is on the CPU now, and the next is compared with its prompt. None: nobody waits."""
        if not self._waiting:
            return None
        oldest = next(iter(self._waiting))
        chosen = oldest if self._passed_over >= self.patience else self._closest()
        self._passed_over = 0 if chosen is oldest else self._passed_over + 1
        self._last = self._waiting.pop(chosen)
        return chosen

    def _closest(self) -> T:
        # `max` keeps the first of equals, and a dict keeps the order of arrival.
        return max(self._waiting, key=lambda item: shared_prefix(self._waiting[item], self._last))


def shared_prefix(left: str, right: str) -> int:
    """Count the characters that two texts start with in common."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
