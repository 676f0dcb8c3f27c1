"""Overlays of the program IR: values for some slots of one program, as data (scenario 73)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

import attrs

import burnish
from burnish.abc import Json, JsonMap
from burnish.errors import UsageError
from burnish_programs.ir._errors import BaseMismatchError, KindMismatchError, UnknownPathError
from burnish_programs.ir._params import PARAMS
from burnish_programs.ir._program import Program
from burnish_programs.ir._values import ParamSlot, ParamValue


def _values(value: Mapping[str, ParamValue]) -> Mapping[str, ParamValue]:
    return MappingProxyType({path: value[path] for path in sorted(value)})


@attrs.frozen(kw_only=True)
class Overlay:
    """Values for some of a program's slots; what it does not set stays as the program has it. Frozen.

    Begin with `program.overlay()`; `set` gives a new one. One that was put together by hand is checked when it is used.
    """

    base: str = ""
    """Hash of the program that it was made for."""
    values: Mapping[str, ParamValue] = attrs.field(factory=dict, converter=_values)
    """What is set, by path."""

    def check(self, program: Program) -> None:
        """Refuse a program that it was not made for, paths that it lacks, values that its slots do not take.

        Raises `BaseMismatchError`, `UnknownPathError`, `KindMismatchError`, `DemoFieldError`, `ProgramError`.
        """
        self._check_base(program)
        for path, value in self.values.items():
            _check_value(program, path, value)

    def _check_base(self, program: Program) -> None:
        if self.base != program.program_hash:
            raise BaseMismatchError(program.program_hash, self.base)

    def set(self, program: Program, path: str, value: ParamValue) -> Overlay:
        """Give the overlay with one more value; refuses what `check` refuses."""
        self._check_base(program)
        _check_value(program, path, value)
        return attrs.evolve(self, values={**self.values, path: value})

    def get(self, path: str) -> ParamValue | None:
        """Give what is set at a path; None: nothing."""
        return self.values.get(path)

    def resolve(self, program: Program, path: str) -> ParamValue:
        """Give the value in force: what is set, else the slot's default."""
        self._check_base(program)
        return self.values.get(path, _slot(program, path).default)

    def entries(self, program: Program) -> tuple[tuple[ParamSlot, ParamValue], ...]:
        """Give what is set, slot by slot, in the program's order."""
        self.check(program)
        return tuple((slot, self.values[path]) for path, slot in program.slots.items() if path in self.values)

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        return not self.values

    @cached_property
    def _candidate(self) -> burnish.Candidate:
        candidate = burnish.Candidate(base=self.base)
        for path, value in self.values.items():
            candidate = PARAMS[value.kind].put(candidate, path.rpartition(".")[0], value)
        return candidate

    def hash(self) -> int:
        """Give the 64-bit content hash, `base` included: that of the candidate that it makes."""
        return self._candidate.stable_hash

    def __hash__(self) -> int:
        return self.hash()

    def to_named(self) -> JsonMap:
        """Give the values as JSON by path, without the base."""
        return {path: PARAMS[value.kind].write(value) for path, value in self.values.items()}

    @classmethod
    def from_named(cls, program: Program, named: Mapping[str, Json]) -> Overlay:
        """Read `to_named` back for a program, each value verified anew."""
        overlay = cls(base=program.program_hash)
        for path, form in named.items():
            value = PARAMS[_slot(program, path).kind].read(form, path)
            overlay = overlay.set(program, path, value)
        return overlay

    def to_candidate(self) -> burnish.Candidate:
        """Give it as a candidate with this base, without loss."""
        return self._candidate

    @classmethod
    def from_candidate(cls, program: Program, candidate: burnish.Candidate) -> Overlay:
        """Read a candidate for a program: `to_candidate` back, or one that a strategy made.

        Flat demos are split by signature. An instruction that is cleared is the program's own, so nothing is set;
        demos that are removed are set to none. Raises what `check` raises.
        """
        if candidate.base not in (None, program.program_hash):
            raise BaseMismatchError(program.program_hash, str(candidate.base))
        overlay = program.overlay()
        for name, changes in candidate.overlays.items():
            if name not in program.leaves:
                raise UnknownPathError(name, tuple(program.leaves))
            for kind, form in _changes(changes).items():
                path = f"{name}.{kind}"
                value = PARAMS[_slot(program, path).kind].take(form, program.leaves[name], path)
                overlay = overlay.set(program, path, value)
        return overlay


def _changes(overlay: burnish.Overlay) -> Mapping[str, Any]:
    """Give what a core overlay sets, by kind."""
    own = {"instruction": overlay.instruction, "demos": overlay.demos}
    for kind in own.keys() & overlay.values.keys():
        raise UsageError(f"an overlay sets `{kind}` by its own name, not among its `values`")
    return {**{kind: form for kind, form in own.items() if form is not None}, **overlay.values}


def _slot(program: Program, path: str) -> ParamSlot:
    if path not in program.slots:
        raise UnknownPathError(path, tuple(program.slots))
    return program.slots[path]


def _check_value(program: Program, path: str, value: ParamValue) -> None:
    slot = _slot(program, path)
    got = getattr(value, "kind", type(value).__name__)
    if got != slot.kind:
        raise KindMismatchError(path, slot.kind, got)
    PARAMS[slot.kind].check(value, program.leaves[slot.owner], program.models, path)
