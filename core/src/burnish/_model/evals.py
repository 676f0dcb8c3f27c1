"""What a metric says of one rollout."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import attrs

from burnish._model.portable import Portable
from burnish.errors import UsageError

LARGEST = 1e150
"""Scores lie within plus and minus this: sums of them and of their squares stay finite, over any number of rows."""


_NONE: Mapping[str, float] = MappingProxyType({})


def _finite(name: str, value: object) -> float:
    if type(value) is float and -LARGEST <= value <= LARGEST:  # nearly always; NaN is not within
        return value
    if isinstance(value, bool):
        return float(value)
    if not isinstance(value, (int, float)):
        raise UsageError(f"{name} must be a number, not {type(value).__name__} {value!r:.80}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    if not math.isfinite(number):
        raise UsageError(f"{name} is {number}; a score must be finite, so that no comparison can go wrong")
    if abs(number) > LARGEST:
        raise UsageError(f"{name} is {number}; beyond {LARGEST:g} sums overflow: scale it, to 0 to 1 at best")
    return number


def _score(value: object) -> float:
    return _finite("the score", value)


def _objectives(value: Mapping[str, object]) -> Mapping[str, float]:
    if not value:
        return _NONE
    return MappingProxyType({str(k): _finite(f"objective `{k}`", v) for k, v in value.items()})


@attrs.frozen
class Eval(Portable):
    """A score, an optional text that explains it, and optional named objectives.

    Scores are 0 to 1 by convention and higher is better; a score that is not finite, or beyond 1e150, is refused here,
    so it can never reach a comparison (seed 002; E40, E57).
    """

    score: float = attrs.field(converter=_score)
    feedback: str | None = None
    objectives: Mapping[str, float] = attrs.field(factory=dict, converter=_objectives)

    def __hash__(self) -> int:
        return hash((self.score, self.feedback, tuple(sorted(self.objectives.items()))))


def average_score(evals: Sequence[Eval]) -> float:
    """Average the scores, in order; 0.0 for none (E60)."""
    return math.fsum(e.score for e in evals) / len(evals) if evals else 0.0
