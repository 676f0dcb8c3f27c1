"""What may be evaluated: targets, what they take of a candidate and of a row, and any callable as one."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, cast

from burnish import abc
from burnish._model.candidate import Candidate, Overlay
from burnish._model.canonical import fingerprint
from burnish._model.example import Example
from burnish._model.parameter import Parameter, PredictState
from burnish._runtime.codeprint import CodePrint, code_print
from burnish._runtime.given import missing, not_ready
from burnish._runtime.invoke import Invoker
from burnish._runtime.log import log
from burnish._runtime.mutation import CandidateUndo, apply_candidate, predictors_of, restore_candidate
from burnish._runtime.scope import Account, current_account, current_injection
from burnish.errors import RowError, UnknownParameterError, UsageError


def as_target(program: Any) -> abc.Target:
    """Give the target of a program: a target itself, an object with `__burnish_target__()`, or any callable.

    A callable gets the row's fields as keyword arguments. Where it offers `predictors()` (name -> `abc.Predictor`), its
    candidates are written through the mutation seam, one at a time.
    """
    reason = not_ready(program, "program")
    if reason is not None:
        raise UsageError(reason)
    if not missing("target", program):
        return cast("abc.Target", program)
    make = getattr(program, "__burnish_target__", None)
    if make is not None:
        target: abc.Target = make()
        return target
    if callable(program):
        return FunctionTarget(program)
    raise UsageError(
        f"{program!r:.80} is no program: pass a burnish_programs.Module, a target, or a callable that takes the row's "
        "input fields by name"
    )


def check_candidate(target: abc.Target, candidate: Candidate) -> None:
    """Refuse a candidate that the program cannot take, before anything is spent.

    Raises `UnknownParameterError` for a name that the program does not have, what `check_overlay` raises, and what the
    target's own `check` raises, where it has one.
    """
    if candidate.is_empty and candidate.base is None:
        return
    parameters = target.parameters()
    for name, overlay in candidate.overlays.items():
        if name not in parameters:
            raise UnknownParameterError(name, tuple(parameters))
        check_overlay(parameters[name], overlay)
    check = getattr(target, "check", None)
    if check is not None:
        check(candidate)


def check_overlay(parameter: Parameter, overlay: Overlay) -> None:
    """Refuse a change that a parameter cannot take.

    Raises `UsageError` for demos on a text, a lost placeholder, and a value that the parameter does not offer.
    """
    name, text = parameter.name, overlay.instruction
    if overlay.demos and not parameter.takes_demos:
        raise UsageError(f"`{name}` is a text and takes no demos; the candidate gives it {len(overlay.demos)}")
    lost = ", ".join(f"`{mark}`" for mark in ([] if text is None else parameter.lost(text)))
    if lost:
        raise UsageError(f"the new text of `{name}` has lost {lost}: rows could not reach the model")
    for kind, value in overlay.values.items():
        choices = parameter.values.get(kind)
        if choices is None or (choices and value not in choices):
            offered = ", ".join(map(repr, choices or parameter.values)) or "nothing"
            raise UsageError(f"`{name}` takes no `{kind}` {value!r:.80}; it offers {offered}")


# --- any callable ----------------------------------------------------------------------------------------------


class FunctionTarget:
    """A callable as a target: `apply` injection where it has predictors, no parameters otherwise.

    Its `metering` is `call`, which holds for what it asks through `burnish.call_model`, predictors of burnish and
    clients of its own inside `burnish.track_call`. Whether it calls an SDK past these cannot be known beforehand, so no
    cap is refused; the first rollout that succeeds under a cap on requests, tokens or money without a call that burnish
    saw is named in the log.
    """

    def __init__(self, function: Any) -> None:
        self.function = function
        self.inputs: Sequence[abc.InputField] | None = signature_inputs(function)
        self.taken = _bound_names(function)
        """Names of inputs that it cannot be given."""
        self._print: CodePrint | None = None
        self._call = Invoker(threads=None).bind(function)  # the engine's slots bound how many run at once
        self._told = False

    metering: abc.Metering = "call"
    injection: abc.Injection = "apply"

    @property
    def code_print(self) -> CodePrint:
        """Identity of the code, and what in it has none."""
        if self._print is None:
            self._print = code_print(self.function)
        return self._print

    @property
    def fingerprint(self) -> str:
        states = {name: _state_json(p.get_state()) for name, p in predictors_of(self.function).items()}
        return fingerprint([self.code_print.fingerprint, states])

    @property
    def opaque(self) -> tuple[Any, ...]:
        """Objects that the code holds and that have no content identity."""
        return self.code_print.opaque

    def parameters(self) -> Mapping[str, Parameter]:
        found = {}
        for name, predictor in predictors_of(self.function).items():
            state = predictor.get_state()
            found[name] = Parameter(name=name, instruction=state.instruction or "", demos=state.demos)
        return found

    async def run(self, inputs: Mapping[str, Any], candidate: Candidate) -> Any:
        injection = current_injection()
        if injection is not None:
            injection.rendered.update(candidate.overlays)
        output = await self._call(**inputs)
        account = current_account()
        if account is not None and not account.calls and not self._told:
            self._tell_unmetered(account)
        return output

    def _tell_unmetered(self, account: Account) -> None:
        """Say once that caps on model calls do not hold for calls that nobody saw."""
        budget = None if account.ledger is None else account.ledger.budget
        caps = [cap for cap in ("max_requests", "max_tokens", "max_cost") if getattr(budget, cap, None) is not None]
        if caps:
            self._told = True
            log.warning(
                "a rollout made no model call that burnish saw, so the cap does not hold for calls that the program "
                "makes by itself: make them through burnish.call_model, put burnish.track_call around them, or cap "
                "max_metric_calls",
                program=getattr(self.function, "__qualname__", type(self.function).__qualname__),
                caps=caps,
            )

    def copy(self) -> FunctionTarget:
        """Give a target over a copy of the program: its own `copy()`, else a deep copy; a plain function is its own.

        Raises `UsageError` where a program with predictors cannot be copied.
        """
        if not predictors_of(self.function):
            return self
        make = getattr(self.function, "copy", None)
        try:
            return FunctionTarget(make() if callable(make) else copy.deepcopy(self.function))
        except Exception as error:
            name = type(self.function).__name__
            raise UsageError(f"{name} cannot be copied ({error}); give it a `copy()` that gives a copy") from error

    def install(self, candidate: Candidate) -> None:
        """Write a candidate into the program for good."""
        apply_candidate(self.function, candidate)

    def apply(self, candidate: Candidate) -> CandidateUndo:
        """Write a candidate into the program."""
        return apply_candidate(self.function, candidate)

    def restore(self, undo: CandidateUndo) -> None:
        """Take it out again."""
        restore_candidate(self.function, undo)


def _state_json(state: PredictState) -> abc.Json:
    return {"instruction": state.instruction, "demos": [d.to_json() for d in state.demos]}


def signature_inputs(function: Any) -> list[abc.InputField] | None:
    """Read the input fields off a callable's parameters; None where it takes anything (`**kwargs`)."""
    try:
        parameters = _signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return [
        abc.InputField(
            name=p.name,
            required=p.default is p.empty,
            annotation=p.annotation if isinstance(p.annotation, type) and p.annotation is not p.empty else None,
        )
        for p in parameters
        if p.kind is not p.VAR_POSITIONAL
    ]


