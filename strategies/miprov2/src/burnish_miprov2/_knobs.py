"""The knobs of MIPROv2, and the sizes that they come to."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import ceil
from random import Random
from typing import Any, Literal

import attrs

from burnish import Candidate, toolkit
from burnish.abc import Problem
from burnish.errors import UsageError
from burnish_miprov2._proposer import ATTEMPTS, MOST_BATCHES

AUTO = {"light": (6, 100), "medium": (12, 300), "heavy": (18, 1000)}
"""Candidates, and validation rows at most."""
MOST_VAL = 1000
VAL_SHARE = 0.8
"""Share of the train rows that is kept for scoring where there are no validation rows (DSPy's)."""
LEAST_BATCH = 20
"""Rows under which `auto` makes no minibatch: fewer say too little."""


def _at_least(least: int, *, optional: bool = False) -> Callable[[Any, Any, Any], None]:
    def check(owner: Any, attribute: Any, value: Any) -> None:
        if value is None and optional:
            return
        if type(value) is not int or value < least:
            raise UsageError(
                f"{type(owner).__name__}: {attribute.name} is {value!r}; it takes a whole number of at least {least}"
            )

    return check


def _number(owner: Any, attribute: Any, value: Any) -> None:
    fine = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if value is not None and not fine:
        raise UsageError(f"{type(owner).__name__}: {attribute.name} is {value!r}; it takes a finite number, or none")


@attrs.frozen(kw_only=True)
class Sizes:
    """What a search of some knobs over some program comes to."""

    sets: int
    """Demo sets of a predictor, that of the start among them; 1: demos are left alone."""
    instructions: int
    """Instructions of a parameter, its own among them."""
    trials: int
    most_val: int

    def batch(self, knobs: Knobs, rows: int) -> int:
        """Give the rows of one trial, of so many validation rows."""
        if not knobs.minibatch:
            return rows
        if knobs.auto is None:
            return min(rows, knobs.minibatch_size)
        return min(knobs.minibatch_size, max(rows // 2, min(rows, LEAST_BATCH)))


@attrs.frozen(kw_only=True)
class Knobs:
    """What can be set. Names, defaults and meaning are DSPy's, where it has them."""

    auto: Literal["light", "medium", "heavy"] | None = "light"
    """How thorough: 6, 12 or 18 candidates, at most 100, 300 or 1000 validation rows. With demos in the search, half as
    many instructions are proposed; a minibatch is at most half of the validation rows. None: by the numbers alone."""
    num_candidates: int | None = attrs.field(default=None, validator=_at_least(2, optional=True))
    """Demo sets and instructions for each predictor, what the program has among them; goes before `auto`'s."""
    num_trials: int | None = attrs.field(default=None, validator=_at_least(1, optional=True))
    """Combinations to try; None: max(2 V log2 n, 1.5 n) for n candidates, where V counts what there is to choose."""
    max_bootstrapped_demos: int = attrs.field(default=4, validator=_at_least(0))
    """Demos made by the teacher in a set, at most."""
    max_labeled_demos: int = attrs.field(default=4, validator=_at_least(0))
    """Labeled rows fill a set up to so many demos of both sorts. Both 0: zero-shot, instructions alone are tuned."""
    minibatch: bool = True
    """Whether trials run on minibatches; False: each on all validation rows."""
    minibatch_size: int = attrs.field(default=35, validator=_at_least(1))
    minibatch_full_eval_steps: int = attrs.field(default=5, validator=_at_least(1))
    """After so many trials the one with the best mean that has no full evaluation gets one."""
    seed: int = attrs.field(default=9, validator=_at_least(0))
    """Together with the run's seed, where all random numbers come from."""
    program_aware: bool = True
    """Whether the proposer is shown a description of the program and of the predictor's part in it."""
    data_aware: bool = True
    """Whether the proposer is shown a summary of the train rows."""
    tip_aware: bool = True
    """Whether the proposer is given a tip, another one each time."""
    fewshot_aware: bool = True
    """Whether the proposer is shown the demos of a set."""
    view_data_batch_size: int = attrs.field(default=10, validator=_at_least(1))
    """Train rows that the proposer looks at in one call; five calls at most."""
    init_temperature: float | None = attrs.field(default=1.0, validator=_number)
    """Temperature of the calls that propose instructions; None: the model's own."""
    metric_threshold: float | None = attrs.field(default=None, validator=_number)
    """Score that makes a rollout of the teacher a success; None: the metric's maximum, or 1.0."""
    teacher: Candidate | None = None
    """Who makes the demos: None is the program as it is; a candidate is put on top of that."""
    max_errors: int | None = attrs.field(default=None, validator=_at_least(0, optional=True))
    """The teacher stops when more of its rollouts than this fail. None: never."""
    wave: int = attrs.field(default=16, validator=_at_least(1))
    """Rows that the teacher is asked for at once, at least."""
    trials_in_flight: int = attrs.field(default=2, validator=_at_least(1))
    """Trials that run at once: one is chosen by what all but the last so many have told. More keep more slots busy and
    are chosen with less known; it decides what is asked, so unlike the concurrency it is part of the run's identity."""

    def __attrs_post_init__(self) -> None:
        name = type(self).__name__
        if self.auto is not None and self.auto not in AUTO:
            raise UsageError(f"{name}: auto is {self.auto!r}; it takes light, medium, heavy, or none")
        if self.auto is None and self.num_candidates is None:
            raise UsageError(f"{name}: without auto it needs num_candidates")

    @property
    def zero_shot(self) -> bool:
        """Whether demos are left alone."""
        return self.max_bootstrapped_demos == self.max_labeled_demos == 0

    def sizes(self, problem: Problem) -> Sizes:
        """Say what the search over a program comes to. Raises `UsageError` where there is nothing to tune."""
        if not problem.parameters:
            raise UsageError(f"{type(self).__name__} tunes instructions and demos, and the program has neither")
        given, most_val = AUTO.get(self.auto or "", (2, MOST_VAL))
        n = self.num_candidates or given
        demos = not self.zero_shot and any(p.takes_demos for p in problem.parameters.values())
        choices = len(problem.parameters) * (2 if demos else 1)
        return Sizes(
            sets=n if demos else 1,
            instructions=n if self.num_candidates or not demos else n // 2,
            trials=self.num_trials or int(max(2 * choices * math.log2(n), 1.5 * n)),
            most_val=most_val,
        )

    def rng(self, problem: Problem, purpose: str) -> Random:
        """Make the random numbers of one purpose, from the run's seed and the knob."""
        return problem.rng(f"miprov2/{self.seed}/{purpose}")

    def layout(self, problem: Problem) -> tuple[Sizes, toolkit.Separation, tuple[int, ...]]:
        """Give the sizes, the rows to learn from, and the columns of a full evaluation."""
        sizes = self.sizes(problem)
        purpose = f"miprov2/{self.seed}/rows"
        rows = toolkit.separate(problem, share=VAL_SHARE, purpose=purpose, most=sizes.most_val)
        if self.auto is None or len(rows.scoring) <= sizes.most_val:
            return sizes, rows, rows.scoring
        return sizes, rows, tuple(sorted(self.rng(problem, "val").sample(rows.scoring, sizes.most_val)))

    def search_cost(self, sizes: Sizes, rows: int) -> int:
        """Bound the rollouts of trials and full evaluations, on so many validation rows."""
        batch = sizes.batch(self, rows)
        return sizes.trials * batch + ceil(sizes.trials / self.minibatch_full_eval_steps) * (rows - batch)

    def proposer_calls(self, sizes: Sizes, parameters: int, sources: int) -> int:
        """Bound the proposer's calls, each asked again as often as may be."""
        if sizes.instructions < 2:
            return 0
        batches = min(MOST_BATCHES, ceil(sources / self.view_data_batch_size)) if self.data_aware else 0
        described = 1 + parameters if self.program_aware else 0
        return ATTEMPTS * (batches + (batches > 1) + described + parameters * (sizes.instructions - 1))
