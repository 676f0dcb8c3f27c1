"""Which recorded trace answers which scope of a replay, and which of its spans which call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import attrs

from burnish import errors
from burnish._model.canonical import Json, fingerprint
from burnish._model.lm import LMResponse
from burnish._model.trace import Exchange, Span, Trace, TraceMeta, request_hash
from burnish._model.trace_text import Shears
from burnish._runtime.capture import OpenSpan
from burnish.errors import (
    ModelError,
    ModelFailedError,
    PlaybackDivergedError,
    PlaybackExhaustedError,
    PlaybackIncompleteError,
    UsageError,
)

STAND_IN: Mapping[str, Json] = {"provider": "burnish.testing", "model": "recorded"}
"""The identity of what stands for whatever model was recorded."""


@attrs.frozen(kw_only=True)
class Divergence:
    """The first call of a trace that asked for something else than was recorded."""

    component: str
    seq: int
    span: int
    """The recorded span."""
    differs: str
    """What is another one: `the instruction or demos`, `the inputs`, or `the model or its settings`."""
    trace_id: str = ""


class Shelf:
    """Finds the trace of a scope: a rollout's by its content, else the next in order."""

    def __init__(self, traces: Iterable[Trace]) -> None:
        self._traces = list(traces)
        if not self._traces:
            raise UsageError("no trace to replay was given: record one with `burnish.capture()`, or take a run's")
        self._by_id = {t.meta.trace_id: t for t in self._traces if t.meta.trace_id}
        self._rollouts: dict[tuple[int | None, str], list[Trace]] = {}
        for trace in self._traces:
            inputs = _digest(trace.meta)
            for key in ((trace.meta.candidate_hash, inputs), (None, inputs)) if trace.meta.inputs else ():
                self._rollouts.setdefault(key, []).append(trace)
        self._taken: Counter[tuple[int | None, str]] = Counter()

    def take(self, meta: TraceMeta) -> Trace | None:
        """Give the trace for a scope. A rollout of a new candidate gets that of another one on the same inputs."""
        if meta.trace_id in self._by_id:
            return self._by_id[meta.trace_id]
        if meta.inputs:
            for key in ((meta.candidate_hash, _digest(meta)), (None, _digest(meta))):
                if key in self._rollouts:
                    return self._next(key, self._rollouts[key], again=True)
        plain = [t for t in self._traces if not t.meta.inputs] if meta.inputs else self._traces
        return self._next((None, ""), plain, again=False)

    def _next(self, key: tuple[int | None, str], among: list[Trace], *, again: bool) -> Trace | None:
        number = self._taken[key]
        self._taken[key] += 1
        if again:
            number %= len(among)
        return among[number] if number < len(among) else None


def _digest(meta: TraceMeta) -> str:
    return fingerprint(Shears().json(dict(meta.inputs)))  # cut as in a file, so that both forms are one


