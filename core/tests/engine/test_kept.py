"""What is left of a run that an error ended: the result in the error, the files, and the sinks' events."""

from __future__ import annotations

import inspect
import threading
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from structlog.testing import capture_logs

import burnish as b
from burnish import RunHandle, abc, errors
from burnish._builtin.jsonl import open_jsonl
from burnish._edges.request import RunRequest
from burnish._edges.run_dir import claimed
from burnish._model.events import RunEnded
from burnish._runtime.evaluator import Evaluator
from burnish._runtime.run_store import RunStore, read_events

from ._kit import Ambient, as_said, told
from ._search import Tries, program, split, tune


class Gathers:
    """A sink that keeps what it gets, slowly."""

    def __init__(self, pause: float = 0.0) -> None:
        self.pause, self.events = pause, list[Any]()

    async def deliver(self, batch: abc.Delivery) -> None:
        await trio.sleep(self.pause)
        self.events.extend(event for _, event in batch.events)


@b.inline
def no_test_gold(example: Any, prediction: Any) -> float:
    """Score as said, but no test row."""
    if str(example["q"]).startswith("test"):
        raise ValueError("no gold answer")
    return float(prediction)


@pytest.mark.parametrize("where", ["test", "strategy"])
def test_a_sink_gets_the_whole_of_a_run_that_stops(where: str, tmp_path: Path) -> None:
    """Also where the search or the test raises: the same events as the run store, the last one included."""

    async def fail(text: str) -> None:
        if where == "strategy" and text == "0.9":
            raise LookupError("a bug in the strategy")

    sink = Gathers(0.01)
    with pytest.raises((errors.MetricError, LookupError)):
        tune(
            program(), Tries("0.5", "0.9", before=fail), split(train=1, val=2, test=1),
            metric=no_test_gold, sinks=[sink], run_dir=tmp_path,
        )
    assert list(read_events(tmp_path / "run.db")) == sink.events
    assert isinstance(sink.events[-1], RunEnded)


async def test_a_sink_gets_what_a_cancelled_run_did() -> None:
    """Cancelling the surrounding scope waits for the sinks, too."""
    sink, reached = Gathers(0.01), trio.Event()

    async def hang(text: str) -> None:
        if text == "0.5":
            reached.set()
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:

        async def run() -> None:
            options: dict[str, Any] = {"metric": as_said, "budget": b.Budget(), "sinks": [sink]}
            await b.aoptimize(program(), strategy=Tries("0.5", before=hang), **options, **split(train=1, val=2))

        nursery.start_soon(run)
        await reached.wait()
        nursery.cancel_scope.cancel()
    assert 2 == sum(type(event).__name__ == "RolloutLanded" for event in sink.events)


def test_a_store_that_cannot_be_read_is_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that cannot read the run store is a sink that is behind: the run goes on and says nothing of it."""

    def unreadable(store: RunStore, after: int, limit: int) -> list[tuple[int, str]]:
        raise errors.StoreError("the run store cannot be used")

    monkeypatch.setattr(RunStore, "_select", unreadable)
    sink = Gathers()
    assert 0.5 == tune(program(), Tries("0.5"), split(train=1, val=2), sinks=[sink]).best
    assert [] == sink.events


def test_an_error_of_the_test_holds_the_winner(tmp_path: Path) -> None:
    """One bad test row costs nothing of the search: the error has the result, with or without a run directory."""
    sets = split(train=1, val=2, test=2)
    for run_dir in (None, tmp_path):
        with pytest.raises(errors.MetricError, match="no gold answer") as caught:
            tune(program(), Tries("0.5", "0.9"), sets, metric=no_test_gold, run_dir=run_dir)
        found = caught.value.result
        assert found is not None
        assert (told("answer", "0.9"), 0.1, 0.9, None) == (found.candidate, found.baseline, found.best, found.test)
        assert ("0.9", run_dir) == (found.program.leaves["answer"].instruction, found.run_dir)
        assert found.stop_reason.startswith("stopped: the metric raised ValueError: no gold answer")
        assert 6 < found.spend.metric_calls
        where = "" if run_dir is None else f" and in {tmp_path / 'best.json'}"
        assert [f"The best candidate so far is in this error's `result`{where}."] == caught.value.__notes__


def test_a_strategy_that_raises_leaves_the_best_so_far(tmp_path: Path) -> None:
    """Its own error arrives as it is, with a note; `best.json` and the end of the run are there."""

    async def fail(text: str) -> None:
        if text == "0.9":
            raise LookupError("a bug in the strategy")

    with pytest.raises(LookupError, match="a bug in the strategy") as caught:
        tune(program(), Tries("0.5", "0.9", before=fail), split(train=1, val=2), run_dir=tmp_path)
    assert [f"The best candidate so far is in {tmp_path / 'best.json'}."] == caught.value.__notes__
    assert told("answer", "0.5") == b.load(tmp_path / "best.json").candidate
    end = list(read_events(tmp_path / "run.db"))[-1]
    assert RunEnded(stop_reason="stopped: LookupError: a bug in the strategy", best=told("answer", "0.5")) == end


def test_a_full_disk_keeps_the_winner_in_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the run store takes no more, what was found before is still told."""
    opened = RunStore._open

    def small(store: RunStore) -> None:
        opened(store)
        assert store._connection is not None
        store._connection.execute("PRAGMA max_page_count=6")

    monkeypatch.setattr(RunStore, "_open", small)
    with pytest.raises(errors.StoreError, match="full") as caught:
        tune(program(), Tries("0.5", "0.6", "0.7"), split(train=1, val=60), run_dir=tmp_path)
    assert caught.value.result is not None
    assert "stopped: StoreError: the run store" in caught.value.result.stop_reason


