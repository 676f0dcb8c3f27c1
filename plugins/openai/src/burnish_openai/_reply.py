"""Read a 200: text, usage, finish reason, model id, cost; or the error that hides in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from burnish.abc import LMResponse, Usage
from burnish.errors import ModelError, ModelMalformedError, ModelRefusedError
from burnish_openai._faults import Faults
from burnish_openai._status import classify, read_detail

MOST_COST = Decimal(1_000_000)
"""A cost of one call from here on is a broken endpoint's, so unknown."""


def read_reply(faults: Faults, headers: Mapping[str, str], body: bytes, *, prefix: str = "") -> LMResponse:
    """Read the body of a 200.

    Raises `ModelMalformedError` for what is not a reply, `ModelRefusedError` for a filtered or refused one, and for an
    error that a gateway put into a 200 the error it stands for; the error holds the tokens and the cost that the reply
    names. `prefix` is put before a completion's text.
    """
    data: dict[str, Any] = {}
    try:
        data = _object(faults, body)
        return _reply(faults, headers, data, body, prefix)
    except ModelError as error:
        # A reply that is of no use was made, and is charged, all the same.
        error.usage, error.cost = _counts(data.get("usage")), _cost(data.get("usage"), headers)
        raise


def _reply(faults: Faults, headers: Mapping[str, str], data: dict[str, Any], body: bytes, prefix: str) -> LMResponse:
    choice = _first_choice(faults, headers, data, body)
    text, refusal = _text(faults, choice, body)
    reason = choice.get("finish_reason")
    if reason == "content_filter" or refusal:
        what = "the model refused" if refusal else "the provider's content filter stopped the reply"
        raise faults.make(ModelRefusedError, what, quote=refusal, status=200)
    model = data.get("model")
    return LMResponse(
        text=_labelled(prefix, text),
        usage=_usage(faults, data.get("usage"), body),
        finish_reason=reason if isinstance(reason, str) and reason else "stop",
        model=encodable(model) if isinstance(model, str) else "",
        cost=_cost(data.get("usage"), headers),
    )


def _malformed(faults: Faults, what: str, body: bytes) -> ModelError:
    return faults.make(ModelMalformedError, what, quote=body[:4000].decode("utf-8", "replace"), status=200)


def _object(faults: Faults, body: bytes) -> dict[str, Any]:
    try:
        # Decimal keeps a cost as it was written.
        data = json.loads(body, parse_float=Decimal)
    except (ValueError, RecursionError, InvalidOperation):
        raise _malformed(faults, "the reply is not JSON", body) from None
    if not isinstance(data, dict):
        raise _malformed(faults, "the reply is not a JSON object", body)
    return data


def _first_choice(faults: Faults, headers: Mapping[str, str], data: dict[str, Any], body: bytes) -> dict[str, Any]:
    choices = data.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    error = choice.get("error") if isinstance(choice, dict) else data.get("error")
    if error:
        inside = json.dumps({"error": error}, default=str).encode()
        raise classify(faults, read_detail(inside).status or 502, headers, inside, said="answered 200 with an error")
    if not isinstance(choice, dict):
        raise _malformed(faults, "the reply has no `choices`", body)
    return choice


def _text(faults: Faults, choice: dict[str, Any], body: bytes) -> tuple[str, str]:
    """Give the text and the refusal of a choice. Tool calls are not read: nobody here asked for one."""
    message = choice.get("message")
    if message is None and "text" in choice:
        message = {"content": choice["text"]}
    if not isinstance(message, dict):
        raise _malformed(faults, "the first choice has no `message`", body)
    content, refusal = message.get("content"), message.get("refusal")
    if isinstance(content, list):  # Mistral and some gateways send parts
        texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
        content = "".join(text for text in texts if isinstance(text, str))
    if content is not None and not isinstance(content, str):
        raise _malformed(faults, f"`content` is a {type(content).__name__}, not text", body)
    return encodable(content or ""), refusal if isinstance(refusal, str) else ""


def encodable(text: str) -> str:
    """Make a text that every store and terminal takes: JSON escapes can spell half a surrogate pair."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _labelled(prefix: str, text: str) -> str:
    if not prefix:
        return text
    return f"{prefix}{text}" if text[:1].isspace() else f"{prefix} {text}"


def _usage(faults: Faults, usage: object, body: bytes) -> Usage:
    if usage is None:
        return Usage()
    if not isinstance(usage, dict):
        raise _malformed(faults, "`usage` is not an object", body)
    counts = _counts(usage)
    if counts is None:
        raise _malformed(faults, "`usage` holds a count that is not a number of tokens", body)
    return counts


def _counts(usage: object) -> Usage | None:
    """Read the tokens; None where there are none, or none that can be read."""
    if not isinstance(usage, dict):
        return None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else usage.get("prompt_cache_hit_tokens")
    counts = [_count(n) for n in (usage.get("prompt_tokens"), usage.get("completion_tokens"), cached)]
    if None in counts:
        return None
    read, written, reused = (n or 0 for n in counts)
    return Usage(input_tokens=read, output_tokens=written, cached_tokens=reused)


def _count(value: object) -> int | None:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)) or not 0 <= value < 1 << 53:
        return None
    return int(value) if value == int(value) else None


def _cost(usage: object, headers: Mapping[str, str]) -> Decimal | None:
    """Give the cost in dollars: OpenRouter's `usage.cost`, or the header that LiteLLM's proxy sends.

    With the user's own key at the upstream provider, `cost` is OpenRouter's fee alone, so the upstream's bill is added.
    """
    fields = usage if isinstance(usage, dict) else {}
    cost = _money(fields.get("cost"))
    if cost is None:
        return _money(headers.get("x-litellm-response-cost"))
    if fields.get("is_byok") is True:
        details = fields.get("cost_details")
        upstream = _money(details.get("upstream_inference_cost")) if isinstance(details, dict) else None
        return None if upstream is None else cost + upstream
    return cost


def _money(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, (int, str, Decimal)):
        return None
    try:
        amount = Decimal(value)
        return amount if 0 <= amount < MOST_COST else None
    except InvalidOperation:
        return None
