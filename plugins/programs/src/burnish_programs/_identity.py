"""What decides a program's results, as a fingerprint: its code, what it holds, and its predictors as they stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import burnish
from burnish import abc
from burnish.abc import Json
from burnish_programs._leaf import Leaf
from burnish_programs._module import Module, attributes, holds_predictors, items_of, modules_in
from burnish_programs._render import RENDERING

_KEPT = frozenset({"name", "model", "settings", "signature", "_state", "_prefixes", "_runs"})
"""Attributes of every predictor."""


def print_code(program: Module | Leaf, predictors: Mapping[str, Leaf]) -> burnish.CodePrint:
    """Fingerprint the code of a program: the user's classes, and the plain attributes of modules as they are now.

    A module with a `fingerprint` attribute is that, and nobody looks inside.
    """
    classes: list[type] = [type(leaf) for leaf in predictors.values()]
    held: list[tuple[Any, ...]] = [_added(leaf) for leaf in predictors.values() if not _is_ours(type(leaf))]
    for module in modules_in(program).values():
        if isinstance(getattr(module, "fingerprint", None), str):
            held.append((module,))
        else:
            classes.append(type(module))
            held.append(tuple(part for name, value in attributes(module) for part in (name, *_plain_parts(value))))
    own = [kind for kind in classes if not _is_ours(kind)]
    return burnish.code_print((*own, tuple(held)))


def _is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "burnish_programs"


def _added(leaf: Leaf) -> tuple[Any, ...]:
    """Give what a user's class of predictors keeps beside what all do; `PredictorPrints` has the rest."""
    members = [pair for kind in type(leaf).__mro__ for pair in vars(kind).items()]
    made = {name for name, value in members if isinstance(value, cached_property)}
    added = vars(leaf).keys() - _KEPT - made
    return tuple(part for name in sorted(added) for part in (name, vars(leaf)[name]))


def _plain_parts(value: Any) -> Iterator[Any]:
    """Give what a value holds beside modules and predictors, which are looked at by themselves."""
    if not holds_predictors(value):
        yield value
    elif not isinstance(value, (Module, Leaf)):
        for key, item in items_of(value) or ():
            yield key
            yield from _plain_parts(item)


class PredictorPrints:
    """Fingerprints the predictors of one program as they stand; a callable that they are pinned to, once."""

    def __init__(self, predictors: Mapping[str, Leaf]) -> None:
        self._predictors = predictors
        self._callables: list[tuple[Any, burnish.CodePrint]] = []
        self._known: tuple[list[Any], list[Any], str] | None = None

    def print(self, code: burnish.CodePrint) -> str:
        """Fingerprint code and predictors: signatures, settings, pinned models, and the state each has now (E33)."""
        held = [part for leaf in self._predictors.values() for part in _held(leaf)]
        models = [_model(leaf) for leaf in self._predictors.values()]
        known = self._known
        if known is None or models != known[1] or not _same_objects(held, known[0]):
            form: dict[str, Json] = {
                name: [leaf.describe(), _state(leaf.get_state()), model, [p.fingerprint for p in self._pinned(leaf)]]
                for (name, leaf), model in zip(self._predictors.items(), models, strict=True)
            }
            self._known = known = held, models, burnish.fingerprint([RENDERING, code.fingerprint, form])
        return known[2]

    @property
    def opaque(self) -> tuple[Any, ...]:
        """Objects without a content identity that pinned callables hold."""
        return tuple(o for leaf in self._predictors.values() for printed in self._pinned(leaf) for o in printed.opaque)

    def _pinned(self, leaf: Leaf) -> Iterator[burnish.CodePrint]:
        """Give the print of the callable that a predictor is pinned to, as it was when it was first seen."""
        if leaf.model is None or isinstance(leaf.model, abc.Model):
            return
        for known, printed in self._callables:
            if known is leaf.model:
                yield printed
                return
        self._callables.append((leaf.model, burnish.code_print(leaf.model)))
        yield self._callables[-1][1]


def _held(leaf: Leaf) -> list[Any]:
    """Give what decides a predictor's results, by object: its state and its public attributes."""
    return [leaf.get_state(), *(value for name, value in vars(leaf).items() if not name.startswith("_"))]


def _same_objects(some: list[Any], others: list[Any]) -> bool:
    return len(some) == len(others) and all(a is b for a, b in zip(some, others, strict=True))


def _state(state: burnish.PredictState) -> Json:
    return [state.instruction, [demo.to_json() for demo in state.demos]]


def _model(leaf: Leaf) -> Json:
    return None if leaf.model is None else dict(burnish.as_model(leaf.model).identity)
