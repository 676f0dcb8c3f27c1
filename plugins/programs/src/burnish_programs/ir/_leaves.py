"""How the nodes run that do something: `Predict` asks a model, `Hole` calls a function of the host's."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import attrs

import burnish
from burnish.abc import Message, Usage
from burnish.errors import BurnishError, ParseError, UsageError, first_line
from burnish_programs import _predict
from burnish_programs._binding import InForce, binding, names_of
from burnish_programs._leaf import Asked
from burnish_programs._types import MismatchError
from burnish_programs.ir._faults import HoleError
from burnish_programs.ir._nodes import Hole, Predict
from burnish_programs.ir._params import demo_of
from burnish_programs.ir._ports import arguments

if TYPE_CHECKING:
    from burnish_programs.ir._steps import Loading, Outputs, Run, Step


@attrs.frozen(kw_only=True)
class LeafOutcome:
    """What one successful call of a predictor gave (`Interpreter.run_collecting`)."""

    name: str
    outputs: Mapping[str, Any]
    raw_response: str
    usage: Usage
    model: str
    """Fingerprint of the model's identity and the sampling settings."""
    span_id: int | None
    """Of its span in the trace; None where nothing records."""


def predictor_of(node: Predict) -> _predict.Predict:
    """Make the native predictor of a leaf: its prompts, its parser, its spans."""
    return _predict.Predict(
        attrs.evolve(node.sig, instruction=node.default_instruction),
        demos=[demo_of(row) for row in node.demos],
        temperature=node.temperature,
        max_tokens=node.max_tokens,
        name=node.name,
    )


def predict_step(node: Predict, loading: Loading) -> Step:
    """Make the step of a leaf that asks a model."""
    name, models = node.name, loading.bound.models
    leaf = loading.leaves[name] = predictor_of(node)
    inputs_of, default = arguments(node), node.model or next(iter(models), None)

    async def step(run: Run) -> Outputs:
        overlay, hint = run.injection.read(name), run.hints.pop(name, None)
        chosen: Any = default if overlay is None else overlay.values.get("model", default)
        model = burnish.model_for("task") if chosen is None else models[chosen]
        force = InForce(name=name, overlay=overlay, source=run.injection.source)
        more = () if hint is None else (_feedback(hint),)
        try:
            asked = await leaf.ask(inputs_of(run), force, model, more, run.meter)
        except ParseError as error:
            run.unparsed[name] = error
            raise
        run.outputs[name] = asked.outputs
        if run.told is not None:
            run.told.append(_outcome(name, asked, {**burnish.as_model(model).identity, **leaf.settings.sampling}))
        return asked.outputs

    return step


def _outcome(name: str, asked: Asked, identity: Mapping[str, Any]) -> LeafOutcome:
    return LeafOutcome(
        name=name,
        outputs=asked.outputs,
        raw_response=asked.response.text,
        usage=asked.response.usage,
        model=burnish.fingerprint(burnish.to_json(identity)),
        span_id=asked.span_id,
    )


def _feedback(error: ParseError) -> Message:
    text = f"Your last reply could not be parsed: {error}\nReply again, in the form that was asked for."
    return Message("user", text)


def hole_step(node: Hole, loading: Loading) -> Step:
    """Make the step of a leaf that calls a function of the host's."""
    name, call, inputs_of = node.name, _caller(loading.bound.holes[node.name]), arguments(node)

    async def step(run: Run) -> Outputs:
        inputs = inputs_of(run)
        with _of_nobody(), burnish.span(name, inputs) as span:
            try:
                outputs = _given(node, await call(inputs))
            except BurnishError:  # of a model, a budget, a reply: whose fault it is stays as it is
                raise
            except Exception as error:
                raise HoleError(f"the function of `{name}` failed: {first_line(error)}", at=name) from error
            if span is not None:
                span.output(outputs)
        run.outputs[name] = outputs
        return outputs

    return step


def _of_nobody() -> AbstractContextManager[None]:
    """Keep the candidate from predictors that a hole calls: its names mean the program's leaves."""
    return binding(names_of(None, {}, {}))


def _caller(function: Callable[..., Any]) -> Callable[[Mapping[str, Any]], Awaitable[Any]]:
    direct = getattr(function, "__burnish_inline__", False)
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        return lambda inputs: function(**inputs)

    async def call(inputs: Mapping[str, Any]) -> Any:
        result = function(**inputs) if direct else await burnish.in_thread(lambda: function(**inputs))
        return await result if inspect.isawaitable(result) else result

    return call


def _given(node: Hole, value: Any) -> dict[str, Any]:
    """Read what a function gave, by its signature."""
    fields = node.sig.outputs
    if len(fields) == 1 and not (isinstance(value, Mapping) and value.keys() == {fields[0].name}):
        value = {fields[0].name: value}
    if not isinstance(value, Mapping) or value.keys() != {field.name for field in fields}:
        wanted = ", ".join(f"`{field.name}`" for field in fields)
        raise HoleError(f"the function of `{node.name}` gave {value!r:.80}, not a mapping of {wanted}", at=node.name)
    try:
        given = {f.name: f.type.convert(value[f.name]) if f.declared else value[f.name] for f in fields}
    except MismatchError as error:
        raise HoleError(f"the function of `{node.name}` gave another type: {error}", at=node.name) from None
    try:
        burnish.to_json(given, node.name)
    except UsageError as error:  # no trace and no cache can hold it: the function's doing, not the caller's
        raise HoleError(f"the function of `{node.name}` gave what has no JSON form: {error}", at=node.name) from None
    return given
