"""Signatures: what they say, what they refuse, and how they show where they are wrong."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.errors import UsageError
from burnish_programs import Signature, SignatureError
from burnish_programs._annotation import AnnotationError, parse_annotation
from burnish_programs._signature import parse_field
from burnish_programs._types import BY_NAME, Choices, DictOf, FieldType, ListOf, Maybe


def test_names_and_types() -> None:
    """Inputs and outputs keep their order; a bare name is a `str`."""
    signature = Signature.parse("question, context: list[str] -> answer: float, sure: bool")
    assert [("question", "str"), ("context", "list[str]")] == [(f.name, f.type.write()) for f in signature.inputs]
    assert [("answer", "float"), ("sure", "bool")] == [(f.name, f.type.write()) for f in signature.outputs]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("str", "str"),
        ("Optional[float]", "float | None"),
        ("None | float", "float | None"),
        ("Optional[int | None]", "int | None"),
        ("Literal['a', \"b\", -2, True]", "Literal['a', 'b', -2, True]"),
        ("Literal['x -> y, z: w']", "Literal['x -> y, z: w']"),
        ("dict[str, list[int | None]]", "dict[str, list[int | None]]"),
    ],
)
def test_types_of_the_grammar(text: str, written: str) -> None:
    """Each type of the grammar is read, arrows, commas and colons inside quotes included."""
    assert written == Signature.parse(f"q -> a: {text}").outputs[0].type.write()


def test_text_may_run_over_lines() -> None:
    """Blanks and line breaks between fields mean nothing."""
    assert Signature.parse("a, b -> c: int") == Signature.parse("\n  a,\n  b\n->\n  c: int\n")


def test_one_name_on_both_sides() -> None:
    """A name may stand once on each side (`draft -> draft`), not twice on one."""
    assert "draft -> draft" == str(Signature.parse("draft -> draft"))
    with pytest.raises(SignatureError, match="`q` stands twice on one side"):
        Signature.parse("q, q -> a")


@pytest.mark.parametrize(
    ("text", "marked", "why"),
    [
        ("question -> answer: flot", "flot", "unknown type `flot`"),
        ("question -> answer: list", "list", "needs brackets"),
        ("question -> answer: x.y", "x.y", "no type"),
        ("question -> answer: int | str", "int | str", "`T | None` and nothing else"),
        ("question -> answer: Literal['a', 'a']", "'a'", "stands twice"),
        ("question -> answer: Literal[1, '1']", "'1'", "reads like another"),
        ("question -> answer: Literal[' a']", "' a'", "blank ends"),
        ("question -> answer: Optional[Literal['null']]", "Literal['null']", "told from None"),
        ("question -> answer: dict[int, str]", "int", "keys of a dict"),
        ("question -> answer: __import__('os').system('true')", "__import__('os').system('true')", "no type"),
        ("question -> é: list[é]", "é", "unknown type `é`"),
        ("question -> 1a", "1a", "no field name"),
        ("question -> a b", "a b", "no field name"),
        ("question -> a -> b", "->", "second `->`"),
        ("question -> Answer, answer", "answer", "read in any case"),
        ("question -> answer: [int", "[", "never closed"),
        ("question -> answer: int)", ")", "closes nothing"),
        ("question -> answer: Literal['x]", "'", "quote is never closed"),
    ],
)
def test_errors_mark_the_place(text: str, marked: str, why: str) -> None:
    """An error shows the text, with a mark under the very characters that are wrong, and says why."""
    with pytest.raises(SignatureError, match="signature: ") as caught:
        Signature.parse(text)
    first, shown, marks = str(caught.value).split("\n")
    assert why in first
    assert text == shown.removeprefix("    ")
    start = marks.index("^")
    assert marked == shown[start : start + marks.count("^")]
    assert start - 4 == caught.value.position


@pytest.mark.parametrize("text", ["", "question", "-> answer", "question ->", "question,, other -> answer", "q -> a:"])
def test_missing_parts_are_errors(text: str) -> None:
    """A side, field, arrow or type that is missing is said, not guessed."""
    with pytest.raises(SignatureError):
        Signature.parse(text)


def test_error_in_a_later_line() -> None:
    """In a signature of several lines the mark stands under the right one."""
    with pytest.raises(SignatureError) as caught:
        Signature.parse("q\n-> a: flot,\n   b")
    assert ["    q", "    -> a: flot,", "          ^^^^", "       b"] == str(caught.value).split("\n")[1:]


def test_hostile_annotations_are_refused() -> None:
    """Deep nesting, huge texts, null bytes and wrong objects are usage errors, nothing worse."""
    for text in ("q -> a: " + "list[" * 500 + "str" + "]" * 500, "q -> a: " + "x" * 50_000, "q -> a: \0", 5):
        with pytest.raises(UsageError):
            Signature.parse(text)  # type: ignore[arg-type]


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Whatever stands there, a signature, field or annotation is read or refused by its own error."""
    for read in (Signature.parse, parse_field, parse_annotation):
        with contextlib.suppress(SignatureError, AnnotationError):
            read(text)


def types() -> st.SearchStrategy[FieldType]:
    """Types of the grammar."""
    words = st.text("abc' ,->[]", min_size=1, max_size=6).filter(lambda t: t == t.strip())
    choices = st.lists(words, min_size=1, max_size=4, unique=True).map(lambda v: Choices(tuple(v)))
    flat = st.one_of(st.sampled_from(list(BY_NAME.values())), choices)
    return st.recursive(
        flat,
        lambda inner: st.one_of(
            inner.map(ListOf), inner.map(DictOf), inner.filter(lambda t: not isinstance(t, Maybe)).map(Maybe)
        ),
        max_leaves=3,
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(types(), min_size=1, max_size=3))
def test_what_is_written_is_read_again(kinds: list[FieldType]) -> None:
    """The text of a signature gives the same signature."""
    text = "q -> " + ", ".join(f"f{i}: {kind.write()}" for i, kind in enumerate(kinds))
    signature = Signature.parse(text)
    assert kinds == [field.type for field in signature.outputs]
    assert signature == Signature.parse(str(signature))


def test_default_instruction_names_the_fields() -> None:
    """Without an instruction the predictor says what it makes of what; a declared one takes its place."""
    assert (
        "Given the fields `question`, `context`, produce the field `answer`."
        == Signature.parse("question, context -> answer").default_instruction
    )
    assert "Do it." == Signature.parse("q -> a", instruction="Do it.").default_instruction
