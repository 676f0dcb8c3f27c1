"""Programs that a configuration names as `module:attribute`: which attributes may be run."""

from __future__ import annotations

from typing import Any, cast

import burnish
from burnish import abc
from burnish.errors import ConfigError
from burnish_programs._leaf import Leaf
from burnish_programs._module import Module


def program_of(attribute: Any, name: str) -> abc.Target:
    """Give the target of what `module:attribute` names: an object that is or makes one, or what is marked as exposed.

    A marked class stands for an object made without arguments. Raises `ConfigError` for anything else: a configuration
    must not make burnish call whatever it finds.
    """
    instance = not isinstance(attribute, type)
    if (instance and hasattr(attribute, "__burnish_target__")) or getattr(attribute, "__burnish_exposed__", False):
        target: abc.Target = burnish.as_target(attribute if instance else attribute())
        return target
    if instance and hasattr(type(attribute), "parameters") and hasattr(type(attribute), "run"):
        return cast("abc.Target", attribute)
    if not instance and issubclass(attribute, (Module, Leaf)):
        raise ConfigError(f"`{name}` is a class: name an instance, as in `program = {attribute.__name__}()`")
    hint = "; mark it with `@burnish.exposed`" if callable(attribute) else ""
    raise ConfigError(f"`{name}` is no burnish program but of the type `{type(attribute).__name__}`{hint}")


def load_program(name: str) -> abc.Target:
    """Import `module:attribute` and give its target. Raises `ConfigError` that says what is missing."""
    return program_of(burnish.load_attribute(name), name)
