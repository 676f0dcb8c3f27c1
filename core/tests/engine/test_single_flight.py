"""Equal work under way: it runs once, and whoever waits for it is never left without an answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.lowlevel
import trio.testing

import burnish as b
from burnish import BudgetExhausted, Complete, EngineConfig, EvalEngine, abc, errors
from burnish._runtime.ledger import Ledger
from burnish.testing import ScriptedModel

from ._kit import Ambient, Module, always, as_said, ask, echo, evaluated, idle, rows, tenth, told


class Slow(Ambient):
    """A program that waits until it is let go."""

    def __init__(self, **options: Any) -> None:
        super().__init__(self.wait, **options)
        self.go = trio.Event()

    async def wait(self, q: Any, instruction: str) -> Any:
        await self.go.wait()
        return q


async def test_two_calls_for_the_same_rows_run_them_once() -> None:
    """Equal requests in flight run once; both get evals and traces; the second counts as served."""
    program, engine = Slow(), EvalEngine(rows(4), tenth)
    index, got = engine.register(b.Candidate()), []

    async def evaluate() -> None:
        got.append(await engine.evaluate(program, index))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(evaluate)
        nursery.start_soon(evaluate)
        await trio.testing.wait_all_tasks_blocked()
        program.go.set()
    assert [0, 1, 2, 3] == sorted(program.ran)
    for outcome in got:
        assert isinstance(outcome, Complete)
        assert [0.0, 0.1, 0.2, 0.3] == outcome.evaluation.scores()
        assert all(r.trace is not None for r in outcome.evaluation.rollouts)
    assert (4, 4) == (engine.spend.metric_calls, engine.spend.cache_hits)
    idle(engine)


async def test_rollouts_that_are_cancelled_after_they_called_a_model_count() -> None:
    """Whoever cancels an evaluation again and again meets the cap on metric calls all the same."""
    scripted = ScriptedModel(lambda request: "1")

    async def act(q: Any, instruction: str) -> Any:
        await b.call_model(scripted, ask())
        await trio.sleep_forever()

    engine = EvalEngine(rows(2), always, EngineConfig(budget=b.Budget(max_metric_calls=6)))
    program, index = Ambient(act), engine.register(b.Candidate())
    for asked in (2, 4, 6):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(engine.evaluate, program, index)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert (asked, asked, asked) == (scripted.calls, engine.spend.metric_calls, engine.spend.requests)
    outcome = await engine.evaluate(program, index)
    assert isinstance(outcome, BudgetExhausted)
    assert (6, "max_metric_calls") == (scripted.calls, outcome.cap)
    idle(engine)


@pytest.mark.parametrize("cap", [None, 8, 4])
async def test_when_the_first_is_cancelled_the_second_takes_over(cap: int | None) -> None:
    """It neither hangs nor loses rows: it admits and runs what the first had promised, within the same budget."""
    program, budget = Slow(), b.Budget(max_metric_calls=cap)
    engine = EvalEngine(rows(4), tenth, EngineConfig(concurrency=2, budget=budget))
    index, got = engine.register(b.Candidate()), []
    first = trio.CancelScope()

    async def cancelled() -> None:
        with first:
            await engine.evaluate(program, index)

    async def second() -> None:
        got.append(await engine.evaluate(program, index))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancelled)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(second)
        await trio.testing.wait_all_tasks_blocked()
        first.cancel()
        await trio.testing.wait_all_tasks_blocked()
        program.go.set()
    (outcome,) = got
    assert isinstance(outcome, Complete)
    assert [0.0, 0.1, 0.2, 0.3] == outcome.evaluation.scores()
    assert 4 == engine.spend.metric_calls
    idle(engine)


async def test_a_cancelled_evaluation_keeps_what_landed() -> None:
    """What has landed is scored, booked and served; only the rest runs again."""
    landed: list[Any] = []
    held = [True]

    async def act(q: Any, instruction: str) -> Any:
        if q > 2 and held:
            await trio.sleep_forever()
        landed.append(q)
        return q

    program, engine = Ambient(act), EvalEngine(rows(6), tenth, EngineConfig(concurrency=2))
    index = engine.register(b.Candidate())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(engine.evaluate, program, index)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert ([0.0, 0.1, 0.2, None, None, None], 3) == (engine.matrix.row(index), engine.spend.metric_calls)
    idle(engine)
    landed.clear()
    held.clear()
    assert [i / 10 for i in range(6)] == evaluated(await engine.evaluate(program, index)).scores()
    assert ([3, 4, 5], 6, 3) == (sorted(landed), engine.spend.metric_calls, engine.spend.cache_hits)


async def test_a_stop_reaches_everyone_who_was_waiting() -> None:
    """Where credentials are missing, each evaluation under way is told; none reports rows that never ran."""

    async def act(q: Any, instruction: str) -> Any:
        await trio.testing.wait_all_tasks_blocked()
        raise errors.ModelAuthError("bad key")

    program, engine = Ambient(act), EvalEngine(rows(6), always, EngineConfig(concurrency=1))
    index, told_of = engine.register(b.Candidate()), []

    async def evaluate(subset: list[int]) -> None:
        with pytest.raises(errors.RunStoppedError, match="bad key"):
            await engine.evaluate(program, index, subset)
        told_of.append(subset)

    async with trio.open_nursery() as nursery:
        for subset in ([0, 1], [1, 2], [4, 5]):
            nursery.start_soon(evaluate, subset)
    assert (3, 1) == (len(told_of), len(program.ran))
    idle(engine)


async def test_a_cap_inside_a_rollout_reaches_whoever_waits() -> None:
    """The first runs into `max_requests`; the second, which waited for its rows, is told so too."""

    async def act(q: Any, instruction: str) -> Any:
        await trio.testing.wait_all_tasks_blocked()
        return (await b.call_model(lambda request: "1", abc.LMRequest(messages=()))).text

    budget = b.Budget(max_requests=2)
    engine = EvalEngine(rows(4), as_said, EngineConfig(concurrency=1, budget=budget))
    index, got = engine.register(b.Candidate()), []

    async def evaluate() -> None:
        got.append(await engine.evaluate(Ambient(act), index))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(evaluate)
        nursery.start_soon(evaluate)
    assert all(isinstance(outcome, BudgetExhausted) for outcome in got)
    assert {"max_requests"} == {outcome.cap for outcome in got if isinstance(outcome, BudgetExhausted)}
    assert 2 == engine.spend.requests
    idle(engine)


async def test_what_is_landing_lands(autojump_clock: trio.testing.MockClock) -> None:
    """Cancelled while a finished rollout is being written down: it is paid, so it counts and is kept."""

    class Slowly(b.RolloutCache):
        async def put_many(self, request: abc.CachePut) -> None:
            await trio.sleep(2)
            await super().put_many(request)

    engine = EvalEngine(rows(3), tenth, cache=Slowly())
    index = engine.register(b.Candidate())
    with trio.move_on_after(1) as scope:
        await engine.evaluate(Ambient(echo), index)
    assert scope.cancel_called
    assert ([0.0, 0.1, 0.2], 3) == (engine.matrix.row(index), engine.spend.metric_calls)
    idle(engine)
    assert all(r.cached for r in evaluated(await engine.evaluate(Ambient(echo), index)).rollouts)


class Meter:
    """Answers leases with what it is given: a refusal, a failure, or after a while."""

    def __init__(self, answer: Callable[[abc.Lease], Any]) -> None:
        self.answer = answer

    async def lease(self, request: abc.Lease) -> Any:
        await trio.testing.wait_all_tasks_blocked()
        return self.answer(request)

    async def release(self, key: str, unused: abc.Amount) -> None: ...


async def test_a_refusing_meter_leaves_nothing_reserved() -> None:
    """What a meter refuses is neither reserved nor promised: the budget stays exact, and the next try runs."""
    refusing = [True]

    def answer(request: abc.Lease) -> Any:
        return abc.Exhausted(cap="team") if refusing[0] else abc.Grant(key=request.key)

    ledger = Ledger(b.Budget(max_metric_calls=3), meter=Meter(answer))
    engine = EvalEngine(rows(3), tenth, ledger=ledger)
    index = engine.register(b.Candidate())
    for _ in range(2):
        outcome = await engine.evaluate(Ambient(echo), index)
        assert BudgetExhausted(3, cap="meter: team") == outcome
        idle(engine)
    assert (3, True, False) == (ledger.room(), engine.budget_allows(3), engine.budget_allows(4))
    refusing[0] = False
    assert isinstance(await engine.evaluate(Ambient(echo), index), Complete)
    assert (0, 3) == (ledger.room(), engine.spend.metric_calls)


@pytest.mark.parametrize("how", ["fails", "is cancelled"])
async def test_a_meter_that_fails_leaves_nobody_waiting(how: str) -> None:
    """The rows it was asked for are free again; a second call for them takes them over."""
    failing, slow = [True], trio.CancelScope()

    def answer(request: abc.Lease) -> Any:
        if failing[0]:
            failing[0] = False
            if how == "fails":
                raise OSError("the meter is gone")
            slow.cancel()
        return abc.Grant(key=request.key)

    class Hanging(Meter):
        async def lease(self, request: abc.Lease) -> Any:
            answered = await super().lease(request)
            await trio.lowlevel.checkpoint()
            return answered

    engine = EvalEngine(rows(3), tenth, ledger=Ledger(b.Budget(max_metric_calls=3), meter=Hanging(answer)))
    index, got = engine.register(b.Candidate()), []

    async def first() -> None:
        with slow, pytest.raises(errors.RunStoppedError, match=r"the meter `.*Hanging` failed .* the meter is gone"):
            await engine.evaluate(Ambient(echo), index)

    async def second() -> None:
        got.append(await engine.evaluate(Ambient(echo), index))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(first)
        await trio.lowlevel.checkpoint()
        nursery.start_soon(second)
    assert isinstance(got[0], Complete)
    assert 3 == engine.spend.metric_calls
    idle(engine)


async def test_a_waiting_candidate_is_not_mistaken_for_an_installed_one() -> None:
    """Asked while another candidate is written into the program, an evaluation keeps its own identity (E33)."""
    module = Module()
    held, go = trio.Event(), trio.Event()

    async def act(q: Any, instruction: str) -> Any:
        if instruction == "first":
            held.set()
            await go.wait()
        return len(instruction)

    module.act = act
    engine = EvalEngine(rows(2), as_said)
    first, second = engine.register(told("answer", "first")), engine.register(told("answer", "next"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(engine.evaluate, module, first)
        await held.wait()
        nursery.start_soon(engine.evaluate, module, second)
        await trio.testing.wait_all_tasks_blocked()
        go.set()
    assert ([5.0, 5.0], [4.0, 4.0], 1) == (
        engine.matrix.row(first),
        engine.matrix.row(second),
        engine.peak_candidate_concurrency,
    )
    ran = module.ran
    await engine.evaluate(module, second)
    assert ran == module.ran
    b.apply_candidate(module, engine.candidate(first))
    await engine.evaluate(module, second)
    assert ran + 2 == module.ran
