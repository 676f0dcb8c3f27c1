"""Reading rows: JSONL and CSV, strictly. Every refusal names file and line, and says what to do."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import attrs

from burnish import did_you_mean
from burnish.abc import Json
from burnish.errors import ConfigError

Format = Literal["jsonl", "csv"]
ENDINGS: Mapping[str, Format] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "csv"}
LONGEST_HEADER = 65_536
"""Characters of a CSV file that are looked at for its delimiter."""


class DataFileError(ConfigError):
    """A file cannot be used; `file` and `line` say where, `what` says why."""

    def __init__(self, file: Path | str, what: str, line: int | None = None) -> None:
        self.file, self.what, self.line = str(file), what, line
        super().__init__(f"{file}: {what}" if line is None else f"{file}:{line}: {what}")


class MissingColumnsError(DataFileError):
    """A file lacks columns; `missing` says so of each by itself."""

    def __init__(self, file: Path | str, missing: Mapping[str, str]) -> None:
        self.missing = {column: f"{file} {what}" for column, what in missing.items()}
        super().__init__(file, "; ".join(missing.values()))


@attrs.frozen(kw_only=True)
class Record:
    """One row as the file holds it."""

    line: int
    """Where it starts; the first line is 1."""
    values: Mapping[str, Json]


@attrs.frozen(kw_only=True)
class Table:
    """A file's rows. Values of CSV are text, whatever they look like: types are the program's business."""

    file: str
    columns: tuple[str, ...]
    """Of CSV the header; of JSONL every field that occurs, in order of first occurrence."""
    records: tuple[Record, ...]


# --- text --------------------------------------------------------------------------------------------------------


def read_text(path: Path) -> str:
    """Read a file as UTF-8; a byte order mark at the start is dropped. Raises `DataFileError`."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise DataFileError(path, f"not found{_neighbour(path)}") from None
    except OSError as error:
        raise DataFileError(path, f"cannot be read: {error.strerror or error}") from None
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DataFileError(path, "is UTF-16; save it as UTF-8, for example with `iconv -f utf-16 -t utf-8`", 1)
    try:
        text = raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        what = f"byte {error.start} (0x{raw[error.start]:02x}) is not UTF-8; convert the file, for example with"
        raise DataFileError(path, f"{what} `iconv -f latin1 -t utf-8`", line) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataFileError(path, "holds a NUL character, so it is no text file; remove it", line)
    return text


def _neighbour(path: Path) -> str:
    try:
        near = did_you_mean(path.name, [p.name for p in path.parent.iterdir()])
    except OSError:
        return f": there is no directory {path.parent}"
    return near and f"; {near}"


def read_table(path: Path, form: Format | None = None, delimiter: str | None = None) -> Table:
    """Read a data file; `form` None goes by the ending. Raises `DataFileError`."""
    form = form or ENDINGS.get(path.suffix.lower())
    if form is None:
        known = ", ".join(ENDINGS)
        raise DataFileError(path, f"the ending says no format that burnish reads ({known}); or set `data.format`")
    text = read_text(path)
    if not text.strip():
        raise DataFileError(path, "is empty; it needs at least one row")
    table = _read_jsonl(path, text) if form == "jsonl" else _read_csv(path, text, delimiter)
    if not table.records:
        raise DataFileError(path, "has a header and no rows")
    return table


# --- JSONL -------------------------------------------------------------------------------------------------------


class _Refused(ValueError):
    """A value that JSON as such would let pass."""


def _read_jsonl(path: Path, text: str) -> Table:
    records = []
    columns: dict[str, None] = {}
    # Not splitlines(): it would cut at U+2028 too, which JSON strings may hold.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        values = _parse(path, number, line)
        columns.update(dict.fromkeys(values))
        records.append(Record(line=number, values=values))
    return Table(file=str(path), columns=tuple(columns), records=tuple(records))


