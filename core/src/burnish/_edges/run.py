"""A whole run: compose, search, test, save. `burnish run` is this plus printing."""

from __future__ import annotations

import os
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import trio

from burnish import abc
from burnish._edges.compose import Composition
from burnish._edges.handle import RunHandle
from burnish._edges.holdout import TestResult, compare_on_test
from burnish._edges.plugins import PluginManager
from burnish._edges.run_dir import BEST, STORE, claimed, write_lock
from burnish._edges.saved import save
from burnish._edges.setup import Setup, compose, facts_of, problem_of, refuse_useless_budget
from burnish._model.budget import Budget, Spend
from burnish._model.candidate import Candidate
from burnish._model.events import RunEnded, RunStarted
from burnish._model.example import make_examples
from burnish._model.report import Report
from burnish._runtime.engine import Engine
from burnish._runtime.evaluator import Evaluator
from burnish._runtime.fanout import services
from burnish._runtime.follow import Follower
from burnish._runtime.journal import RunJournal
from burnish._runtime.ledger import Ledger
from burnish._runtime.log import bound as bound_to_log
from burnish._runtime.run_store import open_run_store
from burnish.errors import BurnishError, MetricError, RunStoppedError


@attrs.frozen(kw_only=True)
class Result:
    """What a run found."""

    program: Any
    """A copy of the program with the winner installed; the program that was given is untouched."""
    candidate: Candidate
    """The winner; the empty candidate where nothing beat the program as it was."""
    baseline: float | None
    """Validation mean of the program as it was."""
    best: float | None
    """Validation mean of the winner."""
    test: TestResult | None
    """Baseline and winner on the test rows; None without test rows, or where the run was stopped before."""
    spend: Spend
    reports: tuple[Report, ...]
    stop_reason: str
    """`finished`, `budget: <cap>`, `cancelled`, `stopped: <why>`."""
    run_dir: Path | None
    warnings: tuple[str, ...] = ()

    @property
    def improved(self) -> bool:
        """Whether the winner beats the baseline on the test rows by more than chance (95 %)."""
        return self.test is not None and self.test.improved


async def aoptimize(
    program: Any,
    *,
    trainset: Sequence[Any],
    valset: Sequence[Any] | None = None,
    testset: Sequence[Any] | None = None,
    metric: Any,
    strategy: Any,
    budget: Budget,
    seed: int = 0,
    models: Mapping[str, Any] | Any | None = None,
    cache: Any = None,
    concurrency: int = 16,
    run_dir: str | Path | None = None,
    executor: Any = None,
    meter: Any = None,
    sinks: Sequence[Any] = (),
    plugins: PluginManager | None = None,
    env: abc.Environment | None = None,
    handle: RunHandle | None = None,
    config_file: str | None = None,
) -> Result:
    """Tune a program's texts on `trainset`, choose on `valset`, and report the winner on `testset`.

    `metric`, `strategy` (one, or several in a row), `cache`, `executor`, `meter`, `sinks` and `models` are objects,
    names of plugins, or `burnish.Use(name, **options)`. Twice the test rows are set aside from the budget before the
    search begins.

    Raises usage and plugin errors before anything is spent, `BudgetRefusedError` where the budget buys nothing,
    `MetricError` and `RunStoppedError` where going on is pointless: what was paid for is then in the run directory and
    the cache. Running out of budget is a normal end. `handle.cancel()` ends the search and returns the best so far;
    cancelling the surrounding scope ends the run at once, and what has landed is kept.
    """
    handle = handle or RunHandle()
    plugins = plugins or PluginManager()
    directory = None if run_dir is None else Path(run_dir)
    env = attrs.evolve(env or abc.Environment(variables=os.environ), run_dir=directory)
    try:
        async with AsyncExitStack() as stack:
            parts = Composition(stack, plugins, env, config_file)
            setup = await compose(
                parts, program, trainset, valset, testset, metric, strategy, budget, seed, models, concurrency
            )
            plans = [s.plan(problem_of(setup, make_examples([*setup.val, *setup.train]))) for s in setup.strategies]
            refuse_useless_budget(setup, plans)
            opened = _Parts(
                cache=await parts.open("cache", cache),
                executor=await parts.open("executor", executor),
                meter=await parts.open("meter", meter),
                sinks=[(str(sink), await parts.open("sink", sink)) for sink in sinks],
            )
            stack.enter_context(claimed(directory))
            return await _run(setup, opened, directory, handle)
    except BaseExceptionGroup as group:
        raise _decisive(group) from None
    finally:
        handle._end()


