"""A model's answer as a value: what cannot be booked or stored cannot be made."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from burnish._model.codec import dumps, loads
from burnish._model.trace import Exchange
from burnish.abc import LMResponse, Usage
from burnish.errors import ModelAnswerError, ModelMalformedError, StoreError


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
