"""Canonical bytes of JSON-like values, and the fingerprints made of them.

Two values have one fingerprint exactly when they are the same content: the order of keys does not matter, the order
of lists does, and `1`, `1.0`, `True` and `"1"` are four things (seed 000, E21). What has no canonical form is refused
by name, never hashed to a common constant (E2).
"""

from __future__ import annotations

import datetime
import decimal
import enum
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import attrs
import xxhash

from burnish.errors import UsageError

Json: TypeAlias = "None | bool | int | float | str | list[Json] | dict[str, Json]"
JsonMap: TypeAlias = "dict[str, Json]"


class NotCanonicalError(UsageError, TypeError):
    """A value has no canonical form; `path` says where it stands."""

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        super().__init__(f"{path or 'the value'} cannot be part of an identity: {why}")


def to_json(value: Any, path: str = "") -> Json:
    """Turn a row's value into plain JSON: mappings, sequences, attrs and dataclass instances, enums, dates, decimals.

    Raises `NotCanonicalError` for NaN, infinities, keys that are not text, sets and any other object.
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, enum.Enum):
        return to_json(value.value, path)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotCanonicalError(path, f"{value} is not a finite number; use null for a missing value")
        return float(value)
    if isinstance(value, Mapping):
        return {_key(k, path): to_json(v, f"{path}.{k}" if path else str(k)) for k, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [to_json(v, f"{path}[{i}]") for i, v in enumerate(value)]
    fields = fields_of(value)
    if fields is not None:
        return to_json(fields, path)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    raise NotCanonicalError(path, f"a {type(value).__name__} has no JSON form; use text, numbers, lists or mappings")


def fields_of(value: Any) -> dict[str, Any] | None:
    """Give the fields of an attrs or dataclass instance by name, None for anything else."""
    if isinstance(value, type):
        return None
    if attrs.has(type(value)):
        return {a.name: getattr(value, a.name) for a in attrs.fields(type(value))}
    names = getattr(type(value), "__dataclass_fields__", None)
    return None if names is None else {name: getattr(value, name) for name in names}


def _key(key: Any, path: str) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    if not isinstance(key, str):
        raise NotCanonicalError(path, f"the key {key!r} is not text")
    return str(key)


def canonical_bytes(value: Json) -> bytes:
    """Give the one byte string of a JSON value: a type-tagged walk with sorted keys and length-prefixed text."""
    out: list[bytes] = []
    _walk(value, out)
    return b"".join(out)


def _walk(value: Json, out: list[bytes]) -> None:
    if value is None:
        out.append(b"n")
    elif isinstance(value, bool):
        out.append(b"b1" if value else b"b0")
    elif isinstance(value, str):
        raw = value.encode("utf-8", "surrogatepass")
        out.append(b"s%d:" % len(raw))
        out.append(raw)
    elif isinstance(value, int):
        out.append(b"i%d;" % value)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise NotCanonicalError("", f"{value} is not a finite number")
        out.append(f"f{value!r};".encode())
    elif isinstance(value, list):
        out.append(b"[")
        for item in value:
            _walk(item, out)
        out.append(b"]")
    else:
        out.append(b"{")
        for key in sorted(value):
            _walk(key, out)
            _walk(value[key], out)
        out.append(b"}")


def hash64(value: Json) -> int:
    """Give the 64-bit content hash (XXH3) of a JSON value."""
    return xxhash.xxh3_64_intdigest(canonical_bytes(value))


def fingerprint(value: Json) -> str:
    """Give the 128-bit fingerprint (XXH3, 32 hex digits) of a JSON value."""
    return xxhash.xxh3_128_hexdigest(canonical_bytes(value))


def hex64(value: int) -> str:
    """Write a 64-bit hash as 16 hex digits."""
    return f"{value & 0xFFFFFFFFFFFFFFFF:016x}"