def _decisive(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Give the one error to raise for several at once: an interrupt, or the first of ours; else all of them."""
    leaves = list(_leaves(group))
    for kind in (KeyboardInterrupt, trio.Cancelled):
        for leaf in leaves:
            if isinstance(leaf, kind):
                return leaf
    return leaves[0] if len(leaves) == 1 or all(isinstance(leaf, BurnishError) for leaf in leaves) else group


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    for inner in error.exceptions:
        yield from _leaves(inner)


def optimize(program: Any, **options: Any) -> Result:
    """Do `aoptimize` from sync code, in any thread: it runs an event loop of its own and takes the same arguments.

    Ctrl-C raises `KeyboardInterrupt` when what has landed is safe; to get the best so far instead, pass a `RunHandle`
    and call its `cancel` from a signal handler. Raises `RuntimeError` inside a trio program: `await aoptimize` there.
    """
    return trio.run(partial(aoptimize, program, **options))


@attrs.frozen(kw_only=True)
class _Parts:
    cache: abc.Cache | None
    executor: abc.Executor | None
    meter: abc.Meter | None
    sinks: Sequence[tuple[str, abc.Sink]]


async def _run(setup: Setup, parts: _Parts, directory: Path | None, handle: RunHandle) -> Result:
    run = uuid.uuid4().hex[:12]
    ledger = Ledger(setup.budget, meter=parts.meter, run=run)
    async with open_run_store(None if directory is None else directory / STORE) as store:
        evaluator = Evaluator(
            [*setup.val, *setup.train],
            setup.metric,
            setup.config,
            cache=parts.cache,
            executor=parts.executor,
            ledger=ledger,
            journal=RunJournal(store, handle._put),
            models=setup.models,
        )
        facts = facts_of(setup, evaluator)
        if directory is not None:
            write_lock(directory, facts)
        evaluator.emit(RunStarted(run=run, facts=facts))
        for warning in setup.warnings:
            evaluator.warn("overlap", warning)
        followers = [Follower(store, sink, run, name) for name, sink in parts.sinks]
        with bound_to_log(run=run):
            async with services(*(follower.follow for follower in followers)):
                result = await _search_and_test(setup, evaluator, parts, directory, handle)
        await store.flush()
        for follower in followers:
            await follower.drain()
        return result


async def _search_and_test(
    setup: Setup, evaluator: Evaluator, parts: _Parts, directory: Path | None, handle: RunHandle
) -> Result:
    evaluator.ledger.set_aside(2 * len(setup.test))
    reports: list[Report] = []
    phase = await _phase(handle, partial(_search, setup, evaluator, reports))
    best, baseline_score, best_score = _choose(setup, evaluator, reports)
    if directory is not None:
        save(directory / BEST, best, setup.target.parameters(), validation=best_score, baseline=baseline_score)
    evaluator.ledger.set_aside(0)
    stop_reason, test = phase.stop_reason or phase.value, None
    if setup.test and phase.stop_reason is None:
        config = attrs.evolve(setup.config, preflight=False)
        compare = partial(
            compare_on_test, evaluator, setup.target, setup.test, setup.metric, setup.start, best, config,
            parts.executor, setup.models,
        )
        phase = await _phase(handle, compare)
        stop_reason, test = phase.stop_reason or stop_reason, phase.value
    evaluator.emit(RunEnded(stop_reason=stop_reason, best=best))
    await evaluator.flush()
    if phase.error is not None:
        raise phase.error
    return Result(
        program=_installed(setup.target, best),
        candidate=best,
        baseline=baseline_score,
        best=best_score,
        test=test,
        spend=evaluator.ledger.spend,
        reports=tuple(reports),
        stop_reason=stop_reason,
        run_dir=directory,
        warnings=tuple(w.message for w in evaluator.state.warnings),
    )


@attrs.frozen(kw_only=True)
class _Phase:
    """How the search or the test ended: with a value, or before its end."""

    value: Any = None
    stop_reason: str | None = None
    error: Exception | None = None


async def _phase(handle: RunHandle, call: Callable[[], Awaitable[Any]]) -> _Phase:
    """Run a part of the run that the handle may cancel."""
    phase = _Phase(stop_reason="cancelled")
    with trio.CancelScope() as scope:
        handle._enter(scope)
        try:
            phase = _Phase(value=await call())
        except (MetricError, RunStoppedError) as error:
            phase = _Phase(stop_reason=f"stopped: {error}", error=error)
        finally:
            handle._leave()
    return phase


async def _search(setup: Setup, evaluator: Evaluator, reports: list[Report]) -> str:
    """Run the strategies in a row, each from the best so far; gives the stop reason of the last."""
    engine = Engine(evaluator, setup.target)
    problem = problem_of(setup, evaluator.examples)
    for number, strategy in enumerate(setup.strategies):
        with engine.step("stage", number):
            report = await strategy.compile(engine, problem)
        reports.append(report)
        problem = attrs.evolve(problem, start=report.best)
    return reports[-1].stop_reason


def _choose(
    setup: Setup, evaluator: Evaluator, reports: Sequence[Report]
) -> tuple[Candidate, float | None, float | None]:
    """Give the winner with the validation means of baseline and winner.

    Where the strategies did not get to all their reports, the best fully scored candidate so far: none is better than
    a program that is not fully scored itself.
    """
    if len(reports) == len(setup.strategies):
        last = reports[-1]
        return last.best, reports[0].baseline_score, last.best_score
    state = evaluator.state
    columns = range(len(setup.val)) if setup.val else range(len(evaluator.examples))
    start = state.index.get(setup.start.stable_hash)
    baseline = None if start is None else state.matrix.mean(start, columns)
    winner = state.matrix.best_by_mean(columns, min_coverage=len(columns))
    if start is None or winner is None or state.matrix.coverage(start, columns) < len(columns):
        return setup.start, baseline, baseline
    return state.candidates[winner], baseline, state.matrix.mean(winner, columns)


def _installed(target: abc.Target, best: Candidate) -> Any:
    """Give the program of a target with the winner installed."""
    install = getattr(target, "install", None)
    if install is not None:
        install(best)
    return getattr(target, "program", getattr(target, "function", target))
