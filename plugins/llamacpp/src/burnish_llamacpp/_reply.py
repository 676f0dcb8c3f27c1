"""llama.cpp's chunks as a response, or as the error that they hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from burnish import errors
from burnish.abc import LMResponse, Usage
from burnish_llamacpp._lane import Chunk

FREE = Decimal(0)


def read_reply(chunks: Sequence[Chunk], *, prefill: str, model: str) -> LMResponse:
    """Join the chunks of one streamed completion, with the prefill in front.

    Raises a subclass of `burnish.errors.ModelError` where a chunk holds an error or the end is missing.
    """
    text, reason, usage = [prefill], "", None
    for chunk in chunks:
        if "error" in chunk:
            raise _error(chunk["error"])
        for choice in chunk.get("choices", ()):
            text.append(choice.get("text") or "")
            reason = choice.get("finish_reason") or reason
        usage = chunk.get("usage") or usage
    if not reason or usage is None:
        raise errors.ModelMalformedError(
            f"model.llamacpp: llama.cpp's answer broke off after {len(chunks)} pieces; ask again, and if it stays, "
            "another version of xllamacpp may speak another form"
        )
    return LMResponse(text="".join(text), usage=_usage(usage), finish_reason=reason, model=model, cost=FREE)


def _usage(fields: Mapping[str, Any]) -> Usage:
    details = fields.get("prompt_tokens_details") or {}
    return Usage(
        input_tokens=int(fields.get("prompt_tokens") or 0),
        output_tokens=int(fields.get("completion_tokens") or 0),
        cached_tokens=int(details.get("cached_tokens") or 0),
    )


def _error(fields: Any) -> errors.ModelError:
    if not isinstance(fields, Mapping):
        fields = {"message": fields}
    said = str(fields.get("message") or "no reason given")[:300]
    status = fields.get("code") if isinstance(fields.get("code"), int) else None
    if fields.get("type") == "exceed_context_size_error":
        tokens, context = fields.get("n_prompt_tokens", "more"), fields.get("n_ctx", "its context")
        return errors.ContextLengthError(
            f"model.llamacpp: the prompt has {tokens} tokens and the context {context}; shorten the instruction or the "
            "demos, or raise the option `context`",
            status=status,
        )
    kind, advice = _kind(status)
    return kind(f"model.llamacpp: llama.cpp refused the request: {said}{advice}", status=status)


def _kind(status: int | None) -> tuple[type[errors.ModelError], str]:
    if status == 404:
        return errors.ModelNotFoundError, ""
    if status is not None and 400 <= status < 500:
        return errors.ModelRequestError, "; change the request"
    return errors.ModelServerError, "; a fresh start of the model may help"
