"""What an engine's configuration takes."""

from __future__ import annotations

from typing import Any

import pytest

from burnish import EngineConfig
from burnish.errors import UsageError

WRONG: list[tuple[str, Any]] = [
    *(("failure_score", value) for value in (float("nan"), float("inf"), "0", None, True)),
    *(("concurrency", value) for value in (2.5, "4", None, True)),
    *(("rollout_timeout", value) for value in (0, -1.0, float("nan"), float("inf"), "1", True)),
    *(("cache_salt", value) for value in (-1, 2**64, 1.0, "x", True)),
    *(("max_failures_in_row", value) for value in (0, 1.5, "1")),
    ("keep_traces", "some"),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_value_that_cannot_be_meant_is_refused(name: str, value: Any) -> None:
    """A usage error names the setting, what it takes and what it got, before anything is spent."""
    with pytest.raises(UsageError, match=f"EngineConfig: {name} must be .*; it is "):
        EngineConfig(**{name: value})


def test_what_can_be_meant_is_taken() -> None:
    """E10: a concurrency below 1 is 1; the salt has 64 bits; scores may be negative, times parts of a second."""
    config = EngineConfig(concurrency=-3, cache_salt=2**64 - 1, failure_score=-1, rollout_timeout=0.5)
    assert (1, 2**64 - 1, -1, 0.5) == (
        config.concurrency,
        config.cache_salt,
        config.failure_score,
        config.rollout_timeout,
    )