def test_before_a_run_there_is_no_result() -> None:
    """A usage error holds none: nothing was spent."""
    with pytest.raises(errors.UsageError) as caught:
        tune(program(), Tries("0.5"), {"trainset": []})
    assert caught.value.result is None


def test_a_target_that_cannot_install_is_named() -> None:
    """Its program is the target as it was given: the result warns, and only where there is a winner to install."""

    async def act(q: Any, text: str) -> float:
        return float(text.replace("seed", "0.1"))

    given = Ambient(act)
    result = tune(given, Tries("0.5"), split(train=1, val=2))
    assert (given, told("answer", "0.5")) == (result.program, result.candidate)
    assert ["Ambient has no `install`"] == [warning.partition(":")[0] for warning in result.warnings]
    assert () == tune(given, Tries("0.05"), split(train=1, val=2)).warnings


def opens_sink(env: list[abc.Environment]) -> b.PluginManager:
    """Make a manager that knows one sink; it notes where it is opened."""

    @asynccontextmanager
    async def open_sink(options: None, given: abc.Environment) -> AsyncIterator[Gathers]:
        env.append(given)
        assert given.run_dir is not None
        assert {"burnish.lock"} == {path.name for path in given.run_dir.iterdir()}
        yield Gathers()

    class Plugin:
        @b.hookimpl
        def burnish_sinks(self) -> Iterable[b.Spec[abc.Sink]]:
            return [b.Spec(name="gathers", open=open_sink)]

    manager = b.PluginManager(discover=False)
    manager.register(Plugin())
    return manager


def test_the_run_directory_is_there_when_plugins_open(tmp_path: Path) -> None:
    """It is made and held first; where another run has it, no plugin opens at all."""
    env: list[abc.Environment] = []
    options: dict[str, Any] = {"sinks": ["gathers"], "plugins": opens_sink(env), "run_dir": tmp_path / "run"}
    tune(program(), Tries("0.5"), split(train=1), **options)
    with pytest.raises(errors.UsageError, match="holds a run already"):
        tune(program(), Tries("0.5"), split(train=1), **options)
    assert [tmp_path / "run"] == [one.run_dir for one in env]


def test_a_claim_without_a_run_leaves_nothing(tmp_path: Path) -> None:
    """A directory that was made for it goes, one that was there stays with what it held."""
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "mine.txt").write_text("mine")
    for name in ("old", "new"):
        with claimed(tmp_path / name):
            assert (tmp_path / name / "burnish.lock").exists()
            with pytest.raises(errors.StoreError, match="another process"), claimed(tmp_path / name):
                pass
    assert ["old", "old/mine.txt"] == sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*"))


