"""What decides a program's results, as a fingerprint: its code, what it holds, and its predictors as they stand."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import burnish
from burnish import abc
from burnish_programs._leaf import Leaf
from burnish_programs._module import Module, attributes, holds_predictors, items_of, modules_in
from burnish_programs._render import RENDERING

MOST_VALUES = 10_000
"""A larger list or mapping of plain data in an attribute counts as an object without a content identity."""


class CodePrint(Protocol):
    """What `burnish.code_print` gives."""

    @property
    def fingerprint(self) -> str: ...

    @property
    def opaque(self) -> tuple[Any, ...]: ...


def print_code(program: Module | Leaf, predictors: Mapping[str, Leaf]) -> CodePrint:
    """Fingerprint the code of a program: its classes, its plain attributes, the callables its predictors are pinned to.

    Lists and mappings of plain data count by their content as it is now. A module with a `fingerprint` attribute is
    that, and nobody looks inside.
    """
    parts: list[Any] = []
    for module in modules_in(program).values():
        parts.extend(_module_parts(module))
    for name, leaf in predictors.items():
        parts.extend(_classes(type(leaf)))
        if leaf.model is not None and not isinstance(leaf.model, abc.Model):
            parts += [name, leaf.model]
    return burnish.code_print(tuple(parts))


def _module_parts(module: Module) -> Iterator[Any]:
    if isinstance(getattr(module, "fingerprint", None), str):
        yield module
        return
    yield from _classes(type(module))
    for name, value in attributes(module):
        yield name
        yield from _plain_parts(value)


def _classes(kind: type) -> Iterator[Any]:
    """Give the user's own classes, and those of their functions that close over something."""
    for base in kind.__mro__:
        if base is object or base.__module__.partition(".")[0] == "burnish_programs":
            continue
        yield base
        for member in base.__dict__.values():
            if isinstance(member, types.FunctionType) and member.__closure__:
                yield member


def _plain_parts(value: Any) -> Iterator[Any]:
    if not holds_predictors(value):
        form = _data(value)
        yield value if form is None else form
    elif not isinstance(value, (Module, Leaf)):
        for key, item in items_of(value) or ():
            yield key
            yield from _plain_parts(item)


def _data(value: Any) -> str | None:
    """Write a list or mapping of plain data as text; None for anything else."""
    if not isinstance(value, (list, dict)) or not _is_plain(value, [MOST_VALUES]):
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


def print_predictors(code: CodePrint, predictors: Mapping[str, Leaf]) -> str:
    """Fingerprint code and predictors: signatures, settings, pinned models, and the state each has now (E33)."""
    form = {name: [leaf.describe(), _state(leaf.get_state()), _model(leaf)] for name, leaf in predictors.items()}
    text = json.dumps([RENDERING, code.fingerprint, form], sort_keys=True, default=dict)
    return burnish.code_print(text).fingerprint


def _state(state: burnish.PredictState) -> Any:
    return [state.instruction, [demo.to_json() for demo in state.demos]]


def _model(leaf: Leaf) -> Any:
    return None if leaf.model is None else dict(burnish.as_model(leaf.model).identity)
