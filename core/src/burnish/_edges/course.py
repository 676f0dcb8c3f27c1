"""The course of a run: search, choose, test, save. Whatever ends it, what was found is kept and told."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import attrs
import trio

from burnish import abc
from burnish._edges.ends import End, phase
from burnish._edges.failures import FailureCount, row_name
from burnish._edges.handle import RunHandle
from burnish._edges.holdout import TestResult, compare_on_test
from burnish._edges.result import Choice, Result, choose, installed
from burnish._edges.resume import Resume
from burnish._edges.run_dir import BEST_FILE, STORE_FILE, write_lock
from burnish._edges.saved import row_digests, save
from burnish._edges.setup import Setup, facts_of, problem_of
from burnish._model.canonical import JsonMap
from burnish._model.events import Event, Resumed, RunEnded, RunStarted
from burnish._model.report import Report
from burnish._runtime.engine import Engine
from burnish._runtime.evaluator import Evaluator
from burnish._runtime.fanout import gather, services
from burnish._runtime.follow import Follower
from burnish._runtime.history import History
from burnish._runtime.journal import RunJournal
from burnish._runtime.ledger import Ledger
from burnish._runtime.log import bound as bound_to_log
from burnish._runtime.run_store import RunStore, open_run_store
from burnish._toolkit.stages import in_stages
from burnish.errors import BurnishError, ReplayDivergedError, StoreError


@attrs.frozen(kw_only=True)
class Parts:
    """The components that a run uses beside those of its setup."""

    cache: abc.Cache | None
    executor: abc.Executor | None
    meter: abc.Meter | None
    sinks: Sequence[tuple[str, abc.Sink]]


@attrs.frozen(kw_only=True)
class Course:
    """One run under way."""

    setup: Setup
    parts: Parts
    directory: Path | None
    handle: RunHandle
    failures: FailureCount
    resume: Resume | None = None
    """How the run that the directory holds goes on; None: a new one."""
    configuration: JsonMap | None = None
    """Kept in the lock file."""
    answers: Path | None = None
    """The directory of a run whose results are answers."""
    watched: bool
    """Whether somebody reads the handle's events; without a reader they would only pile up."""


async def run(course: Course) -> Result:
    """Search, test, and give what was found.

    Raises what ended the run early; an error of burnish then holds what was found as `result`. The sinks get what is
    left in any case, all at once and for at most five seconds, which a cancellation waits for; one that goes on after
    that is left behind.
    """
    directory = course.directory
    async with AsyncExitStack() as stack:
        answers = None
        if course.answers is not None:
            answers = await stack.enter_async_context(open_run_store(course.answers / STORE_FILE, read_only=True))
        path = None if directory is None else directory / STORE_FILE
        store = await stack.enter_async_context(open_run_store(path))
        history = None if course.resume is None else await History.load(store)
        name = uuid.uuid4().hex[:12] if history is None else history.started.run
        followers = [Follower(store, sink, name, label) for label, sink in course.parts.sinks]
        try:
            evaluator = await _evaluator(course, store, name, history, answers)
            with bound_to_log(run=name):
                async with services(*(follower.follow for follower in followers)):
                    return await _search_and_test(course, evaluator)
        finally:
            with trio.CancelScope(shield=True), contextlib.suppress(StoreError):  # the store says it when it closes
                await store.flush()
                await gather([follower.drain for follower in followers])


async def _evaluator(
    course: Course, store: RunStore, run: str, history: History | None, answers: RunStore | None
) -> Evaluator:
    setup, parts = course.setup, course.parts

    def watch(event: Event) -> None:
        course.failures.see(event)
        if course.watched:
            course.handle._put(event)

    seconds = 0.0 if history is None else history.seconds
    ledger = Ledger(setup.config.budget, meter=parts.meter, run=run, seconds=seconds)
    store.clock = lambda: ledger.spend.seconds
    rules = course.resume.rules(setup.config.budget) if course.resume else None
    evaluator = Evaluator(
        [*setup.val, *setup.train],
        setup.metric,
        setup.config,
        cache=parts.cache,
        executor=parts.executor,
        ledger=ledger,
        journal=RunJournal(store, watch, history=history, rules=rules, answers=answers),
        models=setup.models,
        row_name=lambda column: row_name(column, len(setup.val)),
    )
    facts = facts_of(setup, evaluator)
    if course.resume is not None and history is not None:
        course.resume.check(history.started.facts, facts)
    if course.directory is not None:
        kept = facts if course.configuration is None else {**facts, "configuration": course.configuration}
        await trio.to_thread.run_sync(write_lock, course.directory, kept)
    evaluator.emit(RunStarted(run=run, facts=facts)) if history is None else _begin_again(evaluator, history, facts)
    for warning in setup.warnings:
        evaluator.warn("overlap", warning)
    return evaluator


