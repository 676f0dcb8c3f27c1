"""Where a resumed run goes another way: what was dropped is booked, written and shown."""

from __future__ import annotations

from collections import Counter

from burnish import Budget, Spend
from burnish._runtime.books import Books
from burnish._runtime.history import History
from burnish._runtime.journal import ReplayRules, RunJournal
from burnish._runtime.ledger import Ledger
from burnish._runtime.run_store import open_run_store
from burnish.events import Asked, Event, Lost, RunStarted


async def test_a_rewind_is_shown_once() -> None:
    """R1: who watches counts what was dropped as often as the run store does: a fold of either has the same spend."""
    shown: list[Event] = []
    async with open_run_store(None) as store:
        lost = Lost(key="k", step="#0", spend=Spend(requests=2))
        for event in (RunStarted(run="r", facts={}), Asked(step="#0", digest="other", what="it"), lost):
            store.append(event)
        await store.flush()
        rules = ReplayRules(continue_live=True)
        journal = RunJournal(store, shown.append, history=await History.load(store), rules=rules)
        books = Books(0, Ledger(Budget()), None, journal)
        assert books.asks is not None
        await books.asks.begin("", [], "it")
        await store.flush()
        written = Counter(type(event).__name__ for _, event in await store.read(3))
    assert {"Rewound": 1, "Asked": 1} == written == Counter(type(event).__name__ for event in shown)
    assert 2 == books.state.spend.requests == books.ledger.spend.requests
