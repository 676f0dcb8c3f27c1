"""The one way to a model: retries, backoff, time limits, and one booked request for each that was made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import attrs
import pytest
import trio
import trio.testing

import burnish as b
from burnish import abc, errors
from burnish._runtime.ledger import Ledger
from burnish._runtime.limiter import Limits
from burnish._runtime.model_calls import LONGEST_BACKOFF, backoff
from burnish._runtime.scope import Account, accounted
from burnish.abc import LMResponse, ModelLimits, Usage
from burnish.testing import ScriptedModel

from ._kit import ask

Clock = trio.testing.MockClock


def model(*replies: Any, retries: int = 4, max_in_flight: int | None = None, delay: float = 0) -> ScriptedModel:
    limits = ModelLimits(key="m", timeout=None, retries=retries, max_in_flight=max_in_flight)
    return ScriptedModel(list(replies), limits=limits, delay=delay, usage=Usage(input_tokens=2, output_tokens=1))


def account(budget: b.Budget = b.Budget(), role: str = "task") -> Account:  # noqa: B008
    return Account(role=role, ledger=Ledger(budget), limits=Limits())


async def test_retryable_errors_are_tried_again(autojump_clock: Clock) -> None:
    """Each attempt is a request in the books, of the role that asked; the waits double, spread by the request."""
    failing = [errors.ModelServerError("502"), errors.ModelConnectionError("reset"), errors.ModelTimeoutError("slow")]
    scripted, books = model(*failing, "ok"), account()
    with accounted(books):
        assert "ok" == (await b.call_model(scripted, ask())).text
    expected = sum(backoff(error, i, ask().fingerprint) for i, error in enumerate(failing))
    assert pytest.approx(expected) == trio.current_time()
    assert (4, 4, 3) == (scripted.calls, books.ledger.spend.requests, books.ledger.spend.tokens)
    assert {"task": 4} == {role: share.requests for role, share in books.calls.items()}
    assert ["scripted"] == list(books.models)


def test_backoff_doubles_within_bounds() -> None:
    """Half a second at first, then doubling to a minute, a quarter more or less; what the endpoint asked for wins."""
    error = errors.ModelServerError("502")
    for attempt in range(12):
        middle = min(LONGEST_BACKOFF, 0.5 * 2**attempt)
        waits = [backoff(error, attempt, f"request {i}") for i in range(40)]
        assert 0.75 * middle <= min(waits) < max(waits) <= 1.25 * middle
        assert waits == [backoff(error, attempt, f"request {i}") for i in range(40)]
    for asked, waited in ((7.5, 7.5), (0.5, 0.5), (1e9, 600.0)):
        assert waited == backoff(errors.ModelRateLimitError("429", retry_after=asked), 0, "r")


@pytest.mark.parametrize(
    "error",
    [
        errors.ModelAuthError("401"),
        errors.ModelNotFoundError("404"),
        errors.ContextLengthError("long"),
        errors.ModelRefusedError("no"),
        errors.ModelRequestError("400"),
        errors.ModelFailedError("a bug in the model"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_what_cannot_help_is_not_tried_again(error: Exception) -> None:
    """One request, one error."""
    scripted, books = model(error, "ok"), account()
    with accounted(books), pytest.raises(type(error)):
        await b.call_model(scripted, ask())
    assert (1, 1, 0) == (scripted.calls, books.ledger.spend.requests, books.ledger._requests_in_flight)


async def test_retries_end(autojump_clock: Clock) -> None:
    """After `retries` further attempts the last error is raised."""
    scripted = model(*[errors.ModelServerError(str(i)) for i in range(9)], retries=2)
    with pytest.raises(errors.ModelServerError, match="2"):
        await b.call_model(scripted, ask())
    assert 3 == scripted.calls


class Own:
    """A model whose attempts are what it is given, one after the other."""

    def __init__(self, attempts: Iterable[Any], timeout: float | None = 5.0, retries: int = 0) -> None:
        self.attempts = iter(attempts)
        self.identity: Mapping[str, Any] = {"provider": "test", "model": "own"}
        self.limits = ModelLimits(key="own", timeout=timeout, retries=retries)

    async def complete(self, request: abc.LMRequest) -> LMResponse:
        response: LMResponse = await next(self.attempts)()
        return response


async def own_limit() -> LMResponse:
    with trio.move_on_after(5):
        await trio.sleep_forever()
    raise errors.ModelTimeoutError("no first token within 5 s")


async def leaks() -> LMResponse:
    with trio.fail_after(1):
        await trio.sleep_forever()
    raise AssertionError


async def grouped() -> LMResponse:
    raise ExceptionGroup("inside", [ExceptionGroup("nested", [errors.ModelServerError("502")])])


async def resets() -> LMResponse:
    raise ConnectionResetError("peer reset")


async def answers() -> LMResponse:
    return LMResponse(text="ok")


async def hangs() -> LMResponse:
    await trio.sleep_forever()
    raise AssertionError


@pytest.mark.parametrize(
    ("attempt", "kind", "message", "seconds"),
    [
        (hangs, errors.ModelTimeoutError, "no answer within 5.0 s", 5.5),
        (own_limit, errors.ModelTimeoutError, "no first token within 5 s", 5),
        (leaks, errors.ModelTimeoutError, "the model's own time limit ran out", 1),
        (grouped, errors.ModelServerError, "502", 0),
        (resets, errors.ModelConnectionError, "the connection failed: peer reset", 0),
    ],
)
async def test_attempts_end_in_a_model_error(
    attempt: Any, kind: type[Exception], message: str, seconds: float, autojump_clock: Clock
) -> None:
    """A model's own time limit has the word over the core's; groups and system errors become what they mean."""
    with pytest.raises(kind, match=message):
        await b.call_model(Own([attempt]), ask())
    assert seconds == trio.current_time()


async def test_a_grouped_error_is_tried_again(autojump_clock: Clock) -> None:
    """What a model's own nursery wraps is seen for what it is."""
    assert "ok" == (await b.call_model(Own([grouped, resets, answers], retries=2), ask())).text


