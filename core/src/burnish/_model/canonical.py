"""Canonical bytes of JSON-like values, and the fingerprints made of them.

Two values have one fingerprint exactly when they are the same content: the order of keys does not matter, the order
of lists does, and `1`, `1.0`, `True` and `"1"` are four things (seed 000, E21). What has no canonical form is refused
by name, never hashed to a common constant (E2).
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import attrs
import xxhash

from burnish.errors import UsageError

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
JsonMap: TypeAlias = "dict[str, Json]"

_AS_IS = frozenset({str, bool, type(None)})
"""Types whose values have their form already: looked at first, since most values are texts."""

LONGEST_INT = 14_000
"""Bits of the largest integer that has a form: Python writes no more than 4,300 digits as text."""


class NotCanonicalError(UsageError, TypeError):
    """A value has no canonical form; `path` says where it stands."""

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        super().__init__(f"{path or 'the value'} cannot be part of an identity: {why}")


def to_json(value: Any, path: str = "") -> Json:
    """Turn a row's value into plain JSON: mappings, sequences, attrs and dataclass instances, enums, dates, decimals.

    A date becomes its ISO text and a decimal its digits, so each equals that text. Raises `NotCanonicalError` for NaN,
    infinities, keys that are not text or fall together, values that contain themselves, sets and any other object.
    """
    if type(value) in _AS_IS:
        return value  # type: ignore[no-any-return]
    try:
        return _plain(value, path)
    except RecursionError:
        raise NotCanonicalError(path, "it contains itself, or is nested too deeply") from None


def _plain(value: Any, path: str) -> Json:
    if type(value) in _AS_IS:
        return value  # type: ignore[no-any-return]
    if isinstance(value, enum.Enum):  # before text and numbers: a member may be one of them too
        return _plain(value.value, path)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (int, float, decimal.Decimal)):
        return _number(value, path)
    if isinstance(value, Mapping):
        return _mapping(value, path)
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [_plain(v, f"{path}[{i}]") for i, v in enumerate(value)]
    fields = fields_of(value)
    if fields is not None:
        return _mapping(fields, path)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    raise NotCanonicalError(path, f"a {type(value).__name__} has no JSON form; use text, numbers, lists or mappings")


def _number(value: int | float | decimal.Decimal, path: str) -> Json:
    if isinstance(value, int):
        if value.bit_length() > LONGEST_INT:
            raise NotCanonicalError(path, f"an integer of {value.bit_length()} bits is too long; write it as text")
        return int(value)
    if not math.isfinite(value):
        raise NotCanonicalError(path, f"{value} is not a finite number; use null for a missing value")
    return float(value) if isinstance(value, float) else str(value)


def _mapping(value: Mapping[Any, Any], path: str) -> JsonMap:
    plain: JsonMap = {}
    for k, v in value.items():
        key = k if type(k) is str else _key(k, path)
        if key in plain:
            raise NotCanonicalError(path, f"two of its keys are written `{key}`")
        plain[key] = _plain(v, f"{path}.{key}" if path else key)
    return plain


def fields_of(value: Any) -> dict[str, Any] | None:
    """Give the fields of an attrs or dataclass instance by name, None for anything else."""
    if isinstance(value, type):
        return None
    if attrs.has(type(value)):
        return {a.name: getattr(value, a.name) for a in attrs.fields(type(value))}
    if dataclasses.is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    return None


def _key(key: Any, path: str) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    if not isinstance(key, str):
        raise NotCanonicalError(path, f"the key {key!r} is not text")
    return str.__str__(key)


def canonical_bytes(value: Json) -> bytes:
    """Give the one byte string of a JSON value: a type-tagged walk with sorted keys and length-prefixed text."""
    out: list[bytes] = []
    _walk(value, out)
    return b"".join(out)


def _walk(value: Json, out: list[bytes]) -> None:
    if isinstance(value, str):  # first: most values are texts
        raw = value.encode("utf-8", "surrogatepass")
        out.append(b"s%d:" % len(raw))
        out.append(raw)
    elif value is None:
        out.append(b"n")
    elif isinstance(value, bool):
        out.append(b"b1" if value else b"b0")
    elif isinstance(value, int):
        out.append(b"i%d;" % value)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise NotCanonicalError("", f"{value} is not a finite number")
        out.append(f"f{value!r};".encode())
    elif isinstance(value, (list, tuple)):
        out.append(b"[")
        for item in value:
            _walk(item, out)
        out.append(b"]")
    elif isinstance(value, Mapping):
        out.append(b"{")
        for key in sorted(value):
            _walk(key, out)
            _walk(value[key], out)
        out.append(b"}")
    else:
        raise NotCanonicalError("", f"a {type(value).__name__} is not JSON; `to_json` makes it so")


def hash64(value: Json) -> int:
    """Give the 64-bit content hash (XXH3) of a JSON value."""
    return xxhash.xxh3_64_intdigest(canonical_bytes(value))


def fingerprint(value: Json) -> str:
    """Give the 128-bit fingerprint (XXH3, 32 hex digits) of a JSON value."""
    return xxhash.xxh3_128_hexdigest(canonical_bytes(value))


def hex64(value: int) -> str:
    """Write a 64-bit hash as 16 hex digits."""
    return f"{value & 0xFFFFFFFFFFFFFFFF:016x}"
