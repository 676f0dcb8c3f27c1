"""One request to a language model, and its answer: plain values, whatever the provider."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

import attrs

from burnish._model.canonical import Json, JsonMap, fingerprint

Role = Literal["system", "user", "assistant"]


@attrs.frozen
class Message:
    """One turn."""

    role: Role
    content: str


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
    def prompt_chars(self) -> int:
        """Length of all turns in characters."""
        return sum(len(m.content) for m in self.messages)


@attrs.frozen(kw_only=True)
class Usage:
    """Tokens of one or more calls."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
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


@attrs.frozen(kw_only=True)
class LMResponse:
    """One answer."""

    text: str
    usage: Usage = Usage()
    finish_reason: str = "stop"
    """`stop`, `length` (the text is cut off) or the provider's own word."""
    model: str = ""
    """The id of the model that answered, as the endpoint gave it."""
    cost: Decimal | None = None
    """In US dollars where the endpoint says it; None where unknown, which is never the same as 0."""
