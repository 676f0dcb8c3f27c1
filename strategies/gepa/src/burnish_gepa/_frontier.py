"""Who is best at each key, and who of them is needed: kept up score by score."""

from __future__ import annotations

from collections.abc import Hashable, Mapping


class Frontier:
    """For every key the best score and all who have it.

    A key is a validation row, an objective, or both together. A new score costs work at its own key alone, and a hold
    that is lost is taken back once, so that the cost does not grow with the number of candidates.
    """

    def __init__(self) -> None:
        self._places: dict[Hashable, int] = {}
        self._best: list[float] = []
        self._holders: list[list[int]] = []
        self._held: dict[int, int] = {}
        """The keys that a candidate holds, as bits."""

    def take(self, candidate: int, key: Hashable, score: float) -> None:
        """Take in a candidate's score at a key; each pair comes once."""
        place = self._places.setdefault(key, len(self._places))
        if place == len(self._best):
            self._best.append(score)
            self._holders.append([])
        elif score < self._best[place]:
            return
        elif score > self._best[place]:
            for loser in self._holders[place]:
                self._held[loser] ^= 1 << place
            self._best[place], self._holders[place] = score, []
        self._holders[place].append(candidate)
        self._held[candidate] = self._held.get(candidate, 0) | 1 << place

    def best(self, key: Hashable) -> float | None:
        """Give the best score at a key; None where nobody has one."""
        place = self._places.get(key)
        return None if place is None else self._best[place]

    def holders(self, key: Hashable) -> list[int]:
        """Give who is best or ties at a key, in order of arrival."""
        place = self._places.get(key)
        return [] if place is None else list(self._holders[place])

    def weights(self, means: Mapping[int, float]) -> dict[int, int]:
        """Give the candidates that are needed, with the number of keys that each holds (GEPA).

        In ascending order of their means, those go whose every key is held by another one that is still there; of equal
        means the later goes first. One pass: who is still there after a candidate is known beforehand.
        """
        order = sorted((c for c, held in self._held.items() if held), key=lambda c: (means.get(c, 0.0), -c))
        after = [0] * (len(order) + 1)
        for i in range(len(order) - 1, -1, -1):
            after[i] = after[i + 1] | self._held[order[i]]
        kept, needed = 0, dict[int, int]()
        for i, candidate in enumerate(order):
            held = self._held[candidate]
            if held & ~(kept | after[i + 1]):
                kept |= held
                needed[candidate] = held.bit_count()
        return dict(sorted(needed.items()))
