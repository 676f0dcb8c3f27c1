"""Whatever an endpoint sends, a reply or a typed error comes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.errors import ModelError
from burnish_openai._credentials import Credentials
from burnish_openai._faults import QUOTED, Faults
from burnish_openai._reply import read_reply
from burnish_openai._status import classify

FAULTS = Faults(address="http://host/v1", model="tiny", credentials=Credentials(headers={}, secrets=("sk-1",)))

NAMES = st.sampled_from(
    ["choices", "message", "content", "text", "refusal", "usage", "prompt_tokens", "cost", "error", "code", "type"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.just("context_length_exceeded"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
BODIES = JSON.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=60)


@pytest.mark.slow
@settings(max_examples=300, derandomize=True, deadline=None, database=None)
@given(body=BODIES, choice=JSON, status=st.sampled_from([301, 400, 403, 413, 429, 500]))
def test_nothing_but_a_typed_error_escapes(body: bytes, choice: Any, status: int) -> None:
    """Any bytes and any JSON, as a 200 or as an error, are a reply or one short `ModelError`."""
    good = json.dumps({"choices": [choice], "usage": choice}).encode()
    for content in (body, good):
        try:
            reply = read_reply(FAULTS, {}, content)
        except ModelError as error:
            failed = error
        else:
            assert reply.text.encode("utf-8").decode() == reply.text
            failed = classify(FAULTS, status, {}, content)
        assert len(str(failed)) < QUOTED + 300
