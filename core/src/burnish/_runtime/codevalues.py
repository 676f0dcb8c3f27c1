"""Writes values as JSON for their identity: scalars, containers, objects with their classes; code by a number."""

from __future__ import annotations

import collections
import functools
import logging
import operator
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

from burnish._model.canonical import Json
from burnish._model.parameter import PredictState
from burnish._runtime.codeowner import Owner, is_compiled, is_python, is_python_class, source_module
from burnish._runtime.codeparts import (
    SCALARS,
    TYPE_FORMS,
    VALUES,
    annotation_text,
    attribute,
    base_text,
    fields_of,
    has,
    holder_of,
    own_fingerprint,
    own_space,
    plain_text,
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

CONTAINERS = (list, dict, set, bytearray, collections.deque)
_MAPPINGS = (dict, collections.OrderedDict, collections.defaultdict, types.MappingProxyType)
_SETS = (set, frozenset)
_BASES = (*_MAPPINGS, *CONTAINERS, frozenset)
_WRAPPED = (classmethod, staticmethod, type(functools.lru_cache(lambda: None)))
_BUILTINS = (
    *(types.BuiltinFunctionType, types.MethodWrapperType, types.GetSetDescriptorType, types.MemberDescriptorType),
    *(types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType),
)
_DESCRIBED = frozenset({"model", "name", "settings", "signature", "_state", "_prefixes", "_runs"})
"""Attributes of a predictor that its `describe` and its `get_state` tell, its model, and what comes and goes."""
_LOGGERS = (logging.Filterer, logging.Manager)
"""Loggers and handlers: where messages go decides no result."""
_MEMBER_NAMES = frozenset({"_value_", "_name_", "__objclass__", "_sort_order_", "_inverted_"})


class ValueWriter:
    """Writes values; functions and classes get a number and are kept in `pieces`, so that cycles end."""

    def __init__(self, owner: Owner) -> None:
        self.opaque: list[Any] = []
        self._owner, self._left = owner, MOST_FORMS
        self.pieces: list[Any] = []
        self._numbers: dict[int, tuple[int, Any]] = {}

    def _piece(self, thing: Any) -> Json:
        if id(thing) not in self._numbers:
            if len(self.pieces) >= MOST_PIECES:
                return self._opaque(thing)
            self._numbers[id(thing)] = (len(self._numbers), thing)
            self.pieces.append(thing)
        return {"code": self._numbers[id(thing)][0]}

    def _again(self, thing: Any) -> Json:
        """Refer to what was written before; None where it comes for the first time."""
        if id(thing) in self._numbers:
            return {"again": self._numbers[id(thing)][0]}
        self._numbers[id(thing)] = (len(self._numbers), thing)
        return None

    def _opaque(self, thing: Any) -> Json:
        self.opaque.append(thing)
        return {"opaque": type(thing).__qualname__}

    # --- values ------------------------------------------------------------------------------------------------

    def _form(self, thing: Any, depth: int) -> Json:
        kind = type(thing)
        text = value_text(thing)
        if text is not None:
            return {"is": text}
        given = own_fingerprint(thing)
        if given is not None:
            return {"given": given, "by": self._inherited(thing, "fingerprint", depth)}
        self._left -= 1
        if depth > DEEPEST or self._left == 0:
            return self._opaque(thing)
        if self._left < 0:  # named once, above
            return None
        for kinds, write in _WRITERS:
            if issubclass(kind, kinds):  # by the real type: a proxy says it is what it stands for
                return write(self, thing, depth)
        if kind in TYPE_FORMS or kind.__module__ == "typing":
            named = [attribute(thing, name) for name in ("__supertype__", "__bound__", "__constraints__")]
            return {"type": annotation_text(thing), "of": self._items([*typing.get_args(thing), *named], depth)}
        return self._instance(thing, depth)

    def _inherited(self, thing: Any, name: str, depth: int) -> Json:
        """Write the class of an object that has its identity from a base class, which knows nothing of this one."""
        holder = None if name in own_space(thing) else holder_of(thing, name)
        return None if holder in (None, type(thing)) else self._class_of(type(thing), depth)

    def _items(self, things: Iterable[Any], depth: int) -> list[Json]:
        return [self._form(item, depth + 1) for item in things]

    def _fields(self, thing: Any, depth: int, but: Iterable[str] = ()) -> Json:
        fields = sorted(fields_of(thing, _builtin_base(type(thing))).items())
        return {name: self._form(value, depth + 1) for name, value in fields if name not in but}

    def _heir(self, thing: Any, base: type, depth: int) -> dict[str, Json]:
        """Write what an object of a subclass has beside what its base, a built-in one, holds."""
        kind = type(thing)
        return {} if kind is base else {"of": self._class_of(kind, depth), "fields": self._fields(thing, depth)}

    def _scalar(self, thing: Any, depth: int) -> Json:
        base = next(kind for kind in type(thing).__mro__ if kind in SCALARS or kind in VALUES)
        text = base_text(thing, base)
        return self._opaque(thing) if text is None else {"value": text, **self._heir(thing, base, depth)}

    def _tuple(self, thing: tuple[Any, ...], depth: int) -> Json:
        items = self._items(tuple.__iter__(thing), depth)
        if type(thing) is tuple:
            return items
        if _builtin_base(type(thing)) is not tuple:  # a compiled one may hold more than its items
            return self._opaque(thing)
        return {"tuple": items, **self._heir(thing, tuple, depth)}

    def _container(self, thing: Any, depth: int) -> Json:
        text = plain_text(thing)
        if text is not None:
            return {"data": text}
        base: Any = _builtin_base(type(thing))
        again = self._again(thing)
        if again is not None:
            return again
        if base not in _BASES or (base.__len__(thing) > MOST_ITEMS and base not in _SETS):
            return self._opaque(thing)
        heir = self._heir(thing, base, depth)
        if base in _MAPPINGS:
            made = thing.default_factory if base is collections.defaultdict else None
            pairs: list[Json] = [self._items(pair, depth) for pair in base.items(thing)]
            return {"mapping": pairs, "made": self._form(made, depth + 1), **heir}
        if base in _SETS:
            return {"set": self._set(thing, base, depth), **heir}
        most = thing.maxlen if base is collections.deque else None
        return {"list": self._items(base.__iter__(thing), depth), "most": most, **heir}

    def _set(self, thing: Any, base: Any, depth: int) -> Json:
        """Write the items in an order that holds in every process: that of their text or names."""
        items = {text: item for item in base.__iter__(thing) if (text := _order(item)) is not None}
        if len(items) < base.__len__(thing):
            return self._opaque(thing)
        if all(type(item) in SCALARS for item in items.values()):
            return [*sorted(items)]
        return self._items([items[text] for text in sorted(items)], depth)

    def _partial(self, thing: functools.partial[Any], depth: int) -> Json:
        keywords = tuple(thing.keywords.items())
        form = self._items((thing.func, thing.args, keywords), depth)
        return {"partial": form, "of": self._class_of(type(thing), depth), "fields": self._fields(thing, depth)}

    def _method(self, thing: types.MethodType, depth: int) -> Json:
        return {"method": self._form(thing.__func__, depth + 1), "of": self._form(thing.__self__, depth + 1)}

    def _function_of(self, thing: types.FunctionType, depth: int) -> Json:
        named = None if is_dispatched(thing) else self._owner.named(thing)
        return self._piece(thing) if named is None else {"function": named}

    def _class_of(self, thing: type, depth: int) -> Json:
        named = self._owner.named(thing)
        if named is None and is_compiled(thing.__module__):
            return self._opaque(thing)
        return self._piece(thing) if named is None else {"class": named}

    def _module(self, thing: types.ModuleType, depth: int) -> Json:
        library = self._owner.library(thing.__name__)
        return self._opaque(thing) if library is None else {"module": thing.__name__, "in": library}

    def _builtin(self, thing: Any, depth: int) -> Json:
        held = attribute(thing, "__self__")
        held = None if isinstance(held, types.ModuleType) else held
        kind, module = attribute(thing, "__objclass__"), attribute(thing, "__module__")
        if isinstance(module, str) and self._owner.library(module) is None:
            return self._opaque(thing)  # the user's own compiled code
        form: list[Json] = [None if one is None else self._form(one, depth + 1) for one in (held, kind)]
        library = None if module is None else [module, self._owner.library(module)]
        return {"builtin": thing.__qualname__, "in": library, "of": form}

    def _enum(self, thing: Enum, depth: int) -> Json:
        again = self._again(thing)
        if again is not None:
            return again
        value, fields = self._form(thing._value_, depth + 1), self._fields(thing, depth, but=_MEMBER_NAMES)
        return {"member": thing._name_, "is": value, "of": self._class_of(type(thing), depth), "fields": fields}

    def _pattern(self, thing: re.Pattern[Any], depth: int) -> Json:
        return {"pattern": repr(thing.pattern), "flags": thing.flags}

    def _wrapped(self, thing: Any, depth: int) -> Json:
        """Write a function out of `functools.lru_cache`, `staticmethod` or `classmethod`."""
        fields = self._fields(thing, depth, but=("__wrapped__", "__annotations__", *functools.WRAPPER_ASSIGNMENTS))
        by = self._class_of(type(thing), depth)
        return {"wrapped": self._form(thing.__wrapped__, depth + 1), "by": by, "fields": fields}

    def _made(self, thing: Any, depth: int) -> Json:
        return {"made": self._items(thing.__reduce__(), depth)}

    def _instance(self, thing: Any, depth: int) -> Json:
        kind = type(thing)
        if has(thing, "identity", "complete") and isinstance(identity := attribute(thing, "identity"), Mapping):
            settings: dict[str, Json] = {str(key): self._form(identity[key], depth + 1) for key in identity}
            return {"model": settings, "by": self._inherited(thing, "identity", depth)}
        package = kind.__module__.partition(".")[0]
        if package == "structlog" or (package == "logging" and issubclass(kind, _LOGGERS)):
            return {"logger": None}
        again = self._again(thing)
        if again is not None:
            return again
        if has(thing, "describe", "get_state") and isinstance(state := _state_of(thing), PredictState):
            return self._predictor(thing, state, depth)
        proxy = attribute(thing, "__class__") is not kind
        if proxy or depth > DEEPEST_OBJECT or not (is_python_class(kind) or kind is types.SimpleNamespace):
            return self._opaque(thing)
        return {"object": self._class_of(kind, depth), "fields": self._fields(thing, depth)}

    def _predictor(self, thing: Any, state: PredictState, depth: int) -> Json:
        held: list[Json] = [state.instruction, [demo.to_json() for demo in state.demos]]
        kind, model = self._class_of(type(thing), depth), self._form(attribute(thing, "model"), depth + 1)
        # a user's class may keep more, under private names too
        more = None if self._owner.named(type(thing)) else self._fields(thing, depth, but=_DESCRIBED)
        return {"predictor": thing.describe(), "state": held, "kind": kind, "model": model, "more": more}


_WRITERS: tuple[tuple[Any, Callable[[ValueWriter, Any, int], Json]], ...] = (
    (types.FunctionType, ValueWriter._function_of),
    (types.MethodType, ValueWriter._method),
    (type, ValueWriter._class_of),
    (Enum, ValueWriter._enum),
    ((str, bytes, int, float, complex, *VALUES), ValueWriter._scalar),
    (tuple, ValueWriter._tuple),
    (_BASES, ValueWriter._container),
    (functools.partial, ValueWriter._partial),
    (types.ModuleType, ValueWriter._module),
    (_BUILTINS, ValueWriter._builtin),
    (re.Pattern, ValueWriter._pattern),
    (_WRAPPED, ValueWriter._wrapped),
    ((operator.itemgetter, operator.attrgetter, operator.methodcaller), ValueWriter._made),
)


def _builtin_base(kind: type) -> type:
    return next(base for base in kind.__mro__ if not is_python(base))


def _state_of(thing: Any) -> Any:
    try:
        return thing.get_state()
    except Exception:  # it is no predictor, but has a method of that name
        return None


def _order(item: Any) -> str | None:
    """Give what an item of a set is sorted by; None where that would not be the same in another process."""
    if isinstance(item, Enum):
        return f"{type(item).__module__}.{type(item).__qualname__}.{item._name_}"
    named = isinstance(item, (type, types.FunctionType))
    return f"{item.__module__}.{item.__qualname__}" if named else value_text(item)


def is_dispatched(function: types.FunctionType) -> bool:
    """Say whether `functools.singledispatch` made it."""
    return source_module(function) == "functools" and {"registry", "dispatch"} <= own_space(function).keys()
