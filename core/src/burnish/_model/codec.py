"""Events and records as JSON text and back: cattrs, tagged, with a version; never pickle."""

from __future__ import annotations

import json
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeVar, get_args

import cattrs
from cattrs.strategies import configure_tagged_union

from burnish._model import events as _events
from burnish._model.candidate import Candidate, candidate_from_json
from burnish._model.trace import SpanEvent
from burnish.errors import StoreError

CODEC_VERSION = 1

T = TypeVar("T")


def _is_json(kind: Any) -> bool:
    """Whether a type is `Json`, which is recursive and so arrives as a union with a forward reference in it."""
    return {type(None), bool, int, float, str} <= set(get_args(kind))


@lru_cache(maxsize=1)
def converter() -> cattrs.Converter:
    """Give the converter of all that burnish stores. It is a value: nothing registers on it later."""
    c = cattrs.Converter(omit_if_default=True)
    c.register_structure_hook_func(_is_json, lambda value, _: value)
    c.register_unstructure_hook_func(_is_json, lambda value: value)
    c.register_unstructure_hook(Decimal, str)
    c.register_structure_hook(Decimal, lambda value, _: Decimal(value))
    c.register_unstructure_hook(Candidate, Candidate.to_json)
    c.register_structure_hook(Candidate, lambda value, _: candidate_from_json(value))
    for union in (SpanEvent, _events.Event):
        configure_tagged_union(union, c, tag_name="type")
    return c


def dumps(value: Any, cls: Any = None) -> str:
    """Write a value as JSON text."""
    return json.dumps(converter().unstructure(value, unstructure_as=cls), ensure_ascii=False, separators=(",", ":"))


def loads(text: str | bytes, cls: type[T]) -> T:
    """Read a value back. Raises `StoreError` where the text is damaged or of another shape."""
    try:
        return converter().structure(json.loads(text), cls)
    except (ValueError, TypeError, KeyError, cattrs.BaseValidationError) as error:
        raise StoreError(f"stored {getattr(cls, '__name__', cls)} cannot be read: {error}") from error
