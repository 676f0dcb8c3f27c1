"""A whole run, from any kind of caller. `burnish run` is this plus printing."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import attrs
import trio

from burnish import abc
from burnish._edges.compose import Composition
from burnish._edges.course import Course, Parts, decisive
from burnish._edges.course import run as run_course
from burnish._edges.failures import FailureCount
from burnish._edges.handle import RunHandle
from burnish._edges.plugins import PluginManager
from burnish._edges.result import Result as Result
from burnish._edges.run_dir import claimed
from burnish._edges.setup import Wanted, check_budget, compose, problem_of
from burnish._model.budget import Budget
from burnish._model.example import make_examples
from burnish._runtime.config import EngineConfig
from burnish.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")


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
    cache_salt: int = 0,
    failure_score: float = 0.0,
    rollout_timeout: float | None = None,
    plugins: PluginManager | None = None,
    env: abc.Environment | None = None,
    handle: RunHandle | None = None,
    config_file: str | None = None,
) -> Result:
    """Tune a program's texts on `trainset`, choose on `valset`, and report the winner on `testset`.

    `metric`, `strategy` (one, or several in a row), `cache`, `executor`, `meter`, `sinks` and `models` are objects,
    names of plugins, or `burnish.Use(name, **options)`. Twice the test rows are set aside from the budget before the
    search begins. `cache_salt`, `failure_score` and `rollout_timeout` (seconds) are those of `burnish.EngineConfig`.

    Raises usage and plugin errors before anything is spent, `BudgetRefusedError` where the budget buys nothing,
    `MetricError` (its text names set and row; its `row` is the engine's column, validation rows first) and
    `RunStoppedError` where going on is pointless: what was paid for is then in the run directory and
    the cache. An error of burnish that ends a run under way holds what was found so far as `error.result`. Running out
    of budget is a normal end. `handle.cancel()` ends the search and returns the best so far; cancelling the
    surrounding scope ends the run at once, and what has landed is kept.
    """
    watched, handle = handle is not None, handle or RunHandle()
    try:
        if not isinstance(budget, Budget):
            raise UsageError(
                f"budget: {budget!r:.80} is no budget; pass for example `burnish.Budget(max_metric_calls=500)`, or "
                "`burnish.Budget()` for no cap"
            )
        directory = None if run_dir is None else Path(run_dir)
        plugins = plugins or PluginManager()
        env = attrs.evolve(env or abc.Environment(variables=os.environ), run_dir=directory)
        config = EngineConfig(
            concurrency=concurrency,
            budget=budget,
            cache_salt=cache_salt,
            failure_score=failure_score,
            rollout_timeout=rollout_timeout,
            keep_traces="all",
            preflight=True,
            max_failures_in_row=16,
        )
        wanted = Wanted(
            program=program,
            trainset=trainset,
            valset=valset,
            testset=testset,
            metric=metric,
            strategy=strategy,
            models=models,
            seed=seed,
            config=config,
        )
        async with AsyncExitStack() as stack:
            # first of all: plugins are given the directory when they open, and must not meet another run's
            stack.enter_context(claimed(directory))
            parts = Composition(stack, plugins, env, config_file)
            setup = await compose(parts, wanted)
            plans = [s.plan(problem_of(setup, make_examples([*setup.val, *setup.train]))) for s in setup.strategies]
            check_budget(budget, plans[0], test=len(setup.test), metering=setup.target.metering)
            opened = Parts(
                cache=await parts.open("cache", cache),
                executor=await parts.open("executor", executor),
                meter=await parts.open("meter", meter),
                sinks=[(str(sink), await parts.open("sink", sink)) for sink in sinks],
            )
            return await run_course(
                Course(
                    setup=setup,
                    parts=opened,
                    directory=directory,
                    handle=handle,
                    failures=FailureCount(len(setup.val)),
                    watched=watched,
                )
            )
    except BaseExceptionGroup as group:
        raise decisive(group) from None
    finally:
        handle._end()


def _signed_like(call: Callable[P, Coroutine[Any, Any, R]]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Give a function the signature of its async twin, for type checkers and for `inspect.signature`."""

    def sign(function: Callable[..., R]) -> Callable[P, R]:
        function.__dict__["__signature__"] = inspect.signature(call)
        return function

    return sign


@_signed_like(aoptimize)
def optimize(*args: Any, **options: Any) -> Result:
    """Do `aoptimize` from sync code, in any thread: it runs an event loop of its own and takes the same arguments.

    Ctrl-C raises `KeyboardInterrupt` when what has landed is safe; to get the best so far instead, pass a `RunHandle`
    and call its `cancel` from a signal handler. Raises `RuntimeError` inside a trio program: `await aoptimize` there.
    """
    return trio.run(partial(aoptimize, *args, **options))
