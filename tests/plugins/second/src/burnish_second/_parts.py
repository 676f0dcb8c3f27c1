"""The four components. Each writes down what it was asked, so that a test sees what went through it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from burnish import RolloutRecord, abc


class CountingExecutor:
    """Runs each rollout here, and knows which ones it was given."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    async def run(self, rollout: abc.Rollout) -> RolloutRecord:
        self.keys.append(rollout.key)
        return await rollout.here()


@attrs.frozen(kw_only=True)
class QuotaOptions:
    """Options of `meter.second`: how much may be granted in all, by unit; None: any amount."""

    metric_calls: int | None = None
    lm_calls: int | None = None
    requests: int | None = None
    tokens: int | None = None


class QuotaMeter:
    """Grants out of a quota; what a lease did not use comes back with its release, an unreleased one after its time."""

    def __init__(self, quota: QuotaOptions) -> None:
        self.asked: list[abc.Lease] = []
        self.released: list[tuple[str, abc.Amount]] = []
        self._quota: dict[str, int | None] = attrs.asdict(quota)
        self._used = dict.fromkeys(self._quota, 0)
        self._held: dict[str, tuple[abc.Amount, float]] = {}

    async def lease(self, request: abc.Lease) -> abc.Grant | abc.Exhausted:
        await trio.lowlevel.checkpoint()
        self._expire()
        self.asked.append(request)
        if request.key not in self._held:
            for unit, quota in self._quota.items():
                wanted = getattr(request.amount, unit)
                if quota is not None and wanted and self._used[unit] + wanted > quota:
                    return abc.Exhausted(cap=unit, remaining=self._left())
            self._count(request.amount, 1)
        self._held[request.key] = (request.amount, trio.current_time() + request.ttl)
        return abc.Grant(key=request.key)

    async def release(self, key: str, unused: abc.Amount) -> None:
        await trio.lowlevel.checkpoint()
        self._expire()
        self.released.append((key, unused))
        if key in self._held:
            granted, _ = self._held.pop(key)
            back = {unit: min(getattr(granted, unit), getattr(unused, unit)) for unit in self._used}
            self._count(abc.Amount(**back), -1)

    def _expire(self) -> None:
        now = trio.current_time()
        for key in [key for key, (_, until) in self._held.items() if until <= now]:
            self._count(self._held.pop(key)[0], -1)

    def _count(self, amount: abc.Amount, sign: int) -> None:
        for unit in self._used:
            self._used[unit] += sign * getattr(amount, unit)

    def _left(self) -> abc.Amount:
        return abc.Amount(**{unit: 0 if q is None else q - self._used[unit] for unit, q in self._quota.items()})


class DictCache:
    """Keeps each record as one JSON text, as a store elsewhere would: no object of burnish survives in it."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.asked: list[str] = []
        self.written: list[str] = []
        self.served: list[str] = []

    async def get_many(self, request: abc.CacheGet) -> Mapping[str, abc.CacheRecord]:
        self.asked += request.keys
        texts = {key: self.texts[key] for key in request.keys if key in self.texts}
        found = await trio.to_thread.run_sync(_decoded, texts)
        self.served += found
        return found

    async def put_many(self, request: abc.CachePut) -> None:
        self.texts |= await trio.to_thread.run_sync(_encoded, request.records)
        self.written += [record.key for record in request.records]


def _decoded(texts: Mapping[str, str]) -> dict[str, abc.CacheRecord]:
    return {key: abc.CacheRecord(**json.loads(text)) for key, text in texts.items()}


def _encoded(records: Sequence[abc.CacheRecord]) -> dict[str, str]:
    return {record.key: json.dumps(attrs.asdict(record)) for record in records}


class CollectingSink:
    """Keeps what is delivered."""

    def __init__(self) -> None:
        self.deliveries: list[abc.Delivery] = []

    async def deliver(self, batch: abc.Delivery) -> None:
        await trio.lowlevel.checkpoint()
        self.deliveries.append(batch)


@asynccontextmanager
async def open_executor(options: None, env: abc.Environment) -> AsyncIterator[CountingExecutor]:
    yield CountingExecutor()


@asynccontextmanager
async def open_meter(options: QuotaOptions, env: abc.Environment) -> AsyncIterator[QuotaMeter]:
    yield QuotaMeter(options)


@asynccontextmanager
async def open_cache(options: None, env: abc.Environment) -> AsyncIterator[DictCache]:
    yield DictCache()


@asynccontextmanager
async def open_sink(options: None, env: abc.Environment) -> AsyncIterator[CollectingSink]:
    yield CollectingSink()
