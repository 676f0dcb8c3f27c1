"""What a call may need at most is reserved before it starts: no cap on money is passed, whatever happens."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import attrs
import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

import burnish as b
from burnish import EngineConfig, EvalEngine, abc, errors
from burnish._runtime.ledger import Ledger
from burnish._runtime.limiter import Limits
from burnish._runtime.rations import draw_on
from burnish._runtime.scope import Account, accounted
from burnish.abc import LMResponse, ModelLimits, ModelPrice, Usage
from burnish.testing import ScriptedModel

from ._kit import Ambient, always, ask, idle, rows, told

PRICE = ModelPrice(input=1, output=1000)
FREE_PROMPT = ModelPrice(input=0, output=1000)
"""A thousandth of a dollar for each token of a reply."""


def bounded(reply: int = 10, takes: int = 1, price: ModelPrice | None = FREE_PROMPT) -> ScriptedModel:
    """Make a model whose replies are of `takes` tokens where `reply` may come."""
    limits = ModelLimits(key="m", timeout=None, max_output_tokens=reply, price=price, extra_input_tokens=0)
    return ScriptedModel(lambda _: "ok", usage=Usage(output_tokens=takes), limits=limits, delay=1)


def account(budget: b.Budget, role: str = "task") -> Account:
    return Account(role=role, ledger=Ledger(budget), limits=Limits())


async def test_what_a_call_may_cost_is_reserved(autojump_clock: Any) -> None:
    """Of calls that may cost a cent and do cost a tenth of it, two cents let two start at once, and all in the end."""
    model, books = bounded(), account(b.Budget(max_cost="0.02"))
    with accounted(books):
        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(b.call_model, model, ask())
    # two in the first second; then the room beside 0.002 is for one
    assert (8, Decimal("0.008"), 7) == (model.calls, books.ledger.spend.cost, trio.current_time())


async def test_a_bound_is_refused_only_with_nothing_in_flight(autojump_clock: Any) -> None:
    """E26: settled spend and the call's own bound decide; what is in flight is waited for, first in, first out."""
    model, books, order, refused = bounded(), account(b.Budget(max_cost="0.0125")), [], []

    async def one(number: int) -> None:
        await trio.sleep(number / 10)
        try:
            await b.call_model(model, ask())
            order.append(number)
        except errors.BudgetExceededError as error:
            refused.append((number, error.cap))

    with accounted(books):
        async with trio.open_nursery() as nursery:
            for number in range(6):
                nursery.start_soon(one, number)
    # 0.001 a call: the fourth would need 0.003 and its bound of 0.01
    assert ([0, 1, 2], [(3, "max_cost"), (4, "max_cost"), (5, "max_cost")]) == (order, refused)
    assert (3, Decimal("0.003"), 0) == (model.calls, books.ledger.spend.cost, books.ledger._requests_in_flight)


async def test_tokens_hold_too_where_a_reply_has_a_bound(autojump_clock: Any) -> None:
    """E26: ten calls at once that take 10 tokens and may take 33 (2 bytes, a turn, 15 of reply), under a cap of 60."""
    model, books = bounded(reply=15, takes=10, price=None), account(b.Budget(max_tokens=60))

    async def one() -> None:
        with contextlib.suppress(errors.BudgetExceededError):
            await b.call_model(model, ask())

    with accounted(books):
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(one)
    assert (3, 30) == (model.calls, books.ledger.spend.tokens)


async def test_a_request_s_own_bound_goes_first(autojump_clock: Any) -> None:
    """A call of at most one token fits where the model's own bound would not."""
    model, books = bounded(reply=1000), account(b.Budget(max_cost="0.005"))
    with accounted(books):
        with pytest.raises(errors.BudgetExceededError, match="max_cost"):
            await b.call_model(model, ask())
        await b.call_model(model, attrs.evolve(ask(), max_tokens=1))
    assert 1 == model.calls


async def test_a_price_without_a_bound_is_refused_before_the_call() -> None:
    """A model of the program's own is met at its first call: nothing is sent."""
    model = ScriptedModel(["ok"], limits=ModelLimits(key="m", price=PRICE))
    with accounted(account(b.Budget(max_cost=1))), pytest.raises(errors.UsageError, match="no bound of its replies"):
        await b.call_model(model, ask())
    assert 0 == model.calls


