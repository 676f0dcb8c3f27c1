"""Labels that a program can never give: its output is one of some choices, and the rows have another value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from burnish.abc import Target
from burnish_cli.split import Row, Splits, as_text


def impossible_labels(target: Target, splits: Splits) -> Iterator[str]:
    """Name label values that an output declared as `Literal[...]` does not have, each output once."""
    rows = [*splits.train, *splits.val, *splits.test]
    for name, choices in _choices(getattr(target, "program", target)):
        strange = [row for row in rows if name in row.values and not _fits(row, name, choices)]
        if strange:
            yield _told(name, choices, strange)


def outputs_of(target: Target) -> tuple[str, ...] | None:
    """Name the outputs of a signature's, a prompt's or a file's program; None for others, of which nobody knows."""
    names = [getattr(field, "name", None) for field in _outputs(getattr(target, "program", target))]
    return tuple(name for name in names if isinstance(name, str)) or None


def _outputs(program: Any) -> list[Any]:
    signature = getattr(program, "signature", None) or getattr(program, "sig", None)
    return list(getattr(signature, "outputs", None) or [getattr(program, "output", None)])


def _choices(program: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for field in _outputs(program):
        values = getattr(getattr(field, "type", None), "values", None)
        if isinstance(values, tuple):
            yield field.name, values


def _fits(row: Row, name: str, choices: tuple[Any, ...]) -> bool:
    return as_text(row.values[name]) in {as_text(choice) for choice in choices}


def _told(name: str, choices: tuple[Any, ...], strange: list[Row]) -> str:
    values = list(dict.fromkeys(as_text(row.values[name]) for row in strange))
    others = f" and {len(values) - 1} more" if len(values) > 1 else ""
    first = min(strange, key=lambda row: (row.file, row.line))
    declared = ", ".join(map(repr, choices))
    return (
        f"the label `{name}` is {as_text(first.values[name])!r:.60}{others} ({first.where}), which the program's "
        f"Literal[{declared:.200}] does not have: its output can never equal that"
    )
