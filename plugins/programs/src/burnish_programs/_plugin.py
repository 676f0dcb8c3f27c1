"""The plugin: what the entry point `target.programs` names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import attrs

import burnish
from burnish import abc
from burnish.errors import ConfigError
from burnish_programs._predict import ChainOfThought, Predict
from burnish_programs._prompt import PromptFile
from burnish_programs._target import ModuleTarget
from burnish_programs._use import load_program


@attrs.frozen(kw_only=True)
class ProgramOptions:
    """A program described in a configuration: exactly one of `signature`, `prompt`, `program`, `use`."""

    signature: str | None = None
    """`"question, context -> answer: float"`: one predictor."""
    instruction: str | None = None
    """Of the signature's predictor; None: one made of the fields' names."""
    cot: bool = False
    """Whether the signature's predictor reasons first."""
    prompt: str | None = None
    """Path of a text with `{{name}}` where a row's value goes."""
    output: str | None = None
    """Of the prompt: the output's name, or `name: type`; None: `output`."""
    program: str | None = None
    """Path of a program file (`burnish_programs.ir`), TOML or JSON. The models that it names are the run's by role."""
    grant: tuple[str, ...] = ()
    """Capabilities that the program file's holes may use."""
    use: str | None = None
    """`module:attribute`, imported when the program is opened."""
    name: str | None = None
    """The predictor's name in candidates; None: `predict`, of a prompt `prompt`."""
    max_tokens: int | None = None
    """Bound of each reply, in tokens; None leaves the model's own."""
    temperature: float | None = None
    """Of each request; None leaves the model's own."""


_BELONGS = {
    "signature": ("instruction", "cot", "name", "max_tokens", "temperature"),
    "prompt": ("output", "name", "max_tokens", "temperature"),
    "program": ("grant",),
    "use": (),
}


def make_program(options: ProgramOptions, env: abc.Environment) -> abc.Target:
    """Give the target that the options describe. Raises `UsageError`, mostly as `ConfigError`."""
    fields = attrs.fields(ProgramOptions)
    given = {f.name: getattr(options, f.name) for f in fields if getattr(options, f.name) is not f.default}
    forms = [form for form in _BELONGS if form in given]
    if len(forms) != 1:
        have = " and ".join(f"`{form}`" for form in forms) or "none"
        known = ", ".join(f"`{form}`" for form in _BELONGS)
        raise ConfigError(f"a program is given by exactly one of {known}; here is {have}")
    form = given.pop(forms[0])
    stray = [name for name in given if name not in _BELONGS[forms[0]]]
    if stray:
        raise ConfigError(f"{', '.join(f'`{name}`' for name in stray)} does not belong to a program with `{forms[0]}`")
    if forms[0] == "use":
        return load_program(form)
    if forms[0] == "program":
        from burnish_programs._program_file import ProgramFileTarget  # nobody else needs the IR

        return ProgramFileTarget(env.base_dir / form, **given)
    if forms[0] == "prompt":
        return ModuleTarget(PromptFile(env.base_dir / form, **given))
    kind = ChainOfThought if given.pop("cot", False) else Predict
    return ModuleTarget(kind(form, **given))


@asynccontextmanager
async def open_program(options: ProgramOptions, env: abc.Environment) -> AsyncIterator[abc.Target]:
    """Open the program that the options describe; nothing has to be closed."""
    yield make_program(options, env)


@burnish.hookimpl
def burnish_targets() -> Iterable[burnish.Spec[abc.Target]]:
    """Offer the target `programs`."""
    return [
        burnish.Spec(
            name="programs",
            open=open_program,
            options=ProgramOptions,
            summary="A signature, a prompt file, a program file, or a program of your own as module:attribute.",
        )
    ]
