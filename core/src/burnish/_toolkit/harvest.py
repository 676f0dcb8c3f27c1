"""Demos out of traced rollouts: what a program did right becomes an example for it (DSPy; seed 002, harvest rules)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import attrs

from burnish._model.candidate import Demo
from burnish._model.canonical import fingerprint
from burnish._model.example import Example
from burnish._model.outcome import RolloutOutcome, RolloutStatus
from burnish._model.parameter import Parameter
from burnish._model.trace import Span

DEFAULT_MAXIMUM = 1.0
"""Success where neither a threshold nor the metric's maximum is known: scores are 0 to 1 by convention."""

Order = Literal["best", "first"]


def success_bar(threshold: float | None = None, maximum: float | None = None) -> float:
    """Give the score from which on a rollout is a success.

    The threshold, else the metric's maximum, else 1.0. It is never "any score that is not zero".
    """
    if threshold is not None:
        return threshold
    return DEFAULT_MAXIMUM if maximum is None else maximum


@attrs.frozen(kw_only=True)
class _Find:
    component: str
    demo: Demo
    inputs: str
    """Fingerprint of the input fields: one demo each."""
    score: float


def harvest(
    rollouts: Iterable[RolloutOutcome],
    examples: Sequence[Example],
    parameters: Mapping[str, Parameter],
    *,
    min_score: float,
    order: Order = "best",
    limit: int | None = None,
    one_per_rollout: bool = False,
) -> dict[str, tuple[Demo, ...]]:
    """Give the demos that traced rollouts hold, by predictor; a predictor without any is absent.

    Every span with a parsed output is judged by its own eval, where the metric set one, else by its rollout's; it is a
    demo when that score is at least `min_score`. So a good draft in a failed rollout counts, and a bad one in a
    successful rollout does not. A demo's `source` is that of the rollout's row, found in `examples` by
    column; where input and output share a field name, the row holds the output's value and `shadowed` the input's.

    `order="best"` sorts by score, highest first (equals stay in the order of the rollouts); `"first"` keeps the order
    of the rollouts, as DSPy does. Then one demo is kept for equal inputs, and at most `limit` a predictor. With
    `one_per_rollout`, a predictor called several times in one rollout gives its best span, the latest of equals: the
    one that led to the result.

    Nothing comes from rollouts without a trace, from rollouts that did not succeed (whatever their failure score),
    from spans whose texts were cut, and from components that are no parameter of the program or take no demos.
    """
    finds: dict[str, list[_Find]] = {name: [] for name, p in parameters.items() if p.takes_demos}
    for rollout in rollouts:
        found = list(_finds(rollout, examples, finds.keys(), min_score))
        for find in _best_of_each(found) if one_per_rollout else found:
            finds[find.component].append(find)
    kept = {name: _kept(found, order, limit) for name, found in finds.items()}
    return {name: demos for name, demos in kept.items() if demos}


def _finds(
    rollout: RolloutOutcome, examples: Sequence[Example], components: Iterable[str], min_score: float
) -> Iterator[_Find]:
    if rollout.trace is None or rollout.status is not RolloutStatus.SUCCEEDED:
        return
    source = examples[rollout.example].source
    for span in rollout.trace.spans:
        credit = rollout.eval if span.eval is None else span.eval
        if span.component not in components or span.output is None or not span.complete:
            continue
        if credit is not None and credit.score >= min_score:
            inputs = fingerprint(dict(span.inputs))
            yield _Find(component=span.component, demo=_demo(span, source), inputs=inputs, score=credit.score)


def _demo(span: Span, source: str) -> Demo:
    output = span.output or {}
    shadowed = {name: value for name, value in span.inputs.items() if name in output}
    return Demo({**span.inputs, **output}, source=source, shadowed=shadowed)


def _best_of_each(found: Iterable[_Find]) -> Iterator[_Find]:
    best: dict[str, _Find] = {}
    for find in found:
        if find.component not in best or find.score >= best[find.component].score:
            best[find.component] = find
    yield from best.values()


def _kept(found: list[_Find], order: Order, limit: int | None) -> tuple[Demo, ...]:
    ranked = sorted(found, key=lambda find: -find.score) if order == "best" else found
    distinct: dict[str, Demo] = {}
    for find in ranked:
        distinct.setdefault(find.inputs, find.demo)
    return tuple(distinct.values())[:limit]
