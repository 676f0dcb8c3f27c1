"""What `codeprint` reads of code: byte code, names, a class's members, plain values, and whose code it is."""

from __future__ import annotations

import datetime
import decimal
import dis
import enum
import functools
import json
import pathlib
import re
import sys
import types
import uuid
from collections.abc import Iterator
from typing import Any

import attrs

MOST_VALUES = 200_000
"""More values in one list or mapping of plain data have no content identity."""

_SCALARS = (str, int, float, bool, bytes, complex, type(None), type(...), type(NotImplemented), range)
_VALUES = (decimal.Decimal, datetime.date, datetime.time, datetime.timedelta, uuid.UUID, pathlib.PurePath)
_TYPE_FORMS = (types.GenericAlias, types.UnionType)
_HEAP_TYPE = 1 << 9
"""The flag of a class that was made at run time, as all that are written in Python are."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


# --- whose code it is ------------------------------------------------------------------------------------------


@attrs.frozen
class Owner:
    """Whose code is looked into: the user's own, and the package of the thing that is printed."""

    packages: frozenset[str]

    @classmethod
    def of(cls, thing: Any) -> Owner:
        """Take the packages of a function, class, object, or of the code in a tuple."""
        if isinstance(thing, functools.partial):
            return cls.of(thing.func)
        if isinstance(thing, tuple):
            code = (types.FunctionType, types.MethodType, type)
            return cls(frozenset().union(*(cls.of(item).packages for item in thing if isinstance(item, code))))
        named = thing if isinstance(thing, (types.FunctionType, types.MethodType, type)) else type(thing)
        return cls(frozenset({_package(named.__module__ or "")}))

    def owns(self, thing: Any) -> bool:
        """Say whether a function, class or module is to be looked into, by its module and where that lies."""
        name = source_module(thing)
        package = _package(name)
        if package in self.packages:
            return package != "builtins"
        if package == "burnish" or package.startswith("burnish_") or package in sys.stdlib_module_names:
            return False
        if isinstance(thing, types.FunctionType):
            file: Any = thing.__code__.co_filename
        else:
            file = getattr(sys.modules.get(name), "__file__", None)
        return not isinstance(file, str) or not ("site-packages" in file or "dist-packages" in file)

    def follows(self, function: types.FunctionType) -> bool:
        """Say whether the global names in a function's code are looked up."""
        return _package(source_module(function)) != "burnish" and self.owns(function)


def source_module(thing: Any) -> str:
    """Name the module that a thing was written in; a decorated function says it is from that of what it wraps."""
    if isinstance(thing, types.ModuleType):
        return thing.__name__
    if isinstance(thing, types.FunctionType):
        return str(thing.__globals__.get("__name__") or thing.__module__)
    return str(thing.__module__)


def _package(module: str) -> str:
    return module.partition(".")[0]


# --- functions -------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def code_form(code: types.CodeType) -> str:
    """Write byte code with all that it runs on: constants, names, arguments, the reach of its `try` blocks."""
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    constants = [_constant(value) for value in code.co_consts]
    return f"{code.co_code.hex()}:{code.co_exceptiontable.hex()}:{constants}:{names}:{counts}"


def _constant(value: Any) -> str:
    if isinstance(value, types.CodeType):
        return code_form(value)
    if isinstance(value, tuple):
        return f"({','.join(map(_constant, value))})"
    return f"{{{sorted(map(_constant, value))}}}" if isinstance(value, frozenset) else repr(value)


@attrs.frozen
class Names:
    """Names in a function's code, nested functions included."""

    read: frozenset[str]
    """Global names and attributes; a global that is only named like an attribute does no harm."""
    written: frozenset[str]
    """Global names that it assigns."""


@functools.lru_cache(maxsize=4096)
def names_in(code: types.CodeType) -> Names:
    """Find the names that code may look up outside of itself."""
    written: set[str] = set()
    if dis.opmap["STORE_GLOBAL"] in code.co_code[::2]:  # taking code apart is slow, and few do this
        written = {op.argval for op in dis.get_instructions(code) if op.opname == "STORE_GLOBAL"}
    inner = [names_in(value) for value in code.co_consts if isinstance(value, types.CodeType)]
    return Names(
        frozenset(code.co_names).union(*(names.read for names in inner)),
        frozenset(written).union(*(names.written for names in inner)),
    )


# --- classes ---------------------------------------------------------------------------------------------------


def members_of(kind: type) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Give what a class itself defines, by name: functions out of their wrappers, attributes, annotations as text."""
    space = vars(kind)
    for name in sorted(space):
        value = space[name]
        if isinstance(value, (staticmethod, classmethod)):
            yield name, (type(value).__name__, value.__func__)
        elif isinstance(value, property):
            yield name, ("property", value.fget, value.fset, value.fdel)
        elif isinstance(value, functools.cached_property):
            yield name, ("cached", value.func)
        elif name == "__annotations__":
            yield name, tuple(f"{field}: {_annotation(text)}" for field, text in value.items())
        elif isinstance(value, types.FunctionType) or not (_is_dunder(name) or _is_machinery(name, value)):
            yield name, (value,)


def _annotation(value: Any) -> str:
    text = value if isinstance(value, str) else getattr(value, "__qualname__", None)
    return text if isinstance(text, str) and not isinstance(value, _TYPE_FORMS) else _ADDRESS.sub("", repr(value))


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_machinery(name: str, value: Any) -> bool:
    """Say whether a class has it from the interpreter: slots, the fields of a named tuple, what `abc` keeps."""
    getter = hasattr(type(value), "__get__") and not isinstance(value, types.MethodType)
    return name == "_abc_impl" or (getter and not hasattr(value, "__wrapped__") and not is_python_class(type(value)))


def is_python_class(kind: type) -> bool:
    """Say whether all that an object holds is in its attributes: its class and bases are written in Python."""
    return kind is not object and all(_is_python(base) for base in kind.__mro__[:-1])


def _is_python(kind: type) -> bool:
    space = vars(kind)
    if not kind.__flags__ & _HEAP_TYPE:
        return False
    named = "__dict__" in space or "__slots__" in space
    return named or any(isinstance(value, types.FunctionType) for value in space.values())


# --- values ----------------------------------------------------------------------------------------------------


def value_text(value: Any) -> str | None:
    """Write a value that is what its text says; None for anything else."""
    kind = type(value)
    if kind in _SCALARS or (kind is tuple and all(type(item) in _SCALARS for item in value)):
        return repr(value)
    for plain in (str, bytes, int, float):
        if isinstance(value, plain) and not isinstance(value, enum.Enum):
            return f"{kind.__qualname__} {plain.__repr__(value)}"
    if isinstance(value, _VALUES):
        return f"{kind.__qualname__} {value!r}"
    if isinstance(value, _TYPE_FORMS) or (kind.__module__ == "typing" and not isinstance(value, type)):
        return f"type {_ADDRESS.sub('', repr(value))}"
    return None


def plain_text(value: Any) -> str | None:
    """Write a list or mapping of plain data; None for anything else."""
    try:
        if type(value) not in (list, dict) or not _is_plain(value, [MOST_VALUES]):
            return None
    except RecursionError:  # it holds itself
        return None
    return f"{type(value).__name__} {json.dumps(value, sort_keys=True)}"


def _is_plain(value: Any, left: list[int]) -> bool:
    left[0] -= 1
    if left[0] < 0:
        return False
    if type(value) is list:
        return all(_is_plain(item, left) for item in value)
    if type(value) is dict:
        return all(type(key) is str and _is_plain(item, left) for key, item in value.items())
    return value is None or type(value) in (str, int, float, bool)
