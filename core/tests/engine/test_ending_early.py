"""Runs that end before their end: cancelled, interrupted, out of disk; and what is left of them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs

import burnish as b
from burnish import RunHandle, errors
from burnish._model.events import CandidateRegistered, RunEnded, RunStarted
from burnish._model.state import fold
from burnish._runtime import invoke
from burnish._runtime.run_store import RunStore, read_events
from burnish.testing import ScriptedModel

from ._kit import Ambient, as_said, ask, told
from ._search import Tries, program, split, tune


class Waits:
    """Waits for ever before the candidate with this text; tells a thread that it does."""

    def __init__(self, text: str) -> None:
        self.text, self.reached = text, threading.Event()

    async def __call__(self, text: str) -> None:
        if text == self.text:
            self.reached.set()
            await trio.sleep_forever()


def test_cancelling_from_another_thread_keeps_the_best_so_far(tmp_path: Path) -> None:
    """The search ends, the best so far is returned and saved, the test is left out; the events end too."""
    waits, handle, seen = Waits("0.9"), RunHandle(), list[Any]()

    def cancel() -> None:
        waits.reached.wait(10)
        handle.cancel()

    def watch() -> None:
        seen.extend(handle.events)

    threads = [threading.Thread(target=cancel), threading.Thread(target=watch)]
    for thread in threads:
        thread.start()
    strategy = Tries("0.5", "0.9", before=waits)
    result = tune(program(), strategy, split(train=1, val=2, test=9), handle=handle, run_dir=tmp_path)
    for thread in threads:
        thread.join(10)
    assert ("cancelled", 0.1, 0.5, None) == (result.stop_reason, result.baseline, result.best, result.test)
    assert (told("answer", "0.5"), (), True) == (result.candidate, result.reports, handle.cancelled)
    assert (RunStarted, RunEnded) == (type(seen[0]), type(seen[-1]))
    assert list(read_events(tmp_path / "run.db")) == seen
    assert result.spend.metric_calls == fold(seen).spend.metric_calls == 4
    assert "0.5" == b.load(tmp_path / "best.json").apply(program()).leaves["answer"].instruction
    handle.cancel()


@pytest.mark.parametrize(("rows_of_the_start", "best"), [(1, "0.1"), (2, "0.5")])
def test_the_best_so_far_is_never_a_guess(rows_of_the_start: int, best: str) -> None:
    """Before the program itself is scored on half of the rows nothing is better than it; no part is told as a mean."""
    handle, ran = RunHandle(), list[str]()

    class AllAtOnce(Tries):
        async def compile(self, engine: b.Engine, problem: Any) -> Any:
            indices = [engine.register(c) for c in (told("answer", "0.5"), problem.start)]
            return await engine.evaluate_many([(index, problem.val) for index in indices])

    async def act(q: Any, text: str) -> float:
        ran.append(text)
        if len(ran) == 4 + rows_of_the_start:
            handle.cancel()
            await trio.sleep_forever()
        return float(text)

    module = program()
    module.act = act
    result = tune(module, AllAtOnce(), split(train=1, val=3), handle=handle, concurrency=1)
    assert ["0.5"] * 3 + ["0.1"] * (rows_of_the_start + 1) == ran
    assert ("cancelled", None) == (result.stop_reason, result.baseline)
    assert best == result.program.leaves["answer"].instruction


def test_a_second_strategy_that_is_cancelled_keeps_its_finds() -> None:
    """What the unfinished strategy found counts, not only what the finished one reported."""
    waits, handle = Waits("0.9"), RunHandle()

    def cancel() -> None:
        waits.reached.wait(10)
        handle.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    chain = [Tries("0.5"), Tries("0.8", "0.9", before=waits)]
    result = tune(program(), chain, split(train=1, val=2), handle=handle)
    thread.join(10)
    assert (0.1, 0.8, 1) == (result.baseline, result.best, len(result.reports))


def test_cancelled_before_it_starts() -> None:
    """Nothing runs; the program is its own winner."""
    handle, given = RunHandle(), program()
    handle.cancel()
    result = tune(given, Tries("0.5"), split(train=1, val=2, test=1), handle=handle)
    assert ("cancelled", b.Candidate(), 0) == (result.stop_reason, result.candidate, result.spend.metric_calls)
    assert [] != list(handle.events)


def test_cancelled_during_the_test() -> None:
    """The search is done: its winner stays, the test is incomplete and so not reported."""
    handle = RunHandle()

    async def act(q: Any, text: str) -> float:
        if str(q).startswith("test"):
            handle.cancel()
            await trio.sleep_forever()
        return float(text)

    module = program()
    module.act = act
    result = tune(module, Tries("0.5"), split(train=1, val=2, test=2), handle=handle)
    assert ("cancelled", 0.5, None, 1) == (result.stop_reason, result.best, result.test, len(result.reports))


async def test_cancelling_the_scope_ends_the_run_at_once(tmp_path: Path) -> None:
    """No result; what has landed is in the run store, and the directory is free of its lock."""
    reached = trio.Event()

    async def hang(text: str) -> None:
        if text == "0.5":
            reached.set()
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:

        async def run() -> None:
            options: dict[str, Any] = {"metric": as_said, "budget": b.Budget(), "run_dir": tmp_path}
            options |= split(train=1, val=2)
            await b.aoptimize(program(), strategy=Tries("0.5", before=hang), **options)

        nursery.start_soon(run)
        await reached.wait()
        nursery.cancel_scope.cancel()
    assert 2 == fold(read_events(tmp_path / "run.db")).spend.metric_calls


INTERRUPTED = """
import sys, trio
import burnish as b
from burnish import Plan

