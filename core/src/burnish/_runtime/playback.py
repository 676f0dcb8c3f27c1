"""Replay: model calls answered from recorded traces, at no cost (seed 002; scenarios 61 and 62).

A call is found by the component and number of its span, and answered where its request is the recorded one. So a test
of a program needs no model, and of a changed program only what comes after the change is paid for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Literal
from weakref import WeakKeyDictionary

import attrs

from burnish import abc
from burnish._model.lm import LMRequest, LMResponse
from burnish._model.trace import Trace, TraceMeta
from burnish._runtime.capture import OpenSpan, Recorder, current_span, recording
from burnish._runtime.scope import current_account, current_models, models
from burnish._runtime.tapes import STAND_IN, Divergence, Shelf, Tape
from burnish._runtime.within import Within
from burnish.errors import ModelError, PlaybackError, PlaybackExhaustedError

Mode = Literal["strict", "until_divergence"]
Unrecorded = Literal["refuse", "live"]

_playing: ContextVar[Replay | None] = ContextVar("burnish_playing", default=None)


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

    identity = STAND_IN
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
        self._shelf = Shelf(traces)
        self._mode, self._live_outside = mode, unrecorded == "live" or mode != "strict"
        self._tapes: WeakKeyDictionary[Recorder, Tape] = WeakKeyDictionary()
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

    def leave(self, raised: Exception | None = None) -> None:
        """Raise what a program was told, also where it swallowed it or made another error of it."""
        if self._failed is not None and self._failed is not raised:
            raise self._failed from raised

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
            tape = self._tapes[recorder] = Tape(self._shelf.take(recorder.meta))
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

    def _note(self, error: PlaybackError, tape: Tape, span: OpenSpan) -> None:
        self._failed = self._failed or (error if self._mode == "strict" else None)
        if tape.divergence is not None and tape.divergence not in self._report.divergences:
            self._report = attrs.evolve(self._report, divergences=(*self._report.divergences, tape.divergence))


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
    call raises a `PlaybackError`, and so does the block, whatever the program made of it. `until_divergence`: a scope
    is served up to its first other call and asks its models from there on.

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
        try:
            yield playing
        except Exception as error:
            playing.leave(error)
            raise
        playing.leave()
