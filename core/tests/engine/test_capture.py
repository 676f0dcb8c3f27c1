"""What is recorded: spans, their parents, their ends; scopes that nest; nothing outside one."""

from __future__ import annotations

import contextvars
import threading
from typing import Any

import pytest
import trio

import burnish as b
from burnish import Span
from burnish._model.trace import Exchange, ToolRun
from burnish._runtime.capture import Recorder
from burnish.abc import LMResponse, Message, Usage
from burnish.errors import ModelServerError, ParseError

TASK = {"provider": "test", "model": "m"}


def kinds(trace: b.Trace) -> list[tuple[str, str | None]]:
    return [(s.component, None if s.error is None else s.error.kind) for s in trace.spans]


async def test_spans_are_dense_and_counted_by_component() -> None:
    """E68, E69: ids in order of start, `seq` per component; lookup by name, unknown names give nothing."""
    with b.capture() as captured:
        for name in ("draft", "answer", "draft"):
            with b.span(name, {"q": name}) as span:
                assert span is not None
                if name == "answer":
                    span.output({"a": 1})
    trace = captured.trace
    assert [(0, "draft", 0), (1, "answer", 0), (2, "draft", 1)] == [(s.id, s.component, s.seq) for s in trace.spans]
    assert (("draft", "answer"), [0, 2], []) == (
        trace.components,
        [s.id for s in trace.for_component("draft")],
        trace.for_component("nobody"),
    )
    assert [1] == [s.id for s in trace.successes()]
    assert {"q": "draft"} == trace.spans[0].inputs


def open_requests(trace_of: Any) -> b.Trace:
    """Record two calls that share a prefix and a model."""
    prefix = (Message("system", "be brief"), Message("user", "1"), Message("assistant", "one"))
    with b.capture() as captured:
        for question in trace_of:
            with b.span("answer", {"q": question}) as span:
                assert span is not None
                span.request(prefix, (Message("user", question),), TASK)
                span.exchange(LMResponse(text="ok", usage=Usage(input_tokens=3, output_tokens=1), model="m-1"))
                span.tool_run(ToolRun(id="t1", name="search", arguments={"q": 1}, result="found"))
                span.exchange(LMResponse(text="done", usage=Usage(input_tokens=5, output_tokens=2)))
    return captured.trace


def test_prefixes_and_models_are_stored_once() -> None:
    """E69, E75: a prompt is its prefix plus the call's own turns; equal prefixes and models are one."""
    trace = open_requests(["2", "3"])
    first, second = trace.spans
    assert ((0, 0), (1, 1)) == ((first.prefix, second.prefix), (len(trace.prefixes), len(trace.models)))
    assert ["be brief", "1", "one", "3"] == [m.content for m in trace.prompt(second)]
    assert TASK == trace.model_of(second)


def test_a_tool_loop_is_one_span() -> None:
    """E70: each round trip and each tool run is an event; usage is their sum, the last text the raw output."""
    (span,) = open_requests(["2"]).spans
    assert [Exchange, ToolRun, Exchange] == [type(event) for event in span.events]
    assert (Usage(input_tokens=8, output_tokens=3), "done") == (span.usage, span.raw_output)


def test_request_hashes_tell_inputs_and_models_apart() -> None:
    """E76: the hash covers model and all turns, and is the same for the same request."""
    first, second = open_requests(["2", "3"]).spans
    (again,) = open_requests(["2"]).spans
    assert first.request_hash == again.request_hash
    assert first.request_hash != second.request_hash
    assert first.request_hash is not None


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ParseError("no field", raw="gibberish"), "parse"),
        (ModelServerError("502"), "lm"),
        (ValueError("other"), "program"),
        (KeyboardInterrupt(), "cancelled"),
    ],
)
def test_a_span_says_why_it_has_no_output(error: BaseException, kind: str) -> None:
    """E71, E73: the trace is there although the block failed; a parse failure keeps raw text and input."""

    def call() -> None:
        with b.span("answer", {"q": 1}) as span:
            assert span is not None
            span.exchange(LMResponse(text="gibberish"))
            raise error

    with b.capture() as captured, pytest.raises(type(error)):
        call()
    (failed,) = captured.trace.spans
    assert (None, kind, "gibberish", {"q": 1}) == (
        failed.output,
        failed.error and failed.error.kind,
        failed.raw_output,
        failed.inputs,
    )


