"""What a run store says of a run that begins again: what was asked, what landed, what was told (rules R1 to R15)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from burnish._model.budget import Tally
from burnish._model.canonical import Json
from burnish._model.events import (
    Asked,
    CallLanded,
    CallStarted,
    CandidateRegistered,
    Charged,
    Event,
    Lost,
    RequestSent,
    Resumed,
    Rewound,
    RolloutLanded,
    RolloutStarted,
    RunStarted,
    Told,
    Warned,
)
from burnish._model.state import tally_event
from burnish._runtime.intact import WHOLE, is_whole
from burnish._runtime.run_store import REWINDS, RunStore, decoded, dropped_ranges
from burnish.errors import ReplayDivergedError, StoreError

BULK = ("RolloutStarted", "RolloutLanded", "CallStarted", "CallLanded", "RequestSent", "Admitted")
"""Types of events that are read when their ask is met; all others are few."""

_COLUMNS = {
    False: "e.n, e.type, e.body, NULL FROM events e",
    True: "e.n, e.type, e.body, t.body FROM events e LEFT JOIN traces t USING (n)",
}


@attrs.define(kw_only=True)
class RecordedAsk:
    """One ask of the run so far."""

    number: int
    """Its event's."""
    asked: Asked
    told: Told | None = None
    told_at: int = 0
    """The number of `told`; 0 without."""
    met: bool = False
    """Whether the run that began again has come to it."""


