"""Evaluating candidates: look up, admit, run, tell. Both faces of the engine come here; `Dispatcher` records."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import attrs

from burnish import abc
from burnish._model.canonical import JsonMap
from burnish._model.events import Admitted, Told
from burnish._model.example import Example, make_examples
from burnish._model.outcome import BudgetExhausted, Complete, EvalOutcome, RolloutStatus
from burnish._runtime import verdicts
from burnish._runtime.answers import Answers
from burnish._runtime.asks import content_of, fill
from burnish._runtime.batch import Batch, Fit, Item, Request, leading_parts
from burnish._runtime.books import Books
from burnish._runtime.calls import Calls
from burnish._runtime.config import EngineConfig
from burnish._runtime.dispatch import Dispatcher, Ending
from burnish._runtime.identity import Baseline, Identities
from burnish._runtime.invoke import Invoker, must_be_trio
from burnish._runtime.journal import Journal
from burnish._runtime.ledger import Ledger
from burnish._runtime.limiter import Limits
from burnish._runtime.metric import MetricRunner
from burnish._runtime.rollout import Surroundings
from burnish._runtime.scope import current_models
from burnish._runtime.target import check_candidate, inputs_of
from burnish._runtime.watch import Watch
from burnish.errors import InternalError, MetricError, RunStoppedError, UnknownIndexError


class Evaluator(Books):
    """Registry, matrix, ledger and answers of one set of examples under one metric.

    `EvalEngine` and `Engine` are its faces. Many tasks of one trio run may use it at once. `row_name` names columns in
    errors, for an evaluator that lives as long as one run.
    """

    def __init__(
        self,
        examples: Iterable[Any],
        metric: Any,
        config: EngineConfig | None = None,
        *,
        cache: abc.Cache | None = None,
        executor: abc.Executor | None = None,
        ledger: Ledger | None = None,
        limits: Limits | None = None,
        journal: Journal | None = None,
        models: Mapping[str, Any] | None = None,
        row_name: Callable[[int], str] | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.config = config or EngineConfig()
        self.examples: tuple[Example, ...] = make_examples(examples)
        super().__init__(len(self.examples), ledger or Ledger(self.config.budget), limits, journal)
        self.metric = MetricRunner(metric, Invoker(self.config.concurrency))
        self.models = dict(models or {})
        self._identities = Identities(self.metric, self.config.cache_salt, self.config.failure_score)
        earlier = None if journal is None else journal.find
        self._answers = Answers(cache, self.config, earlier)
        self._dispatcher = Dispatcher(
            self.config, self.ledger, self._answers, executor, self, durable=journal is not None
        )
        self._fitted: tuple[abc.Target, Any, dict[int, dict[str, Any]]] | None = None
        self.watch = watch or Watch(partial(self.warn, "blocked"))
        self._row_name = row_name
        self.calls = Calls(self, self._dispatcher.slots)

    @property
    def peak_candidates(self) -> int:
        """Most distinct candidates that were in flight at once."""
        return self._dispatcher.peak_candidates

    @property
    def answers(self) -> Answers:
        """What is known by now."""
        return self._answers

    def identity_facts(self, target: abc.Target) -> JsonMap:
        """Say which models there are, and name what has no content identity."""
        return self._identities.facts(target, {**current_models(), **self.models})

    # --- evaluation --------------------------------------------------------------------------------------------

    async def evaluate_many(
        self,
        target: abc.Target,
        requests: Sequence[Request],
        *,
        samples: int | range = 1,
        traces: bool = False,
        fit: Fit = "whole",
        step: str = "",
        lenient: bool = False,
        bare: bool = False,
    ) -> EvalOutcome:
        """Evaluate candidates on columns in one fan-out; results stand in the order of the request.

        Raises `UnknownIndexError`, `RowError` and `UnknownParameterError` before anything is spent; `MetricError` when
        all rows have finished, with the outputs kept; `RunStoppedError` where going on is pointless; `lenient` leaves
        both as faults in the outcome. With `bare` no rollout comes with its trace, not even one that ran just now.
        Cancelled, it ends what is in flight; what has landed stays.
        """
        must_be_trio()
        inputs = self.check(target, requests)
        taken = range(samples) if isinstance(samples, int) else samples
        batch = self._batch(target, requests, taken, by_row=fit == "rows", bare=bare)
        step, told, before = await self._begin(batch, target, fit, step, traces)
        if told is not None:
            return self._outcome(batch, requests, told)
        await self._look_up(batch, target, traces)
        fitting, ending = await self._run(batch, target, inputs, fit, step, before)
        wanted = batch.of(fitting)
        self._tell(wanted, step)
        await self.flush()
        if ending.fault is not None and not lenient:
            raise RunStoppedError(f"the run stopped: {ending.fault}; what was paid for is kept")
        unscored = verdicts.metric_failed(wanted)
        if unscored is not None and not lenient:
            raise await self._metric_error(unscored, wanted, target)
        self._warn_unread(wanted)
        needed = 0 if ending.cap is None else batch.needed(requests)
        told = Told(step=step, shown=len(fitting), cap=ending.cap, needed=needed)
        self.emit(told)
        await self.flush()
        return self._outcome(batch, requests, told)

    async def _begin(
        self, batch: Batch, target: abc.Target, fit: Fit, step: str, traces: bool
    ) -> tuple[str, Told | None, Admitted | None]:
        """Write the ask down; gives its name, what it was told and what was admitted, where the run had come so far.

        Where it was killed meanwhile, the batch has what landed, and what was under way counts as spent.
        """
        if self.asks is None or self.journal is None:
            return step, None, None
        content = content_of(batch, self.hash_of, fit, traces)
        step, recorded = await self.asks.begin(step, content, str(batch), traces=traces)
        await fill(batch, recorded, self.journal, target, traces)
        self.settle_lost(recorded.lost)
        admitted = [event for event in recorded.events if isinstance(event, Admitted)]
        return step, recorded.told, admitted[-1] if admitted else None

    def _outcome(self, batch: Batch, requests: Sequence[Request], told: Told) -> EvalOutcome:
        evaluations = tuple(batch.evaluation(request) for request in requests[: told.shown])
        if told.cap is None:
            return Complete(evaluations=evaluations)
        return BudgetExhausted(needed=told.needed, cap=told.cap, partial=evaluations or None)

    def check(self, target: abc.Target, requests: Sequence[Request]) -> dict[int, dict[str, Any]]:
        """Refuse what cannot work, before anything is spent; gives the program's inputs by column."""
        candidates = [self.candidate(index) for index, _ in requests]
        columns = dict.fromkeys(column for _, wanted in requests for column in wanted)
        for column in columns:
            if not 0 <= column < len(self.examples):
                raise UnknownIndexError(f"example index {column} out of range ({len(self.examples)} examples)")
        for candidate in candidates:
            check_candidate(target, candidate)
        return self._inputs(target, columns)

    def _inputs(self, target: abc.Target, columns: Iterable[int]) -> dict[int, dict[str, Any]]:
        """Give the inputs of these columns at least: picked once for a program that takes what it took before."""
        fields, fitted = target.inputs, self._fitted
        if fitted is None or fitted[0] is not target or fitted[1] != fields:
            fitted = self._fitted = (target, fields, {})
        picked = fitted[2]
        for column in columns:
            if column not in picked:
                picked[column] = inputs_of(self.examples[column], column, target)
        return picked

    def baselines(self, target: abc.Target, samples: Iterable[int]) -> list[Baseline]:
        """Give what decides a program's results beside candidate and example, one a sample index."""
        models = {**current_models(), **self.models}
        program = self._dispatcher.fingerprint_of(target)
        return [self._identities.baseline(target, program, models, sample) for sample in samples]

    def _batch(
        self, target: abc.Target, requests: Sequence[Request], samples: range, *, by_row: bool, bare: bool
    ) -> Batch:
        baselines = self.baselines(target, samples)
        batch = Batch(requests, samples, by_row=by_row, bare=bare)
        for index, columns in requests:
            for column in columns:
                for sample, baseline in zip(samples, baselines, strict=True):
                    batch.add(index, self.candidate(index), column, self.examples[column], sample, baseline)
        return batch

    async def _look_up(self, batch: Batch, target: abc.Target, traces: bool) -> None:
        missing = []
        for item in batch.items.values():
            if item.record is None and item.kept is None:
                item.record = self._answers.recall(item.identity.key, traces)
                if item.record is None:
                    missing.append(item)
        identities = [item.identity for item in missing]
        if identities and self.journal is not None and identities[0].baseline.volatile:
            self.warn(
                "identity",
                "the program, metric or model holds objects without a content identity, so that their results are not "
                "shared between runs; give it a `fingerprint` attribute to change that",
            )
        known = await self._answers.look_up(identities, target, traces)
        for item in missing:
            found = known.get(item.identity.key)
            if found is not None:
                item.record, item.kept, item.source = found.record, found.kept, found.source
            else:  # another ask's rollout may have landed meanwhile: its flight is over, and it must not run again
                item.record = self._answers.recall(item.identity.key, traces)

    async def _run(
        self,
        batch: Batch,
        target: abc.Target,
        inputs: Mapping[int, Mapping[str, Any]],
        fit: Fit,
        step: str,
        before: Admitted | None,
    ) -> tuple[list[Request], Ending]:
        """Admit and run what is unknown: gives what of the requests was admitted, and what ended it early."""
        admitted: list[Item] = []
        requests: list[Request] = []
        while True:
            fitting, cap = await self._admit(batch, fit, step, before)
            before = None
            wanted = batch.of(fitting)
            if len(wanted) < len(admitted):  # what was admitted before is told as far as it landed
                return requests, Ending(cap=cap)
            admitted, requests = wanted, fitting
            try:
                with self.watch.on():
                    ending = await self._dispatcher.run(self._surroundings(target), wanted, inputs, step)
            finally:
                await self.ledger.hand_back()
            if ending.cap or ending.fault or all(item.record is not None for item in wanted):
                return fitting, attrs.evolve(ending, cap=cap or ending.cap)
            # a row without a record was another call's, which was cancelled: it is admitted again, as our own
            lost = next((item for item in wanted if item.leads and item.record is None), None)
            if lost is not None:  # never run again unasked: it would be paid for without end
                raise InternalError(
                    f"the rollout of candidate {lost.candidate} on row {lost.column} ended without a result, though "
                    "nothing cancelled it; a plugin may have raised a `trio.Cancelled` of its own"
                )

    async def _admit(
        self, batch: Batch, fit: Fit, step: str, before: Admitted | None
    ) -> tuple[list[Request], str | None]:
        """Reserve what has to run: gives the requests that may, and the cap that refused the rest.

        What was admitted `before` the run was stopped is so again: what landed of it must not keep the rest out.
        """
        flights = self._dispatcher.flights

        def refusal(requests: list[Request]) -> str | None:
            return self.ledger.refusal(batch.needed(requests, flights))

        self.ledger.revise()  # by what is known now, whether it was seen in this life or told again
        part, cap = (-1, refusal(batch.requests)) if before is None else (before.part, before.cap)
        parts = [batch.requests] if part == -1 and cap is None else leading_parts(batch.requests, fit)
        if before is None and cap is not None:
            part = bisect(parts, False, key=lambda some: refusal(some) is not None) - 1
        requests = parts[part]
        leaders = batch.take_off(requests, flights)
        try:
            count = sum(item.kept is None for item in leaders)
            refused = await self.ledger.reserve_rollouts(count, granted=before is not None)
        except BaseException:
            self._dispatcher.abandon(leaders)
            raise
        if refused is not None:
            self._dispatcher.abandon(leaders)
            return [], refused
        if self.asks is not None and before is None:
            self.emit(Admitted(step=step, part=part, cap=cap))
        return requests, cap

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

    # --- telling -----------------------------------------------------------------------------------------------

    def _tell(self, wanted: list[Item], step: str) -> None:
        """Book what was served instead of run."""
        for item in wanted:
            record = item.record
            if item.leads or item.told or record is None:
                continue
            if record.eval is not None:
                self.ledger.hit()
            # what came from a cache is written in full: it may be gone when the run begins again (R13)
            bare = item.source == "store" and self.journal is not None
            served = attrs.evolve(record, trace=None, output=None) if bare else record
            self.emit(item.answer(served, item.source, step))

    async def _metric_error(self, unscored: Item, wanted: list[Item], target: abc.Target) -> MetricError:
        """Keep the outputs of all rows, scored ones too: a mended metric is another one, and scores them anew."""
        ran = [(i.identity, i.record, i.prediction) for i in wanted if i.leads and i.record is not None]
        await self._answers.keep_outputs([it for it in ran if it[1].status is RolloutStatus.SUCCEEDED], target)
        return verdicts.metric_error(unscored, self._row_name, lasting=self._answers.lasts(unscored.identity))

    def _warn_unread(self, wanted: list[Item]) -> None:
        """Name the first candidate whose change no rollout read: it was scored as the unchanged program."""
        for index in verdicts.unread(wanted)[:1]:
            names = ", ".join(f"`{name}`" for name in self.candidate(index).overlays)
            self.warn(
                "unread",
                f"candidate {index} changes {names}, but no rollout read it, so its score is that of the unchanged "
                "program, and further candidates are likely to fare no better (this is said once); a thread started "
                "without its context loses the candidate: start it with `contextvars.copy_context().run`",
            )
