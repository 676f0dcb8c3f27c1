"""Reading `burnish.toml`: strict structuring, and errors that name file, line, key, value and expected type."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import cattrs
from cattrs.gen import make_dict_structure_fn, override

from burnish import Budget, did_you_mean
from burnish.errors import ConfigError
from burnish_cli.config import Component, Config, DataConfig, EngineTable, Problem, ProgramConfig, problems
from burnish_cli.data import DataFileError, read_text

KeyPath = tuple[str | int, ...]
TUNE = "`burnish tune prompt.md --data rows.csv`"


class ConfigFileError(ConfigError):
    """A configuration file cannot be used; `problems` holds key path and text of each fault.

    `elsewhere` are faults of files that it names, which say where they are themselves.
    """

    def __init__(self, file: str, faults: Sequence[Problem], text: str = "", elsewhere: Sequence[str] = ()) -> None:
        self.file, self.problems = file, tuple(faults)
        found = sorted((*_where(file, path, text), dotted(path), what) for path, what in faults)
        super().__init__("\n".join([*(": ".join(filter(None, parts)) for _, *parts in found), *elsewhere]))


class _Fault(ValueError):
    """What is wrong with a value: a text, or a `Problem` for each thing below it."""

    def __init__(self, *faults: str | Problem) -> None:
        self.faults: list[Problem] = [((), f) if isinstance(f, str) else f for f in faults]
        super().__init__("; ".join(what for _, what in self.faults))


class _WrongType(_Fault):
    """A value is not of the expected type."""

    def __init__(self, value: object, expected: str) -> None:
        super().__init__(f"expected {expected}, got {_shown(value)}")


def load_config(path: Path) -> Config:
    """Read a configuration file.

    Raises `ConfigFileError` naming every fault of the file at once, and `DataFileError` where it cannot be read.
    """
    try:
        text = read_text(path)
    except DataFileError as error:
        if path.exists():
            raise
        raise DataFileError(path, f"{error.what}; name another file, or tune a prompt without one: {TUNE}") from None
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigFileError(str(path), [((), f"is not valid TOML: {error}")]) from None
    raw.setdefault("name", re.sub(r"[^A-Za-z0-9._-]+", "-", path.stem).lstrip(".") or "run")
    return structure_config(raw, file=str(path), base_dir=path.parent, text=text)


def structure_config(raw: Mapping[str, Any], *, file: str, base_dir: Path, text: str = "") -> Config:
    """Turn plain tables into a `Config`; `text` is the source that line numbers are looked up in."""
    try:
        config = attrs.evolve(_converter().structure(dict(raw), Config), base_dir=base_dir)
    except cattrs.BaseValidationError as error:
        raise ConfigFileError(file, list(_faults(error, ())), text) from None
    faults = list(problems(config))
    if faults:
        raise ConfigFileError(file, faults, text)
    return config


# --- types -------------------------------------------------------------------------------------------------------


def _converter() -> cattrs.Converter:
    c = cattrs.Converter(forbid_extra_keys=True, detailed_validation=True)
    exact = ((str, "text"), (int, "a whole number"), (bool, "true or false"), (dict, "a table"))
    for kind, words in exact:
        c.register_structure_hook(kind, _exactly(kind, words))
    c.register_structure_hook(float, _number)
    c.register_structure_hook(Decimal, _money)
    c.register_structure_hook(Component, _component)
    c.register_structure_hook_func(lambda kind: kind == tuple[Component, ...], _components)
    c.register_structure_hook_func(lambda kind: kind == Mapping[str, Component], _by_role)
    c.register_structure_hook(EngineTable, _table(make_dict_structure_fn(EngineTable, c)))
    size, columns = override(struct_hook=_size), override(struct_hook=_columns)
    data = make_dict_structure_fn(
        DataConfig,
        c,
        train=size,
        val=size,
        test=size,
        inputs=columns,
        labels=columns,
        duplicates=override(struct_hook=_one_of("drop", "refuse")),
        format=override(struct_hook=_one_of("jsonl", "csv")),
    )
    c.register_structure_hook(DataConfig, _table(data))
    whole = make_dict_structure_fn(
        Config,
        c,
        base_dir=override(omit=True),
        budget=override(struct_hook=_budget(c)),
        program=override(struct_hook=_program(c)),
    )
    c.register_structure_hook(Config, whole)
    return c


def _table(inner: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def structure(value: Any, kind: Any) -> Any:
        if not isinstance(value, dict):
            raise _WrongType(value, "a table")
        return inner(value, kind)

    return structure


def _exactly(kind: type, words: str) -> Callable[[Any, Any], Any]:
    def structure(value: Any, _: Any) -> Any:
        if type(value) is not kind:
            raise _WrongType(value, words)
        return value

    return structure


def _one_of(*words: str) -> Callable[[Any, Any], str]:
    def structure(value: Any, _: Any) -> str:
        if value not in words:
            raise _WrongType(value, " or ".join(f'"{w}"' for w in words))
        return str(value)

    return structure


def _number(value: Any, _: Any) -> float:
    if type(value) not in (int, float):
        raise _WrongType(value, "a number")
    return float(value)


def _money(value: Any, _: Any) -> Decimal:
    if type(value) not in (int, float, str):
        raise _WrongType(value, "an amount in US dollars")
    try:
        return Decimal(str(value))
    except ArithmeticError:
        raise _WrongType(value, "an amount in US dollars") from None


def _size(value: Any, _: Any) -> int | float | str:
    if type(value) not in (int, float, str):
        raise _WrongType(value, "a count, a fraction or a file")
    return value  # type: ignore[no-any-return]


def _columns(value: Any, _: Any) -> Mapping[str, str]:
    words = "a list of columns, or a table `field = column`"
    if isinstance(value, list):
        pairs = [(item, item) for item in value]
    elif isinstance(value, dict):
        pairs = list(value.items())
    else:
        raise _WrongType(value, words)
    for _field, column in pairs:
        if not isinstance(column, str) or not column:
            raise _WrongType(column, f"{words}; a column is a text that is not empty")
    if len({field for field, _ in pairs}) < len(pairs):
        raise _WrongType(value, f"{words}, each once")
    return dict(pairs)


def _component(value: Any, _: Any) -> Component:
    if isinstance(value, str):
        value = {"use": value}
    if not isinstance(value, dict):
        raise _WrongType(value, "a table with `use`, or the name of a plugin")
    if "use" not in value:
        raise _Fault("needs `use`: the name of a plugin, or `module:attribute`")
    use = value["use"]
    if not isinstance(use, str) or not use:
        raise _Fault(f"`use`: expected the name of a plugin or `module:attribute`, got {_shown(use)}")
    return Component(use=use, options={k: v for k, v in value.items() if k != "use"})


def _program(c: cattrs.Converter) -> Callable[[Any, Any], ProgramConfig | Component]:
    """A `use` without a colon names a target, and the rest of the table is that target's."""
    native = _table(make_dict_structure_fn(ProgramConfig, c))

    def structure(value: Any, _: Any) -> ProgramConfig | Component:
        use = value.get("use") if isinstance(value, dict) else None
        if isinstance(use, str) and use and ":" not in use:
            return _component(value, Component)
        return native(value, ProgramConfig)  # type: ignore[no-any-return]

    return structure


