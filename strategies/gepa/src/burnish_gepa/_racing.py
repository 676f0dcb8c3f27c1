"""Racing: a child is validated in growing parts, and no further than it takes to know whether it is worth a place."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from random import Random

import attrs

from burnish import Candidate, CandidateEval, RolloutOutcome, RolloutStatus
from burnish_gepa._pool import Member
from burnish_gepa._steps import Child, Told

PARTS = 8
"""The first part is this share of the rows; each further one is twice as large."""
PROBES = 5
"""Of so many rows of a part, one is taken where the best so far cannot be beaten: to see what the child has broken."""

Request = tuple[Candidate, int, Sequence[int]]
"""A candidate, its number in the engine, and columns."""
Evaluate = Callable[[Told, str, Sequence[Request]], Awaitable[Sequence[CandidateEval]]]


@attrs.define
class _Runner:
    child: Child
    parent: dict[int, RolloutOutcome]
    """What is known, or taken for granted, of the better of its parents, by column."""
    found: dict[int, RolloutOutcome] = attrs.field(factory=dict)


async def race(
    evaluate: Evaluate, told: Told, children: Sequence[Child], leaders: Mapping[int, float], rng: Random
) -> None:
    """Validate children part by part, all that are still in the race at once.

    `leaders` has the best score of each row. A child that has beaten one of them and done worse than its parent nowhere
    is taken in; the rest of its rows are its parent's until the search ends, unless it was perfect on a whole part, and
    may be so on more. One that has beaten nobody is out where it cannot any more.
    """
    bar = told.job.bar
    running = [_Runner(child, _better(child.parents)) for child in children]
    parts = list(_parts(leaders, bar, rng))
    for number, part in enumerate(parts):
        left = [column for later in parts[number + 1 :] for column in later]
        requests = [(r.child.candidate, r.child.index, part) for r in running]
        found = await evaluate(told, f"part {number}", requests)
        going = []
        for place, runner in enumerate(running):
            rollouts = found[place].rollouts if place < len(found) else ()
            runner.found.update((rollout.example, rollout) for rollout in rollouts)
            if not rollouts or any(rollout.status is RolloutStatus.REJECTED for rollout in rollouts):
                told.end(runner.child, "no room")
            elif _decided(runner, part, left, leaders, bar, told):
                continue
            else:
                going.append(runner)
        running = going
        if not running:
            return


def _decided(
    runner: _Runner,
    part: Sequence[int],
    left: Sequence[int],
    leaders: Mapping[int, float],
    bar: float,
    told: Told,
) -> bool:
    """Book a child whose race is over; says whether it is."""
    scores = {column: r.eval.score for column, r in runner.found.items() if r.eval is not None}
    won = any(score > leaders[column] for column, score in scores.items())
    before = {column: r.eval.score for column, r in runner.parent.items() if r.eval is not None}
    lost = any(score < before.get(column, score) for column, score in scores.items())
    perfect = all(scores.get(column, -math.inf) >= bar for column in part)
    if not scores and not left:
        told.end(runner.child, "unscored")
    elif not left or (won and not lost and not perfect):
        evaluation, inherited = _filled(runner, tuple(leaders))
        told.add(runner.child, evaluation, inherited=inherited)
    elif not won and not _may_win(scores, before, left, leaders, bar):
        told.end(runner.child, "out of the race")
    else:
        return False
    return True


def _may_win(
    scores: Mapping[int, float],
    before: Mapping[int, float],
    left: Sequence[int],
    leaders: Mapping[int, float],
    bar: float,
) -> bool:
    """Whether a child may still beat somebody: the best of some row, or its parent on average."""
    if any(leaders[column] < bar for column in left):
        return True
    gain = sum(score - before.get(column, score) for column, score in scores.items())
    return gain + sum(bar - before.get(column, bar) for column in left) > 0


def _parts(leaders: Mapping[int, float], bar: float, rng: Random) -> Iterator[tuple[int, ...]]:
    """Cut the rows into growing parts: mostly such as may be won, with a few of the others as probes."""
    rows = list(leaders)
    rng.shuffle(rows)
    open_rows = [column for column in rows if leaders[column] < bar]
    closed = [column for column in rows if leaders[column] >= bar]
    size = max(2, -(-len(rows) // PARTS))
    while open_rows or closed:
        probes = -(-size // PROBES) if open_rows else size
        taken = [*open_rows[: size - probes], *closed[:probes]]
        taken += open_rows[size - probes :][: size - len(taken)]
        open_rows = [column for column in open_rows if column not in taken]
        closed = [column for column in closed if column not in taken]
        yield tuple(sorted(taken))
        size *= 2


def _better(parents: Sequence[Member]) -> dict[int, RolloutOutcome]:
    best = max(parents, key=lambda member: (member.evaluation.mean() or 0.0, -member.number))
    return {rollout.example: rollout for rollout in best.evaluation.rollouts}


def _filled(runner: _Runner, columns: Sequence[int]) -> tuple[CandidateEval, tuple[int, ...]]:
    """Give a whole validation, with the parent's results where the child has none; and where that is."""
    inherited = tuple(column for column in columns if column not in runner.found)
    rollouts = tuple(runner.found.get(column, runner.parent.get(column, RolloutOutcome(column))) for column in columns)
    return CandidateEval(candidate=runner.child.index, rollouts=rollouts), inherited