@pytest.mark.parametrize(
    ("usage", "said", "cost"),
    [
        (Usage(input_tokens=1_000_000, output_tokens=2), None, Decimal("0.1512")),
        (Usage(input_tokens=1_000_000, output_tokens=2, cached_tokens=400_000), None, Decimal("0.1312")),
        (Usage(input_tokens=5), 0.25, Decimal("0.25")),
        (Usage(), None, None),
    ],
)
async def test_a_cost_is_what_the_endpoint_says_else_what_its_tokens_cost(
    usage: Usage, said: float | None, cost: Decimal | None
) -> None:
    """E28: exact, cached tokens at their price; an answer that names no tokens has no known cost."""
    price = ModelPrice(input=0.15, cached_input="0.1", output=Decimal(600))
    limits = ModelLimits(key="m", price=price, max_output_tokens=9)
    model = ScriptedModel([LMResponse(text="ok", usage=usage, cost=said)], limits=limits)
    books = account(b.Budget())
    with accounted(books):
        answer = await b.call_model(model, ask())
    (share,) = books.calls.values()
    assert (cost, cost or Decimal(0), int(cost is None)) == (answer.cost, share.cost, share.unpriced)


@pytest.mark.parametrize("how", ["timeout", "cancelled"])
async def test_what_nobody_knows_the_cost_of_is_kept_back(how: str, autojump_clock: Any) -> None:
    """A call without an answer may have been charged: its bound stays reserved, though it is in no sum."""
    model, books = bounded(), account(b.Budget(max_cost="0.0195"))
    if how == "timeout":
        model._limits = attrs.evolve(model.limits, timeout=0.1, retries=0)
    with accounted(books):
        with trio.move_on_after(0.5), contextlib.suppress(errors.ModelTimeoutError):
            await b.call_model(model, ask())
        model._limits = attrs.evolve(model.limits, timeout=None)
        with pytest.raises(errors.BudgetExceededError, match="max_cost"):
            await b.call_model(model, ask())
    assert (1, Decimal(0), 1) == (model.calls, books.ledger.spend.cost, books.calls["task"].unpriced)


async def test_a_call_inside_a_call_does_not_wait_for_it(autojump_clock: Any) -> None:
    """A model that asks another one holds its own reservation meanwhile: the inner call is decided at once."""
    inner, books = bounded(), account(b.Budget(max_cost="0.015"))

    async def outer(request: abc.LMRequest) -> LMResponse:
        return await b.call_model(inner, request)

    class Outer:
        identity: Mapping[str, Any] = {"provider": "test", "model": "outer"}
        limits = ModelLimits(key="o", max_output_tokens=10, price=FREE_PROMPT, extra_input_tokens=0)
        complete = staticmethod(outer)

    with accounted(books), trio.fail_after(100), pytest.raises(errors.BudgetExceededError):
        await b.call_model(Outer(), ask())
    assert (0, 0) == (inner.calls, books.ledger._requests_in_flight)


# --- over whole evaluations ------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    needs=st.lists(st.integers(5, 10), min_size=12, max_size=12),
    grows=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    cap=st.integers(0, 700),
    reply=st.sampled_from([40, 100, 300]),
    money=st.booleans(),
    fit=st.sampled_from(["whole", "leading", "rows"]),
)
def test_bounds_stop_at_the_same_rollout(
    needs: list[int], grows: list[int], cap: int, reply: int, money: bool, fit: Any
) -> None:
    """E27: bounds far above what calls take: the same cells at concurrency 1, 4 and 16, and no cap is passed."""

    async def cells(concurrency: int) -> Any:
        async def act(q: Any, instruction: str) -> Any:
            await trio.sleep(q * 7 % 5)
            await b.call_model(model, ask(f"{q} {instruction}"))
            return q

        def answer(request: Any) -> LMResponse:
            q, grow = request.messages[-1].content.split()
            return LMResponse(text="ok", usage=Usage(output_tokens=needs[int(q)] * int(grow)))

        limits = ModelLimits(
            key="m", timeout=None, max_output_tokens=reply, price=FREE_PROMPT if money else None, extra_input_tokens=0
        )
        model = ScriptedModel(answer, delay=1, limits=limits)
        budget = b.Budget(max_cost=Decimal(cap) / 1000) if money else b.Budget(max_tokens=cap)
        evaluator = EvalEngine(rows(12), always, EngineConfig(concurrency=concurrency, budget=budget))._evaluator
        requests = [(evaluator.register(told("answer", str(grow))), range(12)) for grow in grows]
        outcome = await evaluator.evaluate_many(Ambient(act), requests, fit=fit)
        spend = evaluator.ledger.spend
        assert spend.tokens <= cap
        assert evaluator.ledger._rations.held() == type(evaluator.ledger._rations.held())()
        done = outcome.evaluations if isinstance(outcome, b.Complete) else outcome.partial or ()
        assert isinstance(done, tuple)
        return [e.scores() for e in done], spend.tokens

    got = [trio.run(cells, n, clock=trio.testing.MockClock(autojump_threshold=0)) for n in (1, 4, 16)]
    assert [got[0]] * 3 == got


