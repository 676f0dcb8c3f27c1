"""Recording what happens inside a rollout: spans through context variables (seed 002; E68-E74).

Context variables reach child tasks, `trio.to_thread` and everything started with `contextvars.copy_context().run`, so a
span opened there belongs to the rollout and knows its true parent. Without a scope nothing is recorded.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, NamedTuple

import trio

from burnish._model.canonical import Json, NotCanonicalError, canonical_bytes, to_json
from burnish._model.lm import LMResponse, Message, Usage
from burnish._model.trace import (
    Exchange,
    Span,
    SpanError,
    SpanErrorKind,
    SpanEvent,
    ToolRun,
    Trace,
    TraceMeta,
    TraceOutcome,
    public_identity,
    request_hash,
)
from burnish._runtime.within import Within
from burnish.errors import ModelError, ParseError, first_line

_recorder: ContextVar[Recorder | None] = ContextVar("burnish_recorder", default=None)
_parent: ContextVar[int | None] = ContextVar("burnish_parent_span", default=None)


_NO_USAGE = Usage()


def as_data(value: Any, depth: int = 0) -> Json:
    """Give a value's JSON form, with the type's name for what has none: traces hold data, never live objects."""
    try:
        return to_json(value)
    except NotCanonicalError:
        if depth < 8 and isinstance(value, Mapping):
            return {str(k): as_data(v, depth + 1) for k, v in value.items()}
        if depth < 8 and isinstance(value, (list, tuple)):
            return [as_data(v, depth + 1) for v in value]
        return f"<{type(value).__name__}>"


def data_map(values: Mapping[str, Any]) -> dict[str, Json]:
    """Give the JSON form of named values."""
    return {k: as_data(v) for k, v in values.items()}


class ModelSeen(NamedTuple):
    """A model of a scope: its place, its identity as traces show it, and the canonical bytes of that."""

    place: int
    shown: Mapping[str, Json]
    encoded: bytes


class _Keyed(str):
    """The text of an identity, which it is told apart by since mappings have no hash, and the identity itself."""

    identity: Mapping[str, Json]


@lru_cache(maxsize=256)
def _shown(model: _Keyed) -> tuple[Mapping[str, Json], bytes]:
    """Make of an identity what traces need of it: once, not in every rollout."""
    shown = public_identity(model.identity)
    return shown, canonical_bytes(shown)


class Recorder:
    """Collects the spans of one scope; safe to use from several threads."""

    def __init__(self, meta: TraceMeta) -> None:
        self.meta = meta
        self._lock = threading.Lock()
        self._began = time.perf_counter_ns()
        self._spans: list[OpenSpan] = []
        self._seq: dict[str, int] = {}
        self._prefixes: dict[tuple[Message, ...], int] = {}
        self._models: dict[str, ModelSeen] = {}

    def now_us(self) -> int:
        """Microseconds since the scope began."""
        return (time.perf_counter_ns() - self._began) // 1000

    def open(self, component: str, inputs: Mapping[str, Any]) -> OpenSpan:
        """Begin a span."""
        with self._lock:
            seq = self._seq.get(component, 0)
            self._seq[component] = seq + 1
            span = OpenSpan(self, len(self._spans), component, seq, _parent.get(), data_map(inputs))
            self._spans.append(span)
        return span

    def prefix(self, messages: tuple[Message, ...]) -> int:
        """Intern the common beginning of prompts."""
        with self._lock:
            return self._prefixes.setdefault(messages, len(self._prefixes))

    def model(self, identity: Mapping[str, Json]) -> ModelSeen:
        """Intern a model's identity as traces show it."""
        key = repr(sorted(identity.items()))
        with self._lock:
            known = self._models.get(key)
            if known is None:
                keyed = _Keyed(key)
                keyed.identity = identity
                shown, encoded = _shown(keyed)
                known = self._models[key] = ModelSeen(len(self._models), dict(shown), encoded)
            return known

    def opened(self, id: int) -> OpenSpan:
        """Give a span by its id."""
        return self._spans[id]

    @property
    def count(self) -> int:
        """Number of spans so far."""
        return len(self._spans)

    def trace(self, outcome: TraceOutcome | None = None) -> Trace:
        """Take what was recorded; spans still open become `cancelled` (E73)."""
        with self._lock:
            spans = tuple([span.freeze() for span in self._spans])
            models = tuple([model.shown for model in self._models.values()])
            return Trace(meta=self.meta, spans=spans, prefixes=tuple(self._prefixes), models=models, outcome=outcome)


