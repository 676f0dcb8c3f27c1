"""The nodes of the program IR, and the ports by which data moves between them: plain values that say what runs.

A node kind is a class here, its checks in `_validate`, how inputs are bound by name in `_build`, and how it runs in
`_steps` (leaves in `_leaves`, what repeats in `_repeat`); its file form follows from its fields (`_form`). What a node
gives can be read by every later node of its `Seq`, and inside of those, by name:

* a leaf, a `Route`, a `Loop` and a `Seq` with a name give their outputs under it;
* `Retry`, `Refine` and `ForkJoin` have no name: what they run is read by its own names, as if it stood beside;
* what stands in a `Seq`, a `Loop` or an arm of a `Route` is not seen from outside but through its outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias, TypeVar, cast

import attrs

import burnish
from burnish.abc import Json
from burnish.errors import UsageError
from burnish_programs._signature import Signature
from burnish_programs.ir._errors import ProgramError
from burnish_programs.ir._values import NONE, Code, DemoRow, demo_rows, json_field, typed

N = TypeVar("N", bound="Node")
DEEPEST = 50
"""Levels of nodes inside nodes: what reads, checks, writes and runs them is recursive."""
SignatureDef: TypeAlias = Signature
"""What a leaf takes and gives: the native signature, instruction aside."""


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


def texts(value: Iterable[str]) -> tuple[str, ...]:
    """Take names in; a text alone is none of them by accident."""
    if isinstance(value, str):
        raise UsageError(f"a list of names is wanted, not the text {value!r:.60}")
    return tuple(value)


def port(written: str | Port) -> Port:
    """Read `$.field` or `node.field`; a port stays as it is. A constant text is `Lit("...")`."""
    if not isinstance(written, str):
        return written
    node, dot, field = written.partition(".")
    if not (node and dot and field):
        raise UsageError(
            f'{written!r} is no port: `$.field` is an input, `node.field` an output, {{"lit": value}} a constant'
        )
    return Input(field) if node == "$" else Out(node, field)


def _ports(value: Mapping[str, str | Port]) -> Mapping[str, Port]:
    return MappingProxyType({name: port(written) for name, written in value.items()})


def _nodes(value: Iterable[Node]) -> tuple[Node, ...]:
    return tuple(value)


def _number(value: Any) -> Any:
    try:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
    except OverflowError:
        raise UsageError("a number is larger than a float can be") from None


def _arms(value: Mapping[str, Node]) -> Mapping[str, Node]:
    return MappingProxyType(dict(value))


def _numbered(field: str, nodes: Iterable[Node]) -> Iterator[tuple[str, Node]]:
    return ((f"{field}[{i}]", node) for i, node in enumerate(nodes))


class Node:
    """What a program is made of."""

    __slots__ = ()
    kind: ClassVar[str]
    """What files call it."""

    def children(self) -> Iterator[tuple[str, Node]]:
        """Give the nodes directly inside, each with its place (`branches[1]`), in declared order."""
        return iter(())

    def with_leaves(self: N, change: Callable[[Leaf], Leaf]) -> N:
        """Give the container with every leaf inside of it changed."""
        fields = [field.name for field in attrs.fields(cast("Any", type(self)))]
        node: N = attrs.evolve(cast("Any", self), **{n: _changed(getattr(self, n), change) for n in fields})
        return node


@attrs.frozen
class Leaf(Node):
    """A node that does something: its name is unique in the program, its component in traces, its slots' prefix."""

    name: str
    sig: Signature = attrs.field(converter=signature)
    bindings: Mapping[str, Port] = attrs.field(factory=dict, converter=_ports)
    """Where each input of the signature comes from (`inputs` in files)."""


@attrs.frozen(kw_only=True)
class Predict(Leaf):
    """One call of a model with a signature. Its slots: instruction, demos, and model where models are declared."""

    kind: ClassVar[str] = "predict"
    instruction: str | None = attrs.field(default=None, validator=typed(str, NONE))
    """What to do; None: one made of the signature's names."""
    demos: tuple[DemoRow, ...] = attrs.field(default=(), converter=demo_rows)
    model: str | None = attrs.field(default=None, validator=typed(str, NONE))
    """One of the program's models; None: the only one, or the ambient role model where none is declared."""
    temperature: float | None = attrs.field(default=None, converter=_number, validator=typed(float, NONE))
    max_tokens: int | None = attrs.field(default=None, validator=typed(int, NONE))

    @property
    def default_instruction(self) -> str:
        """The instruction where no overlay sets one."""
        return self.sig.default_instruction if self.instruction is None else self.instruction


@attrs.frozen(kw_only=True)
class Hole(Leaf):
    """A call of a host function, bound by the environment when the program is loaded. Its slot: code."""

    kind: ClassVar[str] = "hole"
    impl: str = attrs.field(validator=typed(str))
    """Where the host keeps it, as `module:attribute`; reading a program imports nothing."""
    code: Code = attrs.field(factory=Code, validator=typed(Code))
    caps: tuple[str, ...] = attrs.field(default=(), converter=texts)
    """What it must be granted, of the program's caps."""

    @classmethod
    def of(cls, function: Callable[..., Any], sig: str | Signature, **options: Any) -> Hole:
        """Give the hole of a function, under its name and bound to its code as it is now; options as in `Hole`."""
        impl = f"{function.__module__}:{function.__qualname__}"
        code = Code(hash=burnish.code_print(function).fingerprint)
        return cls(**{"name": function.__name__, "sig": sig, "impl": impl, "code": code, **options})


