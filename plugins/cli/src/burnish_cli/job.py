"""From a configuration to what a run takes: rows, program and components. Nothing is spent here."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import attrs
import trio

from burnish import Environment, Parameter, PluginManager, Use, as_target
from burnish.abc import Metering, Strategy, Target
from burnish.errors import StoreError, UsageError
from burnish_cli.choices import impossible_labels
from burnish_cli.config import Component, Config, ProgramConfig, is_name
from burnish_cli.data import DataFileError, read_text
from burnish_cli.references import BadReferenceError, find_reference, load_reference, look_beside
from burnish_cli.result import Command
from burnish_cli.split import Splits, load_splits

SHARED_CACHE = "runs/cache.db"
"""Beside the run directories, from the configuration's directory."""


@attrs.frozen(kw_only=True)
class Job:
    """A run, ready to be planned or started."""

    config: Config
    file: str | None
    """The configuration file, for messages about plugins' options."""
    splits: Splits
    program: Use
    """A target, which the run opens for itself."""
    parameters: Mapping[str, Parameter]
    """The program's, as it was when it was looked at."""
    metering: Metering
    """The program's."""
    metric: Any
    strategies: tuple[Any, ...]
    models: Mapping[str, Any]
    cache: Any
    meter: Any
    executor: Any
    sinks: tuple[Any, ...]
    run_dir: Path
    plugins: PluginManager
    env: Environment
    command: Command = "run"


def prepare(
    config: Config, *, file: str | None, run_dir: Path, strategies: tuple[Strategy, ...] | None = None
) -> Job:
    """Read the rows, look at the program, and check that each named plugin is there.

    `strategies` take the place of the configured ones. Imports each `module:attribute`. Raises configuration and plugin
    errors.
    """
    plugins, env = PluginManager(variables=os.environ), Environment(base_dir=config.base_dir, variables=os.environ)
    parts = _Parts(plugins, config.base_dir, file)
    splits = load_splits(config)
    look_beside(config.base_dir)
    program: Use = parts.get("target", target_of(config), "program")
    with _blamed(config):
        looks = trio.run(_look, plugins, program, env, splits)
    _check_models(config, program, looks.parameters)
    return Job(
        config=config,
        file=file,
        splits=attrs.evolve(splits, notes=(*splits.notes, *looks.notes)),
        program=program,
        parameters=looks.parameters,
        metering=looks.metering,
        metric=parts.get("metric", config.metric, "metric"),
        strategies=parts.all("strategy", config.strategy) if strategies is None else strategies,
        models={role: parts.get("model", c, f"models.{role}") for role, c in config.models.items()},
        cache=parts.cache(config.cache),
        meter=parts.maybe("meter", config.meter),
        executor=parts.maybe("executor", config.executor),
        sinks=parts.all("sink", config.sink),
        run_dir=run_dir,
        plugins=plugins,
        env=env,
    )


@attrs.frozen
class _Parts:
    plugins: PluginManager
    base_dir: Path
    file: str | None

    def get(self, kind: str, component: Component, where: str) -> Any:
        """Give an object, or a plugin by name that is known to be there and to take these options."""
        if component.is_reference:
            if component.options:
                raise UsageError(f"{where}: `{component.use}` is an object and takes no options here")
            return load_reference(component.use, self.base_dir, where=where)
        self.plugins.options(kind, component.use, component.options, file=self.file)
        return Use(component.use, **component.options)

    def maybe(self, kind: str, component: Component | None) -> Any:
        """Give it where there is one."""
        return None if component is None else self.get(kind, component, kind)

    def all(self, kind: str, components: Sequence[Component]) -> tuple[Any, ...]:
        """Give each of a list."""
        return tuple(self.get(kind, c, f"{kind} #{number}") for number, c in enumerate(components, start=1))

    def cache(self, component: Component | None) -> Any:
        """Without a word a file that all runs of the directory share, so that nothing is paid twice."""
        if component is None:
            return Use("sqlite", path=SHARED_CACHE)
        return None if component.use == "none" else self.get("cache", component, "cache")


# --- the program -------------------------------------------------------------------------------------------------


