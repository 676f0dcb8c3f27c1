"""What an answer other than 200 means: the error's kind, and when to come back.

The wordings were collected from the servers' own messages (OpenAI, Azure, vLLM, SGLang, TGI, llama.cpp, Ollama,
OpenRouter, Gemini, Groq, xAI, DeepSeek): there is no code that all of them use.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import attrs

from burnish.errors import (
    ContextLengthError,
    ModelAuthError,
    ModelError,
    ModelNotFoundError,
    ModelRateLimitError,
    ModelRefusedError,
    ModelRequestError,
    ModelServerError,
    ModelTimeoutError,
)
from burnish_openai._faults import Faults

CONTEXT_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"})
CONTEXT_WORDS = re.compile(
    r"(maximum|max|available|model'?s?) (context|prompt) (length|size|window)"
    r"|context (length|size|window)\b.{0,40}\b(exceed|too|only|overflow)"
    r"|exceed\w*\b.{0,40}\bcontext (length|size|window)"
    r"|longer than the maximum model length"
    r"|(prompt|input) (\(.{0,40}\) )?is too long|prompt too long"
    r"|input token(s| count).{0,40}exceed|model token limit"
    r"|tokens \+ .?max_new_tokens.? must be|inputs.? must have less than"
    r"|reduce the length of the (messages|prompt|input)",
    re.IGNORECASE | re.DOTALL,
)
RATE_WORDS = re.compile(r"rate.?limit|tokens per min|\bTPM\b|quota", re.IGNORECASE)

FILTER_CODES = frozenset(
    {"content_filter", "content_policy_violation", "responsibleaipolicyviolation", "data_inspection_failed"}
)
FILTER_WORDS = re.compile(
    r"content (management|filtering) policy|usage (policy|guidelines)|input was flagged|flagged as|content exists risk",
    re.IGNORECASE,
)

MODEL_CODES = frozenset({"model_not_found", "model_not_available", "model_decommissioned"})
MODEL_WORDS = re.compile(r"is not a valid model|model not exist", re.IGNORECASE)

MONEY_CODES = frozenset(
    {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "insufficient_credits"}
)


@attrs.frozen(kw_only=True)
class Detail:
    """What an error body says."""

    message: str
    codes: frozenset[str] = frozenset()
    """Its codes and types, in lower case, numbers left out."""
    status: int | None = None
    """The HTTP status that the body itself names: gateways put errors into a 200."""


def classify(
    faults: Faults, status: int, headers: Mapping[str, str], body: bytes, *, said: str = "answered"
) -> ModelError:
    """Turn an answer that is not a reply into the error it stands for; nothing is raised here.

    `said` is how the status came: gateways put an error of their upstream into a 200.
    """
    detail = read_detail(body)
    if 300 <= status < 400:
        # Every further call would be redirected too, so it must end the run like a missing model does.
        where = headers.get("location", "nowhere").partition("?")[0]
        what = f"{said} {status}, a redirect, not followed as credentials would go along; set `base_url` to its goal"
        return faults.make(ModelNotFoundError, what, quote=where, status=status)
    kind, advice = _kind(status, detail)
    what = f"{said} {status}" + (f", {advice}" if advice else "")
    wait = retry_after(headers) if kind.retryable else None
    return faults.make(kind, what, quote=detail.message, status=status, retry_after=wait)


def _kind(status: int, detail: Detail) -> tuple[type[ModelError], str]:
    codes, said = detail.codes, detail.message
    if codes & FILTER_CODES or (status in (400, 403, 422, 451) and FILTER_WORDS.search(said)):
        return ModelRefusedError, "the provider declined this content"
    if codes & CONTEXT_CODES or (_may_be_context(status, said) and CONTEXT_WORDS.search(said)):
        return ContextLengthError, "the prompt does not fit the model's context"
    if codes & MONEY_CODES or status == 402:
        return ModelAuthError, "the account has no quota or credit left: waiting will not help, its owner must act"
    if status == 404 or codes & MODEL_CODES or (status < 500 and MODEL_WORDS.search(said)):
        return ModelNotFoundError, "check `model`, and that `base_url` ends where the API starts (mostly /v1)"
    if status in (401, 403, 407):
        return ModelAuthError, "the credentials were refused; check the variable that `api_key_env` names"
    if status == 408:
        return ModelTimeoutError, "a timeout"
    if status == 429:
        return ModelRateLimitError, "too many requests"
    return (ModelServerError, "") if status >= 500 else (ModelRequestError, "")


def _may_be_context(status: int, said: str) -> bool:
    # llama.cpp says it with a 500; a limit of tokens per minute uses much the same words and is none of the prompt's.
    return (status in (400, 413, 422) or status >= 500) and not RATE_WORDS.search(said)


def read_detail(body: bytes) -> Detail:
    """Find message and codes in an error body, whatever its form; a text or HTML body is the message itself."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return Detail(message=body.decode("utf-8", "replace"))
    if isinstance(data, list) and data:
        data = data[0]  # Gemini puts the object into a list
    outer = data if isinstance(data, dict) else {}
    found = outer.get("error") or outer
    if not isinstance(found, dict):
        return Detail(message=str(found))
    inner = found.get("innererror")  # Azure
    named = [found.get("code"), found.get("type"), found.get("status")]
    named += [inner.get("code")] if isinstance(inner, dict) else []
    message = found.get("message") or found.get("detail") or body.decode("utf-8", "replace")
    return Detail(
        message=message if isinstance(message, str) else json.dumps(message),
        codes=frozenset(str(c).lower() for c in named if isinstance(c, str)),
        status=_http_status(found.get("code")),
    )


def _http_status(code: object) -> int | None:
    return code if isinstance(code, int) and not isinstance(code, bool) and 400 <= code < 600 else None


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Read the seconds to wait: `retry-after-ms`, or `Retry-After` in seconds or as a date (RFC 9110).

    A date is measured from the answer's own `Date`, where it has one, so that a wrong clock here does no harm. None:
    the endpoint did not say, or not in a form that can be read.
    """
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) / scale
        except (KeyError, ValueError):
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    until = _timestamp(headers.get("retry-after"))
    if until is None:
        return None
    start = _timestamp(headers.get("date"))
    start = start if start is not None else (time.time() if now is None else now)
    return max(0.0, until - start)


def _timestamp(text: str | None) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp() if text else None
    except (ValueError, OverflowError):
        return None
