"""Looking at what was given as a component, without running any of its code: is it one, and is it open?"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Mapping
from typing import Any

MEMBERS: Mapping[str, tuple[str, ...]] = {
    "cache": ("get_many", "put_many"),
    "executor": ("run",),
    "meter": ("lease", "release"),
    "metric": ("evaluate",),
    "model": ("identity", "limits", "complete"),
    "sink": ("deliver",),
    "strategy": ("compile", "plan"),
    "target": ("fingerprint", "metering", "injection", "inputs", "parameters", "run"),
}
"""What the protocols of `burnish.abc` ask for, by kind."""


def missing(kind: str, given: Any) -> list[str]:
    """Name the members of a kind that an object lacks.

    Before Python 3.12 `isinstance` of a protocol evaluates properties, and a target's `fingerprint` may import code;
    here a property is not evaluated unless the object makes its attributes on the way (`__getattr__`).
    """
    return [name for name in MEMBERS[kind] if not _has(given, name)]


def _has(given: Any, name: str) -> bool:
    try:
        inspect.getattr_static(given, name)
    except AttributeError:
        return hasattr(type(given), "__getattr__") and hasattr(given, name)
    return True


def not_ready(given: Any, kind: str) -> str | None:
    """Say why something cannot be a component yet: a class, a module, a coroutine, or a context manager not entered.

    None for anything else. A coroutine is closed, as nobody will await it.
    """
    if inspect.isclass(given):
        return f"the class `{given.__name__}` is no {kind}: make one, `{given.__name__}(...)`"
    if inspect.ismodule(given):
        return f"the module `{given.__name__}` is no {kind}: pass an object of it"
    if inspect.iscoroutine(given):
        given.close()
        return f"a coroutine is no {kind}: `await` what `{given.__qualname__}(...)` gives, and pass that"
    if _is_manager(given) and missing("target" if kind == "program" else kind, given):
        return (
            f"this {kind} is not open yet: enter it, `async with ... as {kind}:`, and pass what that gives; or name "
            f"it, `burnish.Use('<name>', ...)`, and the run opens and closes it"
        )
    return None


def _is_manager(given: Any) -> bool:
    """Whether it is a context manager and nothing else: calling one of `contextlib` decorates a function."""
    if not (hasattr(type(given), "__aenter__") or hasattr(type(given), "__enter__")):
        return False
    return not callable(given) or isinstance(given, (contextlib.ContextDecorator, contextlib.AsyncContextDecorator))
