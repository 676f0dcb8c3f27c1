"""A whole run: compose, search, test, save. `burnish run` is this plus printing."""

from __future__ import annotations

import os
import platform
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
from burnish._model.budget import Budget, Spend
from burnish._model.candidate import Candidate
from burnish._model.canonical import Json, JsonMap, fingerprint
from burnish._model.events import RunEnded, RunStarted
from burnish._model.example import Example, make_examples
from burnish._model.report import Plan, Report
from burnish._runtime.config import EngineConfig
from burnish._runtime.engine import Engine
from burnish._runtime.evaluator import Evaluator
from burnish._runtime.fanout import services
from burnish._runtime.follow import Follower
from burnish._runtime.invoke import Invoker
from burnish._runtime.journal import RunJournal
from burnish._runtime.ledger import Ledger
from burnish._runtime.log import bound as bound_to_log
from burnish._runtime.metric import MetricRunner
from burnish._runtime.run_store import open_run_store
from burnish._runtime.target import as_target, inputs_of
from burnish.errors import BudgetRefusedError, BurnishError, MetricError, RowError, RunStoppedError, UsageError


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


@attrs.frozen(kw_only=True)
class Setup:
    """Everything that makes up a run, checked for what can be checked without effects."""

    target: abc.Target
    train: Sequence[Any]
    val: Sequence[Any]
    test: Sequence[Any]
    metric: Any
    strategies: Sequence[Any]
    models: Mapping[str, Any]
    budget: Budget
    seed: int
    config: EngineConfig
    metric_info: abc.MetricInfo
    start: Candidate = Candidate()
    warnings: tuple[str, ...] = ()


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
            setup = await _compose(
                parts, program, trainset, valset, testset, metric, strategy, budget, seed, models, concurrency
            )
            plans = [s.plan(_problem(setup, make_examples([*setup.val, *setup.train]))) for s in setup.strategies]
            _refuse_useless_budget(setup, plans)
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


async def _compose(
    parts: Composition,
    program: Any,
    trainset: Sequence[Any],
    valset: Sequence[Any] | None,
    testset: Sequence[Any] | None,
    metric: Any,
    strategy: Any,
    budget: Budget,
    seed: int,
    models: Mapping[str, Any] | Any | None,
    concurrency: int,
) -> Setup:
    target = as_target(program)
    copy = getattr(target, "copy", None)
    train, val, test = list(trainset), list(valset or ()), list(testset or ())
    if not train:
        raise UsageError("the trainset is empty; a strategy has nothing to learn from")
    chain = strategy if isinstance(strategy, (list, tuple)) else [strategy]
    if not chain:
        raise UsageError("no strategy was given")
    sets = _examples(target, trainset=train, valset=val, testset=test)
    opened = await parts.open("metric", metric)
    return Setup(
        target=target if copy is None else copy(),
        train=train,
        val=val,
        test=test,
        metric=opened,
        metric_info=MetricRunner(opened, Invoker(concurrency)).info,
        strategies=[await parts.open("strategy", one) for one in chain],
        models=await parts.models(models),
        budget=budget,
        seed=seed,
        config=EngineConfig(
            concurrency=concurrency, budget=budget, keep_traces="all", preflight=True, max_failures_in_row=16
        ),
        warnings=tuple(_overlaps(*sets)),
    )


def _examples(target: abc.Target, **by_set: Sequence[Any]) -> list[tuple[Example, ...]]:
    """Read all rows, those of the test too: what the program cannot take is refused before anything is spent.

    Raises `RowError` with the name of the set and the row's index in it.
    """
    made = []
    for name, rows in by_set.items():
        try:
            made.append(make_examples(rows))
            for index, example in enumerate(made[-1]):
                inputs_of(example, index, target.inputs)
        except RowError as error:
            raise RowError(f"{name}: {error}", row=error.row, field=error.field) from None
    return made


def _overlaps(train: Sequence[Example], val: Sequence[Example], test: Sequence[Example]) -> list[str]:
    """Name the rows that stand in two of the sets: a score on them says less than it seems to."""
    by_set = {"train": train, "validation": val, "test": test}
    found = []
    for first, second in (("train", "validation"), ("train", "test"), ("validation", "test")):
        known = {example.fingerprint for example in by_set[first]}
        rows = [str(i) for i, example in enumerate(by_set[second]) if example.fingerprint in known]
        if rows:
            shown = ", ".join(rows[:5]) + (", ..." if len(rows) > 5 else "")
            found.append(f"{len(rows)} of the {second} rows stand in the {first} rows too ({second} rows {shown})")
    return found


def _problem(setup: Setup, examples: tuple[Example, ...]) -> abc.Problem:
    val = tuple(range(len(setup.val)))
    train = tuple(range(len(setup.val), len(setup.val) + len(setup.train)))
    return abc.Problem(
        parameters=setup.target.parameters(),
        train=train,
        val=val,
        start=setup.start,
        metric=setup.metric_info,
        seed=setup.seed,
        examples=examples,
    )


def _refuse_useless_budget(setup: Setup, plans: Sequence[Plan]) -> None:
    """Refuse a budget that cannot be kept, or that cannot pay one round of the first strategy beside the test."""
    for name in ("max_requests", "max_tokens", "max_cost"):
        if setup.target.metering == "opaque" and getattr(setup.budget, name) is not None:
            raise UsageError(f"{name} cannot be kept: this program's model calls cannot be seen; cap max_metric_calls")
    needed = plans[0].minimum + 2 * len(setup.test)
    for name in ("max_metric_calls", "max_lm_calls"):
        cap = getattr(setup.budget, name)
        if cap is not None and cap < needed:
            raise BudgetRefusedError(
                f"{name} = {cap} buys nothing: one round needs {plans[0].minimum} rollouts and the test of "
                f"{len(setup.test)} rows {2 * len(setup.test)}; allow at least {needed}, or use fewer rows",
                cap=name,
                needed=needed,
            )


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
        facts = _facts(setup, evaluator)
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
    problem = _problem(setup, evaluator.examples)
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


def _facts(setup: Setup, evaluator: Evaluator) -> JsonMap:
    """What a resume compares, and what a reader wants to know."""
    versions: dict[str, Json] = {"python": platform.python_version(), "burnish": _version("burnish")}
    strategies: list[Json] = [
        {"strategy": type(s).__name__, "replay_version": getattr(s, "replay_version", 1)} for s in setup.strategies
    ]
    return {
        "format": "burnish.run",
        "version": 1,
        "seed": setup.seed,
        "rows": fingerprint([e.fingerprint for e in evaluator.examples]),
        "counts": {"train": len(setup.train), "validation": len(setup.val), "test": len(setup.test)},
        "program": setup.target.fingerprint,
        "metric": evaluator.metric.fingerprint,
        "strategies": strategies,
        "versions": versions,
    }


def _version(distribution: str) -> str:
    import importlib.metadata

    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"

