"""What a model costs: the user's table, that of genai-prices, or unknown."""

from __future__ import annotations

from decimal import Decimal
from importlib.util import find_spec
from typing import Any

import pytest

from burnish import Environment, PluginManager
from burnish.abc import ModelPrice, Usage
from burnish.errors import ConfigError, UsageError
from burnish_openai import OpenAIModel, OpenAIOptions, open_model

from ._ask import ENV, KEY, QUESTION

PRICES = {"input": 0.15, "cached_input": 0.075, "output": 0.6}


async def opened(**options: Any) -> OpenAIModel:
    async with open_model(OpenAIOptions(**({"model": "tiny"} | options)), ENV) as model:
        return model


async def test_the_users_table_goes_first() -> None:
    """Prices are exact decimals per million tokens, also where genai-prices knows others."""
    price = (await opened(model="gpt-4o-mini", prices={"input": 1, "output": 2})).limits.price
    assert ModelPrice(input=1, output=2) == price
    price = (await opened(prices=PRICES)).limits.price
    assert price is not None
    used = Usage(input_tokens=1000, output_tokens=10, cached_tokens=600)
    assert Decimal("0.000111") == price.cost(used)


async def test_a_configuration_s_table_becomes_prices() -> None:
    """As TOML gives it: floats count as the digits that they show; a wrong key is refused with its path."""
    env, given = Environment(variables={"OPENAI_API_KEY": KEY}), {"model": "tiny", "prices": PRICES}
    async with PluginManager().open("model", "openai", given, env) as model:
        assert ModelPrice(input="0.15", cached_input="0.075", output="0.6") == model.limits.price
    wrong = {"model": "tiny", "prices": {"input": 1, "outputs": 2}}
    with pytest.raises(ConfigError, match=r"prices.*outputs"):
        async with PluginManager().open("model", "openai", wrong, env):
            pass


@pytest.mark.parametrize("prices", [{"input": -1, "output": 1}, {"input": "much", "output": 1}])
def test_a_price_that_is_none_is_refused(prices: dict[str, Any]) -> None:
    """Below 0, or no number."""
    with pytest.raises(UsageError, match="US dollars per million tokens"):
        OpenAIOptions(model="tiny", prices=prices)


async def test_genai_prices_knows_what_the_user_does_not_say() -> None:
    """By endpoint and model, without a network; nothing is known where it is not installed."""
    known = find_spec("genai_prices") is not None
    price = (await opened(model="gpt-4o-mini")).limits.price
    assert (ModelPrice(input="0.15", cached_input="0.075", output="0.6") if known else None) == price


async def test_longer_prompts_may_cost_more() -> None:
    """Steps of genai-prices become prices beyond so many input tokens; the step reached holds for all tokens."""
    known = find_spec("genai_prices") is not None
    url = "https://openrouter.ai/api/v1"
    price = (await opened(model="google/gemini-2.5-pro", base_url=url)).limits.price
    if price is None:
        assert not known
        return
    costs = [price.cost(Usage(input_tokens=n, output_tokens=1000)) for n in (200_000, 200_001)]
    assert [Decimal("0.26"), Decimal("0.5150025")] == costs


async def test_an_own_server_has_no_price_until_it_is_said() -> None:
    """An unknown price is none, never 0."""
    assert (await opened(base_url="http://127.0.0.1:8080/v1")).limits.price is None
    price = (await opened(base_url="http://127.0.0.1:8080/v1", prices={"input": 0, "output": 0})).limits.price
    assert price is not None
    assert price.free


async def test_what_extra_fields_add_to_the_prompt_is_in_the_bound() -> None:
    """Tools and schemas are prompt too, so their text counts."""
    tools = [{"type": "function", "function": {"name": "look_up" * 100}}]
    plain, more = await opened(), await opened(extra={"tools": tools})
    assert more.limits.extra_input_tokens >= plain.limits.extra_input_tokens + 700
    assert QUESTION.most_input_tokens > sum(len(m.content) for m in QUESTION.messages)
