"""Who is best somewhere: the per-example frontier (GEPA; seed 000; E38-E43)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Generic, Protocol, TypeVar

import attrs
import xxhash

from burnish.errors import UsageError

TOLERANCE = 1e-6
"""A score within this of a column's best ties with it."""

P = TypeVar("P")


@attrs.frozen(kw_only=True)
class ParetoStatistics:
    """Size of a frontier, and how many columns its members win."""

    num_candidates: int = 0
    """Members of the frontier; 1 means that the search has collapsed onto one candidate."""
    num_examples_covered: int = 0
    """Columns with any score."""
    avg_coverage: float = 0.0
    max_coverage: int = 0
    min_coverage: int = 0


class ParetoView:
    """A snapshot of rows of scores: best score a column, wins a row, and the rows that win somewhere.

    Built from `rows` (one a candidate, each with `columns` scores or None). Rows of unequal length read as unscored
    beyond their end.
    """

    def __init__(self, rows: Sequence[Sequence[float | None]], columns: int) -> None:
        best: list[float | None] = [None] * columns
        for row in rows:
            for e, score in enumerate(row[:columns]):
                current = best[e]
                if score is not None and (current is None or score > current):
                    best[e] = score
        self._best = tuple(best)
        self._wins = tuple(
            sum(s is not None and b is not None and s + TOLERANCE >= b for s, b in zip(row, best, strict=False))
            for row in rows
        )

    def best_scores(self) -> list[float | None]:
        """Give the best score of each viewed column; None where nobody has one."""
        return list(self._best)

    def wins(self, candidate: int) -> int:
        """Count the columns where the candidate is best or ties; 0 for one that is not known."""
        return self._wins[candidate] if 0 <= candidate < len(self._wins) else 0

    def frontier(self) -> list[int]:
        """Give the candidates that win somewhere, ascending."""
        return [c for c, wins in enumerate(self._wins) if wins > 0]

    def statistics(self) -> ParetoStatistics:
        """Sum up."""
        wins = [w for w in self._wins if w > 0]
        covered = sum(b is not None for b in self._best)
        if not wins:
            return ParetoStatistics(num_examples_covered=covered)
        return ParetoStatistics(
            num_candidates=len(wins),
            num_examples_covered=covered,
            avg_coverage=sum(wins) / len(wins),
            max_coverage=max(wins),
            min_coverage=min(wins),
        )


class Leaders:
    """The best score of one column and who has it, as bits: kept up score by score, without a look at the others."""

    __slots__ = ("_best", "who")

    def __init__(self) -> None:
        self._best: float | None = None
        self.who = 0
        """Bit `c` is set where candidate `c` is best or ties."""

    def take(self, candidate: int, score: float | None) -> bool:
        """Take a candidate's new score in, None where it has none any more.

        Gives False where that cannot be done without the others' scores: `recount` then. A leader fell back, or
        somebody went past the best by so little that others may still tie.
        """
        best, bit = self._best, 1 << candidate
        if score is None or (best is not None and score + TOLERANCE < best):
            return not self.who & bit
        if best is None or best + TOLERANCE < score:
            self._best, self.who = score, bit
            return True
        if score != best and (score > best or self.who & bit):
            return False
        self.who |= bit
        return True

    def recount(self, scores: Sequence[float | None]) -> None:
        """Look at the scores of all candidates, in order."""
        best = self._best = max((s for s in scores if s is not None), default=None)
        self.who = sum(
            1 << c for c, s in enumerate(scores) if s is not None and best is not None and s + TOLERANCE >= best
        )


def leading(columns: Iterable[Leaders]) -> list[int]:
    """Give the candidates that lead some column, ascending."""
    who = 0
    for column in columns:
        who |= column.who
    return [candidate for candidate, bit in enumerate(reversed(f"{who:b}")) if bit == "1"]


class Draws(Protocol):
    """Gives numbers in [0, 1): a `random.Random` will do."""

    def random(self) -> float: ...


@attrs.frozen(kw_only=True)
class FrontierMember(Generic[P]):
    """A payload on the frontier with its scores."""

    id: int
    payload: P
    scores: tuple[float, ...]

    def average_score(self) -> float:
        """Average the scores; 0.0 for none."""
        return math.fsum(self.scores) / len(self.scores) if self.scores else 0.0


class ParetoFrontier(Generic[P]):
    """Keeps the payloads that win somewhere, for callers who track them outside an engine (E42).

    Ids are given in order of `add_candidate`, also to those that are refused. Dominance is judged against everything
    ever accepted, pruned members included (E43).
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed, self._draws, self._next = seed, 0, 0
        self._best: list[float | None] = []
        self._members: list[FrontierMember[P]] = []

    def __len__(self) -> int:
        return len(self._members)

    @property
    def is_empty(self) -> bool:
        return not self._members

    def candidates(self) -> list[FrontierMember[P]]:
        """Give the members, in order of arrival."""
        return list(self._members)

    def add_candidate(self, payload: P, scores: Sequence[float]) -> bool:
        """Take a candidate in if it wins or ties somewhere, or scores a column that nobody had; drop whom it beats."""
        member = FrontierMember(id=self._next, payload=payload, scores=tuple(float(s) for s in scores))
        if not all(math.isfinite(s) for s in member.scores):
            raise UsageError(f"scores on a frontier must be finite; got {list(member.scores)}")
        self._next += 1
        self._best.extend([None] * (len(member.scores) - len(self._best)))
        if self._coverage(member) == 0:
            return False
        for e, score in enumerate(member.scores):
            best = self._best[e]
            self._best[e] = score if best is None else max(best, score)
        self._members = [m for m in [*self._members, member] if self._coverage(m) > 0]
        return True

    def sample_proportional_to_coverage(self, rng: Draws | None = None) -> FrontierMember[P] | None:
        """Draw a member with a chance proportional to the columns it wins; None if there is none.

        Without `rng` the draws are the frontier's own sequence, fixed by its seed.
        """
        if not self._members:
            return None
        weights = [self._coverage(m) for m in self._members]
        point = (self._draw() if rng is None else rng.random()) * sum(weights)
        for member, weight in zip(self._members, weights, strict=True):
            if point < weight:
                return member
            point -= weight
        return self._members[0]

    def best_by_average(self) -> FrontierMember[P] | None:
        """Give the member with the best average; the earliest on ties."""
        return max(self._members, key=lambda m: (m.average_score(), -m.id), default=None)

    def statistics(self) -> ParetoStatistics:
        """Sum up over the members."""
        return ParetoView([m.scores for m in self._members], len(self._best)).statistics()

    def _coverage(self, member: FrontierMember[P]) -> int:
        return sum(b is None or s + TOLERANCE >= b for s, b in zip(member.scores, self._best, strict=False))

    def _draw(self) -> float:
        self._draws += 1
        return xxhash.xxh3_64_intdigest(f"{self._seed}:{self._draws}".encode()) / 2.0**64
