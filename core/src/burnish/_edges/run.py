"""A whole run, from any kind of caller. `burnish run` is this plus printing."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import trio

from burnish._edges.compose import Composition, label_of
from burnish._edges.course import Course, Parts
from burnish._edges.course import run as run_course
from burnish._edges.ends import decisive
from burnish._edges.failures import FailureCount
from burnish._edges.handle import RunHandle
from burnish._edges.plugins import PluginManager
from burnish._edges.request import RunRequest
from burnish._edges.result import Result as Result
from burnish._edges.run_dir import claimed
from burnish._edges.setup import check_budget, compose, problem_of
from burnish._model.example import make_examples
from burnish._model.signed import signed_like
from burnish._runtime.invoke import must_be_trio
from burnish._runtime.searching import plan_of


@signed_like(RunRequest)
async def aoptimize(*args: Any, **options: Any) -> Result:
    """Tune a program's texts on `trainset`, choose on `valset`, and report the winner on `testset`.

    `program`, `metric`, `strategy` (one, or several in a row), `cache`, `executor`, `meter`, `sinks` and `models` are
    objects, names of plugins, or `burnish.Use(name, **options)`. Twice the test rows are set aside from the budget
    before the search begins. `cache_salt`, `failure_score` and `rollout_timeout` (seconds) are those of
    `burnish.EngineConfig`.

    Raises usage and plugin errors before anything is spent, `BudgetRefusedError` where the budget buys nothing,
    `MetricError` (its text names set and row; its `row` is the engine's column, validation rows first) and
    `RunStoppedError` where going on is pointless: what was paid for is then in the run directory and
    the cache. An error of burnish that ends a run under way holds what was found so far as `error.result`. Running out
    of budget is a normal end. `handle.cancel()` ends the search and returns the best so far; cancelling the
    surrounding scope ends the run at once, and what has landed is kept. Sync code that has not returned five seconds
    after its cancellation is left behind.
    """
    must_be_trio()
    request = RunRequest(*args, **options)
    handle = request.handle or RunHandle()
    try:
        return await _run(request, handle)
    except BaseExceptionGroup as group:
        raise decisive(group) from None
    finally:
        handle._end()


async def _run(request: RunRequest, handle: RunHandle) -> Result:
    config, directory = request.config, request.directory
    async with AsyncExitStack() as stack:
        # first of all: plugins are given the directory when they open, and must not meet another run's
        stack.enter_context(claimed(directory, resume=request.resuming is not None))
        plugins = request.plugins or PluginManager()
        parts = Composition(stack, plugins, request.environment, request.config_file)
        setup = await compose(parts, request, config)
        plans = [plan_of(s, problem_of(setup, make_examples([*setup.val, *setup.train]))) for s in setup.strategies]
        first = plans[0].repeated(setup.repeats)
        check_budget(config.budget, first, test=len(setup.test), metering=setup.target.metering)
        opened = Parts(
            cache=await parts.open("cache", request.cache),
            executor=await parts.open("executor", request.executor),
            meter=await parts.open("meter", request.meter),
            sinks=[(label_of(sink), await parts.open("sink", sink)) for sink in request.sinks],
        )
        course = Course(
            setup=setup,
            parts=opened,
            directory=directory,
            handle=handle,
            failures=FailureCount(len(setup.val)),
            watched=request.handle is not None,
            resume=request.resuming,
            configuration=request.configuration,
            answers=None if request.answers is None else Path(request.answers),
        )
        return await run_course(course)


@signed_like(RunRequest)
def optimize(*args: Any, **options: Any) -> Result:
    """Do `aoptimize` from sync code, in any thread: it runs an event loop of its own and takes the same arguments.

    Ctrl-C raises `KeyboardInterrupt` when what has landed is safe; to get the best so far instead, pass a `RunHandle`
    and call its `cancel` from a signal handler. Raises `RuntimeError` inside a trio program: `await aoptimize` there.
    """
    return trio.run(partial(aoptimize, *args, **options))
