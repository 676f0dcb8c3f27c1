"""Merging: two candidates with a common ancestor, component by component."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import burnish as b
from burnish import Candidate, CandidateEval, Eval, RolloutOutcome, abc
from burnish_gepa import GEPA, Member, Pool
from burnish_gepa._merge import find_merge
from burnish_programs import Module, Predict

from ._kinds import Run


def say(**texts: str) -> Candidate:
    made = Candidate()
    for name, text in texts.items():
        made = made.set_instruction(name, text)
    return made


def family(*members: tuple[Candidate, Sequence[int], Sequence[float | None]]) -> Pool:
    """Make a pool of candidates with their parents and scores."""
    pool = Pool(range(len(members[0][2])), "instance", members[0][0], 0, (1.0, True))
    for number, (candidate, parents, scores) in enumerate(members):
        rollouts = tuple(
            RolloutOutcome(c, None if score is None else Eval(score, "f")) for c, score in enumerate(scores)
        )
        evaluation = CandidateEval(candidate=number, rollouts=rollouts)
        pool.learn(candidate, evaluation)
        pool.add(
            Member(
                number=number, index=number, candidate=candidate, origin="x", parents=tuple(parents),
                evaluation=evaluation,
            )
        )
    return pool


LEFT, RIGHT = [1.0] * 4 + [0.0] * 4, [0.0] * 4 + [1.0] * 4


def test_each_component_comes_from_the_side_that_changed_it() -> None:
    """The merge has one side's draft, the other's answer and the ancestor's rest, and five rows of either sort."""
    pool = family(
        (say(rest="r"), (), [0.0] * 8),
        (say(rest="r", draft="new"), (0,), LEFT),
        (say(rest="r", final="new"), (0,), RIGHT),
    )
    merge = find_merge(pool, random.Random(0), {}, 5)
    assert merge is not None
    assert say(rest="r", draft="new", final="new") == merge.candidate
    assert (("draft", "final"), 0, {1, 2}) == (merge.changed, merge.ancestor, {merge.first, merge.second})
    assert 5 == len(merge.rows)
    assert min(sum(LEFT[c] for c in merge.rows), sum(RIGHT[c] for c in merge.rows)) >= 2
    assert max(sum(LEFT[c] for c in merge.rows), sum(RIGHT[c] for c in merge.rows)) == merge.threshold


def test_where_both_changed_the_better_side_counts() -> None:
    """A component that both sides rewrote is the better one's."""
    better = [1.0] * 5 + [0.0] * 3
    pool = family(
        (say(), (), [0.0] * 8),
        (say(draft="a", one="x"), (0,), better),
        (say(draft="b", two="y"), (0,), [0.0] * 5 + [1.0] * 3),
    )
    merge = find_merge(pool, random.Random(0), {}, 5)
    assert merge is not None
    assert say(draft="a", one="x", two="y") == merge.candidate


def test_a_common_ancestor_of_mean_zero_is_one() -> None:
    """gepa raises a ValueError where all ancestors have mean 0: here one is drawn."""
    pool = family(
        (say(), (), [0.0] * 8),
        (say(a="x"), (0,), [0.0] * 8),
        (say(a="x", b="l"), (1,), LEFT),
        (say(a="x", c="r"), (1,), RIGHT),
    )
    merge = find_merge(pool, random.Random(0), {}, 5)
    assert merge is not None
    assert say(a="x", b="l", c="r") == merge.candidate


def test_what_cannot_be_merged_is_not() -> None:
    """No merge of an ancestor with its descendant, of one component, of few common rows, or of a pair twice."""
    line = family((say(), (), [0.0] * 8), (say(a="x"), (0,), LEFT), (say(a="x", b="y"), (1,), RIGHT))
    assert None is find_merge(line, random.Random(0), {}, 5)
    single = family((say(), (), [0.0] * 8), (say(a="x"), (0,), LEFT), (say(a="y"), (0,), RIGHT))
    assert None is find_merge(single, random.Random(0), {}, 5)
    few: list[float | None] = [None] * 4 + [1.0] * 4
    sparse = family((say(), (), [0.0] * 8), (say(a="x"), (0,), LEFT), (say(b="y"), (0,), few))
    assert None is find_merge(sparse, random.Random(0), {}, 5)
    assert None is not find_merge(sparse, random.Random(0), {}, 4)
    tried: dict[tuple[int, int, int], None] = {}
    pool = family((say(), (), [0.0] * 8), (say(a="x"), (0,), LEFT), (say(b="y"), (0,), RIGHT))
    assert None is not find_merge(pool, random.Random(0), tried, 5)
    assert None is find_merge(pool, random.Random(0), tried, 5)


class Pair(Module):
    """Two predictors, each of which answers one half of the rows."""

    def __init__(self) -> None:
        self.left = Predict("question -> answer", "Left.")
        self.right = Predict("question -> answer", "Right.")

    async def forward(self, *, question: str) -> Any:
        return await (self.left if question.startswith("l") else self.right)(question=question)


def halves(request: abc.LMRequest) -> str:
    return f"answer: {'right' if 'good' in request.messages[0].content else 'wrong'}"


@b.inline
def half_metric(example: Any, prediction: Any, trace: Any = None) -> b.Eval:
    return b.Eval(float(prediction["answer"] == "right"), "say good")


def test_a_search_merges_what_it_found() -> None:
    """Two children of the start, each better on its half, become one that is better on both, gated on five rows."""
    train = [{"question": f"{side}{n}"} for n in range(3) for side in ("l", "r")]
    val = [{"question": f"{side}{n}"} for n in range(10, 14) for side in ("l", "r")]

    class StartOnly:
        """Always change the start, so that there are siblings."""

        def choose(self, pool: Pool, rng: random.Random) -> int:
            return 0

    def good(request: abc.LMRequest) -> str:
        name = "Left" if "component: left" in request.messages[-1].content else "Right"
        return f"new_text: {name}, good."

    strategy = GEPA(max_metric_calls=80, candidate_selection=StartOnly())
    run = Run(strategy, program=Pair(), trainset=train, valset=val, task=halves, proposer=good, metric=half_metric)
    merged = [entry for entry in run.report.candidates if entry.origin == "merge"]
    assert 1 == len(merged) == run.report.merges
    assert (1.0, ("left", "right")) == (merged[0].mean, merged[0].changed)  # type: ignore[attr-defined]
    assert 2 == len(merged[0].parents)  # type: ignore[attr-defined]
    assert merged[0].candidate == run.report.best
    (line,) = [line for line in run.report.iterations if line.kind == "merge"]
    assert (5, "validated") == (len(line.columns), line.outcome)
    without = Run(
        GEPA(max_metric_calls=80, candidate_selection=StartOnly(), use_merge=False, patience=2), program=Pair(),
        trainset=train, valset=val, task=halves, proposer=good, metric=half_metric,
    )
    assert (0, 0.5) == (without.report.merges, without.report.best_score)
