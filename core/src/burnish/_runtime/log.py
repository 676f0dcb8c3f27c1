"""The log of burnish: structlog, imported when there is something to say.

structlog brings rich along where that is installed, and takes longer to import than everything else together; most runs
log nothing. Facts that are bound meanwhile are kept here and handed over with the first line.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

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


class _Bound:
    """Binds facts, in the user's structlog too where it is loaded; once a rollout, so no generator is made for it."""

    __slots__ = ("_facts", "_mine", "_theirs")

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self._facts = facts

    def __enter__(self) -> None:
        self._mine = _bound.set({**_bound.get(), **self._facts})
        structlog = sys.modules.get("structlog")
        self._theirs = None if structlog is None else structlog.contextvars.bind_contextvars(**self._facts)

    def __exit__(self, *_: object) -> None:
        _bound.reset(self._mine)
        if self._theirs is not None:
            sys.modules["structlog"].contextvars.reset_contextvars(**self._theirs)


def bound(**facts: Any) -> AbstractContextManager[None]:
    """Add facts to every line that is logged inside the block, the user's own lines through structlog included."""
    return _Bound(facts)


log = Log("burnish")
