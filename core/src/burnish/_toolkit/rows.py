"""Which rows demos may come from, and which rows candidates are compared on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from burnish._toolkit.demos import row_label
from burnish.errors import UsageError

if TYPE_CHECKING:
    from random import Random

    from burnish.abc import Problem


@attrs.frozen(kw_only=True)
class Separation:
    """Columns for learning and columns for scoring."""

    sources: tuple[int, ...]
    """Demos come from these, in the order of the train rows."""
    scoring: tuple[int, ...]
    """Candidates are compared on these."""
    shared: tuple[int, ...] = ()
    """Train columns whose row is a validation row too, and which therefore give no demos."""
    leave_one_out: bool = False
    """Whether both are the same rows: then each is scored without the demos that were made from it."""
    notes: tuple[str, ...] = ()


def separate(problem: Problem, *, share: float | None, purpose: str, most: int | None = None) -> Separation:
    """Keep the rows that demos come from apart from the rows that candidates are compared on.

    Rows are the same where the program sees the same of them (`Example.source`), whatever their ids and labels. Train
    rows that are validation rows too give no demos. Without validation rows of their own (none given, or every
    train row is one) a `share` of the train rows, drawn from `problem.rng(purpose)` in proportion to their labels, is
    kept for scoring, at most `most`; with `share=None`, or a single row, all rows serve both and each is scored without
    the demos made from it. Equal rows stay on one side. Raises `UsageError` where there is no train row.
    """
    if not problem.train:
        raise UsageError("the trainset is empty: demos are made from its rows; pass at least one")
    rows = [problem.example(column).source for column in problem.train]
    validation = {problem.example(column).source for column in problem.val}
    free = tuple(c for c, row in zip(problem.train, rows, strict=True) if row not in validation)
    if problem.val and free:
        shared = tuple(c for c, row in zip(problem.train, rows, strict=True) if row in validation)
        return Separation(sources=free, scoring=problem.val, shared=shared, notes=_shared_note(problem, shared))
    kept = _kept_for_scoring(problem, share, most, problem.rng(purpose)) if share is not None else {}
    if not kept:
        note = "demos come from the rows that candidates are scored on; each row is scored without its own demos"
        return Separation(
            sources=problem.train, scoring=problem.val or problem.train, leave_one_out=True, notes=(note,)
        )
    sources = tuple(c for c in problem.train if problem.example(c).source not in kept)
    given = {problem.example(c).source for c in sources}
    scoring = tuple(c for c in problem.val or problem.train if problem.example(c).source not in given)
    note = (
        f"no validation rows apart from the train rows: {len(problem.train) - len(sources)} of the "
        f"{len(problem.train)} train rows were kept for scoring, and no demo comes from them"
    )
    return Separation(sources=sources, scoring=scoring, notes=(note,))


def _shared_note(problem: Problem, shared: Sequence[int]) -> tuple[str, ...]:
    if not shared:
        return ()
    rows = [str(problem.train.index(column)) for column in shared]
    listed = ", ".join(rows[:10]) + (", ..." if len(rows) > 10 else "")
    return (
        f"{len(rows)} of the {len(problem.train)} train rows are validation rows too and give no demos: "
        f"train rows {listed}",
    )


def _kept_for_scoring(problem: Problem, share: float, most: int | None, rng: Random) -> Mapping[str, None]:
    """Choose the contents that are kept for scoring: a share of each label, at least one content on either side."""
    groups: dict[str | None, dict[str, None]] = {}
    for column in problem.train:
        example = problem.example(column)
        groups.setdefault(row_label(example, problem.parameters), {})[example.source] = None
    contents = sum(map(len, groups.values()))
    wanted = min(max(1, round(share * contents)), contents - 1, contents if most is None else most)
    kept: dict[str, None] = {}
    seen = 0
    for group in groups.values():
        # what of the share is due up to here, less what was taken: small groups add up instead of rounding to nothing
        seen += len(group)
        due = round(wanted * seen / contents) - len(kept)
        kept.update(dict.fromkeys(rng.sample(list(group), min(due, len(group)))))
    return kept
