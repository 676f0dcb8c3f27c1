"""Labeled demos, and drawing sets of demos."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from burnish import Demo, FieldInfo, Parameter, toolkit
from burnish._model.example import make_examples

CLASSIFY = Parameter(
    name="classify",
    inputs=(FieldInfo(name="text"),),
    outputs=(FieldInfo(name="why"), FieldInfo(name="label", type="Literal['a', 'b']")),
)
ANSWER = Parameter(name="answer", inputs=(FieldInfo(name="q"),), outputs=(FieldInfo(name="a"),))


def demo(text: str, label: str, source: str | None = None) -> Demo:
    return Demo({"text": text, "why": text, "label": label}, source=source)


def test_a_row_is_a_demo_for_predictors_whose_fields_it_has() -> None:
    """Further fields of the row stay out; a predictor that lacks one of its outputs gets none."""
    examples = make_examples([{"q": "1+1", "a": "2", "id": 7}, {"q": "no answer"}, {"q": "1+1", "a": "two"}])
    demos = toolkit.labeled_demos([0, 1, 2], examples, {"answer": ANSWER, "classify": CLASSIFY})
    assert {"answer": (Demo({"q": "1+1", "a": "2"}, source=examples[0].fingerprint),)} == demos


def test_a_field_on_both_sides_needs_a_pair() -> None:
    """A flat row holds one value of `draft -> draft`, so it shows nothing; a pair of inputs and outputs holds both."""
    refine = Parameter(name="refine", inputs=(FieldInfo(name="draft"),), outputs=(FieldInfo(name="draft"),))
    examples = make_examples([{"draft": "one value"}, ({"draft": "raw"}, {"draft": "fine"})])
    (found,) = toolkit.labeled_demos([0, 1], examples, {"refine": refine})["refine"]
    assert ("fine", "raw") == (found["draft"], found.input_value("draft"))


def test_a_predictor_without_declared_fields_gets_no_labeled_demos() -> None:
    """Which fields of a row are outputs is not guessed."""
    assert {} == toolkit.labeled_demos([0], make_examples([{"q": "x"}]), {"f": Parameter(name="f")})


def test_the_label_is_the_class_where_one_is_declared() -> None:
    """Reasons differ, the class counts; without a class it is the last output, and without outputs there is none."""
    reasons = [toolkit.label_of({"why": why, "label": "a"}, CLASSIFY) for why in ("x", "y")]
    assert reasons[0] == reasons[1]
    assert toolkit.label_of({"a": 1}, ANSWER) != toolkit.label_of({"a": True}, ANSWER)
    assert toolkit.label_of({"q": "only an input"}, ANSWER) is None
    assert toolkit.label_of({"q": "x"}, Parameter(name="f")) is None


def test_texts_that_are_all_distinct_change_no_order() -> None:
    """Each is a group of one, so that an unshuffled draw is the head of the list."""
    texts = [f"text {i}" for i in range(9)]
    assert tuple(texts[:4]) == toolkit.draw(texts, 4, label=str)


def test_six_of_six_classes_are_one_each() -> None:
    """However the rows are sorted, and for every seed: the draw that beats chance."""
    items = [f"{label}{i}" for label in "abcdef" for i in range(20)]
    for seed in range(20):
        drawn = toolkit.draw(items, 6, random.Random(seed), label=lambda item: item[0])
        assert list("abcdef") == sorted(item[0] for item in drawn)


FEW = settings(max_examples=40, derandomize=True, deadline=None)
LABELED = st.lists(st.sampled_from("abcd"), max_size=30).map(
    lambda labels: [(i, label) for i, label in enumerate(labels)]
)


@FEW
@given(
    items=LABELED,
    count=st.integers(0, 35),
    seed=st.none() | st.integers(0, 5),
    taken=st.lists(st.sampled_from("abcx")),
)
def test_a_draw_is_distinct_even_and_repeatable(
    items: list[tuple[int, str]], count: int, seed: int | None, taken: list[str]
) -> None:
    """As many as asked for and there are; no label is two ahead of one that had more to give; same seed, same draw."""

    def once() -> tuple[tuple[int, str], ...]:
        rng = None if seed is None else random.Random(seed)
        return toolkit.draw(items, count, rng, label=lambda item: item[1], taken=taken)

    drawn = once()
    assert once() == drawn
    assert min(count, len(items)) == len(drawn) == len(set(drawn))
    assert set(drawn) <= set(items)
    before, have, total = Counter(taken), Counter(label for _, label in drawn), Counter(label for _, label in items)
    unfinished = [before[label] + have[label] for label in total if have[label] < total[label]]
    for label in have:
        assert before[label] + have[label] <= max(before[label], min(unfinished, default=10**9)) + 1


@FEW
@given(
    made=st.lists(st.sampled_from("abc"), max_size=8),
    rows=st.lists(st.sampled_from("abc"), max_size=12),
    bootstrapped=st.integers(0, 5),
    total=st.integers(0, 10),
    seed=st.integers(0, 3),
    stratify=st.booleans(),
)
def test_a_set_never_shows_one_row_twice(
    made: list[str], rows: list[str], bootstrapped: int, total: int, seed: int, stratify: bool
) -> None:
    """Bootstrapped demos first, at most so many; labeled rows fill up, without the sources of the former."""
    pool = toolkit.DemoPool(
        parameters={"classify": CLASSIFY},
        bootstrapped={"classify": tuple(demo(f"m{i}", label, source=str(i)) for i, label in enumerate(made))},
        labeled={"classify": tuple(demo(f"r{i}", label, source=str(i)) for i, label in enumerate(rows))},
        stratify=stratify,
    )
    drawn = pool.draw(bootstrapped, total, random.Random(seed)).get("classify", ())
    first = min(bootstrapped, len(made))
    assert ["m"] * first == [str(d["text"])[0] for d in drawn[:first]]
    assert all(str(d["text"]).startswith("r") for d in drawn[first:])
    sources = [d.source for d in drawn]
    assert len(sources) == len(set(sources))
    assert len(drawn) <= max(first, total)
    assert drawn == pool.draw(bootstrapped, total, random.Random(seed)).get("classify", ())


def test_the_fill_makes_up_for_classes_that_the_teacher_missed() -> None:
    """Two demos of class `a` and a total of four: the two labeled rows are of class `b`."""
    rows: list[Any] = [demo(f"{label}{i}", label, source=f"{label}{i}") for label in "ab" for i in range(5)]
    pool = toolkit.DemoPool(
        parameters={"classify": CLASSIFY},
        bootstrapped={"classify": (demo("x", "a", source="x"), demo("y", "a", source="y"))},
        labeled={"classify": tuple(rows)},
    )
    drawn = pool.draw(2, 4, random.Random(0), shuffle=False)["classify"]
    assert ["a", "a", "b", "b"] == [d["label"] for d in drawn]
