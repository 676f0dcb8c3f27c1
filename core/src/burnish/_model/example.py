"""Rows of a data set as examples with a content identity."""

from __future__ import annotations

import enum
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from burnish._model.canonical import Json, JsonMap, NotCanonicalError, fields_of, fingerprint, hash64, to_json
from burnish.errors import RowError


@attrs.frozen(kw_only=True, eq=False)
class Example:
    """One row: as the user gave it, and as plain data."""

    row: Any
    """The row as the user gave it. Programs and metrics get what `own` makes of it, once a rollout."""
    data: Mapping[str, Json]
    """The row's fields as JSON; of a pair `(inputs, outputs)` both sides, outputs last."""
    uid: int
    """64-bit content hash of the whole row, metric-only fields included (E1)."""
    fingerprint: str
    """128-bit content fingerprint, 32 hex digits."""
    source: str = attrs.field(default=attrs.Factory(lambda self: self.fingerprint, takes_self=True))
    """What demos made from the row are known by, and not shown to it: of what the program sees of it, where that is
    known (`seen_by`), else its fingerprint."""

    def value(self, field: str) -> Any:
        """Give a field's value as the user's row holds it; of a pair the input's where both sides have it.

        Raises `RowError` where the row has no such field.
        """
        for side in self.sides:
            fields = _fields(side)
            if fields is not None and field in fields:
                return fields[field]
        raise RowError(f"the row has no field `{field}`", field=field)

    def inputs(self) -> Mapping[str, Any]:
        """Give the fields that may go into a program, as the user's row holds them: of a pair its first side alone."""
        return _fields(self.sides[0]) or {}

    def seen_by(self, inputs: Mapping[str, Any]) -> Example:
        """Give the row with the source of all that hand a program these inputs: ids, labels and outer blanks aside."""
        plain = to_json(inputs)
        assert isinstance(plain, dict)
        bare: JsonMap = {name: value.strip() if isinstance(value, str) else value for name, value in plain.items()}
        return attrs.evolve(self, source=fingerprint(["inputs", bare])) if bare else self

    @property
    def sides(self) -> tuple[Any, ...]:
        """Inputs and outputs of a pair, or of a row that tells them apart; the row alone where it does not."""
        return _sides(self.row)


def make_examples(rows: Iterable[Any]) -> tuple[Example, ...]:
    """Make examples of rows: mappings, attrs, dataclass or namedtuple instances, or `(inputs, outputs)` pairs of those.

    Examples stay as they are. An object that tells inputs and outputs apart by itself gives that pair as
    `__burnish_sides__()`.

    Plain containers are copied, so that what is written into them later does not reach results that stand under the
    old content. Raises `RowError` with the row's index where a row has no canonical form: such rows would share an
    identity and with it each other's scores (E2).
    """
    return tuple(row if isinstance(row, Example) else _example(i, row) for i, row in enumerate(rows))


_ATOMS = frozenset({str, int, float, bool, type(None)})


def own(value: Any) -> Any:
    """Copy plain containers (`dict`, `list`, `tuple`, named tuples, `OrderedDict`, `defaultdict`) all the way down.

    Whatever else there is stays shared: nobody but its author knows how an object is copied, so code that writes into
    objects of its own (instances of attrs and dataclasses, too) changes them for everyone.
    """
    try:
        return _own(value)
    except RecursionError:  # it contains itself, or nearly so: no row does
        return value


def _own(value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        return {k: v if type(v) in _ATOMS else _own(v) for k, v in value.items()}
    if kind is list:
        return [v if type(v) in _ATOMS else _own(v) for v in value]
    if kind is tuple:
        return tuple([_own(v) for v in value])
    if kind is OrderedDict or kind is defaultdict:
        mine = value.copy()
        for key, item in value.items():
            mine[key] = _own(item)
        return mine
    if isinstance(value, tuple) and hasattr(kind, "_make"):
        return kind._make([_own(v) for v in value])
    return value


def _example(index: int, row: Any) -> Example:
    try:
        given = [_named(index, side) for side in _sides(row)]
        sides = [_data(side) for side in given]
    except NotCanonicalError as error:
        raise RowError(f"row {index}: {error}", row=index, field=error.path) from None
    data = {name: value for side in sides for name, value in side.items()}
    # of a pair both sides count, apart: where they share a name, the merged data has lost the input's value
    parts = [_told_apart(side, plain) for side, plain in zip(given, sides, strict=True)]
    identity: Json = [*parts] if len(parts) == 2 else parts[0]
    return Example(row=own(row), data=data, uid=hash64(identity), fingerprint=fingerprint(identity))


def _sides(row: Any) -> tuple[Any, ...]:
    if isinstance(row, tuple) and len(row) == 2 and not hasattr(row, "_fields"):
        return row
    apart = getattr(row, "__burnish_sides__", None)
    return (row,) if apart is None or isinstance(row, type) else tuple(apart())


def _fields(side: Any) -> Mapping[str, Any] | None:
    if isinstance(side, Mapping):
        return side
    if isinstance(side, tuple) and hasattr(side, "_fields"):
        return dict(zip(side._fields, side, strict=True))
    return fields_of(side)


def _named(index: int, side: Any) -> Mapping[str, Any]:
    fields = _fields(side)
    if fields is None:
        raise RowError(
            f"row {index} is or holds a {type(side).__name__}; a row is a mapping, an attrs, dataclass or namedtuple "
            "instance, or a pair (inputs, outputs) of those",
            row=index,
        )
    return fields


def _data(fields: Mapping[str, Any]) -> JsonMap:
    plain = to_json(fields)
    assert isinstance(plain, dict)
    return plain


# --- identity --------------------------------------------------------------------------------------------------

_TYPE = "\0type"
"""The one key of a form that says of which type a value is."""


def _told_apart(fields: Mapping[str, Any], plain: JsonMap) -> JsonMap:
    """Give what a row is known by: its data, where a program that writes a value down would write what JSON says.

    Values are told apart that a program sees apart: a date and its text, a decimal and its digits, a tuple and a list,
    mappings in another order. Fields go in by name, so that their own order does not count, nor the row's own type.
    """
    return {name: _form(value) for name, value in zip(plain, fields.values(), strict=True)}


def _form(value: Any) -> Json:
    kind = type(value)
    if kind in _ATOMS:
        return value  # type: ignore[no-any-return]
    if kind is list:
        return [_form(item) for item in value]
    if kind is dict and _in_order(value):
        return {name: _form(item) for name, item in value.items()}
    return {_TYPE: [kind.__qualname__, _content(value)]}


def _in_order(value: Mapping[Any, Any]) -> bool:
    return all(type(name) is str for name in value) and _TYPE not in value and list(value) == sorted(value)


def _content(value: Any) -> Json:
    if isinstance(value, enum.Enum):
        return _form(value.value)
    fields = value if isinstance(value, Mapping) else fields_of(value)
    if fields is not None:
        return [[_form(name), _form(item)] for name, item in fields.items()]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_form(item) for item in value]
    return to_json(value)
