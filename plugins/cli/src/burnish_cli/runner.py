"""One run from the command line: `burnish.optimize` with a display, signals, and `result.json` at the end."""

from __future__ import annotations

import contextlib
import json
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TextIO, TypeAlias

import attrs
import trio

from burnish import (
    BEST_FILE,
    RESULT_FILE,
    Candidate,
    Result,
    RunHandle,
    TestResult,
    aoptimize,
    load,
    row_digests,
    save,
)
from burnish.errors import BurnishError, RunStoppedError, StoreError, first_line
from burnish_cli import text
from burnish_cli.exits import Exit
from burnish_cli.job import Job
from burnish_cli.kept import keep
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
from burnish_cli.signals import Halt, Heed, heeded
from burnish_cli.split import Splits, fingerprint
from burnish_cli.tally import Tally
from burnish_cli.words import going_on, next_step

Lines: TypeAlias = "queue.SimpleQueue[str | None]"
"""What the display is to say beside the events; None ends it."""
TICK = 0.25
PATIENCE = 5.0
"""Seconds that a terminal which takes no output may hold up the end."""


class UnsavedError(RunStoppedError):
    """What a run found could not be written; `summary` says it, `candidate` is the winner."""

    def __init__(self, message: str, *, summary: ResultFile, candidate: Candidate) -> None:
        self.summary, self.candidate = summary, candidate
        super().__init__(message)


def execute(job: Job, *, stream: TextIO, rollouts: int | None) -> ResultFile:
    """Run a job to its end, showing its progress on `stream`, and write `result.json` into its run directory.

    SIGINT, SIGTERM and SIGHUP end the search and keep the best so far; a second one ends the run at once, by
    `RunStoppedError`, and the process with exit code 3 where the run does not end within five seconds. Raises what
    `burnish.aoptimize` raises, whose `result` is written, too, and `UnsavedError` where that cannot be.
    """
    columns = range(len(job.splits.val) or len(job.splits.train))
    test = 2 * len(job.splits.test)
    tally = Tally(val=columns, budget=job.config.budget, clock=time.monotonic, rollouts=rollouts, test=test)
    handle, halt, notes, replies = RunHandle(), Halt(), Notes(job.splits.notes), WrongReplies()
    lines: Lines = queue.SimpleQueue()
    with open_progress(stream, tally) as view:
        rescue = partial(_rescue, job, tally, view)
        heed = Heed(first=handle.cancel, second=halt.now, rescue=rescue, say=lines.put, code=Exit.STOPPED)
        with heeded(heed):  # until all is written
            try:
                with watched(handle, view, replies, lines, notes), logs_told(notes.add):
                    result = trio.run(_run, job, handle, halt)
            except BurnishError as error:
                if error.result is not None:
                    _write(job, error.result, tally, notes, error)
                raise
            notes.add(replies.told())
            return _write(job, result, tally, notes)


def _write(job: Job, result: Result, tally: Tally, notes: Notes, error: BurnishError | None = None) -> ResultFile:
    """Write the result file. Raises `UnsavedError` where that, or what the run had to write, is not there."""
    summary = summarize(job, result, tally, notes.lines)
    faults, best = [] if error is None else [str(error)], job.run_dir / BEST_FILE
    try:
        _pass_on(job, best)
        write_result(summary, job.run_dir / RESULT_FILE)
    except StoreError as fault:
        faults.append(str(fault))
    if best.is_file() and len(faults) == (error is not None):
        return summary
    where = f"the winner is in {best}" if best.is_file() else f"{best} is not there; the winner's texts stand above"
    told = "\n".join([*faults, f"{where}; see to the disk and the directory; then {next_step(job.run_dir)}"])
    raise UnsavedError(told, summary=summary, candidate=result.candidate) from error


def _pass_on(job: Job, best: Path) -> None:
    """Have an evaluation's `best.json` say what the candidate's own says: it was found on other rows than these."""
    if job.config.data.unseen_by is not None and best.is_file():
        given = load(job.config.resolve(job.config.data.unseen_by))
        save(best, given.candidate, job.parameters, seen=given.seen, **given.scores)


def _rescue(job: Job, tally: Tally, view: Progress, hung: str) -> None:
    """Write the best so far of a run that does not end."""
    parts, best = [f"{hung} did not return"], job.run_dir / BEST_FILE
    found = tally.winner()
    if found is not None and not best.is_file():
        scores = tally.figures()
        with contextlib.suppress(Exception):  # the process ends whatever this does
            seen = row_digests([*job.splits.values("val"), *job.splits.values("train")])
            save(best, found, job.parameters, seen=seen, validation=scores.best, baseline=scores.baseline)
    view.close()
    if best.is_file():
        parts.append(f"the best so far is in {best}")
    text.write_line(sys.stderr, text.safe(f"burnish: error: {'; '.join(parts)}; {going_on(job.run_dir)}"))


