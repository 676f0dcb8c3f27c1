"""The program of a configuration: which target it is, with which options, and what is known of it before a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import attrs
import trio

from burnish import Environment, Parameter, PluginManager, Use, as_target
from burnish.abc import Metering, Target
from burnish.errors import UsageError
from burnish_cli.choices import impossible_labels, outputs_of
from burnish_cli.config import Component, Config, ProgramConfig
from burnish_cli.data import DataFileError, read_text
from burnish_cli.faults import KeyFaultError
from burnish_cli.references import BadReferenceError, find_reference
from burnish_cli.split import Splits


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
class Looks:
    """What is to be known of a program beforehand."""

    parameters: Mapping[str, Parameter]
    metering: Metering
    outputs: tuple[str, ...] | None
    """Their names; None where the program does not say."""
    notes: tuple[str, ...]


def look_at(program: Use, config: Config, plugins: PluginManager, env: Environment, splits: Splits | None) -> Looks:
    """Open the program to learn what is to be known of it, and close it again: a run opens its own.

    Raises what opening it raises, naming file or key where the configuration's short forms are to blame.
    """
    with _blamed(config):
        return trio.run(_look, program, plugins, env, splits)


async def _look(program: Use, plugins: PluginManager, env: Environment, splits: Splits | None) -> Looks:
    async with plugins.open("target", program.name, program.options, env) as opened:
        # Whether it is a target is not asked of what looks like one: that would ask for its fingerprint, and so import
        # what a program file names.
        target: Target = opened if hasattr(type(opened), "parameters") else as_target(opened)
        return Looks(
            parameters=dict(target.parameters()),
            metering=target.metering,
            outputs=outputs_of(target),
            notes=() if splits is None else tuple(impossible_labels(target, splits)),
        )


@contextmanager
def _blamed(config: Config) -> Iterator[None]:
    """Name the file or the key that what is wrong with a program comes from."""
    program = config.program
    try:
        yield
    except UsageError as error:
        if isinstance(program, ProgramConfig) and program.prompt is not None:
            file = config.resolve(program.prompt)
            raise DataFileError(file, str(error).removeprefix(f"{file}: ")) from None
        if isinstance(program, ProgramConfig) and program.use is not None:
            raise BadReferenceError("program.use", program.use, str(error)) from error.__cause__
        raise


def _only_label(config: Config) -> str:
    labels = list(config.data.labels)
    if len(labels) != 1:
        what = f"say which field the reply is; `data.labels` names {len(labels)} of them"
        raise KeyFaultError(("program", "output"), what)
    return labels[0]
