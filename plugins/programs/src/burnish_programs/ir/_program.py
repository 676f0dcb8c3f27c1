"""A program as a value: immutable, with a content hash; its parameters by path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

import burnish
from burnish.abc import Json, JsonMap
from burnish_programs._signature import Signature
from burnish_programs.ir._nodes import Hole, Leaf, Node, Predict, Seq, signature, walk
from burnish_programs.ir._values import Demos, Instruction, ModelRef, ParamSlot, frozen_json

if TYPE_CHECKING:
    from burnish_programs.ir._overlay import Overlay


@attrs.frozen(kw_only=True)
class Program:
    """An LM program as data. Two of equal content have one hash, in every process and after every round trip.

    Whatever makes one checks it: a `Program` that exists is valid.
    """

    format: ClassVar[int] = 1
    name: str = "program"
    sig: Signature = attrs.field(converter=signature)
    """What a run takes and gives."""
    root: Seq
    """Its body is the program's `nodes`; its `out` says where the program's outputs come from."""
    models: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    """Names that a leaf may choose its model by."""
    caps: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    """What its holes must be granted."""
    lineage: Mapping[str, Json] = attrs.field(factory=dict, converter=frozen_json, eq=False)
    """Where it came from (`bake`); not part of its content."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Its nodes, in order."""
        return self.root.body

    @cached_property
    def leaves(self) -> Mapping[str, Leaf]:
        """Its leaves by name, in declared order."""
        return MappingProxyType({node.name: node for _, node in walk(self.root) if isinstance(node, Leaf)})

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """The signatures of its leaves, by name."""
        return MappingProxyType({name: leaf.sig for name, leaf in self.leaves.items()})

    @cached_property
    def slots(self) -> Mapping[str, ParamSlot]:
        """Its parameters by path, in declared order."""
        return MappingProxyType({slot.path: slot for leaf in self.leaves.values() for slot in self._slots(leaf)})

    def _slots(self, leaf: Leaf) -> Iterator[ParamSlot]:
        for value in self._defaults(leaf):
            yield ParamSlot(path=f"{leaf.name}.{value.kind}", owner=leaf.name, default=value)

    def _defaults(self, leaf: Leaf) -> Iterator[Any]:
        if isinstance(leaf, Predict):
            yield Instruction(leaf.default_instruction)
            yield Demos(leaf.demos)
            model = leaf.model if leaf.model is not None else next(iter(self.models), None)
            if model is not None:
                yield ModelRef(model)
        if isinstance(leaf, Hole):
            yield leaf.code

    @cached_property
    def program_hash(self) -> str:
        """Content hash, 16 hex digits: of all but the lineage."""
        form = self.to_json()
        content: JsonMap = {key: form[key] for key in form if key not in ("program_hash", "lineage")}
        return f"{burnish.hash64(content):016x}"

    def to_json(self) -> JsonMap:
        """Give what is hashed and what files hold, hash and lineage included."""
        raise NotImplementedError

    def overlay(self) -> Overlay:
        """Give the empty overlay of this program, to set values on."""
        from burnish_programs.ir._overlay import Overlay

        return Overlay(base=self.program_hash)
