"""The seed's in-memory rollout cache, which is a cache plugin like any other at the same time (seed 000; E31-E35)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import trio

from burnish._model import codec
from burnish._model.evals import Eval
from burnish._model.outcome import RolloutRecord, RolloutStatus
from burnish.abc import CacheGet, CachePut, CacheRecord, is_rollout
from burnish.errors import StoreError


class RolloutCache:
    """Keep rollouts by key, in memory, for as long as the object lives.

    Two faces over one table: `get` and `insert` are the seed's, in `Eval`s and sync; `get_many` and `put_many` are
    those of `burnish.abc.Cache`, in records. A record holds a `RolloutRecord` as JSON (`burnish._model.codec`); what
    is asked for again is decoded once. Not for several threads at once.
    """

    def __init__(self) -> None:
        self._records: dict[str, CacheRecord] = {}
        self._parts: dict[str, CacheRecord] = {}
        """What belongs to rollouts: their traces, and the beginnings of their prompts."""
        self._decoded: dict[str, tuple[CacheRecord, RolloutRecord | None]] = {}

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, key: object) -> bool:
        return key in self._records

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __repr__(self) -> str:
        return f"<RolloutCache of {len(self._records)} rollouts>"

    @property
    def is_empty(self) -> bool:
        """Whether it holds nothing."""
        return not self._records

    # --- the seed's face ---------------------------------------------------------------------------------------

    def get(self, key: str) -> Eval | None:
        """Give the eval stored under a key; None where there is none, it is unscored, or it cannot be read."""
        record = self.rollout(key)
        return None if record is None else record.eval

    def insert(self, key: str, eval: Eval) -> None:
        """Store an eval as a rollout that succeeded; the last one of a key wins."""
        body = codec.dumps(RolloutRecord(status=RolloutStatus.SUCCEEDED, eval=eval))
        self._records[key] = CacheRecord(key=key, check="", body=body)

    def rollout(self, key: str) -> RolloutRecord | None:
        """Give the rollout stored under a key, without its trace; None where there is none or its text is damaged."""
        stored = self._records.get(key)
        if stored is None:
            return None
        known = self._decoded.get(key)
        if known is not None and known[0] is stored:
            return known[1]
        try:
            record = codec.loads(stored.body, RolloutRecord)
        except StoreError:
            record = None
        self._decoded[key] = (stored, record)
        return record

    # --- the plugin's face -------------------------------------------------------------------------------------

    async def get_many(self, request: CacheGet) -> Mapping[str, CacheRecord]:
        """Give the records it has, by key. Cancelled, it has read nothing."""
        await trio.lowlevel.checkpoint()
        records, parts = self._records, self._parts
        found = ((key, records.get(key) or parts.get(key)) for key in request.keys)
        return {key: record for key, record in found if record is not None}

    async def put_many(self, request: CachePut) -> None:
        """Store all records at once; the last one of a key wins. Cancelled, it has stored nothing."""
        await trio.lowlevel.checkpoint()
        for record in request.records:
            (self._records if is_rollout(record.key) else self._parts)[record.key] = record
