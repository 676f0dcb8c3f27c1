"""Rows as examples: a content identity of the whole row, or a refusal by index."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
from collections import OrderedDict, defaultdict
from typing import Any, NamedTuple

import attrs
import pytest

from burnish._model.canonical import Json, fingerprint, hash64
from burnish._model.example import make_examples, own
from burnish.errors import RowError, UsageError


@attrs.frozen
class AttrsRow:
    question: str
    answer: int


@dataclasses.dataclass
class DataRow:
    question: str
    answer: int


class NamedRow(NamedTuple):
    question: str
    answer: int


ROWS: list[Any] = [
    {"question": "2+2?", "answer": 4},
    OrderedDict(answer=4, question="2+2?"),
    AttrsRow("2+2?", 4),
    DataRow("2+2?", 4),
    NamedRow("2+2?", 4),
]
PAIRS: list[Any] = [
    ({"question": "2+2?"}, {"answer": 4}),
    (attrs.make_class("Asked", ["question"])("2+2?"), NamedRow("-", 4)),
    (DataRow("2+2?", 0), {"answer": 4}),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row).__name__)
def test_a_row_may_have_any_form(row: Any) -> None:
    """Mappings and attrs, dataclass and namedtuple instances of one content are one row (E1, E62)."""
    (example,) = make_examples([row])
    content: Json = {"question": "2+2?", "answer": 4}
    assert content == example.data
    assert (hash64(content), fingerprint(content)) == (example.uid, example.fingerprint)
    assert (row, type(row)) == (example.row, type(example.row))
    assert ("2+2?", 4) == (example.value("question"), example.value("answer"))


@pytest.mark.parametrize("pair", PAIRS, ids=["mappings", "attrs and namedtuple", "dataclass and mapping"])
def test_a_pair_is_a_row(pair: Any) -> None:
    """`(inputs, outputs)`: both sides' fields, the inputs' first where a value is looked up (E62)."""
    (example,) = make_examples([pair])
    assert "2+2?" == example.value("question")
    assert 4 == example.data["answer"]


def test_the_whole_row_is_the_identity() -> None:
    """A field that only the metric reads changes the uid; equal rows share it and stay two examples (E1, E3)."""
    one, same, other = make_examples([{"q": 1, "gold": "a"}, {"gold": "a", "q": 1}, {"q": 1, "gold": "b"}])
    assert one.uid == same.uid
    assert one.uid != other.uid
    assert one.fingerprint != other.fingerprint
    assert one is not same


class Colour(enum.Enum):
    RED = "red"


class Loud(str):
    """A text of another type."""


APART: list[tuple[Any, Any]] = [
    (datetime.date(2020, 1, 1), "2020-01-01"),
    (datetime.datetime(2020, 1, 1), "2020-01-01T00:00:00"),
    (datetime.datetime(2020, 1, 1), datetime.date(2020, 1, 1)),
    (decimal.Decimal("1.0"), "1.0"),
    (decimal.Decimal("1.0"), 1.0),
    (Colour.RED, "red"),
    (Loud("a"), "a"),
    ((1, 2), [1, 2]),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ([{"a": 1, "b": 2}], [{"b": 2, "a": 1}]),
    ({"b": 1, "a": 2}, [["b", 1], ["a", 2]]),
    ({"b": 1, "a": 2}, {"\0type": ["dict", [["b", 1], ["a", 2]]]}),
    (OrderedDict(a=1), {"a": 1}),
    (AttrsRow("2+2?", 4), DataRow("2+2?", 4)),
    (AttrsRow("2+2?", 4), {"question": "2+2?", "answer": 4}),
]


@pytest.mark.parametrize(("one", "other"), APART, ids=repr)
def test_values_that_a_program_sees_apart_are_told_apart(one: Any, other: Any) -> None:
    """A prompt that shows the value differs: such rows share neither scores nor outputs (E1, E2)."""
    first, second, again = make_examples([{"q": one, "gold": 1}, {"q": other, "gold": 1}, {"gold": 1, "q": one}])
    assert first.uid != second.uid
    assert first.fingerprint != second.fingerprint
    assert (first.uid, first.fingerprint) == (again.uid, again.fingerprint)


def test_plain_rows_are_known_by_their_content_alone() -> None:
    """The form of JSON in the order of its keys is the content itself, nested or not (E1)."""
    content: Json = {"q": {"a": [1, {"b": None}], "c": "x"}, "gold": 0.5}
    (example,) = make_examples([content])
    assert (hash64(content), fingerprint(content)) == (example.uid, example.fingerprint)


def test_what_the_program_sees_says_where_demos_come_from() -> None:
    """Ids, labels and outer blanks aside; other inputs, and inputs by another name, are another source."""
    one, same, other = make_examples([{"id": 1, "q": "a", "gold": "x"}, {"id": 2, "q": " a\n"}, {"id": 1, "q": "b"}])
    seen = [example.seen_by({"q": example.row["q"]}) for example in (one, same, other)]
    assert seen[0].source == seen[1].source
    assert 3 == len({seen[0].source, seen[2].source, one.seen_by({"r": "a"}).source})
    assert (one.fingerprint, one.fingerprint) == (one.source, one.seen_by({}).source)
    assert tuple(seen) == make_examples(seen)


def test_pairs_that_share_a_name_keep_both_values() -> None:
    """A field on both sides: the input's value is part of the identity, and is the one that goes in (E1, E2)."""
    first, second = make_examples([({"draft": "a"}, {"draft": "z"}), ({"draft": "b"}, {"draft": "z"})])
    assert first.uid != second.uid
    assert first.fingerprint != second.fingerprint
    assert ("a", "z") == (first.value("draft"), first.data["draft"])