class History:
    """The events of a run so far, by ask. What a rewind has dropped is not among them."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._started: RunStarted | None = None
        self.seconds = 0.0
        """What the run took until its last event."""
        self.warnings: list[Warned] = []
        self.candidates: list[CandidateRegistered] = []
        """In order of their index; what a rewind dropped is among them, so that no index is given twice."""
        self.asks: dict[str, RecordedAsk] = {}
        self._booked: list[tuple[int, Event]] = []
        """Spend that belongs to no ask, by number, that the run has not come to yet."""
        self._dropped: list[range] = []
        self._budgets: list[tuple[int, Json]] = []
        """The caps of each life of the run, by the number of its first event."""

    @classmethod
    async def load(cls, store: RunStore) -> History:
        """Read what a store holds, but for the rollouts. Raises `StoreError` where it is damaged."""
        await store.verify()
        history = cls(store)
        history._dropped = dropped_ranges(await store.query(REWINDS))
        marks = ", ".join("?" * len(BULK))
        few = await store.query(f"SELECT n, body FROM events WHERE type NOT IN ({marks}) ORDER BY n", *BULK)
        for number, body in few:
            event = decoded(body)
            if isinstance(event, (RunStarted, Resumed)):
                history._budgets.append((number, event.facts.get("budget")))
            if history._holds(number) or isinstance(event, CandidateRegistered):
                history._take_in(number, event)
        history._booked = [(number, history._settled(number, event)) for number, event in history._booked]
        last = await store.query("SELECT seconds FROM events ORDER BY n DESC LIMIT 1")
        history.seconds = float(last[0][0]) if last else 0.0
        if history._started is None:
            raise StoreError(
                f"the run store {store.path} does not say what the run is made of: it was stopped before it began; "
                "start a new run",
                path=str(store.path),
            )
        return history

    @property
    def started(self) -> RunStarted:
        """The run's first event."""
        assert self._started is not None
        return self._started

    def budget_at(self, number: int) -> Json:
        """Give the caps that held when an event was written."""
        return next((caps for first, caps in reversed(self._budgets) if first <= number), None)

    def _holds(self, number: int) -> bool:
        return not self._dropped or not any(number in numbers for numbers in self._dropped)

    def _take_in(self, number: int, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._started = event
        elif isinstance(event, Warned):
            self.warnings.append(event)
        elif isinstance(event, CandidateRegistered):
            self.candidates.append(event)
        elif isinstance(event, Asked):
            self.asks[event.step] = RecordedAsk(number=number, asked=event)
        elif isinstance(event, Told) and event.step in self.asks:
            self.asks[event.step].told, self.asks[event.step].told_at = event, number
        elif isinstance(event, (Charged, Lost, Rewound)):
            self._booked.append((number, event))

    def _settled(self, number: int, event: Event) -> Event:
        """Give what is booked of a rollout whose ask ended with its life: it counts where it runs again (R15)."""
        ask = self.asks.get(event.step) if isinstance(event, Lost) else None
        if ask is None or not isinstance(event, Lost):
            return event
        if ask.told is not None and not any(number < first < ask.told_at for first, _ in self._budgets):
            return event
        return attrs.evolve(event, spend=attrs.evolve(event.spend, metric_calls=0, lm_calls=0))

    def match(self, asked: Asked) -> RecordedAsk | None:
        """Give what was recorded of an ask; None where the run had not come so far.

        Raises `ReplayDivergedError` where the run does not ask what it asked (R1).
        """
        recorded = self.asks.get(asked.step)
        if recorded is None:
            ahead = [
                ask
                for ask in self.asks.values()
                if ask.told is not None and not ask.met and ask.asked.chain == asked.chain
            ]
            if ahead:
                first = min(ahead, key=lambda ask: ask.number)
                raise ReplayDivergedError(
                    asked.step, f"{first.asked.what} ({first.asked.step})", asked.what, first.number
                )
            return None
        if recorded.asked.digest != asked.digest:
            raise ReplayDivergedError(asked.step, recorded.asked.what, asked.what, recorded.number)
        recorded.met = True
        return recorded

    def booked_until(self, number: int) -> list[Event]:
        """Give spend outside of asks that was booked before an event, once."""
        due = [event for at, event in self._booked if at < number]
        self._booked = [(at, event) for at, event in self._booked if at >= number]
        return due

    async def events(self, step: str, *, traces: bool = False) -> list[Event]:
        """Give the rollouts and calls of an ask, in order, with the rollouts' traces if wanted.

        Without their starts where it was answered: nothing of it is open then, and they are half of all events.
        """
        ask = self.asks[step]
        kinds = ("RolloutLanded", "CallLanded", "Lost") if ask.told_at else (*BULK, "Lost")
        last = ask.told_at or self._store.appended
        sql = f"SELECT {_COLUMNS[traces]} WHERE e.n BETWEEN ? AND ? AND e.step = ? ORDER BY e.n"
        rows = await self._store.query(sql, ask.number, last, step)
        return [
            decoded(body, trace)
            for number, kind, body, trace in rows
            if kind in kinds and self._holds(number)
        ]

    async def find(self, keys: Sequence[str], *, traces: bool = False) -> dict[str, RolloutLanded]:
        """Give the results that stand under some keys, also those that a rewind has dropped."""
        return await find_results(self._store, keys, traces=traces)

    async def rewind(self, to: int) -> Rewound:
        """Let nothing hold after an event; gives what to write. Results that were recorded later stay answers."""
        rows = await self._store.query("SELECT n, body FROM events WHERE n > ? ORDER BY n", to)
        tally, dropped = Tally(), [decoded(body) for number, body in rows if self._holds(number)]
        for event in dropped:
            tally_event(tally, event)
        for lost in open_starts(dropped):
            tally.add(lost.spend)
        self._dropped.append(range(to + 1, self._store.appended + 1))
        self.asks = {step: ask for step, ask in self.asks.items() if ask.number <= to}
        for ask in self.asks.values():
            if ask.told_at > to:
                ask.told, ask.told_at = None, 0
        self._booked = [(number, event) for number, event in self._booked if number <= to]
        return Rewound(to=to, spend=attrs.evolve(tally.spend, seconds=0.0))


async def find_results(store: RunStore, keys: Sequence[str], *, traces: bool = False) -> dict[str, RolloutLanded]:
    """Give the scored results that a run store holds under some keys, the first of each; damaged ones are absent."""
    found: dict[str, RolloutLanded] = {}
    if keys:
        await store.index_keys()
    for some in (keys[at : at + 500] for at in range(0, len(keys), 500)):
        marks = ", ".join("?" * len(some))
        sql = f"SELECT {WHOLE} JOIN keys k USING (n) WHERE k.key IN ({marks}) ORDER BY e.n"
        for row in filter(is_whole, await store.query(sql, *some)):
            event = decoded(row[5], row[6] if traces else None)
            assert isinstance(event, RolloutLanded)
            if event.source != "store" and event.record.eval is not None and event.record.status.scored:
                found.setdefault(event.key, event)
    return found


def open_starts(events: Iterable[Event]) -> list[Lost]:
    """Give what started and of which nothing more is known, with the requests that it had sent (R15)."""
    under_way: dict[tuple[str, str, int, int], list[Lost]] = {}
    for event in events:
        if isinstance(event, (RolloutStarted, CallStarted)):
            lost = _begun(event)
            under_way.setdefault((event.step, event.key, lost.example, lost.sample), []).append(lost)
        elif isinstance(event, (RolloutLanded, CallLanded, Lost, RequestSent)):
            place = (event.number, 0) if isinstance(event, CallLanded) else (event.example, event.sample)
            waiting = under_way.get((event.step, event.key, *place))
            if not waiting:
                continue
            last = waiting.pop()
            if isinstance(event, RequestSent):
                waiting.append(attrs.evolve(last, spend=last.spend + event.spend))
    return [lost for left in under_way.values() for lost in left]


def _begun(event: RolloutStarted | CallStarted) -> Lost:
    if isinstance(event, CallStarted):
        return Lost(key=event.key, step=event.step, example=event.number)
    return Lost(key=event.key, step=event.step, example=event.example, sample=event.sample, split=event.split)
