"""Structuring a user's table into a plugin's options class: strictly, with errors that name the place.

Nothing is guessed: no number out of text, no list out of a text's letters, no key that the class does not have. Types
that an option may have: text, numbers, `Decimal`, `Path`, enums, `Literal`, unions, tuples, lists, sets, mappings,
other attrs classes, and any class of which a Python caller gives an instance.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, ForwardRef, Literal, TypeVar, Union, get_args, get_origin

import attrs

from burnish._model.names import did_you_mean, names_secret
from burnish.errors import BurnishError, ConfigError, first_line

_SCALARS: Mapping[type, tuple[tuple[type, ...], str]] = {
    str: ((str,), "text"),
    int: ((int,), "a whole number"),
    bool: ((bool,), "true or false"),
    float: ((int, float), "a number"),
    Path: ((str, Path), "a path"),
    Decimal: ((int, float, str, Decimal), "an amount"),
    NoneType: ((NoneType,), "nothing"),
}
"""What each type takes, and how a message calls it."""

_SEQUENCES: Mapping[Any, Callable[[Sequence[Any]], Any]] = {
    **dict.fromkeys((tuple, Sequence, Collection, Iterable), tuple),
    **dict.fromkeys((frozenset, AbstractSet), frozenset),
    list: list,
    set: set,
}
"""What is made of a list, by the type that asks for one; tuples where it does not say, so that options stay frozen."""


class OptionsError(ConfigError):
    """A plugin's options are wrong; `faults` holds the key path and the text of each fault."""

    def __init__(self, where: str, faults: Sequence[tuple[str, str]], file: str | None = None) -> None:
        self.where, self.faults, self.file = where, tuple(faults), file
        head = f"{file}: " if file else ""
        super().__init__("\n".join(f"{head}{where}{f'.{path}' if path else ''}: {what}" for path, what in faults))


_SHORTEST = 4
"""Characters of a value from which on it is taken out of what a class says of it."""


class _Wrong(Exception):
    """Faults below one value: path from there, text, and what may be quoted of the value where it is no secret."""

    def __init__(self, *faults: tuple[str, str, str]) -> None:
        self.faults = faults


def structure_options(options: type | None, table: Mapping[str, Any], *, where: str, file: str | None = None) -> Any:
    """Make an instance of `options` from a table; None where the plugin takes no options.

    Raises `OptionsError` naming every unknown key (with the nearest known one), missing key and wrong type at once.
    """
    if not isinstance(table, Mapping):
        raise OptionsError(where, [("", f"expected a table, got {_shown(table)}{_quoted(table)}")], file)
    if options is None:
        if table:
            raise OptionsError(where, [(str(key), "this plugin takes no options") for key in table], file)
        return None
    try:
        return _attrs(table, options)
    except _Wrong as wrong:
        faults = [
            (path.lstrip("."), what if names_secret(path) else f"{what}{quote}") for path, what, quote in wrong.faults
        ]
        raise OptionsError(where, faults, file) from wrong.__cause__


def _read(value: Any, kind: Any) -> Any:
    """Check a value against a type. Raises `_Wrong`."""
    kind = _bare(kind)
    origin = get_origin(kind) or kind
    if kind in (Any, object) or isinstance(kind, (ForwardRef, TypeVar, str)):
        return value
    if origin in (Union, UnionType):
        return _union(value, kind)
    if origin is Literal:
        return _literal(value, kind)
    if kind in _SCALARS:
        return _scalar(value, kind)
    if origin in _SEQUENCES:
        return _sequence(value, kind, origin)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(value, kind)
    if isinstance(kind, type) and attrs.has(kind):
        return value if isinstance(value, kind) else _attrs(value, kind)
    return _instance(value, kind, origin)


