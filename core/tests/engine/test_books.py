"""The books: whatever fails, is cancelled or refused, nothing stays reserved, both ledgers agree, no cap is passed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import burnish as b
from burnish import BudgetExhausted, Complete, EngineConfig, EvalEngine, abc, errors
from burnish.abc import LMResponse, ModelLimits, Usage
from burnish.testing import ScriptedModel

from ._kit import Ambient, always, ask, echo, evaluated, idle, rows, told


@attrs.frozen
class Plan:
    """What happens to one row."""

    delay: int
    calls: int
    ending: str
    judged: bool


plans = st.builds(
    Plan,
    delay=st.integers(0, 4),
    calls=st.integers(0, 3),
    ending=st.sampled_from(["ok", "ok", "raises", "connection", "rate limit", "hangs", "bad metric"]),
    judged=st.booleans(),
)


class Model:
    """Answers after a second; fails once where the request says so."""

    def __init__(self, check: Callable[[], None]) -> None:
        self.check = check
        self.identity: Mapping[str, Any] = {"provider": "test", "model": "m"}
        self.limits = ModelLimits(key="m", retries=1, max_in_flight=3)

    async def complete(self, request: abc.LMRequest) -> LMResponse:
        self.check()
        await trio.sleep(1)
        text = request.messages[0].content
        if text != "ok":
            kind = errors.ModelConnectionError if text == "connection" else errors.ModelRateLimitError
            raise kind(text, retry_after=1.0)
        return LMResponse(text="1", usage=Usage(input_tokens=3, output_tokens=1), cost=Decimal("0.01"))


@attrs.frozen
class Call:
    """One evaluation: when it starts, which rows, and when it is cancelled."""

    start: int
    columns: list[int]
    candidates: list[int]
    cancel: int | None


calls = st.builds(
    Call,
    start=st.integers(0, 3),
    columns=st.lists(st.integers(0, 4), max_size=5),
    candidates=st.lists(st.integers(0, 1), min_size=1, max_size=2),
    cancel=st.none() | st.integers(0, 9),
)

budgets = st.builds(
    b.Budget,
    max_metric_calls=st.none() | st.integers(0, 12),
    max_requests=st.none() | st.integers(0, 20),
    max_lm_calls=st.none() | st.integers(0, 12),
)


async def live(row_plans: list[Plan], asked: list[Call], budget: b.Budget, concurrency: int) -> None:
    async def act(q: Any, instruction: str) -> Any:
        plan = row_plans[q]
        for _ in range(plan.calls):
            await b.call_model(model, ask("ok"))
        await trio.sleep(plan.delay)
        if plan.ending == "raises":
            raise ValueError("the program fails")
        if plan.ending == "hangs":
            await trio.sleep_forever()
        if plan.ending in ("connection", "rate limit"):
            await b.call_model(model, ask(plan.ending))
        return q

    async def metric(example: Any, prediction: Any) -> float:
        plan = row_plans[example["q"]]
        if plan.judged:
            await b.call_model(model, ask("ok"))
        if plan.ending == "bad metric":
            raise ValueError("the metric fails")
        return 1.0

    def within() -> None:
        spend = engine._evaluator.ledger.spend
        waiting = engine._evaluator.ledger._requests_in_flight
        for name, used in (("max_metric_calls", spend.metric_calls), ("max_lm_calls", spend.lm_calls)):
            assert getattr(budget, name) is None or used <= getattr(budget, name)
        assert budget.max_requests is None or spend.requests + waiting <= budget.max_requests

    model = Model(within)
    config = EngineConfig(concurrency=concurrency, budget=budget, rollout_timeout=30, max_failures_in_row=4)
    engine, program = EvalEngine(rows(5), metric, config), Ambient(act)
    for text in "xy":
        engine.register(told("answer", text))

    async def one(call: Call) -> None:
        await trio.sleep(call.start)
        with trio.move_on_after(float("inf") if call.cancel is None else call.cancel) as scope:
            with contextlib.suppress(errors.MetricError, errors.RunStoppedError):
                outcome = await engine.evaluate_many(program, call.candidates, call.columns)
                done = outcome.evaluations if isinstance(outcome, Complete) else outcome.partial or ()
                assert isinstance(done, tuple)
                if isinstance(outcome, Complete):
                    faults = [r.error for e in done for r in e.rollouts if r.eval is None]
                    assert all(fault is not None and fault.type != "NotRun" for fault in faults)
                    assert [call.columns] * len(call.candidates) == [[r.example for r in e.rollouts] for e in done]
        assert call.cancel is not None or not scope.cancelled_caught

    async with trio.open_nursery() as nursery:
        for call in asked:
            nursery.start_soon(one, call)
    within()
    idle(engine)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(
    row_plans=st.lists(plans, min_size=5, max_size=5),
    asked=st.lists(calls, min_size=1, max_size=4),
    budget=budgets,
    concurrency=st.sampled_from([1, 3, 16]),
)
def test_no_interleaving_breaks_the_books(
    row_plans: list[Plan], asked: list[Call], budget: b.Budget, concurrency: int
) -> None:
    """Random failures, cancellations and caps: reservations return to zero, caps hold, nobody hangs or loses rows."""
    trio.run(live, row_plans, asked, budget, concurrency, clock=trio.testing.MockClock(autojump_threshold=0))


async def test_spend_is_counted_by_role() -> None:
    """E28: a rollout is one metric call and one lm call; tokens are those of all calls, in total and by role."""
    model = ScriptedModel(lambda request: "1", usage=Usage(input_tokens=10, output_tokens=2))

    async def act(q: Any, instruction: str) -> Any:
        for _ in range(2):
            await b.call_model(model, ask())
        return q

    async def judge(example: Any, prediction: Any) -> float:
        return float((await b.call_model(model, ask("judge"))).text)

    engine = EvalEngine(rows(2), judge)
    await engine.evaluate(Ambient(act, names=("draft", "answer")), engine.register(b.Candidate()))
    spend = engine.spend
    assert (2, 2, 4, 0) == (spend.metric_calls, spend.lm_calls, spend.lm_spans, spend.cache_hits)
    assert (10, 120) == (spend.requests, spend.tokens)
    assert {"task": 8, "judge": 2} == {role: share.requests for role, share in spend.by_role.items()}


async def test_failed_spans_count_too() -> None:
    """E29: a span that failed is a span; the judge's tokens, which the seed never metered, are in the books (WE)."""

    async def act(q: Any, instruction: str) -> Any:
        raise ValueError("no")

    engine = EvalEngine(rows(3), always)
    await engine.evaluate(Ambient(act), engine.register(b.Candidate()))
    assert 3 == engine.spend.lm_spans


