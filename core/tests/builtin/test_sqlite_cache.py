"""`cache.sqlite`: one file that survives crashes, strangers, damage and company."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from burnish import abc
from burnish._builtin import _sqlite_file
from burnish._builtin._sqlite_writer import digest
from burnish._builtin.sqlite import SqliteCache, SqliteOptions, open_sqlite
from burnish._runtime.run_store import open_run_store
from burnish.errors import ConfigError, StoreError, UsageError
from burnish.testing._conformance_cache import ask, batch, key, record


def env(path: Path) -> abc.Environment:
    """Make an environment around a directory."""
    return abc.Environment(base_dir=path)


async def fill(path: Path, count: int = 40) -> Path:
    """Make a closed cache file with records 0 to `count` - 1 and give its path."""
    async with open_sqlite(None, env(path)) as cache:
        await cache.put_many(batch(range(count)))
        return cache.path


async def found(cache: SqliteCache, count: int = 40) -> int:
    """Count the records that are there, and see that each is as it was put."""
    got = await cache.get_many(ask(range(count)))
    for n in range(count):
        assert record(n) == got.get(key(n), record(n))
    return len(got)


async def test_path_is_relative_to_the_configuration(tmp_path: Path) -> None:
    """The file stands where the configuration stands, in directories that are made on the way."""
    async with open_sqlite(SqliteOptions(path="a/b/rollouts.db"), env(tmp_path)) as cache:
        await cache.put_many(batch([1]))
        assert tmp_path / "a/b/rollouts.db" == cache.path
    assert ["rollouts.db"] == [p.name for p in (tmp_path / "a/b").iterdir()]


async def test_puts_that_wait_together_share_a_commit(tmp_path: Path) -> None:
    """Many concurrent puts cost few commits, so that a full fan-out is not slowed to the disk's pace."""
    async with open_sqlite(None, env(tmp_path)) as cache:
        async with trio.open_nursery() as nursery:
            for n in range(100):
                nursery.start_soon(cache.put_many, batch([n]))
        assert 100 == await found(cache, 100)
        assert cache.commits < 20


async def test_old_records_are_no_answer(tmp_path: Path) -> None:
    """A record older than max_age is absent, one that is not is served; without max_age nothing ages."""
    await fill(tmp_path)
    created = record(20).created
    async with open_sqlite(SqliteOptions(max_age=5.0), env(tmp_path), now=lambda: created + 5.0) as cache:
        assert {key(n) for n in range(20, 40)} == set(await cache.get_many(ask(range(40))))
    async with open_sqlite(None, env(tmp_path), now=lambda: created + 1e9) as cache:
        assert 40 == await found(cache)


@pytest.mark.parametrize("age", [0, -1.0])
def test_impossible_age_is_refused(age: float) -> None:
    """A maximal age of nothing would be a cache that never answers: it is an error."""
    with pytest.raises(ConfigError, match="max_age"):
        SqliteOptions(max_age=age)


@pytest.mark.parametrize("column", ["body", "fingerprint", "created", "digest"])
async def test_damaged_row_reads_as_absent(column: str, tmp_path: Path) -> None:
    """A row in which anything changed is no answer; the others are, and putting it again mends it."""
    path = await fill(tmp_path)
    with sqlite3.connect(path) as raw:
        raw.execute(f"UPDATE rollout SET {column} = ? WHERE key = ?", (1.5 if column == "created" else b"x", key(7)))
    raw.close()
    async with open_sqlite(None, env(tmp_path)) as cache:
        with capture_logs() as logs:
            assert 39 == await found(cache)
        assert [str(path)] == [entry["file"] for entry in logs if "damaged rows" in entry["event"]]
        await cache.put_many(batch([7]))
        assert 40 == await found(cache)


def text_file(path: Path) -> None:
    path.write_text("notes of mine\n" * 50)


def other_database(path: Path) -> None:
    raw = sqlite3.connect(path)
    raw.executescript("CREATE TABLE mine (x); INSERT INTO mine VALUES (1);")
    raw.close()


def later_schema(path: Path) -> None:
    trio.run(fill, path.parent)
    raw = sqlite3.connect(path)
    raw.execute(f"PRAGMA user_version = {_sqlite_file.SCHEMA + 1}")
    raw.close()


