"""The embedded model, in memory once for all tests of the session."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest

from burnish import Environment
from burnish_llamacpp import LlamaOptions
from burnish_llamacpp._server import Loaded, load


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    """Give an environment with a cache of its own, without the weights afterwards: they are 250 MB."""
    cache = tmp_path_factory.mktemp("cache")
    yield Environment(cache_dir=cache, base_dir=cache)
    for path in (cache / "llamacpp").glob("*.gguf"):
        path.unlink()


@attrs.define
class _Memory:
    loaded: Loaded | None = None


@pytest.fixture(scope="session")
def loaded(environment: Environment) -> Iterator[Loaded]:
    """Load gemma3-270m with a context of 512 tokens."""
    memory = _Memory(load(LlamaOptions(context=512, max_tokens=4), environment))
    assert memory.loaded is not None
    yield memory.loaded
    memory.loaded = None
