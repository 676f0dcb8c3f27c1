"""Programs as targets: what the engine, strategies and executors see of a `Module`, `Predict` or prompt file."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import structlog

import burnish
from burnish import abc
from burnish.errors import UsageError
from burnish_programs._binding import binding, names_of
from burnish_programs._identity import PredictorPrints, print_code
from burnish_programs._leaf import Leaf
from burnish_programs._module import Module, attributes, found_predictors, holds_predictors, modules_in
from burnish_programs._prediction import Prediction

log = structlog.get_logger("burnish")


class ModuleTarget:
    """A program as a `burnish.abc.Target`: candidates are read when prompts are rendered, so they run side by side.

    The program's code is looked at once; its predictors and their state, whenever the fingerprint is asked for.
    """

    metering: abc.Metering = "call"
    injection: abc.Injection = "ambient"

    def __init__(self, program: Module | Leaf) -> None:
        self.program = program
        """The program itself: `install` writes into it."""
        self._inputs = None if isinstance(program, Leaf) else _forward_inputs(program.forward)
        self.taken = () if isinstance(program, Leaf) else _bound_names(program.forward)
        """Names of inputs that `forward` cannot be given."""
        self._look_at(dict(program.predictors()))

    def _look_at(self, predictors: dict[str, Leaf]) -> None:
        self.predictors: Mapping[str, Leaf] = predictors
        self._names = names_of(self.program, predictors, modules_in(self.program))
        self._code: burnish.CodePrint | None = None
        self._prints = PredictorPrints(predictors)
        if isinstance(self.program, Module):
            _warn_of_undeclared(self.program, predictors)

    def _look_again(self) -> None:
        """Take up predictors that were exchanged in the program since."""
        found = dict(self.program.predictors())
        if list(found) != list(self.predictors) or any(self.predictors[name] is not found[name] for name in found):
            self._look_at(found)

    @property
    def inputs(self) -> Sequence[abc.InputField] | None:
        """What a row must give; None where `forward` takes anything."""
        return self.program.input_fields if isinstance(self.program, Leaf) else self._inputs

    def __repr__(self) -> str:
        return f"<target of {self._names.program}: {', '.join(self.predictors) or 'no predictors'}>"

    @property
    def code_print(self) -> burnish.CodePrint:
        """Identity of the program's code, and what in it has none."""
        if self._code is None:
            self._code = print_code(self.program, self.predictors)
        return self._code

    @property
    def fingerprint(self) -> str:
        """128-bit fingerprint of code, signatures, pinned models, settings and the current state of the predictors."""
        self._look_again()
        return self._prints.print(self.code_print)

    @property
    def opaque(self) -> tuple[Any, ...]:
        """Objects that the program holds and that have no content identity."""
        return self.code_print.opaque + self._prints.opaque

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles of the models that its predictors ask; none where its code sets models itself."""
        if any(_sets_models(type(module)) for module in modules_in(self.program).values()):
            return ()
        return tuple(dict.fromkeys(leaf.settings.role for leaf in self.predictors.values() if leaf.model is None))

    def parameters(self) -> dict[str, burnish.Parameter]:
        """Give the predictors as they stand, by name."""
        return {name: leaf.parameter(name) for name, leaf in self.predictors.items()}

    async def run(self, inputs: Mapping[str, Any], candidate: burnish.Candidate) -> Any:
        """Run the program once, inside a rollout's scope; a mapping that it returns becomes a `Prediction`.

        Sync programs run in a worker thread. Raises what the program raises, `UsageError` where `candidate` is not the
        one in force.
        """
        injection = burnish.current_injection()
        in_force = burnish.Candidate() if injection is None else injection.candidate
        if in_force is not candidate and in_force != candidate:
            raise UsageError(
                "the candidate to run is not the one in force, so that the program would render another one: run it "
                "through an engine, which opens the rollout's scope"
            )
        with binding(self._names, tuned=True):
            result = await self.program(**inputs)
        return self.load_prediction(result)

    def load_prediction(self, value: Any) -> Any:
        """Make a prediction of a stored (or fresh) output: a mapping becomes a `Prediction`, anything else stays."""
        return Prediction(value) if isinstance(value, Mapping) and not isinstance(value, Prediction) else value

    @contextmanager
    def bound(self) -> Iterator[None]:
        """Have calls outside of a rollout's scope raise `ContextLostError` inside the block: a run of it is on."""
        token, predictors = object(), self.predictors
        for name, leaf in predictors.items():
            leaf.enter_run(token, name)
        try:
            yield
        finally:
            for leaf in predictors.values():
                leaf.leave_run(token)

    def install(self, candidate: burnish.Candidate) -> None:
        """Write a candidate into the program: all of it, or nothing where it raises as `burnish.apply_candidate`."""
        burnish.apply_candidate(self.program, candidate)

    def copy(self) -> ModuleTarget:
        """Give a target over a structural copy of the program."""
        return type(self)(self.program.copy())


def _sets_models(kind: type) -> bool:
    """Whether a method of a module's class names `models`: it may open `with models(...)` around its predictors."""
    methods = [value for one in kind.__mro__ if one is not Module for value in vars(one).values()]
    return any("models" in getattr(getattr(method, "__code__", None), "co_names", ()) for method in methods)


def _forward_inputs(forward: Any) -> Sequence[abc.InputField] | None:
    for p in inspect.signature(forward).parameters.values():
        if p.kind is p.POSITIONAL_ONLY:
            raise UsageError(f"`forward` gets its inputs by name, but `{p.name}` is positional only")
    return burnish.signature_inputs(forward)


def _bound_names(forward: Any) -> tuple[str, ...]:
    first = [*inspect.signature(getattr(forward, "__func__", forward)).parameters.values()][: inspect.ismethod(forward)]
    return tuple(parameter.name for parameter in first if parameter.kind is parameter.POSITIONAL_OR_KEYWORD)


def _warn_of_undeclared(program: Module, predictors: Mapping[str, Leaf]) -> None:
    """Name predictors that the program has and that nobody will tune."""
    known = {id(leaf) for leaf in predictors.values()}
    for name, leaf in found_predictors(program, declared=False).items():
        if id(leaf) not in known:
            log.warning("a predictor is not declared by `predictors()`, so it is not tuned", predictor=name)
    for module in modules_in(program).values():
        for name, value in attributes(module):
            for inner in _hidden(value, known):
                log.warning(
                    "a predictor has no name, so it is not tuned: hold it in an attribute of a Module, or in a list or "
                    "mapping there",
                    inside=f"{type(module).__name__}.{name}{inner}",
                )


def _hidden(value: Any, known: set[int]) -> Iterator[str]:
    """Find predictors in sets and in plain objects, where they have no name."""
    if holds_predictors(value):
        return
    if isinstance(value, (set, frozenset)):
        inside = [("{...}", item) for item in value]
    else:
        inside = [(f".{name}", item) for name, item in getattr(value, "__dict__", {}).items()]
    for name, item in inside:
        if holds_predictors(item) and id(item) not in known:
            yield name
