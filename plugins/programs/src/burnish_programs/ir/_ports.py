"""How values come from one node to another: what reads the ports of a node, made once, when a program is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from burnish_programs.ir._nodes import Input, Leaf, Lit, Port

if TYPE_CHECKING:
    from burnish_programs.ir._steps import Run


def reader(port: Port) -> Callable[[Run], Any]:
    """Give what reads a port."""
    if isinstance(port, Lit):
        value = port.value
        return lambda run: value
    name = port.field
    if isinstance(port, Input):
        return lambda run: run.inputs.get(name)
    source = port.node
    return lambda run: run.outputs[source][name]


def table(ports: Mapping[str, Port]) -> Callable[[Run], dict[str, Any]]:
    """Give what reads several ports, by name."""
    readers = [(name, reader(port)) for name, port in ports.items()]
    return lambda run: {name: read(run) for name, read in readers}


def arguments(node: Leaf) -> Callable[[Run], dict[str, Any]]:
    """Read a leaf's inputs, in the order of its signature; optional ones that nothing is bound to stay out."""
    return table({field.name: node.bindings[field.name] for field in node.sig.inputs if field.name in node.bindings})
