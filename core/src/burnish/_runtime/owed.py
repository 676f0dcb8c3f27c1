"""What plugins owe: an answer of theirs is looked at before anything is built on it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from burnish import abc
from burnish._model.outcome import RolloutRecord


def shown(value: Any) -> str:
    """Show a value in at most 80 characters, whatever its own `repr` does."""
    try:
        return f"{value!r:.80}"
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"


def records_of(answer: Any, keys: Collection[str]) -> dict[str, abc.CacheRecord]:
    """Take the answer of a cache's `get_many`: records of these keys, each under its own. Raises `TypeError`.

    A cache that answers anything else mixes up or invents, so nothing else of its answer counts either.
    """
    if not isinstance(answer, Mapping):
        raise TypeError(f"get_many gave {shown(answer)} instead of a mapping from keys to CacheRecords")
    found = dict(answer)
    for key, record in found.items():
        if not isinstance(record, abc.CacheRecord):
            raise TypeError(f"get_many gave {shown(record)} instead of a CacheRecord; what is not there is left out")
        if record.key != key or key not in keys:
            raise TypeError(f"get_many gave a record of {shown(record.key)} under {shown(key)}; see what was asked for")
        if not (isinstance(record.check, str) and isinstance(record.body, str)):
            raise TypeError(f"get_many gave {shown(record)}, whose check and body are not both text")
    return found


def refusal_of(answer: Any, request: abc.Lease) -> str | None:
    """Take the answer of a meter's `lease`: the cap that ran out, or None for a grant. Raises `TypeError`."""
    if isinstance(answer, abc.Grant) and answer.key == request.key:
        return None
    if isinstance(answer, abc.Exhausted) and isinstance(answer.cap, str):
        return answer.cap
    raise TypeError(f"it answered {shown(answer)}, which is neither a Grant of this lease nor Exhausted")


def record_of(answer: Any, trace_id: str) -> RolloutRecord:
    """Take the answer of an executor's `run`: a record, and no other rollout's. Raises `TypeError`."""
    if not isinstance(answer, RolloutRecord):
        raise TypeError(f"it gave {shown(answer)} instead of a RolloutRecord")
    traced = "" if answer.trace is None else answer.trace.meta.trace_id
    if traced not in ("", trace_id):
        raise TypeError(f"it gave the record of another rollout, {shown(traced)} instead of {trace_id!r}")
    return answer
