"""The log of burnish: structlog, imported when there is something to say.

structlog brings rich along where that is installed, and takes longer to import than everything else together; most runs
log nothing. Facts that are bound meanwhile are kept here and handed over with the first line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

from burnish._runtime.within import Within

_bound: ContextVar[Mapping[str, Any]] = ContextVar("burnish_log", default={})  # noqa: B039 (never mutated)


class Log:
    """A logger by name. What it says goes through the process's structlog, as it is configured at that moment."""

    def __init__(self, name: str) -> None:
        self._name = name

    def info(self, event: str, **facts: Any) -> None:
        """Say what is worth knowing."""
        self._logger().info(event, **{**_bound.get(), **facts})

    def warning(self, event: str, **facts: Any) -> None:
        """Say that something is not as the user may think."""
        self._logger().warning(event, **{**_bound.get(), **facts})

    def _logger(self) -> Any:
        import structlog

        return structlog.get_logger(self._name)


def bound(**facts: Any) -> AbstractContextManager[None]:
    """Add facts to every line that is logged inside the block, the user's own lines through structlog included."""
    within = Within(None, (_bound, {**_bound.get(), **facts}))
    structlog = sys.modules.get("structlog")
    return within if structlog is None else _both(within, structlog.contextvars.bound_contextvars(**facts))


@contextmanager
def _both(first: AbstractContextManager[Any], second: AbstractContextManager[Any]) -> Iterator[None]:
    with first, second:
        yield


log = Log("burnish")
