"""Structuring a user's table into a plugin's options class: strictly, with errors that name the place."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, get_origin

import attrs
import cattrs

from burnish.errors import ConfigError


class OptionsError(ConfigError):
    """A plugin's options are wrong; `faults` holds the key path and the text of each fault."""

    def __init__(self, where: str, faults: Sequence[tuple[str, str]], file: str | None = None) -> None:
        self.where, self.faults, self.file = where, tuple(faults), file
        head = f"{file}: " if file else ""
        super().__init__("\n".join(f"{head}{where}{f'.{path}' if path else ''}: {what}" for path, what in faults))


class _Wrong(ValueError):
    def __init__(self, value: Any, expected: str) -> None:
        super().__init__(f"expected {expected}, got {type(value).__name__} {value!r:.60}")


def structure_options(options: type | None, table: Mapping[str, Any], *, where: str, file: str | None = None) -> Any:
    """Make an instance of `options` from a table; None where the plugin takes no options.

    Raises `OptionsError` naming every unknown key (with the nearest known one), missing key and wrong type at once.
    """
    if options is None:
        if table:
            raise OptionsError(where, [(key, "this plugin takes no options") for key in table], file)
        return None
    try:
        return _strict().structure(dict(table), options)
    except cattrs.BaseValidationError as error:
        raise OptionsError(where, list(_faults(error, "")), file) from None
    except (ValueError, TypeError) as error:
        raise OptionsError(where, [("", str(error))], file) from None


@lru_cache(maxsize=1)
def _strict() -> cattrs.Converter:
    """A converter that guesses nothing: no text for numbers, no text for lists, no unknown keys."""
    c = cattrs.Converter(forbid_extra_keys=True, detailed_validation=True)
    exact = ((str, (str,), "text"), (int, (int,), "a whole number"), (bool, (bool,), "true or false"))
    for kind, given, words in exact:
        c.register_structure_hook(kind, _of(kind, given, words))
    c.register_structure_hook(float, _of(float, (int, float), "a number"))
    c.register_structure_hook(Path, lambda value, _: Path(_of(str, (str, Path), "a path")(str(value), str)))
    c.register_structure_hook(Decimal, lambda value, _: Decimal(_of(str, (int, float, str), "an amount")(value, str)))
    c.register_structure_hook_func(lambda kind: kind in (Any, object), lambda value, _: value)
    c.register_structure_hook_func(_is_sequence, lambda value, kind: _sequence(c, value, kind))
    return c


def _of(kind: type, given: tuple[type, ...], words: str) -> Callable[[Any, Any], Any]:
    def structure(value: Any, _: Any) -> Any:
        if type(value) not in given:
            raise _Wrong(value, words)
        return kind(value)

    return structure


def _is_sequence(kind: Any) -> bool:
    return get_origin(kind) is tuple


def _sequence(c: cattrs.Converter, value: Any, kind: Any) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise _Wrong(value, "a list")
    inner = kind.__args__[0]
    return tuple(c.structure(item, inner) for item in value)


def _faults(error: BaseException, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(error, cattrs.BaseValidationError):
        for inner in error.exceptions:
            yield from _faults(inner, _below(path, inner))
    elif isinstance(error, cattrs.ForbiddenExtraKeysError):
        for key in sorted(error.extra_fields):
            yield _join(path, key), _unknown(key, error.cl)
    elif isinstance(error, KeyError):
        yield path, "is missing"
    else:
        yield path, str(error)


def _below(path: str, error: BaseException) -> str:
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, cattrs.AttributeValidationNote):
            return _join(path, note.name)
        if isinstance(note, cattrs.IterableValidationNote):
            return f"{path}[{note.index}]"
    return path


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _unknown(key: str, kind: type) -> str:
    known = [a.name for a in attrs.fields(kind)]
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean `{near[0]}`? " if near else ""
    return f"is not a known option; {hint}known: {', '.join(known) or 'none'}"
