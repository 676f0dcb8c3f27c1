"""How each node kind runs. A program is turned into steps once, when it is loaded; a run's state is its own.

What a node gives stands in the run's `outputs` under its name. Names are unique in a program and who may read whom was
checked when it was made, so one table a run is enough: branches that run at once write different names.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import attrs
import trio

import burnish
from burnish.errors import ContextLengthError, ModelError, ModelRefusedError, ModelRequestError, ParseError
from burnish_programs import _predict
from burnish_programs.ir._env import Bound
from burnish_programs.ir._faults import HoleError, RouteError
from burnish_programs.ir._leaves import LeafOutcome, hole_step, predict_step
from burnish_programs.ir._meter import BudgetMeter
from burnish_programs.ir._nodes import ForkJoin, Hole, Loop, Node, Predict, Refine, Retry, Route, Seq
from burnish_programs.ir._ports import reader, table
from burnish_programs.ir._repeat import loop_step, refine_step


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


def _seq_step(node: Seq, loading: Loading) -> Step:
    name, steps, out = node.name, [loading.step(child) for child in node.body], table(node.out)

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
    name, on = node.name, reader(node.on)
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
    Predict: predict_step,
    Hole: hole_step,
    Seq: _seq_step,
    ForkJoin: _fork_step,
    Route: _route_step,
    Retry: _retry_step,
    Loop: loop_step,
    Refine: refine_step,
}
"""How each node kind becomes a step."""
