"""Chunks of llama.cpp as replies and errors: pure."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from burnish import errors
from burnish.abc import LMResponse, Usage
from burnish_llamacpp._reply import read_reply

PROGRESS: dict[str, Any] = {"choices": [{"text": "", "finish_reason": None}], "prompt_progress": {"total": 9}}
USAGE = {"completion_tokens": 2, "prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 7}}


def piece(text: str) -> dict[str, Any]:
    """Make one chunk of text."""
    return {"choices": [{"text": text, "finish_reason": None}]}


def end(reason: str, usage: Any = USAGE) -> dict[str, Any]:
    """Make the last chunk."""
    return {"choices": [{"text": "", "finish_reason": reason}], "usage": usage}


def test_pieces_become_one_reply() -> None:
    """The prefill stands in front; tokens, the cached ones too, the reason and the model are filled in."""
    expected = LMResponse(
        text="category: food item",
        usage=Usage(input_tokens=9, output_tokens=2, cached_tokens=7),
        finish_reason="length",
        model="tiny",
        cost=Decimal(0),
    )
    chunks = [PROGRESS, piece(" food"), piece(" item"), end("length")]
    assert expected == read_reply(chunks, prefill="category:", model="tiny")


@pytest.mark.parametrize("chunks", [[], [piece("a")], [piece("a"), end("stop", usage=None)]])
def test_broken_off_is_malformed(chunks: list[dict[str, Any]]) -> None:
    """Without an end or without usage it is no reply."""
    with pytest.raises(errors.ModelMalformedError, match="broke off after"):
        read_reply(chunks, prefill="", model="tiny")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 400, "type": "exceed_context_size_error", "message": "long"}, errors.ContextLengthError),
        ({"code": 400, "type": "invalid_request_error", "message": "bad"}, errors.ModelRequestError),
        ({"code": 404, "message": "no"}, errors.ModelNotFoundError),
        ({"code": 503, "type": "unavailable_error", "message": "loading"}, errors.ModelServerError),
        ({"message": "no code"}, errors.ModelServerError),
        ("only words", errors.ModelServerError),
    ],
)
def test_errors_have_their_type(error: Any, kind: type[errors.ModelError]) -> None:
    """An error in a chunk is raised as the error it is, with its status."""
    with pytest.raises(errors.ModelError) as caught:
        read_reply([PROGRESS, {"error": error}], prefill="", model="tiny")
    assert (kind, error.get("code") if isinstance(error, dict) else None) == (type(caught.value), caught.value.status)


def test_context_error_says_how_much() -> None:
    """A prompt that is too long is told its length, the context, and the option to raise."""
    error = {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 902, "n_ctx": 512}
    with pytest.raises(errors.ContextLengthError, match=r"902 tokens and the context 512.*`context`"):
        read_reply([{"error": error}], prefill="", model="tiny")