def test_events_wait_only_for_a_reader() -> None:
    """Without a handle nothing is queued; a given handle ends in any case, so that its reader does too."""
    made: list[RunHandle] = []

    class Noted(RunHandle):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("burnish._edges.run.RunHandle", Noted)
        tune(program(), Tries("0.5"), split(train=1, val=2))
    assert [[]] == [list(handle.events) for handle in made]
    handle = RunHandle()
    with pytest.raises(TypeError):
        tune(program(), Tries("0.5"), split(train=1), handle=handle, run_dir=3)
    assert [] == list(handle.events)


def test_optimize_shows_its_signature() -> None:
    """What it takes is named in one place, the request, for `aoptimize` too; each has its own documentation."""
    assert inspect.signature(b.aoptimize) == inspect.signature(b.optimize)
    fields = [field.alias for field in attrs.fields(RunRequest)]
    assert fields == list(inspect.signature(b.optimize).parameters)
    assert {"trainset", "cache_salt", "handle"} <= set(inspect.signature(b.optimize).parameters)
    assert (b.optimize.__doc__ or "").startswith("Do `aoptimize` from sync code")


def test_the_engine_can_be_set_from_optimize() -> None:
    """`failure_score` and `cache_salt` reach the engine; so does `rollout_timeout`, in seconds."""
    cache = b.RolloutCache()

    async def act(q: Any, text: str) -> float:
        if text == "0.5":
            raise ValueError("no answer")
        if text == "0.7":
            await trio.sleep_forever()
        return float(text)

    def run(**options: Any) -> b.Result:
        module = program()
        module.act = act
        result: b.Result = tune(module, Tries("0.5", "0.7"), split(train=1, val=2), cache=cache, **options)
        return result

    high = run(failure_score=0.3, rollout_timeout=0.01)
    assert (0.1, 0.3, told("answer", "0.5")) == (high.baseline, high.best, high.candidate)
    salted = run(failure_score=0.05, rollout_timeout=0.01, cache_salt=7)
    assert (0, b.Candidate()) == (salted.spend.cache_hits, salted.candidate)


async def test_events_are_decoded_beside_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither reading nor decoding for a sink, nor writing `best.json` and the lock file, runs on the loop."""
    loop, threads = threading.get_ident(), dict[str, set[int]]()

    def noted(name: str, call: Any) -> Any:
        def wrapper(*args: Any, **options: Any) -> Any:
            threads.setdefault(name, set()).add(threading.get_ident())
            return call(*args, **options)

        return wrapper

    from burnish._edges import course
    from burnish._runtime import run_store

    places: Mapping[str, Any] = {"save": course, "write_lock": course, "loads": run_store}
    for name, module in places.items():
        monkeypatch.setattr(module, name, noted(name, getattr(module, name)))
    options: dict[str, Any] = {"metric": as_said, "budget": b.Budget(), "sinks": [Gathers()], "run_dir": tmp_path}
    await b.aoptimize(program(), strategy=Tries("0.5"), **options, **split(train=1, val=2))
    assert set(places) == set(threads)
    assert [] == [name for name, seen in threads.items() if loop in seen]


def test_an_engine_shows_what_it_takes() -> None:
    """Each part by name, and no other: what its evaluator takes, where they are named once."""
    assert inspect.signature(Evaluator) == inspect.signature(b.EvalEngine)
    assert {"cache", "executor", "ledger"} <= set(inspect.signature(b.EvalEngine).parameters)


async def test_a_platform_without_file_locks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run directory and `sink.jsonl` work there alike, unlocked, and each says so once."""
    monkeypatch.setattr("burnish._runtime.files.fcntl", None)
    with capture_logs() as logs:
        with claimed(tmp_path / "run"), claimed(tmp_path / "run"):
            pass
        async with open_jsonl(None, abc.Environment(base_dir=tmp_path)) as sink:
            for number in range(2):
                await sink.deliver(abc.Delivery(run="r", events=((number, RunEnded(stop_reason="finished")),)))
    assert 2 == len((tmp_path / "events.jsonl").read_text().splitlines())
    assert [str(tmp_path / name) for name in ("run", "run", "events.jsonl")] == [line["path"] for line in logs]
    assert {"this platform has no file locks; let only one process at once use this path"} == {
        line["event"] for line in logs
    }
