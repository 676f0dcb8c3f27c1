"""Signatures: the inputs and outputs of a predictor, written as `"question, context -> answer: float"`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

import attrs

import burnish
from burnish.errors import UsageError
from burnish_programs._annotation import AnnotationError, parse_annotation
from burnish_programs._types import BY_NAME, FieldType

LONGEST = 20_000
"""Characters of one signature."""
INPUT = "an input, left of `->`,"
OUTPUT = "an output, right of `->`,"
_TEXT = BY_NAME["str"]
_PAIRS = {"(": ")", "[": "]", "{": "}"}


@attrs.frozen(kw_only=True)
class Field:
    """One input or output."""

    name: str
    """Also its label in the prompt."""
    type: FieldType = _TEXT
    declared: bool = True
    """Whether the type was written down, or is the `str` that a bare name has."""

    @property
    def info(self) -> burnish.FieldInfo:
        """What a proposer needs to know of it."""
        return burnish.FieldInfo(name=self.name, type=self.type.write(), description=self.type.describe())

    def __str__(self) -> str:
        return f"{self.name}: {self.type.write()}" if self.declared else self.name


class SignatureError(UsageError):
    """A signature cannot be read: shows its text and marks the place; `text` and `position` hold both."""

    def __init__(self, why: str, text: str, start: int, end: int) -> None:
        self.text, self.position = text, start
        line = text[:start].count("\n")
        column = start - (text.rfind("\n", 0, start) + 1)
        shown = text.split("\n")
        marker = " " * column + "^" * max(1, min(end - start, len(shown[line]) - column))
        lines = [*shown[: line + 1], marker, *shown[line + 1 :]]
        super().__init__("\n".join([f"signature: {why}", *(f"    {row}" for row in lines)]))


@attrs.frozen
class Signature:
    """The inputs and outputs of a predictor, in order, and the instruction it has by default.

    A field is a name, or `name: type` with `str` (the default), `int`, `float`, `bool`, `Literal['a', 'b']`, `list[T]`,
    `dict[str, T]` or `T | None`. A name may stand on both sides, and once on each.
    """

    inputs: tuple[Field, ...]
    outputs: tuple[Field, ...]
    instruction: str | None = None
    """The declared instruction; None: one made of the fields' names."""

    @classmethod
    def parse(cls, text: str, instruction: str | None = None) -> Signature:
        """Read a signature; nothing of it is evaluated. Raises `SignatureError` that marks the place."""
        if not isinstance(text, str):
            raise UsageError(f"a signature is text like 'question -> answer: float', not {type(text).__name__}")
        if len(text) > LONGEST:
            raise UsageError(f"a signature has at most {LONGEST} characters, this one has {len(text)}")
        return _Parser(text).signature(instruction)

    @property
    def default_instruction(self) -> str:
        """The instruction where nothing else is set."""
        if self.instruction is not None:
            return self.instruction
        return f"Given the {_named(self.inputs)}, produce the {_named(self.outputs)}."

    def with_output_first(self, name: str) -> Signature:
        """Give the signature with a further output of type `str` before the others; the same where it has that one."""
        if any(field.name == name for field in self.outputs):
            return self
        return attrs.evolve(self, outputs=(Field(name=name), *self.outputs))

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.inputs))} -> {', '.join(map(str, self.outputs))}"


def parse_field(text: str) -> Field:
    """Read one field, `name` or `name: type`. Raises `SignatureError` that marks the place."""
    parser = _Parser(text)
    fields = parser.fields(0, len(text), OUTPUT)
    if len(fields) != 1:
        raise parser.fail("one field is wanted, as `name` or `name: type`", 0, len(text))
    return fields[0]