def _parse(path: Path, number: int, line: str) -> dict[str, Json]:
    try:
        value = json.loads(line, parse_constant=_constant, parse_float=_float, object_pairs_hook=_pairs)
        if "\\ud" in line.lower():
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        what = f"is not valid JSON: {error.msg} (column {error.colno}); one object a line"
    except _Refused as error:
        what = str(error)
    except UnicodeEncodeError:
        what = "holds half of a surrogate pair (`\\ud...`), which is no character"
    except RecursionError:
        what = "is nested too deeply"
    except ValueError as error:
        what = f"cannot be read: {error}"
    else:
        if isinstance(value, dict):
            return value
        what = f"is not an object but {_kind(value)}; write one object a line, such as {{\"question\": \"...\"}}"
    raise DataFileError(path, what, number) from None


def _kind(value: Any) -> str:
    kinds = {list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number"}
    return kinds.get(type(value), "null")


def _constant(name: str) -> float:
    raise _Refused(f"holds {name}, which is no JSON; use null for a missing value")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _Refused(f"holds {text}, too large for a number")
    return value


def _pairs(pairs: Sequence[tuple[str, Json]]) -> dict[str, Json]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Refused(f"holds the field `{twice}` twice")
    return values


# --- CSV ---------------------------------------------------------------------------------------------------------


def _read_csv(path: Path, text: str, delimiter: str | None) -> Table:
    delimiter = delimiter or _delimiter(path, text)
    rows = _csv_rows(path, text, delimiter)
    line, header = next(rows)
    columns = [name.strip() for name in header]
    for name in columns:
        if name and columns.count(name) > 1:
            raise DataFileError(path, f"the column `{name}` stands twice in the header; rename one", line)
    records = []
    for line, row in rows:
        if len(row) != len(columns):
            what = f"has {len(row)} values where the header has {len(columns)} columns, read with the delimiter"
            hint = "a value with it inside needs quotes; `data.delimiter` sets another one"
            raise DataFileError(path, f"{what} {delimiter!r}; {hint}", line)
        # A column without a name (an index that a data frame wrote) cannot be addressed.
        records.append(Record(line=line, values={k: v for k, v in zip(columns, row, strict=True) if k}))
    return Table(file=str(path), columns=tuple(c for c in columns if c), records=tuple(records))


def _csv_rows(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataFileError(path, _csv_fault(str(error)), line) from None
        if row:
            yield line, row


def _csv_fault(message: str) -> str:
    if "field limit" in message:
        return f"{message}; put rows this long into JSONL"
    if "unexpected end" in message:
        return "a quote opens here and never closes"
    return f"is not valid CSV: {message}"


def _delimiter(path: Path, text: str) -> str:
    if path.suffix.lower() == ".tsv":
        return "\t"
    header = re.sub(r'"[^"]*"', "", text.lstrip("\r\n")[:LONGEST_HEADER]).partition("\n")[0]
    return next((d for d in ",\t;" if d in header), ",")


# --- columns -----------------------------------------------------------------------------------------------------


def missing_column(table: Table, *columns: str) -> MissingColumnsError:
    """Say which columns a file does not have, and which ones it has."""
    return MissingColumnsError(table.file, {column: _no_column(table, column) for column in columns})


def _no_column(table: Table, column: str) -> str:
    near = did_you_mean(column, table.columns)
    have = ", ".join(f"`{name}`" for name in table.columns)
    return f"has no column `{column}`; {f'{near} It' if near else 'it'} has: {have}"


def require_columns(table: Table, columns: Iterable[str]) -> None:
    """Check that every row has these columns.

    Raises `MissingColumnsError`, or `DataFileError` at the first row without one.
    """
    columns = list(columns)
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise missing_column(table, *missing)
    for column in columns:
        for record in table.records:
            if column not in record.values:
                have = ", ".join(f"`{name}`" for name in record.values)
                raise DataFileError(table.file, f"has no field `{column}`; this row has: {have}", record.line)
