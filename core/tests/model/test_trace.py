"""Traces: spans, interned beginnings, request hashes."""

from __future__ import annotations

import json
from typing import ClassVar

import pytest

from burnish._model.canonical import canonical_bytes
from burnish._model.codec import dumps, loads
from burnish._model.evals import Eval
from burnish._model.lm import Layout, LMRequest, Message, Turns, Usage
from burnish._model.trace import (
    TRACE_VERSION,
    Exchange,
    Span,
    SpanError,
    ToolRun,
    Trace,
    TraceMeta,
    TraceOutcome,
    request_hash,
)
from burnish.errors import UsageError

SYSTEM = (Message("system", "Draft."), Message("user", "q: 0"), Message("assistant", "draft: zero"))
MODEL = {"provider": "test", "model": "m"}


def trace() -> Trace:
    """Two drafts with one common beginning, then a refiner that failed to parse: scenario 52 and 57 in small."""
    usage = Usage(input_tokens=3, output_tokens=1)
    return Trace(
        meta=TraceMeta(candidate_hash=99, inputs={"question": "?"}, tags={"kind": "test"}),
        spans=(
            Span(id=0, component="drafter", seq=0, prefix=0, suffix=(Message("user", "q: 1"),), output={"draft": "a"}),
            Span(id=1, component="drafter", seq=1, prefix=0, suffix=(Message("user", "q: 2"),), output={"draft": "b"}),
            Span(
                id=2,
                component="refiner",
                seq=0,
                parent=1,
                model=0,
                inputs={"draft": "b"},
                suffix=(Message("user", "draft: b"),),
                events=(Exchange(text="??", usage=usage), ToolRun(id="t", name="add"), Exchange(text="?", usage=usage)),
                raw_output="?",
                usage=usage + usage,
                error=SpanError(kind="parse", message="no field `answer`"),
            ),
        ),
        prefixes=(SYSTEM,),
        models=(MODEL,),
        outcome=TraceOutcome(error="ParseError"),
    )


def test_spans_are_found_by_component() -> None:
    """Components stand in order of first use, their spans in order; an unknown name has none (E68, E69)."""
    assert ("drafter", "refiner") == trace().components
    assert [(0, 0), (1, 1)] == [(s.id, s.seq) for s in trace().for_component("drafter")]
    assert [1] == [s.parent for s in trace().for_component("refiner")]
    assert [] == trace().for_component("unknown")


def test_successes_have_an_output() -> None:
    """A span that failed keeps its inputs and its raw reply and is no success (E69, E71)."""
    assert [0, 1] == [s.id for s in trace().successes()]
    failed = trace().for_component("refiner")[0]
    assert ("?", {"draft": "b"}, None) == (failed.raw_output, failed.inputs, failed.output)
    assert failed.error is not None
    assert "parse" == failed.error.kind


def test_a_prompt_is_its_beginning_and_its_own_turns() -> None:
    """Two drafts share one interned beginning of 3 turns and have prompts of 4 (E69, E75, scenario 52)."""
    first, second, refiner = trace().spans
    assert first.prefix == second.prefix == 0
    assert (*SYSTEM, Message("user", "q: 1")) == trace().prompt(first)
    assert 4 == len(trace().prompt(second))
    assert (Message("user", "draft: b"),) == trace().prompt(refiner)


def test_the_model_of_a_span() -> None:
    """Its identity as interned, None where the span called none (E69)."""
    assert MODEL == trace().model_of(trace().spans[2])
    assert trace().model_of(trace().spans[0]) is None


def test_span_evals_are_stamped_and_strangers_passed_over() -> None:
    """Unlisted spans keep None, unknown ids change nothing, the trace itself is not written (E56)."""
    before = trace()
    after = before.with_span_evals({1: Eval(0.5, "so so"), 77: Eval(1.0)})
    assert [None, Eval(0.5, "so so"), None] == [s.eval for s in after.spans]
    assert [None, None, None] == [s.eval for s in before.spans]
    assert before.with_span_evals({}) is before


