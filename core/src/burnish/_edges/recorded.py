"""The traces of a recorded run."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from burnish._edges.run_dir import STORE_FILE
from burnish._model.events import RolloutLanded, Split
from burnish._model.trace import Trace
from burnish._runtime.run_store import read_events


def of_run(run: str | PathLike[str], split: Split | None = None) -> list[Trace]:
    """Give the traces of a run's rollouts, each once, in the order that they landed.

    `run` is its directory, or the `run.db` in it; `split` leaves only those of the search or of the final test.
    Raises `StoreError` where it cannot be read. Reads the whole run: not for the event loop's thread.
    """
    path = Path(run)
    found: dict[str, Trace] = {}
    for event in read_events(path / STORE_FILE if path.is_dir() else path):
        if isinstance(event, RolloutLanded) and event.record.trace is not None and split in (None, event.split):
            found.setdefault(event.record.trace.meta.trace_id, event.record.trace)
    return list(found.values())
