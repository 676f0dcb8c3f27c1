"""Run every `async def test_...` under trio: no pytest plugin needed."""

from __future__ import annotations

import inspect
import os
from collections.abc import Generator
from typing import Any

import pytest
from trio.testing import trio_test

# what the command line prints must not depend on who started the tests: it names itself as it was called
os.environ.pop("UV_RUN_RECURSION_DEPTH", None)


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, None]:
    """Wrap an async test so that trio runs it."""
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        pyfuncitem.obj = trio_test(pyfuncitem.obj)
    yield
