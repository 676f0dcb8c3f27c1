"""Fixtures of the tests of programs as data."""

from __future__ import annotations

import pytest
import trio.testing


@pytest.fixture
def autojump_clock() -> trio.testing.MockClock:
    """Time that jumps to the next deadline when all tasks wait; not for tests with worker threads."""
    return trio.testing.MockClock(autojump_threshold=0)
