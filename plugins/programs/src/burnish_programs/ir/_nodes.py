"""The nodes of the program IR, and the ports by which data moves between them: plain values that say what runs.

A node kind is a class here, its checks in `_validate`, and how it runs in `_run`; its file form follows from its
fields (`_form`). What a node gives can be read by every later node of its `Seq`, and inside of those, by name:

* a leaf, a `Route` and a `Seq` with a name give their outputs under it;
* `Retry` and `ForkJoin` have no name: what stands in them is read by its own names, as if it stood beside;
* what stands in a `Seq` or in an arm of a `Route` is not seen from outside but through its outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias, TypeVar

import attrs

import burnish
from burnish.abc import Json
from burnish.errors import UsageError
from burnish_programs._signature import Signature
from burnish_programs.ir._values import Code, DemoRow, demo_rows, json_field

T = TypeVar("T")


@attrs.frozen
class Input:
    """An input of the program; written `$.field`."""

    field: str


@attrs.frozen
class Out:
    """An output of an earlier node; written `node.field`."""

    node: str
    field: str


@attrs.frozen
class Lit:
    """A constant; written `{"lit": value}`."""

    value: Json = json_field(converter=burnish.to_json)


Port: TypeAlias = Input | Out | Lit


def signature(value: str | Signature) -> Signature:
    """Take a signature in, as text or as it is. One with an instruction is refused: a leaf holds its own."""
    made = value if isinstance(value, Signature) else Signature.parse(value)
    if made.instruction is not None:
        raise UsageError("the instruction of a leaf is said as `instruction=...`, not in its signature")
    return made


def _frozen(value: Mapping[str, T]) -> Mapping[str, T]:
    return MappingProxyType(dict(value))


def _nodes(value: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(value)


class Node:
    """What a program is made of."""

    __slots__ = ()
    kind: ClassVar[str]
    """What files call it."""

    def children(self) -> Iterator[tuple[str, Node]]:
        """Give the nodes directly inside, each with its place (`branches[1]`), in declared order."""
        return iter(())


@attrs.frozen(kw_only=True)
class Leaf(Node):
    """A node that does something: its name is unique in the program, its component in traces, its slots' prefix."""

    name: str
    sig: Signature = attrs.field(converter=signature)
    bindings: Mapping[str, Port] = attrs.field(factory=dict, converter=_frozen)
    """Where each input of the signature comes from (`inputs` in files)."""


@attrs.frozen(kw_only=True)
class Predict(Leaf):
    """One call of a model with a signature. Its slots: instruction, demos, and model where models are declared."""

    kind: ClassVar[str] = "predict"
    instruction: str | None = None
    """What to do; None: one made of the signature's names."""
    demos: tuple[DemoRow, ...] = attrs.field(default=(), converter=demo_rows)
    model: str | None = None
    """One of the program's models; None: the only one, or the ambient role model where none is declared."""
    temperature: float | None = None
    max_tokens: int | None = None

    @property
    def default_instruction(self) -> str:
        """The instruction where no overlay sets one."""
        return self.sig.default_instruction if self.instruction is None else self.instruction


@attrs.frozen(kw_only=True)
class Hole(Leaf):
    """A call of a host function, bound by the environment when the program is loaded. Its slot: code."""

    kind: ClassVar[str] = "hole"
    impl: str
    """Where the host keeps it, as `module:attribute`; reading a program imports nothing."""
    code: Code = attrs.field(factory=Code)
    caps: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    """What it must be granted, of the program's caps."""


@attrs.frozen(kw_only=True)
class Seq(Node):
    """Nodes one after the other."""

    kind: ClassVar[str] = "seq"
    name: str | None = None
    """The name under which others read `out`; none is needed where nobody does."""
    body: tuple[Node, ...] = attrs.field(converter=_nodes)
    out: Mapping[str, Port] = attrs.field(factory=dict, converter=_frozen)
    """What it gives, and where that comes from."""

    def children(self) -> Iterator[tuple[str, Node]]:
        return ((f"body[{i}]", node) for i, node in enumerate(self.body))


@attrs.frozen(kw_only=True)
class ForkJoin(Node):
    """Nodes side by side; none reads another. The first error cancels the others."""

    kind: ClassVar[str] = "fork"
    branches: tuple[Node, ...] = attrs.field(converter=_nodes)

    def children(self) -> Iterator[tuple[str, Node]]:
        return ((f"branches[{i}]", node) for i, node in enumerate(self.branches))


@attrs.frozen(kw_only=True)
class Route(Node):
    """One of several nodes, by a text. All arms give the same outputs, which stand under the route's name."""

    kind: ClassVar[str] = "route"
    name: str
    on: Port
    """What decides: `str`, or a `Literal` of texts, all of which have an arm where there is no default."""
    arms: Mapping[str, Node] = attrs.field(converter=_frozen)
    default: Node | None = None

    def children(self) -> Iterator[tuple[str, Node]]:
        yield from ((f"arms.{key}", node) for key, node in self.arms.items())
        if self.default is not None:
            yield "default", self.default


@attrs.frozen(kw_only=True)
class Retry(Node):
    """A node, run again where a model, a reply or a hole failed; never where a budget refused."""

    kind: ClassVar[str] = "retry"
    child: Node
    max_attempts: int = 2
    """Runs in all, the first one counted."""
    backoff_ms: int = 0
    """Wait before each further attempt."""
    feedback: bool = True
    """Whether the next attempt is shown what could not be parsed."""

    def children(self) -> Iterator[tuple[str, Node]]:
        yield "child", self.child


def walk(node: Node, place: str = "") -> Iterator[tuple[str, Node]]:
    """Give a node and all below it, each with its place, parents first and in declared order."""
    yield place, node
    for below, child in node.children():
        yield from walk(child, f"{place}.{below}" if place else below)
