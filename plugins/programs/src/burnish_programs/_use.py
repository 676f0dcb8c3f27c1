"""Programs that a configuration names as `module:attribute`: which attributes may be run."""

from __future__ import annotations

import importlib
from typing import Any

import burnish
from burnish import abc
from burnish.errors import ConfigError
from burnish_programs._leaf import Leaf
from burnish_programs._module import Module


def program_of(attribute: Any, name: str) -> abc.Target:
    """Give the target of what `module:attribute` names: a module, a predictor, a target or a marked function.

    Raises `ConfigError` for anything else: a configuration must not make burnish call whatever it finds.
    """
    if isinstance(attribute, (Module, Leaf)) or getattr(attribute, "__burnish_exposed__", False):
        target: abc.Target = burnish.as_target(attribute)
        return target
    if not isinstance(attribute, type) and isinstance(attribute, abc.Target):
        return attribute
    if isinstance(attribute, type) and issubclass(attribute, (Module, Leaf)):
        raise ConfigError(f"`{name}` is a class: name an instance, as in `program = {attribute.__name__}()`")
    hint = "; mark it with `@burnish.exposed`" if callable(attribute) else ""
    raise ConfigError(f"`{name}` is {attribute!r:.80}, no burnish program{hint}")


def load_program(name: str) -> abc.Target:
    """Import `module:attribute` and give its target. Raises `ConfigError` that says what is missing."""
    module_name, _, path = name.partition(":")
    if not module_name or not path:
        raise ConfigError(f"`use = {name!r}` is not of the form `module:attribute`")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"`use = {name!r}`: no module `{error.name}`; install it, or add its directory to PYTHONPATH"
        ) from None
    for part in path.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"`use = {name!r}`: `{module_name}` has no `{path}`")
        found = getattr(found, part)
    return program_of(found, name)
