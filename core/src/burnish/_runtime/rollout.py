"""One rollout: the program under capture and injection, then the metric outside both (E11, E13)."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from typing import Any

import attrs
import trio

from burnish import abc
from burnish._model.candidate import Candidate
from burnish._model.canonical import Json, NotCanonicalError, hex64, to_json
from burnish._model.evals import Eval
from burnish._model.example import Example, own
from burnish._model.outcome import Fault, RolloutRecord, RolloutStatus
from burnish._model.trace import Trace, TraceMeta, TraceOutcome
from burnish._runtime.blame import blame, stops
from burnish._runtime.capture import data_map, recording, unrecorded
from burnish._runtime.faults import counted, fault_of, refused, status_of
from burnish._runtime.ledger import Ledger
from burnish._runtime.limiter import Limits
from burnish._runtime.metric import MetricRunner
from burnish._runtime.scope import Account, Injection, accounted, injected
from burnish.errors import MetricError, first_line


@attrs.frozen(kw_only=True, eq=False)
class Kept:
    """An output whose score is owed: the metric failed on it before."""

    prediction: Any
    record: RolloutRecord


@attrs.frozen(kw_only=True, eq=False)
class Surroundings:
    """What all rollouts of an engine share."""

    target: abc.Target
    metric: MetricRunner
    models: Mapping[str, Any]
    ledger: Ledger
    limits: Limits
    failure_score: float = 0.0
    timeout: float | None = None


@attrs.define(kw_only=True, eq=False)
class _Draft:
    """A record while it is being made: frozen once, at the end."""

    status: RolloutStatus = RolloutStatus.SUCCEEDED
    eval: Eval | None = None
    fault: Fault | None = None
    output: Json = None
    trace: Trace | None = None
    spans: int = 0
    rendered: tuple[str, ...] = ()
    models: tuple[str, ...] = ()

    def record(self, account: Account, duration_us: int) -> RolloutRecord:
        """Freeze it, with the calls that were booked meanwhile."""
        trace = self.trace
        if trace is not None:
            outcome = TraceOutcome(
                output=self.output,
                error=None if self.fault is None else str(self.fault),
                eval=self.eval,
                duration_us=duration_us,
            )
            trace = trace.ended(outcome)
        return RolloutRecord(
            status=self.status,
            eval=self.eval,
            fault=self.fault,
            output=self.output,
            trace=trace,
            spans=self.spans,
            calls=dict(account.calls),
            models=tuple({**dict.fromkeys(self.models), **account.models}),
            rendered=self.rendered,
            duration_us=duration_us,
        )


@attrs.define(kw_only=True, eq=False)
class RolloutJob:
    """One rollout to run: an `abc.Rollout`."""

    key: str
    example: Example
    column: int
    candidate: Candidate
    candidate_index: int
    sample: int
    inputs: Mapping[str, Any]
    around: Surroundings
    kept: Kept | None = None
    prediction: Any = None
    """The live output, kept in case that the metric fails."""
    account: Account = attrs.field(factory=Account)
    """Where its model calls are booked."""
    note: Callable[[str, Any], Awaitable[None]] | None = None
    """Writes down that a request of it leaves."""
    release: Callable[[], Awaitable[None]] | None = None
    """Gives its slot to the next one, as soon as nothing of it waits any more."""
    ran_here: bool = False
    """Whether `prediction` is this process's; an executor may have run it elsewhere."""

    async def here(self) -> RolloutRecord:
        """Run it in this process and task. Failures of program, model and metric come back in the record."""
        account = self.account = Account(
            sample=self.sample,
            ledger=self.around.ledger,
            limits=self.around.limits,
            note=self.note,
            token=trio.lowlevel.current_trio_token(),
        )
        self.ran_here = True
        began = time.perf_counter_ns()
        with accounted(account, self.around.models):
            draft = await self._program() if self.kept is None else self._take_kept(self.kept)
            if self.release is not None and draft.status is RolloutStatus.SUCCEEDED and self.around.metric.inline:
                await self.release()
            if draft.status is RolloutStatus.SUCCEEDED:
                account.role = "judge"
                await self._score(draft)
        return draft.record(account, (time.perf_counter_ns() - began) // 1000)

    async def _program(self) -> _Draft:
        around, draft = self.around, _Draft()
        meta = TraceMeta(
            trace_id=f"{self.key}:{self.sample}",
            started_at_us=time.time_ns() // 1000,
            candidate_hash=self.candidate.stable_hash,
            inputs=data_map(self.inputs),
            tags={"candidate": hex64(self.candidate.stable_hash), **getattr(around.target, "tags", {})},
        )
        injection = Injection(candidate=self.candidate, source=self.example.source)
        failed, why = None, ""
        handled = sys.exception()  # what the caller of the run is handling: it stands in each error's context here
        with recording(meta).also(injected(injection)) as recorder:
            scope = None if around.timeout is None else trio.move_on_after(around.timeout)
            try:
                with nullcontext() if scope is None else scope:
                    # its own copies: what it writes into a row, or later into its answer, is no other rollout's
                    self.prediction = own(await around.target.run(own(self.inputs), self.candidate))
            except BaseException as error:
                stop = stops(error)
                if stop is not None:  # of a group: the program may have failed on its way out
                    raise stop from None
                cause = blame(error, handled)
                failed, why = fault_of(cause), first_line(cause, 2000)
                del cause  # else this frame and the error hold each other
            if failed is not None:
                await trio.lowlevel.checkpoint_if_cancelled()  # what fails while it is cancelled is no verdict
            late = scope is not None and (scope.cancelled_caught or (failed is not None and scope.cancel_called))
            if late:
                failed = Fault(type="Timeout", message=f"the rollout took longer than {around.timeout} s")
            draft.trace = recorder.trace()
        draft.spans, draft.rendered = len(draft.trace.spans), tuple(sorted(injection.rendered))
        draft.fault = counted(failed, self.account)
        if draft.fault is None:
            draft.output = _json_or_none(self.prediction)
        else:
            draft.status = RolloutStatus.TIMED_OUT if late and draft.fault is failed else status_of(draft.fault)
        if draft.status is RolloutStatus.AGENT_FAILED:  # a verdict on the candidate
            draft.eval = Eval(around.failure_score, f"The program failed: {why}")
        return draft

    def _take_kept(self, kept: Kept) -> _Draft:
        self.prediction = kept.prediction
        record = kept.record
        return _Draft(
            output=record.output,
            trace=record.trace,
            spans=record.spans,
            rendered=record.rendered,
            models=record.models,
        )

    async def _score(self, draft: _Draft) -> None:
        metric, trace = self.around.metric, draft.trace or Trace()
        handled = sys.exception()
        try:
            with unrecorded().also(injected(None)):
                value = await metric.evaluate(self.example, self.prediction, trace)
                spans = await metric.evaluate_spans(self.example, self.prediction, trace)
        except MetricError as error:
            await trio.lowlevel.checkpoint_if_cancelled()
            fault = fault_of(blame(error, handled), judge=True)
            ours = fault.where == "program"
            draft.fault = Fault(type="MetricError", message=str(error), where="metric") if ours else fault
            return
        if self.account.refused is not None:
            draft.fault = refused(self.account.refused)
            return
        draft.eval = value
        if draft.trace is not None:
            draft.trace = draft.trace.with_span_evals(spans)


def _json_or_none(value: Any) -> Json:
    try:
        return to_json(value)
    except NotCanonicalError:
        return None
