"""What a host gives to a program: models by name, functions for its holes, capabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

import burnish
from burnish import abc
from burnish.abc import Json
from burnish_programs.ir._faults import LoadError
from burnish_programs.ir._nodes import Hole
from burnish_programs.ir._program import Program


@attrs.frozen(kw_only=True, eq=False)
class Bound:
    """What one program got when it was loaded."""

    models: Mapping[str, Any]
    """By the names that the program declares."""
    holes: Mapping[str, Callable[..., Any]]
    """By the names of the holes."""
    prints: Mapping[str, burnish.CodePrint]
    """The identity of each hole's code, as it was then."""
    model_prints: Mapping[str, burnish.CodePrint]
    """The same of models that are plain callables."""

    @property
    def identity(self) -> Json:
        """What of it decides results, as JSON."""
        models: dict[str, Json] = {
            name: self.model_prints[name].fingerprint if name in self.model_prints else dict(model.identity)
            for name, model in self.models.items()
        }
        return [models, {name: printed.fingerprint for name, printed in self.prints.items()}]

    @property
    def opaque(self) -> tuple[Any, ...]:
        """Objects in it that have no content identity."""
        return tuple(thing for p in (*self.model_prints.values(), *self.prints.values()) for thing in p.opaque)

    def check(self, candidate: burnish.Candidate) -> None:
        """Refuse a candidate that asks for other code than what was bound. Raises `LoadError`."""
        for name, overlay in candidate.overlays.items():
            code = overlay.values.get("code")
            if isinstance(code, dict):
                _same_code(name, str(code.get("hash", "")), self.prints[name].fingerprint)


class RuntimeEnv:
    """Binds what programs name. Each method gives the environment itself, so that calls can be chained.

        env = RuntimeEnv().bind_model("small", model).bind_hole("search", search).grant("net")
        interpreter = Interpreter(program, env)

    A program that was loaded keeps what was bound then. With `imports`, a hole that is not bound is imported by the
    `module:attribute` that the program names, and has to be marked with `burnish.exposed`: reading a program never
    imports anything, loading it with this does.
    """

    def __init__(self, *, imports: bool = False) -> None:
        self._imports = imports
        self._models: dict[str, Any] = {}
        self._holes: dict[str, Callable[..., Any]] = {}
        self._grants: set[str] = set()

    def bind_model(self, name: str, lm: Any) -> RuntimeEnv:
        """Say which model (`abc.Model` or callable) a name means. Raises `NotAModelError` for what is none."""
        burnish.as_model(lm)
        self._models[name] = lm
        return self

    def bind_hole(self, name: str, function: Callable[..., Any]) -> RuntimeEnv:
        """Say which function a hole runs, by the hole's own name or by the `module:attribute` it is declared with.

        It gets the inputs by name and gives the outputs as a mapping, or the value of a single output. A sync function
        runs in a worker thread unless it is marked with `burnish.inline`.
        """
        if not callable(function):
            raise LoadError(f"the hole `{name}` runs a function; {function!r:.80} cannot be called", missing=(name,))
        self._holes[name] = function
        return self

    def grant(self, *caps: str) -> RuntimeEnv:
        """Grant capabilities that holes may need."""
        self._grants.update(caps)
        return self

    def copy(self) -> RuntimeEnv:
        """Give one of its own, with what is bound and granted by now."""
        made = RuntimeEnv(imports=self._imports)
        made._models, made._holes, made._grants = dict(self._models), dict(self._holes), set(self._grants)
        return made

    def load(self, program: Program) -> Bound:
        """Find all that a program needs: capabilities, then models, then holes; nothing is left for later.

        Raises `LoadError` that names everything that is missing of the first of these.
        """
        need = list(dict.fromkeys(cap for cap in program.caps if cap not in self._grants))
        _refuse(need, "was not granted", "env.grant(...)")
        _refuse([name for name in program.models if name not in self._models], "has no model", "env.bind_model(...)")
        declared = {name: leaf for name, leaf in program.leaves.items() if isinstance(leaf, Hole)}
        found = {name: self._find(name, hole) for name, hole in declared.items()}
        _refuse([name for name, function in found.items() if function is None], "has no function", "env.bind_hole(...)")
        holes = {name: function for name, function in found.items() if function is not None}
        prints = {name: burnish.code_print(function) for name, function in holes.items()}
        for name, hole in declared.items():
            _same_code(name, hole.code.hash, prints[name].fingerprint)
        models = {name: self._models[name] for name in program.models}
        callables = {name: model for name, model in models.items() if not isinstance(model, abc.Model)}
        model_prints = {name: burnish.code_print(model) for name, model in callables.items()}
        return Bound(models=models, holes=holes, prints=prints, model_prints=model_prints)

    def _find(self, name: str, hole: Hole) -> Callable[..., Any] | None:
        function = self._holes.get(name, self._holes.get(hole.impl))
        if function is not None or not self._imports:
            return function
        function = burnish.load_attribute(hole.impl)
        if not callable(function) or not getattr(function, "__burnish_exposed__", False):
            raise LoadError(
                f"the hole `{name}` names `{hole.impl}`, which is no function marked with `@burnish.exposed`: mark it, "
                "or bind it with `env.bind_hole(...)`",
                missing=(name,),
            )
        return function  # type: ignore[no-any-return]


def _refuse(missing: Iterable[str], why: str, way: str) -> None:
    names = tuple(missing)
    if names:
        listed = ", ".join(f"`{name}`" for name in names)
        raise LoadError(f"the program names {listed}, which {why}; {way} does that", missing=names)


def _same_code(name: str, wanted: str, bound: str) -> None:
    if wanted and wanted != bound:
        raise LoadError(
            f"the function of the hole `{name}` is {bound}, and {wanted} is asked for: bind that one, or ask for none",
            missing=(name,),
        )
