"""The one way to call a model: limits, retries and the ledger around a single attempt of the model kind."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import nullcontext
from functools import lru_cache
from types import FunctionType, MethodType
from typing import Any, TypeVar, cast

import attrs
import trio
import xxhash

from burnish import abc
from burnish._model.budget import RoleSpend
from burnish._model.lm import LMRequest, LMResponse
from burnish._runtime.blame import VERDICTS, stops
from burnish._runtime.given import MEMBERS, missing, not_ready
from burnish._runtime.invoke import for_caller, in_thread, is_async, must_be_trio
from burnish._runtime.limiter import Limiter, Limits
from burnish._runtime.playback import played
from burnish._runtime.pricing import MAYBE_CHARGED, bound_for, charged_for, name_of, no_price, priced, spent_on
from burnish._runtime.rations import UNBOUNDED, within_call
from burnish._runtime.scope import Account, current_account
from burnish.errors import (
    BudgetExceededError,
    ModelAnswerError,
    ModelConnectionError,
    ModelError,
    ModelFailedError,
    ModelRateLimitError,
    ModelTimeoutError,
    NotAModelError,
    RunStoppedError,
    UsageError,
    first_line,
    unwrap,
)

T = TypeVar("T")

FIRST_BACKOFF = 0.5
LONGEST_BACKOFF = 60.0
RATE_PATIENCE = 120.0
"""Seconds that a call waits in all for a provider that names the time to come back, whatever the number of attempts."""
TIMEOUT_GRACE = 0.5
"""Seconds beyond a model's time limit: one that keeps it itself says more about what went wrong."""

_unscoped_limits: trio.lowlevel.RunVar[Limits] = trio.lowlevel.RunVar("burnish_limits")


@attrs.frozen
class CallableModel:
    """Any callable `(request) -> text or LMResponse` as a model; a sync one runs in a worker thread."""

    function: Callable[[LMRequest], Any]

    @property
    def identity(self) -> Mapping[str, abc.Json]:
        name = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        module = getattr(self.function, "__module__", "")
        return {"provider": "callable", "model": getattr(self.function, "fingerprint", f"{module}:{name}")}

    @property
    def limits(self) -> abc.ModelLimits:
        return abc.ModelLimits(key=f"callable:{id(self.function)}", timeout=None, retries=0)

    async def complete(self, request: LMRequest) -> LMResponse:
        if is_async(self.function) or getattr(self.function, "__burnish_inline__", False):
            answer = self.function(request)
        else:
            answer = await in_thread(lambda: self.function(request))
        if inspect.isawaitable(answer):
            answer = await answer
        return answer if isinstance(answer, LMResponse) else LMResponse(text=answer)


@lru_cache(maxsize=256)
def _has_methods(kind: Hashable) -> bool:
    """Whether a class is a model: known for good, while `isinstance` of a protocol takes its time at each call."""
    return all(hasattr(kind, name) for name in MEMBERS["model"])


def as_model(model: Any) -> abc.Model:
    """Give an `abc.Model` for a model or any callable. Raises `NotAModelError` for anything else, or not open yet."""
    if _has_methods(cast("Hashable", type(model))):
        return cast("abc.Model", model)
    if isinstance(model, (FunctionType, MethodType)):  # asked at each call, so without a closer look
        return CallableModel(model)
    reason = not_ready(model, "model")
    if reason is not None:
        raise NotAModelError(reason)
    if not missing("model", model):
        return cast("abc.Model", model)
    if callable(model):
        return CallableModel(model)
    raise NotAModelError(
        f"{model!r:.80} is no model: pass an object with `identity`, `limits` and `complete`, or a callable that takes "
        "a request and gives text"
    )


def _asked(error: ModelError) -> float | None:
    """Give the pause that an endpoint asked for; None for less than our own shortest: that would be no pause."""
    asked = error.retry_after
    return None if asked is None or not asked >= FIRST_BACKOFF else min(asked, 600.0)


