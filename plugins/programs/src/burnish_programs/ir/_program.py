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
from burnish_programs.ir import _form
from burnish_programs.ir._nodes import Hole, Leaf, Node, Predict, Seq, signature, texts, walk
from burnish_programs.ir._validate import validate
from burnish_programs.ir._values import Demos, Instruction, ModelRef, ParamSlot, frozen_json, typed

if TYPE_CHECKING:
    from burnish_programs.ir._overlay import Overlay


@attrs.frozen(kw_only=True)
class Program:
    """An LM program as data. Two of equal content have one hash, in every process and after every round trip.

    Whatever makes one checks it: a `Program` that exists is valid.
    """

    format: ClassVar[int] = 1
    name: str = attrs.field(default="program", validator=typed(str))
    sig: Signature = attrs.field(converter=signature)
    """What a run takes and gives."""
    root: Seq = attrs.field(validator=typed(Seq))
    """Its body is the program's `nodes`; its `out` says where the program's outputs come from."""
    models: tuple[str, ...] = attrs.field(default=(), converter=texts)
    """Names that a leaf may choose its model by."""
    caps: tuple[str, ...] = attrs.field(default=(), converter=texts)
    """What its holes must be granted."""
    lineage: Mapping[str, Json] = attrs.field(factory=dict, converter=frozen_json, eq=False)
    """Where it came from (`bake`); not part of its content."""

    def __attrs_post_init__(self) -> None:
        validate(self)

    def __hash__(self) -> int:
        return hash(self.program_hash)

    def __deepcopy__(self, memo: dict[int, Any]) -> Program:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Program.from_json, (self.to_json(),)

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

    @cached_property
    def param_ids(self) -> Mapping[str, tuple[str, ...]]:
        """The paths of each leaf's parameters, for `Trace.attach_program`."""
        paths: dict[str, list[str]] = {name: [] for name in self.leaves}
        for slot in self.slots.values():
            paths[slot.owner].append(slot.path)
        return MappingProxyType({name: tuple(found) for name, found in paths.items()})

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
        return f"{burnish.hash64(_form.write_content(self)):016x}"

    def to_json(self) -> JsonMap:
        """Give it as JSON, hash and lineage included."""
        return _form.write_program(self)

    @staticmethod
    def from_json(form: JsonMap) -> Program:
        """Read `to_json` back. Raises `ProgramError`, which names the place."""
        return _form.read_program(form)

    def to_toml(self) -> str:
        """Give it as TOML, of the same content."""
        return _form.to_toml(self)

    @staticmethod
    def from_toml(written: str) -> Program:
        """Read `to_toml` back. Raises `ProgramError`, which names the place."""
        return _form.from_toml(written)

    def bake(self, overlay: Overlay, lineage: str | Mapping[str, Json] | None = None) -> Program:
        """Give a new program that has an overlay's values as its defaults; this one stays as it is.

        It renders without an overlay what this one renders with it, and no overlay made for this one fits it, but where
        the overlay is empty: that gives the same content and hash. `lineage` is a note (a text, or names and values);
        `parent` and `overlay` in it are the two hashes, whoever says otherwise. Raises what `Overlay.check` raises.
        """
        from burnish_programs.ir._bake import bake

        return bake(self, overlay, lineage)

    def overlay(self, values: Mapping[str, Json] | None = None) -> Overlay:
        """Give an overlay of this program, empty or with values by path: `{"draft.instruction": "Be short."}`."""
        from burnish_programs.ir._overlay import Overlay

        return Overlay.from_named(self, values or {})
