"""Putting a run together: components by name or as objects, opened in order and closed in reverse."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

import attrs

from burnish._edges.plugins import PluginManager
from burnish._runtime.given import missing, not_ready
from burnish._runtime.model_calls import as_model
from burnish.abc import Environment
from burnish.errors import NotAModelError, PluginBrokenError, UsageError

SERVICES = ("cache", "executor", "meter", "sink", "strategy")
"""Kinds whose protocol is all that they can be; others take several forms, and what reads them looks at them."""


@attrs.frozen(init=False)
class Use:
    """A plugin by name with its options: `Use("sqlite", path="cache.db")`."""

    name: str
    options: Mapping[str, Any] = attrs.field(repr=lambda options: repr(sorted(options)))
    """Shown by their names alone: values may be secret."""

    def __init__(self, name: str, /, **options: Any) -> None:
        self.__attrs_init__(name, options)


class Composition:
    """Opens the components of one run. What is given as an object is used as it is and not closed."""

    def __init__(
        self, stack: AsyncExitStack, plugins: PluginManager, env: Environment, file: str | None = None
    ) -> None:
        self._stack, self._plugins, self._env, self._file = stack, plugins, env, file

    async def open(self, kind: str, what: Any) -> Any:
        """Give the component: opened from a name, a `Use` or a table with `use`, or the object itself; None stays None.

        Raises `UsageError` for an object that is not of the kind, or not open yet, and `PluginBrokenError` where a
        plugin opens one.
        """
        if isinstance(what, str):
            what = Use(what)
        elif isinstance(what, Mapping) and isinstance(what.get("use"), str):
            what = Use(what["use"], **{name: value for name, value in what.items() if name != "use"})
        if not isinstance(what, Use):
            if what is not None and kind != "target":  # many things make a target: `as_target` looks at it
                check_given(kind, what)
            return what
        env = attrs.evolve(self._env, open=self.open)
        opened = self._plugins.open(kind, what.name, what.options, env, file=self._file)
        component = await self._stack.enter_async_context(opened)
        lacks = missing(kind, component) if kind in SERVICES else []
        if lacks:
            raise PluginBrokenError(
                f"the plugin {kind}.{what.name} opened a {type(component).__qualname__}, which is no {kind}: it lacks "
                f"{', '.join(f'`{name}`' for name in lacks)}. Tell its authors, or choose another {kind}"
            )
        return component

    async def models(self, by_role: Mapping[str, Any] | Any | None) -> dict[str, Any]:
        """Give the models by role; a single model is the task's. Equal descriptions share one instance."""
        if by_role is None:
            return {}
        if not isinstance(by_role, Mapping):
            by_role = {"task": by_role}
        opened: dict[str, Any] = {}
        made: list[tuple[Use, Any]] = []
        for role, given in by_role.items():
            if given is None:
                raise UsageError(f"the model of the role `{role}` is None; leave the role out instead")
            what = Use(given) if isinstance(given, str) else given
            if not isinstance(what, Use):
                opened[role] = _checked_model(role, what)
                continue
            shared = [model for known, model in made if known == what]
            opened[role] = shared[0] if shared else await self.open("model", what)
            made.append((what, opened[role]))
        return opened


def _checked_model(role: str, what: Any) -> Any:
    try:
        as_model(what)
    except NotAModelError as error:
        raise NotAModelError(f"the model of the role `{role}`: {error}") from None
    return what


def check_given(kind: str, what: Any) -> None:
    """Refuse an object that is not of the kind. Raises `UsageError` that says what it lacks."""
    reason = not_ready(what, kind)
    if reason is not None:
        raise UsageError(reason)
    lacks = missing(kind, what)
    if lacks and not (kind == "metric" and callable(what)):
        raise UsageError(
            f"a {type(what).__qualname__} is no {kind}, it lacks {', '.join(f'`{name}`' for name in lacks)}: pass an "
            f"object as `burnish.abc.{kind.capitalize()}` describes it, or a plugin's name"
        )


def label_of(what: Any) -> str:
    """Name a component in the log: by its name, an object by its class, and by no option or state of either."""
    if isinstance(what, str):
        return what
    return what.name if isinstance(what, Use) else type(what).__qualname__
