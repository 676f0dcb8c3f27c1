"""Program files as targets: the file is read at once, what it names is imported when the program is first used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import attrs

import burnish
from burnish import abc
from burnish.abc import Json, LMRequest, LMResponse
from burnish.errors import ConfigError, UsageError
from burnish_programs import ir
from burnish_programs.ir._nodes import Leaf


@attrs.frozen
class RoleModel:
    """The model that a run has for a role, whichever that is when it is asked.

    It has no content of its own: the run's models are part of its results' identity as they are.
    """

    role: str

    @property
    def identity(self) -> Mapping[str, Json]:
        return {"role": self.role}

    @property
    def limits(self) -> abc.ModelLimits:
        try:
            return burnish.as_model(burnish.model_for(self.role)).limits
        except UsageError:  # outside a run, where it is looked at and not asked
            return abc.ModelLimits(key=f"role:{self.role}")

    async def complete(self, request: LMRequest) -> LMResponse:
        return await burnish.as_model(burnish.model_for(self.role)).complete(request)


class ProgramFileTarget:
    """A program file as a `burnish.abc.Target`.

    Making it and asking for its parameters imports nothing. `copy`, `run`, `check` and the fingerprint load the
    program: the functions of its holes are imported by their `module:attribute` and have to be marked with
    `burnish.exposed`, its models are the run's by role. Raises `ProgramError` for a file that holds no program, and
    `ConfigError` for a capability that was not granted.
    """

    metering: abc.Metering = ir.InterpreterTarget.metering
    injection: abc.Injection = ir.InterpreterTarget.injection

    def __init__(self, path: Path, grant: Iterable[str] = ()) -> None:
        self.program = ir.load(path)
        self._grant = tuple(grant)
        missing = [cap for cap in self.program.caps if cap not in self._grant]
        if missing:
            listed = ", ".join(f'"{cap}"' for cap in missing)
            raise ConfigError(f"{path}: the program asks for {listed}; where that is meant, write `grant = [{listed}]`")
        seen = _seen(self.program)
        self.inputs, self._parameters = seen.inputs, seen.parameters()

    def __repr__(self) -> str:
        return f"<target of {self.program.name} {self.program.program_hash}>"

    @property
    def roles(self) -> tuple[str, ...]:
        """The models that the program names are the run's by role; its leaves ask the task's where it names none."""
        return self.program.models or (("task",) if self._parameters else ())

    def parameters(self) -> Mapping[str, burnish.Parameter]:
        """Give the leaves that call a model, by name."""
        return self._parameters

    @cached_property
    def loaded(self) -> ir.InterpreterTarget:
        """The target of the loaded program. Raises `LoadError` and `ConfigError` naming what cannot be imported."""
        return _bound(self.program, ir.RuntimeEnv(imports=True).grant(*self._grant))

    @property
    def fingerprint(self) -> str:
        return self.loaded.fingerprint

    @property
    def opaque(self) -> tuple[Any, ...]:
        """Objects that its holes hold and that have no content identity."""
        return self.loaded.opaque

    def check(self, candidate: burnish.Candidate) -> None:
        """Refuse a candidate that the program cannot take."""
        self.loaded.check(candidate)

    async def run(self, inputs: Mapping[str, Any], candidate: burnish.Candidate) -> Any:
        """Run the program once; see `InterpreterTarget.run`."""
        return await self.loaded.run(inputs, candidate)

    def load_prediction(self, value: Any) -> Any:
        """Make a prediction of a stored output."""
        return self.loaded.load_prediction(value)

    def copy(self) -> ir.InterpreterTarget:
        """Give a loaded one: what a run tunes."""
        return self.loaded.copy()


def _bound(program: ir.Program, env: ir.RuntimeEnv) -> ir.InterpreterTarget:
    for name in program.models:
        env.bind_model(name, RoleModel(name))
    return ir.InterpreterTarget(ir.Interpreter(program, env))


def _seen(program: ir.Program) -> ir.InterpreterTarget:
    """Load a program with holes that do nothing, to see what it takes and what can be tuned."""
    env = ir.RuntimeEnv().grant(*program.caps)

    def emptied(leaf: Leaf) -> Leaf:
        if not isinstance(leaf, ir.Hole):
            return leaf
        env.bind_hole(leaf.name, _nothing)
        return attrs.evolve(leaf, code=ir.Code())  # a hash that is asked for would not be that of nothing

    return _bound(attrs.evolve(program, root=program.root.with_leaves(emptied)), env)


def _nothing(**_: Any) -> Any:
    raise AssertionError("a program is not run with holes that do nothing")