def _named(fields: tuple[Field, ...]) -> str:
    names = [f"`{field.name}`" for field in fields]
    return f"field {names[0]}" if len(names) == 1 else f"fields {', '.join(names)}"


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self._flat = re.sub(r"\s", " ", text)
        """The same length, in one line: positions hold for both."""
        self._marks = list(self._top_level())

    def fail(self, why: str, start: int, end: int) -> SignatureError:
        return SignatureError(why, self.text, start, end)

    def _top_level(self) -> Iterator[tuple[str, int]]:
        """Find the commas, colons and arrows that stand outside of brackets and quotes."""
        open_brackets: list[int] = []
        at, flat = 0, self._flat
        while at < len(flat):
            char = flat[at]
            if char in "'\"":
                at = self._end_of_quote(at)
            elif char in _PAIRS:
                open_brackets.append(at)
            elif char in _PAIRS.values():
                if not open_brackets or _PAIRS[flat[open_brackets.pop()]] != char:
                    raise self.fail(f"`{char}` closes nothing", at, at + 1)
            elif not open_brackets and flat.startswith("->", at):
                yield "->", at
                at += 1
            elif not open_brackets and char in ",:":
                yield char, at
            at += 1
        if open_brackets:
            raise self.fail(f"`{flat[open_brackets[-1]]}` is never closed", open_brackets[-1], open_brackets[-1] + 1)

    def _end_of_quote(self, start: int) -> int:
        at = start + 1
        while at < len(self._flat):
            if self._flat[at] == "\\":
                at += 1
            elif self._flat[at] == self._flat[start]:
                return at
            at += 1
        raise self.fail("the quote is never closed", start, start + 1)

    def signature(self, instruction: str | None) -> Signature:
        arrows = [at for mark, at in self._marks if mark == "->"]
        if len(arrows) != 1:
            at = arrows[1] if arrows else len(self.text)
            why = "a second `->`" if arrows else "no `->` between inputs and outputs"
            raise self.fail(f"{why}; write it like 'question, context -> answer: float'", at, at + 2)
        inputs = self.fields(0, arrows[0], INPUT)
        outputs = self.fields(arrows[0] + 2, len(self.text), OUTPUT)
        return Signature(inputs, outputs, instruction)

    def fields(self, start: int, end: int, side: str) -> tuple[Field, ...]:
        """Read the fields between two positions."""
        edges = [start, *(at + 1 for mark, at in self._marks if mark == "," and start <= at < end), end + 1]
        found: dict[str, Field] = {}
        for begin, after in pairwise(edges):
            field = self._field(begin, after - 1, side)
            if field.name in found:
                raise self.fail(f"`{field.name}` stands twice on one side", *self._extent(begin, after - 1))
            twin = next((name for name in found if name.casefold() == field.name.casefold()), None)
            if twin is not None and side != INPUT:
                why = f"`{field.name}` beside `{twin}`: a reply's labels are read in any case"
                raise self.fail(why, *self._extent(begin, after - 1))
            found[field.name] = field
        return tuple(found.values())

    def _extent(self, start: int, end: int) -> tuple[int, int]:
        """Leave the blanks around a stretch out."""
        part = self._flat[start:end]
        return start + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())

    def _field(self, start: int, end: int, side: str) -> Field:
        colon = next((at for mark, at in self._marks if mark == ":" and start <= at < end), None)
        begin, stop = self._extent(start, end if colon is None else colon)
        if begin >= stop:
            raise self.fail(f"{side} is missing here", min(start, len(self.text)), min(start, len(self.text)) + 1)
        name = unicodedata.normalize("NFKC", self._flat[begin:stop])
        if not name.isidentifier() or name.startswith("__"):
            raise self.fail(f"`{name}` is no field name: letters, digits and `_`, not a digit first", begin, stop)
        if colon is None:
            return Field(name=name, declared=False)
        first, last = self._extent(colon + 1, end)
        if first >= last:
            raise self.fail(f"the type of `{name}` is missing", colon, colon + 1)
        try:
            return Field(name=name, type=parse_annotation(self._flat[first:last]))
        except AnnotationError as error:
            raise self.fail(error.why, first + error.start, first + error.end) from None
