"""The plugin manager: which components are installed, and making the ones that a configuration names.

The only module that calls pluggy. Kinds and names are read from the metadata of installed distributions, without
importing anything; a plugin's module is imported when one of its components is asked for, and its hook is then called
on this one plugin. A manager is an object that someone makes; there is no global one.
"""

from __future__ import annotations

import fnmatch
import importlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import attrs
import pluggy

from burnish import hookspecs
from burnish._edges.options import structure_options
from burnish.abc import KINDS, Environment, Spec
from burnish.errors import (
    PluginApiError,
    PluginBrokenError,
    PluginClashError,
    PluginError,
    PluginNotFoundError,
    UsageError,
    first_line,
)

GROUP = "burnish"
BLOCK_VARIABLE = "BURNISH_BLOCK_PLUGINS"

_HOOKS = {
    "metric": "burnish_metrics",
    "strategy": "burnish_strategies",
    "cache": "burnish_caches",
    "meter": "burnish_meters",
    "sink": "burnish_sinks",
    "model": "burnish_models",
    "executor": "burnish_executors",
    "target": "burnish_targets",
}


@attrs.frozen(kw_only=True)
class PluginInfo:
    """One component that is there, as metadata says; nothing was imported for it."""

    kind: str
    name: str
    distribution: str
    version: str = ""
    module: str = ""
    blocked: bool = False

    @property
    def id(self) -> str:
        """`<kind>.<name>`, as the entry point is named."""
        return f"{self.kind}.{self.name}"


@attrs.frozen(kw_only=True)
class _Source:
    """Where a component comes from: an entry point to load, or a plugin object given by hand."""

    info: PluginInfo
    load: Callable[[], Any]