class Tape:
    """One trace, while a scope plays it."""

    def __init__(self, trace: Trace | None) -> None:
        self.live = False
        self.divergence: Divergence | None = None
        self._trace = trace or Trace()
        self._missing = trace is None
        self._spans = {(span.component, span.seq): span for span in self._trace.spans}
        self._playing: dict[int, Span] = {}
        """The recorded spans, by the ids of those that they answer."""
        self._taken: set[int] = set()
        self._played: Counter[int] = Counter()

    def play(self, span: OpenSpan, standing_in: bool) -> LMResponse | ModelError:
        """Give the recorded answer to the next call of a span. Raises a `PlaybackError` where there is none."""
        where = f"call {span.seq} of `{span.component}`"
        recorded = self._playing.get(span.id) or self._find(span, standing_in)
        if recorded is None:
            what = "no trace is left, or has these inputs" if self._missing else self._told()
            raise PlaybackExhaustedError(
                f"{where} was not recorded: {what}", component=span.component, seq=span.seq
            )
        if not recorded.complete:
            raise PlaybackIncompleteError(
                f"{where} was recorded without some of its texts (they were cut, or hidden): record it again, and hand "
                "the trace itself to the replay or keep its texts shorter",
                component=span.component,
                seq=span.seq,
            )
        differs = self._differs(span, recorded, standing_in)
        if differs is not None:
            self.divergence = self.divergence or Divergence(
                component=span.component,
                seq=span.seq,
                span=recorded.id,
                differs=differs,
                trace_id=self._trace.meta.trace_id,
            )
            raise PlaybackDivergedError(
                f"{where} is not the recorded one: {differs} changed; record the trace again where that is meant, or "
                'replay with mode="until_divergence"',
                component=span.component,
                seq=span.seq,
            )
        self._playing[span.id] = recorded
        self._taken.add(recorded.id)
        return self._answer(span.id, recorded, where)

    def _find(self, span: OpenSpan, standing_in: bool) -> Span | None:
        """Give the recorded span of a call: that of its number, or one that ran beside it and asked for the same.

        Which of two calls that run at once begins first is the scheduler's choice, not the program's.
        """
        own = self._spans.get((span.component, span.seq))
        if own is None:
            return None
        beside = [s for s in self._trace.for_component(span.component) if s is own or _overlap(s, own)]
        free = [s for s in beside if s.id not in self._taken]
        same = [s for s in free if self._differs(span, s, standing_in) is None]
        return own if own in same else next(iter(same or free), own)

    def _told(self) -> str:
        spans = Counter(span.component for span in self._trace.spans)
        return "the trace has " + (", ".join(f"{n} of `{name}`" for name, n in spans.items()) or "no calls")

    def _differs(self, span: OpenSpan, recorded: Span, standing_in: bool) -> str | None:
        """Say what of a request is not as recorded; None where it is the same."""
        if span.prompt is None or recorded.request_hash is None:
            same = span.prompt is None and recorded.request_hash is None and span.inputs == recorded.inputs
            return None if same else "the inputs"
        prefix, suffix, model = span.prompt
        identity: Mapping[str, Json] | bytes = model.encoded
        if standing_in:  # what was set on top of the model's own settings counts, the model is the recorded one
            own = {name: value for name, value in model.shown.items() if name not in STAND_IN}
            identity = {**(self._trace.model_of(recorded) or {}), **own}
        if request_hash(identity, prefix, suffix) == recorded.request_hash:
            return None
        before = () if recorded.prefix is None else self._trace.prefixes[recorded.prefix]
        if prefix != before:
            return "the instruction or demos"
        return "the inputs" if suffix != recorded.suffix else "the model or its settings"

    def _answer(self, id: int, recorded: Span, where: str) -> LMResponse | ModelError:
        answers = [event for event in recorded.events if isinstance(event, Exchange)]
        number = self._played[id]
        self._played[id] += 1
        if number < len(answers):
            told = answers[number]
            return LMResponse(
                text=told.text, usage=told.usage, finish_reason=told.finish_reason, model=told.model
            )
        if recorded.error is not None and recorded.error.kind == "lm":
            return _failure(recorded.error.message)
        if recorded.error is not None and recorded.error.kind == "cancelled":
            raise PlaybackIncompleteError(
                f"{where} was cancelled before it was answered", component=recorded.component, seq=recorded.seq
            )
        raise PlaybackExhaustedError(
            f"{where} asks its model {number + 1} times; recorded are {len(answers)} answers",
            component=recorded.component,
            seq=recorded.seq,
        )


def _overlap(one: Span, other: Span) -> bool:
    ends = one.started_us + one.duration_us, other.started_us + other.duration_us
    return one.started_us < ends[1] and other.started_us < ends[0]


def _failure(message: str) -> ModelError:
    """Make the error of a recorded call once more, of its own class where that is one of ours."""
    name, _, text = message.partition(": ")
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, ModelError):
        return kind(text)
    return ModelFailedError(message)
