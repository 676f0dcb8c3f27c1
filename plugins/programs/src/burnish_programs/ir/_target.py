"""Programs as data as targets: what the engine and strategies see of an interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

import burnish
from burnish import abc
from burnish.abc import Json
from burnish.errors import UsageError
from burnish_programs._prediction import Prediction
from burnish_programs._render import RENDERING
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
        self.program = interpreter
        """The interpreter itself: `install` bakes a candidate into its program."""
        self._budget = budget

    def __repr__(self) -> str:
        return f"<target of {self.program!r}>"

    @property
    def inputs(self) -> Sequence[abc.InputField]:
        """What a row must give."""
        return self.program.inputs

    @property
    def roles(self) -> tuple[str, ...]:
        """Leaves ask the task's model where the program names none of its own; those that it names were bound."""
        return ("task",) if self.program.leaves and not self.program.program.models else ()

    @property
    def tags(self) -> Mapping[str, str]:
        """What each rollout's trace says: the program's hash (E51)."""
        return {"program": self.program.program.program_hash}

    def parameters(self) -> Mapping[str, burnish.Parameter]:
        """Give the leaves that call a model, by name; what a hole runs is the host's."""
        models: tuple[Json, ...] = self.program.program.models
        values = {"model": models} if models else {}
        return {name: attrs.evolve(leaf.parameter(name), values=values) for name, leaf in self.program.leaves.items()}

    @property
    def fingerprint(self) -> str:
        """128-bit fingerprint of the program's content, what was bound, the runs' caps and the rendering.

        The deadline is left out: a time of this process's clock, which says nothing of another run.
        """
        program, caps = self.program.program.program_hash, attrs.evolve(self._budget, deadline=None)
        return burnish.fingerprint([RENDERING, program, self.program.bound.identity, burnish.to_json(caps)])

    @property
    def opaque(self) -> tuple[Any, ...]:
        """Objects that holes and models hold and that have no content identity."""
        return self.program.bound.opaque

    def check(self, candidate: burnish.Candidate) -> None:
        """Refuse a candidate that the program cannot take. Raises `BaseMismatchError` for one of another program."""
        Overlay.from_candidate(self.program.program, candidate)
        self.program.bound.check(candidate)

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
        """Bake a candidate into the interpreter's program. Raises as `check` does, and changes nothing then."""
        self.program.install(candidate)

    def copy(self) -> InterpreterTarget:
        """Give a target over an interpreter of its own."""
        return type(self)(self.program.copy(), self._budget)
