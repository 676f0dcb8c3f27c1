"""Events and records as JSON text and back: cattrs, tagged, with a version; never pickle."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from burnish._model import events as _events
from burnish._model.candidate import Candidate, Demo, candidate_from_json, demo_from_json
from burnish._model.trace import SpanEvent, TraceMeta
from burnish.errors import BurnishError, StoreError

if TYPE_CHECKING:
    import cattrs  # imported on first use: a quarter of what `import burnish` would take

_AS_IS = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_ESCAPED = json.JSONEncoder(separators=(",", ":"))

T = TypeVar("T")

def _reason(error: BaseException, kind: type | None) -> str:
    """Say why: in our own words where the value's class refused, without the value otherwise."""
    from cattrs.v import format_exception

    return str(error) if isinstance(error, BurnishError) else format_exception(error, kind)


_DAMAGE = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RecursionError,
    ExceptionGroup,  # as cattrs gathers what is wrong
)


def _is_json(kind: Any) -> bool:
    """Whether a type is `Json`, which is recursive and so arrives as a union with a forward reference in it."""
    return {type(None), bool, int, float, str} <= set(get_args(kind))


@lru_cache(maxsize=1)
def converter() -> cattrs.Converter:
    """Give the converter of all that burnish stores. It is a value: nothing registers on it later."""
    import cattrs
    from cattrs.gen import make_dict_unstructure_fn, override
    from cattrs.strategies import configure_tagged_union

    c = cattrs.Converter(omit_if_default=True)
    for kind in (bool, int, float, str):
        c.register_structure_hook(kind, _exactly)
    c.register_structure_hook_func(_is_json, lambda value, _: value)
    c.register_unstructure_hook_func(_is_json, lambda value: value)
    c.register_unstructure_hook(Decimal, str)
    c.register_structure_hook(Decimal, lambda value, _: _decimal(value))
    c.register_unstructure_hook(Demo, Demo.to_json)
    c.register_structure_hook(Demo, lambda value, _: demo_from_json(value))
    c.register_unstructure_hook(Candidate, Candidate.to_json)
    c.register_structure_hook(Candidate, lambda value, _: candidate_from_json(value))
    # the version is written always: left out as a default, a later reader would take it for its own
    c.register_unstructure_hook(
        TraceMeta,
        make_dict_unstructure_fn(
            TraceMeta, c, _cattrs_omit_if_default=True, version=override(omit_if_default=False)
        ),
    )
    configure_tagged_union(SpanEvent, c, tag_name="type")
    c.register_structure_hook_func(lambda kind: kind == tuple[SpanEvent, ...], lambda value, _: _known_events(c, value))
    configure_tagged_union(_events.Event, c, tag_name="type")
    return c


def _exactly(value: Any, kind: Any) -> Any:
    """Take a bool, number or text as it is; cattrs alone would read `"no"` as True and 1.9 as the index 1."""
    if type(value) is kind:
        return value
    accepted: tuple[type, ...] = {bool: (bool,), int: (int,), float: (int, float)}.get(kind, (str,))
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{value!r:.80} is no {kind.__name__}")
    return kind(value)


def _decimal(value: Any) -> Decimal:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.80} is no decimal written as text")
    try:
        number = Decimal(value)
    except ArithmeticError:
        raise ValueError(f"{value!r:.80} is no decimal") from None
    if not number.is_finite():
        raise ValueError(f"{value!r:.80} is not finite")
    return number


def _known_events(c: cattrs.Converter, value: Any) -> tuple[SpanEvent, ...]:
    """Read a span's events; kinds that this version does not know are passed over (E70)."""
    known = {kind.__name__ for kind in get_args(SpanEvent)}
    return tuple(c.structure(event, SpanEvent) for event in value if event["type"] in known)  # type: ignore[arg-type]


def dumps(value: Any, cls: Any = None) -> str:
    """Write a value as JSON text. Of a union (`Event`) give the union as `cls`, so that the text says which it is."""
    return json_line(unstructure(value, cls))


def unstructure(value: Any, cls: Any = None) -> Any:
    """Give the JSON form of a value, fields at their defaults left out."""
    return converter().unstructure(value, unstructure_as=cls)


def json_line(plain: Any) -> str:
    """Write a JSON form as one line of text."""
    text = _AS_IS.encode(plain)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:  # half a surrogate pair, as a cut reply may hold: no file takes it as it is
            text = _ESCAPED.encode(plain)
    return text


def loads(text: str | bytes, cls: type[T]) -> T:
    """Read a value back; fields that this version does not know are passed over.

    Raises `StoreError` where the text is damaged or of another shape.
    """
    return _read(lambda: json.loads(text), cls)


def structure(plain: Any, cls: type[T]) -> T:
    """Read a value back from its JSON form. Raises `StoreError` where that is of another shape."""
    return _read(lambda: plain, cls)


def _read(plain: Callable[[], Any], cls: type[T]) -> T:
    try:
        return converter().structure(plain(), cls)
    except _DAMAGE as error:
        import cattrs

        why = "; ".join(cattrs.transform_error(error, format_exception=_reason))
        raise StoreError(f"stored {getattr(cls, '__name__', 'event')} cannot be read: {why:.500}") from error