def _bare(kind: Any) -> Any:
    """Take the wrappings off a type: `None` for its class, `Annotated`, `NewType`, `type` aliases."""
    while True:
        inner = getattr(kind, "__supertype__", None) or getattr(kind, "__value__", None)
        if kind is None:
            return NoneType
        if get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        elif inner is not None and not isinstance(kind, type):
            kind = inner
        else:
            return kind


def _scalar(value: Any, kind: type) -> Any:
    given, _ = _SCALARS[kind]
    if not isinstance(value, given) or (isinstance(value, bool) and kind is not bool):
        raise _expected(kind, value)
    if kind is NoneType or isinstance(value, kind):
        return value
    try:
        made = kind(str(value)) if kind is Decimal else kind(value)
    except ArithmeticError:
        raise _expected(kind, value) from None
    if isinstance(made, Decimal) and not made.is_finite():
        raise _expected(kind, value)
    return made


def _literal(value: Any, kind: Any) -> Any:
    for choice in get_args(kind):
        if type(choice) is type(value) and choice == value:
            return choice
    raise _expected(kind, value)


def _union(value: Any, kind: Any) -> Any:
    """Take the member whose type the value already has, else the first that takes it."""
    members = [_bare(member) for member in get_args(kind)]
    for member in sorted(members, key=lambda m: m is not type(value)):
        try:
            return _read(value, member)
        except _Wrong as wrong:
            # A table can only have been meant for the one member that takes tables: say what is wrong in there.
            if _alone(members, member, value):
                raise wrong from wrong.__cause__
    raise _expected(kind, value)


def _alone(members: Sequence[Any], member: Any, value: Any) -> bool:
    def takes(kind: Any) -> bool:
        origin = get_origin(kind) or kind
        if isinstance(value, Mapping):
            return isinstance(origin, type) and (attrs.has(origin) or issubclass(origin, Mapping))
        return isinstance(value, (list, tuple)) and origin in _SEQUENCES

    return [member] == [m for m in members if takes(m)]


def _sequence(value: Any, kind: Any, origin: Any) -> Any:
    make, inner = _SEQUENCES[origin], get_args(kind)
    if not isinstance(value, (list, tuple)) and not (make in (set, frozenset) and isinstance(value, AbstractSet)):
        raise _expected(kind, value)
    items = list(value)
    kinds = [inner[0] if inner else Any] * len(items)
    if make is tuple and inner and inner[-1] is not Ellipsis:
        kinds = list(inner)
        if len(kinds) != len(items):
            raise _Wrong(("", f"expected a list of {len(kinds)}, got one of {len(items)}", ""))
    read = _each((f"[{i}]", item, k) for i, (item, k) in enumerate(zip(items, kinds, strict=True)))
    try:
        return make(read)
    except TypeError:  # a set of what cannot be in a set
        raise _expected(kind, value) from None


def _mapping(value: Any, kind: Any) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        raise _expected(kind, value)
    key_kind, kind = get_args(kind) or (Any, Any)
    keys = _each((f".{key}", key, key_kind) for key in value)
    return dict(zip(keys, _each((f".{key}", item, kind) for key, item in value.items()), strict=True))


def _attrs(value: Any, kind: type) -> Any:
    if not isinstance(value, Mapping):
        raise _expected(kind, value)
    fields = {field.alias: field for field in attrs.fields(attrs.resolve_types(kind)) if field.init}
    wrong = [(f".{key}", _unknown(str(key), list(fields)), "") for key in value if key not in fields]
    wrong += [(f".{k}", "is missing", "") for k, f in fields.items() if f.default is attrs.NOTHING and k not in value]
    known = [key for key in value if key in fields]
    items: list[Any] = []
    try:
        items = _each((f".{key}", value[key], Any if fields[key].type is None else fields[key].type) for key in known)
    except _Wrong as error:
        wrong += error.faults
    if wrong:
        raise _Wrong(*wrong)
    try:
        return kind(**dict(zip(known, items, strict=True)))
    except Exception as error:
        raise _Wrong(_refused(error, list(_secrets(value)))) from error


