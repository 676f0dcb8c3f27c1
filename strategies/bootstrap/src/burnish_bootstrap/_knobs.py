"""The knobs that both strategies have."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import attrs

from burnish import Candidate
from burnish.abc import Problem
from burnish.errors import UsageError

Validator = Callable[[Any, Any, Any], None]


def at_least(least: int, *, optional: bool = False) -> Validator:
    """Make a validator of whole numbers with a lower bound."""

    def check(owner: Any, attribute: Any, value: Any) -> None:
        if value is None and optional:
            return
        if type(value) is not int or value < least:
            raise UsageError(
                f"{type(owner).__name__}: {attribute.name} is {value!r}; it takes a whole number of at least {least}"
            )

    return check


def finite_or_none(owner: Any, attribute: Any, value: Any) -> None:
    """Refuse what is neither None nor a finite number."""
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)):
        return
    raise UsageError(f"{type(owner).__name__}: {attribute.name} is {value!r}; it takes a finite number, or none")


@attrs.frozen(kw_only=True)
class Knobs:
    """What `BootstrapFewShot` and `BootstrapRandomSearch` have in common."""

    max_bootstrapped_demos: int = attrs.field(default=4, validator=at_least(0))
    """Demos made by the teacher, at most, for each predictor."""
    max_labeled_demos: int = attrs.field(default=16, validator=at_least(0))
    """Labeled rows fill up to so many demos of both sorts; 0: there are none but the teacher's."""
    max_rounds: int = attrs.field(default=1, validator=at_least(1))
    """How often the teacher tries a row; each try is another sample, so it helps at a temperature above 0 only."""
    metric_threshold: float | None = attrs.field(default=None, validator=finite_or_none)
    """Score that makes a rollout a success; None: the metric's maximum, or 1.0 where the metric names none."""
    teacher: Candidate | None = None
    """Who makes the demos: None is the program as it is; a candidate is put on top of that (another instruction)."""
    max_errors: int | None = attrs.field(default=None, validator=at_least(0, optional=True))
    """The teacher stops when more of its rollouts than this fail; the demos found so far are used. None: never."""
    stratify: bool = True
    """Whether sets of demos are spread evenly over the output values, as far as they repeat (labels do). False draws
    as DSPy does, by order and chance alone: six demos may then all be of one class."""
    wave: int = attrs.field(default=16, validator=at_least(1))
    """Rows that the teacher is asked for at once, at least. It decides what is asked, so unlike the concurrency it is
    part of the run's identity; a multiple of the concurrency leaves no slot idle."""

    def __attrs_post_init__(self) -> None:
        if self.max_bootstrapped_demos == self.max_labeled_demos == 0:
            raise UsageError(
                f"{type(self).__name__}: max_bootstrapped_demos and max_labeled_demos are both 0, so there is nothing "
                "to try; raise one of them"
            )

    def check(self, problem: Problem) -> None:
        """Refuse a program that takes no demos. Raises `UsageError`."""
        if not any(parameter.takes_demos for parameter in problem.parameters.values()):
            have = ", ".join(f"`{name}`" for name in problem.parameters) or "nothing"
            raise UsageError(
                f"{type(self).__name__} tunes demos, and the program has no predictor that takes any; it has {have}; "
                "tune its instructions instead (COPRO, GEPA)"
            )
