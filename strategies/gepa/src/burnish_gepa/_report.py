"""What GEPA reports."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from burnish import CandidateEntry, Report


@attrs.frozen(kw_only=True)
class MemberEntry(CandidateEntry):
    """A validated candidate; `parent` is the first of `parents`."""

    parents: tuple[int, ...] = ()
    """The candidates that it was made of, by their numbers in the engine: two for a merge."""
    changed: tuple[str, ...] = ()
    """Parameters whose texts differ from the parent's; of a merge, from the common ancestor's."""
    iteration: int = -1
    """When it was found; -1 for the start."""
    objectives: Mapping[str, float] = attrs.field(factory=dict)
    """Means of the metric's objectives."""


@attrs.frozen(kw_only=True)
class RejectedText:
    """A reply of the reflection that was not taken."""

    iteration: int
    component: str
    reason: str
    text: str = ""


@attrs.frozen(kw_only=True)
class Iteration:
    """One task of an iteration: a parent on a minibatch, or a merge."""

    iteration: int
    kind: str = "reflection"
    """`reflection` or `merge`."""
    parents: tuple[int, ...] = ()
    """By their numbers in the engine."""
    columns: tuple[int, ...] = ()
    components: tuple[str, ...] = ()
    """What was rewritten."""
    before: float | None = None
    """Sum of the parent's scores on the rows that both are scored on; of a merge, the better side's."""
    after: float | None = None
    """Sum of the child's."""
    child: int | None = None
    """Its number in the engine; None where there was none."""
    outcome: str = ""
    """`validated`, `no improvement`, `perfect`, `no text`, `known already`, `not chosen`, `nothing to learn from`,
    `unscored`, `no room`, `out of the race`."""


@attrs.frozen(kw_only=True)
class GEPAReport(Report):
    """A report with the facts of the search. Columns are those of the engine's matrix."""

    iterations: tuple[Iteration, ...] = ()
    """Everything that was tried, in order."""
    rejected_texts: tuple[RejectedText, ...] = ()
    frontier: tuple[int, ...] = ()
    """The candidates that are needed for the best at every key, by their numbers in the engine."""
    frontier_type: str = "instance"
    scored_on: tuple[int, ...] = ()
    """Columns that `scores` of the candidates stand for, in their order."""
    asked: int = 0
    """Cells that the search asked for; what a store served among them."""
    passed_over: int = 0
    """Minibatches that were known to be perfect, and cost nothing."""
    merges: int = 0
    """Merges that were tried."""
    texts_cut: int = 0
    """Reflections whose examples were shortened."""
