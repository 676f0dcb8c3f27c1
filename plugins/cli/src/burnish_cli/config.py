"""What `burnish.toml` says, as values: data, program, models by role, metric, strategies, budget, cache, sinks.

Tables of plugins stay as they are: `use` names the plugin (or `module:attribute`) and the rest are its options, which
the plugin manager structures with the plugin's own class. Everything else is checked here, strictly.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import attrs

from burnish import Budget

Size: TypeAlias = int | float | str
"""A count of rows, a fraction of them (0 to 1, both exclusive), or the path of a file of its own."""

Problem: TypeAlias = tuple[tuple[str | int, ...], str]
"""Key path and what is wrong there."""

SPLITS = ("train", "val", "test")


@attrs.frozen(kw_only=True)
class Component:
    """A plugin by name, or an object as `module:attribute`, with its options."""

    use: str
    options: Mapping[str, Any] = attrs.field(factory=dict)
    """Untyped here: the plugin's own options class decides."""

    why: str = attrs.field(default="", eq=False)
    """Why it was taken, where nobody named it."""

    @property
    def is_reference(self) -> bool:
        """Whether `use` is `module:attribute` instead of a plugin's name."""
        return ":" in self.use


@attrs.frozen(kw_only=True)
class DataConfig:
    """Where the rows are, which columns mean what, and how they are split."""

    inputs: Mapping[str, str]
    """Program field = column. In the file also a list of names, where both are the same."""
    labels: Mapping[str, str] = attrs.field(factory=dict)
    """Field that the metric reads = column."""
    path: str | None = None
    """File that is split. Relative paths start at the configuration file's directory."""
    id: str | None = None
    """Column that names a row; a value that stands twice is refused."""
    train: Size = 0
    val: Size = 0
    test: Size = 0
    stratify: str | None = None
    """Column whose values are spread evenly over the splits."""
    split_seed: int = 0
    """Of the split alone, so that another `seed` repeats the search on the same rows."""
    duplicates: Literal["drop", "refuse"] = "drop"
    """What happens to a row with the same inputs and labels as another one: it would leak between the splits."""
    unseen_by: str | None = None
    """Path of a `best.json`: test rows that it was found on are left out. What `burnish evaluate` sets."""
    format: Literal["jsonl", "csv"] | None = None
    """None: by the file's ending."""
    delimiter: str | None = None
    """Of CSV; None: a comma, or the tab or semicolon that the header shows."""


@attrs.frozen(kw_only=True)
class ProgramConfig:
    """The program to tune in the words of `burnish_programs`: exactly one of its four forms."""

    signature: str | None = None
    """`"question -> answer: float"`: one predictor."""
    instruction: str | None = None
    """Of the signature's predictor."""
    prompt: str | None = None
    """Path of a text with `{{name}}` where a row's value goes."""
    output: str | None = None
    """Of the prompt: the field that the reply becomes; None: the one label."""
    program: str | None = None
    """Path of a program file; the models that it names are those of `[models]`."""
    use: str | None = None
    """`module:attribute`, imported when a run is planned or started. The name of a target is a `Component`."""


@attrs.frozen(kw_only=True)
class EngineTable:
    """How rollouts are run, and what counts as better."""

    cache_salt: int = 0
    """Change it for what burnish cannot see: what the cache holds under another one is no answer."""
    failure_score: float = 0.0
    """The score of a rollout whose program failed."""
    rollout_timeout: float | None = None
    """Seconds that the program may take for one row."""
    repeats: int = 1
    """Rollouts of each candidate on each row in the search; for noisy metrics or models."""
    min_gain: float = 0.0
    """Standard errors by which the winner must beat the program as it is on the validation rows."""


@attrs.frozen(kw_only=True)
class Config:
    """A whole `burnish.toml`."""

    data: DataConfig
    program: ProgramConfig | Component
    """A component: the target that it names."""
    metric: Component
    strategy: tuple[Component, ...]
    """In order: each starts from the best of the one before."""
    budget: Budget
    name: str | None = None
    """Of the run directory; None: the configuration file's name without its ending."""
    seed: int = 0
    concurrency: int = 16
    models: Mapping[str, Component] = attrs.field(factory=dict)
    """By role: `task`, `proposer`, `judge`."""
    engine: EngineTable = EngineTable()
    cache: Component | None = None
    """None: one file for all runs, `runs/cache.db`; `none`: no cache."""
    meter: Component | None = None
    executor: Component | None = None
    sink: tuple[Component, ...] = ()
    base_dir: Path = attrs.field(factory=Path)
    """Where relative paths start; not a key of the file."""

    def resolve(self, path: str) -> Path:
        """Give a path of the file as one that can be opened."""
        return self.base_dir / Path(path).expanduser()


