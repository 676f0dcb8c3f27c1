"""What is already known: the answers of this engine, and the shared cache behind them."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Protocol

import attrs
import trio

from burnish import abc
from burnish._model.codec import loads
from burnish._model.evals import Eval
from burnish._model.events import RolloutLanded, Source
from burnish._model.outcome import RolloutRecord
from burnish._model.trace import Trace
from burnish._runtime.blame import stops
from burnish._runtime.config import EngineConfig
from burnish._runtime.identity import Identity
from burnish._runtime.log import log
from burnish._runtime.owed import records_of
from burnish._runtime.retention import Parts, TraceMemory
from burnish._runtime.rollout import Kept
from burnish.errors import StoreError, first_line

CACHE_PATIENCE = 30.0
"""Seconds that the cache may take for one answer. Storing is shielded from cancellation, so it must end."""


class Find(Protocol):
    """Gives results of a run's earlier life by key, with their traces if wanted."""

    def __call__(self, keys: Sequence[str], *, traces: bool = False) -> Awaitable[dict[str, RolloutLanded]]: ...


@attrs.define(kw_only=True)
class Known:
    """One known thing about a rollout: its result, or an output whose score is owed."""

    record: RolloutRecord | None = None
    kept: Kept | None = None
    source: Source = "store"


class Answers:
    """Looks rollouts up and keeps them.

    Scored results go into memory and into the cache; outputs that the metric failed on are kept beside them, so that
    scoring them later calls no model. What the run's earlier life found (`earlier`) counts before the cache, which may
    change meanwhile (R13). The cache may fail, hang or answer what is none: that is logged once, and it is asked no
    more, since waiting for it again and again would cost more than it saves.
    """

    def __init__(self, cache: abc.Cache | None, config: EngineConfig, earlier: Find | None = None) -> None:
        self._cache, self._config, self._earlier = cache, config, earlier
        self._memory, self._parts = TraceMemory(config.max_trace_bytes), Parts()
        self._records: dict[str, RolloutRecord] = {}
        self._kept: dict[str, Kept] = {}

    def __len__(self) -> int:
        return len(self._records)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known."""
        return not self._records

    def get(self, key: str) -> Eval | None:
        """Give the eval that is known under a key of the seed's recipe; None where there is none."""
        record = self._records.get(key)
        return None if record is None else record.eval

    @property
    def records(self) -> Mapping[str, RolloutRecord]:
        """Every result that is known, by key."""
        return MappingProxyType(self._records)

    def restore(self, records: Mapping[str, RolloutRecord]) -> None:
        """Take in results that another engine has known, by key."""
        self._records.update(records)

    def recall(self, key: str, traces: bool) -> RolloutRecord | None:
        """Give a result that is in memory; with `traces`, one that has its trace."""
        record = self._records.get(key)
        return record if record is None or _serves(record, traces) else None

    async def look_up(self, identities: Sequence[Identity], target: abc.Target, traces: bool) -> dict[str, Known]:
        """Give what is known beside the results in memory, by key.

        With `traces`, a result stored without its trace does not count.
        """
        found: dict[str, Known] = {}
        missing: dict[str, Identity] = {}
        for identity in identities:
            kept = self._kept.get(identity.output_key) if self._kept else None
            if kept is not None:
                found[identity.key] = Known(kept=kept)
            else:
                missing[identity.key] = identity
        if self._earlier is not None and missing:
            for key, landed in (await self._earlier(list(missing), traces=traces)).items():
                self._remember(key, landed.record)
                found[key] = Known(record=landed.record)
                del missing[key]
        shared = [identity for identity in missing.values() if not identity.baseline.volatile]
        if self._cache is not None and shared:
            await self._from_cache(shared, target, traces, found)
        return found

    async def keep(
        self, identity: Identity, record: RolloutRecord, bare: RolloutRecord, prediction: Any, target: abc.Target
    ) -> None:
        """Keep what landed, as far as it may be served again: failures of the infrastructure are not.

        `bare` is the record as it is stored: without its trace, where traces are not kept.
        """
        output = record.owes_score
        if not output and (record.eval is None or not record.status.scored):
            return
        if output:
            await self.keep_outputs([(identity, record, prediction)], target)
            return
        self._memory.keep(self._records, identity.key, bare)
        if self._kept:
            self._kept.pop(identity.output_key, None)
        if self.lasts(identity):
            await self._put(self._parts.apart(identity.key, identity.check(), bare))

    async def keep_outputs(
        self, landed: Sequence[tuple[Identity, RolloutRecord, Any]], target: abc.Target
    ) -> None:
        """Keep outputs without their scores: a mended metric scores them, and no model is called."""
        entries: list[abc.CacheRecord] = []
        for identity, record, prediction in landed:
            owed = attrs.evolve(record, eval=None)
            self._kept[identity.output_key] = Kept(prediction=prediction, record=owed)
            if self.lasts(identity) and _revivable(target, record, prediction):
                entries += self._parts.apart(identity.output_key, identity.check(output=True), owed)
        if entries:
            await self._put(entries)

    def lasts(self, identity: Identity) -> bool:
        """Whether what is kept outlives this engine."""
        return self._cache is not None and not identity.baseline.volatile

    async def _put(self, entries: list[abc.CacheRecord]) -> None:
        assert self._cache is not None
        try:
            with trio.fail_after(CACHE_PATIENCE, shield=True):
                await self._cache.put_many(abc.CachePut(records=tuple(entries)))
        except BaseException as error:
            self._give_up(error)

    async def _from_cache(
        self, identities: list[Identity], target: abc.Target, traces: bool, found: dict[str, Known]
    ) -> None:
        """Look for scores, and for outputs whose score is owed; those are read only where there is no score."""
        checks = {identity.key: identity.check() for identity in identities}
        traced = traces or self._config.keep_traces != "none"
        entries, kept = await self._fetch(checks, [identity.output_key for identity in identities], traced=traced)
        outputs: dict[str, Identity] = {}
        for identity in identities:
            key = identity.key
            record = _read(entries.get(key), checks[key], kept.get(key))
            if record is not None and record.eval is not None and _serves(record, traces):
                self._remember(key, record)
                found[key] = Known(record=record, source="cache")
            elif identity.output_key in entries:
                outputs[identity.output_key] = identity
        checks = {key: identity.check(output=True) for key, identity in outputs.items()}
        entries, kept = await self._fetch(checks, traced=True)  # once more: the metric may look at the traces
        for key, identity in outputs.items():
            owed = _read(entries.get(key), checks[key], kept.get(key))
            if owed is not None and owed.owes_score and _serves(owed, traces=True):
                with suppress(Exception):  # the program has changed its mind about its outputs: it runs again
                    found[identity.key] = Known(kept=Kept(prediction=revive(target, owed), record=owed))

    def _remember(self, key: str, record: RolloutRecord) -> None:
        lasting = record if self._config.keeps_trace(record) else record.without_trace()
        self._memory.keep(self._records, key, lasting)

    async def _fetch(
        self, checks: Mapping[str, str], more: Sequence[str] = (), *, traced: bool
    ) -> tuple[Mapping[str, abc.CacheRecord], Mapping[str, Trace]]:
        """Ask the cache for records, by key with their check, and their traces, and for `more`; none where it fails."""
        if self._cache is None or not checks:
            return {}, {}
        wanted = dict.fromkeys([*checks, *more, *(key + abc.TRACE_KEY for key in checks if traced)])
        try:
            with trio.fail_after(CACHE_PATIENCE):
                entries = records_of(await self._cache.get_many(abc.CacheGet(keys=tuple(wanted))), wanted)
                return entries, await self._parts.traces(self._cache, checks.items() if traced else (), entries)
        except BaseException as error:
            self._give_up(error)
            return {}, {}

    def _give_up(self, error: BaseException) -> None:
        stop = stops(error)
        if stop is not None:
            raise stop from None
        if self._cache is not None:
            late = isinstance(error, trio.TooSlowError)
            why = f"no answer within {CACHE_PATIENCE:g} s" if late else first_line(error)
            log.warning("the cache failed; the run goes on without it", error=why)
            self._cache = None


