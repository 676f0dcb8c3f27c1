"""Running what was admitted: fan-outs, the candidate in force, and recording each rollout as it lands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from typing import Any

import attrs
import structlog
import trio

from burnish import abc
from burnish._model.budget import spend_of_calls
from burnish._model.candidate import Candidate
from burnish._model.events import Charged, RolloutLanded, RolloutStarted
from burnish._model.outcome import Fault, RolloutRecord, RolloutStatus
from burnish._model.state import rollout_spend
from burnish._runtime.answers import Answers
from burnish._runtime.batch import Flight, Item
from burnish._runtime.config import EngineConfig
from burnish._runtime.fanout import fan_out
from burnish._runtime.journal import Journal
from burnish._runtime.ledger import Ledger
from burnish._runtime.rollout import RolloutJob, Surroundings
from burnish._runtime.target import MutableTarget


class Dispatcher:
    """Runs admitted items on the engine's slots. It owns the slots, the flights and the reasons to stop."""

    def __init__(
        self, config: EngineConfig, ledger: Ledger, answers: Answers, executor: abc.Executor | None, journal: Journal
    ) -> None:
        self.flights: dict[str, Flight] = {}
        self.stop: Fault | None = None
        """Why going on is pointless."""
        self.peak_candidates = 0
        self._config, self._ledger, self._answers = config, ledger, answers
        self._executor, self._journal = executor, journal
        self._slots = trio.Semaphore(config.concurrency)
        self._apply_lock = trio.Lock()
        self._in_flight: dict[int, int] = {}
        self._proven = not config.preflight
        self._failures_in_row = 0

    async def run(
        self, around: Surroundings, wanted: list[Item], inputs: Mapping[int, Mapping[str, Any]], step: str
    ) -> str | None:
        """Run what nobody knows and nobody else is running; gives the cap that struck inside a rollout, if one did."""
        todo = [item for item in wanted if item.leads]
        capped: list[str] = []

        async def work(item: Item, release: Callable[[], None]) -> None:
            record = await self._one(item, around, inputs[item.column], release, step)
            if record.fault is not None and record.fault.where == "budget" and record.eval is None:
                capped.append(record.fault.message)

        def stopped() -> bool:
            return self.stop is not None or bool(capped)

        try:
            for candidate, groups in self._waves(around.target, todo):
                async with self._in_force(around.target, candidate):
                    await fan_out(groups, self._slots, work, stopped=stopped)
        finally:
            self.ground([item for item in todo if not item.landed])
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
        """Bind the program to its rollouts; write a candidate into it where it cannot read one, and always restore."""
        if target.injection == "ambient":
            bound = getattr(target, "bound", nullcontext)
            with bound():
                yield
            return
        assert isinstance(target, MutableTarget)
        assert candidate is not None
        async with self._apply_lock:
            undo = target.apply(candidate)
            try:
                yield
            finally:
                target.restore(undo)

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
        self._journal.emit(
            RolloutStarted(key=job.key, candidate=item.candidate, example=item.column, sample=item.sample, step=step)
        )
        await self._journal.flush()
        bound = structlog.contextvars.bound_contextvars(candidate=item.candidate, example=item.column)
        with self._counted(item.candidate), bound:
            try:
                record = await self._execute(job)
            except BaseException:
                self._journal.emit(Charged(spend=spend_of_calls(job.account.calls)))
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
            record=record if self._config.keep_traces == "all" else attrs.evolve(record, trace=None),
            source="live" if item.kept is None else "scored",
            step=step,
        )
        if item.kept is None:
            self._ledger.settle_rollout(rollout_spend(landed))
        self._journal.emit(landed)
        await self._answers.keep(item.identity, record, job.prediction)
        await self._journal.flush()
        self._judge_run(record)
        self.flights.pop(item.identity.key, None)
        item.land(record)

    def _judge_run(self, record: RolloutRecord) -> None:
        """Decide whether going on makes sense: no credentials, no such model, or one failure after the other."""
        if record.status is not RolloutStatus.INFRASTRUCTURE_FAILED:
            self._failures_in_row = 0
        else:
            self._failures_in_row += 1
        limit = self._config.max_failures_in_row
        if record.fault is not None and record.fault.fatal:
            self.stop = record.fault
        elif limit is not None and self._failures_in_row >= limit and record.fault is not None:
            self.stop = attrs.evolve(
                record.fault, message=f"{self._failures_in_row} rollouts in a row failed; the last: {record.fault}"
            )

    def take_stop(self) -> Fault | None:
        """Give the reason to stop, once: the caller raises it, and a later evaluation may try again."""
        fault, self.stop, self._failures_in_row = self.stop, None, 0
        return fault

    def ground(self, items: list[Item]) -> None:
        """Give back what was admitted and will not run."""
        self._ledger.release_rollouts(sum(item.kept is None for item in items))
        for item in items:
            self.flights.pop(item.identity.key, None)
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
