"""Where a run's events go, and where a run that begins again finds what it was told (`docs/runs.md`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import attrs

from burnish._model.canonical import Json
from burnish._model.events import (
    Admitted,
    Asked,
    CallLanded,
    Event,
    Lost,
    Rewound,
    RolloutLanded,
    Told,
)
from burnish._model.outcome import RolloutStatus
from burnish._runtime.history import History, RecordedAsk, find_results, open_starts
from burnish._runtime.run_store import RunStore
from burnish.errors import ReplayDivergedError


@attrs.frozen(kw_only=True)
class Recorded:
    """What is known of an ask that is met: nothing where it is a new one."""

    told: Told | None = None
    """The answer; None where the run came to no answer."""
    events: Sequence[Event] = ()
    """What had landed for it, and what else was booked until then."""
    lost: Sequence[Lost] = ()
    """Rollouts of it that were under way when the run was killed: to be written."""
    rewound: Rewound | None = None
    """Where the run goes another way from here on: to be booked."""


class Writer(Protocol):
    """Takes events in order; `flush` returns when they are safe."""

    def emit(self, event: Event) -> None: ...

    async def flush(self) -> None: ...


class Journal(Writer, Protocol):
    """Gives back what a run's earlier life was told, too."""

    def seen(self, event: Event) -> None:
        """Show an event that the store holds already to whoever watches."""

    async def begin(self, asked: Asked, *, traces: bool = False) -> Recorded:
        """Write an ask down, or give what is recorded of it. Raises `ReplayDivergedError` where it is another one."""

    async def find(self, keys: Sequence[str], *, traces: bool = False) -> dict[str, RolloutLanded]:
        """Give the results of an earlier life or run by key, with their traces if wanted."""


@attrs.frozen(kw_only=True)
class ReplayRules:
    """How a run that begins again deals with what may differ."""

    continue_live: bool = False
    """Whether to go another way where the run asks something else, instead of refusing."""
    retry_failed: bool = False
    """Whether to ask anew from the first rollout on that the infrastructure left unscored."""
    budget: Json = None
    """The caps as they are now: a refusal under others does not hold."""


class RunJournal:
    """The journal of a run: its store, its history if it has begun before, and its watcher.

    `answers` is another run's store: its results are answers here, too.
    """

    def __init__(
        self,
        store: RunStore,
        watch: Callable[[Event], None] | None = None,
        *,
        history: History | None = None,
        rules: ReplayRules | None = None,
        answers: RunStore | None = None,
    ) -> None:
        self._store, self._watch, self._answers = store, watch, answers
        self._history, self._rules = history, rules or ReplayRules()

    def emit(self, event: Event) -> None:
        self._store.append(event)
        self.seen(event)

    def seen(self, event: Event) -> None:
        if self._watch is not None:
            self._watch(event)

    async def begin(self, asked: Asked, *, traces: bool = False) -> Recorded:
        recorded, rewound = None, None
        history = self._history
        if history is not None:
            try:
                recorded = history.match(asked)
                to = None if recorded is None else await self._outdated(history, recorded)
            except ReplayDivergedError as error:
                if not self._rules.continue_live:
                    raise
                to = error.number - 1
            if to is not None:
                rewound = await history.rewind(to)
                self._store.append(rewound)  # who asked books it, which shows it
                recorded = recorded if recorded is not None and recorded.number <= to else None
        if history is None or recorded is None:
            self.emit(asked)
            return Recorded(rewound=rewound)
        self.seen(asked)
        events = await history.events(asked.step, traces=traces)
        if history.budget_at(recorded.number) != self._rules.budget:  # what the other budget had room for is no matter
            events = [event for event in events if not isinstance(event, Admitted)]
        booked = history.booked_until(recorded.told_at or self._store.appended + 1)
        return Recorded(
            told=recorded.told,
            events=[*booked, *(event for event in events if not isinstance(event, Lost))],
            lost=() if recorded.told is not None else open_starts(events),
            rewound=rewound,
        )

    async def _outdated(self, history: History, recorded: RecordedAsk) -> int | None:
        """Give the number of the last event that holds, where what was told is not to be told again."""
        told = recorded.told
        if told is None:
            return None
        again = told.cap is not None and history.budget_at(recorded.told_at) != self._rules.budget
        if self._rules.retry_failed and not again:
            last = {_place(event): event for event in await history.events(recorded.asked.step)}
            again = any(map(_failed, last.values()))
        return recorded.told_at - 1 if again else None

    async def find(self, keys: Sequence[str], *, traces: bool = False) -> dict[str, RolloutLanded]:
        found = {} if self._history is None else await self._history.find(keys, traces=traces)
        if self._answers is not None:
            missing = [key for key in keys if key not in found]
            found.update(await find_results(self._answers, missing, traces=traces))
        return found

    async def flush(self) -> None:
        await self._store.flush()


def _place(event: Event) -> tuple[int, ...]:
    """Say which answer of its ask an event belongs to."""
    if isinstance(event, RolloutLanded):
        return event.candidate, event.example, event.sample
    return (event.number,) if isinstance(event, CallLanded) else ()


def _failed(event: Event) -> bool:
    """Whether an answer is none for the sake of a provider or its transport."""
    if isinstance(event, RolloutLanded):
        return event.record.status is RolloutStatus.INFRASTRUCTURE_FAILED
    return isinstance(event, CallLanded) and event.fault is not None and event.fault.where == "model"
