"""Which field of a prediction a metric compares with which field of a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from burnish._model.canonical import fields_of
from burnish.errors import UsageError

_ABSENT = object()


def label_and_answer(example: Any, prediction: Any, field: str | None) -> tuple[Any, Any]:
    """Give the row's value and the prediction's value of one field.

    `field` None takes the one field that both have. With a name, a prediction that has one field of another name, or
    none at all (plain text, a number), is the answer all the same. Raises `UsageError`, listing what there is, where
    that is not one field or either side lacks it.
    """
    row, answer = _label_side(example), _fields(prediction)
    name = field if field is not None else _common(row, answer)
    label = row[name] if name in row else _attribute(example, name)
    if label is _ABSENT:
        raise UsageError(f"the row has no field `{name}`; it has {_listed(row)}: name the label's column by `field`")
    value = answer[name] if name in answer else _attribute(prediction, name)
    if value is _ABSENT and len(answer) <= 1:
        value = next(iter(answer.values()), prediction)
    if value is _ABSENT:
        raise UsageError(f"the prediction has no field `{name}`; it has {_listed(answer)}: name the output by `field`")
    return label, value


def _common(row: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
    common = [name for name in answer if name in row]
    if len(common) == 1:
        return common[0]
    what = f"{_listed(common)} are" if common else "no field is"
    raise UsageError(
        f"{what} in both the prediction ({_listed(answer)}) and the row ({_listed(row)}); a metric compares one: "
        "name it by `field`"
    )


def _label_side(example: Any) -> Mapping[str, Any]:
    """Give the fields of a row; of a pair (inputs, outputs) both sides, outputs last, as the engine reads it."""
    if isinstance(example, tuple) and len(example) == 2 and not hasattr(example, "_fields"):
        return {**_fields(example[0]), **_fields(example[1])}
    return _fields(example)


def _fields(value: Any) -> Mapping[str, Any]:
    """Give what a value has by name; nothing for text, numbers and lists."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        named: Mapping[str, Any] = value._asdict()
        return named
    declared = fields_of(value)
    if declared is not None:
        return declared
    return {k: v for k, v in getattr(value, "__dict__", {}).items() if not k.startswith("_")}


def _attribute(value: Any, name: str) -> Any:
    """Read an attribute that is no field: a property, a slot. What builtins have, `"".count` say, is no field."""
    if isinstance(value, (Mapping, str, bytes, int, float, list, tuple)):
        return _ABSENT
    return getattr(value, name, _ABSENT)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"
