"""Keeping the rows that demos come from apart from those that candidates are compared on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from burnish import Candidate, FieldInfo, Parameter, toolkit
from burnish._model.example import make_examples
from burnish.abc import MetricInfo, Problem
from burnish.errors import UsageError

LABEL = Parameter(name="f", inputs=(FieldInfo(name="q"),), outputs=(FieldInfo(name="label", type="Literal['a', 'b']"),))


def problem(train: Sequence[Any], val: Sequence[Any] = (), *, seed: int = 0) -> Problem:
    return Problem(
        parameters={"f": LABEL},
        train=tuple(range(len(val), len(val) + len(train))),
        val=tuple(range(len(val))),
        start=Candidate(),
        metric=MetricInfo(),
        seed=seed,
        examples=make_examples([*val, *train]),
    )


def rows(*names: str) -> list[dict[str, str]]:
    return [{"q": name} for name in names]


def contents(problem: Problem, columns: Sequence[int]) -> set[str]:
    return {problem.example(column).fingerprint for column in columns}


def test_train_rows_that_are_validation_rows_give_no_demos() -> None:
    """They are told apart by content, since they stand in columns of their own, and named by their place."""
    given = problem(rows("a", "b", "c"), rows("b", "x"))
    found = toolkit.separate(given, share=0.5, purpose="p")
    assert ((2, 4), (0, 1), (3,)) == (found.sources, found.scoring, found.shared)
    assert ("1 of the 3 train rows are validation rows too and give no demos: train rows 1",) == found.notes


def test_rows_are_the_same_by_what_the_program_sees_of_them() -> None:
    """An id of its own does not make another row of it: it gives no demos, and stays on one side of a split."""
    numbered = [{"id": str(i), "q": "abca"[i % 4]} for i in range(8)]
    given = problem(numbered[:4], numbered[4:6])
    seen = tuple(example.seen_by({"q": example.value("q")}) for example in given.examples)
    found = toolkit.separate(attrs.evolve(given, examples=seen), share=0.5, purpose="p")
    assert ((4,), (0, 1), (2, 3, 5)) == (found.sources, found.scoring, found.shared)
    split = toolkit.separate(attrs.evolve(given, examples=seen, val=()), share=0.5, purpose="p")
    sides = [{seen[column].value("q") for column in side} for side in (split.sources, split.scoring)]
    assert set() == sides[0] & sides[1]


@pytest.mark.parametrize("val", [(), rows(*"abcdefgh")], ids=["none given", "the train rows again"])
def test_without_validation_rows_some_are_split_off(val: list[Any]) -> None:
    """The two sides share no content, cover the train rows, and the note says so."""
    given = problem(rows(*"abcdefgh"), val)
    found = toolkit.separate(given, share=0.5, purpose="p")
    sources, scoring = contents(given, found.sources), contents(given, found.scoring)
    assert set() == sources & scoring
    assert contents(given, given.train) == sources | scoring
    assert (4, 4) == (len(found.sources), len(found.scoring))
    assert not found.leave_one_out
    assert "4 of the 8 train rows were kept for scoring" in found.notes[0]


def test_the_split_follows_seed_and_purpose_alone() -> None:
    """The same seed splits in the same way; seed 0 is a seed like any other."""
    splits = [
        toolkit.separate(problem(rows(*"abcdefghij"), seed=seed), share=0.5, purpose=purpose).sources
        for seed, purpose in ((0, "p"), (0, "p"), (1, "p"), (0, "other"))
    ]
    assert splits[0] == splits[1]
    assert len(set(splits)) == 3


def test_the_split_keeps_the_proportions_of_the_labels() -> None:
    """Of 12 and 6 rows, a third of each is kept for scoring, or two and one of three; single rows of a label add up."""
    given = problem([{"q": str(i), "label": "a" if i < 12 else "b"} for i in range(18)])
    found = toolkit.separate(given, share=1 / 3, purpose="p")
    assert {"a": 4, "b": 2} == Counter(given.row(column)["label"] for column in found.scoring)
    few = toolkit.separate(given, share=1 / 3, purpose="p", most=3)
    assert {"a": 2, "b": 1} == Counter(given.row(column)["label"] for column in few.scoring)
    singles = problem([{"q": str(i), "label": str(i)} for i in range(10)])
    assert 5 == len(toolkit.separate(singles, share=0.5, purpose="p").scoring)


def test_equal_rows_stay_on_one_side() -> None:
    """A row that stands there twice is one content: it is learnt from or scored on, never both."""
    given = problem(rows(*"aabbccdd"))
    for seed in range(8):
        found = toolkit.separate(problem(rows(*"aabbccdd"), seed=seed), share=0.5, purpose="p")
        assert set() == contents(given, found.sources) & contents(given, found.scoring)


def test_rows_serve_both_sides_where_nothing_is_to_be_split() -> None:
    """With `share=None`, or one single content: each row is then scored without the demos made from it."""
    for given, share in ((problem(rows("a", "b")), None), (problem(rows("a", "a")), 0.5)):
        found = toolkit.separate(given, share=share, purpose="p")
        assert (given.train, given.train, True) == (found.sources, found.scoring, found.leave_one_out)


def test_an_empty_trainset_is_a_usage_error() -> None:
    """DSPy raises UnboundLocalError after the fact."""
    with pytest.raises(UsageError, match="the trainset is empty"):
        toolkit.separate(problem([], rows("a")), share=0.5, purpose="p")
