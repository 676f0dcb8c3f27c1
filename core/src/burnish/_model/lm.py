"""One request to a language model, and its answer: plain values, whatever the provider."""

from __future__ import annotations

import operator
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal, SupportsIndex

import attrs
import xxhash

from burnish._model.canonical import Json, JsonMap, fingerprint
from burnish.errors import ModelAnswerError, UsageError

Role = Literal["system", "user", "assistant"]

DEAREST = 10**9
"""Dollars that a call or a million tokens may cost; sums of far more would not be exact, or no numbers at all."""


@attrs.frozen
class Message:
    """One turn."""

    role: Role
    content: str


class Turns(tuple[Message, ...]):
    """Turns that many prompts begin with: a tuple whose hashes are made once, however many they are."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return tuple.__hash__(self)

    @cached_property
    def digest(self) -> xxhash.xxh3_128:
        """The state of a digest that has read them: a copy of it goes on with the turns of a call."""
        return xxhash.xxh3_128(turns_bytes(self))


def turns_bytes(turns: tuple[Message, ...]) -> bytes:
    """Give the bytes that a digest of turns reads; those of further turns go on from them."""
    texts = [text.encode("utf-8", "surrogatepass") for turn in turns for text in (turn.role, turn.content)]
    return b"".join([b"%d:%b" % (len(text), text) for text in texts])


@attrs.frozen(kw_only=True)
class Layout:
    """How a program wrote its turns: what a base model without a chat template needs to lay them out as one text.

    A program writes a field as `<label>: <value>`; `outputs` are the labels that the reply is expected to hold.
    """

    inputs: tuple[str, ...] = ()
    """Labels of the input fields, in order."""
    outputs: tuple[str, ...] = ()
    """Labels of the output fields, in order; the reply is expected to start with the first."""


@attrs.frozen(kw_only=True)
class LMRequest:
    """One request: the turns, and how to sample. The model's own settings stand in the model."""

    messages: tuple[Message, ...]
    layout: Layout | None = None
    temperature: float | None = None
    """None leaves the model's own setting."""
    max_tokens: int | None = None
    """Bound of the reply, in tokens; None leaves the model's own setting."""
    stop: tuple[str, ...] = ()
    sample: int = 0
    """Which of several equal requests this is, from 0: part of the identity, so that n equal prompts are n answers."""
    seed: int | None = None

    def to_json(self) -> JsonMap:
        """Give the canonical JSON form: the content that identifies the request."""
        form: JsonMap = {"messages": [[m.role, m.content] for m in self.messages]}
        settings: dict[str, Json] = {
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "stop": list(self.stop) or None,
            "sample": self.sample or None,
            "seed": self.seed,
            # a model that lays the turns out as one text writes another prompt for another layout
            "layout": None if self.layout is None else [list(self.layout.inputs), list(self.layout.outputs)],
        }
        form.update({k: v for k, v in settings.items() if v is not None})
        return form

    @property
    def fingerprint(self) -> str:
        """128-bit content fingerprint, 32 hex digits."""
        return fingerprint(self.to_json())

    @property
    def most_input_tokens(self) -> int:
        """Bound of the texts' tokens and those between turns: a token is at least one byte of UTF-8."""
        labels = () if self.layout is None else (*self.layout.inputs, *self.layout.outputs)
        return sum(map(most_tokens, labels)) + sum(most_tokens(m.content) + TURN_TOKENS for m in self.messages)


TURN_TOKENS = 16
"""What a chat template puts around one turn, at most."""