@attrs.frozen
class Seq(Node):
    """Nodes one after the other."""

    kind: ClassVar[str] = "seq"
    body: tuple[Node, ...] = attrs.field(converter=_nodes)
    out: Mapping[str, Port] = attrs.field(factory=dict, converter=_ports)
    """What it gives, and where that comes from."""
    name: str | None = attrs.field(default=None, kw_only=True)
    """The name under which others read `out`; none is needed where nobody does."""

    def children(self) -> Iterator[tuple[str, Node]]:
        return _numbered("body", self.body)


@attrs.frozen
class ForkJoin(Node):
    """Nodes side by side; none reads another. The first error cancels the others."""

    kind: ClassVar[str] = "fork"
    branches: tuple[Node, ...] = attrs.field(converter=_nodes)

    def children(self) -> Iterator[tuple[str, Node]]:
        return _numbered("branches", self.branches)


@attrs.frozen
class Route(Node):
    """One of several nodes, by a text. All arms give the same outputs, which stand under the route's name."""

    kind: ClassVar[str] = "route"
    name: str
    on: Port = attrs.field(converter=port, kw_only=True)
    """What decides: `str`, or a `Literal` of texts, all of which have an arm where there is no default."""
    arms: Mapping[str, Node] = attrs.field(converter=_arms, kw_only=True)
    default: Node | None = attrs.field(default=None, kw_only=True)

    def children(self) -> Iterator[tuple[str, Node]]:
        yield from ((f"arms.{key}", node) for key, node in self.arms.items())
        if self.default is not None:
            yield "default", self.default


@attrs.frozen
class Retry(Node):
    """A node, run again where a model, a reply or a hole failed; never where a budget refused."""

    kind: ClassVar[str] = "retry"
    child: Node
    max_attempts: int = attrs.field(default=2, kw_only=True, validator=typed(int))
    """Runs in all, the first one counted."""
    backoff_ms: int = attrs.field(default=0, kw_only=True, validator=typed(int))
    """Wait before each further attempt."""
    feedback: bool = attrs.field(default=True, kw_only=True, validator=typed(bool))
    """Whether the next attempt is shown what could not be parsed."""

    def children(self) -> Iterator[tuple[str, Node]]:
        yield "child", self.child


def _changed(value: Any, change: Callable[[Leaf], Leaf]) -> Any:
    if isinstance(value, Leaf):
        return change(value)
    if isinstance(value, Node):
        return value.with_leaves(change)
    if isinstance(value, tuple):
        return tuple(_changed(item, change) for item in value)
    if isinstance(value, Mapping):
        return {key: _changed(item, change) for key, item in value.items()}
    return value


@attrs.frozen
class Carry:
    """What a loop carries from one iteration to the next."""

    start: Port = attrs.field(converter=port)
    """The value of the first iteration, read where the loop stands."""
    then: Port = attrs.field(converter=port)
    """The value of each further one, read at the end of the one before."""


def _carries(value: Mapping[str, Any]) -> Mapping[str, Carry]:
    return MappingProxyType({n: item if isinstance(item, Carry) else Carry(*item) for n, item in value.items()})


@attrs.frozen
class Loop(Node):
    """Nodes one after the other, again and again. Inside, its own name reads what it carries; later, what it gives."""

    kind: ClassVar[str] = "loop"
    name: str
    body: tuple[Node, ...] = attrs.field(converter=_nodes)
    carry: Mapping[str, Carry] = attrs.field(factory=dict, converter=_carries, kw_only=True)
    """By name; in Python a pair will do: `{"text": ("$.text", "improve.text")}`."""
    again: Port | None = attrs.field(default=None, converter=attrs.converters.optional(port), kw_only=True)
    """`while` in files: a `bool`, read after each iteration; None: all iterations run."""
    max_iters: int = attrs.field(kw_only=True, validator=typed(int))
    out: Mapping[str, Port] = attrs.field(factory=dict, converter=_ports, kw_only=True)
    """What it gives, as its last iteration sees it."""

    def children(self) -> Iterator[tuple[str, Node]]:
        return _numbered("body", self.body)


@attrs.frozen
class Refine(Node):
    """A leaf, run again with a judge's feedback until the score is high enough; gives the leaf's last outputs."""

    kind: ClassVar[str] = "refine"
    child: Leaf
    judge: Leaf
    """It reads the child by name, and gives `score: float` and `feedback`."""
    feedback_field: str = attrs.field(kw_only=True, validator=typed(str))
    """The input of the child that is the judge's feedback, from the second round on."""
    threshold: float = attrs.field(kw_only=True, converter=_number, validator=typed(float))
    """The score that ends it."""
    max_rounds: int = attrs.field(default=3, kw_only=True, validator=typed(int))

    def children(self) -> Iterator[tuple[str, Node]]:
        yield "child", self.child
        yield "judge", self.judge


def walk(node: Node, place: str = "", level: int = 0) -> Iterator[tuple[str, Node]]:
    """Give a node and all below it, each with its place, parents first and in declared order.

    Raises `ProgramError` for what stands deeper than `DEEPEST`.
    """
    if level > DEEPEST:
        raise ProgramError(place.replace("body", "nodes", 1), f"nested more than {DEEPEST} levels deep")
    yield place, node
    for below, child in node.children() if isinstance(node, Node) else ():
        yield from walk(child, f"{place}.{below}" if place else below, level + 1)


KINDS: Mapping[str, type[Node]] = {
    kind.kind: kind for kind in (Predict, Hole, Seq, ForkJoin, Route, Retry, Loop, Refine)
}
"""Every node kind by its name. A further one is a class here and an entry in each of `CHECKS`, `WIRE` and `STEPS`."""
