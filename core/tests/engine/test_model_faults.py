"""The boundary to a model's code: what it answers or raises costs no candidate its score and no run its books."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pytest
import trio
import trio.testing

import burnish as b
from burnish import EngineConfig, EvalEngine, RolloutStatus, errors
from burnish._runtime.ledger import Ledger
from burnish._runtime.limiter import Limits
from burnish._runtime.scope import Account, accounted
from burnish.abc import LMRequest, LMResponse, ModelLimits, Usage

from ._kit import Ambient, always, ask, evaluated, idle, rows


class Model:
    """A model whose code is one function."""

    def __init__(self, answer: Callable[[], Any], retries: int = 0) -> None:
        self.answer, self.retries, self.calls = answer, retries, 0
        self.identity: Mapping[str, Any] = {"provider": "test", "model": "odd"}

    @property
    def limits(self) -> ModelLimits:
        return ModelLimits(key="odd", timeout=None, retries=self.retries)

    async def complete(self, request: LMRequest) -> LMResponse:
        await trio.lowlevel.checkpoint()
        self.calls += 1
        answer: LMResponse = self.answer()
        return answer


class SDKError(Exception):
    """What some SDK raises."""


def raises(error: BaseException) -> Callable[[], Any]:
    def answer() -> Any:
        raise error

    return answer


def program(model: Any) -> Ambient:
    async def act(q: Any, instruction: str) -> Any:
        return (await b.call_model(model, ask(str(q)))).text

    return Ambient(act)


MALFORMED: list[tuple[Callable[[], Any], str]] = [
    (lambda: LMResponse(text="ok", cost=-1), "the model `odd` gave an answer that cannot be used: `cost` must be"),
    (lambda: LMResponse(text="ok", finish_reason=None), "`odd` .*: `finish_reason` must be a text"),  # type: ignore[arg-type]
    (lambda: LMResponse(text="ok", usage=Usage(input_tokens=3.0)), "`odd` .*: a count of tokens"),  # type: ignore[arg-type]
    (lambda: "ok", "the model `odd` answered with a str, not an `LMResponse`"),
    (lambda: None, "the model `odd` answered with a NoneType, not an `LMResponse`"),
]


@pytest.mark.parametrize(("answer", "message"), MALFORMED)
async def test_an_unusable_answer_is_no_verdict(answer: Callable[[], Any], message: str) -> None:
    """The rollout is unscored and asked again next time; each request is booked once and none stays in flight."""
    model, engine = Model(answer, retries=3), EvalEngine(rows(2), always)
    index, odd = engine.register(b.Candidate()), program(model)
    with pytest.raises(errors.ModelMalformedError, match=message):
        await b.call_model(model, ask())
    for requests in (2, 4):
        evaluation = evaluated(await engine.evaluate(odd, index))
        assert {RolloutStatus.INFRASTRUCTURE_FAILED} == {r.status for r in evaluation.rollouts}
        assert ([None, None], None, requests) == (evaluation.scores(), evaluation.mean(), engine.spend.requests)
        idle(engine)


async def test_a_price_as_a_float_is_booked() -> None:
    """`LMResponse(cost=0.01)` is what most code writes: it is a cent, to the digit."""
    engine = EvalEngine(rows(4), always, EngineConfig(budget=b.Budget(max_cost=1)))
    priced = Model(lambda: LMResponse(text="ok", cost=0.01))
    assert 1.0 == evaluated(await engine.evaluate(program(priced), engine.register(b.Candidate()))).mean()
    assert (Decimal("0.04"), 4) == (engine.spend.cost, engine.spend.requests)
    idle(engine)


OWN_ERRORS: list[BaseException] = [
    SDKError("503 upstream"),
    ValueError("bug"),
    ExceptionGroup("g", [SDKError()] * 2),
    SystemExit("no key"),
    asyncio.CancelledError("closed"),
    GeneratorExit("closed"),
    BaseExceptionGroup("g", [SDKError(), SystemExit(1)]),
]


@pytest.mark.parametrize("error", OWN_ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("form", ["model", "sync callable", "async callable"])
async def test_a_models_own_error_is_no_verdict(error: BaseException, form: str) -> None:
    """E86: an SDK's error is no zero of the candidate's: unscored, not cached, the cause kept, not tried again."""

    def sync(request: LMRequest) -> str:
        raise error

    async def awaited(request: LMRequest) -> str:
        raise error

    model = {"model": Model(raises(error), retries=3), "sync callable": sync, "async callable": awaited}[form]
    with pytest.raises(errors.ModelFailedError, match=f"the model `.*` failed: {type(error).__name__}: ") as caught:
        await b.call_model(model, ask())
    assert error is caught.value.__cause__
    engine = EvalEngine(rows(2), always)
    index, failing = engine.register(b.Candidate()), program(model)
    for requests in (2, 4):
        evaluation = evaluated(await engine.evaluate(failing, index))
        assert {RolloutStatus.INFRASTRUCTURE_FAILED} == {r.status for r in evaluation.rollouts}
        assert ([None, None], requests) == (evaluation.scores(), engine.spend.requests)
        idle(engine)


@pytest.mark.parametrize("grouped", [False, True])
async def test_an_interrupt_passes_through_a_model(grouped: bool) -> None:
    """Ctrl-C that strikes inside a model's code ends the run; it is nobody's failure, whatever failed beside it."""
    struck = KeyboardInterrupt()
    error = BaseExceptionGroup("g", [SDKError(), struck]) if grouped else struck
    with pytest.raises(type(error)) as caught:
        await b.call_model(Model(raises(error)), ask())
    assert (struck,) == getattr(caught.value, "exceptions", (caught.value,))


@pytest.mark.parametrize("outer", [False, True], ids=["its own limit", "cancelled from outside"])
async def test_a_cancellation_in_other_words_is_one(autojump_clock: trio.testing.MockClock, outer: bool) -> None:
    """Code that makes asyncio's cancellation of trio's has run into the time limit, or is cancelled as it should be."""

    class Bridged(Model):
        limits = ModelLimits(key="bridged", timeout=None if outer else 1.0, retries=0)

        async def complete(self, request: LMRequest) -> LMResponse:
            try:
                await trio.sleep_forever()
            except trio.Cancelled:
                raise asyncio.CancelledError from None

    engine = EvalEngine(rows(1), always)
    index, bridged = engine.register(b.Candidate()), program(Bridged(raises(SDKError())))
    with trio.move_on_after(5) as scope:
        (rollout,) = evaluated(await engine.evaluate(bridged, index)).rollouts
        assert rollout.error is not None
        assert (RolloutStatus.INFRASTRUCTURE_FAILED, "ModelTimeoutError") == (rollout.status, rollout.error.type)
    assert outer is scope.cancelled_caught
    idle(engine)


@pytest.mark.parametrize("answer", [None, 7, b"bytes"])
async def test_a_callable_that_gives_no_text_is_malformed(answer: Any) -> None:
    """`str(None)` is no answer: it would be scored."""
    with pytest.raises(errors.ModelMalformedError, match="`text` must be a text"):
        await b.call_model(lambda request: answer, ask())


@pytest.mark.parametrize(
    "error",
    [errors.UsageError("no such role"), errors.BudgetExceededError("full", cap="max_requests")],
    ids=lambda error: type(error).__name__,
)
async def test_a_refusal_passes_through_a_model(error: errors.BurnishError) -> None:
    """A model that asks another through burnish hands on the cap's and the user's errors as they are."""
    with pytest.raises(type(error)) as caught:
        await b.call_model(Model(raises(error)), ask())
    assert error is caught.value


async def test_what_is_no_model_stops_the_run() -> None:
    """A program that calls a model by its name would fail on every row: that is the caller's mistake, not a score."""
    engine = EvalEngine(rows(4), always, EngineConfig(preflight=True))
    with pytest.raises(errors.RunStoppedError, match="'gpt' is no model: pass an object with"):
        await engine.evaluate(program("gpt"), engine.register(b.Candidate()))
    assert (1, 0) == (engine.spend.metric_calls, engine.spend.requests)