def is_name(name: str) -> bool:
    """Whether a text can name a run directory, and nothing but one inside `runs`."""
    return re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", name) is not None


def problems(config: Config) -> Iterator[Problem]:
    """Find what is wrong between values that are each of the right type."""
    if config.name is not None and not is_name(config.name):
        yield ("name",), f"{config.name!r} names a directory: letters, digits, `.`, `_` and `-`, not starting with `.`"
    if config.concurrency < 1:
        yield ("concurrency",), f"must be at least 1, it is {config.concurrency}"
    if not config.strategy:
        yield ("strategy",), "names no strategy; add a table `[[strategy]]` with `use`"
    engine = config.engine
    if not math.isfinite(engine.failure_score):
        yield ("engine", "failure_score"), f"must be finite, it is {engine.failure_score}"
    if engine.rollout_timeout is not None and not engine.rollout_timeout > 0:
        yield ("engine", "rollout_timeout"), f"must be above 0, it is {engine.rollout_timeout}"
    if engine.repeats < 1:
        yield ("engine", "repeats"), f"must be at least 1, it is {engine.repeats}"
    if not 0 <= engine.min_gain < math.inf:
        yield ("engine", "min_gain"), f"must be a number of standard errors from 0 on, it is {engine.min_gain}"
    yield from _data(config.data)
    if isinstance(config.program, ProgramConfig):
        yield from _program(config.program)


def _data(data: DataConfig) -> Iterator[Problem]:
    sizes = {name: getattr(data, name) for name in SPLITS}
    if not data.inputs:
        yield ("data", "inputs"), 'names no column; write for example `inputs = ["question"]`'
    for field in sorted(set(data.inputs) & set(data.labels)):
        yield ("data", "labels"), f"`{field}` is an input too: a program that reads its label scores nothing but that"
    if data.path is None and not isinstance(data.train, str):
        yield ("data",), "needs `path`, a file to split, or `train`, a file of its own"
    for name, size in sizes.items():
        yield from _size(name, size, data.path is not None)
    if data.path is not None and all(isinstance(size, str) for size in sizes.values()):
        yield ("data", "path"), "is of no use: `train`, `val` and `test` each name a file of their own"
    shares = sum(size for size in sizes.values() if isinstance(size, float))
    if shares > 1 + 1e-9:
        yield ("data",), f"the fractions of `train`, `val` and `test` add up to {shares:g}, more than 1"
    if data.delimiter is not None and (len(data.delimiter) != 1 or data.delimiter in '"\r\n\0'):
        yield ("data", "delimiter"), f"must be one character, it is {data.delimiter!r}"


def _size(name: str, size: Size, splitting: bool) -> Iterator[Problem]:
    at = ("data", name)
    if isinstance(size, str):
        if not size:
            yield at, "is empty; give a count, a fraction or a file"
        elif re.fullmatch(r"[0-9.]+", size):
            yield at, f"is the name of a file, as it stands in quotes; write it without quotes: `{name} = {size}`"
    elif size and not splitting:
        yield at, f"{size} rows of which file? Give `data.path`, or name a file here"
    elif isinstance(size, float) and not 0 < size < 1:
        yield at, f"{size} is no fraction between 0 and 1; a count is written without a point"
    elif size < 0:
        yield at, f"must not be below 0, it is {size}"
    elif name == "train" and size == 0 and splitting:
        yield at, 'is missing: a count (`60`), a fraction (`0.3`) or a file (`"train.jsonl"`)'


def _program(program: ProgramConfig) -> Iterator[Problem]:
    forms = [name for name in ("signature", "prompt", "program", "use") if getattr(program, name) is not None]
    if len(forms) != 1:
        have = f"; here are {' and '.join(f'`{f}`' for f in forms)}" if forms else ""
        yield ("program",), f"needs exactly one of `signature`, `prompt`, `program` and `use`{have}"
    if program.instruction is not None and "signature" not in forms:
        yield ("program", "instruction"), "belongs to a `signature`"
    if program.output is not None and "prompt" not in forms:
        yield ("program", "output"), "belongs to a `prompt`"
    if program.use is not None and not re.fullmatch(r"[\w.]+:[\w.]+", program.use):
        yield ("program", "use"), f"{program.use!r} is not of the form `module:attribute`"
