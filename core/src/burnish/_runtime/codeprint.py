"""The identity of code: byte code, closure and defaults, and whatever of the user's own code it refers to.

Byte code is what runs: unlike source it is at hand in a notebook too, and cannot be that of a file which was edited
since it was imported. A `fingerprint` attribute always wins. What has no content identity (an open client, a list in a
closure) is given back as *opaque*, so that the engine can tell it apart by object within one run, and refuse to share
results between runs.
"""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

import attrs

from burnish._model.canonical import Json, fingerprint
from burnish._runtime.codeparts import (
    Owner,
    code_form,
    is_python_class,
    members_of,
    names_in,
    plain_text,
    source_module,
    value_text,
)

MOST_ITEMS = 1000
"""A longer list or mapping of anything but plain data has no content identity."""
MOST_PIECES = 2000
"""Functions and classes of one print; what lies beyond has no content identity."""
MOST_FORMS = 200_000
"""Values of one print, in the same way: objects may hold each other in more ways than anyone can write down."""
DEEPEST = 12
"""Levels of values inside values."""
DEEPEST_OBJECT = 3

_CONTAINERS = (list, dict, set, bytearray)
_BUILTINS = (
    *(types.BuiltinFunctionType, types.MethodWrapperType),
    *(types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType),
)


@attrs.frozen(kw_only=True)
class CodePrint:
    """Identity of a piece of code."""

    fingerprint: str
    opaque: tuple[Any, ...] = ()
    """Objects it holds that have no content identity."""


def code_print(thing: Any) -> CodePrint:
    """Fingerprint a function, method, class, or an object with its class and its attributes as they are now.

    Functions, classes and constants that it refers to by a global name count too, and what those refer to, as far as
    they are the user's own: the standard library and installed packages count by name, but for the package of `thing`.
    """
    printer = _Printer(Owner.of(thing))
    form = printer.print(thing)
    return CodePrint(fingerprint=fingerprint(form), opaque=tuple(printer.opaque))


def same_code(one: Any, other: Any) -> bool:
    """Say whether two callables are one object; a bound method is made anew each time it is looked up."""
    if isinstance(one, types.MethodType) and isinstance(other, types.MethodType):
        return one.__self__ is other.__self__ and one.__func__ is other.__func__
    return one is other


