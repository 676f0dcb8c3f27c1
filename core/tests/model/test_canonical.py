"""Canonical bytes: one form for one content, and a named refusal for what has none."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
from decimal import Decimal
from itertools import combinations
from types import MappingProxyType
from typing import Any, ClassVar

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from burnish._model.canonical import Json, NotCanonicalError, canonical_bytes, fingerprint, hash64, hex64, to_json
from burnish.errors import UsageError

quick = settings(
    derandomize=True, deadline=None, max_examples=30, database=None, suppress_health_check=[HealthCheck.too_slow]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3), max_leaves=8
)


class Colour(enum.Enum):
    RED = "red"


class Mood(enum.StrEnum):
    CALM = "calm"


@attrs.frozen
class Point:
    x: int
    tags: tuple[str, ...] = ()


@dataclasses.dataclass
class Row:
    question: str
    point: Point
    kind: ClassVar[str] = "row"
    draft: dataclasses.InitVar[str] = ""


def refused(value: Any) -> NotCanonicalError:
    with pytest.raises(NotCanonicalError) as caught:
        to_json(value)
    return caught.value


def test_every_json_type_is_a_content_of_its_own() -> None:
    """`1`, `1.0`, `True` and `"1"` differ, and so do the empty and the zero values (E21)."""
    scalars: list[Json] = [None, True, False, 0, 0.0, 1, 1.0, "", "1", "1.0", "true", "null"]
    contents: list[Json] = [*scalars, [], [1], [[1]], {}, {"1": 1}, {"": []}]
    for one, other in combinations(contents, 2):
        assert fingerprint(one) != fingerprint(other), (one, other)
        assert hash64(one) != hash64(other), (one, other)


@quick
@given(values, values)
def test_bytes_are_equal_exactly_for_equal_json(one: Any, other: Any) -> None:
    """Two values have the same bytes if and only if their sorted JSON texts are the same (E21)."""
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert same == (canonical_bytes(one) == canonical_bytes(other))
    assert canonical_bytes(one) == canonical_bytes(json.loads(json.dumps(one)))


def test_text_is_prefixed_with_its_length() -> None:
    """Neighbouring texts cannot run into each other."""
    assert canonical_bytes(["ab", "c"]) != canonical_bytes(["a", "bc"])
    assert canonical_bytes({"a": "b"}) != canonical_bytes({"": "ab"})
    assert canonical_bytes(["s1:a"]) != canonical_bytes(["a"])


def test_order_of_keys_is_nothing_and_order_of_lists_is_content() -> None:
    """Keys are sorted at every depth, lists are not (E21)."""
    assert hash64({"a": {"x": 1, "y": 2}, "b": 3}) == hash64({"b": 3, "a": {"y": 2, "x": 1}})
    assert hash64([1, 2]) != hash64([2, 1])


def test_the_form_never_changes() -> None:
    """Stored runs and caches rely on these very numbers: a change of the form is a change of every identity (E21)."""
    value = to_json({"b": [1, 1.0, True, None, "é"], "a": {"n": -7}})
    assert b"{s1:a{s1:ni-7;}s1:b[i1;f1.0;b1ns2:\xc3\xa9]}" == canonical_bytes(value)
    assert "5d7437a974dda8f5" == hex64(hash64(value))
    assert "0a39601e834e8641f6ccb85079a3490a" == fingerprint(value)


def test_large_integers_keep_every_digit() -> None:
    """Neighbours beyond the range of a float stay apart; what Python would not write as text is refused."""
    assert hash64(2**100) != hash64(2**100 + 1)
    assert 2**100 == to_json(2**100)
    error = refused({"n": [1, 10**5000]})
    assert "n[1]" == error.path
    assert "write it as text" in str(error)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf"), Decimal("NaN"), Decimal("Infinity")])
def test_numbers_that_are_not_finite_are_refused_with_their_path(number: Any) -> None:
    """NaN never hashes to a common constant: the error says where it stands (E2, E21)."""
    error = refused({"rows": [{"x": 1}, {"deep": {"x": number}}]})
    assert "rows[1].deep.x" == error.path
    assert "rows[1].deep.x" in str(error)
    assert isinstance(error, UsageError)


def test_a_bare_nan_is_refused_in_the_bytes_too() -> None:
    """`canonical_bytes` does not trust its caller."""
    with pytest.raises(NotCanonicalError, match="nan is not a finite number"):
        canonical_bytes([float("nan")])
    with pytest.raises(NotCanonicalError, match="a set is not JSON"):
        canonical_bytes({"a": {1}})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("value", "path", "why"),
    [
        ({"a": {"b": {1, 2}}}, "a.b", "a set has no JSON form"),
        ({"a": [b"raw"]}, "a[0]", "a bytes has no JSON form"),
        ({"a": object()}, "a", "an? object has no JSON form"),
        ({"a": {1: "x"}}, "a", "the key 1 is not text"),
        (Point, "", "a type has no JSON form"),
        ({"p": Point(x=1, tags=("ok", {1}))}, "p.tags[1]", "a set has no JSON form"),  # type: ignore[arg-type]
        ({"a": {Colour.RED: 1, "red": 2}}, "a", "two of its keys are written `red`"),
    ],
)
def test_what_has_no_form_is_refused_where_it_stands(value: Any, path: str, why: str) -> None:
    """Sets, bytes, objects, keys that are not text or that fall together: none gets a made-up identity (E2)."""
    with pytest.raises(NotCanonicalError, match=why) as caught:
        to_json(value)
    assert path == caught.value.path


def test_a_value_that_contains_itself_is_refused() -> None:
    """A cycle ends in a usage error, not in the interpreter's recursion error."""
    loop: list[Any] = []
    loop.append(loop)
    assert "contains itself" in str(refused(loop))


def test_instances_become_their_fields() -> None:
    """attrs and dataclass instances give their fields, nested ones too; class variables are no fields (E1)."""
    row = Row("q", Point(x=1, tags=("a", "b")))
    assert {"question": "q", "point": {"x": 1, "tags": ["a", "b"]}} == to_json(row)


def test_enums_dates_decimals_and_proxies_become_plain_json() -> None:
    """An enum is its value (also one that is text), a date its ISO text, a decimal its digits."""
    plain = to_json(
        MappingProxyType(
            {
                "enum": Colour.RED,
                Mood.CALM: Mood.CALM,
                "date": datetime.date(2026, 2, 3),
                "time": datetime.datetime(2026, 2, 3, 4, 5, tzinfo=datetime.UTC),
                "money": Decimal("0.10"),
            }
        )
    )
    assert {
        "enum": "red",
        "calm": "calm",
        "date": "2026-02-03",
        "time": "2026-02-03T04:05:00+00:00",
        "money": "0.10",
    } == plain
    assert isinstance(plain, dict)
    assert str is type(plain["calm"])
    assert str is type(list(plain)[1])


def test_hex64_has_sixteen_digits() -> None:
    """Cache keys are made of them (E31)."""
    assert "000000000000000f" == hex64(15)
    assert "ffffffffffffffff" == hex64(2**64 - 1)
