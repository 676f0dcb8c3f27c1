"""What holds for every program: checked once, when it is made, with errors that name place and field.

Each leaf's input has one source; sources stand earlier and fit by type; names are unique; arms give the same outputs
and cover what decides; repetition is bounded; capabilities and models are declared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import attrs

from burnish_programs._signature import Field, Signature
from burnish_programs._types import BY_NAME, Choices, Maybe, Text
from burnish_programs.ir._errors import DemoFieldError, ProgramError
from burnish_programs.ir._nodes import (
    ForkJoin,
    Hole,
    Leaf,
    Loop,
    Node,
    Out,
    Port,
    Predict,
    Refine,
    Retry,
    Route,
    Seq,
    walk,
)
from burnish_programs.ir._scope import Fields, Given, Scope, by_name, listed
from burnish_programs.ir._values import DemoRow

if TYPE_CHECKING:
    from burnish_programs.ir._program import Program

DAY = 24 * 60 * 60 * 1000
"""Milliseconds that one wait may take."""


def validate(program: Program) -> None:
    """Refuse a program that could not run. Raises `ProgramError` and `DemoFieldError`."""
    if program.root.name is not None:
        raise ProgramError("nodes", "the root of a program has no name of its own")
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
    scope = _sequence(program.root.body, "nodes", Scope(program=program, inputs=by_name(program.sig.inputs), seen={}))
    _check_outputs(program, scope)


def _place(walked: str) -> str:
    return walked.replace("body", "nodes", 1)


def _check_outputs(program: Program, scope: Scope) -> None:
    out, wanted = program.root.out, by_name(program.sig.outputs)
    for name in chain(wanted, out):
        if name not in out:
            raise ProgramError(f"out.{name}", "missing: the signature promises it, and nothing gives it")
        if name not in wanted:
            raise ProgramError(f"out.{name}", f"the signature has no such output; it has {listed(wanted)}")
    for name, port in out.items():
        scope.check_port(port, attrs.evolve(wanted[name], declared=True), f"out.{name}")


def check(node: Node, place: str, scope: Scope) -> Given:
    """Check a node of any kind, and say what it gives."""
    return CHECKS[type(node)](node, place, scope)


def _leaf(leaf: Leaf, place: str, scope: Scope) -> Given:
    wanted = by_name(leaf.sig.inputs)
    for name in chain(wanted, leaf.bindings):
        if name not in leaf.bindings:
            raise ProgramError(f"{place}.inputs.{name}", f"nothing is bound to this input of `{leaf.name}`")
        if name not in wanted:
            raise ProgramError(f"{place}.inputs.{name}", f"`{leaf.name}` has no such input; it has {listed(wanted)}")
    for name, port in leaf.bindings.items():
        scope.check_port(port, wanted[name], f"{place}.inputs.{name}")
    return {leaf.name: by_name(leaf.sig.outputs)}


def _predict(node: Predict, place: str, scope: Scope) -> Given:
    models = scope.program.models
    if node.model is None and len(models) > 1:
        raise ProgramError(f"{place}.model", f"missing: one of {listed(models)}")
    if node.model is not None:
        check_model(node.model, models, f"{place}.model")
    check_rows(node.demos, node.sig, f"{place}.demos")
    return _leaf(node, place, scope)


def _hole(node: Hole, place: str, scope: Scope) -> Given:
    if not re.fullmatch(r"[^\W\d][\w.]*:[^\W\d][\w.]*", node.impl):
        raise ProgramError(f"{place}.impl", f"{node.impl!r} is not written like `module:attribute`")
    for cap in node.caps:
        if cap not in scope.program.caps:
            raise ProgramError(f"{place}.caps", f"`{cap}` is none of the program's caps: {listed(scope.program.caps)}")
    return _leaf(node, place, scope)


def _sequence(body: Sequence[Node], place: str, scope: Scope) -> Scope:
    if not body:
        raise ProgramError(place, "there is no node")
    for i, child in enumerate(body):
        scope = scope.with_given(check(child, f"{place}[{i}]", scope))
    return scope


def _seq(node: Seq, place: str, scope: Scope) -> Given:
    inside = _sequence(node.body, f"{place}.body", scope)
    return {node.name or "": _fields(node.out, f"{place}.out", inside)}


def _fields(ports: Mapping[str, Port], place: str, scope: Scope) -> Fields:
    """Give the fields that ports read, under their new names."""
    read = {name: scope.source(port, f"{place}.{name}") for name, port in ports.items()}
    return {name: attrs.evolve(field, name=name) for name, field in read.items()}


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
            raise ProgramError(f"{place}.arms", f"no arm for {listed(missing)}, and no `default`")
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
    _at_least_one(node.max_attempts, f"{place}.max_attempts")
    if not 0 <= node.backoff_ms <= DAY:
        raise ProgramError(f"{place}.backoff_ms", f"from 0 to {DAY} (a day)")
    return check(node.child, f"{place}.child", scope)


def _loop(node: Loop, place: str, scope: Scope) -> Given:
    _at_least_one(node.max_iters, f"{place}.max_iters")
    starts = {n: scope.source(carry.start, f"{place}.carry.{n}.start") for n, carry in node.carry.items()}
    carried = {name: attrs.evolve(field, name=name) for name, field in starts.items()}
    inside = _sequence(node.body, f"{place}.body", scope.with_given({node.name: carried}))
    for name, carry in node.carry.items():
        inside.check_port(carry.then, attrs.evolve(carried[name], declared=True), f"{place}.carry.{name}.then")
    if node.again is not None:
        inside.check_port(node.again, Field(name="while", type=BY_NAME["bool"]), f"{place}.while")
    return {node.name: _fields(node.out, f"{place}.out", inside)}


def _refine(node: Refine, place: str, scope: Scope) -> Given:
    _at_least_one(node.max_rounds, f"{place}.max_rounds")
    for below, leaf in node.children():
        if not isinstance(leaf, Leaf):
            raise ProgramError(f"{place}.{below}", f"a leaf is wanted, not a `{leaf.kind}`")
    given = check(node.child, f"{place}.child", scope)
    verdict = check(node.judge, f"{place}.judge", scope.with_given(given))[node.judge.name]
    hint = by_name(node.child.sig.inputs).get(node.feedback_field)
    if hint is None:
        known = listed(by_name(node.child.sig.inputs))
        raise ProgramError(f"{place}.feedback_field", f"`{node.child.name}` has no such input; it has {known}")
    judged = scope.with_given({node.judge.name: verdict})
    for name, wanted in (("score", Field(name="score", type=Maybe(BY_NAME["float"]))), ("feedback", hint)):
        judged.check_port(Out(node.judge.name, name), wanted, f"{place}.judge.signature")
    return given


def _at_least_one(count: int, place: str) -> None:
    if count < 1:
        raise ProgramError(place, f"at least 1, not {count}")


CHECKS: Mapping[type[Node], Callable[[Any, str, Scope], Given]] = {
    Predict: _predict,
    Hole: _hole,
    Seq: _seq,
    ForkJoin: _fork,
    Route: _route,
    Retry: _retry,
    Loop: _loop,
    Refine: _refine,
}


def check_rows(rows: Iterable[DemoRow], sig: Signature, place: str) -> None:
    """Refuse demos that have fields which a signature lacks, or that could not be told from a flat row."""
    inputs, outputs = by_name(sig.inputs), by_name(sig.outputs)
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
        raise ProgramError(place, f"`{name}` is none of the program's models: {listed(models)}")


def _check_name(name: object, place: str) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", name):
        raise ProgramError(f"{place}.name", f"{name!r} is no name: letters, digits, `_` and `-`, not a digit first")


def _check_names(place: str, names: tuple[str, ...]) -> None:
    for i, name in enumerate(names):
        if not isinstance(name, str) or not name.strip():
            raise ProgramError(f"{place}[{i}]", f"{name!r} is no name")
        if name in names[:i]:
            raise ProgramError(f"{place}[{i}]", f"`{name}` stands there twice")


def _types(fields: Fields) -> dict[str, str]:
    return {name: field.type.write() for name, field in fields.items()}


def _written(fields: Fields) -> str:
    return ", ".join(f"`{name}: {kind}`" for name, kind in _types(fields).items()) or "nothing"