async def test_no_call_starts_that_would_pass_a_cap(autojump_clock: Clock) -> None:
    """The refusal comes before the call, retries included; nothing stays reserved."""
    scripted = model(errors.ModelServerError("502"), errors.ModelServerError("503"), "ok")
    books = account(b.Budget(max_requests=2))
    with accounted(books), pytest.raises(errors.BudgetExceededError, match="max_requests") as caught:
        await b.call_model(scripted, ask(), role="judge")
    assert ("max_requests", "max_requests", 2) == (caught.value.cap, books.refused, scripted.calls)
    assert (2, 0) == (books.ledger.spend.requests, books.ledger._requests_in_flight)


async def test_a_cap_holds_while_calls_are_in_flight(autojump_clock: Clock) -> None:
    """Requests under way count: of ten at once exactly the cap's number are made."""
    scripted, books, refused = model(*["ok"] * 10, delay=1), account(b.Budget(max_requests=4)), []

    async def one() -> None:
        try:
            await b.call_model(scripted, ask())
        except errors.BudgetExceededError as error:
            refused.append(error.cap)

    with accounted(books):
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(one)
    assert (4, 6, 4) == (scripted.calls, len(refused), books.ledger.spend.requests)


async def test_tokens_are_refused_once_they_are_recorded() -> None:
    """E26: tokens are checked afterwards: the call that passes the cap is made, the next is not."""
    scripted, books = model("a", "b"), account(b.Budget(max_tokens=3))
    with accounted(books):
        await b.call_model(scripted, ask())
        with pytest.raises(errors.BudgetExceededError, match="max_tokens"):
            await b.call_model(scripted, ask())
    assert 1 == scripted.calls


