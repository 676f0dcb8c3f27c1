"""One run from the command line: `burnish.optimize` with a display, signals, and `result.json` at the end."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TextIO

import attrs
import trio

from burnish import Result, RunHandle, TestResult, aoptimize
from burnish.errors import BurnishError, RunStoppedError, StoreError, unwrap
from burnish_cli.job import Job
from burnish_cli.logs import logs_told
from burnish_cli.progress import Progress, open_progress
from burnish_cli.replies import WrongReplies
from burnish_cli.result import (
    Comparison,
    ResultFile,
    Rows,
    Scores,
    summarize_candidate,
    summarize_failures,
    summarize_report,
    summarize_spend,
    write_result,
)
from burnish_cli.split import Row, fingerprint
from burnish_cli.tally import Tally

TICK = 0.25
PATIENCE = 5.0
"""Seconds that a terminal which takes no output may hold up the end."""


def execute(job: Job, *, stream: TextIO, rollouts: int | None) -> ResultFile:
    """Run a job to its end, showing its progress on `stream`, and write `result.json` into its run directory.

    SIGINT and SIGTERM end the search and keep the best so far; a second one ends the run at once, by
    `RunStoppedError`. Raises what `burnish.aoptimize` raises; what an error holds as its `result` is written, too.
    """
    columns = range(len(job.splits.val) or len(job.splits.train))
    tally = Tally(val=columns, budget=job.config.budget, clock=time.monotonic, rollouts=rollouts)
    handle, notes, replies = RunHandle(), Notes(job.splits.notes), WrongReplies()
    try:
        with open_progress(stream, tally) as view, watched(handle, view, replies), logs_told(notes.add):
            result = trio.run(partial(_run, job, handle, view))
    except BurnishError as error:
        if error.result is not None:
            with contextlib.suppress(StoreError):  # what stopped the run is the news
                _write(job, error.result, notes)
        raise
    wrong = replies.told()
    if wrong is not None:
        notes.add(wrong)
    return _write(job, result, notes)


def _write(job: Job, result: Result, notes: Notes) -> ResultFile:
    summary = summarize(job, result, notes.lines)
    try:
        write_result(summary, job.run_dir / "result.json")
    except StoreError as error:
        error.result = result
        raise
    return summary


class Notes:
    """What a user should know, each thing once."""

    def __init__(self, lines: Sequence[str] = ()) -> None:
        self.lines = list(lines)

    def add(self, line: str) -> None:
        """Take one more line, from any thread."""
        if line not in self.lines:
            self.lines.append(line)


# --- running -----------------------------------------------------------------------------------------------------


async def _run(job: Job, handle: RunHandle, view: Progress) -> Result:
    found: list[Result] = []
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_heed_signals, handle, view, nursery.cancel_scope)
            found.append(await _optimize(job, handle))
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise unwrap(group) from None
    if not found:
        raise RunStoppedError(f"interrupted; what was paid for is in {job.run_dir} and in the cache")
    return found[0]


async def _optimize(job: Job, handle: RunHandle) -> Result:
    return await aoptimize(
        job.program,
        trainset=job.splits.values("train"),
        valset=job.splits.values("val"),
        testset=job.splits.values("test"),
        metric=job.metric,
        strategy=job.strategies,
        budget=job.config.budget,
        seed=job.config.seed,
        models=job.models,
        cache=job.cache,
        concurrency=job.config.concurrency,
        run_dir=job.run_dir,
        meter=job.meter,
        executor=job.executor,
        sinks=job.sinks,
        cache_salt=job.config.engine.cache_salt,
        failure_score=job.config.engine.failure_score,
        rollout_timeout=job.config.engine.rollout_timeout,
        plugins=job.plugins,
        env=job.env,
        handle=handle,
        config_file=job.file,
    )


async def _heed_signals(handle: RunHandle, view: Progress, scope: trio.CancelScope) -> None:
    if threading.current_thread() is not threading.main_thread():
        await trio.sleep_forever()
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:
        async for _ in received:
            if handle.cancelled:
                scope.cancel()
            handle.cancel()
            line = "stopping, the best so far is kept; interrupt again to stop at once"
            await trio.to_thread.run_sync(view.say, line, abandon_on_cancel=True)


@contextlib.contextmanager
def watched(handle: RunHandle, view: Progress, replies: WrongReplies) -> Iterator[None]:
    """Show a run's events while the block runs, from threads: neither a slow terminal nor a closed one holds it up."""
    lock, ended = threading.Lock(), threading.Event()

    def show() -> None:
        try:
            for event in handle.events:
                with lock:
                    replies.see(event)
                    view.feed(event)
        except OSError:
            return  # nobody reads the display any more
        finally:
            ended.set()

    def tick() -> None:
        with contextlib.suppress(OSError):
            while not ended.wait(TICK):
                with lock:
                    view.tick()

    threads = [threading.Thread(target=work, name=f"burnish {work.__name__}", daemon=True) for work in (show, tick)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join(timeout=PATIENCE)


# --- the result --------------------------------------------------------------------------------------------------


def summarize(job: Job, result: Result, notes: Sequence[str] = ()) -> ResultFile:
    """Give the result file of a run."""
    sizes = {name: len(getattr(job.splits, name)) for name in ("train", "val", "test")}
    found = Notes(notes)
    table = summarize_failures(result)  # says what the warnings of that kind say
    told = [result.failures.told("search"), "" if result.test is None else result.test.failures.told("test")]
    for warning in result.warnings:
        found.add(warning)
    if result.test is not None and not result.test.complete:
        found.add("the budget ended the test before its last row")
    return ResultFile(
        name=job.run_dir.name,
        command=job.command,
        run_dir=str(job.run_dir),
        seed=job.config.seed,
        stop_reason=result.stop_reason,
        finished=result.stop_reason != "cancelled" and not result.stop_reason.startswith("stopped: "),
        rows=Rows(**sizes),
        validation=Scores(baseline=result.baseline, winner=result.best),
        spend=summarize_spend(result.spend),
        test=None if result.test is None else compare(result.test, job.splits.test, job.run_dir),
        strategies=tuple(summarize_report(report) for report in result.reports),
        changes=summarize_candidate(result.candidate),
        notes=tuple(line for line in found.lines if line not in told),
        failures=table,
    )


def compare(test: TestResult, rows: Sequence[Row], run_dir: Path) -> Comparison:
    """Give the test's figures, with how often runs beside this one have looked at the same rows."""
    rows_print = fingerprint([*sorted(row.content for row in rows)])
    pairs = [
        (before, after)
        for before, after in zip(test.baseline_scores, test.winner_scores, strict=True)
        if before is not None and after is not None
    ]
    figures = Comparison(
        rows=test.rows,
        compared=len(pairs),
        wins=sum(after > before for before, after in pairs),
        losses=sum(after < before for before, after in pairs),
        looks=1 + earlier_looks(rows_print, run_dir),
        fingerprint=rows_print,
    )
    found = test.comparison
    if found is None:
        return figures
    return attrs.evolve(
        figures,
        baseline=found.baseline,
        winner=found.winner,
        difference=found.difference,
        interval=None if found.low is None or found.high is None else (found.low, found.high),
    )


def earlier_looks(rows_print: str, run_dir: Path) -> int:
    """Count the runs beside this one whose result tells of the same test rows."""
    looks = 0
    for path in run_dir.parent.glob("*/result.json"):
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
            form = json.loads(path.read_text(encoding="utf-8"))
            looks += path.parent != run_dir and form["test"]["fingerprint"] == rows_print
    return looks
