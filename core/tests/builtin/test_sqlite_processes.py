"""`cache.sqlite` among processes: writing at once, killed, out of room. Each child is ended by its own pid."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from burnish import abc
from burnish._builtin.sqlite import open_sqlite
from burnish.testing._conformance_cache import ask, key, record

pytestmark = pytest.mark.slow

HEAD = """
import sys, trio
from pathlib import Path
from burnish import abc
from burnish._builtin.sqlite import open_sqlite
from burnish.errors import StoreError
from burnish.testing._conformance_cache import ask, batch
env = abc.Environment(base_dir=Path(sys.argv[1]))
start = int(sys.argv[2])
"""

WRITER = """
async def main():
    print("ready", flush=True)
    sys.stdin.readline()
    async with open_sqlite(None, env) as cache:
        for n in range(start, start + 100, 2):
            await cache.put_many(batch([n, n + 1]))
            await cache.put_many(batch(range(1000, 1030), generation=start + n))
trio.run(main)
"""

ENDLESS = """
async def put(cache, first):
    for n in range(first, first + 100_000, 2):
        await cache.put_many(batch([n, n + 1]))
        print(n, flush=True)

async def main():
    async with open_sqlite(None, env) as cache, trio.open_nursery() as nursery:
        for task in range(4):
            nursery.start_soon(put, cache, task * 100_000)
trio.run(main)
"""

FULL = """
import resource

async def main():
    async with open_sqlite(None, env) as cache:
        await cache.put_many(batch(range(50)))
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
        try:
            await cache.put_many(batch(range(1000, 9000)))
        except StoreError as error:
            print(error)
        print(len(await cache.get_many(ask(range(50)))), len(await cache.get_many(ask(range(1000, 9000)))))
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        await cache.put_many(batch(range(1000, 2000)))
        print(len(await cache.get_many(ask(range(1000, 9000)))))
trio.run(main)
"""


def child(script: str, path: Path, start: int) -> subprocess.Popen[str]:
    """Start a process of our own."""
    return subprocess.Popen(
        [sys.executable, "-c", HEAD + script, str(path), str(start)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


async def test_processes_create_and_write_one_file_at_once(tmp_path: Path) -> None:
    """Three processes that start on an empty directory at the same moment lose nothing and tear nothing."""
    children = [child(WRITER, tmp_path, start) for start in (0, 100, 200)]
    for process in children:
        assert process.stdout is not None
        assert "ready\n" == process.stdout.readline()
    ends = [process.stdin for process in children]
    for end in ends:
        assert end is not None
        end.write("go\n")
        end.flush()
    for process in children:
        process.communicate(timeout=60)
        assert 0 == process.returncode
    assert ["burnish-cache.db"] == [p.name for p in tmp_path.iterdir()]  # noqa: ASYNC240 - a test's own directory
    async with open_sqlite(None, abc.Environment(base_dir=tmp_path)) as cache:
        got = await cache.get_many(ask(range(300)))
        assert {key(n): record(n) for n in range(300)} == dict(got)
        assert 1 == len({r.check[:16] for r in (await cache.get_many(ask(range(1000, 1030)))).values()})


@pytest.mark.parametrize("lines", [1, 40, 400])
async def test_killed_process_loses_nothing_that_was_acknowledged(lines: int, tmp_path: Path) -> None:
    """After SIGKILL at any moment, each put that had returned is there, whole, and no batch is torn."""
    process = child(ENDLESS, tmp_path, 0)
    assert process.stdout is not None
    acknowledged = [int(process.stdout.readline()) for _ in range(lines)]
    process.kill()
    rest, _ = process.communicate(timeout=30)
    whole = rest[: rest.rfind("\n") + 1]
    acknowledged += [int(line) for line in whole.splitlines()]
    async with open_sqlite(None, abc.Environment(base_dir=tmp_path)) as cache:
        got = await cache.get_many(ask([m for n in acknowledged for m in (n, n + 1)]))
        assert 2 * len(acknowledged) == len(got)
        beyond = [m for task in range(4) for m in range(task * 100_000, task * 100_000 + 4000)]
        there = set(await cache.get_many(ask(beyond)))
        torn = [n for n in beyond[::2] if (key(n) in there) != (key(n + 1) in there)]
        assert [] == torn


def test_full_disk_is_a_store_error_and_costs_nothing_stored(tmp_path: Path) -> None:
    """Out of room, a put raises, naming file and way out; nothing of its batch is there, and later it goes on."""
    process = child(FULL, tmp_path, 0)
    out, _ = process.communicate(timeout=60)
    message, after, later = out.splitlines()
    assert 0 == process.returncode
    assert str(tmp_path / "burnish-cache.db") in message
    assert "room" in message
    assert ("50 0", "1000") == (after, later)