def test_a_tool_loop_is_one_span() -> None:
    """Exchanges and tool runs stand in it in order (E70, scenario 56)."""
    (span,) = trace().for_component("refiner")
    assert [Exchange, ToolRun, Exchange] == [type(event) for event in span.events]
    assert Usage(input_tokens=6, output_tokens=2) == span.usage


def test_a_request_hash_is_of_model_and_turns() -> None:
    """The order of the model's settings is nothing; a change of model, role, text or turn is another hash (E76)."""
    prompt = (*SYSTEM, Message("user", "q"))
    base = request_hash(MODEL, prompt)
    assert base == request_hash(dict(reversed(MODEL.items())), prompt)
    others = [
        request_hash({**MODEL, "temperature": 0.5}, prompt),
        request_hash(MODEL, (*SYSTEM, Message("user", "q "))),
        request_hash(MODEL, (*SYSTEM, Message("assistant", "q"))),
        request_hash(MODEL, SYSTEM),
        request_hash(MODEL, (*SYSTEM[:2], Message("assistant", "draft: zeroq"))),
    ]
    assert 6 == len({base, *others})


def test_a_request_hash_is_the_same_wherever_the_turns_are_cut() -> None:
    """What prompts share is read once by `Turns`; the hash is that of all turns, however they are given (E76)."""
    prompt, turns = (*SYSTEM, Message("user", "q")), Turns(SYSTEM)
    cut = {request_hash(MODEL, turns, prompt[len(SYSTEM) :]), request_hash(MODEL, prompt[:1], prompt[1:])}
    assert {request_hash(MODEL, prompt)} == cut
    assert request_hash(MODEL, Turns(prompt)) == request_hash(canonical_bytes(MODEL), turns, prompt[len(SYSTEM) :])
    assert (turns, hash(turns)) == (SYSTEM, hash(SYSTEM))


def test_a_program_names_the_parameters_of_each_component() -> None:
    """Scenario 60: the column is there once a program was attached; an unknown component has None; `v` stays."""

    class Program:
        param_ids: ClassVar[dict[str, tuple[str, ...]]] = {"drafter": ("drafter.instruction", "drafter.demos")}

    spans = tuple(Span(id=i, component=name, seq=0) for i, name in enumerate(["drafter", "stranger"]))
    trace = Trace(spans=spans)
    assert trace.param_ids is None
    assert "param_ids" not in json.loads(dumps(trace))
    attached = trace.attach_program(Program())
    assert {"drafter": ("drafter.instruction", "drafter.demos"), "stranger": None} == attached.param_ids
    assert attached == loads(dumps(attached), Trace)
    assert (trace.meta, trace.spans) == (attached.meta, attached.spans)


def test_a_newer_trace_is_refused() -> None:
    """A version that this burnish does not know is not guessed at (E77)."""
    assert TRACE_VERSION == TraceMeta().version == 1
    with pytest.raises(UsageError, match="version 2 cannot be read"):
        TraceMeta(version=2)


def test_a_requests_fingerprint_is_what_decides_the_answer() -> None:
    """Every field of a request counts; a sample index makes equal prompts several answers (R8)."""
    turns = (Message("user", "hi"),)
    base = LMRequest(messages=turns)
    others = [
        LMRequest(messages=(Message("system", "hi"),)),
        LMRequest(messages=turns, temperature=0.0),
        LMRequest(messages=turns, max_tokens=5),
        LMRequest(messages=turns, stop=("\n",)),
        LMRequest(messages=turns, sample=1),
        LMRequest(messages=turns, seed=0),
        LMRequest(messages=turns, layout=Layout(outputs=("answer",))),
        LMRequest(messages=turns, layout=Layout(outputs=("reply",))),
    ]
    assert 9 == len({base.fingerprint, *(r.fingerprint for r in others)})
    assert base.fingerprint == LMRequest(messages=turns, sample=0, stop=()).fingerprint
