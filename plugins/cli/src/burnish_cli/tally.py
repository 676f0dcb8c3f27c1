"""The figures of a run in progress: a fold of its events, with a clock beside it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import attrs

from burnish import TEST_SHARE, Budget, Candidate, RolloutRecord, Spend
from burnish.events import CandidateRegistered, Event, RolloutLanded, RunEnded, State, Told, Warned
from burnish_cli import text
from burnish_cli.result import PartlyScored

WINDOW = 30.0
"""Seconds that the rate is taken over."""


@attrs.frozen(kw_only=True)
class Figures:
    """What a progress display shows."""

    spend: Spend
    budget: Budget
    elapsed: float
    baseline: float | None = None
    """Mean on the validation rows."""
    best: float | None = None
    best_candidate: int | None = None
    candidates: int = 0
    rate: float | None = None
    """Rollouts a second, of late."""
    left: float | None = None
    """Seconds until the first cap is reached at the rate of late."""
    failed: int = 0
    """Rollouts without a score, whose model or network failed."""

    def against_caps(self) -> Iterator[str]:
        """Write each amount that is capped or worth knowing."""
        spend, budget = self.spend, self.budget
        yield _of(spend.metric_calls, budget.max_metric_calls, "rollout")
        if budget.max_lm_calls is not None:
            yield _of(spend.lm_calls, budget.max_lm_calls, "LM call")
        if spend.requests or budget.max_requests is not None:
            yield _of(spend.requests, budget.max_requests, "request")
        if spend.tokens or budget.max_tokens is not None:
            yield _of(spend.tokens, budget.max_tokens, "token")
        if spend.cost or budget.max_cost is not None:
            cap = "" if budget.max_cost is None else f"/{text.money(budget.max_cost)}"
            unpriced = sum(role.unpriced for role in spend.by_role.values())
            unknown = f" and {text.count(unpriced, 'unpriced request')}" if unpriced else ""
            yield f"{text.money(spend.cost)}{cap}{unknown}"

    def share(self) -> float:
        """Give how much of the budget is used: the cap that is nearest, 0 to 1."""
        budget, spend = self.budget, self.spend
        pairs = (
            (spend.metric_calls, budget.max_metric_calls),
            (spend.lm_calls, budget.max_lm_calls),
            (spend.requests, budget.max_requests),
            (spend.tokens, budget.max_tokens),
            (float(spend.cost), budget.max_cost),
            (self.elapsed, budget.max_seconds),
        )
        return max((min(1.0, used / float(cap)) if cap else 1.0 for used, cap in pairs if cap is not None), default=0.0)


def _of(used: int, cap: int | None, noun: str) -> str:
    return text.count(used, noun) if cap is None else f"{used:,}/{cap:,} {noun}s"


def search_seconds(max_seconds: float) -> float:
    """Say when the search ends where there are test rows: the rest of `max_seconds` is theirs."""
    return max_seconds * (1 - TEST_SHARE)


class Tally:
    """Takes events in order and gives the figures; `feed` says which of them a person should be told of.

    `val` are the columns that candidates are compared on. `rollouts` is what the plan asks for at most, `test` how many
    of them are the final test's.
    """

    def __init__(
        self,
        *,
        val: Sequence[int],
        budget: Budget,
        clock: Callable[[], float],
        rollouts: int | None = None,
        test: int = 0,
    ) -> None:
        self._val, self._budget, self._clock, self._rollouts = frozenset(val), budget, clock, rollouts
        self._state = State()
        self._began = clock()
        self._live: deque[float] = deque()
        self._landed: dict[int, set[int]] = {}
        self._means: dict[int, float] = {}
        self._baseline: int | None = None
        self._best: int | None = None
        self._told = -math.inf
        self._paused = -math.inf
        self._refused: set[str] = set()
        self._tests, self._test = 0, test
        self._failed = 0

    def feed(self, event: Event) -> str | None:
        """Book an event; give a line where it is a milestone."""
        self._state.apply(event)
        if isinstance(event, RolloutLanded):
            if event.source == "live":
                self._live.append(self._clock())
            return " · ".join(filter(None, [self._failing(event.record), self._landing(event)])) or None
        if isinstance(event, CandidateRegistered):
            if self._baseline is None and event.candidate.is_empty:
                self._baseline = event.index
        elif isinstance(event, Warned):
            self._paused = max(self._paused, self._clock() + (event.seconds or 0.0))
            if event.kind == "failures":  # the first was shown when it came, and the result counts them
                return None
            return f"warning: {text.safe(event.message)}"
        elif isinstance(event, Told) and event.cap is not None and event.cap not in self._refused:
            self._refused.add(event.cap)
            return f"the budget is used up: {text.safe(event.cap)}"
        elif isinstance(event, RunEnded):
            # What ended it was said when it came, or follows in full as the error that it is.
            reason = event.stop_reason
            said = reason in ("finished", "cancelled") or reason.removeprefix("budget: ") in self._refused
            return None if said or reason.startswith("stopped: ") else f"ended: {text.safe(reason)}"
        return None

    def _landing(self, event: RolloutLanded) -> str | None:
        if event.split == "test":
            return self._tested()
        return self._scored(event) if event.example in self._val else None

    def _failing(self, record: RolloutRecord) -> str | None:
        """Tell of the first rollout that nobody's prompt is to blame for: most often all others will fail too."""
        if record.cut or record.status not in ("infrastructure_failed", "timed_out"):
            return None
        self._failed += 1
        cause = str(record.fault or record.status)
        return f"rollouts fail: {text.safe(cause, limit=300)} (1 so far)" if self._failed == 1 else None

    def _tested(self) -> str | None:
        self._tests += 1
        return "scoring baseline and winner on the test rows" if self._tests == 1 else None

    def _scored(self, event: RolloutLanded) -> str | None:
        """A candidate counts once each validation row has landed; unscored rows are not averaged in."""
        landed = self._landed.setdefault(event.candidate, set())
        landed.add(event.example)
        mean = self._state.matrix.mean(event.candidate, sorted(self._val)) if landed == self._val else None
        if mean is None:
            return None
        first = event.candidate not in self._means
        self._means[event.candidate] = mean
        self._best = min(self._means, key=lambda index: (-self._means[index], index))
        if self._baseline is None:
            return self._new_best()
        if self._baseline not in self._means:  # what has nothing to be compared with yet is told with the baseline
            return None
        if not first or event.candidate != self._baseline:
            return self._new_best()
        self._told = mean
        line = f"baseline {text.score(mean)} on {text.count(len(self._val), 'validation row')}"
        return " · ".join(filter(None, [line, self._new_best()]))

    def _new_best(self) -> str | None:
        """Tell of a best that is higher than the last; sums of the same scores may differ in their last digit."""
        assert self._best is not None
        best = self._means[self._best]
        if best <= self._told or math.isclose(best, self._told, abs_tol=1e-9):
            return None
        self._told = best
        return None if self._best == self._baseline else f"new best {text.score(best)} (candidate {self._best})"

    def winner(self) -> Candidate | None:
        """Give the best candidate that was scored on all validation rows; None where that is the baseline or none."""
        best = self._best
        return None if best is None or best == self._baseline else self._state.candidates[best]

    def scored(self) -> int:
        """Count the candidates beside the program as it is that were scored on all validation rows."""
        return len(self._means.keys() - {self._baseline})

    def partly(self) -> tuple[PartlyScored, ...]:
        """Give the candidates without a score on some validation rows: the program as it is, then who has the most."""
        found = []
        for index in range(len(self._state.candidates)):
            scored = sum(self._state.matrix.cell(index, row) is not None for row in self._val)
            if scored < len(self._val):
                name = None if index == self._baseline else index
                found.append(PartlyScored(candidate=name, scored=scored, rows=len(self._val)))
        return tuple(sorted(found, key=lambda part: (part.candidate is not None, -part.scored)))

    def figures(self) -> Figures:
        """Give the figures as of now."""
        now = self._clock()
        while self._live and self._live[0] < now - WINDOW:
            self._live.popleft()
        elapsed = now - self._began
        rate = len(self._live) / min(WINDOW, elapsed) if self._live and elapsed > 0 else None
        return Figures(
            spend=self._state.spend,
            budget=self._budget,
            elapsed=elapsed,
            baseline=None if self._baseline is None else self._means.get(self._baseline),
            best=None if self._best is None else self._means[self._best],
            best_candidate=self._best,
            candidates=len(self._state.candidates),
            rate=rate,
            left=self._left(elapsed, rate),
            failed=self._failed,
        )

    def _left(self, elapsed: float, rate: float | None) -> float | None:
        """Give no estimate while the provider has the run wait: the rate of late says nothing of then."""
        if self._clock() < self._paused:
            return None
        spend, budget = self._state.spend, self._budget
        bounds = [cap - spend.metric_calls for cap in (budget.max_metric_calls, self._rollouts) if cap is not None]
        if budget.max_lm_calls is not None:
            bounds.append(budget.max_lm_calls - spend.lm_calls)
        seconds = [max(0, bound) / rate for bound in bounds] if rate else []
        others = (
            (spend.requests, budget.max_requests),
            (spend.tokens, budget.max_tokens),
            (float(spend.cost), budget.max_cost),
        )
        seconds += [max(0.0, float(cap) / used - 1) * elapsed for used, cap in others if cap is not None and used]
        seconds += self._time_left(elapsed, rate)
        return min(seconds, default=None)

    def _time_left(self, elapsed: float, rate: float | None) -> Iterator[float]:
        """Give what `max_seconds` leaves: the search's share until its end, then what the test takes of its own."""
        most = self._budget.max_seconds
        if most is None:
            return
        yield max(0.0, most - elapsed)
        if self._test and rate:
            search = 0.0 if self._tests else max(0.0, search_seconds(most) - elapsed)
            yield search + max(0, self._test - self._tests) / rate
