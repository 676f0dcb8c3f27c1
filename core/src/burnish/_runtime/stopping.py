"""When going on makes no sense: no credentials, no such model, or one failure after the other."""

from __future__ import annotations

from collections import Counter

from burnish._model.outcome import Fault, RolloutRecord, RolloutStatus


class StopRule:
    """Judges rollouts in the order in which they started, whichever ends first.

    Counted as they end, a few slow successes among quick failures would look like failures in a row, the more so the
    more run at once. A fault that every further rollout must meet counts the moment it is seen.
    """

    def __init__(self, limit: int | None, *, preflight: bool) -> None:
        self.fault: Fault | None = None
        """Why to stop; None to go on."""
        self._limit, self._preflight = limit, preflight
        self.proven = not preflight
        """Whether a rollout has got through, where one is to go ahead of all others."""
        self._started = self._judged = 0
        self._ended: dict[int, RolloutRecord | None] = {}
        self._failures: list[Fault] = []

    def start(self) -> int:
        """Give a rollout its place in the order."""
        self._started += 1
        return self._started - 1

    def end(self, number: int, record: RolloutRecord | None) -> None:
        """Take a rollout's result; None where it was cancelled, which counts neither way."""
        if record is not None:
            self.proven = self.proven or _failure(record) is None
            if record.fault is not None and record.fault.fatal:
                self.fault = record.fault
        self._ended[number] = record
        while self._judged in self._ended:
            judged = self._ended.pop(self._judged)
            self._judged += 1
            if judged is not None:
                self._judge(judged)

    def _judge(self, record: RolloutRecord) -> None:
        failure = _failure(record)
        if failure is None:
            self._failures.clear()
            return
        self._failures.append(failure)
        if self.fault is None and self._limit is not None and len(self._failures) >= self._limit:
            self.fault = _grouped(self._failures)

    def reset(self) -> None:
        """Forget the reason to stop: a later evaluation may try again."""
        self.fault, self.proven = None, not self._preflight
        self._failures.clear()


def _failure(record: RolloutRecord) -> Fault | None:
    fault = record.fault
    if fault is None or not (record.status is RolloutStatus.INFRASTRUCTURE_FAILED or fault.where == "model"):
        return None
    return fault


def _grouped(failures: list[Fault]) -> Fault:
    """Sum failures in a row up in one fault, the most frequent cause first."""
    causes = Counter(str(fault) for fault in failures).most_common(3)
    listed = "; ".join(f"{count} x {cause}" for cause, count in causes)
    return Fault(type="FailuresInRow", message=f"{len(failures)} rollouts in a row failed: {listed}", where="model")
