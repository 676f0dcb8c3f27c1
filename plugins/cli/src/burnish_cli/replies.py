"""What a program that scores next to nothing answers most: mostly its form is wrong, and one look says how."""

from __future__ import annotations

import json
from collections import Counter

from burnish.events import CandidateRegistered, Event, RolloutLanded

NEARLY_ALL = 0.9
FEWEST = 5
LONGEST = 100


class WrongReplies:
    """A fold of a run's events: the outputs of the program as it was on rows that scored 0 or less."""

    def __init__(self) -> None:
        self._baseline: int | None = None
        self._rollouts = 0
        self._wrong: Counter[str] = Counter()

    def see(self, event: Event) -> None:
        """Take the next event; what failed or was served without its output is passed over."""
        if isinstance(event, CandidateRegistered):
            if self._baseline is None and event.candidate.is_empty:
                self._baseline = event.index
        elif isinstance(event, RolloutLanded) and event.candidate == self._baseline:
            record = event.record
            if record.status == "succeeded" and record.eval is not None and record.output is not None:
                self._rollouts += 1
                if record.eval.score <= 0:
                    self._wrong[json.dumps(record.output, ensure_ascii=False)] += 1

    def told(self) -> str | None:
        """Name the most frequent one where nearly everything scored nothing, else None."""
        wrong = self._wrong.total()
        if self._rollouts < FEWEST or wrong < NEARLY_ALL * self._rollouts:
            return None
        reply, times = self._wrong.most_common(1)[0]
        shown = reply if len(reply) <= LONGEST else reply[: LONGEST - 1] + "…"
        of = f"{wrong} of {self._rollouts} outputs of the program as it was"
        return f"{of} scored nothing; the most frequent of them ({times}): {shown}"