async def test_what_a_failed_request_cost_is_booked() -> None:
    """A filtered reply has its tokens and its price, so that caps hold; what an error says wrongly is unknown."""
    usage = Usage(input_tokens=9000, output_tokens=500)
    cases: list[tuple[Any, Any, tuple[int, Decimal, int]]] = [
        (usage, Decimal("0.3"), (9500, Decimal("0.3"), 0)),
        (usage, None, (9500, Decimal(0), 1)),
        (None, 0.25, (0, Decimal("0.25"), 0)),
        ("many", float("nan"), (0, Decimal(0), 1)),
        (None, None, (0, Decimal(0), 1)),
    ]
    for given, cost, booked in cases:
        refused = errors.ModelRefusedError("content filter", usage=given, cost=cost)
        books = Account(ledger=Ledger(b.Budget(max_cost=Decimal(1))), limits=Limits())
        with accounted(books), pytest.raises(errors.ModelRefusedError):
            await b.call_model(Model(raises(refused)), ask())
        for share in (books.calls["task"], books.ledger.spend.by_role["task"]):
            assert (1, *booked) == (share.requests, share.usage.total, share.cost, share.unpriced)
        assert 0 == books.ledger._requests_in_flight


async def test_a_cap_in_money_holds_over_paid_errors() -> None:
    """Of ten replies at 0.30 that were all filtered, a cap of 1 dollar pays for three."""
    refused = errors.ModelRefusedError("content filter", usage=Usage(output_tokens=5), cost=Decimal("0.30"))
    model = Model(raises(refused))
    engine = EvalEngine(rows(10), always, EngineConfig(concurrency=1, budget=b.Budget(max_cost=Decimal(1))))
    outcome = await engine.evaluate(program(model), engine.register(b.Candidate()))
    assert isinstance(outcome, b.BudgetExhausted)
    assert ("max_cost", 3, Decimal("0.90")) == (outcome.cap, model.calls, engine.spend.cost)
