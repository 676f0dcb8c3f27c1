"""The built-ins and the test models pass the conformance kit that third parties run."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import attrs

from burnish import abc
from burnish._builtin.jsonl import open_jsonl
from burnish._builtin.memory import open_memory
from burnish._builtin.meter import MeterOptions, StandardMeter, open_standard
from burnish._builtin.sqlite import open_sqlite
from burnish._model import codec
from burnish._model.events import Event
from burnish.errors import ModelAuthError, ModelError, ModelRateLimitError, ModelServerError
from burnish.testing import ScriptedModel
from burnish.testing.conformance import CacheConformance, MeterConformance, ModelConformance, SinkConformance


class TestMemoryCache(CacheConformance):
    """`cache.memory` is a cache (E31)."""

    def open(self, tmp_path: Path) -> AbstractAsyncContextManager[abc.Cache]:
        return open_memory(None, abc.Environment(base_dir=tmp_path))


class TestSqliteCache(CacheConformance):
    """`cache.sqlite` is a persistent, shared cache (E31)."""

    capabilities = frozenset({"persistent", "shared"})

    def open(self, tmp_path: Path) -> AbstractAsyncContextManager[abc.Cache]:
        return open_sqlite(None, abc.Environment(base_dir=tmp_path))


class TestStandardMeter(MeterConformance):
    """`meter.standard` is a meter; time is what the test says it is."""

    now = 0.0
    short_ttl = 60.0

    def open(self, tmp_path: Path) -> AbstractAsyncContextManager[StandardMeter]:
        caps = MeterOptions(**attrs.asdict(self.caps))
        return open_standard(caps, abc.Environment(base_dir=tmp_path), clock=lambda: self.now)

    async def wait(self, seconds: float) -> None:
        self.now += seconds


class TestStandardMeterOnTheRealClock(MeterConformance):
    """`meter.standard` is a meter with the clock that runs have."""

    def open(self, tmp_path: Path) -> AbstractAsyncContextManager[StandardMeter]:
        return open_standard(MeterOptions(**attrs.asdict(self.caps)), abc.Environment(base_dir=tmp_path))


class TestJsonlSink(SinkConformance):
    """`sink.jsonl` takes each number of a run once, over restarts too."""

    capabilities = frozenset({"persistent", "readable", "deduplicates"})

    def open(self, tmp_path: Path) -> AbstractAsyncContextManager[abc.Sink]:
        return open_jsonl(None, abc.Environment(base_dir=tmp_path))

    async def delivered(self, tmp_path: Path) -> Sequence[tuple[str, int, Event]]:
        lines = [json.loads(line) for line in (tmp_path / "events.jsonl").read_bytes().splitlines()]
        structure = codec.converter().structure
        return [(x["run"], x["n"], structure(x["event"], Event)) for x in lines]  # type: ignore[arg-type]


class TestScriptedModel(ModelConformance):
    """`burnish.testing.ScriptedModel` is a model, so that tests with it hold for others."""

    capabilities = frozenset({"echoes", "deterministic", "fails", "stalls", "counted"})
    failures = (ModelAuthError, ModelRateLimitError, ModelServerError)
    model = ScriptedModel([])

    @asynccontextmanager
    async def _serve(self, model: ScriptedModel) -> AsyncIterator[ScriptedModel]:
        self.model = model
        yield model

    def open(self, tmp_path: Path) -> AbstractAsyncContextManager[ScriptedModel]:
        return self._serve(ScriptedModel(lambda request: request.messages[-1].content))

    def open_failing(self, tmp_path: Path, error: type[ModelError]) -> AbstractAsyncContextManager[ScriptedModel]:
        return self._serve(ScriptedModel([error("as the test wants it")]))

    def open_stalled(self, tmp_path: Path) -> AbstractAsyncContextManager[ScriptedModel]:
        return self._serve(ScriptedModel(["never"], delay=float("inf")))

    def requests_seen(self) -> int:
        return self.model.calls