class Notes:
    """What a user should know, each thing once."""

    def __init__(self, lines: Sequence[str] = ()) -> None:
        self.lines = list(lines)

    def add(self, line: str | None) -> None:
        """Take one more line, where there is one, from any thread."""
        if line is not None and line not in self.lines:
            self.lines.append(line)


# --- running -----------------------------------------------------------------------------------------------------


async def _run(job: Job, handle: RunHandle, halt: Halt) -> Result:
    with trio.CancelScope() as scope:
        halt.reach(scope)
        return await _optimize(job, handle)
    raise RunStoppedError(f"interrupted; {going_on(job.run_dir)}")


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
        repeats=job.config.engine.repeats,
        min_gain=job.config.engine.min_gain,
        plugins=job.plugins,
        env=job.env,
        handle=handle,
        config_file=job.file,
        configuration=keep(job.config, job.run_dir, command=job.command, file=job.file, given=job.given),
        resume=job.resume or False,
        answers=job.answers,
    )


@contextlib.contextmanager
def watched(
    handle: RunHandle, view: Progress, replies: WrongReplies, lines: Lines, notes: Notes
) -> Iterator[None]:
    """Show a run's events, and `lines`, while the block runs, from threads: a slow terminal does not hold it up."""
    lock = threading.Lock()

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            notes.add(f"the display failed: {first_line(error)}; please report it")

    def show() -> None:
        try:
            for event in handle.events:
                with lock:
                    replies.see(event)
                    view.feed(event)
        finally:
            lines.put(None)

    def tick() -> None:
        while True:
            try:
                line = lines.get(timeout=TICK)
            except queue.Empty:
                line = ""
            if line is None:
                return
            with lock:
                view.say(line) if line else view.tick()

    threads = [
        threading.Thread(target=guarded, args=[work], name=f"burnish {work.__name__}", daemon=True)
        for work in (show, tick)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join(timeout=PATIENCE)


# --- the result --------------------------------------------------------------------------------------------------


def summarize(job: Job, result: Result, tally: Tally, notes: Sequence[str] = ()) -> ResultFile:
    """Give the result file of a run."""
    sizes = {name: len(getattr(job.splits, name)) for name in ("train", "val", "test")}
    found = Notes(notes)
    table = summarize_failures(result)  # says what the warnings of that kind say
    told = [result.failures.told("search"), "" if result.test is None else result.test.failures.told("test")]
    for warning in result.warnings:
        found.add(warning)
    if result.test is not None and not result.test.complete:
        found.add("the budget ended the test before its last row")
    found.add(_could_stop(job, result))
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
        test=None if result.test is None else compare(result.test, job.splits, job.run_dir),
        strategies=tuple(summarize_report(report) for report in result.reports),
        changes=summarize_candidate(result.candidate),
        notes=tuple(line for line in found.lines if line not in told),
        failures=table,
        partly=tally.partly() if result.stop_reason.startswith("budget: ") else (),
        scored_candidates=tally.scored(),
    )


def _could_stop(job: Job, result: Result) -> str | None:
    """Say how a search is told to stop at a score, where it reached the highest that burnish's metrics give."""
    if job.command != "run" or result.best != 1.0:
        return None
    for strategy in job.config.strategy:
        with contextlib.suppress(BurnishError):
            options = None if strategy.is_reference else job.plugins.options("strategy", strategy.use, strategy.options)
            if getattr(options, "stop_at_score", 0) is None:
                return "the validation rows have the score 1.000: with `stop_at_score = 1.0` the search ends there"
    return None


def compare(test: TestResult, splits: Splits, run_dir: Path) -> Comparison:
    """Give the test's figures, with how often runs beside this one have looked at some of the same rows."""
    rows_print = fingerprint([*sorted(row.content for row in splits.test)])
    digests = row_digests(splits.values("test"))
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
        looks=1 + earlier_looks(digests, run_dir),
        fingerprint=rows_print,
        digests=" ".join(digests),
        untouched=splits.untouched,
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


def earlier_looks(digests: Sequence[str], run_dir: Path) -> int:
    """Count the runs beside this one whose result tells of some of these test rows."""
    looks = 0
    for path in run_dir.parent.glob(f"*/{RESULT_FILE}"):
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
            form = json.loads(path.read_text(encoding="utf-8"))
            looks += path.parent != run_dir and not set(digests).isdisjoint(form["test"]["digests"].split())
    return looks
