"""The types that a signature's fields may have: a closed set of values that describe, check and write themselves.

`str`, `int`, `float`, `bool`, `Literal[...]`, `list[T]`, `dict[str, T]` and `T | None`. A type says what it wants
(`describe`), turns decoded JSON into a value (`convert`), and reads a reply's text (`burnish_programs._parse`).
"""

from __future__ import annotations

import json
import math
from typing import Any, ClassVar, TypeAlias

import attrs

NULLS = frozenset({"", "null", "none", "n/a"})
"""What an optional field's reply may say for None, in any case."""


class MismatchError(Exception):
    """A value or a text is not of the type: says what was expected and what was found."""

    def __init__(self, expected: str, got: str) -> None:
        self.expected, self.got = expected, got
        super().__init__(f"expected {expected}, got {got}")


@attrs.frozen
class Text:
    """`str`."""

    plain: ClassVar[type | None] = str

    def write(self) -> str:
        return "str"

    def describe(self) -> str:
        return "text"

    def convert(self, value: Any) -> Any:
        if not isinstance(value, str):
            raise MismatchError(self.describe(), show(value))
        return value


@attrs.frozen
class Integer:
    """`int`; a float without a fraction counts."""

    plain: ClassVar[type | None] = int

    def write(self) -> str:
        return "int"

    def describe(self) -> str:
        return "a whole number"

    def convert(self, value: Any) -> Any:
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise MismatchError(self.describe(), show(value))
        return value


@attrs.frozen
class Number:
    """`float`, always finite; an int counts."""

    plain: ClassVar[type | None] = float

    def write(self) -> str:
        return "float"

    def describe(self) -> str:
        return "a number"

    def convert(self, value: Any) -> Any:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise MismatchError(self.describe(), show(value))
        try:
            number = float(value)
        except OverflowError:
            raise MismatchError("a number that a float can hold", show(value)) from None
        if not math.isfinite(number):
            raise MismatchError("a finite number", show(value))
        return number


@attrs.frozen
class Boolean:
    """`bool`."""

    plain: ClassVar[type | None] = bool

    def write(self) -> str:
        return "bool"

    def describe(self) -> str:
        return "true or false"

    def convert(self, value: Any) -> Any:
        if not isinstance(value, bool):
            raise MismatchError(self.describe(), show(value))
        return value


Choice: TypeAlias = "str | int | bool"


@attrs.frozen
class Choices:
    """`Literal[...]` of texts, whole numbers and booleans."""

    values: tuple[Choice, ...]

    plain: ClassVar[type | None] = None

    def write(self) -> str:
        return f"Literal[{', '.join(map(repr, self.values))}]"

    def describe(self) -> str:
        texts = [choice_text(value) for value in self.values]
        quoted = any("," in text for text in texts)
        return f"one of: {', '.join(json.dumps(t, ensure_ascii=False) if quoted else t for t in texts)}"

    def convert(self, value: Any) -> Any:
        for choice in self.values:
            if type(choice) is type(value) and choice == value:
                return choice
        raise MismatchError(self.describe(), show(value))


@attrs.frozen
class ListOf:
    """`list[T]`."""

    item: FieldType

    plain: ClassVar[type | None] = None

    def write(self) -> str:
        return f"list[{self.item.write()}]"

    def describe(self) -> str:
        return f"a JSON list, each item {self.item.describe()}"

    def convert(self, value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            raise MismatchError(self.describe(), show(value))
        return [_inside(self.item, item, f"item {i}") for i, item in enumerate(value)]


@attrs.frozen
class DictOf:
    """`dict[str, T]`."""

    value: FieldType

    plain: ClassVar[type | None] = None

    def write(self) -> str:
        return f"dict[str, {self.value.write()}]"

    def describe(self) -> str:
        return f"a JSON object, each value {self.value.describe()}"

    def convert(self, value: Any) -> Any:
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise MismatchError(self.describe(), show(value))
        return {key: _inside(self.value, item, f"key {key!r}") for key, item in value.items()}


@attrs.frozen
class Maybe:
    """`T | None`."""

    inner: FieldType

    plain: ClassVar[type | None] = None

    def write(self) -> str:
        return f"{self.inner.write()} | None"

    def describe(self) -> str:
        return f"{self.inner.describe()}, or null"

    def convert(self, value: Any) -> Any:
        return None if value is None else self.inner.convert(value)


FieldType: TypeAlias = "Text | Integer | Number | Boolean | Choices | ListOf | DictOf | Maybe"

BY_NAME: dict[str, FieldType] = {"str": Text(), "int": Integer(), "float": Number(), "bool": Boolean()}


def choice_text(value: Choice) -> str:
    """Write a choice as the prompt and the reply hold it."""
    return value if isinstance(value, str) else to_text(value)


def to_text(value: Any) -> str:
    """Write a value into a prompt: text as it is, anything else as JSON (what has no JSON form as `str` gives it)."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=_json_default)


def _json_default(value: Any) -> Any:
    if hasattr(value, "keys") and hasattr(value, "__getitem__"):
        return {key: value[key] for key in value.keys()}  # noqa: SIM118 (a Mapping that json does not know)
    return str(value)


def show(value: Any) -> str:
    """Show a value in an error: its type and the start of its text."""
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:59] + '…'}"


def _inside(kind: FieldType, value: Any, where: str) -> Any:
    try:
        return kind.convert(value)
    except MismatchError as error:
        raise MismatchError(f"{error.expected} at {where}", error.got) from None
