"""What holds for every program: checked once, when it is made, with errors that name place and field.

Each leaf's input has one source; sources stand earlier and fit by type; names are unique; arms give the same outputs
and cover what decides; attempts are bounded; capabilities and models are declared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from burnish_programs._signature import Field, Signature
from burnish_programs._types import Choices, MismatchError, Text
from burnish_programs.ir._errors import DemoFieldError, ProgramError
from burnish_programs.ir._fit import constant, widens
from burnish_programs.ir._nodes import (
    ForkJoin,
    Hole,
    Input,
    Leaf,
    Lit,
    Node,
    Out,
    Port,
    Predict,
    Retry,
    Route,
    Seq,
    walk,
)
from burnish_programs.ir._values import DemoRow

if TYPE_CHECKING:
    from burnish_programs.ir._program import Program

Fields: TypeAlias = Mapping[str, Field]
Given: TypeAlias = Mapping[str, Fields]
"""What a node gives: fields under each name; under "" where nobody can read it."""


@attrs.frozen(kw_only=True)
class Scope:
    """What can be read at a place."""

    program: Program
    inputs: Fields
    seen: Given

    def with_given(self, given: Given) -> Scope:
        """Give the scope of what comes later."""
        return attrs.evolve(self, seen={**self.seen, **given})

    def source(self, port: Port, place: str) -> Field:
        """Give the field that a port reads."""
        if isinstance(port, Input):
            return _known(self.inputs, port.field, place, "the program has no input", "it takes")
        if isinstance(port, Lit):
            return constant(port.value, place)
        if port.node not in self.seen:
            elsewhere = any(getattr(node, "name", None) == port.node for _, node in walk(self.program.root))
            why = "stands later, or where this cannot see it" if elsewhere else "is no node of the program"
            raise ProgramError(place, f"`{port.node}` {why}; to be read here: {_listed(['$', *self.seen])}")
        return _known(self.seen[port.node], port.field, place, f"`{port.node}` has no output", "it gives")

    def check_port(self, port: Port, wanted: Field, place: str) -> None:
        """Refuse a port that gives what a field does not take. A bare name on the left takes anything, as in a call."""
        if isinstance(port, Lit):
            try:
                wanted.type.convert(port.value) if wanted.declared else None
            except MismatchError as error:
                raise ProgramError(place, str(error)) from None
        elif isinstance(port, (Input, Out)):
            source = self.source(port, place)
            if wanted.declared and not widens(source.type, wanted.type):
                why = f"`{wanted.name}: {wanted.type.write()}` does not take `{source.name}: {source.type.write()}`"
                raise ProgramError(place, why)
        else:
            raise ProgramError(place, f"a port is `Input`, `Out` or `Lit`, not {type(port).__name__}")


def validate(program: Program) -> None:
    """Refuse a program that could not run. Raises `ProgramError` and `DemoFieldError`."""
    _check_names("models", program.models)
    _check_names("caps", program.caps)
    named: dict[str, str] = {}
    for place, node in walk(program.root):
        if type(node) not in CHECKS:
            raise ProgramError(_place(place), f"a node is wanted, not {type(node).__name__}")
        name = getattr(node, "name", None)
        if name is not None:
            _check_name(name, where := _place(place))
            if name in named:
                raise ProgramError(f"{where}.name", f"`{name}` is the name of {named[name]} too")
            named[name] = where
    scope = _sequence(program.root, "nodes", Scope(program=program, inputs=_by_name(program.sig.inputs), seen={}))
    _check_outputs(program, scope)


def _place(walked: str) -> str:
    return walked.replace("body", "nodes", 1)


def _check_outputs(program: Program, scope: Scope) -> None:
    out, wanted = program.root.out, _by_name(program.sig.outputs)
    for name in chain(wanted, out):
        if name not in out:
            raise ProgramError(f"out.{name}", "missing: the signature promises it, and nothing gives it")
        if name not in wanted:
            raise ProgramError(f"out.{name}", f"the signature has no such output; it has {_listed(wanted)}")
    for name, port in out.items():
        scope.check_port(port, attrs.evolve(wanted[name], declared=True), f"out.{name}")


def check(node: Node, place: str, scope: Scope) -> Given:
    """Check a node of any kind, and say what it gives."""
    return CHECKS[type(node)](node, place, scope)


def _leaf(leaf: Leaf, place: str, scope: Scope) -> Given:
    wanted = _by_name(leaf.sig.inputs)
    for name in chain(wanted, leaf.bindings):
        if name not in leaf.bindings:
            raise ProgramError(f"{place}.inputs.{name}", f"nothing is bound to this input of `{leaf.name}`")
        if name not in wanted:
            raise ProgramError(f"{place}.inputs.{name}", f"`{leaf.name}` has no such input; it has {_listed(wanted)}")
    for name, port in leaf.bindings.items():
        scope.check_port(port, wanted[name], f"{place}.inputs.{name}")
    return {leaf.name: _by_name(leaf.sig.outputs)}


def _predict(node: Predict, place: str, scope: Scope) -> Given:
    models = scope.program.models
    if node.model is None and len(models) > 1:
        raise ProgramError(f"{place}.model", f"missing: one of {_listed(models)}")
    if node.model is not None:
        check_model(node.model, models, f"{place}.model")
    check_rows(node.demos, node.sig, f"{place}.demos")
    return _leaf(node, place, scope)


def _hole(node: Hole, place: str, scope: Scope) -> Given:
    if not re.fullmatch(r"[^\W\d][\w.]*:[^\W\d][\w.]*", node.impl):
        raise ProgramError(f"{place}.impl", f"{node.impl!r} is not written like `module:attribute`")
    for cap in node.caps:
        if cap not in scope.program.caps:
            raise ProgramError(f"{place}.caps", f"`{cap}` is none of the program's caps: {_listed(scope.program.caps)}")
    return _leaf(node, place, scope)


def _sequence(node: Seq, place: str, scope: Scope) -> Scope:
    if not node.body:
        raise ProgramError(place, "there is no node")
    for i, child in enumerate(node.body):
        scope = scope.with_given(check(child, f"{place}[{i}]", scope))
    return scope


def _seq(node: Seq, place: str, scope: Scope) -> Given:
    inside = _sequence(node, f"{place}.body", scope)
    given = {name: inside.source(port, f"{place}.out.{name}") for name, port in node.out.items()}
    return {node.name or "": {name: attrs.evolve(field, name=name) for name, field in given.items()}}


def _fork(node: ForkJoin, place: str, scope: Scope) -> Given:
    if len(node.branches) < 2:
        raise ProgramError(f"{place}.branches", "a fork has two branches or more")
    given: dict[str, Fields] = {}
    for below, branch in node.children():
        given |= check(branch, f"{place}.{below}", scope)
    return {name: fields for name, fields in given.items() if name}


def _route(node: Route, place: str, scope: Scope) -> Given:
    _check_arms(node, place, scope.source(node.on, f"{place}.on"))
    promised: Fields | None = None
    for below, arm in node.children():
        fields = _interface(check(arm, f"{place}.{below}", scope), f"{place}.{below}")
        if promised is not None and _types(fields) != _types(promised):
            why = f"gives {_written(fields)}, the first arm {_written(promised)}; all arms give the same"
            raise ProgramError(f"{place}.{below}", why)
        promised = promised or fields
    return {node.name: promised or {}}


def _check_arms(node: Route, place: str, on: Field) -> None:
    if not node.arms:
        raise ProgramError(f"{place}.arms", "there is no arm")
    if isinstance(on.type, Choices) and all(isinstance(choice, str) for choice in on.type.values):
        for name in node.arms:
            if name not in on.type.values:
                raise ProgramError(f"{place}.arms.{name}", f"`{on.name}` is never that; it is {on.type.describe()}")
        missing = [str(choice) for choice in on.type.values if choice not in node.arms]
        if missing and node.default is None:
            raise ProgramError(f"{place}.arms", f"no arm for {_listed(missing)}, and no `default`")
    elif not isinstance(on.type, Text):
        why = f"`{on.name}` is {on.type.write()}; a route goes by `str` or by a Literal of texts"
        raise ProgramError(f"{place}.on", why)
    elif node.default is None:
        raise ProgramError(f"{place}.default", f"missing: `{on.name}` can be any text")


def _interface(given: Given, place: str) -> Fields:
    """Give the outputs of an arm: those of the one node that it is or holds."""
    if len(given) != 1:
        raise ProgramError(place, "an arm gives the outputs of one node; put several into a `seq` with an `out`")
    return next(iter(given.values()))


def _retry(node: Retry, place: str, scope: Scope) -> Given:
    if node.max_attempts < 1:
        raise ProgramError(f"{place}.max_attempts", f"at least 1, not {node.max_attempts}")
    if node.backoff_ms < 0:
        raise ProgramError(f"{place}.backoff_ms", f"not negative, not {node.backoff_ms}")
    return check(node.child, f"{place}.child", scope)


CHECKS: Mapping[type[Node], Callable[[Any, str, Scope], Given]] = {
    Predict: _predict,
    Hole: _hole,
    Seq: _seq,
    ForkJoin: _fork,
    Route: _route,
    Retry: _retry,
}


def check_rows(rows: Iterable[DemoRow], sig: Signature, place: str) -> None:
    """Refuse demos that have fields which a signature lacks, or that could not be told from a flat row."""
    inputs, outputs = _by_name(sig.inputs), _by_name(sig.outputs)
    for i, row in enumerate(rows):
        for side, values, known in (("input", row.input, inputs), ("output", row.output, outputs)):
            for name in values:
                if name not in known:
                    raise DemoFieldError(f"{place}[{i}]", name, side, tuple(known))
        for name in row.input:
            if name in outputs and name not in row.output:
                raise ProgramError(f"{place}[{i}].output.{name}", "missing: the input of the same name is there")


def check_model(name: str, models: tuple[str, ...], place: str) -> None:
    """Refuse a model that a program does not declare."""
    if name not in models:
        raise ProgramError(place, f"`{name}` is none of the program's models: {_listed(models)}")


def _check_name(name: object, place: str) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", name):
        raise ProgramError(f"{place}.name", f"{name!r} is no name: letters, digits, `_` and `-`, not a digit first")


def _check_names(place: str, names: tuple[str, ...]) -> None:
    for i, name in enumerate(names):
        if not isinstance(name, str) or not name.strip():
            raise ProgramError(f"{place}[{i}]", f"{name!r} is no name")
        if name in names[:i]:
            raise ProgramError(f"{place}[{i}]", f"`{name}` stands there twice")


def _by_name(fields: Iterable[Field]) -> Fields:
    return {field.name: field for field in fields}


def _known(fields: Fields, name: str, place: str, lacks: str, has: str) -> Field:
    if name not in fields:
        raise ProgramError(place, f"{lacks} `{name}`; {has} {_listed(fields)}")
    return fields[name]


def _types(fields: Fields) -> dict[str, str]:
    return {name: field.type.write() for name, field in fields.items()}


def _written(fields: Fields) -> str:
    return ", ".join(f"`{name}: {kind}`" for name, kind in _types(fields).items()) or "nothing"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "nothing"
