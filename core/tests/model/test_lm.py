"""A model's answer as a value: what cannot be booked or stored cannot be made."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from burnish._model.codec import dumps, loads
from burnish._model.trace import Exchange
from burnish.abc import Layout, LMRequest, LMResponse, Message, ModelPrice, Usage
from burnish.errors import ModelAnswerError, ModelMalformedError, StoreError, UsageError


class Whole:
    """An integer of another library's, as numpy's are."""

    def __index__(self) -> int:
        return 7


@pytest.mark.parametrize(
    ("given", "cost"),
    [(0.1, "0.1"), (0, "0"), (2, "2"), ("0.30", "0.30"), (Decimal("1e-7"), "1E-7"), (None, None)],
)
def test_a_price_becomes_a_decimal(given: Any, cost: str | None) -> None:
    """Floats by the digits that they show, integers, texts; an unknown price stays None, which is never 0."""
    found = LMResponse(text="", cost=given).cost
    assert (cost, type(found)) == (None if found is None else str(found), type(None) if cost is None else Decimal)


@pytest.mark.parametrize(
    "fields",
    [
        {"cost": -0.01},
        {"cost": float("nan")},
        {"cost": "inf"},
        {"cost": "1E+999999"},
        {"cost": Decimal("sNaN")},
        {"cost": True},
        {"cost": "3 dollars"},
        {"cost": [1]},
        {"text": None},
        {"text": b"bytes"},
        {"finish_reason": None},
        {"model": None},
        {"usage": None},
        {"usage": {"input_tokens": 3}},
    ],
    ids=str,
)
def test_an_answer_that_cannot_be_booked_is_refused(fields: dict[str, Any]) -> None:
    """The error names the field and shows the value; it is a malformed answer, and no retry mends it."""
    with pytest.raises(ModelAnswerError, match=f"`{next(iter(fields))}` must be") as caught:
        LMResponse(**({"text": "ok"} | fields))
    assert (True, False) == (isinstance(caught.value, ModelMalformedError), caught.value.retryable)


@pytest.mark.parametrize("count", [-1, 3.0, "3", None, True, float("nan")])
@pytest.mark.parametrize("field", ["input_tokens", "output_tokens", "cached_tokens"])
def test_tokens_are_counted_in_integers(field: str, count: Any) -> None:
    """A record with anything else could not be read back."""
    with pytest.raises(ModelAnswerError, match="a count of tokens must be an integer from 0 on"):
        Usage(**{field: count})


def test_what_can_be_made_can_be_stored() -> None:
    """Other libraries' integers become integers; what was stored damaged is a `StoreError` as ever."""
    usage = Usage(input_tokens=Whole(), output_tokens=1)
    assert (7, int, 8) == (usage.input_tokens, type(usage.input_tokens), usage.total)
    exchange = Exchange(text="a", usage=usage)
    assert exchange == loads(dumps(exchange), Exchange)
    with pytest.raises(StoreError, match="a count of tokens must be"):
        loads('{"input_tokens": -1}', Usage)


def test_a_price_is_exact() -> None:
    """Dollars per million, cached input tokens at their own price or at that of any; floats as the digits they show."""
    price, plain = ModelPrice(input=0.15, cached_input="0.075", output=Decimal("0.6")), ModelPrice(input=1, output=2)
    used = Usage(input_tokens=1001, output_tokens=7, cached_tokens=1000)
    assert (Decimal("0.00007935"), Decimal("0.001015")) == (price.cost(used), plain.cost(used))
    assert (False, True) == (price.free, ModelPrice(input=0, output=0.0).free)


def test_a_price_may_change_with_the_length() -> None:
    """Beyond a number of input tokens all tokens have the other price; the most is over all prices that are reached."""
    beyond = ((10, ModelPrice(input=1, output=2)), (20, ModelPrice(input=9, output=9)))
    price = ModelPrice(input=2, output=4, cached_input=3, beyond=beyond)
    costs = [price.cost(Usage(input_tokens=n, output_tokens=1)) for n in (10, 11, 20, 21)]
    assert [Decimal(n).scaleb(-6) for n in (24, 13, 22, 198)] == costs
    most = [price.most(Usage(input_tokens=n, output_tokens=1)) for n in (10, 20, 21)]
    assert [Decimal(n).scaleb(-6) for n in (34, 64, 198)] == most


@pytest.mark.parametrize("amount", [-1, "much", float("nan"), float("inf"), None, True, "1E+999999", 1e10])
def test_a_price_that_is_none_is_refused(amount: Any) -> None:
    """The user's mistake, told with the value."""
    with pytest.raises(UsageError, match="a price must be US dollars per million tokens"):
        ModelPrice(input=amount, output=1)


def test_bytes_bound_a_prompt() -> None:
    """A token is at least one byte of UTF-8; turns and the labels of a layout count too, and half characters."""
    request = LMRequest(
        messages=(Message("system", "äö"), Message("user", "hi\ud800")), layout=Layout(inputs=("q",), outputs=("ab",))
    )
    assert 4 + 16 + 2 + 3 + 16 + 3 == request.most_input_tokens