async def test_a_bound_does_not_hold_up_what_fits(autojump_clock: Any) -> None:
    """Bounds of a hundred times what calls take: sixteen run at once while there is room, and all in the end."""
    model = bounded(reply=100)
    budget = b.Budget(max_cost="2.1")  # 2.1 are twenty-one bounds
    engine = EvalEngine(rows(200), always, EngineConfig(budget=budget))

    async def act(q: Any, instruction: str) -> Any:
        await b.call_model(model, ask("q"))
        return q

    program = Ambient(act)
    assert isinstance(await engine.evaluate(program, engine.register(b.Candidate())), b.Complete)
    assert (16, 200, Decimal("0.200")) == (program.peak, model.calls, engine.spend.cost)
    assert trio.current_time() < 16  # 200 calls of a second on 16 slots, after one that went ahead
    idle(engine)


async def test_calls_of_rollouts_in_flight_wait_for_each_other(autojump_clock: Any) -> None:
    """Two rollouts that may need more than any before: the second call starts when the first has shown what it took."""
    model = bounded()
    engine = EvalEngine(rows(3), always, EngineConfig(budget=b.Budget(max_cost="0.08")))

    async def act(q: Any, instruction: str) -> Any:
        await b.call_model(model, attrs.evolve(ask("q"), max_tokens=60 if q else 10))
        return q

    assert isinstance(await engine.evaluate(Ambient(act), engine.register(b.Candidate())), b.Complete)
    assert (3, Decimal("0.003"), 3) == (model.calls, engine.spend.cost, trio.current_time())
    idle(engine)


async def test_a_proposal_waits_for_the_rollouts_in_flight(autojump_clock: Any) -> None:
    """E85: one account for rollouts and proposals: those wait for what rollouts in flight hold and will not need."""
    model = bounded()
    engine = EvalEngine(rows(4), always, EngineConfig(budget=b.Budget(max_cost="0.08")))
    ledger = engine._evaluator.ledger

    async def act(q: Any, instruction: str) -> Any:
        await b.call_model(model, ask("q"))
        await trio.sleep(5)
        return q

    async def propose() -> None:
        await trio.sleep(7.5)  # the first is over, three rollouts are in flight
        books = Account(role="proposer", ledger=ledger, limits=Limits())
        with accounted(books):
            await b.call_model(model, attrs.evolve(ask(), max_tokens=75))
        assert trio.current_time() > 12

    async with trio.open_nursery() as nursery:
        nursery.start_soon(propose)
        await engine.evaluate(Ambient(act), engine.register(b.Candidate()))
    assert (5, 1) == (model.calls, ledger.spend.by_role["proposer"].requests)


@pytest.mark.parametrize(("cap", "stage"), [("0.0105", "minibatch"), ("0.0125", "full")])
async def test_a_gate_says_where_money_ended_it(cap: str, stage: str, autojump_clock: Any) -> None:
    """E46, E85: a cap in money names the stage too: what a call may cost fitted once, or three times of five."""
    model = bounded()
    engine = EvalEngine(rows(5), always, EngineConfig(budget=b.Budget(max_cost=cap)))

    async def act(q: Any, instruction: str) -> Any:
        await b.call_model(model, ask("q"))
        return q

    outcome = await engine.evaluate_gated(Ambient(act), engine.register(b.Candidate()), [0, 1], 0.5)
    assert isinstance(outcome, b.BudgetExhausted)
    assert ("max_cost", stage, {"minibatch": 1, "full": 3}[stage]) == (outcome.cap, outcome.stage, model.calls)
    idle(engine)


# --- whatever happens ------------------------------------------------------------------------------------------------


