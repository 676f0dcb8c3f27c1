"""How an engine evaluates."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import attrs

from burnish._model.budget import Budget
from burnish._model.evals import LARGEST
from burnish._model.outcome import RolloutRecord, RolloutStatus
from burnish.errors import UsageError

DEFAULT_EVAL_CONCURRENCY = 16

KeepTraces = Literal["none", "failed", "all"]


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _refuse(attribute: attrs.Attribute[Any], wanted: str, value: Any) -> None:
    raise UsageError(f"EngineConfig: {attribute.name} must be {wanted}; it is {value!r}")


def _at_least_one(value: Any) -> Any:
    return max(1, value) if _is_whole(value) else value


def _whole(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not _is_whole(value):
        _refuse(attribute, "a whole number", value)


def _salt(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not _is_whole(value) or not 0 <= value < 2**64:
        _refuse(attribute, "a whole number from 0 to 2**64 - 1, as a key holds 16 hex digits of it", value)


def _score(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not _is_finite(value) or abs(value) > LARGEST:
        _refuse(attribute, f"a finite number within {LARGEST:g}, as scores are", value)


def _seconds(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not (_is_finite(value) and value > 0):
        _refuse(attribute, "a number of seconds above 0, or None for no limit", value)


def _count(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not (_is_whole(value) and value > 0):
        _refuse(attribute, "a whole number from 1 on, or None", value)


def _choice(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value not in get_args(KeepTraces):
        _refuse(attribute, f"one of {', '.join(map(repr, get_args(KeepTraces)))}", value)


@attrs.frozen(kw_only=True)
class EngineConfig:
    """How an engine evaluates. Raises `UsageError` for a value that cannot be meant."""

    concurrency: int = attrs.field(default=DEFAULT_EVAL_CONCURRENCY, converter=_at_least_one, validator=_whole)
    """Rollouts in flight at once, over candidates and examples together; less than 1 is taken as 1."""
    budget: Budget = Budget()
    cache_salt: int = attrs.field(default=0, validator=_salt)
    """Folded into every key, 64 bits: change it for what burnish cannot see."""
    keep_traces: KeepTraces = attrs.field(default="none", validator=_choice)
    """Whose traces are kept with their results, in memory and in the cache, so that served rollouts have them too:
    nobody's, those of rollouts whose program failed, or all."""
    max_trace_bytes: int | None = attrs.field(default=512 << 20, validator=_count)
    """Memory for kept traces, about; beyond it the oldest go, and their scores stay. A rollout whose trace is asked for
    and is neither here nor in the cache runs again. None: no limit."""
    failure_score: float = attrs.field(default=0.0, validator=_score)
    """The score of a rollout whose program failed; part of the identity of results."""
    rollout_timeout: float | None = attrs.field(default=None, validator=_seconds)
    """Seconds that the program may take in one rollout; sync code ends at its next model call or with its result, and
    is left behind where it has not returned five seconds later."""
    preflight: bool = False
    """Run the very first rollout alone, so that a broken set-up costs one call."""
    max_failures_in_row: int | None = attrs.field(default=None, validator=_count)
    """Infrastructure failures in a row that stop the run; None: never."""

    def keeps_trace(self, record: RolloutRecord) -> bool:
        """Say whether a rollout's trace is kept with its result."""
        failed = record.status is not RolloutStatus.SUCCEEDED
        return self.keep_traces == "all" or (self.keep_traces == "failed" and failed)
