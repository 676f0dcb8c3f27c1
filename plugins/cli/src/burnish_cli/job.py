"""From a configuration to what a run takes: rows, program, components and directory. Nothing is spent here."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import attrs

from burnish import Candidate, Environment, Parameter, PluginManager, Resume, Use
from burnish.abc import Metering, Strategy
from burnish.errors import PluginError, PluginNotFoundError, StoreError, UsageError
from burnish_cli.config import Component, Config, is_name
from burnish_cli.faults import Faults
from burnish_cli.meeting import compares_a_field, metric_faults, model_faults
from burnish_cli.program import Looks, look_at, target_of
from burnish_cli.references import load_reference, look_beside
from burnish_cli.result import Command
from burnish_cli.split import Splits, load_splits
from burnish_cli.structure import dotted

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
    given: Candidate | None = None
    """The candidate that an evaluation was given."""
    resume: Resume | None = None
    """How the run that the directory holds goes on; None: a new one."""
    answers: Path | None = None
    """The directory of a run whose results are answers."""


def prepare(
    config: Config, *, file: str | None, run_dir: Path, strategies: tuple[Strategy, ...] | None = None
) -> Job:
    """Read the rows, look at the program, and check that each named plugin is there.

    `strategies` take the place of the configured ones. Imports each `module:attribute`. Raises configuration and plugin
    errors: all that is wrong at once.
    """
    plugins, env = PluginManager(variables=os.environ), Environment(base_dir=config.base_dir, variables=os.environ)
    faults = Faults(file, config.data)
    parts = _Parts(plugins, config.base_dir, faults)
    look_beside(config.base_dir)
    splits: Splits | None = None
    looks: Looks | None = None
    program: Any = None
    with faults.at("data"):
        splits = load_splits(config)
    with faults.at("program"):
        target = target_of(config)
        program = parts.get("target", target, "program")
        if program is not None:
            looks = look_at(program, config, plugins, env, splits)
            faults.add(model_faults(config, target, looks.parameters, parts.value("metric", config.metric)))
    metric = parts.get("metric", config.metric, "metric")
    value = parts.value("metric", config.metric)
    if compares_a_field(value):
        faults.add(metric_faults(config, value, None if looks is None else looks.outputs, splits))
    searching = parts.all("strategy", config.strategy) if strategies is None else strategies
    models = {role: parts.get("model", c, "models", role) for role, c in config.models.items()}
    others = {kind: parts.maybe(kind, getattr(config, kind)) for kind in ("meter", "executor")}
    cache, sinks = parts.cache(config.cache), parts.all("sink", config.sink)
    faults.raise_all()
    assert splits is not None
    assert looks is not None
    return Job(
        config=config,
        file=file,
        splits=attrs.evolve(splits, notes=(*splits.notes, *looks.notes)),
        program=program,
        parameters=looks.parameters,
        metering=looks.metering,
        metric=metric,
        strategies=searching,
        models=models,
        cache=cache,
        sinks=sinks,
        run_dir=run_dir,
        plugins=plugins,
        env=env,
        **others,
    )


@attrs.frozen
class _Parts:
    plugins: PluginManager
    base_dir: Path
    faults: Faults

    def get(self, kind: str, component: Component, *where: str | int) -> Any:
        """Give an object, or a plugin by name that is known to be there and to take these options; None for neither."""
        with self.faults.at(*where):
            if component.is_reference:
                if component.options:
                    raise UsageError(f"`{component.use}` is an object and takes no options here")
                return load_reference(component.use, self.base_dir, where=dotted(where))
            try:
                self.plugins.options(kind, component.use, component.options)
            except PluginNotFoundError as error:
                raise PluginNotFoundError(f"{error}{self._own(component.use)}") from None
            return Use(component.use, **component.options)
        return None

    def value(self, kind: str, component: Component) -> Any:
        """Give a plugin's options as its own class; None for an object, and for what `get` takes to be a fault."""
        with suppress(UsageError, PluginError):
            return None if component.is_reference else self.plugins.options(kind, component.use, component.options)
        return None

    def _own(self, use: str) -> str:
        """Say how an object of one's own is named, where that seems to be meant."""
        module, _, attribute = use.rpartition(".")
        if module:
            return f". An object of your own is named `module:attribute`: `{module}:{attribute}`"
        beside = (self.base_dir / f"{use}.py").exists()
        return f". An object of {use}.py is named `module:attribute`: `{use}:...`" if beside else ""

    def maybe(self, kind: str, component: Component | None) -> Any:
        """Give it where there is one."""
        return None if component is None else self.get(kind, component, kind)

    def all(self, kind: str, components: Sequence[Component]) -> tuple[Any, ...]:
        """Give each of a list."""
        return tuple(self.get(kind, c, kind, number) for number, c in enumerate(components))

    def cache(self, component: Component | None) -> Any:
        """Without a word a file that all runs of the directory share, so that nothing is paid twice."""
        if component is None:
            return Use("sqlite", path=SHARED_CACHE)
        return None if component.use == "none" else self.get("cache", component, "cache")


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
    made = not runs_dir(base_dir).exists()
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
                if made:
                    path.parent.rmdir()
        return


def _dirs(base_dir: Path, name: str) -> Iterator[Path]:
    yield named_dir(base_dir, name)
    for number in count(2):
        yield runs_dir(base_dir) / f"{name}-{number}"
