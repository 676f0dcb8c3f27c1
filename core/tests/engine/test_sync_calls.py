"""Models and programs from sync code: worker threads, threads with the context, no loop at all."""

from __future__ import annotations

import contextvars
import threading
import time
from typing import Any

import pytest
import trio

import burnish as b
from burnish import EngineConfig, EvalEngine
from burnish._runtime import invoke
from burnish.abc import LMRequest, LMResponse
from burnish.testing import ScriptedModel

from ._kit import always, ask, evaluated, idle, rows


def call_sync(model: Any, request: LMRequest) -> LMResponse:
    """Call a model from sync code."""
    return b.run_from_sync(lambda: b.call_model(model, request))


def in_thread(function: Any) -> Any:
    """Run a function in a plain thread that carries the context, and give what it gives."""
    got: list[Any] = []
    thread = threading.Thread(target=contextvars.copy_context().run, args=[lambda: got.append(function())])
    thread.start()
    thread.join()
    return got[0] if got else None


@pytest.mark.parametrize("where", ["worker thread", "plain thread with the context", "both"])
async def test_a_sync_program_calls_models(where: str) -> None:
    """Its calls are booked on its rollout, under the run's limits, wherever in it they are made."""
    model = ScriptedModel(lambda request: request.messages[0].content)

    def program(q: int) -> str:
        def call() -> str:
            return call_sync(model, ask(str(q))).text

        if where == "plain thread with the context":
            return str(in_thread(call))
        return call() if where == "worker thread" else str(in_thread(call)) + call()

    engine = EvalEngine(rows(5), always, EngineConfig(concurrency=2))
    evaluation = evaluated(await engine.evaluate(program, engine.register(b.Candidate())))
    each = 2 if where == "both" else 1
    assert [str(i) * each for i in range(5)] == [r.output for r in evaluation.rollouts]
    assert (5 * each, 5 * each) == (engine.spend.requests, model.calls)
    idle(engine)


async def test_a_sync_judge_is_booked_as_judge() -> None:
    """A metric in a worker thread calls its judge on the loop; with all threads busy none waits for ever."""
    model = ScriptedModel(lambda request: "1")

    def judge(example: Any, prediction: Any) -> float:
        return float(call_sync(model, ask("judge")).text)

    def program(q: int) -> str:
        return call_sync(model, ask()).text

    engine = EvalEngine(rows(6), judge, EngineConfig(concurrency=3))
    assert 1.0 == evaluated(await engine.evaluate(program, engine.register(b.Candidate()))).mean()
    assert {"judge": 6, "task": 6} == {role: share.requests for role, share in engine.spend.by_role.items()}


async def test_a_cap_reaches_sync_code() -> None:
    """The refusal is raised in the thread, before the call."""
    model, seen = ScriptedModel(lambda request: "ok"), []

    def program(q: int) -> str:
        try:
            return call_sync(model, ask()).text + call_sync(model, ask()).text
        except b.errors.BudgetExceededError as error:
            seen.append(error.cap)
            raise

    engine = EvalEngine(rows(3), always, EngineConfig(concurrency=1, budget=b.Budget(max_requests=1)))
    outcome = await engine.evaluate(program, engine.register(b.Candidate()))
    assert isinstance(outcome, b.BudgetExhausted)
    assert (["max_requests"], 1) == (seen, model.calls)


def test_without_any_loop() -> None:
    """It runs one of its own; a plain thread without a context does the same."""
    model = ScriptedModel(lambda request: "ok")
    assert "ok" == call_sync(model, ask()).text
    got: list[str] = []
    thread = threading.Thread(target=lambda: got.append(call_sync(model, ask()).text))
    thread.start()
    thread.join()
    assert (["ok"], 2) == (got, model.calls)


async def test_on_the_loop_it_is_refused() -> None:
    """Waiting there would block everything: the message says to await."""
    with pytest.raises(RuntimeError, match="`await` the async form"):
        call_sync(ScriptedModel(["ok"]), ask())


async def test_errors_come_back_as_they_are() -> None:
    """Whatever the call raises is raised in the thread, RuntimeErrors of the program's own too."""

    async def fails() -> None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        await trio.to_thread.run_sync(lambda: b.run_from_sync(fails))
    with pytest.raises(RuntimeError, match="mine"):
        await trio.to_thread.run_sync(lambda: trio.from_thread.run(fails))


