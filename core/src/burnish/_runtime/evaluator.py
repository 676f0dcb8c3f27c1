"""Evaluating candidates: look up, admit, run, record, tell. Every face of the engine goes through here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import Any, Literal

import attrs
import structlog
import trio

from burnish import abc
from burnish._model.budget import Spend, spend_of_calls
from burnish._model.candidate import Candidate
from burnish._model.events import CandidateRegistered, Charged, Event, Refused, RolloutLanded, RolloutStarted, Warned
from burnish._model.example import Example, make_examples
from burnish._model.outcome import BudgetExhausted, Complete, EvalOutcome, Fault, RolloutRecord, RolloutStatus
from burnish._model.state import State, rollout_spend
from burnish._runtime.answers import Answers
from burnish._runtime.batch import Batch, Flight, Item, Request
from burnish._runtime.config import EngineConfig
from burnish._runtime.fanout import fan_out
from burnish._runtime.identity import Identities
from burnish._runtime.invoke import Invoker
from burnish._runtime.ledger import Ledger
from burnish._runtime.limiter import Limits
from burnish._runtime.metric import MetricRunner
from burnish._runtime.rollout import RolloutJob, Surroundings
from burnish._runtime.run_store import RunStore
from burnish._runtime.scope import current_models
from burnish._runtime.target import MutableTarget, check_candidate, inputs_of
from burnish.errors import InternalError, MetricError, RunStoppedError, UnknownIndexError

Fit = Literal["whole", "leading"]
"""What runs of a request that does not fit the budget: nothing, or the leading candidates that do fit."""

log = structlog.get_logger("burnish")


class Evaluator:
    """Registry, matrix, ledger and answers of one set of examples under one metric.

    `EvalEngine` and `Engine` are its faces. Many tasks of one trio run may use it at once.
    """

    def __init__(
        self,
        examples: Iterable[Any],
        metric: Any,
        config: EngineConfig | None = None,
        *,
        cache: abc.Cache | None = None,
        executor: abc.Executor | None = None,
        meter: abc.Meter | None = None,
        store: RunStore | None = None,
        models: Mapping[str, Any] | None = None,
        on_event: Callable[[Event], None] | None = None,
        run: str = "run",
    ) -> None:
        self.config = config or EngineConfig()
        self.examples: tuple[Example, ...] = make_examples(examples)
        self.state = State(len(self.examples))
        self.ledger = Ledger(self.config.budget, meter=meter, run=run)
        self.limits = Limits()
        self.metric = MetricRunner(metric, Invoker(self.config.concurrency))
        self.models = dict(models or {})
        self.peak_candidates = 0
        self._identities = Identities(self.metric, self.config.cache_salt)
        self._answers = Answers(cache, keep_traces=self.config.keep_traces == "all")
        self._executor, self._store, self._on_event = executor, store, on_event
        self._slots = trio.Semaphore(self.config.concurrency)
        self._apply_lock = trio.Lock()
        self._flights: dict[str, Flight] = {}
        self._in_flight: dict[int, int] = {}
        self._proven = not self.config.preflight
        self._failures_in_row = 0
        self._stop: Fault | None = None
        self._warned: set[str] = set()

    # --- registry and events -----------------------------------------------------------------------------------

    def register(self, candidate: Candidate) -> int:
        """Give the candidate's index: the old one where its content is known."""
        known = self.state.index.get(candidate.stable_hash)
        if known is None:
            known = len(self.state.candidates)
            self.emit(CandidateRegistered(index=known, candidate=candidate))
        elif self.state.candidates[known] != candidate:
            raise InternalError(f"two candidates share the 64-bit hash {candidate.stable_hash:016x}")
        return known

    def candidate(self, index: int) -> Candidate:
        """Give a registered candidate. Raises `UnknownIndexError`."""
        if not 0 <= index < len(self.state.candidates):
            raise UnknownIndexError(f"candidate index {index} is not registered")
        return self.state.candidates[index]

    def emit(self, event: Event) -> None:
        """Book an event, put it into the run store, and show it to whoever watches."""
        self.state.apply(event)
        if self._store is not None:
            self._store.append(event)
        if self._on_event is not None:
            self._on_event(event)

    async def flush(self) -> None:
        """Have all that happened so far committed to the run store."""
        if self._store is not None:
            await self._store.flush()

    def charge(self, spend: Spend) -> None:
        """Book spend that the caller made itself."""
        self.ledger.book(spend)
        self.emit(Charged(spend=spend))

    def warn(self, kind: str, message: str) -> None:
        """Say something once: to the log, the run store and whoever watches."""
        if message not in self._warned:
            self._warned.add(message)
            log.warning(message, kind=kind)
            self.emit(Warned(kind=kind, message=message))

    # --- evaluation --------------------------------------------------------------------------------------------

    async def evaluate_many(
        self,
        target: abc.Target,
        requests: Sequence[Request],
        *,
        samples: int = 1,
        traces: bool = False,
        fit: Fit = "whole",
        step: str = "",
    ) -> EvalOutcome:
        """Evaluate candidates on columns in one fan-out; results stand in the order of the request.

        Raises `UnknownIndexError`, `RowError` and `UnknownParameterError` before anything is spent; `MetricError` when
        all rows have finished, with the outputs kept; `RunStoppedError` where going on is pointless. Cancelled, it ends
        what is in flight; what has landed stays.
        """
        inputs = self._check(target, requests)
        batch = self._batch(target, requests, samples)
        await self._look_up(batch, target, traces)
        fitting, cap = await self._admit(batch, fit)
        wanted = batch.of(requests[:fitting])
        capped = await self._run(target, wanted, inputs, step)
        self._tell(wanted, step)
        await self.flush()
        self._raise_stop(wanted)
        self._warn_unread(wanted)
        evaluations = tuple(batch.evaluation(request) for request in requests[:fitting])
        cap = cap or capped
        if cap is None:
            return Complete(evaluations=evaluations)
        needed = batch.needed(requests)
        self.emit(Refused(needed=needed, cap=cap, step=step))
        await self.flush()
        return BudgetExhausted(needed=needed, cap=cap, partial=evaluations or None)

    def _check(self, target: abc.Target, requests: Sequence[Request]) -> dict[int, dict[str, Any]]:
        """Refuse what cannot work, before anything is spent; gives the program's inputs by column."""
        candidates = [self.candidate(index) for index, _ in requests]
        columns = dict.fromkeys(column for _, wanted in requests for column in wanted)
        for column in columns:
            if not 0 <= column < len(self.examples):
                raise UnknownIndexError(f"example index {column} out of range ({len(self.examples)} examples)")
        for candidate in candidates:
            check_candidate(target, candidate)
        return {column: inputs_of(self.examples[column], column, target.inputs) for column in columns}

    def _batch(self, target: abc.Target, requests: Sequence[Request], samples: int) -> Batch:
        models = {**current_models(), **self.models}
        baselines = [self._identities.baseline(target, models, sample) for sample in range(samples)]
        batch = Batch(requests, samples)
        for index, columns in requests:
            for column in columns:
                for sample, baseline in enumerate(baselines):
                    batch.add(index, self.candidate(index), column, self.examples[column], sample, baseline)
        return batch

    async def _look_up(self, batch: Batch, target: abc.Target, traces: bool) -> None:
        identities = [item.identity for item in batch.items.values()]
        if identities and self._store is not None and identities[0].baseline.volatile:
            self.warn(
                "identity",
                "the program, metric or model holds objects without a content identity, so that their results are not "
                "shared between runs; give it a `fingerprint` attribute to change that",
            )
        known = await self._answers.look_up(identities, target, traces)
        for item in batch.items.values():
            found = known.get(item.identity.key)
            if found is not None:
                item.record, item.kept, item.source = found.record, found.kept, found.source

    async def _admit(self, batch: Batch, fit: Fit) -> tuple[int, str | None]:
        """Reserve what has to run: gives how many leading requests may, and the cap that refused the rest."""
        count = len(batch.requests)
        cap = self.ledger.refusal(batch.needed(batch.requests, self._flights))
        if cap is not None:
            if fit == "whole":
                return 0, cap
            while count and self.ledger.refusal(batch.needed(batch.requests[:count], self._flights)) is not None:
                count -= 1
        leaders = batch.take_off(batch.requests[:count], self._flights)
        refused = await self.ledger.reserve_rollouts(sum(item.kept is None for item in leaders))
        if refused is not None:
            self._ground(leaders)
            return 0, refused
        return count, cap

    async def _run(
        self, target: abc.Target, wanted: list[Item], inputs: Mapping[int, Mapping[str, Any]], step: str
    ) -> str | None:
        """Run what nobody knows and nobody else is running; gives the cap that struck inside a rollout, if one did."""
        todo = [item for item in wanted if item.leads]
        around = self._surroundings(target)
        capped: list[str] = []

        async def work(item: Item, release: Callable[[], None]) -> None:
            record = await self._one(item, around, inputs[item.column], release, step)
            if record.fault is not None and record.fault.where == "budget" and record.eval is None:
                capped.append(record.fault.message)

        def stopped() -> bool:
            return self._stop is not None or bool(capped)

        try:
            for candidate, groups in self._waves(target, todo):
                async with self._in_force(target, candidate):
                    await fan_out(groups, self._slots, work, stopped=stopped)
        finally:
            self._ground([item for item in todo if not item.landed])
        for item in wanted:
            await item.wait_landed()
        return capped[0] if capped else None

    def _waves(self, target: abc.Target, todo: list[Item]) -> Iterator[tuple[Candidate | None, list[list[Item]]]]:
        """Cut the work into fan-outs: one for all, or one a candidate where candidates are written into the program."""
        if todo and not self._proven:
            self._proven = True
            yield todo[0].identity.candidate, [todo[:1]]
            todo = todo[1:]
        groups: dict[int, list[Item]] = {}
        for item in todo:
            groups.setdefault(item.candidate, []).append(item)
        if target.injection == "ambient":
            yield None, list(groups.values())
        else:
            for group in groups.values():
                yield group[0].identity.candidate, [group]

    @asynccontextmanager
    async def _in_force(self, target: abc.Target, candidate: Candidate | None) -> AsyncIterator[None]:
        """Bind the program to its rollouts; write the candidate into it where it cannot read one, and always restore."""
        if target.injection == "ambient":
            bound = getattr(target, "bound", nullcontext)
            with bound():
                yield
            return
        assert isinstance(target, MutableTarget) and candidate is not None
        async with self._apply_lock:
            undo = target.apply(candidate)
            try:
                yield
            finally:
                target.restore(undo)

    def _surroundings(self, target: abc.Target) -> Surroundings:
        return Surroundings(
            target=target,
            metric=self.metric,
            models=self.models,
            ledger=self.ledger,
            limits=self.limits,
            failure_score=self.config.failure_score,
            timeout=self.config.rollout_timeout,
        )

    async def _one(
        self, item: Item, around: Surroundings, inputs: Mapping[str, Any], release: Callable[[], None], step: str
    ) -> RolloutRecord:
        """Run one admitted rollout and record it the moment it lands."""
        job = RolloutJob(
            key=item.identity.key,
            example=item.identity.example,
            column=item.column,
            candidate=item.identity.candidate,
            candidate_index=item.candidate,
            sample=item.sample,
            inputs=inputs,
            around=around,
            kept=item.kept,
        )
        self.emit(
            RolloutStarted(key=job.key, candidate=item.candidate, example=item.column, sample=item.sample, step=step)
        )
        await self.flush()
        with self._counted(item.candidate):
            try:
                record = await self._execute(job)
            except BaseException:
                self.emit(Charged(spend=spend_of_calls(job.account.calls)))
                raise
        release()
        with trio.CancelScope(shield=True):
            await self._land(item, record, job, step)
        return record

    async def _execute(self, job: RolloutJob) -> RolloutRecord:
        if self._executor is None:
            return await job.here()
        try:
            return await self._executor.run(job)
        except Exception as error:  # a plugin's fault must not cancel the siblings
            fault = Fault(type=type(error).__name__, message=f"the executor failed: {error}", where="executor")
            return RolloutRecord(status=RolloutStatus.INFRASTRUCTURE_FAILED, fault=fault)

    async def _land(self, item: Item, record: RolloutRecord, job: RolloutJob, step: str) -> None:
        landed = RolloutLanded(
            key=item.identity.key,
            candidate=item.candidate,
            example=item.column,
            sample=item.sample,
            record=record if self.config.keep_traces == "all" else attrs.evolve(record, trace=None),
            source="live" if item.kept is None else "scored",
            step=step,
        )
        if item.kept is None:
            self.ledger.settle_rollout(rollout_spend(landed))
        self.emit(landed)
        await self._answers.keep(item.identity, record, job.prediction)
        await self.flush()
        self._judge_run(record)
        self._flights.pop(item.identity.key, None)
        item.land(record)

    def _judge_run(self, record: RolloutRecord) -> None:
        """Decide whether going on makes sense: no credentials, no such model, or one failure after the other."""
        if record.status is not RolloutStatus.INFRASTRUCTURE_FAILED:
            self._failures_in_row = 0
        else:
            self._failures_in_row += 1
        limit = self.config.max_failures_in_row
        if record.fault is not None and record.fault.fatal:
            self._stop = record.fault
        elif limit is not None and self._failures_in_row >= limit and record.fault is not None:
            self._stop = attrs.evolve(
                record.fault, message=f"{self._failures_in_row} rollouts in a row failed; the last: {record.fault}"
            )

    def _ground(self, items: list[Item]) -> None:
        """Give back what was admitted and will not run."""
        self.ledger.release_rollouts(sum(item.kept is None for item in items))
        for item in items:
            self._flights.pop(item.identity.key, None)
            item.land(None)

    @contextmanager
    def _counted(self, candidate: int) -> Iterator[None]:
        self._in_flight[candidate] = self._in_flight.get(candidate, 0) + 1
        self.peak_candidates = max(self.peak_candidates, len(self._in_flight))
        try:
            yield
        finally:
            self._in_flight[candidate] -= 1
            if not self._in_flight[candidate]:
                del self._in_flight[candidate]

    # --- telling -----------------------------------------------------------------------------------------------

    def _tell(self, wanted: list[Item], step: str) -> None:
        """Book what was served instead of run."""
        for item in wanted:
            record = item.record
            if item.leads or record is None or record.eval is None or not record.status.scored:
                continue
            self.ledger.book(Spend(cache_hits=1))
            served = attrs.evolve(record, trace=None, output=None)
            self.emit(
                RolloutLanded(
                    key=item.identity.key,
                    candidate=item.candidate,
                    example=item.column,
                    sample=item.sample,
                    record=served,
                    source=item.source,
                    step=step,
                )
            )

    def _raise_stop(self, wanted: list[Item]) -> None:
        """Raise what ends the evaluation, now that everything that ran is recorded."""
        if self._stop is not None:
            fault, self._stop, self._failures_in_row = self._stop, None, 0
            raise RunStoppedError(f"the run stopped: {fault}; what was paid for is kept")
        for item in wanted:
            record = item.record
            if record is not None and record.fault is not None and record.fault.where == "metric":
                raise MetricError(
                    f"{record.fault.message} (row {item.column}, candidate {item.candidate}); all outputs are kept: mend "
                    "the metric and evaluate again, and no model is called for them",
                    row=item.column,
                    candidate=item.candidate,
                )

    def _warn_unread(self, wanted: list[Item]) -> None:
        """Name the candidates whose change no rollout read: they were scored as the unchanged program."""
        read: dict[int, bool] = {}
        for item in wanted:
            changed = item.identity.candidate.overlays
            if changed and item.leads and item.record is not None:
                seen = any(name in changed for name in item.record.rendered)
                read[item.candidate] = read.get(item.candidate, False) or seen
        for candidate, seen in read.items():
            if not seen:
                names = ", ".join(f"`{name}`" for name in self.candidate(candidate).overlays)
                self.warn(
                    "unread",
                    f"candidate {candidate} changes {names}, but no rollout read it, so its score is that of the "
                    "unchanged program; a thread started without its context loses the candidate: start it with "
                    "`contextvars.copy_context().run`",
                )
