"""The log: structlog's, imported with the first line, and no fact is lost by that."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest
import structlog
from structlog.testing import capture_logs

from burnish._runtime.log import Log, bound


@pytest.fixture
def unconfigured() -> Iterator[None]:
    """Leave structlog as it was: `capture_logs` leaves it configured, with what it had by default."""
    before = structlog.get_config() if structlog.is_configured() else None
    yield
    structlog.reset_defaults()
    if before is not None:
        structlog.configure(**before)


@pytest.mark.usefixtures("unconfigured")
def test_lines_go_through_structlog_with_what_is_bound() -> None:
    """Name, event and facts arrive; bound facts are added inside the block only, inner ones win, a line's own first."""
    log = Log("burnish")
    with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        with bound(run="r", candidate=1):
            with bound(candidate=2):
                log.warning("inner", example=3)
                log.info("own", candidate=4)
                structlog.get_logger("user").info("theirs")
            log.warning("outer")
        log.warning("after")
    assert [
        {"event": "inner", "log_level": "warning", "run": "r", "candidate": 2, "example": 3},
        {"event": "own", "log_level": "info", "run": "r", "candidate": 4},
        {"event": "theirs", "log_level": "info", "run": "r", "candidate": 2},
        {"event": "outer", "log_level": "warning", "run": "r", "candidate": 1},
        {"event": "after", "log_level": "warning"},
    ] == lines


@pytest.mark.slow
def test_what_is_bound_before_structlog_is_there_is_not_lost() -> None:
    """The first line of a process imports structlog, inside a block that was entered without it."""
    script = """
        import sys
        from burnish._runtime.log import bound, log

        with bound(run="r"):
            assert "structlog" not in sys.modules
            log.warning("first")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    assert "first" in done.stdout
    assert "run=r" in done.stdout
