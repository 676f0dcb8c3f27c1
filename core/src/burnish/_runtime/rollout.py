"""One rollout: the program under capture and injection, then the metric outside both (E11, E13)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import attrs
import trio

from burnish import abc
from burnish._model.candidate import Candidate
from burnish._model.canonical import Json, NotCanonicalError, hex64, to_json
from burnish._model.evals import Eval
from burnish._model.example import Example
from burnish._model.outcome import Fault, RolloutRecord, RolloutStatus
from burnish._model.trace import Trace, TraceMeta, TraceOutcome
from burnish._runtime.capture import data_map, recording
from burnish._runtime.ledger import Ledger
from burnish._runtime.limiter import Limits
from burnish._runtime.metric import MetricRunner
from burnish._runtime.scope import Account, Injection, accounted, injected, models
from burnish.errors import (
    BudgetExceededError,
    ContextLengthError,
    MetricError,
    ModelError,
    ModelRefusedError,
    UsageError,
    first_line,
    unwrap,
)


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

    async def here(self) -> RolloutRecord:
        """Run it in this process and task. Failures of program, model and metric come back in the record."""
        account = self.account = Account(
            ledger=self.around.ledger, limits=self.around.limits, token=trio.lowlevel.current_trio_token()
        )
        began = time.perf_counter_ns()
        with models(**self.around.models), accounted(account):
            record = await self._program() if self.kept is None else self._take_kept(self.kept)
            if record.status is RolloutStatus.SUCCEEDED:
                account.role = "judge"
                record = await self._score(record)
        duration = (time.perf_counter_ns() - began) // 1000
        record = attrs.evolve(
            record, calls=dict(account.calls), models=tuple(account.models), duration_us=duration
        )
        return attrs.evolve(record, trace=_with_outcome(record))

    async def _program(self) -> RolloutRecord:
        around = self.around
        meta = TraceMeta(
            trace_id=f"{self.key}:{self.sample}",
            candidate_hash=self.candidate.stable_hash,
            inputs=data_map(self.inputs),
            tags={"candidate": hex64(self.candidate.stable_hash)},
        )
        injection = Injection(candidate=self.candidate, source=self.example.fingerprint)
        failed: RolloutRecord | None = None
        with recording(meta) as recorder, injected(injection):
            assert recorder is not None
            limit = around.timeout if around.timeout is not None else float("inf")
            with trio.move_on_after(limit) as scope:
                try:
                    self.prediction = await around.target.run(self.inputs, self.candidate)
                except Exception as error:
                    failed = self._failure(unwrap(error))
            if scope.cancelled_caught:
                fault = Fault(type="Timeout", message=f"the rollout took longer than {limit} s")
                failed = RolloutRecord(status=RolloutStatus.TIMED_OUT, fault=fault)
            trace = recorder.trace()
        record = failed or RolloutRecord(status=RolloutStatus.SUCCEEDED, output=_json_or_none(self.prediction))
        return attrs.evolve(record, trace=trace, spans=len(trace.spans), rendered=tuple(sorted(injection.rendered)))

    def _take_kept(self, kept: Kept) -> RolloutRecord:
        self.prediction = kept.prediction
        return attrs.evolve(kept.record, fault=None)

    async def _score(self, record: RolloutRecord) -> RolloutRecord:
        metric, trace = self.around.metric, record.trace or Trace()
        try:
            with injected(None), recording(None):
                value = await metric.evaluate(self.example, self.prediction, trace)
                spans = await metric.evaluate_spans(self.example, self.prediction, trace)
        except MetricError as error:
            cause = error.__cause__
            if isinstance(cause, ModelError):
                return attrs.evolve(record, fault=_fault(cause, "model"))
            if isinstance(cause, BudgetExceededError):
                return attrs.evolve(record, fault=_fault(cause, "budget"))
            return attrs.evolve(record, fault=Fault(type="MetricError", message=str(error), where="metric"))
        return attrs.evolve(record, eval=value, trace=trace.with_span_evals(spans))

    def _failure(self, error: BaseException) -> RolloutRecord:
        if isinstance(error, BudgetExceededError):
            return RolloutRecord(status=RolloutStatus.REJECTED, fault=_fault(error, "budget"))
        if isinstance(error, UsageError) and not isinstance(error, ModelError):
            return RolloutRecord(status=RolloutStatus.REJECTED, fault=attrs.evolve(_fault(error), fatal=True))
        if isinstance(error, ModelError) and not isinstance(error, (ContextLengthError, ModelRefusedError)):
            return RolloutRecord(status=RolloutStatus.INFRASTRUCTURE_FAILED, fault=_fault(error, "model"))
        text = f"The program failed: {first_line(error, 2000)}"
        return RolloutRecord(
            status=RolloutStatus.AGENT_FAILED, eval=Eval(self.around.failure_score, text), fault=_fault(error)
        )


def _fault(error: BaseException, where: str = "program") -> Fault:
    fatal = isinstance(error, ModelError) and error.fatal
    return Fault(type=type(error).__name__, message=str(error)[:2000], where=where, fatal=fatal)


def _json_or_none(value: Any) -> Json:
    try:
        return to_json(value)
    except NotCanonicalError:
        return None


def _with_outcome(record: RolloutRecord) -> Trace | None:
    if record.trace is None:
        return None
    outcome = TraceOutcome(
        output=record.output,
        error=None if record.fault is None else str(record.fault),
        eval=record.eval,
        duration_us=record.duration_us,
    )
    return attrs.evolve(record.trace, outcome=outcome)
