"""The event table of a run: one SQLite file, written in grouped commits, the only authority on what happened."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio

from burnish._model.codec import dumps, loads
from burnish._model.events import CandidateRegistered, Event, Rewound, RolloutLanded
from burnish._model.trace import Trace
from burnish._runtime.intact import MEND, WHOLE, check, damaged, digest_of, is_damage, is_whole
from burnish._runtime.store_file import Guard, check_ours, connect_for_reading, open_file
from burnish.errors import StoreError

_WITH_TRACES = "SELECT e.n, e.body, t.body FROM events e LEFT JOIN traces t USING (n)"

_Row = tuple[int, float, str, str | None, str | None, str, str | None]


class RunStore:
    """Appends events in order and gives them back.

    `append` takes a number at once and never waits; `flush` returns when everything appended so far is committed. While
    one commit runs, others gather for the next: many rollouts share one. Committed events survive kill -9 (WAL,
    synchronous=NORMAL).
    """

    def __init__(self, path: Path | None, clock: Callable[[], float] = lambda: 0.0) -> None:
        self.path = path
        self.clock = clock
        """Seconds that the run has taken so far: noted with each event."""
        self._pending: list[_Row] = []
        self._next = 1
        self._committed = 0
        self._indexed = False
        self._committing = False
        self._waiting: list[tuple[int, trio.lowlevel.Task]] = []
        """Who waits for a commit, with the number of the last event that it waits for."""
        self._thread = trio.CapacityLimiter(1)
        self._decoding = trio.CapacityLimiter(1)
        self._grown = trio.Event()
        self._connection: sqlite3.Connection | None = None

    @property
    def appended(self) -> int:
        """Number of the last event that was taken in."""
        return self._next - 1

    @property
    def committed(self) -> int:
        """Number of the last event that is safe."""
        return self._committed

    def append(self, event: Event) -> int:
        """Take an event in; gives its number, from 1 on."""
        number, trace = self._next, None
        if isinstance(event, RolloutLanded) and event.record.trace is not None:  # apart: it is most of it, rarely read
            trace = dumps(event.record.trace)
            event = attrs.evolve(event, record=event.record.without_trace())
        key, step = getattr(event, "key", None), getattr(event, "step", None)
        row = (number, float(self.clock()), type(event).__name__, key, step, dumps(event, Event), trace)
        self._pending.append(row)
        self._next += 1  # not for an event that could not be written: `flush` would wait for it
        return number

    async def flush(self) -> None:
        """Commit what was appended: one of the tasks that wait commits for all. Cancellation waits for it.

        Raises `StoreError` where the file cannot be written; what is pending then is taken along by the next flush.
        """
        wanted = self._next - 1
        while self._committed < wanted:
            if self._committing:
                self._waiting.append((wanted, trio.lowlevel.current_task()))
                await trio.lowlevel.wait_task_rescheduled(_wait_on)
            else:
                await self._commit_pending()

    async def _commit_pending(self) -> None:
        batch: list[_Row] = []
        self._committing = True
        try:
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()  # all that runs in this turn of the loop goes into one commit
                batch, self._pending = self._pending, []
                await trio.to_thread.run_sync(self._commit, batch, limiter=self._thread)
            self._committed = batch[-1][0]
        except BaseException:
            self._pending = batch + self._pending
            raise
        finally:
            self._committing = False
            self._wake()
        grown, self._grown = self._grown, trio.Event()
        grown.set()

    def _wake(self) -> None:
        """Let those go on whose events are safe, and one of the others, who commits for them."""
        safe = [task for wanted, task in self._waiting if wanted <= self._committed]
        self._waiting = [(wanted, task) for wanted, task in self._waiting if wanted > self._committed]
        if self._waiting:
            safe.append(self._waiting.pop(0)[1])
        for task in safe:
            trio.lowlevel.reschedule(task)

    async def wait_beyond(self, number: int) -> None:
        """Wait until an event after this number is committed."""
        while self._committed <= number:
            await self._grown.wait()

    async def read(self, after: int, limit: int = 500) -> list[tuple[int, Event]]:
        """Give committed events after a number, in order."""
        rows = await trio.to_thread.run_sync(self._select, after, limit, limiter=self._thread)
        # 500 landings take 0.1 s to decode: not on the loop, and not where the next commit waits for its turn
        return await trio.to_thread.run_sync(_decoded, rows, limiter=self._decoding)

    def _commit(self, rows: Sequence[_Row]) -> None:
        with self._guard() as connection, connection:
            signed = [(*row[:-1], digest_of(row)) for row in rows]
            connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", signed)
            traces = [(row[0], row[-1]) for row in rows if row[-1] is not None]
            connection.executemany("INSERT INTO traces VALUES (?, ?)", traces)

    def _select(self, after: int, limit: int) -> list[tuple[int, str, str | None]]:
        with self._guard() as connection:
            cursor = connection.execute(f"{_WITH_TRACES} WHERE e.n > ? ORDER BY e.n LIMIT ?", (after, limit))
            return cursor.fetchall()

    async def verify(self) -> None:
        """Check that all events are there as they were written. Raises `StoreError` where they are not."""

        def verify() -> None:
            with self._guard() as connection:
                check(connection, self.path)

        await trio.to_thread.run_sync(verify, limiter=self._thread)

    async def query(self, sql: str, *values: Any) -> list[Any]:
        """Give the rows of a query. Raises `StoreError` where the file cannot be read."""

        def select() -> list[Any]:
            with self._guard() as connection:
                return connection.execute(sql, values).fetchall()

        return await trio.to_thread.run_sync(select, limiter=self._thread)

    async def index_keys(self) -> None:
        """Make the table `keys` of the results that are here now, by key and number.

        Made once, when first needed, and not kept up: a run that never begins again need not pay for it.
        """

        def index() -> None:  # in the one thread of the store: who asks meanwhile waits for all of it
            if not self._indexed:
                with self._guard() as connection, connection:
                    connection.execute(
                        "CREATE TEMP TABLE IF NOT EXISTS keys (key TEXT, n INTEGER, PRIMARY KEY (key, n)) WITHOUT ROWID"
                    )
                    connection.execute(
                        "INSERT OR IGNORE INTO keys SELECT key, n FROM events WHERE type = 'RolloutLanded'"
                    )
                self._indexed = True

        if not self._indexed:
            await trio.to_thread.run_sync(index, limiter=self._thread)

    def _guard(self) -> Guard:
        if self._connection is None:
            raise StoreError("the run store is closed", path=str(self.path))
        return Guard(self._connection, self.path)

    def _open(self, read_only: bool = False) -> None:
        self._connection, last = open_file(self.path, read_only)
        self._next, self._committed = last + 1, last

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _wait_on(_: Any) -> trio.lowlevel.Abort:
    """Let a cancelled task wait for its commit."""
    return trio.lowlevel.Abort.FAILED


def _decoded(rows: Sequence[tuple[int, str, str | None]]) -> list[tuple[int, Event]]:
    return [(number, decoded(body, trace)) for number, body, trace in rows]


def decoded(body: str, trace: str | None = None) -> Event:
    """Read an event back, with the trace that was kept apart. Raises `StoreError` where either is damaged."""
    event: Event = loads(body, Event)  # type: ignore[arg-type]
    if trace is None or not isinstance(event, RolloutLanded):
        return event
    return attrs.evolve(event, record=attrs.evolve(event.record, trace=loads(trace, Trace)))


REWINDS = "SELECT n, body FROM events WHERE type = 'Rewound' ORDER BY n"


def dropped_ranges(rewinds: Sequence[tuple[int, str]]) -> list[range]:
    """Give the numbers of the events that later rewinds have dropped, of the rows that `REWINDS` finds."""
    found = []
    for number, body in rewinds:
        event = decoded(body)
        assert isinstance(event, Rewound)
        found.append(range(event.to + 1, number))
    return found


@asynccontextmanager
async def open_run_store(path: Path | None, *, read_only: bool = False) -> AsyncIterator[RunStore]:
    """Open the run store at `path` (None: in memory); what is appended is committed before it closes."""
    store, failed = RunStore(path), True
    opening = partial(store._open, read_only=True) if read_only else store._open
    await trio.to_thread.run_sync(opening, limiter=store._thread)
    try:
        yield store
        failed = False
    finally:
        with trio.CancelScope(shield=True):
            try:
                await store.flush()
            except StoreError:
                if not failed:  # else what went wrong first is the news
                    raise
            finally:
                await trio.to_thread.run_sync(store._close, limiter=store._thread)


def read_events(path: Path) -> Iterator[Event]:
    """Read a run's events, in order, without opening it for writing and without those that a rewind has dropped.

    Raises `StoreError` for a damaged file, one of another program, or one that a newer burnish wrote.
    """
    try:
        connection = connect_for_reading(path)
        try:
            check_ours(connection, str(path))
            dropped = dropped_ranges(connection.execute(REWINDS).fetchall())
            for row in connection.execute(f"SELECT {WHOLE} ORDER BY e.n"):
                number, *_, body, trace, _ = row
                if not is_whole(row):
                    raise damaged(path, f"event {number} is not what was written")
                event = decoded(body, trace)
                if isinstance(event, CandidateRegistered) or not any(number in numbers for numbers in dropped):
                    yield event  # an index is never given twice, so its candidate stays
        finally:
            connection.close()
    except sqlite3.Error as error:
        step = MEND if is_damage(error) else "name a directory that holds a run"
        raise StoreError(f"the run store {path} cannot be read: {error}; {step}", path=str(path)) from error