def _serves(record: RolloutRecord, traces: bool) -> bool:
    return not traces or record.trace is not None or record.spans == 0


def _read(entry: abc.CacheRecord | None, check: str, trace: Trace | None) -> RolloutRecord | None:
    """Decode an entry; one that is damaged, or that stands for something else, is no answer."""
    if entry is None or entry.check != check:
        return None
    try:
        record = loads(entry.body, RolloutRecord)
    except StoreError:
        return None
    return record if trace is None else attrs.evolve(record, trace=trace)


def _revivable(target: abc.Target, record: RolloutRecord, prediction: Any) -> bool:
    """Say whether the metric would see the same output again: a date that comes back as text is another one."""
    if hasattr(target, "load_prediction"):
        return record.output is not None
    return prediction is not None and _is_json(prediction)


def _is_json(value: Any) -> bool:
    if type(value) is dict:
        return all(type(key) is str and _is_json(item) for key, item in value.items())
    if type(value) is list:
        return all(_is_json(item) for item in value)
    return type(value) in (str, int, float, bool, type(None))


def revive(target: abc.Target, record: RolloutRecord) -> Any:
    """Give the prediction of a record that was made elsewhere, as the metric takes it."""
    load = getattr(target, "load_prediction", None)
    return record.output if load is None else load(record.output)
