"""Running what was admitted: fan-outs, the candidate in force, and recording each rollout as it lands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from decimal import Decimal
from functools import partial
from typing import Any

import attrs
import trio

from burnish import abc
from burnish._model.budget import Spend, spend_of_calls
from burnish._model.candidate import Candidate
from burnish._model.codec import dumps, loads
from burnish._model.outcome import Fault, RolloutRecord, RolloutStatus
from burnish._runtime.answers import Answers, revive
from burnish._runtime.batch import Flight, Item
from burnish._runtime.blame import stops
from burnish._runtime.config import EngineConfig
from burnish._runtime.fanout import fan_out
from burnish._runtime.journal import Writer
from burnish._runtime.ledger import Ledger
from burnish._runtime.log import bound as bound_to_log
from burnish._runtime.mutation import MutableTarget
from burnish._runtime.owed import record_of
from burnish._runtime.rations import Bound, draw_on
from burnish._runtime.rollout import RolloutJob, Surroundings
from burnish._runtime.stopping import StopRule
from burnish.errors import text_of

TURNS = 3
"""Turns of the event loop that a rollout waits before it is scored and recorded, once it has given its slot up: the
fan-out wakes in the first, its next rollouts begin in the second and come to wait for their models in the third. So
this work is done while they wait, not before they begin."""


@attrs.frozen(kw_only=True)
class Ending:
    """Why a run of the dispatcher left some of its items unrun; nothing is set where it ran all."""

    cap: str | None = None
    """The cap that left no room for a rollout, or struck inside one."""
    fault: Fault | None = None
    """Why going on is pointless."""


class Dispatcher:
    """Runs admitted items on the engine's slots. It owns the slots, the flights and the reasons to stop."""

    def __init__(
        self,
        config: EngineConfig,
        ledger: Ledger,
        answers: Answers,
        executor: abc.Executor | None,
        books: Writer,
        *,
        durable: bool,
    ) -> None:
        self.flights: dict[str, Flight] = {}
        self.peak_candidates = 0
        self._config, self._ledger, self._answers = config, ledger, answers
        self._executor, self._books = executor, books
        self._durable = durable  # where nobody keeps the events, starts need not be written
        self.slots = trio.Semaphore(config.concurrency)
        self._apply_lock = trio.Lock()
        self._resting: tuple[abc.Target, str] | None = None
        self._in_flight: dict[int, int] = {}
        self._running = 0
        self._rule = StopRule(config.max_failures_in_row, preflight=config.preflight)

    async def run(
        self, around: Surroundings, wanted: list[Item], inputs: Mapping[int, Mapping[str, Any]], step: str
    ) -> Ending:
        """Run what nobody knows and nobody else is running, and wait for what others run.

        An item that is left without a record was led by a run that ended early: the caller may admit it again, unless
        the `Ending` says why it must not.
        """
        todo = [item for item in wanted if item.leads and not item.landed]
        capped: list[str] = []

        async def admit(item: Item) -> bool:
            if self._rule.fault is None and not capped and self._ledger.rations:
                share = await self._ledger.ration(item.identity.candidate.stable_hash)
                if isinstance(share, str):
                    capped.append(share)
                else:
                    item.share = share
            if self._rule.fault is not None or capped:
                if item.share is not None:
                    self._ledger.end_ration(item.share, conclusive=False)
                return False
            item.number = self._rule.start()
            return True

        async def work(item: Item, release: Callable[[], None]) -> None:
            record: RolloutRecord | None = None
            try:
                if item.share is not None:
                    draw_on(item.share)
                record, cap = await self._one(item, around, inputs[item.column], release, step)
                if cap is not None:
                    capped.append(cap)
            finally:
                self._rule.end(item.number, record)
                if item.share is not None:
                    telling = item.kept is None and record is not None and record.telling
                    self._ledger.end_ration(item.share, conclusive=telling)

        with self._stoppable():
            try:
                for candidate, groups in self._waves(around.target, todo):
                    self._ledger.revise()
                    async with self._in_force(around.target, candidate):
                        await fan_out(groups, self.slots, work, admit=admit)
            finally:
                left = [item for item in todo if not item.landed]
                self._ledger.release_rollouts(sum(item.kept is None and not item.counted for item in left))
                self.abandon(left)
            capped.extend([cap for item in wanted if (cap := await item.wait_landed()) is not None])
            return Ending(cap=capped[0] if capped else None, fault=self._rule.fault)

    @contextmanager
    def _stoppable(self) -> Iterator[None]:
        """Hold a reason to stop until every run that it concerns has ended; a later one may try again."""
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            if self._rule.fault is not None and not self._running:
                self._rule.reset()

    def _waves(self, target: abc.Target, todo: list[Item]) -> Iterator[tuple[Candidate | None, list[list[Item]]]]:
        """Cut the work into fan-outs: one for all, or one a candidate where candidates are written into the program.

        Where something is rationed, a fan-out keeps the order of the request, so that a cap leaves whole candidates
        before it, however many run at once; one rollout of each candidate goes ahead, to show what they need.
        """
        if todo and not self._rule.proven:
            yield todo[0].identity.candidate, [todo[:1]]
            todo = todo[1:]
        groups: dict[int, list[Item]] = {}
        for item in todo:
            groups.setdefault(item.candidate, []).append(item)
        if target.injection == "apply":
            for group in groups.values():
                yield group[0].identity.candidate, [group]
        elif not self._ledger.rations:
            yield None, list(groups.values())
        else:
            familiar = self._ledger.familiar
            first = [group[0] for group in groups.values() if not familiar(group[0].identity.candidate.stable_hash)]
            ahead = set(map(id, first))
            yield None, [first]
            yield None, [[item for item in todo if id(item) not in ahead]]

    @asynccontextmanager
    async def _in_force(self, target: abc.Target, candidate: Candidate | None) -> AsyncIterator[None]:
        """Bind the program to its rollouts; write a candidate into it where it cannot read one, and always restore."""
        if target.injection != "apply":
            bound = getattr(target, "bound", nullcontext)
            with bound():
                yield
            return
        assert isinstance(target, MutableTarget)
        assert candidate is not None
        async with self._apply_lock:
            resting = target.fingerprint
            undo = target.apply(candidate)
            self._resting = (target, resting)
            try:
                yield
            finally:
                self._resting = None
                target.restore(undo)

    def fingerprint_of(self, target: abc.Target) -> str:
        """Give a program's fingerprint without the candidate that is written into it just now."""
        resting = self._resting
        return resting[1] if resting is not None and resting[0] is target else target.fingerprint

    async def _one(
        self, item: Item, around: Surroundings, inputs: Mapping[str, Any], release: Callable[[], None], step: str
    ) -> tuple[RolloutRecord, str | None]:
        """Run one admitted rollout and record it the moment it lands; gives the cap that struck inside it, too."""
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
        if self._durable:
            self._books.emit(item.started(step))
            await self._books.flush()
            if self._ledger.rations:
                job.note = partial(self._note, item, step)
        if not self._durable and self._config.concurrency > 1 and not self._ledger.rations:
            job.release = partial(_give_way, release)  # else nothing comes before what was paid for is safe
        self._enter(item.candidate)
        try:
            with bound_to_log(candidate=item.candidate, example=item.column):
                record = await self._execute(job)
        except BaseException:
            self._lose(item, spend_of_calls(job.account.calls), job.account.held, step)
            raise
        finally:
            self._leave(item.candidate)
        release()
        cap = None
        if record.eval is None and record.fault is not None and record.fault.where == "budget":
            cap = job.account.refused or record.fault.message
        await self._land(item, record, job, step, cap)
        if self._ledger.leased:
            await self._ledger.renew()
        return record, cap

    async def _note(self, item: Item, step: str, role: str, bound: Bound) -> None:
        """Write down that a request of a rollout leaves: if the run is killed now, it counts."""
        self._books.emit(item.sent(step, role, bound))
        await self._books.flush()

    def _lose(self, item: Item, spent: Spend, held: Decimal, step: str) -> None:
        """Book a rollout that was cancelled: what its calls cost, and itself where it had made any."""
        if spent.requests and item.kept is None:  # it was paid for: however often it is cancelled, a cap ends it
            item.counted = True
            self._ledger.settle_rollout(0)
            spent += Spend(metric_calls=1, lm_calls=1)
        self._books.emit(item.lost(step, spent, held))

    async def _execute(self, job: RolloutJob) -> RolloutRecord:
        if self._executor is None or job.kept is not None:  # a kept output is scored here: elsewhere it is paid again
            return await job.here()
        try:
            record = record_of(await self._executor.run(job), f"{job.key}:{job.sample}")
            stored = loads(dumps(record), RolloutRecord)  # what cannot be stored must not reach the books
            if not job.ran_here and stored.owes_score and stored.output is not None:
                job.prediction = revive(job.around.target, stored)
            return stored
        except BaseException as error:  # a plugin's fault must not cancel the siblings
            stop = stops(error)
            if stop is not None:
                raise stop from None
            message = f"the executor failed: {text_of(error)}"
            fault = Fault(type=type(error).__name__, message=message, where="executor")
            calls = dict(job.account.calls)
            return RolloutRecord(status=RolloutStatus.INFRASTRUCTURE_FAILED, fault=fault, calls=calls)

    async def _land(
        self, item: Item, record: RolloutRecord, job: RolloutJob, step: str, cap: str | None
    ) -> None:
        bare = record if self._config.keeps_trace(record) else record.without_trace()
        landed = item.answer(bare, "live" if item.kept is None else "scored", step, job.account.held)
        if item.kept is None and (record.status is RolloutStatus.POLICY_BLOCKED or record.cut):
            self._ledger.release_rollouts(1)
        elif item.kept is None:
            self._ledger.settle_rollout(record.spans)
        if record.calls and not job.account.calls:  # an executor ran it elsewhere: no call of it has been booked yet
            elsewhere = spend_of_calls(record.calls)
            self._ledger.book(elsewhere)
            if item.share is not None:
                item.share.book(elsewhere)
        try:
            self._books.emit(landed)
            await self._books.flush()
        finally:
            try:
                await self._answers.keep(item.identity, record, bare, job.prediction, job.around.target)
            finally:  # it is settled: whatever happens, it must not be given back as one that did not run
                self.flights.pop(item.identity.key, None)
                item.prediction = job.prediction
                item.land(record, cap)

    def abandon(self, items: list[Item]) -> None:
        """End the flights of items that will not run, so that whoever waits for them can go on."""
        for item in items:
            self.flights.pop(item.identity.key, None)
            item.land(None)

    def _enter(self, candidate: int) -> None:
        self._in_flight[candidate] = self._in_flight.get(candidate, 0) + 1
        self.peak_candidates = max(self.peak_candidates, len(self._in_flight))

    def _leave(self, candidate: int) -> None:
        self._in_flight[candidate] -= 1
        if not self._in_flight[candidate]:
            del self._in_flight[candidate]


async def _give_way(release: Callable[[], None]) -> None:
    """Let the next rollouts begin before what is left of this one is done: it takes the time that they wait."""
    release()
    for _ in range(TURNS):
        await trio.lowlevel.cancel_shielded_checkpoint()