class Hangs:
    def plan(self, problem):
        return Plan(rollouts=2)
    async def compile(self, engine, problem):
        await engine.evaluate_many([(engine.register(problem.start), problem.val)])
        print("scored", flush=True)
        await trio.sleep_forever()

@b.inline
def metric(example, prediction):
    return 1.0

async def program(q):
    return q

try:
    b.optimize(program, trainset=[{"q": 9}], valset=[{"q": 0}, {"q": 1}], metric=metric, strategy=Hangs(),
               budget=b.Budget(), run_dir=sys.argv[1])
except KeyboardInterrupt as error:
    print("interrupted", flush=True)
"""


@pytest.mark.slow
def test_an_interrupt_leaves_the_run_store_whole(tmp_path: Path) -> None:
    """Ctrl-C in the main thread is a plain `KeyboardInterrupt`; everything that landed is on disk, the lock is free."""
    child = subprocess.Popen([sys.executable, "-c", INTERRUPTED, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    with child:
        assert child.stdout is not None
        assert "scored\n" == child.stdout.readline()
        os.kill(child.pid, signal.SIGINT)
        assert "interrupted\n" == child.stdout.readline()
    assert 0 == child.returncode
    events = list(read_events(tmp_path / "run.db"))
    assert (2, CandidateRegistered) == (fold(events, 3).spend.metric_calls, type(events[1]))


def test_a_full_disk_is_one_store_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rollouts meet it at once, the caller sees one `StoreError` that names the file."""
    opened = RunStore._open

    def small(store: RunStore) -> None:
        opened(store)
        assert store._connection is not None
        store._connection.execute("PRAGMA max_page_count=6")

    monkeypatch.setattr(RunStore, "_open", small)
    with pytest.raises(errors.StoreError, match=r"run\.db cannot be used: .*full"):
        tune(program(), Tries("0.5", "0.6", "0.7"), split(train=1, val=60), run_dir=tmp_path)


