"""How each node kind runs. A program is turned into steps once, when it is loaded; a run's state is its own.

What a node gives stands in the run's `outputs` under its name. Names are unique in a program and who may read whom was
checked when it was made, so one table a run is enough: branches that run at once write different names.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeAlias, TypeVar

import attrs
import trio

import burnish
from burnish.abc import Message, Usage
from burnish.errors import (
    BurnishError,
    ContextLengthError,
    ModelError,
    ModelRefusedError,
    ModelRequestError,
    ParseError,
    first_line,
)
from burnish_programs import _predict
from burnish_programs._binding import InForce, binding, names_of
from burnish_programs._leaf import Asked
from burnish_programs._types import MismatchError
from burnish_programs.ir._env import Bound
from burnish_programs.ir._faults import HoleError, RouteError
from burnish_programs.ir._meter import BudgetMeter
from burnish_programs.ir._nodes import (
    ForkJoin,
    Hole,
    Input,
    Leaf,
    Lit,
    Loop,
    Node,
    Port,
    Predict,
    Refine,
    Retry,
    Route,
    Seq,
)
from burnish_programs.ir._params import demo_of
from burnish_programs.ir._repeat import loop_step, refine_step

T = TypeVar("T")


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


@attrs.frozen(kw_only=True, eq=False)
class Run:
    """The state of one run."""

    inputs: Mapping[str, Any]
    injection: burnish.Injection
    """The candidate that it runs under."""
    meter: BudgetMeter
    outputs: dict[str, Mapping[str, Any]] = attrs.field(factory=dict)
    """By node, as far as it has come."""
    unparsed: dict[str, ParseError] = attrs.field(factory=dict)
    """The last reply of each leaf that could not be parsed."""
    hints: dict[str, ParseError] = attrs.field(factory=dict)
    """What the next call of a leaf is to be shown."""
    told: list[LeafOutcome] | None = None
    """Where outcomes are collected; None: nowhere."""


Outputs: TypeAlias = Mapping[str, Any]
Step: TypeAlias = Callable[[Run], Awaitable[Outputs]]


@attrs.frozen(kw_only=True, eq=False)
class Loading:
    """What steps are made with, and the predictors that were made on the way."""

    bound: Bound
    leaves: dict[str, _predict.Predict] = attrs.field(factory=dict)

    def step(self, node: Node) -> Step:
        """Make the step of a node, and of all below it."""
        return STEPS[type(node)](node, self)

    def reader(self, port: Port) -> Callable[[Run], Any]:
        """Give what reads a port."""
        return _reader(port)

    def table(self, ports: Mapping[str, Port]) -> Callable[[Run], dict[str, Any]]:
        """Give what reads several ports, by name."""
        return _table(ports)


# --- leaves --------------------------------------------------------------------------------------------------------


def predictor_of(node: Predict) -> _predict.Predict:
    """Make the native predictor of a leaf: its prompts, its parser, its spans."""
    return _predict.Predict(
        attrs.evolve(node.sig, instruction=node.default_instruction),
        demos=[demo_of(row) for row in node.demos],
        temperature=node.temperature,
        max_tokens=node.max_tokens,
        name=node.name,
    )


def _predict_step(node: Predict, loading: Loading) -> Step:
    name, models = node.name, loading.bound.models
    leaf = loading.leaves[name] = predictor_of(node)
    arguments, default = _arguments(node), node.model or next(iter(models), None)

    async def step(run: Run) -> Outputs:
        overlay, hint = run.injection.read(name), run.hints.pop(name, None)
        chosen: Any = default if overlay is None else overlay.values.get("model", default)
        model = burnish.model_for("task") if chosen is None else models[chosen]
        force = InForce(name=name, overlay=overlay, source=run.injection.source)
        more = () if hint is None else (_feedback(hint),)
        try:
            asked = await leaf.ask(arguments(run), force, model, more, run.meter)
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


def _hole_step(node: Hole, loading: Loading) -> Step:
    name, call, arguments = node.name, _caller(loading.bound.holes[node.name]), _arguments(node)

    async def step(run: Run) -> Outputs:
        inputs = arguments(run)
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
    burnish.to_json(given, node.name)
    return given


# --- ports ---------------------------------------------------------------------------------------------------------


def _reader(port: Port) -> Callable[[Run], Any]:
    if isinstance(port, Lit):
        value = port.value
        return lambda run: value
    name = port.field
    if isinstance(port, Input):
        return lambda run: run.inputs.get(name)
    source = port.node
    return lambda run: run.outputs[source][name]


def _table(ports: Mapping[str, Port]) -> Callable[[Run], dict[str, Any]]:
    readers = [(name, _reader(port)) for name, port in ports.items()]
    return lambda run: {name: read(run) for name, read in readers}


def _arguments(node: Leaf) -> Callable[[Run], dict[str, Any]]:
    """Read a leaf's inputs, in the order of its signature; optional ones that nothing is bound to stay out."""
    return _table({field.name: node.bindings[field.name] for field in node.sig.inputs if field.name in node.bindings})


