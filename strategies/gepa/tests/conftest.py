"""Fixtures of this distribution's tests."""

from __future__ import annotations

import pytest
from trio.testing import MockClock


@pytest.fixture
def autojump_clock() -> MockClock:
    """Make time jump to the next deadline whenever all tasks wait: rollouts of any length take none."""
    return MockClock(autojump_threshold=0)
