"""What COPRO can be told."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import attrs

import burnish
from burnish.abc import Problem
from burnish.errors import UsageError

Validator = Callable[[Any, Any, Any], None]


def _at_least(least: int) -> Validator:
    def check(_: Any, attribute: Any, value: Any) -> None:
        if type(value) is not int or value < least:
            raise UsageError(f"COPRO: {attribute.name} is {value!r}; it takes a whole number of at least {least}")

    return check


def _temperature(_: Any, attribute: Any, value: Any) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if value is not None and not (number and math.isfinite(value) and value >= 0):
        raise UsageError(f"COPRO: {attribute.name} is {value!r}; it takes a temperature from 0 on, or none")


def _model(_: Any, attribute: Any, value: Any) -> None:
    if isinstance(value, str):
        raise UsageError(
            f"COPRO: {attribute.name} is the text {value!r}; it takes a model. To name one, give it the role of the "
            "proposer: `models={'proposer': ...}`, or the table [models.proposer] of a configuration"
        )
    if value is not None:
        burnish.as_model(value)


def _parts(value: Iterable[str]) -> tuple[str, ...]:
    """Take one text as one part, not as its letters."""
    return (value,) if isinstance(value, str) else tuple(value)


@attrs.frozen(kw_only=True)
class Knobs:
    """The knobs of COPRO; the first four have DSPy's names, defaults and meaning."""

    breadth: int = attrs.field(default=10, validator=_at_least(2))
    """Texts a round for each predictor; in the first round one of them is the original."""
    depth: int = attrs.field(default=3, validator=_at_least(1))
    """Rounds."""
    init_temperature: float | None = attrs.field(default=1.4, validator=_temperature)
    """Temperature of the proposers' calls; None leaves the model's own."""
    prompt_model: Any = attrs.field(default=None, validator=_model)
    """The model that writes proposals; None: the run's `proposer`, or its `task` model where it has none. Either way
    its calls are booked as the proposer's."""
    feedback_rows: int = attrs.field(default=8, validator=_at_least(0))
    """Train rows a round on which the best candidate runs, so that proposers see what the metric says of its mistakes;
    0: they see texts and scores alone, as DSPy's do. It costs nothing where the metric gives no feedback."""
    repeats: int = attrs.field(default=1, validator=_at_least(1))
    """Samples of each row: more than one where the metric or the program is noisy."""
    max_chars: int = attrs.field(default=4000, validator=_at_least(1))
    """Longest text that a proposal may be; where the original is longer than half of it, twice the original."""
    protected: tuple[str, ...] = attrs.field(default=(), converter=_parts)
    """Parts of the original texts that every proposal has to hold, word by word."""

    def check(self, problem: Problem) -> None:
        """Refuse a program without texts, and a problem without rows. Raises `UsageError`."""
        if not problem.parameters:
            raise UsageError("COPRO tunes instructions and prompts, and the program has none that a candidate can set")
        if not problem.val and not problem.train:
            raise UsageError("COPRO: there are no rows to compare candidates on; pass validation or train rows")