def _bound_names(function: Any) -> tuple[str, ...]:
    """Name the parameter that stands for the object itself, where a method may not be given an input of that name."""
    method = function if inspect.ismethod(function) else type(function).__call__
    function = getattr(method, "__func__", method)
    if not inspect.isfunction(function):
        return ()
    first = [*inspect.signature(function).parameters.values()][:1]
    return tuple(parameter.name for parameter in first if parameter.kind is parameter.POSITIONAL_OR_KEYWORD)


def _signature(function: Any) -> inspect.Signature:
    """Read a signature with its annotations as types; as text where a name in them is not known here."""
    try:
        return inspect.signature(function, eval_str=True)
    except Exception:  # an annotation may be any expression
        return inspect.signature(function)


# --- from a row to a program's input ---------------------------------------------------------------------------


def inputs_of(example: Example, index: int, target: abc.Target) -> dict[str, Any]:
    """Pick the program's inputs out of a row by field name; what the program does not ask for stays the metric's.

    Raises `RowError` naming row and field where a required one is missing or cannot be passed by its name, naming both
    types where one is mistyped (E62).
    """
    given, fields = example.inputs(), target.inputs
    if fields is None:
        for name in getattr(target, "taken", ()):
            if name in given:
                raise RowError(
                    f"row {index}, field `{name}`: the program takes any input, but that name stands for the program "
                    "itself; rename the field, or write the parameter `self, /`",
                    row=index,
                    field=name,
                )
        return dict(given)
    picked: dict[str, Any] = {}
    for field in fields:
        if field.name not in given:
            if field.required:
                have = ", ".join(f"`{name}`" for name in given) or "nothing"
                raise RowError(
                    f"row {index} has no field `{field.name}`, which the program needs; it has {have}",
                    row=index,
                    field=field.name,
                )
            continue
        value = given[field.name]
        if not _fits(value, field.annotation):
            raise RowError(
                f"row {index}, field `{field.name}`: the program takes {field.annotation.__name__}, the row holds "
                f"{type(value).__name__} {value!r:.60}",
                row=index,
                field=field.name,
            )
        picked[field.name] = value
    return picked


def _fits(value: Any, annotation: Any) -> bool:
    if annotation not in (str, int, float, bool, list, dict):
        return True
    if annotation is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if annotation is list:
        return isinstance(value, (list, tuple))
    if annotation is dict:
        return isinstance(value, Mapping)
    return isinstance(value, annotation)
