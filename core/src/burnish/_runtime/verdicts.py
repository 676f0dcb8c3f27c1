"""What a finished evaluation says of its metric and of its candidates."""

from __future__ import annotations

from collections.abc import Callable

from burnish._model.outcome import RolloutStatus
from burnish._runtime.batch import Item
from burnish.errors import MetricError


def metric_failed(wanted: list[Item]) -> Item | None:
    """Give the first rollout that is unscored because the metric failed on it."""
    for item in wanted:
        fault = None if item.record is None else item.record.fault
        if fault is not None and fault.where == "metric":
            return item
    return None


def metric_error(unscored: Item, row_name: Callable[[int], str] | None, *, lasting: bool) -> MetricError:
    """Say on which row the metric failed, and what of the paid outputs is kept.

    `lasting`: a cache holds them. With `row_name` the engine ends with its run, without it the caller may go on.
    """
    assert unscored.record is not None
    row = f"row {unscored.column}" if row_name is None else row_name(unscored.column)
    kept = "the outputs are kept by this engine: mend the metric, evaluate again, and no model is called for them"
    if lasting:
        kept = "the outputs are kept in the cache: mend the metric, run again, and no model is called for them"
    elif row_name is not None:
        kept = "its outputs end with this run: only what a cache holds is not paid again"
    fault = unscored.record.fault
    return MetricError(
        f"{'' if fault is None else fault.message} ({row}, candidate {unscored.candidate}); {kept}",
        row=unscored.column,
        candidate=unscored.candidate,
    )


def unread(wanted: list[Item]) -> list[int]:
    """Give the candidates whose change no rollout read.

    A rollout whose program failed says nothing: it may have failed before it would have read anything.
    """
    read: dict[int, bool] = {}
    for item in wanted:
        changed = item.identity.candidate.overlays
        if changed and item.leads and item.record is not None and item.record.status is RolloutStatus.SUCCEEDED:
            seen = any(name in changed for name in item.record.rendered)
            read[item.candidate] = read.get(item.candidate, False) or seen
    return [candidate for candidate, seen in read.items() if not seen]
