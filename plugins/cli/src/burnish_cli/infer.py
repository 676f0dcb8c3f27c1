"""`burnish tune`: a whole configuration from a prompt file and a data file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path

import attrs

from burnish import Budget
from burnish_cli.config import Component, Config, DataConfig, ProgramConfig, Size
from burnish_cli.data import DataFileError, Table, missing_column, read_table, read_text
from burnish_cli.split import as_text

PLACEHOLDER = re.compile(r"\{\{([^\W\d]\w*)\}\}")
"""What `burnish_programs` takes as one."""
NEARLY = re.compile(r"\{\{\s*([^\W\d]\w*)\s*\}\}")
LABEL_NAMES = {
    *("label", "answer", "output", "target", "expected", "expected_output"),
    *("gold", "reference", "category", "class", "completion", "response"),
}
SHARES: Mapping[str, tuple[float, int]] = {"train": (0.3, 200), "val": (0.3, 100), "test": (0.4, 300)}
"""Fraction and upper count of each split. A test row costs two rollouts and makes the result more certain; a validation
row costs one for each candidate."""


@attrs.frozen(kw_only=True)
class Wishes:
    """What the command line says; None is inferred."""

    prompt: Path
    data: Path
    metric: Component
    strategy: tuple[Component, ...]
    models: Mapping[str, Component]
    budget: Budget
    label: str | None = None
    id: str | None = None
    train: Size | None = None
    val: Size | None = None
    test: Size | None = None
    seed: int = 0
    concurrency: int = 16
    name: str | None = None
    cache: Component | None = None


def infer(wishes: Wishes) -> Config:
    """Infer columns and splits. Raises `DataFileError` saying which option decides what cannot be inferred."""
    text = read_text(wishes.prompt)
    table = read_table(wishes.data)
    names = placeholders(text)
    if not names:
        near = NEARLY.search(text)
        example = near[1] if near else next((c for c in table.columns if c != wishes.label), "question")
        what = f"has `{near[0]}`, which is no placeholder" if near else "has no place for a row's values"
        raise DataFileError(wishes.prompt, f"{what}; where a value goes, write `{{{{{field_name(example)}}}}}`")
    inputs = {name: _column(name, table, wishes.prompt) for name in names}
    row_id = wishes.id or _id(table, set(inputs.values()))
    label = wishes.label or _label(table, {*inputs.values(), row_id})
    if label not in table.columns:
        raise missing_column(table, label)
    if label in inputs.values():
        raise DataFileError(wishes.prompt, f"reads the column `{label}`, which is the label: a program must not see it")
    data = DataConfig(
        path=str(wishes.data),
        inputs=inputs,
        labels={field_name(label): label},
        id=row_id,
        stratify=label if _is_class(table, label) else None,
        train=_size("train", wishes.train, len(table.records)),
        val=_size("val", wishes.val, len(table.records)),
        test=_size("test", wishes.test, len(table.records)),
    )
    return Config(
        data=data,
        program=ProgramConfig(prompt=str(wishes.prompt), output=field_name(label)),
        metric=wishes.metric,
        strategy=wishes.strategy,
        budget=wishes.budget,
        models=wishes.models,
        seed=wishes.seed,
        concurrency=wishes.concurrency,
        cache=wishes.cache,
        name=wishes.name or field_name(wishes.prompt.stem),
    )


def placeholders(text: str) -> list[str]:
    """Give the names that a prompt holds as `{{name}}`, each once, in order."""
    return list(dict.fromkeys(PLACEHOLDER.findall(text)))


def field_name(column: str) -> str:
    """Make a field name of a column: `Question Text` becomes `question_text`."""
    name = re.sub(r"\W+", "_", column.lower()).strip("_")
    return name if name and not name[0].isdigit() else f"field_{name}".rstrip("_")


def _column(name: str, table: Table, prompt: Path) -> str:
    if name in table.columns:
        return name
    alike = [column for column in table.columns if field_name(column) == field_name(name)]
    if len(alike) == 1:
        return alike[0]
    if alike:
        have = " and ".join(f"`{column}`" for column in alike)
        raise DataFileError(prompt, f"`{{{{{name}}}}}` could be the columns {have} of {table.file}; rename one of them")
    error = missing_column(table, name)
    raise DataFileError(prompt, f"holds `{{{{{name}}}}}`, but {error}")


def _id(table: Table, inputs: Collection[str]) -> str | None:
    """A column called `id` whose values all differ."""
    for column in table.columns:
        if column.casefold() == "id" and column not in inputs:
            values = [as_text(record.values.get(column, "")) for record in table.records]
            if len(set(values)) == len(values) and not {"", "null"} & set(values):
                return column
    return None


def _label(table: Table, taken: set[str | None]) -> str:
    rest = [column for column in table.columns if column not in taken and column.casefold() != "id"]
    known = [column for column in rest if field_name(column) in LABEL_NAMES]
    for choice in (rest, known):
        if len(choice) == 1:
            return choice[0]
    if not rest:
        raise DataFileError(table.file, "has no column besides those that the prompt reads, so no label")
    have = ", ".join(f"`{column}`" for column in rest)
    raise DataFileError(table.file, f"which of {have} is the label? Say it with `--label`")


def _is_class(table: Table, label: str) -> bool:
    """Whether a label names one of a few classes, so that a stratified split means something."""
    counts = Counter(as_text(record.values.get(label)) for record in table.records)
    return 1 < len(counts) <= 50 and len(table.records) >= 5 * len(counts)


def _size(name: str, wish: Size | None, rows: int) -> Size:
    if wish is not None:
        return wish
    share, most = SHARES[name]
    return share if share * rows <= most else most
