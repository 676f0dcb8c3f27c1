"""Overlays of the program IR: values for some slots of one program, as data (scenario 73)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import attrs

import burnish
from burnish.abc import JsonMap
from burnish_programs.ir._program import Program
from burnish_programs.ir._values import ParamValue


def _values(value: Mapping[str, ParamValue]) -> Mapping[str, ParamValue]:
    return MappingProxyType({path: value[path] for path in sorted(value)})


@attrs.frozen(kw_only=True)
class Overlay:
    """Values for some of a program's slots; what it does not set stays as the program has it. Frozen."""

    base: str = ""
    """Hash of the program that it was made for."""
    values: Mapping[str, ParamValue] = attrs.field(factory=dict, converter=_values)
    """What is set, by path."""

    def check(self, program: Program) -> None:
        """Refuse a program that it was not made for, paths that it lacks, values of another kind."""
        raise NotImplementedError

    def set(self, program: Program, path: str, value: ParamValue) -> Overlay:
        """Give the overlay with one more value."""
        raise NotImplementedError

    def get(self, path: str) -> ParamValue | None:
        """Give what is set at a path; None: nothing."""
        return self.values.get(path)

    def resolve(self, program: Program, path: str) -> ParamValue:
        """Give the value in force: what is set, else the slot's default."""
        raise NotImplementedError

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        return not self.values

    def hash(self) -> int:
        """Give the 64-bit content hash, `base` included: that of the candidate that it makes."""
        return self.to_candidate().stable_hash

    def to_named(self) -> JsonMap:
        """Give it as JSON: values by path."""
        raise NotImplementedError

    @classmethod
    def from_named(cls, program: Program, named: JsonMap) -> Overlay:
        """Read `to_named` back for a program, verified anew."""
        raise NotImplementedError

    def to_candidate(self) -> burnish.Candidate:
        """Give it as a candidate with this base, without loss."""
        raise NotImplementedError

    @classmethod
    def from_candidate(cls, program: Program, candidate: burnish.Candidate) -> Overlay:
        """Read a candidate for a program: demos split by signature; what clears an instruction sets nothing."""
        raise NotImplementedError
