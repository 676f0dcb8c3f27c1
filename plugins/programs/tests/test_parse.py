"""From replies to outputs."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import burnish
from burnish.errors import ParseError
from burnish_programs import Signature
from burnish_programs._parse import parse_reply
from burnish_programs._render import demo_turns, output_text
from burnish_programs._types import Boolean, Choices, DictOf, FieldType, Integer, ListOf, Maybe, Number, Text


def read(outputs: str, reply: str, finish: str = "stop") -> dict[str, Any]:
    """Parse a reply against outputs written as in a signature."""
    return parse_reply(reply, Signature.parse(f"q -> {outputs}").outputs, finish)


@pytest.mark.parametrize(
    ("outputs", "reply", "value"),
    [
        # one output, bare or labelled
        ("answer", "Paris", "Paris"),
        ("answer", "  Paris\n", "Paris"),
        ("answer", "answer: Paris", "Paris"),
        ("answer", "Sure!\n\n**Answer:** Paris", "Paris"),
        ("answer", "- `answer`: Paris", "Paris"),
        ("answer", "### Answer: Paris", "Paris"),
        ("answer", "ANSWER：Paris", "Paris"),
        ("final_answer", "Final answer: Paris", "Paris"),
        ("final_answer", "*final-answer*: Paris", "Paris"),
        ("answer", "answer: Paris\nanswer: London", "Paris"),
        ("answer", "answer: one\ntwo\n\nthree", "one\ntwo\n\nthree"),
        ("answer", "```\nanswer: Paris\n```", "Paris"),
        ("answer", "```python\nx = 1\n```", "```python\nx = 1\n```"),
        ("answer", '"Paris"', "Paris"),
        ("answer", '"a" and "b"', '"a" and "b"'),
        ("answer", "answer:", ""),
        ("answer", '{"answer": "Paris"}', "Paris"),
        ("answer", '{"other": "Paris"}', '{"other": "Paris"}'),
        # numbers
        ("x: float", "42", 42.0),
        ("x: float", "42.", 42.0),
        ("x: float", "-1,234.5", -1234.5),
        ("x: float", "**$3**", 3.0),
        ("x: float", "-€ 3", -3.0),
        ("x: float", "−7", -7.0),
        ("x: float", ".5", 0.5),
        ("x: float", "1e3", 1000.0),
        ("x: float", "42\nbecause of that", 42.0),
        ("x: int", "42", 42),
        ("x: int", "42.0", 42),
        ("x: int", "1,234", 1234),
        ("x: int", '"7"', 7),
        # booleans and choices
        ("x: bool", "Yes.", True),
        ("x: bool", "**false**", False),
        ("x: Literal['animal', 'food']", "animal", "animal"),
        ("x: Literal['animal', 'food']", "Food.", "food"),
        ("x: Literal['animal', 'food']", "'animal'\n\nIt barks.", "animal"),
        ("x: Literal['A', 'a']", "a.", "a"),
        ("x: Literal[1, 2]", "2", 2),
        ("x: Literal[True, 'maybe']", "true", True),
        # structures
        ("x: list[str]", '["a", "b"]', ["a", "b"]),
        ("x: list[str]", '```json\n["a",\n "b"]\n```', ["a", "b"]),
        ("x: list[str]", "- a\n\n* b c", ["a", "b c"]),
        ("x: list[int]", "1. 10\n2. 20", [10, 20]),
        ("x: list[float]", "[1, 2.5]", [1.0, 2.5]),
        ("x: list[Literal['a', 'b']]", "- A\n- b", ["a", "b"]),
        ("x: dict[str, int]", '{"a": 1}', {"a": 1}),
        # optional
        ("x: float | None", "N/A", None),
        ("x: float | None", "", None),
        ("x: float | None", "none, as", ParseError),
        ("x: float | None", "3", 3.0),
        ("x: str | None", "None.", None),
        ("x: str | None", '"None"', "None"),
        ("x: Literal['none', 'all'] | None", "none", "none"),
        # what would have to be guessed
        ("x: float", "yes", ParseError),
        ("x: float", "42 apples", ParseError),
        ("x: float", "50%", ParseError),
        ("x: float", "3,5", ParseError),
        ("x: float", "nan", ParseError),
        ("x: float", "1e999", ParseError),
        ("x: int", "42.5", ParseError),
        ("x: int", "٣", ParseError),
        ("x: int", "9" * 5000, ParseError),
        ("x: bool", "1", ParseError),
        ("x: Literal['animal', 'food']", "an animal", ParseError),
        ("x: Literal['A', 'a']", "'Ａ'", ParseError),
        ("x: list[str]", "a, b", ParseError),
        ("x: list[str]", "[1]", ParseError),
        ("x: list[str]", '["\\ud800"]', ParseError),
        ("x: list[str]", "[" * 100_000, ParseError),
        ("x: dict[str, int]", '{"a": NaN}', ParseError),
        ("answer", "", ParseError),
    ],
)
def test_values(outputs: str, reply: str, value: Any) -> None:
    """Each kind of reply gives the value that stands there, or an error where it would have to be guessed."""
    if value is ParseError:
        with pytest.raises(ParseError):
            read(outputs, reply)
        return
    (got,) = read(outputs, reply).values()
    assert (type(value), value) == (type(got), got)


def test_several_outputs() -> None:
    """A value runs to the next label; order does not matter; a reply may go on where the prompt's label ended."""
    expected = {"reasoning": "first\nsecond", "answer": 3.0}
    assert expected == read("reasoning, answer: float", "reasoning: first\nsecond\nanswer: 3")
    assert expected == read("reasoning, answer: float", "Answer: 3\nReasoning: first\nsecond")
    assert expected == read("reasoning, answer: float", " first\nsecond\n\n**Answer**: 3")
    assert expected == read("reasoning, answer: float", '{"reasoning": "first\\nsecond", "answer": 3, "more": 1}')