def backoff(error: ModelError, attempt: int, key: str) -> float:
    """Seconds to wait before the next attempt: what the endpoint asked for, else doubling, spread by the request."""
    asked = _asked(error)
    if asked is not None:
        return asked
    spread = xxhash.xxh3_64_intdigest(f"{key}:{attempt}".encode()) / 2.0**64
    return float(min(LONGEST_BACKOFF, FIRST_BACKOFF * 2**attempt) * (0.75 + 0.5 * spread))


async def call_model(
    model: Any, request: LMRequest, *, role: str | None = None, admit: Callable[[], None] | None = None
) -> LMResponse:
    """Ask a model once, with its retries; each attempt is reserved in the run's ledger before it starts.

    `admit` is called before a call that no replay answers; what it raises is raised instead.

    Inside a rollout the calls are booked on it. What does not fit the budget beside the calls in flight waits for them.
    Raises a `ModelError` when the attempts are used up or cannot help, `BudgetExceededError` when a cap leaves no room;
    under a cap in money `UsageError` for a model with a price and without a bound of its replies, and after the first
    answer whose price nobody knows. Cancelled, the attempt in flight ends at once and counts as made.
    """
    must_be_trio()
    model = as_model(model)
    account = current_account()
    role = role or (account.role if account is not None else "task")
    if role == "task" and account is not None and account.task_is is not None:
        role = account.task_is
    if account is not None and account.sample and not request.sample:
        request = attrs.evolve(request, sample=account.sample)  # else a further sample would be the first one again
    answer = played(model)
    if answer is not None:
        return await _replayed(answer, account)
    if admit is not None:
        admit()
    limiter = _limits(account).of(model.limits)
    attempt, waited = 0, 0.0
    while True:
        try:
            response = await _attempt(model, request, role, account, limiter)
        except ModelError as error:
            wait = backoff(error, attempt, request.fingerprint)
            if not error.retryable or attempt >= _most(error, model.limits.retries, waited + wait):
                if account is not None and not isinstance(error, VERDICTS):
                    account.lost = error
                raise
            waited += wait
            if _asked(error) is not None:
                limiter.pause(wait, first_line(error).removeprefix(f"{type(error).__name__}: "))
            attempt += 1
            await trio.sleep(wait)
        else:
            limiter.grow()
            if account is not None:
                account.answered = True
                account.cut = account.cut or response.finish_reason == "length"
            return response


async def _replayed(answer: LMResponse | ModelError, account: Account | None) -> LMResponse:
    """Give what was recorded: nothing is reserved, booked or tried again."""
    await trio.lowlevel.checkpoint()
    if isinstance(answer, ModelError):
        if account is not None and not isinstance(answer, VERDICTS):
            account.lost = answer
        raise answer
    if account is not None:
        account.answered = True
    return answer


def _most(error: ModelError, retries: int, waited: float) -> float:
    """How many further attempts an error is worth: a provider that says when to come back is believed for a while.

    No pause that is believed is shorter than `FIRST_BACKOFF`, so that even then attempts are bounded by the patience.
    """
    patient = isinstance(error, ModelRateLimitError) and _asked(error) is not None and waited <= RATE_PATIENCE
    return math.inf if patient and retries else retries


def _limits(account: Account | None) -> Limits:
    if account is not None and account.limits is not None:
        limits: Limits = account.limits
        return limits
    try:
        return _unscoped_limits.get()
    except LookupError:
        _unscoped_limits.set(Limits())
        return _unscoped_limits.get()


_NO_SCOPE = nullcontext()
_NOTHING_KNOWN, _FOR_FREE = RoleSpend(requests=1, unpriced=1), RoleSpend(requests=1)