def cut_in_half(path: Path) -> None:
    trio.run(fill, path.parent)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def cut_in_header(path: Path) -> None:
    trio.run(fill, path.parent)
    path.write_bytes(path.read_bytes()[:50])


def garbage_inside(path: Path) -> None:
    trio.run(fill, path.parent)
    whole = bytearray(path.read_bytes())
    whole[4096:8192] = b"\xa5" * 4096
    path.write_bytes(whole)


def no_table(path: Path) -> None:
    trio.run(fill, path.parent)
    raw = sqlite3.connect(path)
    raw.execute("DROP TABLE rollout")
    raw.close()


def schema_of_no_utf8(path: Path) -> None:
    trio.run(fill, path.parent)
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA writable_schema = ON")
    raw.execute("UPDATE sqlite_master SET name = CAST(x'ff' AS TEXT), sql = 'no sql' WHERE name = 'rollout'")
    raw.commit()
    raw.close()


@pytest.mark.parametrize(
    "spoil",
    [
        *(text_file, other_database, later_schema, cut_in_half, cut_in_header, garbage_inside, no_table),
        schema_of_no_utf8,
    ],
)
def test_unusable_file_is_left_alone(spoil: Callable[[Path], None], tmp_path: Path) -> None:
    """A foreign, later or damaged file is named in a warning and kept byte for byte; the file beside it is used, and
    found again by the next run."""
    path = tmp_path / "burnish-cache.db"
    spoil(path)
    before = path.read_bytes()

    async def use(expected: int) -> None:
        with capture_logs() as logs:
            async with open_sqlite(None, env(tmp_path)) as cache:
                assert tmp_path / "burnish-cache.1.db" == cache.path
                assert expected == await found(cache)
                await cache.put_many(batch(range(40)))
        warnings = [entry for entry in logs if entry["log_level"] == "warning"]
        assert [str(path)] == [entry["file"] for entry in warnings]
        assert str(path) in warnings[0]["event"]

    trio.run(use, 0)
    trio.run(use, 40)
    assert before == path.read_bytes()


async def test_second_file_may_be_unusable_too(tmp_path: Path) -> None:
    """The first usable file beside the one asked for is taken, and an empty one is as good as none."""
    for name in ("burnish-cache.db", "burnish-cache.1.db"):
        text_file(tmp_path / name)
    (tmp_path / "burnish-cache.2.db").touch()
    async with open_sqlite(None, env(tmp_path)) as cache:
        assert "burnish-cache.2.db" == cache.path.name


async def test_damage_met_later_moves_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a file too large to be read through at opening, damage is met in use: what can be read is served, and what is
    put goes into a file beside it."""
    path = await fill(tmp_path, 400)
    whole = bytearray(path.read_bytes())
    pages = len(whole) // 4096
    whole[4096 * (pages // 2) :] = b"\xa5" * (len(whole) - 4096 * (pages // 2))
    path.write_bytes(whole)
    monkeypatch.setattr(_sqlite_file, "CHECKED_BYTES", 0)
    with capture_logs() as logs:
        async with open_sqlite(None, env(tmp_path)) as cache:
            assert path == cache.path
            assert 0 <= await found(cache, 400) < 400
            for n in range(0, 400, 40):
                await cache.put_many(batch(range(n, n + 40)))
            assert tmp_path / "burnish-cache.1.db" == cache.path
            assert 0 < await found(cache, 400)
    assert any("is damaged" in entry["event"] and entry["file"] == str(path) for entry in logs)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_is_ever_served(data: Any, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Cut at any length or changed in any place, a file never gives a wrong record, never raises, and a cache works."""
    original = tmp_path / "burnish-cache.db"
    if not original.exists():
        trio.run(fill, tmp_path)
    spoilt = bytearray(original.read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        spoilt[data.draw(st.integers(0, len(spoilt) - 1))] ^= data.draw(st.integers(1, 255))
    del spoilt[data.draw(st.integers(0, len(spoilt)) | st.just(len(spoilt))) :]
    directory = tmp_path_factory.mktemp("spoilt")
    (directory / "burnish-cache.db").write_bytes(spoilt)

    async def use() -> None:
        async with open_sqlite(None, env(directory)) as cache:
            await found(cache)
            await cache.put_many(batch(range(40)))
            assert 40 == await found(cache)

    with capture_logs():
        trio.run(use)


async def test_unusable_place_is_a_store_error(tmp_path: Path) -> None:
    """A path where no file can be made is named, with what to do about it."""
    (tmp_path / "file").touch()
    (tmp_path / "folder.db").mkdir()
    for path in ("file/cache.db", "folder.db"):
        with pytest.raises(StoreError, match="name another `path`") as caught:
            async with open_sqlite(SqliteOptions(path=path), env(tmp_path)):
                pass
        assert str(tmp_path / path) == caught.value.path
        assert str(tmp_path / path) in str(caught.value)


async def test_lock_of_another_process_is_waited_for(tmp_path: Path) -> None:
    """While another connection writes, a put waits in its thread and then succeeds; reads go on meanwhile."""
    path = await fill(tmp_path)
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("BEGIN IMMEDIATE")
    async with open_sqlite(None, env(tmp_path)) as cache:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cache.put_many, batch([100]))
            await trio.sleep(0.03)
            assert 40 == await found(cache)
            assert {} == dict(await cache.get_many(ask([100])))
            raw.execute("COMMIT")
            raw.close()
        assert 1 == len(await cache.get_many(ask([100])))


