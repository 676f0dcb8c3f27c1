"""Replay: model calls answered from recorded traces, at no cost (seed 002; scenarios 61 and 62).

A call is found by the component and number of its span, and answered where its request is the recorded one. So a test
of a program needs no model, and of a changed program only what comes after the change is paid for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Literal
from weakref import WeakKeyDictionary

import attrs

from burnish import abc, errors
from burnish._model.canonical import Json, fingerprint
from burnish._model.lm import LMRequest, LMResponse
from burnish._model.trace import Exchange, Span, Trace, TraceMeta, request_hash
from burnish._model.trace_text import Shears
from burnish._runtime.capture import OpenSpan, Recorder, current_span, recording
from burnish._runtime.scope import current_account, current_models, models
from burnish._runtime.within import Within
from burnish.errors import (
    ModelError,
    ModelFailedError,
    PlaybackDivergedError,
    PlaybackError,
    PlaybackExhaustedError,
    PlaybackIncompleteError,
    UsageError,
)

Mode = Literal["strict", "until_divergence"]
Unrecorded = Literal["refuse", "live"]

_playing: ContextVar[Replay | None] = ContextVar("burnish_playing", default=None)


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


@attrs.frozen(kw_only=True)
class ReplayReport:
    """What a replay came to."""

    served: int = 0
    """Calls that were answered from traces."""
    live: int = 0
    """Calls that went to a model."""
    divergences: tuple[Divergence, ...] = ()
    """One a trace at most, in the order that they were met."""

    @property
    def divergence(self) -> Divergence | None:
        """The first one."""
        return self.divergences[0] if self.divergences else None

    @property
    def diverged_at(self) -> int | None:
        """The recorded span of the first divergence."""
        return self.divergences[0].span if self.divergences else None


class RecordedModel:
    """Stands where a program needs a model: its calls are those of whatever model was recorded.

    It answers nothing itself. Give it to a program that has its models bound (`optimize(models=...)`, a pinned
    predictor); where no model is in force, `replay` puts it there.
    """

    identity: Mapping[str, Json] = {"provider": "burnish.testing", "model": "recorded"}
    limits = abc.ModelLimits(key="burnish.testing:recorded", timeout=None, retries=0)

    async def complete(self, request: LMRequest) -> LMResponse:
        """Refuse: what comes here was not recorded."""
        raise PlaybackExhaustedError(
            "a call that no trace answers needs a live model, and none is in force: enter the replay inside "
            "`with burnish.models(task=model):`"
        )


class Replay:
    """A replay under way: `report` says what it came to so far, `model` stands in for the recorded one."""

    def __init__(self, traces: Iterable[Trace], mode: Mode, unrecorded: Unrecorded) -> None:
        self.model = RecordedModel()
        self._shelf = _Shelf(traces)
        self._mode, self._live_outside = mode, unrecorded == "live" or mode != "strict"
        self._tapes: WeakKeyDictionary[Recorder, _Tape] = WeakKeyDictionary()
        self._around: Recorder | None = None
        self._report = ReplayReport()
        self._failed: PlaybackError | None = None

    @property
    def report(self) -> ReplayReport:
        """Calls so far."""
        return self._report

    def enter(self, around: Recorder | None) -> None:
        """Note the scope outside of all others, which plain calls of a program belong to."""
        self._around = around

    def leave(self) -> None:
        """Raise what a program was told and swallowed."""
        if self._failed is not None:
            raise self._failed

    def answer(self, model: object) -> LMResponse | ModelError | None:
        """Give the recorded answer, or failure, of the call in the span at hand; None where it is to go live.

        Raises a `PlaybackError` where it is strict and there is none.
        """
        at = current_span()
        if at is None or at[1] is None or (at[0] is self._around and current_account() is not None):
            self._outside()
            return None
        recorder, span = at[0], at[1]
        tape = self._tapes.get(recorder)
        if tape is None:
            tape = self._tapes[recorder] = _Tape(self._shelf.take(recorder.meta))
        if not tape.live:
            try:
                found = tape.play(span, isinstance(model, RecordedModel))
            except PlaybackError as error:
                self._note(error, tape, span)
                if self._mode == "strict":
                    raise
                tape.live = True
            else:
                self._report = attrs.evolve(self._report, served=self._report.served + 1)
                return found
        self._count_live()
        return None

    def _outside(self) -> None:
        if not self._live_outside:
            self._failed = self._failed or PlaybackExhaustedError(
                "a model call that no trace records (a metric's judge, a proposer, a call outside `burnish.span`) has "
                'no answer: pass `unrecorded="live"` to have such calls ask their model'
            )
            raise self._failed
        self._count_live()

    def _count_live(self) -> None:
        self._report = attrs.evolve(self._report, live=self._report.live + 1)

    def _note(self, error: PlaybackError, tape: _Tape, span: OpenSpan) -> None:
        self._failed = self._failed or (error if self._mode == "strict" else None)
        if tape.divergence is not None and tape.divergence not in self._report.divergences:
            self._report = attrs.evolve(self._report, divergences=(*self._report.divergences, tape.divergence))


class _Shelf:
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


class _Tape:
    """One trace, while a scope plays it."""

    def __init__(self, trace: Trace | None) -> None:
        self.live = False
        self.divergence: Divergence | None = None
        self._trace = trace or Trace()
        self._missing = trace is None
        self._spans = {(span.component, span.seq): span for span in self._trace.spans}
        self._played: Counter[int] = Counter()

    def play(self, span: OpenSpan, standing_in: bool) -> LMResponse | ModelError:
        """Give the recorded answer to the next call of a span. Raises a `PlaybackError` where there is none."""
        begun = span.begun
        where = f"call {begun.seq} of `{begun.component}`"
        recorded = self._spans.get((begun.component, begun.seq))
        if recorded is None:
            what = "no trace is left, or has these inputs" if self._missing else self._told()
            raise PlaybackExhaustedError(
                f"{where} was not recorded: {what}", component=begun.component, seq=begun.seq
            )
        if not recorded.complete:
            raise PlaybackIncompleteError(
                f"{where} was recorded without some of its texts (they were cut, or hidden): record it again, and hand "
                "the trace itself to the replay or keep its texts shorter",
                component=begun.component,
                seq=begun.seq,
            )
        differs = self._differs(span, recorded, standing_in)
        if differs is not None:
            self.divergence = self.divergence or Divergence(
                component=begun.component,
                seq=begun.seq,
                span=recorded.id,
                differs=differs,
                trace_id=self._trace.meta.trace_id,
            )
            raise PlaybackDivergedError(
                f"{where} is not the recorded one: {differs} changed; record the trace again where that is meant, or "
                'replay with mode="until_divergence"',
                component=begun.component,
                seq=begun.seq,
            )
        return self._answer(span.id, recorded, where)

    def _told(self) -> str:
        spans = Counter(span.component for span in self._trace.spans)
        return "the trace has " + (", ".join(f"{n} of `{name}`" for name, n in spans.items()) or "no calls")

    def _differs(self, span: OpenSpan, recorded: Span, standing_in: bool) -> str | None:
        """Say what of a request is not as recorded; None where it is the same."""
        if span.prompt is None or recorded.request_hash is None:
            same = span.prompt is None and recorded.request_hash is None and span.begun.inputs == recorded.inputs
            return None if same else "the inputs"
        prefix, suffix, identity = span.prompt
        if standing_in:  # what was set on top of the model's own settings counts, the model is the recorded one
            own = {name: value for name, value in identity.items() if name not in RecordedModel.identity}
            identity = {**(self._trace.model_of(recorded) or {}), **own}
        if request_hash(identity, prefix + suffix) == recorded.request_hash:
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


def _failure(message: str) -> ModelError:
    """Make the error of a recorded call once more, of its own class where that is one of ours."""
    name, _, text = message.partition(": ")
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, ModelError):
        return kind(text)
    return ModelFailedError(message)


def played(model: object) -> LMResponse | ModelError | None:
    """Give what a replay in force answers to the call at hand; None where there is none, or the call goes live."""
    playing = _playing.get()
    return None if playing is None else playing.answer(model)


@contextmanager
def replay(
    traces: Trace | Iterable[Trace], mode: Mode = "strict", *, unrecorded: Unrecorded = "refuse"
) -> Iterator[Replay]:
    """Answer the model calls inside the block from recorded traces; gives the `Replay`, whose `report` counts them.

        trace = burnish.traces.loads(Path("answer.jsonl").read_text())
        with burnish.testing.replay(trace) as replaying:
            prediction = await program(question="...")
        assert replaying.report.live == 0

    A call is the recorded one where component, number and request (prompt and model) are the same. `strict`: any other
    call raises a `PlaybackError`, here at the latest if the program swallowed it. `until_divergence`: a scope is served
    up to its first other call and asks its models from there on.

    Each `burnish.capture()` block takes the next trace, and so do plain calls; a rollout of an engine, or a capture
    with inputs, takes that of its candidate and inputs, or of its inputs under another candidate. Where no model is in
    force, a `RecordedModel` is.
    `unrecorded` says what becomes of calls that traces never hold: of a metric's judge, of proposers.
    """
    playing = Replay((traces,) if isinstance(traces, Trace) else traces, mode, unrecorded)
    outer = current_span()
    by_role = {} if "task" in current_models() else {"task": playing.model}
    scope = recording(TraceMeta()) if outer is None else nullcontext(outer[0])
    with scope as around, models(**by_role), Within(playing, (_playing, playing)):
        playing.enter(around)
        yield playing
    playing.leave()
