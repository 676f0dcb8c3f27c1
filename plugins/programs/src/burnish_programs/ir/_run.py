"""`Interpreter`: a loaded program, shared by all its runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import burnish
from burnish import abc
from burnish_programs._prediction import Prediction
from burnish_programs._signature import Field
from burnish_programs._types import Maybe, MismatchError
from burnish_programs.ir._env import Bound, RuntimeEnv
from burnish_programs.ir._faults import InputError
from burnish_programs.ir._leaves import LeafOutcome
from burnish_programs.ir._meter import UNLIMITED, Budget, BudgetMeter
from burnish_programs.ir._overlay import Overlay
from burnish_programs.ir._program import Program
from burnish_programs.ir._steps import Loading, Run


class Interpreter:
    """Run a program with what an environment binds. One interpreter serves any number of runs at once.

        interpreter = Interpreter(program, RuntimeEnv().bind_model("small", model))
        output = await interpreter.run({"question": "..."}, overlay)

    Nothing is written into the program: an overlay is read when prompts are rendered. Raises `LoadError` where the
    environment does not give what the program needs.
    """

    def __init__(self, program: Program, env: RuntimeEnv | None = None) -> None:
        self._env = RuntimeEnv() if env is None else env.copy()
        self._take(program, self._env.load(program))

    def _take(self, program: Program, bound: Bound) -> None:
        loading = Loading(bound=bound)
        self._root = loading.step(program.root)
        self.program, self.bound, self.leaves = program, bound, loading.leaves
        """The program, what the environment gave for it, and the native predictors of its leaves by name."""
        self._fields = {field.name: field for field in program.sig.inputs}
        self._required = [name for name, field in self._fields.items() if not isinstance(field.type, Maybe)]

    def install(self, candidate: burnish.Candidate) -> None:
        """Bake a candidate in: from now on it runs the new program. Runs that are under way end as they began.

        Raises `BaseMismatchError` for a candidate of another program, and what `Overlay.from_candidate` raises.
        """
        baked = self.program.bake(Overlay.from_candidate(self.program, candidate))
        self._take(baked, self._env.load(baked))

    def copy(self) -> Interpreter:
        """Give one of its own with the same program and environment."""
        return Interpreter(self.program, self._env)

    def __repr__(self) -> str:
        return f"<interpreter of {self.program.name} {self.program.program_hash}>"

    async def run(
        self,
        input: Mapping[str, Any],
        overlay: Overlay | None = None,
        budget: Budget | BudgetMeter = UNLIMITED,
    ) -> Prediction:
        """Run the program once; gives its outputs by name.

        Raises `BaseMismatchError` for an overlay of another program and `InputError` for an input that does not fit,
        both before any call; then what a leaf raises (`ParseError`, `ModelError`), `RunBudgetError` where the budget
        refuses a call, `RouteError`, `HoleError`. Cancelled, it ends the calls in flight. A `BudgetMeter` as the budget
        is the one of a run that this is a part of.
        """
        return await self._under(self._injection(overlay), input, budget, None)

    async def run_collecting(
        self,
        input: Mapping[str, Any],
        overlay: Overlay | None = None,
        budget: Budget | BudgetMeter = UNLIMITED,
    ) -> tuple[Prediction, list[LeafOutcome]]:
        """Run the program once, and tell what each successful call of a predictor gave, in order of execution.

        Calls of branches that ran at once stand in the order in which the branches are declared. Raises as `run` does.
        """
        told: list[LeafOutcome] = []
        return await self._under(self._injection(overlay), input, budget, told), told

    def _injection(self, overlay: Overlay | None) -> burnish.Injection:
        if overlay is None:
            return burnish.Injection(burnish.Candidate())
        overlay.check(self.program)
        candidate = overlay.to_candidate()
        self.bound.check(candidate)
        return burnish.Injection(candidate)

    async def _under(
        self,
        injection: burnish.Injection,
        input: Mapping[str, Any],
        budget: Budget | BudgetMeter,
        told: list[LeafOutcome] | None,
    ) -> Prediction:
        """Run under a candidate of its own, whatever candidate is in force outside."""
        with burnish.injected(injection):
            return await self.run_under(injection, input, budget, told)

    async def run_under(
        self,
        injection: burnish.Injection,
        input: Mapping[str, Any],
        budget: Budget | BudgetMeter,
        told: list[LeafOutcome] | None = None,
    ) -> Prediction:
        """Run under the candidate that is in force: what a rollout does."""
        self._check_input(input)
        meter = budget if isinstance(budget, BudgetMeter) else BudgetMeter(budget)
        return Prediction(await self._root(Run(inputs=input, injection=injection, meter=meter, told=told)))

    def _check_input(self, input: Mapping[str, Any]) -> None:
        for name in self._required:
            if name not in input:
                raise InputError(f"the input lacks `{name}`; the program takes `{self.program.sig}`", field=name)
        for name, value in input.items():
            field = self._fields.get(name)
            if field is None:
                raise InputError(f"the program has no input `{name}`; it takes `{self.program.sig}`", field=name)
            if field.declared:
                _check_value(field, value)

    @property
    def inputs(self) -> tuple[abc.InputField, ...]:
        """The program's inputs, as the engine asks rows for them."""
        return tuple(
            abc.InputField(
                name=field.name,
                required=not isinstance(field.type, Maybe),
                annotation=field.type.plain if field.declared else None,
            )
            for field in self._fields.values()
        )

    def target(self, *, budget: Budget = UNLIMITED) -> abc.Target:
        """Give it as a program that can be tuned, each rollout under a budget of its own."""
        from burnish_programs.ir._target import InterpreterTarget

        return InterpreterTarget(self, budget)

    def __burnish_target__(self) -> abc.Target:
        """Give it as a `burnish.abc.Target`."""
        return self.target()


def _check_value(field: Field, value: Any) -> None:
    try:
        field.type.convert(value)
    except MismatchError as error:
        raise InputError(f"the input `{field.name}` does not fit: {error}", field=field.name) from None