def test_two_runs_in_two_threads_do_not_see_each_other() -> None:
    """Each has its own loop, candidates, books and copy; one program may be given to both."""
    given, results, meet = program(), dict[str, b.Result](), threading.Barrier(2, timeout=10)

    async def together(text: str) -> None:
        await trio.to_thread.run_sync(meet.wait)

    def run(text: str) -> None:
        results[text] = tune(given, Tries(text, before=together), split(train=1, val=3, test=2))

    threads = [threading.Thread(target=run, args=[text]) for text in ("0.4", "0.7")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {"0.4": 0.4, "0.7": 0.7} == {text: r.test and r.test.winner_scores[0] for text, r in results.items()}
    assert [10, 10] == [result.spend.metric_calls for result in results.values()]
    assert "0.1" == given.leaves["answer"].instruction


def test_inside_a_running_asyncio_loop() -> None:
    """On the loop's own thread it blocks the loop and works; in a thread of the loop's it does not block."""

    async def main() -> list[float | None]:
        here = tune(program(), Tries("0.5"), split(train=1, val=2))
        there = await asyncio.to_thread(tune, program(), Tries("0.6"), split(train=1, val=2))
        return [here.best, there.best]

    assert [0.5, 0.6] == asyncio.run(main())


@pytest.mark.slow
def test_max_seconds_ends_a_rollout_that_hangs(tmp_path: Path) -> None:
    """What is in flight is cancelled, what has landed counts, and the test runs in the fifth that is its own."""
    module, hung = program(), list[Any]()

    async def act(q: Any, text: str) -> float:
        if text == "0.9":
            hung.append(q)
            await trio.sleep_forever()
        return float(text)

    module.act = act
    budget = b.Budget(max_seconds=1.5)
    began = time.monotonic()
    sets = split(train=1, val=2, test=1)
    result = tune(module, Tries("0.5", "0.9"), sets, budget=budget, run_dir=tmp_path)
    assert 1.1 < time.monotonic() - began < 10
    assert ("budget: max_seconds", 0.1, 0.5, ()) == (result.stop_reason, result.baseline, result.best, result.reports)
    assert result.test is not None
    assert ((0.1,), (0.5,), True) == (
        result.test.baseline_scores, result.test.winner_scores, result.test.complete,
    )
    assert 0 < len(hung) <= 2
    assert 6 == fold(read_events(tmp_path / "run.db")).spend.metric_calls
    assert "budget: max_seconds" == list(read_events(tmp_path / "run.db"))[-1].stop_reason  # type: ignore[union-attr]


@pytest.mark.slow
def test_max_seconds_ends_a_test_that_hangs() -> None:
    """The search is done: its winner stays, and there is no test result."""

    async def act(q: Any, text: str) -> float:
        if str(q).startswith("test"):
            await trio.sleep_forever()
        return float(text)

    module = program()
    module.act = act
    result = tune(module, Tries("0.5"), split(train=1, val=2, test=2), budget=b.Budget(max_seconds=1))
    assert ("budget: max_seconds", 0.5, None) == (result.stop_reason, result.best, result.test)
    assert 1 == len(result.reports)


@pytest.mark.slow
def test_max_seconds_leaves_sync_code_that_hangs_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread cannot be cancelled: the run waits for it no longer than its patience, and then goes on without it."""
    monkeypatch.setattr(invoke, "PATIENCE", 0.05)
    freed, returned = threading.Event(), threading.Event()

    def hang(q: str) -> str:
        freed.wait(10)
        returned.set()
        return q

    try:
        with capture_logs() as lines:
            result = tune(hang, Tries("0.5"), split(train=1, val=2), budget=b.Budget(max_seconds=1))
        assert not returned.is_set()
    finally:
        freed.set()
    assert ("budget: max_seconds", None, b.Candidate()) == (result.stop_reason, result.best, result.candidate)
    assert 1 == sum("was left behind" in line["event"] for line in lines)
    assert returned.wait(10)


HANGS = """
import threading
import burnish as b
from burnish import Plan, Report
from burnish._runtime import invoke

invoke.PATIENCE = 0.1

class Looks:
    def plan(self, problem):
        return Plan(rollouts=1)
    async def compile(self, engine, problem):
        await engine.evaluate_many([(engine.register(problem.start), problem.train)])
        return Report(strategy="looks", best=problem.start)

def program(q):
    threading.Event().wait()

result = b.optimize(program, trainset=[{"q": 0}], metric=lambda example, prediction: 1.0, strategy=Looks(),
                    budget=b.Budget(max_seconds=1))
print(result.stop_reason)
"""


@pytest.mark.slow
def test_a_process_ends_though_sync_code_hangs_for_ever() -> None:
    """The thread that was left behind keeps neither the run nor the interpreter alive."""
    done = subprocess.run([sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=30, check=True)
    assert "budget: max_seconds" == done.stdout.splitlines()[-1]


def test_what_scored_nothing_is_not_tested() -> None:
    """Where every rollout of the search failed for its provider's sake, nothing is run on the test rows."""

    def down(request: Any) -> str:
        nonlocal calls
        calls += 1
        raise errors.ModelServerError("503")

    calls = 0
    model = ScriptedModel(down, limits=b.abc.ModelLimits(key="down", retries=0))

    async def ask_once(q: Any, text: str) -> Any:
        return await b.call_model(model, ask(str(q)))

    result = tune(Ambient(ask_once), Tries(), split(train=1, val=4, test=6))
    assert (None, None, 4) == (result.test, result.baseline, calls)
