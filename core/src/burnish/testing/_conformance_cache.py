"""Whether a cache keeps its word: what it may not lose, mix up, tear or hold up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import trio

from burnish import abc
from burnish._model.canonical import hash64, hex64
from burnish._runtime.owed import records_of
from burnish.testing._conformance_base import (
    Conformance,
    check_loop_is_free,
    check_nothing_is_left,
    expect,
    fail,
    needs,
)

ODD_BODIES = (
    "",
    "{}",
    '{"a":"\\n"}',
    "ASCII",
    "grüße, 日本語, עברית, 🦀🧑‍🚀",
    "nul \x00 and other controls \x01\x1f\x7f",
    "line\r\nbreaks \u2028 and \x85",
    "half a pair \ud83d",
    "'; DROP TABLE rollout; --",
    "%s {0} \\ \" '",
)
"""Bodies that a model's reply can lead to."""


def key(n: int) -> str:
    """Give the key of test record `n`: in the form of real ones."""
    return ":".join(hex64(hash64([part, n])) for part in ("baseline", "candidate", "example", "salt"))


def record(n: int, body: str = "", generation: int = 0) -> abc.CacheRecord:
    """Make test record `n`; those of one generation differ from those of another in all but the key."""
    check = hex64(generation) + hex64(n)
    return abc.CacheRecord(key=key(n), check=check, body=body or f'{{"n":{n}}}', created=1e9 + n + generation / 8)


def batch(numbers: Sequence[int] | range, generation: int = 0) -> abc.CachePut:
    """Make a batch of test records."""
    return abc.CachePut(records=tuple(record(n, generation=generation) for n in numbers))


def ask(numbers: Sequence[int] | range) -> abc.CacheGet:
    """Ask for test records."""
    return abc.CacheGet(keys=tuple(key(n) for n in numbers))


