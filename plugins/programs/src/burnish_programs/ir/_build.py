"""Write a program in Python without wiring it by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, cast

import attrs

from burnish_programs._signature import Signature
from burnish_programs.ir._nodes import (
    KINDS,
    ForkJoin,
    Hole,
    Input,
    Leaf,
    Lit,
    Loop,
    Node,
    Out,
    Port,
    Predict,
    Refine,
    Retry,
    Route,
    Seq,
    signature,
    walk,
)
from burnish_programs.ir._program import Program

Wires: TypeAlias = Mapping[str, Port]
"""Where a field of each name comes from, at one place of a program."""


def program(
    sig: str | Signature,
    *nodes: Node,
    out: Mapping[str, str | Port] | None = None,
    name: str = "program",
    models: Iterable[str] | None = None,
    caps: Iterable[str] | None = None,
) -> Program:
    """Make a program of nodes that run one after the other.

        qa = ir.program(
            "question -> answer",
            ir.Hole.of(search, "question -> context: list[str]"),
            ir.Predict("draft", "question, context -> draft"),
            ir.Retry(ir.Predict("refine", "question, draft -> answer"), max_attempts=3),
        )

    An input that a node leaves unbound takes the latest earlier output of its name, else the program's input of that
    name; so do the program's outputs without `out`. The program that is made says all of it. Models and capabilities
    are those that nodes name, unless said. Raises `ProgramError`, which names the place.
    """
    made = signature(sig)
    found = [node for _, node in walk(Seq(nodes))]  # and none too deep for what follows
    body, given = _sequence(nodes, {field.name: Input(field.name) for field in made.inputs})
    if out is None:
        out = {field.name: given[field.name] for field in made.outputs if field.name in given}
    root = Seq(body, out)
    if models is None:
        models = _named(node.model for node in found if isinstance(node, Predict))
    if caps is None:
        caps = _named(cap for node in found if isinstance(node, Hole) for cap in node.caps)
    return Program(name=name, sig=made, root=root, models=models, caps=caps)


def _named(found: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in found if name is not None))


def _wire(node: Node, wires: Wires) -> tuple[Node, Wires]:
    """Bind what a node leaves unbound; gives it, and the fields that can be read of it."""
    if type(node) not in KINDS.values():  # it is no node, as `validate` says with its place
        return node, {}
    return WIRE[type(node)](node, wires)


def _leaf(leaf: Leaf, wires: Wires) -> tuple[Node, Wires]:
    found = {field.name: wires[field.name] for field in leaf.sig.inputs if field.name in wires}
    given = {field.name: Out(leaf.name, field.name) for field in leaf.sig.outputs}
    return attrs.evolve(leaf, bindings={**found, **leaf.bindings}), given


def _sequence(nodes: Iterable[Node], wires: Wires) -> tuple[list[Node], Wires]:
    body = []
    for node in nodes:
        wired, given = _wire(node, wires)
        body.append(wired)
        wires = {**wires, **given}
    return body, wires


def _seq(node: Seq, wires: Wires) -> tuple[Node, Wires]:
    body, _ = _sequence(node.body, wires)
    given = {} if node.name is None else {field: Out(node.name, field) for field in node.out}
    return attrs.evolve(node, body=body), given


def _fork(node: ForkJoin, wires: Wires) -> tuple[Node, Wires]:
    wired = [_wire(branch, wires) for branch in node.branches]
    given = {field: port for _, fields in wired for field, port in fields.items()}
    return attrs.evolve(node, branches=[branch for branch, _ in wired]), given


def _route(node: Route, wires: Wires) -> tuple[Node, Wires]:
    arms = {key: _wire(arm, wires) for key, arm in node.arms.items()}
    default = None if node.default is None else _wire(node.default, wires)[0]
    fields = [field for _, given in arms.values() for field in given]
    wired = attrs.evolve(node, arms={key: arm for key, (arm, _) in arms.items()}, default=default)
    return wired, {field: Out(node.name, field) for field in fields}


def _retry(node: Retry, wires: Wires) -> tuple[Node, Wires]:
    child, given = _wire(node.child, wires)
    return attrs.evolve(node, child=child), given


def _loop(node: Loop, wires: Wires) -> tuple[Node, Wires]:
    carried = {field: Out(node.name, field) for field in node.carry}
    body, _ = _sequence(node.body, {**wires, **carried})
    return attrs.evolve(node, body=body), {field: Out(node.name, field) for field in node.out}


def _refine(node: Refine, wires: Wires) -> tuple[Node, Wires]:
    unsaid = {node.feedback_field: Lit("")}
    child, given = _wire(attrs.evolve(node.child, bindings={**unsaid, **node.child.bindings}), wires)
    judge, _ = _wire(node.judge, {**wires, **given})
    return attrs.evolve(cast("Any", node), child=child, judge=judge), given


WIRE: Mapping[type[Node], Callable[[Any, Wires], tuple[Node, Wires]]] = {
    Predict: _leaf,
    Hole: _leaf,
    Seq: _seq,
    ForkJoin: _fork,
    Route: _route,
    Retry: _retry,
    Loop: _loop,
    Refine: _refine,
}
