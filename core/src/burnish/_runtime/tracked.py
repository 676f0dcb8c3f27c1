"""Metering of model calls that a program makes by a client of its own (an SDK, another framework)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from decimal import Decimal
from functools import partial
from types import TracebackType
from typing import Any

import trio

from burnish._model.budget import RoleSpend
from burnish._model.lm import TURN_TOKENS, LMResponse, ModelPrice, Usage, most_tokens
from burnish._runtime.capture import OpenSpan, span
from burnish._runtime.model_calls import admitted, run_from_sync
from burnish._runtime.pricing import no_bound, no_price, priced, spent_on
from burnish._runtime.rations import UNBOUNDED, Bound, bound_of, within_call
from burnish._runtime.scope import Account, current_account
from burnish.errors import BudgetExceededError, UsageError


class TrackedCall:
    """One model call of a program's own, under way; made by `burnish.track_call`."""

    def __init__(self, model: str, role: str | None, bound: Bound, price: ModelPrice | None, component: str) -> None:
        self._model, self._bound, self._price, self._component = model, bound, price, component
        self._answer = LMResponse(text="", model=model)
        account = current_account()
        self._account: Account | None = account
        self._role = role or ("task" if account is None else account.role)
        self._held: Any = None
        self._left, self._lock = False, threading.Lock()
        self._around = ExitStack()
        self._span: OpenSpan | None = None

    def usage(
        self,
        input_tokens: int = 0,
        output_tokens: int = 0,
        *,
        cached_tokens: int = 0,
        cost: Decimal | float | str | None = None,
        text: str = "",
        model: str = "",
    ) -> None:
        """Say what the call took, as its answer names it: tokens (`cached_tokens` of the input) and US dollars.

        Raises `ModelAnswerError` for a count or an amount that is none.
        """
        tokens = Usage(input_tokens=input_tokens, output_tokens=output_tokens, cached_tokens=cached_tokens)
        answer = LMResponse(text=text, usage=tokens, model=model or self._model, cost=cost)
        self._answer = priced(answer, self._price)

    # --- entering ------------------------------------------------------------------------------------------------

    def __enter__(self) -> TrackedCall:
        account, ledger = self._account, self._ledger
        if account is not None and ledger is not None:
            if _on_loop():
                self._held = self._admitted_now(account, ledger)
            else:
                self._admit_from_sync(account)
        return self._begin()

    async def __aenter__(self) -> TrackedCall:
        account, ledger = self._account, self._ledger
        if account is not None and ledger is not None:
            if _on_loop():
                self._held = await admitted(ledger.admit_request(self._role, self._bound), account)
            else:
                await self._admit_from_asyncio(account)
        return self._begin()

    @property
    def _ledger(self) -> Any:
        return None if self._account is None else self._account.ledger

    def _admitted_now(self, account: Account, ledger: Any) -> Any:
        try:
            return ledger.admit_request_nowait(self._role, self._bound)
        except BudgetExceededError as error:
            account.refused = error.cap
            raise

    def _admit_from_sync(self, account: Account) -> None:
        held = run_from_sync(lambda: admitted(account.ledger.admit_request(self._role, self._bound), account))
        with self._lock:
            self._held = held
            if self._left:
                self._give_back(account)

    async def _admit_from_asyncio(self, account: Account) -> None:
        """Wait in a thread; cancelled, this gives back what the thread gets all the same."""
        import asyncio  # the loop that this runs on: it is loaded already, and nobody else needs it

        try:
            await asyncio.to_thread(self._admit_from_sync, account)
        except BaseException:
            with self._lock:
                self._left = True
                self._give_back(account)
            raise

    def _give_back(self, account: Account) -> None:
        if self._held is not None:
            _on_loop_soon(account, partial(account.ledger.release_request, self._held))
            self._held = None

    def _begin(self) -> TrackedCall:
        self._around.enter_context(within_call())
        if self._component:
            recorded: AbstractContextManager[OpenSpan | None] = span(self._component, {})
            self._span = self._around.enter_context(recorded)
        return self

    # --- leaving -------------------------------------------------------------------------------------------------

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        answer = self._answer
        if self._span is not None and answer.usage.total:
            self._span.exchange(answer)
        self._around.__exit__(kind, error, traceback)
        account, ledger = self._account, self._ledger
        if account is None:
            return
        spent = spent_on(answer.usage, answer.cost)
        settle = partial(_settle, account, self._held, self._role, spent, answer.model, answered=error is None)
        _on_loop_soon(account, settle)
        if error is None and ledger is not None and ledger.budget.max_cost is not None and answer.cost is None:
            raise UsageError(no_price(f"the call of `{self._model or 'a model'}`"))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, traceback)


def _settle(account: Account, held: Any, role: str, spent: RoleSpend, model: str, *, answered: bool) -> None:
    if account.ledger is not None:
        account.ledger.settle_request(held, role, spent, charged=bool(spent.unpriced))
    account.book(role, spent, model)
    account.answered = account.answered or answered


def _on_loop_soon(account: Account, settle: Callable[[], None]) -> None:
    """Settle on the run's event loop: from a thread before the thread's end is known there."""
    if _on_loop() or account.token is None:
        settle()
        return
    with suppress(trio.RunFinishedError):  # a thread that outlived its run: nobody counts any more
        account.token.run_sync_soon(settle)


def _on_loop() -> bool:
    return trio.lowlevel.in_trio_run()


def track_call(
    *,
    model: str = "",
    role: str | None = None,
    prompt: str | None = None,
    max_output_tokens: int | None = None,
    price: ModelPrice | None = None,
    component: str = "",
) -> TrackedCall:
    """Meter one model call that the program makes by a client of its own: one request, reserved before, settled after.

        async with burnish.track_call(model="gpt-4o-mini", price=price, prompt=text, max_output_tokens=300) as call:
            reply = await client.chat(text)
            call.usage(reply.prompt_tokens, reply.completion_tokens)

    `async with` in trio's and asyncio's code, `with` in sync code; in threads that carry the rollout's context too.
    Outside a rollout it counts nothing. One block is one request: turn off the client's retries, or open a block for
    each. What does not fit the budget beside the calls in flight waits for them; `with` on the event loop itself cannot
    wait and is refused. With `prompt` and `max_output_tokens` the most that the call may take is reserved, in money
    with `price` too; `component` names a span for the rollout's trace.

    Raises `BudgetExceededError` where a cap leaves no room, as `call_model` does. Under a cap in money it raises
    `UsageError`: before the call for a price without a bound, after it for a cost that nobody knows. Cancelled, or
    where the block raises, the request counts as made, with what `usage` was told.
    """
    account = current_account()
    ledger = None if account is None else account.ledger
    bound = UNBOUNDED
    if max_output_tokens is not None and prompt is not None:
        bound = bound_of(most_tokens(prompt) + 128 + TURN_TOKENS, max_output_tokens, price)
    elif ledger is not None and ledger.budget.max_cost is not None and price is not None and not price.free:
        raise UsageError(no_bound(f"the call of `{model or 'a model'}`"))
    return TrackedCall(model, role, bound, price, component)
