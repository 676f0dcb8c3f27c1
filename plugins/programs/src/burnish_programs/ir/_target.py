"""Programs as data as targets: what the engine and strategies see of an interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import attrs

import burnish
from burnish import abc
from burnish.abc import Json
from burnish.errors import UsageError
from burnish_programs._prediction import Prediction
from burnish_programs._render import RENDERING
from burnish_programs.ir._errors import BaseMismatchError
from burnish_programs.ir._meter import UNLIMITED, Budget
from burnish_programs.ir._overlay import Overlay
from burnish_programs.ir._run import Interpreter


class InterpreterTarget:
    """An interpreter as a `burnish.abc.Target`: candidates are read when prompts are rendered and run side by side.

    A rollout that passes `budget`, the cap on each run, failed: that is the program's doing. The search's own budget is
    `burnish.Budget`.
    """

    metering: abc.Metering = "call"
    injection: abc.Injection = "ambient"

    def __init__(self, interpreter: Interpreter, budget: Budget = UNLIMITED) -> None:
        self._budget = budget
        self._take(interpreter)

    def _take(self, interpreter: Interpreter) -> None:
        self.program = interpreter
        """The interpreter: `install` puts one of the baked program in its place."""
        self.inputs: Sequence[abc.InputField] = interpreter.inputs
        self.tags: Mapping[str, str] = {"program": interpreter.program.program_hash}
        self._parameters = {name: self._parameter(name) for name in interpreter.leaves}
        self.__dict__.pop("_identity", None)

    def __repr__(self) -> str:
        return f"<target of {self.program!r}>"

    def _parameter(self, name: str) -> burnish.Parameter:
        models: tuple[Json, ...] = self.program.program.models
        values = {"model": models} if models else {}
        return attrs.evolve(self.program.leaves[name].parameter(name), values=values)

    def parameters(self) -> Mapping[str, burnish.Parameter]:
        """Give the leaves that call a model, by name; what a hole runs is the host's."""
        return self._parameters

    @property
    def fingerprint(self) -> str:
        """128-bit fingerprint of the program's content, what was bound, the runs' budget and the rendering."""
        return self._identity[0]

    @property
    def opaque(self) -> tuple[Any, ...]:
        """Objects that holes and models hold and that have no content identity."""
        return self._identity[1]

    @cached_property
    def _identity(self) -> tuple[str, tuple[Any, ...]]:
        program, bound = self.program.program, self.program.bound
        prints = list(bound.prints.values())
        models: list[Json] = []
        for name, model in bound.models.items():
            if isinstance(model, abc.Model):
                models.append([name, dict(model.identity)])
            else:
                prints.append(burnish.code_print(model))
                models.append([name, prints[-1].fingerprint])
        holes: list[Json] = [[name, printed.fingerprint] for name, printed in bound.prints.items()]
        budget = burnish.to_json(self._budget)
        form: Json = [RENDERING, program.program_hash, holes, models, budget]
        return burnish.fingerprint(form), tuple(thing for printed in prints for thing in printed.opaque)

    def check(self, candidate: burnish.Candidate) -> None:
        """Refuse a candidate that the program cannot take. Raises `BaseMismatchError` for one of another program."""
        self._check_base(candidate)
        Overlay.from_candidate(self.program.program, candidate)
        self.program.bound.check(candidate)

    def _check_base(self, candidate: burnish.Candidate) -> None:
        here = self.program.program.program_hash
        if candidate.base is not None and candidate.base != here:
            raise BaseMismatchError(here, candidate.base)

    async def run(self, inputs: Mapping[str, Any], candidate: burnish.Candidate) -> Prediction:
        """Run the program once, inside a rollout's scope.

        Raises what a run raises; `UsageError` where `candidate` is not the one in force.
        """
        injection = burnish.current_injection()
        if injection is None:
            injection = burnish.Injection(burnish.Candidate())
        if injection.candidate is not candidate and injection.candidate != candidate:
            raise UsageError(
                "the candidate to run is not the one in force, so that the program would render another one: run it "
                "through an engine, which opens the rollout's scope"
            )
        return await self.program.run_under(injection, inputs, self._budget)

    def load_prediction(self, value: Any) -> Any:
        """Make a prediction of a stored output."""
        return Prediction(value) if isinstance(value, Mapping) and not isinstance(value, Prediction) else value

    def install(self, candidate: burnish.Candidate) -> None:
        """Bake a candidate in: `program` is then an interpreter of the new program, in the same environment."""
        self._check_base(candidate)
        interpreter = self.program
        baked = interpreter.program.bake(Overlay.from_candidate(interpreter.program, candidate))
        self._take(Interpreter(baked, interpreter.env))

    def copy(self) -> InterpreterTarget:
        """Give a target of its own; the interpreter is shared, for nothing is ever written into it."""
        return type(self)(self.program, self._budget)
