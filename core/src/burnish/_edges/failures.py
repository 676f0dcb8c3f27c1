"""Rollouts that failed: counted by status, with the most frequent cause and where it was first met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import attrs

from burnish._model.events import Event, RolloutLanded, Split
from burnish._model.outcome import RolloutRecord, RolloutStatus

CAUSE_LIMIT = 200
NO_CAUSE = "no cause was given"


@attrs.frozen(kw_only=True)
class Failures:
    """Failures among some rollouts; one that a cap cut is none."""

    rollouts: int = 0
    """Rollouts that were looked at, those that did not fail too; each candidate, row and sample counts once."""
    by_status: Mapping[str, int] = attrs.field(factory=dict)
    """`agent_failed` has the failure score; the others are unscored."""
    cause: str = ""
    """The most frequent one, in one line of at most 200 characters; empty where nothing failed."""
    where: str = ""
    """The first row that it struck: `test row 3`, counted from 0 within its set."""

    @property
    def count(self) -> int:
        """How many failed."""
        return sum(self.by_status.values())

    @property
    def total(self) -> bool:
        """Whether there were rollouts and every one of them failed."""
        return 0 < self.rollouts == self.count

    def told(self, whose: str) -> str:
        """Say it in one sentence: `20 of 20 test rollouts failed; the most frequent cause: ...`."""
        cause = f"the most frequent cause: {self.cause} (first in {self.where})"
        return f"{self.count} of {self.rollouts} {whose} rollouts failed; {cause}"


def row_name(column: int, val: int) -> str:
    """Name a column of the search by set and row: validation columns stand first, then those of the trainset."""
    return f"validation row {column}" if column < val else f"train row {column - val}"


_Rollout: TypeAlias = tuple[int, int, int]
"""Candidate, column and sample."""
_Failure: TypeAlias = tuple[RolloutStatus, str]


class FailureCount:
    """A fold of a run's events; `val` is the number of validation columns, which stand before those of the trainset."""

    def __init__(self, val: int) -> None:
        self._val = val
        self._landed: dict[Split, dict[_Rollout, _Failure | None]] = {"search": {}, "test": {}}

    def see(self, event: Event) -> None:
        """Take the next event. Of a rollout that landed more than once the last answer counts."""
        if isinstance(event, RolloutLanded) and not event.record.cut:
            self._landed[event.split][event.candidate, event.example, event.sample] = _failure(event.record)

    def of(self, split: Split, candidate: int | None = None) -> Failures:
        """Count the failures of one candidate, or of all of them."""
        landed = self._landed[split]
        chosen = [(rollout, how) for rollout, how in landed.items() if candidate in (None, rollout[0])]
        failed = [(rollout[1], *how) for rollout, how in chosen if how is not None]
        if not failed:
            return Failures(rollouts=len(chosen))
        cause = _most(cause for _, _, cause in failed)
        row = min(row for row, _, why in failed if why == cause)
        return Failures(
            rollouts=len(chosen),
            by_status=dict(Counter(str(status) for _, status, _ in failed)),
            cause=cause,
            where=f"test row {row}" if split == "test" else row_name(row, self._val),
        )


def _most(causes: Iterable[str]) -> str:
    return Counter(causes).most_common(1)[0][0]


def _failure(record: RolloutRecord) -> _Failure | None:
    if record.status is RolloutStatus.SUCCEEDED:
        return None
    cause = "" if record.fault is None else str(record.fault).strip().partition("\n")[0]
    return record.status, (cause or NO_CAUSE)[:CAUSE_LIMIT]
