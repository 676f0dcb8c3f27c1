"""The second distribution's parts pass the conformance kit: what tests the seams keeps its word itself."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs

from burnish import abc
from burnish.testing.conformance import CacheConformance, MeterConformance, SinkConformance

SOURCE = Path(__file__).parent / "second" / "src" / "burnish_second" / "_parts.py"


def load() -> ModuleType:
    """Import the module from its source, outside any package and without a place in `sys.modules`."""
    spec = importlib.util.spec_from_file_location("parts_of_burnish_second", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


parts: Any = load()


class TestDictCache(CacheConformance):
    """A dict of JSON texts is a cache; each directory has its own."""

    def open(self, tmp_path: Path) -> AbstractAsyncContextManager[abc.Cache]:
        return parts.open_cache(None, abc.Environment(base_dir=tmp_path))  # type: ignore[no-any-return]


class TestQuotaMeter(MeterConformance):
    """A quota that expires what nobody gives back is a meter."""

    def open(self, tmp_path: Path) -> AbstractAsyncContextManager[abc.Meter]:
        options = parts.QuotaOptions(**attrs.asdict(self.caps))
        return parts.open_meter(options, abc.Environment(base_dir=tmp_path))  # type: ignore[no-any-return]


class TestCollectingSink(SinkConformance):
    """A list of deliveries is a sink."""

    @asynccontextmanager
    async def open(self, tmp_path: Path) -> AsyncIterator[abc.Sink]:
        async with parts.open_sink(None, abc.Environment(base_dir=tmp_path)) as sink:
            yield sink
