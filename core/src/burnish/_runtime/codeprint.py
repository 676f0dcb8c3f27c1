"""The identity of code: byte code, closure and defaults, and whatever of the user's own code it refers to.

Byte code is what runs: unlike source it is at hand in a notebook too, and cannot be that of a file which was edited
since it was imported. A thing's own `fingerprint` attribute always wins. What has no content identity (an open client,
a list in a closure, compiled code) is given back as *opaque*, so that the engine can tell it apart by object within one
run, and refuse to share results between runs.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from burnish._model.canonical import Json, fingerprint
from burnish._runtime.codeowner import Owner, absolute_name, file_to_import, is_compiled, source_module
from burnish._runtime.codeparts import (
    Import,
    annotation_text,
    attribute,
    code_form,
    members_of,
    names_in,
    own_space,
)
from burnish._runtime.codevalues import CONTAINERS, ValueWriter, is_dispatched

_MODULE_NAMES = frozenset(
    {
        *("__annotations__", "__builtins__", "__cached__", "__doc__", "__file__"),
        *("__loader__", "__name__", "__package__", "__path__", "__spec__"),
    }
)
"""What every module has; what stands under them is no constant of its code."""


@attrs.frozen(kw_only=True)
class CodePrint:
    """Identity of a piece of code."""

    fingerprint: str
    opaque: tuple[Any, ...] = ()
    """Objects it holds that have no content identity."""


def code_print(thing: Any) -> CodePrint:
    """Fingerprint a function, method, class, or an object with its class and its attributes as they are now.

    Functions, classes and constants that it refers to by a global name count too, and what those refer to, as far as
    they are the user's own: the standard library and installed packages count by name and version, but for the package
    of `thing`, and for what their decorators have made of the user's functions.
    """
    printer = _Printer(Owner.of(thing))
    form = printer.print(thing)
    return CodePrint(fingerprint=fingerprint(form), opaque=tuple(printer.opaque))


def same_code(one: Any, other: Any) -> bool:
    """Say whether two callables are one object; a bound method is made anew each time it is looked up."""
    if isinstance(one, types.MethodType) and isinstance(other, types.MethodType):
        return one.__self__ is other.__self__ and one.__func__ is other.__func__
    return one is other


class _Printer(ValueWriter):
    """Writes one thing, and each function and class that it comes upon."""

    def print(self, thing: Any) -> Json:
        forms = [self._form(thing, 0)]
        for piece in self.pieces:  # grows meanwhile
            forms.append(self._class(piece) if isinstance(piece, type) else self._function(piece))
        return forms

    def _function(self, function: types.FunctionType) -> Json:
        if is_dispatched(function):  # what else it holds is a cache of what it was called with
            return {"dispatches": self._form(function.registry, 0), "as": function.__qualname__}  # type: ignore[attr-defined]
        code, own = function.__code__, self._owner.owns(function)
        closure = _closure(function)
        modules = {name: value for name, value in closure.items() if own and self._is_own_module(value)}
        defaults = [*(function.__defaults__ or ()), *sorted((function.__kwdefaults__ or {}).items())]
        return {
            "function": function.__qualname__,
            "in": self._owner.library(source_module(function), function.__code__.co_filename) if not own else None,
            "code": code_form(code),
            "closure": {name: self._held(value, own) for name, value in closure.items() if name not in modules},
            "defaults": self._items(defaults, 0),
            "annotations": _annotations(function) if own else None,
            "attributes": {name: self._form(value, 1) for name, value in sorted(own_space(function).items())},
            "refers": self._referred(function, modules.values()) if self._owner.follows(function) else None,
        }

    def _held(self, value: Any, own: bool) -> Json:
        # A list that a closure holds is there to be changed; in a library's decorator it holds nothing of the user's.
        return self._opaque(value) if own and isinstance(value, CONTAINERS) else self._form(value, 1)

    def _is_own_module(self, value: Any) -> bool:
        return issubclass(type(value), types.ModuleType) and self._owner.owns(value)

    def _referred(self, function: types.FunctionType, modules: Iterable[types.ModuleType]) -> Json:
        """Write what a function's code finds under global names, and in the user's modules that it reaches by them.

        What it assigns itself is state, no constant.
        """
        names, space = names_in(function.__code__), function.__globals__
        if names.computed:
            self._opaque(function)
        found = [*modules]
        forms: dict[str, Json] = {f"{one}": self._imported(one, space, found) for one in names.imports}
        forms.update(self._looked_up("", space, names.read - names.written, found))
        seen: set[int] = set()
        for number, module in enumerate(found):  # grows meanwhile
            if id(vars(module)) not in seen:
                seen.add(id(vars(module)))
                prefix = f"{number} {module.__name__}."  # two may share a name
                forms.update(self._looked_up(prefix, vars(module), names.read | {"__getattr__"}, found))
        return forms

    def _looked_up(
        self, prefix: str, space: Mapping[str, Any], names: frozenset[str], found: list[types.ModuleType]
    ) -> Iterator[tuple[str, Json]]:
        for name in sorted(names & space.keys() - _MODULE_NAMES):
            value = space[name]
            own = self._is_own_module(value)
            if own:
                found.append(value)
            yield prefix + name, {"module": value.__name__} if own else self._form(value, 1)

    def _imported(self, one: Import, space: Mapping[str, Any], found: list[types.ModuleType]) -> Json:
        """Write a module that a function imports itself; nothing is imported here, and what is not there is opaque."""
        name = absolute_name(one, space)
        module, top = sys.modules.get(name), sys.modules.get(name.partition(".")[0])
        file = None if module is not None else file_to_import(name)
        if file == "":
            return {"missing": name}
        library = self._owner.library(name, file)
        if library is not None:
            return {"module": name, "in": library}
        if module is None or not vars(module).keys() >= set(one.taken):
            return self._opaque(types.ModuleType(name))
        found.extend(each for each in (top, module) if each is not None and self._is_own_module(each))
        return {"module": name}

    def _class(self, kind: type) -> Json:
        """Write a class from its own members and those of its bases, as found in them: two may share a name."""
        bases: list[Json] = []
        for base in kind.__mro__[:-1]:
            named = None if base is kind else self._owner.named(base)
            if named is None and is_compiled(base.__module__):
                bases.append(self._opaque(base))
            elif named is None:
                members: dict[str, Json] = {name: self._items(parts, 0) for name, parts in members_of(base)}
                bases.append({"name": base.__qualname__, "members": members})
            else:
                bases.append(named)
        return {"class": bases, "by": self._class_of(type(kind), 0)}


def _closure(function: types.FunctionType) -> dict[str, Any]:
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    return found


def _annotations(function: types.FunctionType) -> list[Json]:
    found = attribute(function, "__annotations__") or {}
    return [f"{name}: {annotation_text(value)}" for name, value in found.items()]