async def _attempt(
    model: abc.Model, request: LMRequest, role: str, account: Account | None, limiter: Limiter
) -> LMResponse:
    ledger = None if account is None else account.ledger
    call: Any = None
    if ledger is not None and account is not None:
        bound = bound_for(model, request, ledger.budget) if ledger.rations else UNBOUNDED
        call = await admitted(ledger.admit_request(role, bound), account)
    free = model.limits.price is not None and model.limits.price.free
    sent, charged, answered, spent = False, True, "", _FOR_FREE if free else _NOTHING_KNOWN
    try:
        async with limiter.slot(role):
            if account is not None and account.note is not None:
                await account.note(role, call.bound)
            sent, began = True, trio.current_time()
            try:
                with _NO_SCOPE if ledger is None or not ledger.rations else within_call():
                    response = priced(await _timed(model, request), model.limits.price)
            except ModelRateLimitError:
                limiter.shrink(began)
                raise
        answered, spent = response.model, spent_on(response.usage, response.cost)
        if ledger is not None and ledger.budget.max_cost is not None and response.cost is None:
            raise UsageError(no_price(name_of(model)))
        return response
    except ModelError as error:
        spent, charged = charged_for(error, model.limits.price), isinstance(error, MAYBE_CHARGED)
        raise
    finally:
        # what is booked was made before, so that nothing here can fail and leave a request in flight for good
        if ledger is not None and not sent:
            ledger.release_request(call)
        elif ledger is not None:
            ledger.settle_request(call, role, spent, charged=charged and bool(spent.unpriced))
        if account is not None and sent:
            account.book(role, spent, answered)
            if charged and spent.unpriced and call is not None and call.bound.cost is not None:
                account.held += call.bound.cost


async def admitted(admission: Awaitable[Any], account: Account) -> Any:
    """Await an admission to the ledger, and note the cap that refuses it on the rollout's account."""
    try:
        return await admission
    except BudgetExceededError as error:
        account.refused = error.cap
        raise


async def _timed(model: abc.Model, request: LMRequest) -> LMResponse:
    timeout = model.limits.timeout
    if timeout is None:
        return await _complete(model, request)
    with trio.move_on_after(timeout + TIMEOUT_GRACE) as scope:
        try:
            return await _complete(model, request)
        except ModelFailedError:  # code that makes an error of its own of being cancelled, as asyncio's does
            if not scope.cancel_called:
                raise
    raise ModelTimeoutError(f"no answer within {timeout} s")


async def _complete(model: abc.Model, request: LMRequest) -> LMResponse:
    """Have a model answer; whatever goes wrong in its code is a `ModelError`, for no candidate is to blame for it.

    An exit or a cancellation of asyncio's is the model's failure like any other: only what ends the run itself, or this
    call of it, passes through.
    """
    try:
        response = await model.complete(request)
    except BaseException as raised:
        stop = stops(raised)
        if stop is not None:
            raise stop from None
        error = unwrap(raised)
        meant = _meaning(model, error)
        if meant is raised:
            raise
        raise meant from (raised if meant is error else error)
    if not isinstance(response, LMResponse):
        raise ModelAnswerError(f"{name_of(model)} answered with a {type(response).__name__}, not an `LMResponse`")
    return response


def _meaning(model: abc.Model, error: BaseException) -> BaseException:
    """Give the error that says what an error of a model's code means to the run."""
    if isinstance(error, ModelAnswerError):
        return ModelAnswerError(f"{name_of(model)} gave an answer that cannot be used: {error}")
    if isinstance(error, (ModelError, BudgetExceededError, RunStoppedError, UsageError)):
        return error
    if isinstance(error, trio.TooSlowError):
        return ModelTimeoutError("the model's own time limit ran out")
    if isinstance(error, OSError):
        return ModelConnectionError(f"the connection failed: {error}")
    return ModelFailedError(f"{name_of(model)} failed: {first_line(error, 2000)}")


def run_from_sync(call: Callable[[], Awaitable[T]]) -> T:
    """Run async code from sync code, in the trio run that this code belongs to, or in one of its own.

    Works in worker threads of trio, in threads that carry a rollout's context, and where no event loop runs at all.
    Raises `RuntimeError` on an event loop's own thread, where waiting would block everything.
    """
    if _on_trio_thread():
        raise RuntimeError("a sync call on the event loop would block it: `await` the async form instead")
    entered = False

    async def entering() -> T:
        nonlocal entered
        entered = True
        return await for_caller(call)

    try:
        return trio.from_thread.run(entering)
    except RuntimeError:
        if entered:
            raise
    account = current_account()
    if account is not None and account.token is not None:
        return trio.from_thread.run(entering, trio_token=account.token)
    return trio.run(entering)


def _on_trio_thread() -> bool:
    try:
        trio.lowlevel.current_trio_token()
    except RuntimeError:
        return False
    return True