async def test_lock_that_stays_is_a_store_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that nobody gives up ends in an error that names the file; the cache works once the lock is gone."""
    path = await fill(tmp_path)
    monkeypatch.setattr(_sqlite_file, "PATIENCE", 0.02)
    monkeypatch.setattr(_sqlite_file, "BUSY_TIMEOUT", 0.01)
    raw = sqlite3.connect(path, isolation_level=None)
    async with open_sqlite(None, env(tmp_path)) as cache:
        raw.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked") as caught:
            await cache.put_many(batch([100]))
        assert str(path) == caught.value.path
        raw.close()
        await cache.put_many(batch([100]))


async def test_cancelled_puts_are_still_committed(tmp_path: Path) -> None:
    """A cancelled put ends at once; closing, cancelled too, commits what was queued: paid answers are not lost."""
    path = await fill(tmp_path)
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("BEGIN IMMEDIATE")
    async with trio.open_nursery() as nursery, open_sqlite(None, env(tmp_path)) as cache:
        for n in range(100, 110):
            nursery.start_soon(cache.put_many, batch([n]))
        await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
        raw.execute("COMMIT")
        raw.close()
    async with open_sqlite(None, env(tmp_path)) as cache:
        assert 10 == len(await cache.get_many(ask(range(100, 110))))


async def test_closed_cache_says_so(tmp_path: Path) -> None:
    """A cache used after its block is the caller's mistake, and named as such."""
    async with open_sqlite(None, env(tmp_path)) as cache:
        pass
    assert f"<SqliteCache {cache.path} (closed)>" == repr(cache)
    with pytest.raises(UsageError, match="closed"):
        await cache.get_many(ask([1]))
    with pytest.raises(UsageError, match="closed"):
        await cache.put_many(batch([1]))


async def test_calls_that_wait_when_it_is_closed_end(tmp_path: Path) -> None:
    """A call that had begun when the cache was closed either works or says so; none waits for ever."""
    ended: list[str] = []

    async def use(call: Callable[[], Awaitable[object]]) -> None:
        try:
            await call()
            ended.append("worked")
        except UsageError as error:
            ended.append("said so" if "closed" in str(error) else str(error))

    async with trio.open_nursery() as nursery, open_sqlite(None, env(tmp_path)) as cache:
        for n in range(4):
            nursery.start_soon(use, partial(cache.put_many, batch([n])))
            nursery.start_soon(use, partial(cache.get_many, ask([n])))
        await trio.lowlevel.checkpoint()
    assert 8 == ended.count("worked") + ended.count("said so")