async def test_scenario_58_cancellation_ends_a_span() -> None:
    """Scenario 58 (E73): a span that is cancelled, or still open when the scope ends, is `cancelled`."""
    with b.capture() as captured:
        with trio.CancelScope() as scope, b.span("cut", {}):
            scope.cancel()
            await trio.lowlevel.checkpoint()
        dropped = b.span("dropped", {})
        dropped.__enter__()
    assert [("cut", "cancelled"), ("dropped", "cancelled")] == kinds(captured.trace)
    dropped.__exit__(None, None, None)


def test_looking_does_not_end_a_span() -> None:
    """A trace may be read at any time: what is open reads as cancelled there, and ends as it ends."""
    with b.capture() as captured:
        with b.span("answer", {}) as span:
            assert span is not None
            assert [("answer", "cancelled")] == kinds(captured.trace)
            span.output({"a": 1})
        (done,) = captured.trace.spans
    assert (None, {"a": 1}) == (done.error, done.output)


def test_scenario_54_scopes_nest() -> None:
    """Scenario 54 (E73): the innermost scope gets the span, the outer one sees nothing of it."""
    with b.capture() as outer, b.span("parent", {}), b.capture({"which": "inner"}) as inner, b.span("child", {}):
        pass
    assert [("parent", None)] == kinds(outer.trace)
    (child,) = inner.trace.spans
    assert ("child", None, 0) == (child.component, child.parent, child.id)
    assert ({"which": "inner"}, True) == (inner.trace.meta.tags, inner.trace.meta.trace_id != outer.trace.meta.trace_id)


def test_without_a_scope_nothing_is_recorded() -> None:
    """E73: no recorder, no span, no cost."""
    with b.span("answer", {"q": object()}) as span:
        assert span is None


def test_meta_is_minted() -> None:
    """Scenario 59, E72: candidate hash 99, inputs and tags are kept; id, start and version 1 are made."""
    with b.capture({"kind": "test"}, inputs={"q": "?", "at": object()}, candidate_hash=99) as captured:
        pass
    meta = captured.trace.meta
    assert (99, {"q": "?", "at": "<object>"}, {"kind": "test"}) == (meta.candidate_hash, meta.inputs, meta.tags)
    assert (32, True, 1) == (len(meta.trace_id), meta.started_at_us > 1_700_000_000_000_000, meta.version)
    with b.capture() as other:
        pass
    assert meta.trace_id != other.trace.meta.trace_id


async def test_children_know_their_true_parent() -> None:
    """E74, WE: spans of child tasks and threads belong to the scope, and the parent is right under a join."""
    with b.capture() as captured:
        gate = trio.Event()

        async def branch(name: str) -> None:
            with b.span(name, {}):
                await gate.wait()
                await trio.to_thread.run_sync(leaf, name)

        def leaf(name: str) -> None:
            with b.span(f"{name}/leaf", {}):
                pass

        with b.span("root", {}):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(branch, "left")
                nursery.start_soon(branch, "right")
                await trio.lowlevel.checkpoint()
                gate.set()
    spans = captured.trace.spans
    by_id: dict[int, Span] = {s.id: s for s in spans}
    parents = {s.component: None if s.parent is None else by_id[s.parent].component for s in spans}
    assert {"root": None, "left": "root", "right": "root", "left/leaf": "left", "right/leaf": "right"} == parents


def test_spans_of_many_threads_stay_whole() -> None:
    """Threads with the context record into one scope: dense ids, each with its own parent and seq."""
    with b.capture() as captured, b.span("root", {}):

        def work() -> None:
            for _ in range(50):
                with b.span("part", {}) as span:
                    assert span is not None
                    span.output({"a": 1})

        threads = [threading.Thread(target=contextvars.copy_context().run, args=[work]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    parts = captured.trace.for_component("part")
    assert (list(range(200)), {0}) == (sorted(s.seq for s in parts), {s.parent for s in parts})
    assert list(range(201)) == [s.id for s in captured.trace.spans]


def test_objects_without_a_form_are_named() -> None:
    """Inputs and outputs are data: what has no JSON form is its type's name, never the object, never an error."""
    loop: list[Any] = []
    loop.append(loop)
    recorder = Recorder(b.Trace().meta)
    opened = recorder.open("answer", {"fine": [1, "a"], "object": object(), "loop": loop, "nan": float("nan")})
    opened.close()
    (span,) = recorder.trace().spans
    assert ([1, "a"], "<object>", "<float>") == (span.inputs["fine"], span.inputs["object"], span.inputs["nan"])