def _each(items: Iterator[tuple[str, Any, Any]]) -> list[Any]:
    """Read several values and gather all their faults."""
    made, wrong = [], []
    for path, value, kind in items:
        try:
            made.append(_read(value, kind))
        except _Wrong as error:
            wrong += [(f"{path}{below}", what, quote) for below, what, quote in error.faults]
    if wrong:
        raise _Wrong(*wrong)
    return made


def _instance(value: Any, kind: Any, origin: Any) -> Any:
    """Take an instance of any other class, or an enum's value."""
    if isinstance(kind, enum.EnumMeta) and not isinstance(value, kind):
        choices: list[enum.Enum] = list(kind)
        for choice in choices:
            if type(choice.value) is type(value) and choice.value == value:
                return choice
    try:
        fits = isinstance(value, origin)
    except TypeError:  # no class at all, or a protocol that cannot be checked: the plugin's author meant anything
        fits = True
    if not fits:
        raise _expected(kind, value)
    return value


# --- words -------------------------------------------------------------------------------------------------------


def _expected(kind: Any, value: Any) -> _Wrong:
    return _Wrong(("", f"expected {_words(kind)}, got {_shown(value)}", _quoted(value)))


def _words(kind: Any) -> str:
    """Say what a type takes, as the writer of a configuration file would."""
    kind = _bare(kind)
    origin = get_origin(kind) or kind
    if kind in _SCALARS:
        return _SCALARS[kind][1]
    if origin in (Union, UnionType):
        members = [_words(m) for m in map(_bare, get_args(kind)) if m is not NoneType]
        return " or ".join(dict.fromkeys(members))
    if origin is Literal or isinstance(kind, enum.EnumMeta):
        choices = get_args(kind) if origin is Literal else [choice.value for choice in kind]
        return " or ".join(f'"{c}"' if isinstance(c, str) else f"{_shown(c)}{_quoted(c)}" for c in choices)
    if origin in _SEQUENCES:
        return "a list"
    if isinstance(origin, type) and (attrs.has(origin) or issubclass(origin, Mapping)):
        return "a table"
    return f"a {getattr(origin, '__name__', origin)}"


def _shown(value: Any) -> str:
    """Name a value by its type."""
    if value is None or isinstance(value, bool):
        return str(value) if value is None else str(value).lower()
    scalars = ((str, "text"), (int, "a whole number"), (float, "a number"))
    kinds = (*scalars, (Mapping, "a table"), ((list, tuple), "a list"))
    return next((words for kind, words in kinds if isinstance(value, kind)), f"a {type(value).__name__}")


def _quoted(value: Any) -> str:
    return f" {value!r:.60}" if isinstance(value, (str, int, float)) and not isinstance(value, bool) else ""


def _unknown(key: str, known: Sequence[str]) -> str:
    near = did_you_mean(key, known)
    return f"is not a known option; {near and f'{near} '}known: {', '.join(known) or 'none'}"


def _refused(error: Exception, secrets: Sequence[str]) -> tuple[str, str, str]:
    """Say why a class refused its values: its validators' own words, with the key where attrs tells it."""
    path, message = "", str(error) if isinstance(error, (BurnishError, ValueError, TypeError)) else first_line(error)
    match error.args:
        case (words, attrs.Attribute() as field, *_):
            path, message = f".{field.alias}", str(words)
    for secret in secrets:
        message = message.replace(secret, "[redacted]")
    return path, message, ""


def _secrets(value: Any, secret: bool = False) -> Iterator[str]:
    """Give the texts under names of secrets."""
    if isinstance(value, Mapping):
        for name, below in value.items():
            yield from _secrets(below, secret or names_secret(str(name)))
    elif isinstance(value, (list, tuple)):
        for below in value:
            yield from _secrets(below, secret)
    elif secret and isinstance(value, str) and len(value) >= _SHORTEST:
        yield value