async def test_record_that_is_no_text_is_refused_alone(tmp_path: Path) -> None:
    """A broken batch raises for its own caller; batches that share its commit are stored."""
    broken = abc.CachePut(records=(record(1), abc.CacheRecord(key=key(2), check="", body=None)))  # type: ignore[arg-type]
    async with open_sqlite(None, env(tmp_path)) as cache:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cache.put_many, batch([5]))
            with pytest.raises(UsageError, match="text"):
                await cache.put_many(broken)
        assert {key(5)} == set(await cache.get_many(ask([1, 2, 5])))


async def test_a_run_store_is_no_damaged_cache(tmp_path: Path) -> None:
    """Named by mistake it is called what it is, left as it is, and a file beside it is used."""
    async with open_run_store(tmp_path / "run.db"):
        pass
    before = (tmp_path / "run.db").read_bytes()
    with capture_logs() as logs:
        async with open_sqlite(SqliteOptions(path="run.db"), env(tmp_path)) as cache:
            assert "run.1.db" == cache.path.name
    assert ["is the run store of a run, not a cache"] == [
        line["event"].split(";")[0].partition("run.db ")[2] for line in logs if line["log_level"] == "warning"
    ]
    assert before == (tmp_path / "run.db").read_bytes()


def trace_of(n: int, size: int = 4000) -> abc.CacheRecord:
    """Make the record of a trace that no compression makes small."""
    body = random.Random(n).randbytes(size).hex()
    return abc.CacheRecord(key=key(n) + abc.TRACE_KEY, check="0" * 32, body=body, created=1000.0 + n)


def used(path: Path) -> int:
    """Count the bytes of traces in a file."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT LENGTH(body) FROM rollout WHERE key LIKE '%:trace'").fetchall()
    return sum(size for (size,) in rows)


async def test_the_oldest_traces_make_room(tmp_path: Path) -> None:
    """Beyond `max_trace_bytes` the oldest traces go, whoever wrote them; every score stays."""
    options = SqliteOptions(max_trace_bytes=50_000)
    for start in (0, 20):
        async with open_sqlite(options, env(tmp_path)) as cache:
            for n in range(start, start + 20):
                await cache.put_many(abc.CachePut(records=(record(n), trace_of(n))))
            assert start + 20 == await found(cache, start + 20)
            keys = tuple(key(n) + abc.TRACE_KEY for n in range(40))
            left = sorted(await cache.get_many(abc.CacheGet(keys=keys)))
    assert left == sorted(keys[40 - len(left) :])
    assert 40_000 < used(cache.path) <= 50_000 + 50_000 // 16
    with pytest.raises(ConfigError, match=r"max_trace_bytes of cache\.sqlite must be above 0"):
        SqliteOptions(max_trace_bytes=0)


@pytest.mark.parametrize("body", ["x" * 1024, "x" * 1025, "é\ud800" * 9000, "\x00" * 70_000], ids=len)
async def test_long_bodies_are_packed(body: str, tmp_path: Path) -> None:
    """From 1 KiB on a body is compressed in the file and reads as it was; one that is short stands as it is."""
    entry = attrs.evolve(record(0), body=body)
    async with open_sqlite(None, env(tmp_path)) as cache:
        await cache.put_many(abc.CachePut(records=(entry,)))
        assert {entry.key: entry} == await cache.get_many(abc.CacheGet(keys=(entry.key,)))
    with contextlib.closing(sqlite3.connect(cache.path)) as connection:
        (size,) = connection.execute("SELECT LENGTH(body) FROM rollout").fetchone()
    assert (size == 1024) if len(body) == 1024 else (size < len(body) // 10)


async def test_a_file_from_before_packing_is_read(tmp_path: Path) -> None:
    """Bodies that an earlier version wrote, without an index of traces, are answers as before."""
    entry = attrs.evolve(record(0), body="{" + " " * 5000 + "}")
    path = await fill(tmp_path, 1)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        raw = entry.body.encode()
        stamp = digest(entry.key.encode(), entry.check.encode(), raw, entry.created)
        connection.execute("UPDATE rollout SET body = ?, digest = ?", (raw, stamp))
        connection.execute("DROP INDEX traces")
    async with open_sqlite(None, env(tmp_path)) as cache:
        assert path == cache.path
        assert {entry.key: entry} == await cache.get_many(abc.CacheGet(keys=(entry.key,)))