# --- containers ----------------------------------------------------------------------------------------------------


def _seq_step(node: Seq, loading: Loading) -> Step:
    name, steps, out = node.name, [loading.step(child) for child in node.body], _table(node.out)

    async def step(run: Run) -> Outputs:
        for one in steps:
            await one(run)
        outputs = out(run)
        if name is not None:
            run.outputs[name] = outputs
        return outputs

    return step


def _fork_step(node: ForkJoin, loading: Loading) -> Step:
    steps = [loading.step(branch) for branch in node.branches]

    async def step(run: Run) -> Outputs:
        runs = [run if run.told is None else attrs.evolve(run, told=[]) for _ in steps]
        try:
            await _together(list(zip(steps, runs, strict=True)))
        finally:
            if run.told is not None:
                run.told.extend(outcome for branch in runs for outcome in branch.told or ())
        return {}

    return step


async def _together(branches: list[tuple[Step, Run]]) -> None:
    """Run branches at once; the first error cancels the others, and is raised as it is."""
    failed: list[Exception] = []

    async def one(step: Step, run: Run) -> None:
        try:
            await step(run)
        except Exception as error:
            failed.append(error)
            nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        for branch in branches:
            nursery.start_soon(one, *branch)
    if failed:
        raise failed[0]


def _route_step(node: Route, loading: Loading) -> Step:
    name, on = node.name, _reader(node.on)
    arms = {value: loading.step(arm) for value, arm in node.arms.items()}
    default = None if node.default is None else loading.step(node.default)

    async def step(run: Run) -> Outputs:
        value = on(run)
        arm = arms.get(value, default) if isinstance(value, str) else default
        if arm is None:
            known = ", ".join(f"`{key}`" for key in arms)
            raise RouteError(f"`{name}` has no arm for {value!r:.80} and no default; its arms are {known}", at=name)
        outputs = run.outputs[name] = await arm(run)
        return outputs

    return step


def _retry_step(node: Retry, loading: Loading) -> Step:
    child, most, wait, feedback = loading.step(node.child), node.max_attempts, node.backoff_ms / 1000, node.feedback

    async def step(run: Run) -> Outputs:
        attempt = 1
        while True:
            try:
                return await child(run)
            except Exception as error:
                if attempt >= most or not _may_pass(error):
                    raise
                if feedback:
                    run.hints.update({name: seen for name, seen in run.unparsed.items() if seen is error})
            attempt += 1
            await trio.sleep(wait)

    return step


_NEVER = (ContextLengthError, ModelRefusedError, ModelRequestError)


def _may_pass(error: Exception) -> bool:
    """Whether another attempt may fare better: after a reply that cannot be parsed, a model's error, a hole's."""
    if isinstance(error, ModelError):
        return not error.fatal and not isinstance(error, _NEVER)
    return isinstance(error, (ParseError, HoleError))


STEPS: dict[type[Node], Callable[[Any, Loading], Step]] = {
    Predict: _predict_step,
    Hole: _hole_step,
    Seq: _seq_step,
    ForkJoin: _fork_step,
    Route: _route_step,
    Retry: _retry_step,
    Loop: loop_step,
    Refine: refine_step,
}
"""How each node kind becomes a step."""
