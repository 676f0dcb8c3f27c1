"""Merging: two candidates with a common ancestor become one, component by component from the side that changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import attrs

from burnish import Candidate, Overlay
from burnish_gepa._pool import Pool

GATE_ROWS = 5
"""Validation rows that a merged candidate is tried on first."""


@attrs.frozen(kw_only=True)
class Merge:
    """A merged candidate to be tried."""

    first: int
    second: int
    """Numbers of the members."""
    ancestor: int
    candidate: Candidate
    changed: tuple[str, ...]
    """Parameters in which it differs from the ancestor."""
    rows: tuple[int, ...]
    """Validation columns that it is tried on first: where either side is better, and where they are equal."""
    threshold: float
    """The sum on these rows that it has to reach: the better side's."""


def find_merge(pool: Pool, rng: Random, tried: dict[tuple[int, int, int], None], floor: int) -> Merge | None:
    """Give a merge of two needed members of the frontier that was not tried; None where there is none.

    Neither may descend from the other, the ancestor is no better than either, some component changed on one side only,
    and both are scored on at least `floor` common rows. Of several ancestors one is drawn in proportion to its mean;
    where all of them have 0, evenly.
    """
    needed = list(pool.frontier.weights(pool.means))
    pairs = [(a, b) for place, a in enumerate(needed) for b in needed[place + 1 :]]
    rng.shuffle(pairs)
    for first, second in pairs:
        rows = [c for c in pool.val if pool.eval(first, c) is not None and pool.eval(second, c) is not None]
        if len(rows) < max(1, floor):
            continue
        ancestors = [a for a in _common(pool, first, second) if (first, second, a) not in tried]
        useful = [a for a in ancestors if _one_sided(pool, first, second, a)]
        if not useful:
            continue
        weights = [max(0.0, pool.means[a]) for a in useful]
        ancestor = rng.choices(useful, weights if any(weights) else None)[0]
        tried[first, second, ancestor] = None
        candidate = _merged(pool, first, second, ancestor)
        if candidate.stable_hash in pool.known:
            continue
        return _planned(pool, rng, (first, second, ancestor), candidate, rows)
    return None


def _planned(
    pool: Pool, rng: Random, members: tuple[int, int, int], candidate: Candidate, rows: Sequence[int]
) -> Merge:
    first, second, ancestor = members
    gate = tuple(sorted(_gate_rows(pool, rng, first, second, rows)))
    base = pool.members[ancestor].candidate
    names = dict.fromkeys([*base.overlays, *candidate.overlays])
    return Merge(
        first=first,
        second=second,
        ancestor=ancestor,
        candidate=candidate,
        changed=tuple(name for name in names if _part(base, name) != _part(candidate, name)),
        rows=gate,
        threshold=max(pool.total(first, gate), pool.total(second, gate)),
    )


def _common(pool: Pool, first: int, second: int) -> Iterator[int]:
    """Give the common ancestors that are no better than either; none where one side descends from the other."""
    before, others = pool.ancestors(first), pool.ancestors(second)
    if second in before or first in others:
        return
    worst = min(pool.means[first], pool.means[second])
    yield from sorted(a for a in before if a in others and pool.means[a] <= worst)


def _one_sided(pool: Pool, first: int, second: int, ancestor: int) -> bool:
    """Whether each side brings something: a component that one side changed and the other did not."""
    base, one, other = (pool.members[n].candidate for n in (ancestor, first, second))
    names = dict.fromkeys([*base.overlays, *one.overlays, *other.overlays])
    parts = [(_part(base, n), _part(one, n), _part(other, n)) for n in names]
    return any((a == b) != (a == c) for a, b, c in parts)


def _merged(pool: Pool, first: int, second: int, ancestor: int) -> Candidate:
    """Take each component from the side that changed it; where both did, from the better side."""
    base, one, other = (pool.members[n].candidate for n in (ancestor, first, second))
    better = other if pool.means[second] > pool.means[first] else one
    overlays = {}
    for name in dict.fromkeys([*base.overlays, *one.overlays, *other.overlays]):
        old, left, right = _part(base, name), _part(one, name), _part(other, name)
        overlays[name] = right if left == old else left if right == old else _part(better, name)
    return Candidate(overlays, base=base.base)


def _part(candidate: Candidate, name: str) -> Overlay:
    return candidate.overlays.get(name, Overlay())


def _gate_rows(pool: Pool, rng: Random, first: int, second: int, rows: Sequence[int]) -> list[int]:
    """Draw rows where the first side is better, where the second is, and where they are equal, a third of each."""
    sides: tuple[list[int], list[int], list[int]] = ([], [], [])
    for column in rows:
        one, other = pool.total(first, [column]), pool.total(second, [column])
        sides[0 if one > other else 1 if other > one else 2].append(column)
    each = -(-GATE_ROWS // 3)
    drawn = [column for side in sides for column in rng.sample(side, min(each, len(side)))][:GATE_ROWS]
    rest = [column for column in rows if column not in drawn]
    return drawn + rng.sample(rest, min(GATE_ROWS - len(drawn), len(rest)))
