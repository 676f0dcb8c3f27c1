"""The frontier and the choice of parents: the same as gepa's, found faster, and fair to the best mean."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

import burnish as b
from burnish import CandidateEval, Eval, RolloutOutcome
from burnish_gepa import Frontier, Member, Pool
from burnish_gepa._pool import FrontierType
from burnish_gepa._selection import CurrentBest, EpsilonGreedy, Pareto


def plain_weights(rows: Sequence[Sequence[float]]) -> dict[int, int]:
    """Do it the long way round: best sets by key, then dominated ones go one by one, in ascending order of means."""
    best = [max(column) for column in zip(*rows, strict=True)]
    fronts = [{c for c, row in enumerate(rows) if row[k] == top} for k, top in enumerate(best)]
    there = [c for c in range(len(rows)) if any(c in front for front in fronts)]
    for candidate in sorted(there, key=lambda c: (sum(rows[c]) / len(rows[c]), -c)):
        others = set(there) - {candidate}
        if all(front & others for front in fronts if candidate in front):
            there.remove(candidate)
    return {c: sum(c in front for front in fronts) for c in there}


@pytest.mark.parametrize("seed", range(8))
def test_it_is_that_of_gepa(seed: int) -> None:
    """Fed score by score, members and weights are those of the whole computation, after each candidate."""
    rng = random.Random(seed)
    frontier, rows = Frontier(), list[list[float]]()
    for number in range(14):
        rows.append([float(rng.randrange(2 + seed % 3)) for _ in range(12)])
        for key, score in enumerate(rows[-1]):
            frontier.take(number, key, score)
        means = {c: sum(row) / len(row) for c, row in enumerate(rows)}
        assert plain_weights(rows) == frontier.weights(means)
    assert [max(column) for column in zip(*rows, strict=True)] == [frontier.best(key) for key in range(12)]


@pytest.mark.slow
def test_its_cost_does_not_grow_with_the_candidates() -> None:
    """500 candidates on 500 rows (gepa: 401 ms an iteration): taking one in and drawing a parent takes little."""
    rng = random.Random(1)
    frontier, means = Frontier(), dict[int, float]()
    begun = 0.0
    for number in range(500):
        scores = [float(rng.random() < 0.5) for _ in range(500)]
        means[number] = sum(scores) / 500
        if number == 450:
            begun = time.process_time()
        for key, score in enumerate(scores):
            frontier.take(number, key, score)
        if number >= 450:
            frontier.weights(means)
    assert (time.process_time() - begun) / 50 < 0.02


def pool(rows: Sequence[Sequence[float]], kind: FrontierType = "instance", objectives: bool = False) -> Pool:
    """Make a pool of members with these scores on the validation rows."""
    made = Pool(range(len(rows[0])), kind, b.Candidate().set_instruction("answer", "0"), 0, (1.0, True))
    for number, row in enumerate(rows):
        evals = [Eval(score, "f", {"speed": 1 - score, "tone": score / 2} if objectives else {}) for score in row]
        outcomes = tuple(RolloutOutcome(column, found) for column, found in enumerate(evals))
        candidate = b.Candidate().set_instruction("answer", f"{number}")
        evaluation = CandidateEval(candidate=number, rollouts=outcomes)
        made.learn(candidate, evaluation)
        made.add(Member(number=number, index=number, candidate=candidate, origin="x", evaluation=evaluation))
    return made


def shares(selector: Pareto | CurrentBest | EpsilonGreedy, made: Pool, draws: int = 2000) -> Mapping[int, float]:
    """Give how often each member is drawn."""
    rng = random.Random(0)
    drawn = Counter(selector.choose(made, rng) for _ in range(draws))
    return {number: count / draws for number, count in sorted(drawn.items())}


def test_the_best_mean_has_its_share() -> None:
    """Where others hold all its keys between them, gepa never draws the best mean; here it is, one time in ten."""
    rows = [[1, 1, 0, 0, 0, 1], [0, 0, 1, 1, 1, 0], [1, 0.9, 1, 0.9, 0.9, 0.9]]
    made = pool(rows)
    assert (2, {0, 1}) == (made.best, set(made.frontier.weights(made.means)))
    found = shares(Pareto(), made)
    assert 0.07 < found[2] < 0.13
    assert 0.7 < shares(Pareto(0.75), made)[2] < 0.8


def test_parents_are_drawn_by_the_keys_they_hold() -> None:
    """Pareto draws in proportion; the others take the best mean, always or mostly; the top k are the best means."""
    made = pool([[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 1]])
    assert 1 == made.best
    found = shares(Pareto(), made)
    assert 0.45 < found[1] < 0.55
    assert 0.2 < found[0] < 0.3
    assert {1: 1.0} == shares(CurrentBest(), made)
    assert 0.9 < shares(EpsilonGreedy(0.1), made)[1] < 0.97
    assert {0, 1} == set(shares(Pareto(top=2), made))


@pytest.mark.parametrize(
    ("kind", "keys"), [("instance", 2), ("objective", 2), ("hybrid", 4), ("cartesian", 4)]
)
def test_frontiers_are_over_rows_objectives_or_both(kind: FrontierType, keys: int) -> None:
    """`frontier_type`: rows, objectives on average, either, or each objective on each row."""
    made = pool([[0.0, 0.5]], kind, objectives=True)
    assert {0: keys} == made.frontier.weights(made.means)
    made = pool([[0.0, 0.5], [1.0, 1.0]], kind, objectives=True)
    assert ({1} if kind == "instance" else {0, 1}) == set(made.frontier.weights(made.means))
