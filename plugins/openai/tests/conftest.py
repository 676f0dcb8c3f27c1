"""Fixtures of this distribution's tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from ._server import Script, Server


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Script], Server]]:
    """Start loopback servers; the environment's proxies are out of the way."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    with ExitStack() as stack:
        yield lambda script: stack.enter_context(Server(script))
