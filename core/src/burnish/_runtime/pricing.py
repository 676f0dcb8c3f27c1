"""What a model call may need at most, and what it did cost."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import attrs

from burnish import abc
from burnish._model.budget import ZERO, Budget, RoleSpend
from burnish._model.lm import LMRequest, LMResponse, ModelPrice, Usage, price
from burnish._runtime.rations import Bound, bound_of
from burnish.errors import (
    ModelAnswerError,
    ModelError,
    ModelFailedError,
    ModelMalformedError,
    ModelRefusedError,
    ModelTimeoutError,
    UsageError,
)

MAYBE_CHARGED = (ModelTimeoutError, ModelMalformedError, ModelFailedError, ModelRefusedError)
"""Failures over which the provider may have worked."""


def bound_for(model: abc.Model, request: LMRequest, budget: Budget) -> Bound:
    """Give the most that a request can need. Raises `UsageError` where a cap in money needs to know it."""
    limits = model.limits
    reply = limits.max_output_tokens if request.max_tokens is None else request.max_tokens
    if reply is None and limits.price is not None and not limits.price.free and budget.max_cost is not None:
        raise UsageError(no_bound(name_of(model)))
    return bound_of(request.most_input_tokens + limits.extra_input_tokens, reply, limits.price)


def priced(response: LMResponse, prices: ModelPrice | None) -> LMResponse:
    """Give an answer with its cost: what the endpoint says, else what its tokens cost; unknown without either."""
    if prices is None or response.cost is not None:
        return response
    cost = _cost(response.usage, prices)
    return response if cost is None else attrs.evolve(response, cost=cost)


def _cost(usage: Usage, prices: ModelPrice) -> Decimal | None:
    """Give what tokens cost; no tokens at all are an endpoint that does not count them, so unknown."""
    return prices.cost(usage) if usage.total or prices.free else None


def spent_on(usage: Usage, cost: Decimal | None) -> RoleSpend:
    """Give what one request cost; None is unknown."""
    return RoleSpend(requests=1, usage=usage, cost=ZERO if cost is None else cost, unpriced=1 if cost is None else 0)


def charged_for(error: ModelError, prices: ModelPrice | None) -> RoleSpend:
    """Give what a failed request was charged; an error that says it wrongly says nothing."""
    try:
        usage, cost = error.usage if isinstance(error.usage, Usage) else Usage(), price(error.cost)
    except ModelAnswerError:
        return RoleSpend(requests=1, unpriced=1)
    return spent_on(usage, _cost(usage, prices) if cost is None and prices is not None else cost)


def name_of(model: abc.Model) -> str:
    """Name a model in a message."""
    name, identity = type(model).__name__, model.identity
    return f"the model `{identity.get('model', name) if isinstance(identity, Mapping) else name}`"


def no_price(who: str) -> str:
    """Say that a cap in money does not hold for a model without a price."""
    return (
        f"{who} says no price, so that max_cost cannot be kept: give the model its prices, or cap max_requests or "
        "max_tokens instead"
    )


def no_bound(who: str) -> str:
    """Say that a cap in money does not hold for a model whose replies have no bound."""
    return (
        f"{who} says no bound of its replies, so that max_cost cannot be kept: set its max_tokens, or cap max_requests "
        "instead"
    )
