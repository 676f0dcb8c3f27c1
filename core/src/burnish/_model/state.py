"""The state of a run as the fold of its events: the one place where spend and scores are booked."""

from __future__ import annotations

from collections.abc import Iterable

from burnish._model.budget import Spend, Tally
from burnish._model.candidate import Candidate
from burnish._model.events import (
    CallLanded,
    CandidateRegistered,
    Charged,
    Event,
    Lost,
    Rewound,
    RolloutLanded,
    RunEnded,
    RunStarted,
    Warned,
)
from burnish._model.matrix import ScoreMatrix
from burnish._model.outcome import RolloutStatus
from burnish.errors import InternalError


class State:
    """Candidates, scores and spend. `apply` is the only way to change it."""

    def __init__(self, columns: int = 0) -> None:
        self.matrix = ScoreMatrix(columns)
        self._tally = Tally()
        self.candidates: list[Candidate] = []
        self.index: dict[int, int] = {}
        """Candidate index by content hash."""
        self.started: RunStarted | None = None
        self.ended: RunEnded | None = None
        self.warnings: list[Warned] = []

    @property
    def spend(self) -> Spend:
        """What has been spent so far."""
        return self._tally.spend

    def apply(self, event: Event) -> None:
        """Book one event."""
        tally_event(self._tally, event)
        if isinstance(event, RolloutLanded):
            self._landed(event)
        elif isinstance(event, CandidateRegistered):
            if event.index != len(self.candidates):
                raise InternalError(f"candidate {event.index} registered after {len(self.candidates)} others")
            self.index[event.candidate.stable_hash] = event.index
            self.candidates.append(event.candidate)
            self.matrix.ensure_rows(event.index + 1)
        elif isinstance(event, Warned):
            if event not in self.warnings:  # a provider's pause is told each time, and kept once
                self.warnings.append(event)
        elif isinstance(event, RunStarted):
            self.started = event
        elif isinstance(event, RunEnded):
            self.ended = event

    def _landed(self, event: RolloutLanded) -> None:
        record = event.record
        if record.eval is not None and record.status.scored and event.split == "search":
            self.matrix.record(event.candidate, event.example, record.eval, event.sample, event.key)


def tally_event(tally: Tally, event: Event) -> None:
    """Add what an event cost."""
    if isinstance(event, RolloutLanded):
        tally_rollout(tally, event)
    elif isinstance(event, CallLanded):
        tally.calls(event.calls)
    elif isinstance(event, (Charged, Lost, Rewound)):
        tally.add(event.spend)


def tally_rollout(tally: Tally, event: RolloutLanded) -> None:
    """Add what a landed rollout cost: a served one is a cache hit and nothing else (E28).

    One that a guard blocked did not run, and one that a cap cut is no metric call. Of a `scored` one the record holds
    the calls of that scoring alone.
    """
    if event.source in ("cache", "store"):
        if event.record.eval is not None:
            tally.hit()
        return
    tally.calls(event.record.calls)
    blocked = event.record.status is RolloutStatus.POLICY_BLOCKED
    if event.source != "scored" and not blocked and not event.record.cut:
        tally.rollout(event.record.spans)


def fold(events: Iterable[Event], columns: int = 0) -> State:
    """Rebuild the state from a run's events, without those that a `Rewound` after them has dropped."""
    state = State(columns)
    for event in events:
        state.apply(event)
    return state
