"""Traces as lines of JSON: what stands where, what is cut, what is refused and what is passed over."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from burnish._model.canonical import Json
from burnish._model.evals import Eval
from burnish._model.lm import Message, Usage
from burnish._model.trace import Exchange, Span, ToolRun, Trace, TraceMeta, TraceOutcome, public_identity, request_hash
from burnish._model.trace_text import TEXT_LIMIT, TOOL_LIMIT, dumps, loads, loads_all
from burnish.errors import StoreError, UsageError

MODEL = {"provider": "test", "model": "m"}
HEAD = (Message("system", "Draft."), Message("user", "q: 0"), Message("assistant", "draft: zero"))


def trace(reply: str = "fine", tool: str = "5", **more: Any) -> Trace:
    """One draft of two exchanges with a tool between them."""
    turns = (Message("user", "q: 1\u2028?"),)
    span = Span(
        id=0,
        component="drafter",
        seq=0,
        prefix=0,
        suffix=turns,
        model=0,
        inputs={"q": "1"},
        output={"draft": reply},
        raw_output=reply,
        request_hash=request_hash(MODEL, HEAD + turns),
        events=(Exchange(text="?"), ToolRun(id="t", name="add", result=tool), Exchange(text=reply, usage=Usage())),
        eval=Eval(0.5),
    )
    outcome = TraceOutcome(output=reply, eval=Eval(1.0, "good"), duration_us=7)
    meta = TraceMeta(trace_id="a", candidate_hash=2**64 - 1, inputs={"q": "1"}, tags={"kind": "test"})
    return Trace(meta=meta, spans=(span,), prefixes=(HEAD,), models=(MODEL,), outcome=outcome, **more)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.split("\n") if line]


def test_a_header_a_line_a_span_and_a_footer() -> None:
    """Scenario 55, E77: 3 lines; reading and writing again gives the same text; hash and eval survive."""
    text = dumps(trace())
    header, span, footer = lines(text)
    assert ["h", "components", "models", "prefixes"] == list(header)
    assert (1, "a", ["drafter"], [MODEL]) == (
        header["h"]["v"], header["h"]["trace_id"], header["components"], header["models"]
    )
    assert (0, 0, 0) == (span["component"], span["prefix"], span["model"])
    assert {"f": {"output": "fine", "eval": {"score": 1.0, "feedback": "good"}, "duration_us": 7}} == footer
    again = loads(text)
    assert trace() == again
    assert text == dumps(again)
    assert (trace().spans[0].request_hash, Eval(0.5)) == (again.spans[0].request_hash, again.spans[0].eval)


def test_what_is_not_known_is_left_out() -> None:
    """E77: no `eval` where the metric said nothing of a span, no footer without an outcome, no `param_ids` column."""
    bare = attrs.evolve(trace(), spans=(attrs.evolve(trace().spans[0], eval=None),), outcome=None)
    header, span = lines(dumps(bare))
    assert "param_ids" not in header
    assert "eval" not in span
    assert bare == loads(dumps(bare))


def test_parameters_stand_beside_the_components() -> None:
    """Scenario 60, E77: one entry a component, null for one that the program does not have; `v` stays 1."""
    known = trace(param_ids={"drafter": ("drafter.instruction", "drafter.demos")})
    assert [["drafter.instruction", "drafter.demos"]] == lines(dumps(known))[0]["param_ids"]
    assert known == loads(dumps(known))
    assert [None] == lines(dumps(trace(param_ids={"drafter": None})))[0]["param_ids"]


@pytest.mark.parametrize("where", ["reply", "tool"])
@pytest.mark.parametrize("over", [0, 1])
def test_long_texts_are_cut(where: str, over: int) -> None:
    """E77: beyond 64 KiB, of a tool's 16 KiB, a text ends in a mark with its hash, and the span is not complete."""
    limit = TEXT_LIMIT if where == "reply" else TOOL_LIMIT
    text = "é" * (limit // 2) + "x" * over
    again = loads(dumps(trace(**{where: text})))
    (span,) = again.spans
    assert bool(over) is not span.complete
    event = span.events[1]
    assert isinstance(event, ToolRun)
    kept = span.raw_output if where == "reply" else event.result
    assert kept is not None
    assert len(kept.encode()) <= limit
    if over:
        assert f"[cut here: {limit + 1} bytes in all, xxh3 " in kept
        other = loads(dumps(trace(**{where: text[:-1] + "y"}))).spans[0]
        assert other != span  # the mark tells texts apart that begin alike
    assert dumps(again) == dumps(loads(dumps(again)))
    assert trace().spans[0].request_hash == span.request_hash


def test_a_cut_beginning_is_the_loss_of_each_span_that_has_it() -> None:
    """A prompt that was cut cannot be told apart from another one: its spans are not complete."""
    long = attrs.evolve(trace(), prefixes=((Message("system", "x" * (TEXT_LIMIT + 1)),),))
    assert [False] == [span.complete for span in loads(dumps(long)).spans]


def test_secrets_are_hidden_wherever_they_stand() -> None:
    """E75: a key that a prompt or reply repeats is taken out of every text; what lost one is not complete."""
    text = dumps(trace(reply="the key is sk-123456, or sk-1234567"), hide=["sk-123456", "sk-1234567", ""])
    assert "sk-123" not in text
    assert "the key is [redacted], or [redacted]" == loads(text).spans[0].raw_output
    assert not loads(text).spans[0].complete
    assert dumps(trace()) == dumps(trace(), hide=["sk-123456"])


@pytest.mark.parametrize("hide", [[3], [None], "sk-1"])
def test_secrets_are_texts(hide: Any) -> None:
    """What is no list of texts is refused, without the value."""
    with pytest.raises(UsageError, match="`hide`"):
        dumps(trace(), hide=hide)


def test_bytes_of_another_encoding_are_refused() -> None:
    """As damage is."""
    with pytest.raises(StoreError, match="not UTF-8: byte 1 cannot be read"):
        loads_all(b"a\xff")


def test_models_are_shown_without_credentials() -> None:
    """E75: no text under a secret's name, however deep; URLs end after the port; other settings stay."""
    identity: dict[str, Json] = {
        "model": "m",
        "base_url": "https://me:pw@host:8080/v1/team?key=s3cret",
        "max_tokens": 5,
        "tokenizer": "gpt2",
        "api_key": "s3cret",
        "extra": {"Authorization": "Bearer s3cret", "x-api-key": ["s3cret"], "user": [{"access_token": "s3cret"}]},
        "key": None,
    }
    shown = public_identity(identity)
    assert "s3cret" not in json.dumps(shown)
    assert {
        "model": "m",
        "base_url": "https://host:8080",
        "max_tokens": 5,
        "tokenizer": "gpt2",
        "extra": {"user": [{}]},
        "key": None,
    } == shown
    assert shown == public_identity(shown)


def test_several_traces_stand_one_after_the_other() -> None:
    """A file of a run's traces reads as their list; a text that must hold one says how many it holds."""
    both = [trace(), attrs.evolve(trace(), outcome=None)]
    assert both == loads_all(dumps(both))
    assert [] == loads_all("\n")
    with pytest.raises(StoreError, match="holds 2 traces"):
        loads(dumps(both))


def test_what_a_later_version_adds_is_passed_over() -> None:
    """E70, E77: unknown fields at any place and unknown kinds of events are skipped; a newer version is refused."""
    header, span, footer = lines(dumps(trace()))
    header["h"]["new"] = header["new"] = span["new"] = footer["f"]["new"] = {"a": 1}
    span["events"].insert(1, {"type": "Handover", "to": "x"})
    text = "\n".join(json.dumps(line) for line in (header, span, footer))
    assert trace() == loads(text)
    header["h"]["v"] = 2
    with pytest.raises(StoreError, match=r"line 1 .* version 2, this burnish reads up to 1"):
        loads(json.dumps(header))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text[:-5],
        lambda text: text.replace('"prefix":0', '"prefix":1'),
        lambda text: text.replace('"component":0', '"component":3'),
        lambda text: text.replace('"seq":0', '"seq":"0"'),
        lambda text: text.split("\n", 1)[1],
        lambda text: f"5\n{text}",
        lambda text: text.replace('"h":{', '"h":{"version":1,"x":').replace('"x":', '"x":{', 1),
        lambda text: "[" * 100_000,
        lambda text: text.replace('"seq":0', '"seq":' + "9" * 5000),
        lambda text: text.replace('"component":0', '"component":1' + "0" * 400),
    ],
)
def test_damage_is_named_by_line(spoil: Any) -> None:
    """A text that was cut off, or points nowhere, is a `StoreError` with the line's number."""
    with pytest.raises(StoreError, match=r"line \d is no line of a trace"):
        loads_all(spoil(dumps(trace())))