class _Printer:
    """Writes one thing; functions and classes are written once each and referred to by number, so that cycles end."""

    def __init__(self, owner: Owner) -> None:
        self.opaque: list[Any] = []
        self._owner, self._left = owner, MOST_FORMS
        self._pieces: list[Any] = []
        self._numbers: dict[int, tuple[int, Any]] = {}

    def print(self, thing: Any) -> Json:
        forms = [self._form(thing, 0)]
        for piece in self._pieces:  # grows meanwhile
            forms.append(self._class(piece) if isinstance(piece, type) else self._function(piece))
        return forms

    def _piece(self, thing: Any) -> Json:
        if id(thing) not in self._numbers:
            if len(self._pieces) >= MOST_PIECES:
                return self._opaque(thing)
            self._numbers[id(thing)] = (len(self._numbers), thing)
            self._pieces.append(thing)
        return {"code": self._numbers[id(thing)][0]}

    def _opaque(self, thing: Any) -> Json:
        self.opaque.append(thing)
        return {"opaque": type(thing).__qualname__}

    # --- values ------------------------------------------------------------------------------------------------

    def _form(self, thing: Any, depth: int) -> Json:
        given = _attribute(thing, "fingerprint")
        if isinstance(given, str):
            return {"given": given}
        text = value_text(thing)
        if text is not None:
            return {"is": text}
        self._left -= 1
        if depth > DEEPEST or self._left == 0:
            return self._opaque(thing)
        if self._left < 0:  # named once, above
            return None
        for kinds, write in _WRITERS:
            if isinstance(thing, kinds):
                return write(self, thing, depth)
        return self._instance(thing, depth)

    def _items(self, things: Sequence[Any], depth: int) -> list[Json]:
        return [self._form(item, depth + 1) for item in things]

    def _tuple(self, thing: tuple[Any, ...], depth: int) -> Json:
        items = self._items(thing, depth)
        return items if type(thing) is tuple else {"tuple": items, "of": self._class_of(type(thing), depth)}

    def _container(self, thing: Any, depth: int) -> Json:
        if isinstance(thing, (set, frozenset)):
            return self._set(thing)
        text = plain_text(thing)
        if text is not None:
            return {"data": text}
        if id(thing) in self._numbers:
            return {"again": self._numbers[id(thing)][0]}
        self._numbers[id(thing)] = (len(self._numbers), thing)
        if len(thing) > MOST_ITEMS:
            return self._opaque(thing)
        if isinstance(thing, Mapping):
            pairs: list[Json] = [self._items(pair, depth) for pair in thing.items()]
            return {"mapping": pairs}
        return {"list": self._items(thing, depth)}

    def _set(self, thing: Iterable[Any]) -> Json:
        texts = [repr(item) if isinstance(item, Enum) else value_text(item) for item in thing]
        ordered: list[Json] = [*sorted(text for text in texts if text is not None)]
        return {"set": ordered} if len(ordered) == len(texts) else self._opaque(thing)

    def _partial(self, thing: functools.partial[Any], depth: int) -> Json:
        return {"partial": self._items((thing.func, thing.args, tuple(sorted(thing.keywords.items()))), depth)}

    def _method(self, thing: types.MethodType, depth: int) -> Json:
        return {"method": self._form(thing.__func__, depth + 1), "of": self._form(thing.__self__, depth + 1)}

    def _function_of(self, thing: types.FunctionType, depth: int) -> Json:
        return self._piece(thing)

    def _class_of(self, thing: type, depth: int) -> Json:
        return self._piece(thing) if self._owner.owns(thing) else {"class": f"{thing.__module__}.{thing.__qualname__}"}

    def _module(self, thing: types.ModuleType, depth: int) -> Json:
        return {"module": thing.__name__}

    def _builtin(self, thing: Any, depth: int) -> Json:
        owner = getattr(thing, "__self__", None)
        held = None if owner is None or isinstance(owner, types.ModuleType) else self._form(owner, depth + 1)
        return {"builtin": thing.__qualname__, "of": held}

    def _enum(self, thing: Enum, depth: int) -> Json:
        return {"member": thing.name, "of": self._class_of(type(thing), depth), "is": repr(thing.value)}

    def _pattern(self, thing: re.Pattern[Any], depth: int) -> Json:
        return {"pattern": repr(thing.pattern), "flags": thing.flags}

    def _instance(self, thing: Any, depth: int) -> Json:
        identity = _attribute(thing, "identity")
        if isinstance(identity, Mapping) and callable(_attribute(thing, "complete")):
            return {"model": dict(identity)}
        kind = type(thing)
        if kind.__module__.partition(".")[0] in ("logging", "structlog"):
            return {"logger": None}
        if id(thing) in self._numbers:
            return {"again": self._numbers[id(thing)][0]}
        self._numbers[id(thing)] = (len(self._numbers), thing)
        if callable(_attribute(thing, "describe")) and callable(_attribute(thing, "get_state")):
            return self._predictor(thing, depth)
        if not is_python_class(kind):
            wrapped = _attribute(thing, "__wrapped__")  # what `functools.lru_cache` makes
            return self._opaque(thing) if wrapped is None else {"wrapped": self._form(wrapped, depth + 1)}
        if depth > DEEPEST_OBJECT:
            return self._opaque(thing)
        fields = {name: self._form(value, depth + 1) for name, value in _fields(thing)}
        return {"object": self._class_of(kind, depth), "fields": fields}

    def _predictor(self, thing: Any, depth: int) -> Json:
        state = thing.get_state()
        held = [state.instruction, [demo.to_json() for demo in state.demos]]
        kind, model = self._class_of(type(thing), depth), self._form(_attribute(thing, "model"), depth + 1)
        return {"predictor": thing.describe(), "state": held, "kind": kind, "model": model}

    # --- code --------------------------------------------------------------------------------------------------

    def _function(self, function: types.FunctionType) -> Json:
        code = function.__code__
        closure = zip(code.co_freevars, function.__closure__ or (), strict=True)
        defaults = [*(function.__defaults__ or ()), *sorted((function.__kwdefaults__ or {}).items())]
        return {
            "function": function.__qualname__,
            "code": code_form(code),
            "closure": {name: self._held(cell, self._owner.owns(function)) for name, cell in closure},
            "defaults": self._items(defaults, 0),
            "refers": self._referred(function),
        }

    def _held(self, cell: types.CellType, own: bool) -> Json:
        try:
            value = cell.cell_contents
        except ValueError:  # not bound yet
            return None
        # A list that a closure holds is there to be changed; in a library's decorator it holds nothing of the user's.
        return self._opaque(value) if own and isinstance(value, _CONTAINERS) else self._form(value, 1)

    def _referred(self, function: types.FunctionType) -> Json:
        """Write what a function's code finds under global names; what it assigns itself is state, no constant."""
        if not self._owner.follows(function):
            return None
        names, space = names_in(function.__code__), function.__globals__
        return {
            name: self._global(space[name], names.read, 0)
            for name in sorted(names.read - names.written)
            if name in space and not name.startswith("__")
        }

    def _global(self, value: Any, names: frozenset[str], depth: int) -> Json:
        if isinstance(value, types.ModuleType) and depth < DEEPEST_OBJECT and self._owner.owns(value):
            space = vars(value)
            found = [name for name in sorted(names) if name in space and not name.startswith("__")]
            return {name: self._global(space[name], names, depth + 1) for name in found}
        if isinstance(value, types.FunctionType) and not self._owner.owns(value):
            return {"function": f"{source_module(value)}.{value.__qualname__}"}
        return self._form(value, 1)

    def _class(self, kind: type) -> Json:
        """Write a class from its own members and those of its bases, as found in them: two may share a name."""
        bases: list[Json] = []
        for base in kind.__mro__[:-1]:
            if base is kind or self._owner.owns(base):
                members: dict[str, Json] = {name: self._items(parts, 0) for name, parts in members_of(base)}
                bases.append({"name": base.__qualname__, "members": members})
            else:
                bases.append(f"{base.__module__}.{base.__qualname__}")
        return {"class": bases}


_WRITERS: tuple[tuple[Any, Callable[[_Printer, Any, int], Json]], ...] = (
    (types.FunctionType, _Printer._function_of),
    (types.MethodType, _Printer._method),
    (type, _Printer._class_of),
    (Enum, _Printer._enum),
    (tuple, _Printer._tuple),
    ((list, dict, set, frozenset, types.MappingProxyType), _Printer._container),
    (functools.partial, _Printer._partial),
    (types.ModuleType, _Printer._module),
    (_BUILTINS, _Printer._builtin),
    (re.Pattern, _Printer._pattern),
)


def _attribute(thing: Any, name: str) -> Any:
    try:
        return getattr(thing, name, None)
    except Exception:  # a property or a proxy may raise anything
        return None


def _fields(thing: Any) -> Iterator[tuple[str, Any]]:
    names = set(getattr(thing, "__dict__", ()))
    for kind in type(thing).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names.update((slots,) if isinstance(slots, str) else slots)
    for name in sorted(names - {"__dict__", "__weakref__"}):
        if hasattr(thing, name):
            yield name, getattr(thing, name)
