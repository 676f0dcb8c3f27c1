"""What `codeprint` reads of code: byte code, names, a class's members, the attributes of objects, plain values."""

from __future__ import annotations

import datetime
import decimal
import dis
import functools
import json
import pathlib
import re
import sys
import types
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

MOST_VALUES = 200_000
"""More values in one list or mapping of plain data have no content identity."""

SCALARS = (str, int, float, bool, bytes, complex, type(None), type(...), type(NotImplemented), range)
VALUES = (
    *(decimal.Decimal, uuid.UUID, datetime.timezone, datetime.timedelta),
    *(datetime.datetime, datetime.date, datetime.time),
    *(pathlib.PosixPath, pathlib.WindowsPath, pathlib.PurePosixPath, pathlib.PureWindowsPath),
)
TYPE_FORMS = (types.GenericAlias, types.UnionType)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)


# --- functions -------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def code_form(code: types.CodeType) -> str:
    """Write byte code with all that it runs on: constants, names, arguments, the reach of its `try` blocks."""
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    constants = [_constant(value) for value in code.co_consts]
    return f"{code.co_name}:{code.co_code.hex()}:{code.co_exceptiontable.hex()}:{constants}:{names}:{counts}"


def _constant(value: Any) -> str:
    if isinstance(value, types.CodeType):
        return code_form(value)
    if isinstance(value, tuple):
        return f"({','.join(map(_constant, value))})"
    return f"{{{sorted(map(_constant, value))}}}" if isinstance(value, frozenset) else _shown(value)


@attrs.frozen
class Import:
    """A module that a function imports itself, and what it takes out of it."""

    name: str
    level: int
    taken: tuple[str, ...]


@attrs.frozen
class Names:
    """Names in a function's code, nested functions included."""

    read: frozenset[str]
    """Global names and attributes; a global that is only named like an attribute does no harm."""
    written: frozenset[str]
    """Global names that it assigns."""
    imports: tuple[Import, ...]
    computed: bool
    """Whether it looks for modules or globals by names that are not in the code."""


_BY_NAME = frozenset({"globals", "import_module", "__import__"})


@functools.lru_cache(maxsize=4096)
def names_in(code: types.CodeType) -> Names:
    """Find the names that code may look up outside of itself."""
    written: set[str] = set()
    imports: list[Import] = []
    if {dis.opmap["STORE_GLOBAL"], dis.opmap["IMPORT_NAME"]} & set(code.co_code[::2]):  # taking apart is slow
        done = list(dis.get_instructions(code))
        written = {op.argval for op in done if op.opname == "STORE_GLOBAL"}
        found = [(n, op.argval) for n, op in enumerate(done) if op.opname == "IMPORT_NAME"]
        loaded = [[op.argval for op in done[:n] if op.opname.startswith("LOAD_")][-2:] for n, _ in found]
        imports = [Import(name, level, taken or ()) for (_, name), (level, taken) in zip(found, loaded, strict=True)]
    inner = [names_in(value) for value in code.co_consts if isinstance(value, types.CodeType)]
    return Names(
        frozenset(code.co_names).union(*(names.read for names in inner)),
        frozenset(written).union(*(names.written for names in inner)),
        (*imports, *(one for names in inner for one in names.imports)),
        bool(_BY_NAME & set(code.co_names)) or any(names.computed for names in inner),
    )


# --- classes ---------------------------------------------------------------------------------------------------

_MACHINERY = frozenset(
    {
        *("__dict__", "__weakref__", "__module__", "__qualname__", "__slots__", "__abstractmethods__", "__signature__"),
        *("__firstlineno__", "__static_attributes__", "__annotations_cache__", "__classdictcell__", "__attrs_props__"),
        *("_abc_impl", "_value2member_map_"),
    }
)
"""What the interpreter and makers of classes keep in one: it follows from the rest, or grows while it is used."""


