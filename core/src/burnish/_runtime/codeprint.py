"""The identity of code: its name, source, closure and defaults, as far as they have content.

A `fingerprint` attribute always wins. Values that may change while they are held (lists, dicts, clients, models) have
no content identity: they are given back as *opaque*, so that the engine can tell them apart by object within one run,
and refuse to share results between runs.
"""

from __future__ import annotations

import functools
import inspect
import textwrap
import types
from collections.abc import Iterator
from typing import Any

import attrs

from burnish._model.canonical import Json, fingerprint

_SCALARS = (str, int, float, bool, bytes, type(None))


@attrs.frozen(kw_only=True)
class CodePrint:
    """Identity of a piece of code."""

    fingerprint: str
    opaque: tuple[Any, ...] = ()
    """Objects it holds that have no content identity."""


def code_print(thing: Any) -> CodePrint:
    """Fingerprint a function, method, or object with its class's source and its plain attributes."""
    opaque: list[Any] = []
    form = _form(thing, opaque, depth=0)
    return CodePrint(fingerprint=fingerprint(form), opaque=tuple(opaque))


def same_code(one: Any, other: Any) -> bool:
    """Say whether two callables are one object; a bound method is made anew each time it is looked up."""
    if isinstance(one, types.MethodType) and isinstance(other, types.MethodType):
        return one.__self__ is other.__self__ and one.__func__ is other.__func__
    return one is other


def _form(thing: Any, opaque: list[Any], depth: int) -> Json:
    given = getattr(thing, "fingerprint", None)
    if isinstance(given, str):
        return {"given": given}
    if isinstance(thing, bytes):
        return {"bytes": thing.hex()}
    if isinstance(thing, _SCALARS):
        return {"is": repr(thing)}
    if isinstance(thing, (tuple, frozenset)):
        items = thing if isinstance(thing, tuple) else sorted(thing, key=repr)
        return [_form(item, opaque, depth + 1) for item in items]
    if depth > 6:
        opaque.append(thing)
        return "deep"
    if isinstance(thing, functools.partial):
        parts = [thing.func, thing.args, tuple(sorted(thing.keywords.items()))]
        return {"partial": [_form(p, opaque, depth + 1) for p in parts]}
    if isinstance(thing, types.MethodType):
        method = thing.__func__.__qualname__
        return {"method": method, "source": source_of(thing.__func__), "of": _form(thing.__self__, opaque, depth + 1)}
    if isinstance(thing, types.FunctionType):
        return _function(thing, opaque, depth)
    if isinstance(thing, types.ModuleType):
        return {"module": thing.__name__}
    if isinstance(thing, type):
        return {"class": thing.__qualname__, "source": _sources(thing)}
    if isinstance(thing, types.BuiltinFunctionType):
        owner = thing.__self__
        held = None if owner is None or isinstance(owner, types.ModuleType) else _form(owner, opaque, depth + 1)
        return {"builtin": thing.__qualname__, "of": held}
    return _object(thing, opaque, depth)


def _function(function: types.FunctionType, opaque: list[Any], depth: int) -> Json:
    held = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            held.append((name, cell.cell_contents))
        except ValueError:  # not bound yet
            continue
    defaults = [*(function.__defaults__ or ()), *sorted((function.__kwdefaults__ or {}).items())]
    return {
        "function": function.__qualname__,
        "source": source_of(function),
        "closure": {name: _form(value, opaque, depth + 1) for name, value in held if value is not function},
        "defaults": [_form(value, opaque, depth + 1) for value in defaults],
    }


def _object(thing: Any, opaque: list[Any], depth: int) -> Json:
    kind = type(thing)
    if depth > 2 or kind.__module__ == "builtins" or not _has_python_source(kind):
        opaque.append(thing)
        return {"opaque": kind.__qualname__}
    fields = {name: _form(value, opaque, depth + 1) for name, value in _attributes(thing)}
    return {"object": kind.__qualname__, "source": _sources(kind), "fields": fields}


def _sources(kind: type) -> Json:
    """Give the source of a class and of what it inherits: a base's method is its code too."""
    return [source_of(base) for base in kind.__mro__ if base.__module__ not in ("builtins", "typing", "abc")]


def _attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    names = set(getattr(thing, "__dict__", ()))
    for kind in type(thing).__mro__:
        slots = getattr(kind, "__slots__", ())
        names.update((slots,) if isinstance(slots, str) else slots)
    for name in sorted(names - {"__dict__", "__weakref__"}):
        if hasattr(thing, name):
            yield name, getattr(thing, name)


def _has_python_source(kind: type) -> bool:
    return source_of(kind) != "nosource"


def source_of(code: Any) -> str:
    """Give the dedented source of a class or function; where it cannot be read, its byte code or `nosource`.

    Of a function it is its own source, not that of what it wraps. A line may hold several lambdas: theirs comes with
    the byte code, which tells them apart.
    """
    raw = getattr(code, "__code__", None)
    text = _read_source(code if raw is None else raw)
    if raw is None or (text != "nosource" and raw.co_name != "<lambda>"):
        return text
    return f"{text}:{_byte_code(raw)}"


@functools.lru_cache(maxsize=1024)
def _read_source(code: Any) -> str:
    try:
        return textwrap.dedent(inspect.getsource(code))
    except (OSError, TypeError):
        return "nosource"


def _byte_code(code: types.CodeType) -> str:
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_flags)
    return f"{code.co_code.hex()}:{[_constant(value) for value in code.co_consts]}:{names}"


def _constant(value: Any) -> str:
    if isinstance(value, types.CodeType):
        return _byte_code(value)
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)
