"""Which predictor is which while a program runs: names by object, in a context variable.

A predictor does not know the attribute that holds it. The outermost module (or its target) binds its predictors to
their names around a call; inside, each finds its own. A predictor that is not of this program (a judge that the program
calls, a module it builds on the way) must not read the candidate, whose names mean other predictors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import attrs
import structlog

import burnish

_bound: ContextVar[Binding | None] = ContextVar("burnish_programs_binding", default=None)

log = structlog.get_logger("burnish")


@attrs.frozen(kw_only=True, eq=False)
class Names:
    """The predictors and modules of one program, by identity of the object, and the strangers met so far."""

    program: str
    predictors: Mapping[int, str]
    modules: frozenset[int]
    held: tuple[Any, ...] = attrs.field(repr=False)
    """Keeps the objects alive, and so their ids their own."""
    strangers: set[int] = attrs.field(factory=set)

    def warn_of(self, name: str, stranger: Any) -> None:
        """Say once that a predictor runs in the program's rollouts and is none of its own."""
        if id(stranger) not in self.strangers:
            self.strangers.add(id(stranger))
            log.warning(
                "a predictor runs in the program's rollouts but is not one of its predictors, so it is not tuned; make "
                "it an attribute of the module, or give it in `predictors()`",
                predictor=name,
                program=self.program,
            )


@attrs.frozen(kw_only=True, eq=False)
class Binding:
    """Names in force."""

    names: Names
    injection: Any
    """The candidate that was in force when they were bound."""
    reads: bool
    """Whether these names are the ones that this candidate means."""
    tuned: Names | None
    """The program whose rollout this is."""


@attrs.frozen(kw_only=True)
class InForce:
    """What holds for one call of a predictor."""

    name: str
    overlay: burnish.Overlay | None
    source: str | None


def names_of(program: Any, predictors: Mapping[str, Any], modules: Mapping[int, Any]) -> Names:
    """Give the names of a program's predictors; one that has several has the first."""
    return Names(
        program=type(program).__name__,
        predictors={id(leaf): name for name, leaf in reversed(list(predictors.items()))},
        modules=frozenset(modules),
        held=(*predictors.values(), *modules.values()),
    )


def is_bound(module: Any) -> bool:
    """Whether the names in force are those of a program that this module is part of."""
    binding = _bound.get()
    return binding is not None and id(module) in binding.names.modules


@contextmanager
def binding(names: Names, *, tuned: bool = False) -> Iterator[None]:
    """Put names in force inside the block; with `tuned` they are those of the program under tuning."""
    outer, injection = _bound.get(), burnish.current_injection()
    foreign = outer is not None and injection is not None and outer.injection is injection
    root = names if tuned else outer.tuned if foreign and outer is not None else None
    token = _bound.set(Binding(names=names, injection=injection, reads=not foreign, tuned=root))
    try:
        yield
    finally:
        _bound.reset(token)


def in_force(predictor: Any, own_name: str) -> InForce:
    """Give the name of a predictor, and what the candidate in force says of it."""
    injection, bound = burnish.current_injection(), _bound.get()
    name, reads = own_name, True
    if bound is not None:
        known = bound.names.predictors.get(id(predictor))
        name = known or own_name
        same = bound.injection is injection
        reads = not same or (known is not None and bound.reads)
        if not reads and same and injection is not None and bound.tuned is not None:
            bound.tuned.warn_of(name, predictor)
    if injection is None:
        return InForce(name=name, overlay=None, source=None)
    return InForce(name=name, overlay=injection.read(name) if reads else None, source=injection.source)