def _components(value: Any, _: Any) -> tuple[Component, ...]:
    """A single table or name counts as a list of one."""
    items = value if isinstance(value, list) else [value]
    return tuple(_each(enumerate(items)).values())


def _by_role(value: Any, _: Any) -> Mapping[str, Component]:
    if not isinstance(value, dict):
        raise _WrongType(value, "a table by role, such as `[models.task]`")
    if "use" in value:  # the options would be taken for names of models, and be quoted as such
        raise _Fault("needs a role: write `[models.task]` in place of `[models]`")
    return _each(value.items())


def _each(items: Any) -> dict[Any, Component]:
    found: dict[Any, Component] = {}
    faults: list[Problem] = []
    for key, item in items:
        try:
            found[key] = _component(item, Component)
        except _Fault as error:
            faults.append(((key,), str(error)))
    if faults:
        raise _Fault(*faults)
    return found


def _budget(c: cattrs.Converter) -> Callable[[Any, Any], Budget]:
    inner = make_dict_structure_fn(Budget, c)

    def structure(value: Any, _: Any) -> Budget:
        if not isinstance(value, dict):
            raise _WrongType(value, "a table")
        caps = {key: cap for key, cap in value.items() if key != "unlimited"}
        if type(value.get("unlimited", False)) is not bool:
            raise _Fault((("unlimited",), str(_WrongType(value["unlimited"], "true or false"))))
        if caps and value.get("unlimited"):
            raise _Fault("is unlimited and has caps; keep one of the two")
        if not caps and not value.get("unlimited"):
            raise _Fault("has no cap; set for example `max_metric_calls = 500`, or `unlimited = true`")
        return inner(caps, Budget)

    return structure


