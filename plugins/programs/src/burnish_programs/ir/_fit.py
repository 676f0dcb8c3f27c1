"""Which types a field takes beside its own."""

from __future__ import annotations

from burnish.abc import Json
from burnish_programs._signature import Field
from burnish_programs._types import BY_NAME, Choices, DictOf, FieldType, Integer, ListOf, Maybe, Number
from burnish_programs.ir._errors import ProgramError


def widens(given: FieldType, wanted: FieldType) -> bool:
    """Say whether every value of one type is one of another: `int` for `float`, `T` for `T | None`, fewer choices."""
    # as they are written: 1 and True are two choices, and equal in Python
    if given.write() == wanted.write() or (isinstance(given, Integer) and isinstance(wanted, Number)):
        return True
    if isinstance(wanted, Maybe):
        return widens(given.inner if isinstance(given, Maybe) else given, wanted.inner)
    if isinstance(given, Choices):
        return _choices(given, wanted)
    if isinstance(given, ListOf) and isinstance(wanted, ListOf):
        return widens(given.item, wanted.item)
    return isinstance(given, DictOf) and isinstance(wanted, DictOf) and widens(given.value, wanted.value)


def _choices(given: Choices, wanted: FieldType) -> bool:
    if isinstance(wanted, Choices):
        return all(any(type(a) is type(b) and a == b for b in wanted.values) for a in given.values)
    plain = {type(value) for value in given.values}
    return len(plain) == 1 and widens(BY_NAME[plain.pop().__name__], wanted)


def constant(value: Json, place: str) -> Field:
    """Give the field that a constant is. Raises `ProgramError` for null, lists and objects, whose type nobody said."""
    kind = BY_NAME.get(type(value).__name__)
    if kind is None:
        raise ProgramError(place, "a constant that is given out is a text, a number, true or false")
    return Field(name="constant", type=kind)