class Flaky:
    """Answers as the request says; counts what could have been charged."""

    def __init__(self) -> None:
        self.identity: Mapping[str, Any] = {"provider": "test", "model": "flaky"}
        self.limits = ModelLimits(
            key="m", timeout=3, retries=2, max_in_flight=5, max_output_tokens=20, price=PRICE, extra_input_tokens=0
        )
        self.started, self.charged = 0, Decimal(0)

    async def complete(self, request: abc.LMRequest) -> LMResponse:
        self.started += 1
        takes, how = request.messages[0].content.split()
        usage = Usage(input_tokens=18, output_tokens=int(takes))
        cost = PRICE.cost(usage)
        try:
            await trio.sleep(int(takes) % 4)
            if how == "hangs":
                await trio.sleep_forever()
        except trio.Cancelled:
            self.charged += cost
            raise
        if how in ("429", "503"):
            kind = errors.ModelRateLimitError if how == "429" else errors.ModelServerError
            raise kind(how)
        self.charged += cost
        if how == "filtered":
            raise errors.ModelRefusedError(how, usage=usage)
        return LMResponse(text="ok", usage=usage)


@attrs.frozen
class Asked:
    """One call: when, by whom, what comes of it, and when it is cancelled."""

    start: int
    who: str
    takes: int
    how: str
    cancel: int | None
    bound: int


asked = st.builds(
    Asked,
    start=st.integers(0, 6),
    who=st.sampled_from(["task", "judge", "proposer", "tracked"]),
    takes=st.integers(1, 20),
    how=st.sampled_from(["ok", "ok", "ok", "429", "503", "filtered", "hangs"]),
    cancel=st.none() | st.integers(0, 6),
    bound=st.sampled_from([20, 30, 90]),
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    calls=st.lists(asked, min_size=1, max_size=14),
    requests=st.none() | st.integers(0, 16),
    cents=st.none() | st.integers(0, 20),
    tokens=st.none() | st.integers(0, 400),
)
def test_no_interleaving_passes_a_cap(
    calls: list[Asked], requests: int | None, cents: int | None, tokens: int | None
) -> None:
    """E26, E30: rollouts, judges, proposers and calls of own clients, retries and cancellations: overshoot is 0.

    Requests are counted where the provider sees them, money as it would charge: for calls that were cancelled too.
    """
    budget = b.Budget(
        max_requests=requests, max_cost=None if cents is None else Decimal(cents) / 100, max_tokens=tokens
    )

    async def main() -> None:
        model, ledger, limits = Flaky(), Ledger(budget), Limits()

        async def tracked(asked: Asked) -> None:
            request = ask(f"{asked.takes} {asked.how}")
            text = request.messages[0].content
            async with b.track_call(price=PRICE, prompt=text, max_output_tokens=asked.bound) as call:
                with trio.fail_after(9):
                    answer = await model.complete(request)
                call.usage(answer.usage.input_tokens, answer.usage.output_tokens)

        async def one(asked: Asked) -> None:
            await trio.sleep(asked.start)
            share = None
            try:
                if asked.who != "proposer" and ledger.rations:
                    share = await ledger.ration("candidate")
                    if isinstance(share, str):
                        return
                    draw_on(share)
                with accounted(Account(role=asked.who, ledger=ledger, limits=limits)):
                    if asked.who == "tracked":
                        await tracked(asked)
                    else:
                        request = attrs.evolve(ask(f"{asked.takes} {asked.how}"), max_tokens=asked.bound)
                        await b.call_model(model, request)
            except (errors.BudgetExceededError, errors.ModelError, trio.TooSlowError):
                pass
            finally:
                if share is not None and not isinstance(share, str):
                    ledger.end_ration(share, conclusive=asked.how == "ok")

        async def until(asked: Asked) -> None:
            with trio.move_on_after(float("inf") if asked.cancel is None else asked.start + asked.cancel):
                with trio.fail_after(1000):
                    await one(asked)

        async with trio.open_nursery() as nursery:
            for call in calls:
                nursery.start_soon(until, call)
        assert ledger._requests_in_flight == 0 == ledger._rations.in_flight
        assert model.started == ledger.spend.requests <= (requests if requests is not None else model.started)
        assert budget.max_cost is None or model.charged <= budget.max_cost
        assert tokens is None or ledger.spend.tokens <= tokens

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def test_a_free_model_owes_nothing_for_what_was_cancelled() -> None:
    """A call of a model that costs nothing is priced, answered or not (E28)."""
    free = abc.ModelLimits(key="free", price=abc.ModelPrice(input=0, output=0))
    model = ScriptedModel(lambda request: "ok", delay=60, limits=free)

    async def act(q: Any, instruction: str) -> Any:
        return await b.call_model(model, ask(str(q)))

    engine = EvalEngine(rows(2), always)
    with trio.move_on_after(0.05):
        await engine.evaluate(Ambient(act), engine.register(b.Candidate()))
    (task,) = engine.spend.by_role.values()
    assert (2, 0) == (task.requests, task.unpriced)
