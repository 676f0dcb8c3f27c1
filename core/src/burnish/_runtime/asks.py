"""What a strategy asks: numbered, written down before anything runs, and told again when the run begins again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import attrs
import trio

from burnish import abc
from burnish._model.canonical import Json, fingerprint, hex64
from burnish._model.events import Asked, Event, RolloutLanded
from burnish._runtime.answers import revive
from burnish._runtime.batch import Batch, Fit, Item
from burnish._runtime.journal import Journal, Recorded
from burnish._runtime.lagged import current_chain
from burnish._runtime.rollout import Kept
from burnish.errors import StoreError


class Asks:
    """The asks of one evaluator, in its run's journal.

    `booked` is called with each event that the journal holds already and that the evaluator has not booked yet.
    """

    def __init__(self, journal: Journal, booked: Callable[[Event], None]) -> None:
        self._journal, self._booked = journal, booked
        self._numbers: Counter[str] = Counter()
        self._turn = trio.Lock()

    async def begin(self, step: str, content: Json, what: str, *, traces: bool = False) -> tuple[str, Recorded]:
        """Give an ask its name, and what is known of it. Raises `ReplayDivergedError`.

        `content` is all that the answer depends on; `what` says it to people.
        """
        number = f"{step}#{self._numbers[step]}"
        asked = Asked(step=number, digest=fingerprint(content), what=what, chain=current_chain())
        self._numbers[step] += 1
        async with self._turn:
            recorded = await self._journal.begin(asked, traces=traces)
        if recorded.rewound is not None:
            self._booked(recorded.rewound)
        for event in recorded.events:
            self._booked(event)
        return asked.step, recorded


def content_of(batch: Batch, hash_of: Callable[[int], int], fit: Fit, traces: bool) -> Json:
    """Say as JSON what an evaluation depends on, the rows aside: they are the run's."""
    requests: list[Json] = [[hex64(hash_of(index)), list[Json](columns)] for index, columns in batch.requests]
    return ["evaluate", requests, list[Json](batch.samples), fit, traces]


async def fill(batch: Batch, recorded: Recorded, journal: Journal, target: abc.Target, traces: bool) -> None:
    """Fill a batch with what is recorded of its ask; events that only refer to a result are looked up.

    Where the ask was not answered, what failed for others' sake is left out: it runs again.
    """
    landed = [event for event in recorded.events if isinstance(event, RolloutLanded)]
    full = {event.key: event for event in landed if event.source != "store"}
    missing = list(dict.fromkeys(event.key for event in landed if event.key not in full))
    full.update(await journal.find(missing, traces=traces) if missing else {})
    for event in landed:
        item, record = _item_of(batch, event), full.get(event.key, event).record
        if recorded.told is None and record.owes_score and record.output is not None:
            item.kept = Kept(prediction=revive(target, record), record=attrs.evolve(record, eval=None))
        elif recorded.told is not None or (record.eval is not None and record.status.scored):
            item.record, item.source, item.told, item.kept = record, event.source, True, None
            item.leads = event.source in ("live", "scored")


def _item_of(batch: Batch, event: RolloutLanded) -> Item:
    item = batch.items.get((event.candidate, event.example, event.sample))
    if item is None:
        raise StoreError(
            f"the run store holds a rollout of candidate {event.candidate} on row {event.example} in step "
            f"`{event.step}`, which did not ask for it: it is damaged; start a new run on its answers (`burnish fork`)"
        )
    return item