def _begin_again(evaluator: Evaluator, history: History, facts: JsonMap) -> None:
    evaluator.replayed(history.started)
    for registered in history.candidates:
        evaluator.replayed(registered)
    for warning in history.warnings:
        evaluator.replayed(warning)
    evaluator.emit(Resumed(facts=facts))


async def _search_and_test(course: Course, evaluator: Evaluator) -> Result:
    setup, end = course.setup, End()
    evaluator.ledger.set_aside(2 * len(setup.test))
    reports: list[Report] = []
    run_phase = partial(phase, course.handle, evaluator.ledger, end)
    searched = await run_phase(partial(_search, setup, evaluator, reports), aside=bool(setup.test))
    if isinstance(end.error, ReplayDivergedError):  # what it found earlier stays as it is
        raise end.error
    found = choose(setup, evaluator, reports)
    if found.kept is not None:
        evaluator.warn("kept", found.kept)
    with end.keeping():
        await _save(course, found)
    evaluator.ledger.set_aside(0)
    test: TestResult | None = None
    if setup.test and end.reason is None and not _scored_nothing(evaluator, course.failures):
        compare = partial(compare_on_test, evaluator, setup, found.best, course.failures, course.parts.executor)
        test = await run_phase(compare)
    if not found.best.is_empty and not hasattr(setup.target, "install"):
        evaluator.warn(
            "not installed",
            f"{type(setup.target).__name__} has no `install`: the result's program is the target as it was given, "
            "without the winner, which is the result's `candidate`",
        )
    _warn_of_failures(course.failures, evaluator)
    reason = end.reason or end.cap or str(searched)
    evaluator.emit(RunEnded(stop_reason=reason, best=found.best))
    with end.keeping():
        await evaluator.flush()
    return _told(course, end, partial(_result, course, evaluator, found, tuple(reports), test, reason))


def _scored_nothing(evaluator: Evaluator, failures: FailureCount) -> bool:
    """Whether the search ran rollouts and none was scored: the test would fare no better, and cost as much again."""
    state = evaluator.state
    scored = any(state.matrix.mean(index) is not None for index in range(len(state.candidates)))
    return failures.of("search").rollouts > 0 and not scored


def _result(
    course: Course,
    evaluator: Evaluator,
    found: Choice,
    reports: tuple[Report, ...],
    test: TestResult | None,
    stop_reason: str,
) -> Result:
    return Result(
        program=installed(course.setup.target, found.best),
        candidate=found.best,
        baseline=found.baseline_score,
        best=found.best_score,
        test=test,
        spend=evaluator.ledger.spend,
        reports=reports,
        stop_reason=stop_reason,
        run_dir=course.directory,
        compared=found.compared,
        warnings=tuple(w.message for w in evaluator.state.warnings),
        failures=course.failures.of("search"),
        baseline_failures=course.failures.of("search", evaluator.state.index.get(course.setup.start.stable_hash, -1)),
    )


def _warn_of_failures(failures: FailureCount, evaluator: Evaluator) -> None:
    for name, found in (("search", failures.of("search")), ("test", failures.of("test"))):
        if found.count:
            evaluator.warn("failures", found.told(name))


def _told(course: Course, end: End, make: Callable[[], Result]) -> Result:
    """Give the result, or raise what ended the run with the result in it."""
    error = end.error
    if error is None:
        return make()
    kept = []
    if isinstance(error, BurnishError):
        with contextlib.suppress(Exception):  # a target's own `install`: what ended the run is the news
            error.result = make()
            kept.append("in this error's `result`")
    if course.directory is not None and (course.directory / BEST_FILE).exists():
        kept.append(f"in {course.directory / BEST_FILE}")
    if kept:
        error.add_note(f"The best candidate so far is {' and '.join(kept)}.")
    raise error


async def _save(course: Course, found: Choice) -> None:
    if course.directory is not None:
        write = partial(
            save,
            course.directory / BEST_FILE,
            found.best,
            course.setup.target.parameters(),
            seen=row_digests([*course.setup.val, *course.setup.train]),
            validation=found.best_score,
            baseline=found.baseline_score,
        )
        await trio.to_thread.run_sync(write)


async def _search(setup: Setup, evaluator: Evaluator, reports: list[Report]) -> str:
    """Run the strategies in a row, each from the best so far; gives the stop reason of the last."""
    engine = Engine(evaluator, setup.target, setup.repeats)
    await in_stages(setup.strategies, engine, problem_of(setup, evaluator.examples), reports)
    return reports[-1].stop_reason