class PluginManager:
    """Finds components by kind and name, and opens them.

    `discover=False` knows only what is registered by hand. `blocked` names components as `<kind>.<name>` or
    `<kind>.<name>@<distribution>`, with `*` for any; so does the environment variable `BURNISH_BLOCK_PLUGINS`
    (comma-separated), where `variables` holds it.
    """

    def __init__(
        self,
        *,
        discover: bool = True,
        blocked: Iterable[str] = (),
        variables: Mapping[str, str] | None = None,
        points: Callable[[], Iterable[EntryPoint]] | None = None,
    ) -> None:
        from_environment = (variables or {}).get(BLOCK_VARIABLE, "")
        self._blocked = [*blocked, *(part.strip() for part in from_environment.split(",") if part.strip())]
        self._discover, self._points = discover, points or (lambda: entry_points(group=GROUP))
        self._by_hand: list[_Source] = []
        self._found: dict[str, list[_Source]] | None = None
        self._pm = pluggy.PluginManager(hookspecs.PROJECT)
        self._pm.add_hookspecs(hookspecs)
        self._registered: dict[str, Any] = {}

    # --- what is there -------------------------------------------------------------------------------------------

    def available(self, kind: str | None = None) -> list[PluginInfo]:
        """List the components that metadata names (blocked ones too), sorted; imports nothing."""
        infos = [source.info for sources in self._sources().values() for source in sources]
        return sorted((i for i in infos if kind in (None, i.kind)), key=lambda i: (i.kind, i.name, i.distribution))

    def register(self, plugin: Any, *, distribution: str = "registered by hand") -> None:
        """Add a plugin object (a module or any object with hook implementations) by hand.

        Its hooks are called at once, to learn the names it offers. Raises `PluginError` where they are broken.
        """
        key = f"by hand {len(self._by_hand)}"
        self._add(key, plugin, distribution)
        for kind in KINDS:
            for spec in self._call(kind, plugin, distribution):
                info = self._info(kind, spec.name, distribution)
                self._by_hand.append(_Source(info=info, load=lambda: plugin))
        self._found = None

    def _sources(self) -> dict[str, list[_Source]]:
        if self._found is None:
            self._found = {}
            points = sorted(self._points(), key=lambda p: p.name) if self._discover else []
            for source in [*map(self._from_point, points), *self._by_hand]:
                self._found.setdefault(source.info.id, []).append(source)
        return self._found

    def _from_point(self, point: EntryPoint) -> _Source:
        kind, _, name = point.name.partition(".")
        distribution = point.dist.name if point.dist is not None else "unknown"
        version = point.dist.version if point.dist is not None else ""
        info = attrs.evolve(self._info(kind, name, distribution), version=version, module=point.value)
        return _Source(info=info, load=lambda: importlib.import_module(point.module))

    def _info(self, kind: str, name: str, distribution: str) -> PluginInfo:
        forms = (f"{kind}.{name}", f"{kind}.{name}@{distribution}")
        blocked = any(fnmatch.fnmatchcase(form, pattern) for form in forms for pattern in self._blocked)
        return PluginInfo(kind=kind, name=name, distribution=distribution, blocked=blocked)

    # --- one component -------------------------------------------------------------------------------------------

    def spec(self, kind: str, name: str) -> Spec[Any]:
        """Give a component's spec, importing its plugin.

        Raises `PluginNotFoundError` (with the names that are there), `PluginClashError` naming both distributions,
        `PluginBrokenError` where the import or the hook fails, and `PluginApiError` for another API number.
        """
        source = self._source(kind, name)
        info = source.info
        key = f"{info.distribution} {info.module}"
        plugin = self._registered.get(key)
        if plugin is None:
            try:
                plugin = source.load()
            except Exception as error:
                raise self._broken(info, f"cannot be imported: {first_line(error)}") from error
            if info.module:
                self._add(key, plugin, info.distribution)
        specs = {spec.name: spec for spec in self._call(kind, plugin, info.distribution)}
        if name not in specs:
            offered = ", ".join(specs) or "nothing"
            raise self._broken(info, f"its hook {_HOOKS[kind]} offers {offered}, not `{name}`")
        spec = specs[name]
        if spec.api != KINDS[kind]:
            raise PluginApiError(
                f"{info.id} of {info.distribution} was written for API {spec.api} of the kind {kind}; this burnish has "
                f"API {KINDS[kind]}: install a version of {info.distribution} made for it"
            )
        return spec

    def _source(self, kind: str, name: str) -> _Source:
        if kind not in KINDS:
            raise UsageError(f"there is no kind `{kind}`; the kinds are {', '.join(KINDS)}")
        sources = self._sources().get(f"{kind}.{name}", [])
        usable = [source for source in sources if not source.info.blocked]
        if not usable:
            if sources:
                raise PluginNotFoundError(f"{kind}.{name} is blocked; take it out of {BLOCK_VARIABLE} or `blocked`")
            names = ", ".join(i.name for i in self.available(kind) if not i.blocked) or "none"
            raise PluginNotFoundError(
                f"no {kind} named `{name}` is installed; there is: {names}. A distribution offers one through the "
                f"entry point `{kind}.{name}` in the group `{GROUP}`"
            )
        if len(usable) > 1:
            names = " and ".join(sorted(source.info.distribution for source in usable))
            raise PluginClashError(
                f"{kind}.{name} is offered by {names}; uninstall one of them, or block it: "
                f"{BLOCK_VARIABLE}={kind}.{name}@{usable[0].info.distribution}"
            )
        return usable[0]

    def _add(self, key: str, plugin: Any, distribution: str) -> None:
        """Register a plugin with pluggy, refusing hooks that do not exist."""
        try:
            self._pm.register(plugin, name=key)
            self._pm.check_pending()
        except (pluggy.PluginValidationError, ValueError) as error:
            if self._pm.has_plugin(key):
                self._pm.unregister(name=key)
            raise PluginBrokenError(f"the plugin of {distribution} is broken: {first_line(error)}") from error
        self._registered[key] = plugin

    def _call(self, kind: str, plugin: Any, distribution: str) -> Sequence[Spec[Any]]:
        """Call one hook on one plugin."""
        others = [p for p in self._pm.get_plugins() if p is not plugin]
        hook = self._pm.subset_hook_caller(_HOOKS[kind], remove_plugins=others)
        try:
            specs = [spec for offered in hook() for spec in offered]
        except Exception as error:
            raise PluginBrokenError(
                f"the hook {_HOOKS[kind]} of {distribution} failed: {first_line(error)}"
            ) from error
        for spec in specs:
            if not isinstance(spec, Spec):
                raise PluginBrokenError(
                    f"the hook {_HOOKS[kind]} of {distribution} gave {spec!r:.80}; it gives burnish.Spec objects"
                )
        return specs

    def _broken(self, info: PluginInfo, why: str) -> PluginBrokenError:
        return PluginBrokenError(
            f"the plugin {info.id} of {info.distribution} {why}. Reinstall or uninstall {info.distribution}, or choose "
            f"another {info.kind}"
        )

    # --- its life ------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def open(
        self,
        kind: str,
        name: str,
        table: Mapping[str, Any] | None = None,
        env: Environment | None = None,
        *,
        file: str | None = None,
    ) -> AsyncIterator[Any]:
        """Open a component with a user's table of options; it is closed when the block ends.

        Raises what `spec` raises, and `OptionsError` naming file, key and expected type.
        """
        spec = self.spec(kind, name)
        options = structure_options(spec.options, table or {}, where=f"{kind} `{name}`", file=file)
        async with spec.open(options, env or Environment()) as instance:
            yield instance

    def check(self) -> list[tuple[PluginInfo, PluginError]]:
        """Import every component that is not blocked and say which are broken or clash; harmless to the rest."""
        faults: list[tuple[PluginInfo, PluginError]] = []
        for info in self.available():
            if info.blocked:
                continue
            try:
                if info.kind not in KINDS:
                    raise PluginBrokenError(f"{info.distribution} offers `{info.id}`, but there is no such kind")
                self.spec(info.kind, info.name)
            except PluginError as error:
                faults.append((info, error))
        return faults
