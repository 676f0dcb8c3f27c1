"""The run store: order, grouped commits, and what is left after a crash, a full disk, or another program's file."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import trio
import trio.testing

from burnish import Eval, RolloutRecord, RolloutStatus, Spend
from burnish._builtin.sqlite import SqliteOptions, open_sqlite
from burnish._model.events import CandidateRegistered, Charged, Event, RolloutLanded, RunStarted, Warned
from burnish._runtime.history import find_results
from burnish._runtime.run_store import RunStore, open_run_store, read_events
from burnish._runtime.store_file import STORE_VERSION
from burnish.abc import CachePut, Environment
from burnish.errors import StoreError

from ._kit import told


def warned(number: int, size: int = 0) -> Warned:
    return Warned(kind="test", message=f"{number}" + "x" * size)


async def test_events_come_back_in_order(tmp_path: Path) -> None:
    """What was appended is given back whole, numbered from 1 on, also after reopening."""
    path = tmp_path / "run.db"
    events: list[Event] = [
        RunStarted(run="r", facts={"seed": 1}),
        CandidateRegistered(index=0, candidate=told("answer", "ä\ud83d\x00")),
        Charged(spend=Spend(metric_calls=2)),
    ]
    async with open_run_store(path) as store:
        assert [1, 2] == [store.append(event) for event in events[:2]]
        await store.flush()
        assert (2, list(enumerate(events[:2], 1))) == (store.committed, await store.read(0))
    async with open_run_store(path) as store:
        assert (2, 3) == (store.committed, store.append(events[2]))
    assert events == list(read_events(path))
    async with open_run_store(path) as store:
        assert [(3, events[2])] == await store.read(2)
        assert [(1, events[0])] == await store.read(0, limit=1)


async def test_a_store_in_memory(tmp_path: Path) -> None:
    """Without a path nothing touches the disk."""
    async with open_run_store(None) as store:
        store.append(warned(1))
        await store.flush()
        assert [(1, warned(1))] == await store.read(0)


async def test_results_are_found_by_all_who_ask_at_once(tmp_path: Path) -> None:
    """R13: the first search makes the index of keys, and those that begin meanwhile wait for the whole of it."""
    path = tmp_path / "run.db"
    scored = RolloutRecord(status=RolloutStatus.SUCCEEDED, eval=Eval(1.0))
    async with open_run_store(path) as store:
        for n in range(4):
            store.append(RolloutLanded(key=f"k{n}", candidate=0, example=n, record=scored))
    found: list[str] = []
    async with open_run_store(path, read_only=True) as store, trio.open_nursery() as nursery:

        async def search(key: str) -> None:
            found.extend(await find_results(store, [key]))

        for n in range(4):
            nursery.start_soon(search, f"k{n}")
    assert ["k0", "k1", "k2", "k3"] == sorted(found)


class Counted(RunStore):
    """Counts its commits, and holds the first until told."""

    def __init__(self, path: Path | None) -> None:
        super().__init__(path)
        self.commits: list[int] = []

    def _commit(self, rows: object) -> None:
        assert isinstance(rows, list)
        self.commits.append(len(rows))
        super()._commit(rows)


async def test_many_flushes_share_a_commit(tmp_path: Path) -> None:
    """While one commit runs, others gather for the next; every flush returns with its own event committed."""
    store = Counted(tmp_path / "run.db")
    await trio.to_thread.run_sync(store._open, limiter=store._thread)

    async def one() -> None:
        number = store.append(warned(0))
        await store.flush()
        assert store.committed >= number

    async with trio.open_nursery() as nursery:
        for _ in range(40):
            nursery.start_soon(one)
    assert 40 == sum(store.commits) == store.committed
    assert len(store.commits) <= 3
    await store.flush()
    assert 40 == sum(store.commits)
    store._close()


async def test_cancelled_flushes_lose_nothing(tmp_path: Path) -> None:
    """Cancelled before, during or after its commit: the event is committed once, by this flush or the next."""
    path = tmp_path / "run.db"
    async with open_run_store(path) as store:
        for number in range(20):
            store.append(warned(number))
            with trio.CancelScope() as scope:
                if number % 3 == 0:
                    scope.cancel()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(store.flush)
                    nursery.start_soon(store.flush)
                    if number % 3 == 1:
                        await trio.lowlevel.checkpoint()
                        nursery.cancel_scope.cancel()
        await store.flush()
        assert [warned(n) for n in range(20)] == [event for _, event in await store.read(0)]
        with trio.CancelScope() as scope:
            scope.cancel()
            store.append(warned(20))
            await store.flush()
    assert [warned(n) for n in range(21)] == list(read_events(path))


async def test_a_reader_wakes_when_something_is_committed(tmp_path: Path) -> None:
    """`wait_beyond` returns once an event after that number is safe, not when it is appended."""
    async with open_run_store(tmp_path / "run.db") as store:
        woken: list[int] = []

        async def wait() -> None:
            await store.wait_beyond(1)
            woken.append(store.committed)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            store.append(warned(1))
            await store.flush()
            store.append(warned(2))
            await trio.testing.wait_all_tasks_blocked()
            assert [] == woken
            await store.flush()
        assert [2] == woken


CRASH = """
import sys, trio
from pathlib import Path
from burnish._model.events import Warned
from burnish._runtime.run_store import open_run_store

