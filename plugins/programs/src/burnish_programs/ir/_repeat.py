"""How the nodes run that run others more than once: `Loop` and `Refine`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs

from burnish_programs.ir._nodes import Loop, Out, Refine
from burnish_programs.ir._ports import reader, table

if TYPE_CHECKING:
    from burnish_programs.ir._steps import Loading, Outputs, Run, Step


def loop_step(node: Loop, loading: Loading) -> Step:
    """Make the step of a loop: what it carries stands under its name while it runs, what it gives from then on."""
    name, steps = node.name, [loading.step(child) for child in node.body]
    start = table({key: carry.start for key, carry in node.carry.items()})
    then = table({key: carry.then for key, carry in node.carry.items()})
    again, out = None if node.again is None else reader(node.again), table(node.out)

    async def step(run: Run) -> Outputs:
        carried = start(run)
        for _ in range(node.max_iters):
            run.outputs[name] = carried
            for one in steps:
                await one(run)
            if again is not None and not again(run):
                break
            carried = then(run)
        outputs = run.outputs[name] = out(run)
        return outputs

    return step


def refine_step(node: Refine, loading: Loading) -> Step:
    """Make the step of a refinement: the child reads its feedback from a place of its own, which no name can reach."""
    place, field = f"{node.child.name}^", node.feedback_field
    fed = attrs.evolve(node.child, bindings={**node.child.bindings, field: Out(place, field)})
    first = reader(node.child.bindings[field])
    child, judge = loading.step(fed), loading.step(node.judge)

    async def step(run: Run) -> Outputs:
        feedback = first(run)
        for _ in range(node.max_rounds):
            run.outputs[place] = {field: feedback}
            outputs = await child(run)
            verdict = await judge(run)
            score = verdict.get("score")
            if (-math.inf if score is None else score) >= node.threshold:
                break
            feedback = verdict["feedback"]
        return outputs

    return step
