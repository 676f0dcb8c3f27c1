"""What both strategies report."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from burnish import Report


@attrs.frozen(kw_only=True)
class BootstrapReport(Report):
    """A report with the facts of bootstrapping. Columns are those of the engine's matrix."""

    adopted: bool = False
    """Whether a candidate with demos is strictly better than the start."""
    candidate_score: float | None = None
    """Mean of the best candidate with demos; None where there was none, or none was scored."""
    demos_per_predictor: Mapping[str, int] = attrs.field(factory=dict)
    """Bootstrapped demos in the `bootstrap` candidate; predictors without any are absent."""
    harvested: Mapping[str, int] = attrs.field(factory=dict)
    """All demos that the teacher's rollouts gave, by predictor."""
    teacher_rows: int = 0
    """Rows that the teacher tried."""
    accepted: tuple[int, ...] = ()
    """Train columns on which a rollout of the teacher was a success, in the order of the pass."""
    teacher_errors: int = 0
    """Rollouts of the teacher that failed."""
    teacher_ended: str = "rows"
    """Why the teacher pass ended: `enough`, `rows` (it had tried all), `errors`, `budget: <cap>`; or why there was
    none: the search's own `stop_reason`."""
    sources: tuple[int, ...] = ()
    """Columns that demos may come from."""
    scored_on: tuple[int, ...] = ()
    """Columns that `scores` of the candidates stand for, in their order."""
    shared: tuple[int, ...] = ()
    """Train columns that were validation rows too, and gave no demos."""
