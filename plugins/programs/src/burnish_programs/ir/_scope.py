"""What can be read at a place of a program, and whether it fits there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import attrs

from burnish_programs._signature import Field
from burnish_programs._types import MismatchError
from burnish_programs.ir._errors import ProgramError
from burnish_programs.ir._fit import constant, widens
from burnish_programs.ir._nodes import Input, Lit, Out, Port, walk

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
            raise ProgramError(place, f"`{port.node}` {why}; to be read here: {listed(['$', *self.seen])}")
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


def by_name(fields: Iterable[Field]) -> Fields:
    return {field.name: field for field in fields}


def _known(fields: Fields, name: str, place: str, lacks: str, has: str) -> Field:
    if name not in fields:
        raise ProgramError(place, f"{lacks} `{name}`; {has} {listed(fields)}")
    return fields[name]


def listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "nothing"