def test_error_names_field_and_expectation_and_keeps_the_reply() -> None:
    """Scenario 57, E71: the error holds the raw reply and the field, and says what was expected and found."""
    with pytest.raises(ParseError, match="`answer` in the reply: expected a number, got 'forty'") as caught:
        read("reasoning, answer: float", "reasoning: well\nanswer: forty")
    assert ("answer", "reasoning: well\nanswer: forty") == (caught.value.field, caught.value.raw)
    with pytest.raises(ParseError, match=r"the reply has no `answer: a number`$") as caught:
        read("reasoning, answer: float", "well")
    assert "answer" == caught.value.field
    with pytest.raises(ParseError, match="the reply is empty"):
        read("answer", " \n")


def test_reply_that_was_cut_off_says_so() -> None:
    """With finish reason `length` a missing field's error says that the reply was cut, also an optional one's."""
    for outputs in ("reasoning, answer: float", "reasoning, answer: float | None"):
        with pytest.raises(ParseError, match="cut off at its length limit"):
            read(outputs, "reasoning: so it goes on and", "length")
    assert {"answer": "so it goes on and"} == read("answer", "so it goes on and", "length")


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=60), st.sampled_from(["a", "a: int", "a: float | None", "a: list[str]", "a, b: bool", "i, ſ"]))
@example("ı: 1", "i")
@example("S: 1", "ſ")
def test_any_reply_is_read_or_refused(reply: str, outputs: str) -> None:
    """Whatever a model writes, it is read or refused by `ParseError`."""
    with contextlib.suppress(ParseError):
        read(outputs, reply)


LABELLED = ["f0: x", "x\nf1: y", "x\n**F0:** y", "x\n- f2: y", "f0", '{"f0": 1, "f1": 2}']
QUOTED = ['"', '""', '"x"', "\\u0041", "```\nx\n```", "null", "None", "n/a", "true", "3", "{}"]
BLANK = ["", " x ", "a\nb", "a\r\nb", "\u2028", "\x85", "-", "- x\n- y"]
TRICKY = st.sampled_from(LABELLED + QUOTED + BLANK)


def typed_values() -> st.SearchStrategy[tuple[FieldType, Any]]:
    """A type and a value of it."""
    text = st.one_of(TRICKY, st.text(max_size=12))
    plain: list[st.SearchStrategy[tuple[FieldType, Any]]] = [
        st.tuples(st.just(Text()), text),
        st.tuples(st.just(Integer()), st.integers()),
        st.tuples(st.just(Number()), st.floats(allow_nan=False, allow_infinity=False)),
        st.tuples(st.just(Boolean()), st.booleans()),
        choices(),
    ]
    flat = st.one_of(plain)
    lists = flat.flatmap(lambda pair: st.tuples(st.just(ListOf(pair[0])), st.lists(st.just(pair[1]), max_size=2)))
    dicts = st.tuples(st.just(DictOf(Text())), st.dictionaries(text, text, max_size=2))
    full = st.one_of(flat, lists, dicts)
    optional = full.flatmap(lambda pair: st.tuples(st.just(Maybe(pair[0])), st.sampled_from([None, pair[1]])))
    return st.one_of(full, optional)


@st.composite
def choices(draw: st.DrawFn) -> tuple[FieldType, Any]:
    """A Literal and one of its choices."""
    words = st.text("aAbB'\". ,`*(", min_size=1, max_size=5).filter(lambda t: t == t.strip())
    values = draw(st.lists(st.one_of(words, st.integers(-3, 3)), min_size=1, max_size=4, unique_by=str))
    return Choices(tuple(values)), draw(st.sampled_from(values))


@settings(max_examples=40, deadline=None)
@given(st.lists(typed_values(), min_size=1, max_size=3))
@example([(Text(), '"')])
@example([(Maybe(Text()), "none.")])
@example([(Text(), "x\nf1: y"), (Text(), "z")])
def test_what_is_rendered_is_read_again(pairs: list[tuple[FieldType, Any]]) -> None:
    """A demo's outputs, rendered as the assistant's turn and parsed as a reply, are the same values: for every type."""
    fields = Signature.parse("q -> " + ", ".join(f"f{i}: {kind.write()}" for i, (kind, _) in enumerate(pairs))).outputs
    values = {field.name: value for field, (_, value) in zip(fields, pairs, strict=True)}
    assert values == parse_reply(output_text(fields, values), fields)


def test_harvested_demos_come_back() -> None:
    """What a span recorded as output is a demo that renders to the same outputs again."""
    signature = Signature.parse("q -> reasoning, answer: float, tags: list[str]")
    outputs = {"reasoning": "because\nof that", "answer": 3.0, "tags": ["a"]}
    turns = demo_turns(signature, burnish.Demo({"q": "why", **outputs}))
    assert outputs == parse_reply(turns[1].content, signature.outputs)
