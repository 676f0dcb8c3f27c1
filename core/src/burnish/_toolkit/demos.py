"""Sets of demos: which ones stand in a prompt together."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import attrs

from burnish._model.candidate import Candidate, Demo
from burnish._model.canonical import Json, fingerprint, to_json
from burnish._model.example import Example
from burnish._model.parameter import Parameter

if TYPE_CHECKING:
    from random import Random

T = TypeVar("T")

Demos = Mapping[str, tuple[Demo, ...]]
"""Demos by predictor."""


def labeled_demos(columns: Iterable[int], examples: Sequence[Example], parameters: Mapping[str, Parameter]) -> Demos:
    """Give the demos that rows are by themselves, by predictor: rows that have all its input and output fields.

    In the order of `columns`, one for equal inputs (the first). A predictor that declares no fields, or that no row
    fits, is absent; so is one with a field name on both sides, unless rows are pairs `(inputs, outputs)`, which alone
    can say both values.
    """
    wanted = tuple(columns)
    found: dict[str, tuple[Demo, ...]] = {}
    for name, parameter in parameters.items():
        if not parameter.takes_demos or not parameter.inputs or not parameter.outputs:
            continue
        distinct: dict[str, Demo] = {}
        for column in wanted:
            demo = _labeled(examples[column], parameter)
            if demo is not None:
                distinct.setdefault(_inputs_of(demo, parameter), demo)
        if distinct:
            found[name] = tuple(distinct.values())
    return found


def _labeled(example: Example, parameter: Parameter) -> Demo | None:
    inputs, outputs = [f.name for f in parameter.inputs], [f.name for f in parameter.outputs]
    if any(name not in example.data for name in (*inputs, *outputs)):
        return None
    both = [name for name in inputs if name in outputs]
    if both and len(example.sides) < 2:
        return None
    row = {name: example.data[name] for name in dict.fromkeys((*inputs, *outputs))}
    shadowed = {name: to_json(example.value(name), name) for name in both}
    return Demo(row, source=example.source, shadowed=shadowed)


def _inputs_of(demo: Demo, parameter: Parameter) -> str:
    return fingerprint({f.name: demo.input_value(f.name) for f in parameter.inputs})


# --- labels ----------------------------------------------------------------------------------------------------


def label_of(row: Mapping[str, Json], parameter: Parameter) -> str | None:
    """Give the output value that a demo or row is an example of, as a text to group by; None where it has none.

    The label is the value of the outputs that are declared as `Literal` or `bool`, else of the last output: texts that
    repeat are then classes too, and texts that are all distinct make groups of one, which change no order.
    """
    classes = [f.name for f in parameter.outputs if f.type == "bool" or f.type.startswith("Literal[")]
    fields = classes or [f.name for f in parameter.outputs[-1:]]
    if not fields or any(name not in row for name in fields):
        return None
    return fingerprint([row[name] for name in fields])


def row_label(example: Example, parameters: Mapping[str, Parameter]) -> str | None:
    """Give the labels that a row already holds for the program's predictors, as one text; None where it holds none."""
    labels = [label_of(example.data, parameter) for parameter in parameters.values()]
    known: list[Json] = [label for label in labels if label is not None]
    return fingerprint(known) if known else None


def draw(
    items: Sequence[T],
    count: int,
    rng: Random | None = None,
    *,
    label: Callable[[T], str | None] | None = None,
    taken: Iterable[str | None] = (),
) -> tuple[T, ...]:
    """Draw up to `count` distinct items, in random order, or in their own order without `rng`.

    With `label`, every next item is of the label that was drawn least so far (`taken` counts as drawn; the label that
    came first wins ties), until a label has no more: the draw is spread over the labels as evenly as the items allow.
    """
    order = list(items) if rng is None else rng.sample(items, len(items))
    if label is None:
        return tuple(order[: max(0, count)])
    groups: dict[str | None, deque[T]] = {}
    for item in order:
        groups.setdefault(label(item), deque()).append(item)
    counts = Counter(taken)
    heap = [(counts[key], rank, group) for rank, (key, group) in enumerate(groups.items())]
    heapq.heapify(heap)
    drawn: list[T] = []
    while heap and len(drawn) < count:
        so_far, rank, group = heapq.heappop(heap)
        drawn.append(group.popleft())
        if group:
            heapq.heappush(heap, (so_far + 1, rank, group))
    return tuple(drawn)


# --- sets ------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class DemoPool:
    """All demos that sets are drawn from: made by the teacher, and rows with their labels."""

    parameters: Mapping[str, Parameter]
    bootstrapped: Demos = attrs.field(factory=dict)
    labeled: Demos = attrs.field(factory=dict)
    stratify: bool = True
    """Whether draws are spread evenly over the output values."""

    @property
    def most_bootstrapped(self) -> int:
        """How many bootstrapped demos the predictor with most of them has."""
        return max(map(len, self.bootstrapped.values()), default=0)

    @property
    def most_labeled(self) -> int:
        """How many labeled demos the predictor with most of them has."""
        return max(map(len, self.labeled.values()), default=0)

    def draw(self, bootstrapped: int, total: int, rng: Random, *, shuffle: bool = True) -> Demos:
        """Make one set: up to `bootstrapped` demos a predictor, filled with labeled rows up to `total` of both.

        Without `shuffle` the bootstrapped ones are the first of the pool. A row that stands there as the source of a
        bootstrapped demo is not repeated as a labeled one. Predictors without demos are absent.
        """
        drawn: dict[str, tuple[Demo, ...]] = {}
        for name, parameter in self.parameters.items():
            label = partial(label_of, parameter=parameter) if self.stratify else None
            made = draw(self.bootstrapped.get(name, ()), bootstrapped, rng if shuffle else None, label=label)
            sources = {demo.source for demo in made}
            rows = [demo for demo in self.labeled.get(name, ()) if demo.source not in sources]
            taken = [] if label is None else [label(demo) for demo in made]
            demos = made + draw(rows, total - len(made), rng, label=label, taken=taken)
            if demos:
                drawn[name] = demos
        return drawn


def with_demos(start: Candidate, demos: Demos) -> Candidate:
    """Put a set of demos on a candidate; instructions and predictors without demos stay as they are."""
    for name, rows in demos.items():
        start = start.set_demos(name, rows)
    return start
