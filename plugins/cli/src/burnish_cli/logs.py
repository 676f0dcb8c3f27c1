"""What burnish and its plugins log while the command runs: told to the person, never mixed into the output."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import structlog

PLUMBING = ("event", "kind", "exc_info", "run")


@contextmanager
def logs_told(tell: Callable[[str], None]) -> Iterator[None]:
    """Give each warning and error that is logged inside the block to `tell`, as one line; drop the rest.

    structlog's configuration is the process's, so only the command changes it, and puts it back.
    """

    def processor(_: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if method in ("warning", "error", "critical", "exception"):
            facts = ", ".join(f"{key}={value}" for key, value in event.items() if key not in PLUMBING)
            tell(f"{event['event']}{f' ({facts})' if facts else ''}")
        raise structlog.DropEvent

    before = structlog.get_config() if structlog.is_configured() else None
    structlog.configure(processors=[processor], cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.reset_defaults()
        if before is not None:
            structlog.configure(**before)
