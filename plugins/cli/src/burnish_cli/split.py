"""Rows of a program from a file's columns, and the split into train, validation and test.

The split is a function of the rows' content and the split seed alone. Within each stratum rows stand in the order of
a hash of seed and content, test rows are taken from its start, then validation, then train: the order of the file
plays no part, and rows added later move the others as little as a count allows.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import attrs

from burnish import load, row_digests
from burnish.abc import Json
from burnish.errors import UsageError
from burnish_cli.config import SPLITS, Config, DataConfig
from burnish_cli.data import DataFileError, Record, Table, read_table, require_columns

SplitName = Literal["train", "val", "test"]
TAKEN: tuple[SplitName, ...] = ("test", "val", "train")
"""The order in which splits choose: a test set does not move when another count changes."""


@attrs.frozen(kw_only=True)
class Row:
    """One row as program and metric see it, and where it came from."""

    values: Mapping[str, Json]
    """Inputs and labels by field."""
    inputs: str
    """Fingerprint of the inputs alone."""
    content: str
    """Fingerprint of inputs and labels."""
    stratum: str
    file: str
    line: int
    id: str | None = None

    @property
    def where(self) -> str:
        """Name the row for a person: by file and line."""
        return f"{self.file}:{self.line}"


@attrs.frozen(kw_only=True)
class Splits:
    """The rows of a run."""

    train: tuple[Row, ...]
    val: tuple[Row, ...]
    test: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    """What a user should know: rows left out, contradictions, empty labels."""
    untouched: bool = True
    """False where nobody knows whether a search has used some of the test rows."""

    def values(self, name: SplitName) -> list[dict[str, Json]]:
        """Give the rows of a split as mappings, the way `burnish.optimize` takes them."""
        return [dict(row.values) for row in getattr(self, name)]


def load_splits(config: Config) -> Splits:
    """Read and split the data that a configuration describes.

    Raises `DataFileError` naming file and line, or the number of rows there are where the counts do not fit.
    """
    data = config.data
    files: dict[str, list[Row]] = {}
    notes: list[str] = []
    for name in ("path", *SPLITS):
        source = getattr(data, name)
        if isinstance(source, str):
            table = read_table(config.resolve(source), data.format, data.delimiter)
            files[name] = list(unique(make_rows(table, data), data.duplicates, notes))
    chosen = {name: files[name] for name in SPLITS if name in files}
    if data.path is not None:
        shared = _left_out(chosen, files["path"], notes)
        chosen |= divide(shared, data, where=str(config.resolve(data.path)))
    splits = _finish(chosen, data, notes)
    return splits if data.unseen_by is None else _unseen(splits, config.resolve(data.unseen_by))


# --- rows --------------------------------------------------------------------------------------------------------


def make_rows(table: Table, data: DataConfig) -> list[Row]:
    """Map columns to fields. Raises `DataFileError` for a missing column and an id that stands twice."""
    extra = [name for name in (data.id, data.stratify) if name is not None]
    require_columns(table, [*data.inputs.values(), *data.labels.values(), *extra])
    rows = [_row(table, record, data) for record in table.records]
    if data.id is not None:
        _check_ids(rows, data.id)
    return rows


def _row(table: Table, record: Record, data: DataConfig) -> Row:
    inputs = {field: record.values[column] for field, column in data.inputs.items()}
    labels = {field: record.values[column] for field, column in data.labels.items()}
    return Row(
        values={**inputs, **labels},
        inputs=fingerprint(inputs),
        content=fingerprint([inputs, labels]),
        stratum="" if data.stratify is None else as_text(record.values[data.stratify]),
        file=table.file,
        line=record.line,
        id=None if data.id is None else as_text(record.values[data.id]),
    )


def fingerprint(value: Json) -> str:
    """Give the content of a JSON value as 32 hex digits: what decides which split a row falls into, for good."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def as_text(value: Json) -> str:
    """Write a value the way a person compares it: text as it is, the rest as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _check_ids(rows: Sequence[Row], column: str) -> None:
    seen: dict[str, Row] = {}
    for row in rows:
        if row.id in ("", "null", None):
            what = f"the id (`{column}`) is empty; give every row one"
            raise DataFileError(row.file, f"{what}, or leave out `data.id`", row.line)
        first = seen.setdefault(str(row.id), row)
        if first is not row:
            what = f"the id {row.id!r} (`{column}`) stands in line {first.line} too; ids must differ"
            raise DataFileError(row.file, f"{what}, or leave out `data.id`", row.line)


def unique(rows: Sequence[Row], duplicates: str, notes: list[str]) -> Iterable[Row]:
    """Keep one of the rows with equal inputs and labels, and note what was left out.

    Equal rows in two splits would let a program read the answer of a test row among its demos. Rows with equal inputs
    and different labels stay: they say that the labels are uncertain, and flatter nobody.
    """
    seen: dict[str, Row] = {}
    twice = [row for row in rows if seen.setdefault(row.content, row) is not row]
    if twice and duplicates == "refuse":
        what = f"repeats line {seen[twice[0].content].line}, and `data.duplicates` refuses that"
        raise DataFileError(twice[0].file, what, twice[0].line)
    if twice:
        notes.append(f"{_rows(twice)} left out that repeat another row of the file")
    by_inputs: dict[str, list[Row]] = defaultdict(list)
    for row in seen.values():
        by_inputs[row.inputs].append(row)
    uncertain = [row for same in by_inputs.values() if len(same) > 1 for row in same]
    if uncertain:
        notes.append(f"{_rows(uncertain)} have the inputs of another row and another label; they stay")
    return seen.values()


def _left_out(chosen: Mapping[str, Sequence[Row]], shared: list[Row], notes: list[str]) -> list[Row]:
    """Leave rows that stand in a file of their own out of the file that is split."""
    taken = {row.content for rows in chosen.values() for row in rows}
    twice = [row for row in shared if row.content in taken]
    if twice:
        notes.append(f"{_rows(twice)} left out that stand in the file of another split")
    return [row for row in shared if row.content not in taken]


# --- division ----------------------------------------------------------------------------------------------------


def divide(rows: Sequence[Row], data: DataConfig, *, where: str) -> dict[str, list[Row]]:
    """Split rows by the counts and fractions of the configuration, evenly over the strata."""
    counts = _counts({n: s for n in TAKEN if not isinstance(s := getattr(data, n), str)}, len(rows), where)
    strata: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: _order(row, data.split_seed)):
        strata[row.stratum].append(row)
    splits: dict[str, list[Row]] = {}
    for name, count in counts.items():
        sizes = {stratum: len(left) for stratum, left in strata.items()}
        ties = {stratum: fingerprint([data.split_seed, name, stratum]) for stratum in strata}
        shares = largest_remainder(sizes, count, ties)
        splits[name] = [row for stratum in sorted(strata) for row in strata[stratum][: shares[stratum]]]
        strata = {stratum: left[shares[stratum] :] for stratum, left in strata.items()}
    return splits


def _order(row: Row, seed: int) -> tuple[str, str]:
    return fingerprint([seed, row.content]), row.content


def _counts(sizes: Mapping[str, int | float], rows: int, where: str) -> dict[str, int]:
    shares = {name: size for name, size in sizes.items() if isinstance(size, float)}
    total = round(math.fsum(shares.values()) * rows)
    rounded = largest_remainder(shares, total, dict.fromkeys(shares, "")) if shares else {}
    counts = {name: rounded.get(name, int(size)) for name, size in sizes.items()}
    wanted = " + ".join(f"{name} {sizes[name]}" for name in SPLITS if sizes.get(name))
    if sum(counts.values()) > rows:
        raise DataFileError(where, f"has {rows} different rows; {wanted} need {sum(counts.values())}")
    for name in shares:
        if counts[name] == 0:
            raise DataFileError(where, f"has {rows} different rows, too few for {wanted}: {name} would get none")
    return counts


def largest_remainder(sizes: Mapping[str, float], total: int, ties: Mapping[str, str]) -> dict[str, int]:
    """Share out `total` in proportion to `sizes`: whole parts first, the rest to the largest remainders.

    `ties` orders equal remainders. No part gets more than its size where `total` is at most the sum of whole sizes.
    """
    whole = math.fsum(sizes.values())
    exact = {name: total * size / whole if whole else 0.0 for name, size in sizes.items()}
    parts = {name: math.floor(share + 1e-9) for name, share in exact.items()}
    by_rest = sorted(exact, key=lambda name: (parts[name] - exact[name], ties[name]))
    for name in by_rest[: total - sum(parts.values())]:
        parts[name] += 1
    return parts


# --- the end -----------------------------------------------------------------------------------------------------


def _finish(chosen: Mapping[str, Sequence[Row]], data: DataConfig, notes: list[str]) -> Splits:
    kept: dict[str, tuple[Row, ...]] = {}
    seen: dict[str, str] = {}
    for name in TAKEN:
        rows = chosen.get(name, ())
        leaks = [row for row in rows if row.content in seen]
        if leaks and data.duplicates == "refuse":
            what = f"stands in {seen[leaks[0].content]} too, and `data.duplicates` refuses that"
            raise DataFileError(leaks[0].file, what, leaks[0].line)
        if leaks:
            notes.append(f"{_rows(leaks)} left out of {name} that stand in {seen[leaks[0].content]} too")
        kept[name] = tuple(sorted((r for r in rows if r.content not in seen), key=lambda r: _order(r, data.split_seed)))
        seen |= {row.content: name for row in rows}
    if not kept["train"]:
        raise DataFileError(str(data.train if isinstance(data.train, str) else data.path), "leaves no row to train on")
    notes.extend(_empty_labels([row for rows in kept.values() for row in rows], data))
    return Splits(train=kept["train"], val=kept["val"], test=kept["test"], notes=tuple(notes))


def _unseen(splits: Splits, best: Path) -> Splits:
    """Leave out test rows that the search has used which found a candidate."""
    seen = load(best).seen
    if seen is None:
        note = f"{best} does not say which rows it was found on, so the test rows may be some of them"
        return attrs.evolve(splits, notes=(*splits.notes, note), untouched=False)
    used = [row for row, digest in zip(splits.test, row_digests(splits.values("test")), strict=True) if digest in seen]
    if not used:
        return splits
    if len(used) == len(splits.test):
        what = f"{best} was found on every one of the {len(used)} test rows, so they say nothing of new ones"
        raise UsageError(f"{what}; give rows of their own as `data.test`")
    note = f"{len(used)} of {len(splits.test)} test rows left out: the search that found {best} has used them"
    kept = tuple(row for row in splits.test if row not in used)
    return attrs.evolve(splits, test=kept, notes=(*splits.notes, note))


def _empty_labels(rows: Sequence[Row], data: DataConfig) -> list[str]:
    notes = []
    for field in data.labels:
        empty = [row for row in rows if row.values[field] in ("", None)]
        if empty:
            notes.append(f"{_rows(empty)} with an empty label `{field}`")
    return notes


def _rows(rows: Sequence[Row], limit: int = 5) -> str:
    numbers = sorted(row.line for row in rows)
    more = f" and {len(numbers) - limit} more" if len(numbers) > limit else ""
    lines = f"line{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers[:limit]))}{more}"
    return f"{len(rows)} row{'s' if len(rows) > 1 else ''} of {rows[0].file} ({lines})"