async def main():
    async with open_run_store(Path(sys.argv[1])) as store:
        for n in range(50):
            store.append(Warned(kind="test", message=str(n)))
            await store.flush()
        store.append(Warned(kind="test", message="not flushed"))
        print("flushed", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


@pytest.mark.slow
def test_what_was_flushed_survives_kill_9(tmp_path: Path) -> None:
    """A killed process leaves every flushed event, in order, and a file that opens."""
    path = tmp_path / "run.db"
    child = subprocess.Popen([sys.executable, "-c", CRASH, str(path)], stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        assert "flushed\n" == child.stdout.readline()
        os.kill(child.pid, signal.SIGKILL)
    assert -signal.SIGKILL == child.returncode
    assert [warned(n) for n in range(50)] == list(read_events(path))


async def test_a_full_disk_is_a_store_error_and_loses_nothing(tmp_path: Path) -> None:
    """The error names the file; what could not be written is written by the next flush that can."""
    path = tmp_path / "run.db"
    async with open_run_store(path) as store:
        store.append(warned(0))
        await store.flush()
        assert store._connection is not None
        (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
        store._connection.execute(f"PRAGMA max_page_count={pages + 1}")
        store.append(warned(1, size=50_000))
        for _ in range(2):
            with pytest.raises(StoreError, match=r"run.db cannot be used: .*full.*; free space or mend") as caught:
                await store.flush()
            assert str(path) == caught.value.path
        store.append(warned(2))
        store._connection.execute("PRAGMA max_page_count=1000000")
        await store.flush()
        assert 3 == store.committed
    assert [warned(0), warned(1, size=50_000), warned(2)] == list(read_events(path))


async def test_an_event_that_cannot_be_written_takes_no_number(tmp_path: Path) -> None:
    """Its error is the one that is seen when the store closes, and what was appended before it is there."""
    path = tmp_path / "run.db"

    async def append() -> None:
        async with open_run_store(path) as store:
            assert 1 == store.append(warned(1))
            store.append(RunStarted(run="r", facts={"what": object()}))  # type: ignore[dict-item]

    with pytest.raises(TypeError, match="not JSON serializable"):
        await append()
    assert [warned(1)] == list(read_events(path))


async def test_a_path_that_cannot_be_written_is_a_store_error(tmp_path: Path) -> None:
    """A missing directory, a directory as file, a file that is no database: refused by name, and left alone."""
    text = tmp_path / "text"
    text.write_text("not a database " * 100)
    for path in (tmp_path / "missing" / "run.db", tmp_path, text):
        with pytest.raises(StoreError, match="cannot be opened") as caught:
            async with open_run_store(path):
                raise AssertionError
        assert str(path) == caught.value.path
        with pytest.raises(StoreError, match="cannot be read"):
            list(read_events(path))
    assert "not a database " * 100 == text.read_text()


async def test_a_foreign_or_newer_file_is_left_alone(tmp_path: Path) -> None:
    """Another program's database is not written into; one of a newer burnish is not guessed at."""
    foreign, marked, newer = tmp_path / "foreign.db", tmp_path / "marked.db", tmp_path / "newer.db"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()
    with sqlite3.connect(marked) as connection:
        connection.execute("PRAGMA application_id=1234")
    connection.close()
    async with open_run_store(newer) as store:
        store.append(warned(0))
    with sqlite3.connect(newer) as connection:
        connection.execute(f"PRAGMA user_version={STORE_VERSION + 1}")
    connection.close()
    cache = tmp_path / "cache.db"
    async with open_sqlite(SqliteOptions(path=str(cache)), Environment()) as open_cache:
        await open_cache.put_many(CachePut(records=()))
    cases = (
        (foreign, "a database, but not a run store"),
        (marked, "a database, but not a run store"),
        (cache, "a cache of burnish, but not a run store"),
        (newer, "upgrade burnish"),
    )
    for path, why in cases:
        before = path.read_bytes()
        with pytest.raises(StoreError, match=why) as caught:
            async with open_run_store(path):
                raise AssertionError
        with pytest.raises(StoreError, match=why):
            list(read_events(path))
        assert (str(path), before) == (caught.value.path, path.read_bytes())


async def test_any_path_can_be_read(tmp_path: Path) -> None:
    """Names with characters that mean something in a URI are names."""
    for name in ("a?b", "a#b", "a%20b", "a b"):
        path = tmp_path / name
        async with open_run_store(path) as store:
            store.append(warned(0))
        assert [warned(0)] == list(read_events(path))


async def test_a_damaged_event_is_a_store_error(tmp_path: Path) -> None:
    """A body that cannot be read is an error, never another event."""
    path = tmp_path / "run.db"
    async with open_run_store(path) as store:
        store.append(warned(0))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE events SET body = '{\"_type\": \"Nothing\"}'")
    connection.close()
    with pytest.raises(StoreError):
        list(read_events(path))


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    """Used after its block it is an error, not a hang."""
    async with open_run_store(tmp_path / "run.db") as store:
        pass
    store.append(warned(0))
    with pytest.raises(StoreError, match="the run store is closed"):
        await store.flush()