def target_of(config: Config) -> Component:
    """Give the target that the program is, with its options. Raises configuration errors naming key or file."""
    program = config.program
    if isinstance(program, Component):
        return program
    options = {name: value for name, value in attrs.asdict(program).items() if value is not None}
    if program.use is not None:
        find_reference(program.use, config.base_dir, where="program.use")
    if program.prompt is not None:
        read_text(config.resolve(program.prompt))
        options["prompt"] = str(Path(program.prompt).expanduser())
        options["output"] = program.output or _only_label(config)
    if program.program is not None:
        read_text(config.resolve(program.program))
        options["program"] = str(Path(program.program).expanduser())
    return Component(use="programs", options=options)


@attrs.frozen(kw_only=True)
class _Looks:
    """What is to be known of a program beforehand."""

    parameters: Mapping[str, Parameter]
    metering: Metering
    notes: tuple[str, ...]


async def _look(plugins: PluginManager, program: Use, env: Environment, splits: Splits) -> _Looks:
    """Open the program, and close it again: a run has one of its own."""
    async with plugins.open("target", program.name, program.options, env) as opened:
        # Whether it is a target is not asked of what looks like one: that would ask for its fingerprint, and so import
        # what a program file names.
        target: Target = opened if hasattr(type(opened), "parameters") else as_target(opened)
        notes = tuple(impossible_labels(target, splits))
        return _Looks(parameters=dict(target.parameters()), metering=target.metering, notes=notes)


def _check_models(config: Config, program: Use, parameters: Mapping[str, Parameter]) -> None:
    """Refuse a program file that names a model which there is no table for: the task's would answer without a word."""
    if program.name != "programs" or "program" not in program.options:
        return
    named = dict.fromkeys(name for parameter in parameters.values() for name in parameter.values.get("model", ()))
    missing = [str(name) for name in named if name not in config.models]
    if missing:
        listed, tables = ", ".join(f"`{n}`" for n in missing), ", ".join(f"`[models.{n}]`" for n in missing)
        raise UsageError(f"models: {program.options['program']} names {listed}; say with {tables} which that is")


@contextmanager
def _blamed(config: Config) -> Iterator[None]:
    """Name the file or the key that what is wrong with a program comes from."""
    program = config.program
    try:
        yield
    except UsageError as error:
        if isinstance(program, ProgramConfig) and program.prompt is not None:
            raise DataFileError(config.resolve(program.prompt), str(error)) from None
        if isinstance(program, ProgramConfig) and program.use is not None:
            raise BadReferenceError("program.use", program.use, str(error)) from error.__cause__
        raise


def _only_label(config: Config) -> str:
    labels = list(config.data.labels)
    if len(labels) != 1:
        raise UsageError(f"program.output: say which field the reply is; `data.labels` names {len(labels)} of them")
    return labels[0]


# --- run directories ---------------------------------------------------------------------------------------------


def runs_dir(base_dir: Path) -> Path:
    """Where run directories stand."""
    return base_dir / "runs"


def named_dir(base_dir: Path, name: str) -> Path:
    """Give `runs/<name>`. Raises `UsageError` for a name that would lead elsewhere."""
    if not is_name(name):
        raise UsageError(f"{name!r} names no run directory: letters, digits, `.`, `_` and `-`, not starting with `.`")
    return runs_dir(base_dir) / name


def next_dir(base_dir: Path, name: str) -> Path:
    """Give the first of `runs/<name>`, `runs/<name>-2`, ... that is not there yet. Raises as `named_dir`."""
    return next(path for path in _dirs(base_dir, name) if not path.exists())


@contextmanager
def new_dir(base_dir: Path, name: str) -> Iterator[Path]:
    """Make the directory that `next_dir` names, for this run alone; left empty by the block, it goes again.

    Raises `StoreError` where it cannot be made.
    """
    for path in _dirs(base_dir, name):
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            what = f"the run directory {path} cannot be made: {error.strerror or error}"
            raise StoreError(f"{what}; see to the rights and the disk", path=str(path)) from error
        try:
            yield path
        finally:
            with suppress(OSError):
                path.rmdir()
        return


def _dirs(base_dir: Path, name: str) -> Iterator[Path]:
    yield named_dir(base_dir, name)
    for number in count(2):
        yield runs_dir(base_dir) / f"{name}-{number}"
