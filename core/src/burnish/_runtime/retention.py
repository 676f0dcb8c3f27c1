"""What is kept of traces: how much of them in memory, and how they stand in a cache beside their rollouts.

A rollout is stored in parts, so that a cache may forget its trace and keep its score: the record without its trace
under the rollout's key, the trace under that key and `:trace`, and the beginnings of prompts (instruction and demos,
most of a trace's bytes and the same in hundreds of them) once each, under their content.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, MutableMapping
from contextlib import suppress

import attrs

from burnish import abc
from burnish._model import codec
from burnish._model.canonical import fingerprint
from burnish._model.lm import Message
from burnish._model.outcome import RolloutRecord
from burnish._model.trace import Exchange, Span, Trace
from burnish._runtime.owed import records_of
from burnish.errors import StoreError

MOST_NAMES = 4096
"""Beginnings of prompts that are known by name; beyond them all are written once more."""

Beginning = tuple[Message, ...]


class TraceMemory:
    """Keeps records in a table, and of the traces in them the latest `limit` bytes, about; None: all."""

    def __init__(self, limit: int | None) -> None:
        self._limit, self._total = limit, 0
        self._weights: dict[str, int] = {}

    def keep(self, records: MutableMapping[str, RolloutRecord], key: str, record: RolloutRecord) -> None:
        """Put a record in; the oldest traces go where there are too many bytes of them."""
        records[key] = record
        self._total -= self._weights.pop(key, 0)
        if record.trace is None or self._limit is None:
            return
        self._weights[key] = weight(record.trace)
        self._total += self._weights[key]
        while self._total > self._limit:
            oldest = next(iter(self._weights))
            self._total -= self._weights.pop(oldest)
            records[oldest] = attrs.evolve(records[oldest], trace=None)


def weight(trace: Trace) -> int:
    """Estimate the bytes of memory that a trace alone takes: not what it shares, as the beginnings of prompts."""
    return 1000 + sum(map(_weight_of_span, trace.spans))


def _weight_of_span(span: Span) -> int:
    texts = [message.content for message in span.suffix]
    texts += [event.text if isinstance(event, Exchange) else event.result for event in span.events]
    for values in (span.inputs, span.output or {}):
        texts += [value for value in values.values() if isinstance(value, str)]
    return 1000 + 2 * sum(map(len, texts))


@attrs.frozen(kw_only=True)
class _Stored:
    """A trace as a cache has it: without the beginnings of its prompts, which stand under their names."""

    prefixes: tuple[str, ...] = ()
    trace: Trace


class Parts:
    """Takes records apart for a cache, and puts them together again."""

    def __init__(self) -> None:
        self._names: dict[Beginning, str] = {}
        """Of those that were written here."""
        self._beginnings: dict[str, Beginning] = {}

    def apart(self, key: str, check: str, record: RolloutRecord) -> list[abc.CacheRecord]:
        """Give the cache records of a rollout; beginnings that were given before are not among them."""
        now, trace = time.time(), record.trace
        bare = codec.dumps(attrs.evolve(record, trace=None))
        parts = [abc.CacheRecord(key=key, check=check, body=bare, created=now)]
        if trace is not None:
            names = [self._name(prefix, parts, now) for prefix in trace.prefixes]
            body = codec.dumps(_Stored(prefixes=tuple(names), trace=attrs.evolve(trace, prefixes=())))
            parts.append(abc.CacheRecord(key=key + abc.TRACE_KEY, check=_tied(check, bare), body=body, created=now))
        return parts

    def _name(self, prefix: Beginning, parts: list[abc.CacheRecord], now: float) -> str:
        name = self._names.get(prefix)
        if name is None:
            body = codec.dumps(prefix, Beginning)
            name = fingerprint(body)
            self._make_room()
            self._names[prefix], self._beginnings[name] = name, prefix
            parts.append(abc.CacheRecord(key=abc.PREFIX_KEY + name, check=name, body=body, created=now))
        return name

    def _make_room(self) -> None:
        if len(self._beginnings) >= MOST_NAMES:
            self._forget()

    def _forget(self) -> None:
        self._names.clear()
        self._beginnings.clear()

    async def traces(
        self, cache: abc.Cache, wanted: Iterable[tuple[str, str]], entries: Mapping[str, abc.CacheRecord]
    ) -> dict[str, Trace]:
        """Give the traces of rollouts, of which `wanted` has key and check, as far as all their parts are there.

        `entries` are what the cache had under the rollouts' keys and those of their traces; the beginnings are asked
        for. A trace of another evaluation than the one whose score is stored does not count.
        """
        found: dict[str, _Stored] = {}
        for key, check in wanted:
            whole, part = entries.get(key), entries.get(key + abc.TRACE_KEY)
            if whole is not None and part is not None and part.check == _tied(check, whole.body):
                with suppress(StoreError):
                    found[key] = codec.loads(part.body, _Stored)
        names = dict.fromkeys(name for stored in found.values() for name in stored.prefixes)
        missing = tuple(abc.PREFIX_KEY + name for name in names if name not in self._beginnings)
        known = self._beginnings
        if missing:
            stored = records_of(await cache.get_many(abc.CacheGet(keys=missing)), missing)
            known = {**known, **self._take_in(missing, stored)}
        return {
            key: attrs.evolve(stored.trace, prefixes=tuple(known[name] for name in stored.prefixes))
            for key, stored in found.items()
            if all(name in known for name in stored.prefixes)
        }

    def _take_in(self, keys: tuple[str, ...], stored: Mapping[str, abc.CacheRecord]) -> dict[str, Beginning]:
        read: dict[str, Beginning] = {}
        for key in keys:
            entry = stored.get(key)
            if entry is not None and abc.PREFIX_KEY + fingerprint(entry.body) == key:
                with suppress(StoreError):
                    read[key.removeprefix(abc.PREFIX_KEY)] = codec.loads(entry.body, Beginning)
        if len(read) < len(keys):  # the cache forgets: what it was given before may be gone too, and is written again
            self._forget()
        self._make_room()
        self._beginnings.update(read)  # not `_names`: what others wrote may soon be too old, so it is written here too
        return read


def _tied(check: str, body: str) -> str:
    return fingerprint([check, body])