async def test_an_unknown_price_is_not_zero() -> None:
    """Under a cap in money the first answer without a price is an error, never a free one; a price of 0 is a price.

    A call that would pass the cap, were it as dear as the dearest so far, is not made.
    """
    for price, ends in ((None, True), (Decimal(0), False), (Decimal("0.3"), False)):
        books, response = account(b.Budget(max_cost=Decimal("0.8"))), LMResponse(text="ok", cost=price)
        scripted = model(response, response, response)
        with accounted(books):
            if ends:
                with pytest.raises(errors.UsageError, match="the model `scripted` says no price"):
                    await b.call_model(scripted, ask())
            else:
                await b.call_model(scripted, ask())
                await b.call_model(scripted, ask())
        assert (1 if ends else 2) == scripted.calls == books.ledger.spend.requests
        if price:
            with accounted(books), pytest.raises(errors.BudgetExceededError, match="max_cost"):
                await b.call_model(scripted, ask())


@pytest.mark.parametrize("when", ["waiting for a slot", "in flight", "between attempts"])
async def test_cancelled_calls_are_booked_for_what_they_did(when: str, autojump_clock: Clock) -> None:
    """An attempt in flight counts as made, one that waited does not; nothing stays reserved or held."""
    failing = errors.ModelServerError("502")
    scripted = model(failing if when == "between attempts" else "slow", "ok", "ok", max_in_flight=1, delay=10)
    books = account()
    limiter = books.limits.of(scripted.limits)
    with accounted(books):
        async with trio.open_nursery() as nursery:
            if when == "waiting for a slot":
                nursery.start_soon(b.call_model, scripted, ask("first"))
                await trio.sleep(1)
            with trio.move_on_after(10.1 if when == "between attempts" else 5) as scope:
                await b.call_model(scripted, ask())
            assert scope.cancelled_caught
            assert (1 if when == "waiting for a slot" else 0) == limiter.in_flight == books.ledger._requests_in_flight
        assert (1, 0, 0) == (books.ledger.spend.requests, limiter.in_flight, len(limiter._queue))
        await b.call_model(scripted, ask())
    assert 2 == books.ledger.spend.requests


async def test_a_further_sample_asks_as_one() -> None:
    """In sample 2 of a rollout, requests that name no sample are asked as sample 2; those that name one keep it."""
    scripted, books = model("a", "b", "c"), account()
    books.sample = 2
    with accounted(books):
        await b.call_model(scripted, ask())
        await b.call_model(scripted, attrs.evolve(ask(), sample=7))
    books.sample = 0
    with accounted(books):
        await b.call_model(scripted, ask())
    assert [2, 7, 0] == [request.sample for request in scripted.requests]


async def test_a_provider_that_names_the_time_is_waited_for(autojump_clock: Clock) -> None:
    """Many 429 with Retry-After cost no attempts for two minutes in all; without a time the attempts count."""
    storm = [errors.ModelRateLimitError("429", retry_after=1.0)] * 30
    scripted, books = model(*storm, "ok", retries=2), account()
    with accounted(books):
        assert "ok" == (await b.call_model(scripted, ask())).text
    assert (31, 31, 30.0) == (scripted.calls, books.ledger.spend.requests, trio.current_time())
    for error in (errors.ModelRateLimitError("429", retry_after=50.0), errors.ModelRateLimitError("429")):
        endless = model(*[error] * 9, retries=2)
        with pytest.raises(errors.ModelRateLimitError), accounted(account()):
            await b.call_model(endless, ask())
        assert 3 == endless.calls


@pytest.mark.parametrize("asked", [0.0, -5.0, 0.001, float("nan")])
async def test_a_429_that_names_no_real_pause_is_tried_as_often_as_one_without(
    asked: float, autojump_clock: Clock
) -> None:
    """Retry-After: 0 is no pause: our own backoff is waited for, and the attempts count."""
    endless, limits = model(*[errors.ModelRateLimitError("429", retry_after=asked)] * 30, retries=2), account()
    with pytest.raises(errors.ModelRateLimitError), accounted(limits):
        await b.call_model(endless, ask())
    assert 3 == endless.calls == limits.ledger.spend.requests
    assert 1.0 < trio.current_time() < 2.0