@pytest.mark.parametrize("bad", [float("nan"), {1, 2}, object()], ids=["nan", "set", "object"])
def test_a_row_without_a_form_is_refused_by_index(bad: Any) -> None:
    """Such rows would share one identity and each other's scores: the error names row and field (E2)."""
    with pytest.raises(RowError, match=r"row 1: meta\.x") as caught:
        make_examples([{"q": 1}, {"q": 2, "meta": {"x": bad}}])
    assert (1, "meta.x") == (caught.value.row, caught.value.field)
    assert isinstance(caught.value, UsageError)


@pytest.mark.parametrize("row", ["text", 5, None, ["q", "a"], ("q", "a"), ({"q": 1}, "a"), DataRow])
def test_what_is_no_row_is_refused_by_index(row: Any) -> None:
    """The error says what a row may be (E2)."""
    with pytest.raises(RowError, match="row 2 is or holds a") as caught:
        make_examples([{"q": 1}, {"q": 2}, row])
    assert 2 == caught.value.row


def test_a_field_that_is_not_there_is_named() -> None:
    """`value` of an unknown field is a row error that names it (E62)."""
    (example,) = make_examples([{"q": 1}])
    with pytest.raises(RowError, match="no field `question`") as caught:
        example.value("question")
    assert "question" == caught.value.field


def test_only_the_first_side_of_a_pair_goes_into_a_program() -> None:
    """The outputs of a pair are the metric's alone, so that gold cannot leak into the program (E62)."""
    (pair,) = make_examples([({"question": "2+2?"}, {"answer": 4})])
    assert {"question": "2+2?"} == pair.inputs()
    (row,) = make_examples([{"question": "2+2?", "answer": 4}])
    assert {"question": "2+2?", "answer": 4} == row.inputs()


def test_an_example_owns_its_row() -> None:
    """What the caller writes into a row afterwards does not get under the identity of what it was."""
    row = {"q": ["a"], "more": ({"deep": [1]},)}
    (example,) = make_examples([row])
    row["q"].append("b")  # type: ignore[attr-defined]
    row["more"][0]["deep"].append(2)  # type: ignore[index]
    assert {"q": ["a"], "more": ({"deep": [1]},)} == example.row


def test_own_copies_plain_containers_alone() -> None:
    """Containers keep their types and get copies all the way down; objects, and what contains itself, are shared."""
    shared = DataRow("2+2?", 4)
    value: Any = {
        "list": [[1], {"a": [2]}],
        "ordered": OrderedDict(b=[3], a=4),
        "default": defaultdict(list, {"x": [5]}),
        "named": NamedRow([6], 7),  # type: ignore[arg-type]
        "object": shared,
    }
    copied = own(value)
    assert value == copied
    assert [type(v) for v in value.values()] == [type(v) for v in copied.values()]
    assert shared is copied["object"]
    copied["list"][1]["a"].append(0)
    copied["ordered"]["b"].append(0)
    copied["default"]["x"].append(0)
    copied["named"].question.append(0)
    assert ([2], [3], [5], [6]) == (
        value["list"][1]["a"],
        value["ordered"]["b"],
        value["default"]["x"],
        value["named"].question,
    )
    ring: list[Any] = []
    ring.append(ring)
    assert ring is own(ring)


def test_a_row_may_tell_inputs_and_outputs_apart() -> None:
    """An object with `__burnish_sides__` is the pair that it gives, and reaches the metric as itself."""

    class Labeled:
        def __burnish_sides__(self) -> tuple[Any, Any]:
            return {"draft": "a"}, {"draft": "b"}

    row = Labeled()
    (example,), (pair,) = make_examples([row]), make_examples([({"draft": "a"}, {"draft": "b"})])
    assert (pair.uid, pair.fingerprint, {"draft": "a"}) == (example.uid, example.fingerprint, example.inputs())
    assert ("a", row) == (example.value("draft"), example.row)