def members_of(kind: type) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Give what a class itself defines, by name: functions, those of properties, attributes, annotations."""
    space = vars(kind)
    for name in sorted(space):
        value = space[name]
        if isinstance(value, property):
            yield name, (type(value), value.fget, value.fset, value.fdel)
        elif isinstance(value, functools.cached_property):
            yield name, (type(value), value.func)
        elif name == "__annotations__":
            yield name, tuple(_annotations(kind, value))
        elif name == "__doc__":
            yield name, (_ADDRESS.sub("", str(value)),)
        elif not _is_machinery(kind, name, value):
            yield name, (value,)


def _annotations(kind: type, found: Mapping[str, Any]) -> Iterator[Any]:
    """Give annotations as text, and the classes that they name: a framework may ask a model for just these."""
    space = getattr(sys.modules.get(kind.__module__), "__dict__", {})
    for field, value in found.items():
        yield f"{field}: {annotation_text(value)}"
        if isinstance(value, str):
            yield from (space[name] for name in re.findall(r"\w+", value) if isinstance(space.get(name), type))
        else:
            yield value


def annotation_text(value: Any) -> str:
    """Write an annotation as it would stand in source."""
    text = value if isinstance(value, str) else getattr(value, "__qualname__", None)
    return text if isinstance(text, str) and not isinstance(value, TYPE_FORMS) else _ADDRESS.sub("", repr(value))


def _is_machinery(kind: type, name: str, value: Any) -> bool:
    pydantic = name.startswith("__pydantic_") and name != "__pydantic_fields__"
    own_slot = isinstance(value, _SLOTS) and value.__objclass__ is kind
    file = value.__code__.co_filename if isinstance(value, types.FunctionType) else ""
    seeded = name == "__hash__" and file.startswith("<attrs generated")  # it holds a hash of this process
    return name in _MACHINERY or pydantic or own_slot or seeded or type(value).__name__ == "_tuplegetter"


# --- objects ---------------------------------------------------------------------------------------------------


def fields_of(thing: Any, base: type) -> dict[str, Any]:
    """Give an object's attributes as they are kept, without those of its compiled `base` and of `cached_property`."""
    found: dict[str, Any] = {}
    kinds = type(thing).__mro__[: type(thing).__mro__.index(base)]
    members = [pair for kind in kinds for pair in vars(kind).items()]
    lazy = {name for name, value in members if isinstance(value, functools.cached_property)}
    for kind in kinds:
        for name, slot in vars(kind).items():
            if isinstance(slot, types.MemberDescriptorType) and slot.__objclass__ is kind:
                try:
                    found[name] = slot.__get__(thing)
                except AttributeError:  # not set
                    continue
    found.update({name: value for name, value in own_space(thing).items() if name not in lazy})
    return found


def own_space(thing: Any) -> Mapping[str, Any]:
    """Give the attributes that a thing has by itself, without asking its class."""
    try:
        space: Any = vars(thing) if issubclass(type(thing), type) else object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}
    return space if isinstance(space, (dict, types.MappingProxyType)) else {}


def attribute(thing: Any, name: str) -> Any:
    """Get an attribute; None where there is none, or a property or a proxy raises."""
    try:
        return getattr(thing, name, None)
    except Exception:
        return None


def holder_of(thing: Any, name: str) -> type | None:
    """Find the class that gives an object an attribute; None where it would be its own, or made when asked for."""
    return next((kind for kind in type(thing).__mro__ if name in vars(kind)), None)


def has(thing: Any, *names: str) -> bool:
    """Say whether an object has attributes of these names, without those that it passes on from another object."""
    return all(name in own_space(thing) or holder_of(thing, name) is not None for name in names)


def own_fingerprint(thing: Any) -> str | None:
    """Give the `fingerprint` that someone gave this very thing.

    One that `functools.wraps` has copied is that of another function, a constant of a base class is that of another
    class, and that of a method's function says nothing about the object it is bound to.
    """
    space = own_space(thing)
    if "fingerprint" in space:
        given = space["fingerprint"]
        copied = "__wrapped__" in space and attribute(space["__wrapped__"], "fingerprint") == given
        return given if isinstance(given, str) and not copied else None
    holder = None if isinstance(thing, (type, types.MethodType)) else holder_of(thing, "fingerprint")
    if holder is None or (isinstance(vars(holder)["fingerprint"], str) and holder is not type(thing)):
        return None
    given = attribute(thing, "fingerprint")
    return given if isinstance(given, str) else None


# --- values ----------------------------------------------------------------------------------------------------


def value_text(value: Any) -> str | None:
    """Write a value that is what its text says; None for anything else."""
    kind = type(value)
    if kind in SCALARS or (kind is tuple and all(type(item) in SCALARS for item in value)):
        return _shown(value)
    if kind in VALUES:
        return base_text(value, kind)
    return None


def base_text(value: Any, base: type) -> str | None:
    """Write a value as one of a base class does; None where it holds a time zone that is no plain value."""
    zone = attribute(value, "tzinfo")
    if zone is not None and type(zone).__module__ not in ("datetime", "zoneinfo"):
        return None
    return f"{base.__qualname__} {_shown(value, base)}"


def _shown(value: Any, base: Any = None) -> str:
    try:
        return str(repr(value) if base is None else base.__repr__(value))
    except ValueError:  # Python writes no more than 4,300 digits
        return f"({','.join(map(_shown, value))})" if isinstance(value, tuple) else hex(value)


def plain_text(value: Any) -> str | None:
    """Write a list or mapping of plain data, in its order; None for anything else."""
    try:
        if type(value) not in (list, dict) or not _is_plain(value, [MOST_VALUES]):
            return None
        return f"{type(value).__name__} {json.dumps(value)}"
    except (RecursionError, ValueError):  # it holds itself, or an integer of more than 4,300 digits
        return None


def _is_plain(value: Any, left: list[int]) -> bool:
    left[0] -= 1
    if left[0] < 0:
        return False
    if type(value) is list:
        return all(_is_plain(item, left) for item in value)
    if type(value) is dict:
        return all(type(key) is str and _is_plain(item, left) for key, item in value.items())
    return value is None or type(value) in (str, int, float, bool)