# --- faults ------------------------------------------------------------------------------------------------------


def _faults(error: BaseException, path: KeyPath) -> Iterator[Problem]:
    if isinstance(error, cattrs.BaseValidationError):
        for inner in error.exceptions:
            yield from _faults(inner, path + _step(inner))
    elif isinstance(error, cattrs.ForbiddenExtraKeysError):
        for key in sorted(error.extra_fields):
            yield (*path, key), _unknown(key, error.cl)
    elif isinstance(error, _Fault):
        yield from (((*path, *below), what) for below, what in error.faults)
    elif isinstance(error, KeyError):
        yield path, "is missing"
    else:
        yield path, str(error)


def _step(error: BaseException) -> KeyPath:
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, cattrs.AttributeValidationNote):
            return (note.name,)
        if isinstance(note, cattrs.IterableValidationNote):
            return (note.index,)
    return ()


def _unknown(key: str, kind: type) -> str:
    known = [a.name for a in attrs.fields(kind) if a.name != "base_dir"] + ["unlimited"] * (kind is Budget)
    near = did_you_mean(key, known)
    return f"is not a known key; {f'{near} Known' if near else 'known'} here: {', '.join(known)}"


def _shown(value: object) -> str:
    """Quote a value with its type; of lists and tables, which may hold a plugin's secrets, the type alone."""
    kinds = {str: "text", int: "a whole number", float: "a number", list: "a list", dict: "a table"}
    if isinstance(value, bool):
        return str(value).lower()
    kind = kinds.get(type(value), type(value).__name__)
    return kind if isinstance(value, (list, dict)) else f"{value!r:.60} ({kind})"


def _where(file: str, path: KeyPath, text: str) -> tuple[int, str]:
    number = line_of(text, path)
    return (0, file) if number is None else (number, f"{file}:{number}")


def dotted(path: KeyPath) -> str:
    """Write a key path: `budget.max_cost`, `strategy #2.use` (the second table `[[strategy]]`)."""
    out = ""
    for step in path:
        out += f" #{step + 1}" if isinstance(step, int) else f".{step}" if out else step
    return out


def line_of(text: str, path: KeyPath) -> int | None:
    """Find the line where a key is set: the end of the shortest whole start of the file that holds it.

    tomllib keeps no positions. A start of the file that ends inside a value does not parse, so the statement begins
    after the last start that did. Where the key is missing, the line of the table it belongs to.
    """
    while path:
        whole, lines = 0, text.split("\n")
        for number in range(1, len(lines) + 1):
            try:
                tables = tomllib.loads("\n".join(lines[:number]))
            except tomllib.TOMLDecodeError:
                continue
            if _holds(tables, path):
                return whole + 1
            whole = number
        path = path[:-1]
    return None


def _holds(value: Any, path: KeyPath) -> bool:
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return False
    return True