class OpenSpan:
    """A span while it runs. Every method may be called from the task or thread that opened it.

    What is noted stands in plain attributes: the frozen `Span` is made once, at the end.
    """

    def __init__(
        self, recorder: Recorder, id: int, component: str, seq: int, parent: int | None, inputs: Mapping[str, Json]
    ) -> None:
        self.id, self.component, self.seq, self.inputs = id, component, seq, inputs
        self.prompt: tuple[tuple[Message, ...], tuple[Message, ...], ModelSeen] | None = None
        """What `request` noted; None before it."""
        self._recorder, self._parent = recorder, parent
        self._prefix: int | None = None
        self._began = recorder.now_us()
        self._events: list[SpanEvent] = []
        self._usage: Usage | None = None
        self._reply: str | None = None
        self._output: dict[str, Json] | None = None
        self._error: SpanError | None = None
        self._ended: Span | None = None

    def request(
        self, prefix: tuple[Message, ...], suffix: tuple[Message, ...], identity: Mapping[str, Json]
    ) -> None:
        """Note the prompt (its common beginning, and the turns of this call) and the model that gets it."""
        self.prompt = (prefix, suffix, self._recorder.model(identity))
        self._prefix = self._recorder.prefix(prefix) if prefix else None

    def exchange(self, response: LMResponse) -> None:
        """Note one answer of the provider."""
        self._events.append(
            Exchange(
                text=response.text,
                usage=response.usage,
                finish_reason=response.finish_reason,
                model=response.model,
            )
        )
        self._usage = response.usage if self._usage is None else self._usage + response.usage
        self._reply = response.text

    def tool_run(self, run: ToolRun) -> None:
        """Note one tool call."""
        self._events.append(run)

    def output(self, values: Mapping[str, Any]) -> None:
        """Note the parsed outputs."""
        self._output = data_map(values)

    def fail(self, error: BaseException) -> None:
        """Note why there is no output."""
        self._error = SpanError(kind=_kind(error), message=first_line(error, 2000))

    def close(self) -> None:
        """End the span."""
        self._ended = self._frozen(self._error)

    def freeze(self) -> Span:
        """Give the span as it stands; one that is still open reads as cancelled, and goes on."""
        if self._ended is not None:
            return self._ended
        return self._frozen(SpanError(kind="cancelled", message="still open when it was read"))

    def _frozen(self, error: SpanError | None) -> Span:
        prefix, suffix, model = ((), (), None) if self.prompt is None else self.prompt
        return Span(
            id=self.id,
            component=self.component,
            seq=self.seq,
            parent=self._parent,
            inputs=self.inputs,
            output=self._output,
            prefix=self._prefix,
            suffix=suffix,
            model=None if model is None else model.place,
            request_hash=None if model is None else request_hash(model.encoded, prefix, suffix),
            events=tuple(self._events),
            raw_output=self._reply,
            usage=_NO_USAGE if self._usage is None else self._usage,
            error=error,
            started_us=self._began,
            duration_us=self._recorder.now_us() - self._began,
        )


def _kind(error: BaseException) -> SpanErrorKind:
    if isinstance(error, ParseError):
        return "parse"
    if isinstance(error, ModelError):
        return "lm"
    if isinstance(error, trio.Cancelled) or not isinstance(error, Exception):
        return "cancelled"
    return "program"


class _Opened:
    """A span for the length of a block: by hand, since a generator would take a third of the time of a call's own."""

    __slots__ = ("_span", "_token")

    def __init__(self, span: OpenSpan) -> None:
        self._span = span

    def __enter__(self) -> OpenSpan:
        self._token = _parent.set(self._span.id)
        return self._span

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None:
            self._span.fail(error)
        _parent.reset(self._token)
        self._span.close()


_UNRECORDED = nullcontext()


def span(component: str, inputs: Mapping[str, Any]) -> AbstractContextManager[OpenSpan | None]:
    """Record a predictor call in a block; gives None where nothing records, at no cost.

    An exception ends the span with its error and goes on; cancellation ends it as `cancelled`.
    """
    recorder = _recorder.get()
    return _UNRECORDED if recorder is None else _Opened(recorder.open(component, inputs))


def current_span() -> tuple[Recorder, OpenSpan | None] | None:
    """Give the scope in force and the innermost open span of it; None where nothing records."""
    recorder, parent = _recorder.get(), _parent.get()
    return None if recorder is None else (recorder, None if parent is None else recorder.opened(parent))


class Captured:
    """What `capture()` gives: `trace` is there at any time, complete after the block."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    @property
    def trace(self) -> Trace:
        return self._recorder.trace()


def recording(meta: TraceMeta) -> Within[Recorder]:
    """Open a scope of its own."""
    recorder = Recorder(meta)
    return Within(recorder, (_recorder, recorder), (_parent, None))


def unrecorded() -> Within[None]:
    """Close recording inside the block, so that a metric's judge leaves no span."""
    return Within(None, (_recorder, None), (_parent, None))


@contextmanager
def capture(
    tags: Mapping[str, str] | None = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    candidate_hash: int | None = None,
) -> Iterator[Captured]:
    """Record the predictor calls inside the block; what is given stands in the trace's `meta`, its id is made here.

    Scopes nest: the innermost one gets the span, outer ones see nothing of it. The trace is there also when the block
    raises.

        with burnish.capture() as captured:
            await program(question="...")
        captured.trace.for_component("answer")
    """
    meta = TraceMeta(
        trace_id=os.urandom(16).hex(),
        started_at_us=time.time_ns() // 1000,
        candidate_hash=candidate_hash,
        inputs=data_map(inputs or {}),
        tags=dict(tags or {}),
    )
    with recording(meta) as recorder:
        yield Captured(recorder)
