"""What a model costs: the user's own table, else the one that genai-prices brings, else nobody knows."""

from __future__ import annotations

import importlib
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from burnish.abc import ModelPrice
from burnish_openai._options import OpenAIOptions


def price_of(options: OpenAIOptions) -> ModelPrice | None:
    """Give a model's prices; None where they are unknown. Loads genai-prices where it is installed: not on a loop.

    Its table came with the package: nothing is fetched.
    """
    if options.prices is not None:
        return options.prices
    try:
        table = importlib.import_module("genai_prices")
    except ImportError:
        return None
    now, rates = datetime.now(UTC), []
    for hour in range(24):  # some providers are cheaper at night, and a run may go on until the morning
        try:
            found = table.calc_price(
                table.Usage(input_tokens=1, output_tokens=1),
                model_ref=options.model,
                provider_api_url=options.endpoint,
                genai_request_timestamp=now + timedelta(hours=hour),
            )
        except (LookupError, ValueError):  # an endpoint or a model that it does not know, or not by tokens
            return None
        rates.append(found.model_price)
    return _dearest(rates)


def _dearest(rates: list[Any]) -> ModelPrice | None:
    starts = {tier.start for rate in rates for one in _of(rate) for tier in getattr(one, "tiers", ())}
    if any(rate.input_mtok is None or rate.output_mtok is None for rate in rates):
        return None  # priced by something else than tokens
    beyond = tuple((start, _at(rates, start + 1)) for start in sorted(starts))
    first = _at(rates, 0)
    return ModelPrice(input=first.input, output=first.output, cached_input=first.cached_input, beyond=beyond)


def _of(rate: Any) -> tuple[Any, ...]:
    return rate.input_mtok, rate.output_mtok, rate.cache_read_mtok


def _at(rates: list[Any], tokens: int) -> ModelPrice:
    """Give the prices of a request of so many input tokens: the dearest of each."""
    inputs, outputs, cached = zip(*((_rate(one, tokens) for one in _of(rate)) for rate in rates), strict=True)
    known = [amount for amount in cached if amount is not None]
    return ModelPrice(
        input=max(inputs), output=max(outputs), cached_input=max(known) if len(known) == len(cached) else None
    )


def _rate(price: Any, tokens: int) -> Decimal | None:
    """Read a price, flat or in steps: the step that a request reaches holds for all of its tokens."""
    if price is None or isinstance(price, Decimal):
        return price
    reached: list[Decimal] = [tier.price for tier in price.tiers if tokens > tier.start]
    base: Decimal = price.base
    return reached[-1] if reached else base