def most_tokens(text: str) -> int:
    """Give the most tokens that a text can be: its bytes in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _tokens(value: SupportsIndex) -> int:
    if type(value) is int and value >= 0:
        return value
    try:
        count = -1 if isinstance(value, bool) else operator.index(value)  # a numpy integer is one too
    except TypeError:
        count = -1
    if count < 0:
        raise ModelAnswerError(f"a count of tokens must be an integer from 0 on; it is {value!r:.80}")
    return count


def price(value: Decimal | float | str | None) -> Decimal | None:
    """Give an amount of US dollars as a decimal; None, an unknown one, stays None.

    Raises `ModelAnswerError` where it is none: negative, beyond `DEAREST`, not a number.
    """
    if value is None:
        return None
    try:
        amount = Decimal(str(value) if isinstance(value, float) else value)  # of a float the digits that it shows
        if amount.is_finite() and 0 <= amount <= DEAREST and not isinstance(value, bool):
            return amount
    except (ArithmeticError, TypeError, ValueError):
        pass
    raise ModelAnswerError(
        f"`cost` must be US dollars from 0 to {DEAREST:,}, or None where it is unknown; it is {value!r:.80}"
    )


def _text(_: Any, attribute: attrs.Attribute[str], value: str) -> None:
    if not isinstance(value, str):
        raise ModelAnswerError(f"`{attribute.name}` must be a text; it is {value!r:.80}")


@attrs.frozen(kw_only=True)
class Usage:
    """Tokens of one or more calls. Raises `ModelAnswerError` for a count that is no integer from 0 on."""

    input_tokens: int = attrs.field(default=0, converter=_tokens)
    output_tokens: int = attrs.field(default=0, converter=_tokens)
    cached_tokens: int = attrs.field(default=0, converter=_tokens)
    """Those input tokens that the provider served from its prompt cache."""

    @property
    def total(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
        )


def _rate(value: Decimal | float | str) -> Decimal:
    try:
        rate = price(value)
    except ModelAnswerError:
        rate = None
    if rate is None:
        raise UsageError(f"a price must be US dollars per million tokens, from 0 to {DEAREST:,}; it is {value!r:.80}")
    return rate


def _rate_or_none(value: Decimal | float | str | None) -> Decimal | None:
    return None if value is None else _rate(value)


@attrs.frozen(kw_only=True)
class ModelPrice:
    """What a model's tokens cost, in US dollars per million; a float counts as the digits that it shows.

    Raises `UsageError` for an amount that is none.
    """

    input: Decimal = attrs.field(converter=_rate)
    output: Decimal = attrs.field(converter=_rate)
    cached_input: Decimal | None = attrs.field(default=None, converter=_rate_or_none)
    """Input tokens that the provider served from its prompt cache; None: as dear as any."""
    beyond: tuple[tuple[int, ModelPrice], ...] = ()
    """Other prices for requests of more than so many input tokens, in ascending order."""

    @property
    def free(self) -> bool:
        """Whether no token costs anything."""
        return not any(rate for prices in (self, *dict(self.beyond).values()) for rate in (prices.input, prices.output))

    def cost(self, usage: Usage) -> Decimal:
        """Give what a call cost, exactly."""
        return self._reached(usage)[-1]._sum(usage)

    def most(self, usage: Usage) -> Decimal:
        """Give what a call of at most so many tokens can cost, cached or not."""
        cached = attrs.evolve(usage, cached_tokens=usage.input_tokens)
        return max(prices._sum(tokens) for prices in self._reached(usage) for tokens in (usage, cached))

    def _reached(self, usage: Usage) -> list[ModelPrice]:
        return [self, *(prices for more, prices in self.beyond if usage.input_tokens > more)]

    def _sum(self, usage: Usage) -> Decimal:
        cached = min(usage.cached_tokens, usage.input_tokens)
        rate = self.input if self.cached_input is None else self.cached_input
        dear = (usage.input_tokens - cached) * self.input + cached * rate + usage.output_tokens * self.output
        return dear.scaleb(-6)


def _usage(_: Any, __: attrs.Attribute[Usage], value: Usage) -> None:
    if not isinstance(value, Usage):
        raise ModelAnswerError(f"`usage` must be a `burnish.abc.Usage`; it is {value!r:.80}")


@attrs.frozen(kw_only=True)
class LMResponse:
    """One answer. Raises `ModelAnswerError` for what cannot be booked or stored."""

    text: str = attrs.field(validator=_text)
    usage: Usage = attrs.field(default=Usage(), validator=_usage)
    finish_reason: str = attrs.field(default="stop", validator=_text)
    """`stop`, `length` (the text is cut off) or the provider's own word."""
    model: str = attrs.field(default="", validator=_text)
    """The id of the model that answered, as the endpoint gave it."""
    cost: Decimal | None = attrs.field(default=None, converter=price)
    """In US dollars where the endpoint says it; None where unknown, which is never the same as 0.

    A float, an integer or a text of digits becomes a decimal.
    """
