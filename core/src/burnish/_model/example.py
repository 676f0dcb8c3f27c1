"""Rows of a data set as examples with a content identity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from burnish._model.canonical import Json, NotCanonicalError, fields_of, fingerprint, hash64, to_json
from burnish.errors import RowError


@attrs.frozen(kw_only=True, eq=False)
class Example:
    """One row: as the user gave it, and as plain data."""

    row: Any
    """The user's own object: what the metric gets."""
    data: Mapping[str, Json]
    """The row's fields as JSON; of a pair `(inputs, outputs)` both sides, outputs last."""
    uid: int
    """64-bit content hash of the whole row, metric-only fields included (E1)."""
    fingerprint: str
    """128-bit content fingerprint, 32 hex digits."""

    def value(self, field: str) -> Any:
        """Give a field's value as the user's row holds it."""
        row = self.row
        if isinstance(row, tuple):
            row = row[0] if isinstance(row[0], Mapping) and field in row[0] else row[1]
        return row[field] if isinstance(row, Mapping) else getattr(row, field)


def make_examples(rows: Iterable[Any]) -> tuple[Example, ...]:
    """Make examples of rows: mappings, attrs or dataclass instances, or `(inputs, outputs)` pairs of mappings.

    Raises `RowError` with the row's index where a row has no canonical form: such rows would share an identity and
    with it each other's scores (E2).
    """
    return tuple(_example(i, row) for i, row in enumerate(rows))


def _example(index: int, row: Any) -> Example:
    try:
        data = _data(row)
    except NotCanonicalError as error:
        raise RowError(f"row {index}: {error}", row=index, field=error.path) from None
    if data is None:
        raise RowError(
            f"row {index} is a {type(row).__name__}; a row is a mapping, an attrs or dataclass instance, or a pair "
            "(inputs, outputs) of mappings",
            row=index,
        )
    return Example(row=row, data=data, uid=hash64(data), fingerprint=fingerprint(data))


def _data(row: Any) -> dict[str, Json] | None:
    if isinstance(row, tuple) and len(row) == 2 and not hasattr(row, "_fields"):
        sides = [_data(side) for side in row]
        return None if sides[0] is None or sides[1] is None else {**sides[0], **sides[1]}
    if not isinstance(row, Mapping):
        fields = row._asdict() if hasattr(row, "_fields") else fields_of(row)
        if fields is None:
            return None
        row = fields
    plain = to_json(row)
    assert isinstance(plain, dict)
    return plain