async def test_charging_is_never_refused() -> None:
    """E16: what the caller spent is booked even beyond the cap, and keeps everything else out."""
    engine = EvalEngine(rows(1), always, EngineConfig(budget=b.Budget(max_metric_calls=2, max_lm_calls=2)))
    engine.charge(3, 1)
    assert (3, 1, False) == (engine.spend.metric_calls, engine.spend.lm_calls, engine.budget_allows(1))
    assert engine.budget_allows(0)
    outcome = await engine.evaluate(Ambient(echo), engine.register(b.Candidate()))
    assert BudgetExhausted(1, cap="max_metric_calls") == outcome
    idle(engine)


async def test_a_cap_inside_a_rollout_keeps_what_was_scored() -> None:
    """`max_requests` counts every request: what fits is scored, the rest is named, and none starts that cannot end."""
    model = ScriptedModel(lambda request: "1")

    async def act(q: Any, instruction: str) -> Any:
        for _ in range(2):
            await b.call_model(model, ask(str(q)))
        return q

    engine = EvalEngine(rows(4), always, EngineConfig(concurrency=1, budget=b.Budget(max_requests=5)))
    index = engine.register(b.Candidate())
    outcome = await engine.evaluate(Ambient(act), index)
    assert isinstance(outcome, BudgetExhausted)
    assert isinstance(outcome.partial, tuple)
    assert (2, "max_requests", [1.0, 1.0, None, None]) == (outcome.needed, outcome.cap, outcome.partial[0].scores())
    assert (4, 4, 2) == (model.calls, engine.spend.requests, engine.spend.metric_calls)
    idle(engine)
    assert [1.0, 1.0] == evaluated(await engine.evaluate(Ambient(act), index, [0, 1])).scores()