async def test_sync_code_is_cancelled_at_its_next_call() -> None:
    """Cancelling waits for sync code, which ends at its next call of a model."""
    model, entered, go = ScriptedModel(lambda request: "ok"), threading.Event(), threading.Event()

    def program(q: int) -> str:
        entered.set()
        go.wait(5)
        return call_sync(model, ask()).text

    engine = EvalEngine(rows(1), always)

    async def cancel() -> None:
        await trio.to_thread.run_sync(entered.wait)
        scope.cancel()
        go.set()

    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            nursery.start_soon(cancel)
            await engine.evaluate(program, engine.register(b.Candidate()))
    assert scope.cancelled_caught
    assert (0, 0) == (model.calls, engine.spend.metric_calls)
    idle(engine)


async def test_a_time_limit_and_sync_code() -> None:
    """Sync code cannot be interrupted: over its time it ends at its next model call; with a result it counts."""
    model = ScriptedModel(lambda request: "ok")

    def program(q: int) -> str:
        time.sleep(0.04)
        return call_sync(model, ask()).text if q else "alone"

    engine = EvalEngine(rows(2), always, EngineConfig(rollout_timeout=0.02))
    first, second = evaluated(await engine.evaluate(program, engine.register(b.Candidate()))).rollouts
    assert (b.RolloutStatus.SUCCEEDED, "alone") == (first.status, first.output)
    assert (b.RolloutStatus.TIMED_OUT, 0) == (second.status, model.calls)
    idle(engine)


async def test_any_callable_is_a_model() -> None:
    """Sync ones run in a thread, async ones are awaited, and a sync one may hand a coroutine back."""

    async def awaited(request: LMRequest) -> str:
        return "async"

    def blocking(request: LMRequest) -> LMResponse:
        with pytest.raises(RuntimeError):
            trio.lowlevel.current_task()
        return LMResponse(text="sync", model="m")

    assert "async" == (await b.call_model(awaited, ask())).text
    assert "sync" == (await b.call_model(blocking, ask())).text
    assert "async" == (await b.call_model(lambda request: awaited(request), ask())).text


async def test_what_sync_code_calls_is_cancelled_with_it() -> None:
    """The model call that a cancelled program waits for ends at once, the thread sees it; later calls are not made."""
    reached, seen, asked = trio.Event(), list[str](), list[str]()

    async def slow(request: LMRequest) -> str:
        asked.append(request.messages[0].content)
        reached.set()
        await trio.sleep_forever()

    def program(q: int) -> None:
        for text in ("one", "two"):
            try:
                call_sync(slow, ask(text))
            except BaseException as error:
                seen.append(type(error).__name__)

    engine = EvalEngine(rows(1), always)
    with trio.fail_after(4), trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def cancel() -> None:
                await reached.wait()
                scope.cancel()

            nursery.start_soon(cancel)
            await engine.evaluate(program, engine.register(b.Candidate()))
    assert (["Cancelled", "Cancelled"], ["one"]) == (seen, asked)
    idle(engine)


async def test_sync_code_that_is_left_behind_makes_no_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over its time and its caller's patience, a rollout is `timed_out`; what its thread does later counts nowhere."""
    monkeypatch.setattr(invoke, "PATIENCE", 0.02)
    model, freed, over = ScriptedModel(lambda request: "ok"), threading.Event(), threading.Event()

    def program(q: int) -> str:
        freed.wait(10)
        try:
            return call_sync(model, ask()).text
        finally:
            over.set()

    engine = EvalEngine(rows(1), always, EngineConfig(rollout_timeout=0.02))
    (rollout,) = evaluated(await engine.evaluate(program, engine.register(b.Candidate()))).rollouts
    freed.set()
    assert await trio.to_thread.run_sync(over.wait, 10)
    assert (b.RolloutStatus.TIMED_OUT, None, 0) == (rollout.status, rollout.eval, model.calls)
    idle(engine)


async def test_sync_code_is_not_begun_once_it_is_cancelled() -> None:
    """Cancelled before its thread runs, nothing is called and nobody waits."""
    called, limiter = list[int](), trio.CapacityLimiter(1)
    began = trio.current_time()
    for held in (False, True):  # at once, or while it waits for a thread
        if held:
            limiter.acquire_on_behalf_of_nowait("another")
        with trio.move_on_after(0.01 if held else 0) as scope:
            await b.in_thread(lambda: called.append(1), limiter)
        assert scope.cancelled_caught
    assert trio.current_time() - began < 2
    assert [] == called