class CacheConformance(Conformance[abc.Cache], kind=frozenset({"persistent", "shared"})):
    """What every `burnish.abc.Cache` owes. Give it `open(self, tmp_path)`; each `tmp_path` is an empty cache.

    Capabilities: `persistent` (opened again with one `tmp_path` it has its records), `shared` (several instances may be
    open with one `tmp_path`).
    """

    async def test_is_a_cache(self, tmp_path: Path) -> None:
        """What `open` gives has the methods of the kind."""
        async with self.open(tmp_path) as cache:
            expect(True, isinstance(cache, abc.Cache), f"{type(cache).__name__} lacks a method of burnish.abc.Cache")

    async def test_new_cache_knows_nothing(self, tmp_path: Path) -> None:
        """A new cache answers no key, and empty requests are fine."""
        async with self.open(tmp_path) as cache:
            expect({}, dict(await cache.get_many(ask(range(3)))), "a new cache invents records")
            await cache.put_many(abc.CachePut(records=()))
            expect({}, dict(await cache.get_many(abc.CacheGet(keys=()))), "an empty request has an answer")

    async def test_gives_back_what_was_put(self, tmp_path: Path) -> None:
        """Every field comes back as it was, whatever a model wrote."""
        records = [record(n, body) for n, body in enumerate(ODD_BODIES)]
        records.append(record(99, "large 🦀 " * 200_000))
        async with self.open(tmp_path) as cache:
            await cache.put_many(abc.CachePut(records=tuple(records)))
            found = await cache.get_many(abc.CacheGet(keys=tuple(r.key for r in records)))
            for put in records:
                expect(put, found.get(put.key), "a record changed: a paid answer is lost, or another one is served")

    async def test_gives_what_was_asked(self, tmp_path: Path) -> None:
        """A request is answered with the records of its keys: no other, none missing, each under its own key."""
        async with self.open(tmp_path) as cache:
            await cache.put_many(batch(range(200)))
            numbers = [150, 3, 999, 77, 3, 1000, 0]
            found = await cache.get_many(ask(numbers))
            expect({key(n): record(n) for n in (150, 3, 77, 0)}, dict(found), "the answer is not what was asked for")

    async def test_answers_with_records_alone(self, tmp_path: Path) -> None:
        """An answer is a mapping from keys to their own records; what is not there is left out, and not None."""
        async with self.open(tmp_path) as cache:
            await cache.put_many(batch(range(3)))
            for numbers in ((0, 2), (1, 7), (7, 8)):
                answer = await cache.get_many(ask(numbers))
                try:
                    records_of(answer, ask(numbers).keys)
                except TypeError as error:
                    fail(f"a run goes on without a cache that answers so: {error}")

    async def test_keeps_similar_keys_apart(self, tmp_path: Path) -> None:
        """Keys that differ in one digit, or in the order of their parts, are different keys."""
        parts = [hex64(n) for n in (1, 2, 3, 4)]
        keys = [":".join(parts), ":".join(reversed(parts)), ":".join(parts)[:-1] + "5", "1" + ":".join(parts)[1:]]
        records = tuple(abc.CacheRecord(key=k, check="0" * 32, body=f'"{i}"') for i, k in enumerate(keys))
        async with self.open(tmp_path) as cache:
            await cache.put_many(abc.CachePut(records=records))
            for put in records:
                found = await cache.get_many(abc.CacheGet(keys=(put.key,)))
                expect({put.key: put}, dict(found), "another rollout's answer is served")

    async def test_takes_many_keys_at_once(self, tmp_path: Path) -> None:
        """A request may be larger than what one statement or packet of the store holds."""
        async with self.open(tmp_path) as cache:
            await cache.put_many(batch(range(1200)))
            found = await cache.get_many(ask(range(1500)))
            expect(1200, len(found), "a large request loses records")

    async def test_last_writer_wins(self, tmp_path: Path) -> None:
        """A record replaces the one of its key as a whole, in one batch too."""
        async with self.open(tmp_path) as cache:
            await cache.put_many(batch([1, 2], generation=1))
            await cache.put_many(batch([2], generation=2))
            found = await cache.get_many(ask([1, 2]))
            expect([record(1, generation=1), record(2, generation=2)], [found[key(n)] for n in (1, 2)], "not replaced")
            twice = (record(3, generation=1), record(3, generation=2))
            await cache.put_many(abc.CachePut(records=twice))
            expect(twice[1], (await cache.get_many(ask([3])))[key(3)], "of two records in a batch the first one won")

    async def test_put_is_seen_once_it_returns(self, tmp_path: Path) -> None:
        """Whoever put a record finds it, while many others put theirs."""
        async with self.open(tmp_path) as cache, trio.open_nursery() as nursery:

            async def put_and_get(n: int) -> None:
                for generation in range(5):
                    await cache.put_many(batch([n], generation))
                    found = await cache.get_many(ask([n]))
                    expect(record(n, generation=generation), found.get(key(n)), "a returned put is not there")

            for n in range(20):
                nursery.start_soon(put_and_get, n)

    async def test_loses_no_concurrent_put(self, tmp_path: Path) -> None:
        """Puts of many tasks at once are all there in the end."""
        async with self.open(tmp_path) as cache:
            async with trio.open_nursery() as nursery:
                for start in range(0, 400, 10):
                    nursery.start_soon(cache.put_many, batch(range(start, start + 10)))
            expect(400, len(await cache.get_many(ask(range(400)))), "records of concurrent puts are lost")

    async def test_batch_is_never_seen_in_part(self, tmp_path: Path) -> None:
        """A reader sees all of a batch or nothing of it."""
        async with self.open(tmp_path) as cache:
            await _never_torn(cache, cache)

    async def test_refused_batch_leaves_nothing(self, tmp_path: Path) -> None:
        """Where a put raises, none of its records is stored, and the cache goes on."""
        broken = abc.CacheRecord(key=key(2), check="0" * 32, body=object())  # type: ignore[arg-type]
        async with self.open(tmp_path) as cache:
            try:
                await cache.put_many(abc.CachePut(records=(record(1), broken, record(3))))
            except Exception:
                expect({}, dict(await cache.get_many(ask([1, 3]))), "part of a refused batch is stored")
            await cache.put_many(batch([4]))
            expect(1, len(await cache.get_many(ask([4]))), "after a refused batch the cache is broken")

    async def test_never_holds_the_event_loop(self, tmp_path: Path) -> None:
        """Eight megabytes go in and out without any other task having to wait."""
        records = tuple(record(n, "x" * 65536) for n in range(128))
        async with self.open(tmp_path) as cache:

            async def work() -> None:
                await cache.put_many(abc.CachePut(records=records))
                await cache.get_many(ask(range(128)))

            await check_loop_is_free(work)

    async def test_calls_reach_a_checkpoint(self, tmp_path: Path) -> None:
        """A cancelled scope ends at each call: a run that only meets a warm cache can still be stopped."""
        async with self.open(tmp_path) as cache:
            for call in (lambda: cache.get_many(ask([1])), lambda: cache.put_many(batch([1]))):
                with trio.CancelScope() as scope:
                    scope.cancel()
                    await call()
                expect(True, scope.cancelled_caught, "a call in a cancelled scope is not ended")

    async def test_cancelled_put_is_whole_or_absent(self, tmp_path: Path) -> None:
        """However late a put is cancelled, its batch is there or not, and the cache goes on."""
        async with self.open(tmp_path) as cache:
            for generation, seconds in enumerate((0.0, 0.0001, 0.001, 0.003, 0.01)):
                numbers = range(1000 * generation, 1000 * generation + 100)
                with trio.move_on_after(seconds):
                    await cache.put_many(batch(numbers))
                count = len(await cache.get_many(ask(numbers)))
                if count not in (0, 100):
                    fail(f"a cancelled batch is torn: {count} of 100 records are there")
                await cache.put_many(batch([generation], generation))
                expect(1, len(await cache.get_many(ask([generation]))), "after a cancelled put the cache is broken")

    async def test_leaves_nothing_running(self, tmp_path: Path) -> None:
        """After closing there are no tasks, threads or files of it, cancelled or not."""
        async with self.open(tmp_path) as cache:
            await cache.put_many(batch([0]))
        async with check_nothing_is_left():
            for n in range(3):
                async with self.open(tmp_path) as cache:
                    await cache.put_many(batch([n]))
                    await cache.get_many(ask([n]))
            with trio.move_on_after(0.01):
                async with self.open(tmp_path) as cache:
                    await trio.sleep_forever()

    @needs("persistent")
    async def test_reopened_cache_has_its_records(self, tmp_path: Path) -> None:
        """What was put is there when the cache is opened again, and another directory has none of it."""
        first, other = tmp_path / "one", tmp_path / "two"
        first.mkdir()
        other.mkdir()
        odd = tuple(record(n + 100, body) for n, body in enumerate(ODD_BODIES))
        async with self.open(first) as cache:
            await cache.put_many(batch(range(50)))
            await cache.put_many(abc.CachePut(records=odd))
        async with self.open(first) as cache:
            expect(batch(range(50)).records, await _all(cache, range(50)), "records are lost by closing")
            expect(odd, await _all(cache, range(100, 100 + len(odd))), "records are changed by closing")
        async with self.open(other) as cache:
            expect({}, dict(await cache.get_many(ask(range(50)))), "records of another directory are served")

    @needs("persistent")
    async def test_returned_put_survives_a_cancelled_run(self, tmp_path: Path) -> None:
        """A run that is cancelled keeps what it was told is stored."""
        with trio.CancelScope() as scope:
            async with self.open(tmp_path) as cache:
                await cache.put_many(batch(range(20)))
                scope.cancel()
                await trio.lowlevel.checkpoint()
        async with self.open(tmp_path) as cache:
            expect(20, len(await cache.get_many(ask(range(20)))), "a cancelled run loses what it has paid for")

    @needs("shared")
    async def test_instances_see_each_other(self, tmp_path: Path) -> None:
        """What one instance put, another one open at the same time finds."""
        async with self.open(tmp_path) as one, self.open(tmp_path) as two:
            await one.put_many(batch(range(10)))
            expect(10, len(await two.get_many(ask(range(10)))), "another instance's records are not found")
            await two.put_many(batch(range(5), generation=1))
            expect(record(4, generation=1), (await one.get_many(ask([4])))[key(4)], "another one's update is not seen")

    @needs("shared")
    async def test_instances_open_and_write_at_once(self, tmp_path: Path) -> None:
        """Several instances that open an empty cache at the same moment all work, and lose nothing."""

        async def use(start: int) -> None:
            async with self.open(tmp_path) as cache:
                for n in range(start, start + 10):
                    await cache.put_many(batch([n]))

        async with trio.open_nursery() as nursery:
            for start in range(0, 60, 10):
                nursery.start_soon(use, start)
        if "persistent" in self.capabilities:
            async with self.open(tmp_path) as cache:
                expect(60, len(await cache.get_many(ask(range(60)))), "records of concurrent instances are lost")

    @needs("shared")
    async def test_batch_of_another_instance_is_never_seen_in_part(self, tmp_path: Path) -> None:
        """A reader in another instance sees all of a batch or nothing of it."""
        async with self.open(tmp_path) as one, self.open(tmp_path) as two:
            await _never_torn(one, two)


async def _all(cache: abc.Cache, numbers: range) -> tuple[abc.CacheRecord | None, ...]:
    found = await cache.get_many(ask(numbers))
    return tuple(found.get(key(n)) for n in numbers)


async def _never_torn(writer: abc.Cache, reader: abc.Cache, size: int = 60) -> None:
    """Write generation after generation over the same keys while others read them all."""

    async def write() -> None:
        for generation in range(1, 9):
            await writer.put_many(batch(range(size), generation))
        nursery.cancel_scope.cancel()

    async def read() -> None:
        while True:
            seen = {r.check[:16] for r in (await reader.get_many(ask(range(size)))).values()}
            if len(seen) != 1:
                fail(f"a reader saw a torn batch: records of {len(seen)} batches under keys that are written together")

    await writer.put_many(batch(range(size), 0))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        for _ in range(3):
            nursery.start_soon(read)
