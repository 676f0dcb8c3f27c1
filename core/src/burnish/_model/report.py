"""What a strategy gives back, and what it says beforehand."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from burnish._model.budget import Spend
from burnish._model.candidate import Candidate
from burnish._model.canonical import Json


@attrs.frozen(kw_only=True)
class CandidateEntry:
    """One candidate of a search, with where it came from."""

    index: int
    """Its number in the engine."""
    candidate: Candidate
    origin: str
    """How it was made: `start`, `labeled`, `bootstrap`, `shuffle 3`, ..."""
    parent: int | None = None
    mean: float | None = None
    """Mean over validation; None where it was not scored there, or a cap left rows out."""
    scores: tuple[float | None, ...] = ()
    """Scores by validation row."""


@attrs.frozen(kw_only=True)
class Report:
    """What every strategy reports. Strategies may subclass it with facts of their own."""

    strategy: str
    best: Candidate
    baseline_score: float | None = None
    """Validation mean of the candidate that the strategy started from; None where a cap left rows of it out."""
    best_score: float | None = None
    """Validation mean of `best`, likewise."""
    candidates: tuple[CandidateEntry, ...] = ()
    stop_reason: str = "finished"
    """`finished`, `budget: <cap>`, `perfect score`, ..."""
    spend: Spend = Spend()
    """What this strategy spent."""
    seed: int = 0
    notes: tuple[str, ...] = ()
    """What a user should know, in plain sentences."""
    facts: Mapping[str, Json] = attrs.field(factory=dict)
    """A strategy's own figures, JSON-able."""


@attrs.frozen(kw_only=True)
class Plan:
    """What a strategy may ask at most."""

    rollouts: int
    """Upper bound of rollouts that are not served from a store."""
    proposer_calls: int = 0
    candidates: int = 0
    """How many new candidates that buys."""
    minimum: int = 0
    """Rollouts below which it cannot do one round."""
    note: str = ""

    def repeated(self, repeats: int) -> Plan:
        """Give the plan of a run that repeats each rollout so often."""
        rollouts, minimum = self.rollouts * repeats, self.minimum * repeats
        return self if repeats == 1 else attrs.evolve(self, rollouts=rollouts, minimum=minimum)

    def buys(self, rollouts: int) -> int:
        """Say about how many new candidates so many rollouts buy: evenly from one round's to all of them."""
        if rollouts < self.minimum:
            return 0
        if rollouts >= self.rollouts:
            return self.candidates
        more = (self.candidates - 1) * (rollouts - self.minimum) // (self.rollouts - self.minimum)
        return max(0, min(self.candidates, 1 + more))
