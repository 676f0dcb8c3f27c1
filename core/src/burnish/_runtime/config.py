"""How an engine evaluates."""

from __future__ import annotations

from typing import Any, Literal

import attrs

from burnish._model.budget import Budget

DEFAULT_EVAL_CONCURRENCY = 16

KeepTraces = Literal["none", "all"]

def _at_least_one(value: Any) -> int:
    return max(1, int(value))


@attrs.frozen(kw_only=True)
class EngineConfig:
    """How an engine evaluates."""

    concurrency: int = attrs.field(default=DEFAULT_EVAL_CONCURRENCY, converter=_at_least_one)
    """Rollouts in flight at once, over candidates and examples together; at least 1."""
    budget: Budget = Budget()
    cache_salt: int = 0
    """Folded into every key: change it for what burnish cannot see."""
    keep_traces: KeepTraces = "none"
    """Whether served rollouts come with their trace."""
    failure_score: float = 0.0
    """The score of a rollout whose program failed."""
    rollout_timeout: float | None = None
    """Seconds that the program may take in one rollout; sync code ends at its next model call, or with its result."""
    preflight: bool = False
    """Run the very first rollout alone, so that a broken set-up costs one call."""
    max_failures_in_row: int | None = None
    """Infrastructure failures in a row that stop the run; None: never."""
