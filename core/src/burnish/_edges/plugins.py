"""The plugin manager: which components are installed, and making the ones that a configuration names.

The only module that calls pluggy. Kinds and names are read from the metadata of installed distributions, without
importing anything; a plugin's module is imported when one of its components is asked for, and its hook is then called
on this one plugin. A manager is an object that someone makes; there is no global one.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pluggy

from burnish import hookspecs
from burnish._edges.discovery import GROUP, Blocks, Damage, Source, installed
from burnish._edges.discovery import PluginInfo as PluginInfo
from burnish._edges.options import structure_options
from burnish._model.names import did_you_mean
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

BLOCK_VARIABLE = "BURNISH_BLOCK_PLUGINS"


class _Plugin:
    """One imported plugin, alone with pluggy: what it offers by kind. Each hook is called at most once."""

    def __init__(self, plugin: Any, distribution: str) -> None:
        self._distribution = distribution
        self._offers: dict[str, dict[str, Spec[Any]]] = {}
        pm = pluggy.PluginManager(hookspecs.PROJECT)
        pm.add_hookspecs(hookspecs)
        try:
            pm.register(plugin, name=distribution)
            pm.check_pending()
        except pluggy.PluginValidationError as error:
            why = " ".join(str(error).split())
            raise self._broken(f"is no plugin of burnish: {why}{_nearest_hooks(pm)}") from error
        self._hooks = pm.hook

    def offers(self, kind: str) -> Mapping[str, Spec[Any]]:
        """Give its specs of one kind, by name. Raises `PluginBrokenError`."""
        if kind not in self._offers:
            self._offers[kind] = self._call(kind)
        return self._offers[kind]

    def _call(self, kind: str) -> dict[str, Spec[Any]]:
        hook = hookspecs.HOOKS[kind]
        try:
            offered = [spec for answer in getattr(self._hooks, hook)() for spec in _specs(answer)]
        except (Exception, SystemExit) as error:
            raise self._broken(f"failed in its hook {hook}: {first_line(error)}") from error
        specs: dict[str, Spec[Any]] = {}
        for spec in offered:
            if not isinstance(spec, Spec):
                raise self._broken(f"gave {spec!r:.80} in its hook {hook}; a hook gives burnish.Spec objects")
            if spec.name in specs:
                raise self._broken(f"offers two specs named `{spec.name}` in its hook {hook}")
            if spec.options is not None and not (isinstance(spec.options, type) and attrs.has(spec.options)):
                raise self._broken(f"has options of `{spec.name}` that are no attrs class: {spec.options!r:.80}")
            specs[spec.name] = spec
        return specs

    def _broken(self, why: str) -> PluginBrokenError:
        return PluginBrokenError(f"the plugin of {self._distribution} {why}. Tell its authors, or uninstall it")


def _specs(answer: Any) -> Any:
    if _discard(answer):
        raise TypeError("it is async; a hook is a plain function")
    return answer


def _discard(made: Any) -> bool:
    """Close what an async function gave where nobody will await it."""
    if inspect.iscoroutine(made):
        made.close()
        return True
    return False


def _nearest_hooks(pm: pluggy.PluginManager) -> str:
    known = list(hookspecs.HOOKS.values())
    strange = [name for name in vars(pm.hook) if name.startswith("burnish_") and name not in known]
    return "".join(f"; {near}" for near in (did_you_mean(name, known) for name in strange) if near)


class PluginManager:
    """Finds components by kind and name, and opens them.

    `discover=False` knows only what is registered by hand. `blocked` names components as `<kind>.<name>` or
    `<kind>.<name>@<distribution>`, with `*` for any; so does the environment variable `BURNISH_BLOCK_PLUGINS`
    (comma-separated). `variables` stands in for the process's environment.
    """

    def __init__(
        self,
        *,
        discover: bool = True,
        blocked: Iterable[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._variables = os.environ if variables is None else variables
        patterns = [blocked] if isinstance(blocked, str) else list(blocked)
        listed = (part.strip() for part in self._variables.get(BLOCK_VARIABLE, "").split(","))
        self._blocks = Blocks([*patterns, *filter(None, listed)])
        self._discover = discover
        self._by_hand: list[Source] = []
        self._plugins: dict[str, _Plugin] = {}
        self._found: list[Source] | None = None
        self._damage: list[Damage] = []

    # --- what is there -------------------------------------------------------------------------------------------

    def available(self, kind: str | None = None) -> list[PluginInfo]:
        """List the components that metadata names (blocked ones too), sorted; imports nothing.

        Raises `UsageError` for a kind that does not exist.
        """
        if kind is not None:
            _check_kind(kind)
        infos = [source.info for source in self._sources()]
        return sorted((i for i in infos if kind in (None, i.kind)), key=lambda i: (i.kind, i.name, i.distribution))

    def register(self, plugin: Any, *, distribution: str = "registered by hand") -> None:
        """Add a plugin object (a module or any object with hook implementations) by hand.

        Its hooks are called at once, to learn the names it offers. Raises `PluginBrokenError` where they are broken or
        offer nothing; the manager is then as it was.
        """
        holder = _Plugin(plugin, distribution)
        names = [(kind, name) for kind in KINDS for name in holder.offers(kind)]
        if not names:
            raise PluginBrokenError(f"{plugin!r:.80} offers nothing; is each hook marked with @burnish.hookimpl?")
        for kind, name in names:
            blocked = self._blocks.holds(kind, name, distribution)
            info = PluginInfo(kind=kind, name=name, distribution=distribution, blocked=blocked)
            self._by_hand.append(Source(info=info, load=lambda: holder))

    def _sources(self) -> list[Source]:
        if self._found is None:
            found = list(installed(self._blocks)) if self._discover else []
            self._found = [one for one in found if isinstance(one, Source)]
            self._damage = [one for one in found if isinstance(one, Damage)]
        return [*self._found, *self._by_hand]

    # --- one component -------------------------------------------------------------------------------------------

    def spec(self, kind: str, name: str) -> Spec[Any]:
        """Give a component's spec, importing its plugin.

        Raises `PluginNotFoundError` (with the names that are there), `PluginClashError` naming both distributions,
        `PluginBrokenError` where the import or the hook fails, and `PluginApiError` for another API number.
        """
        source = self._source(kind, name)
        info = source.info
        specs = self._plugin(source).offers(kind)
        if name not in specs:
            offered = ", ".join(specs) or "nothing (is it marked with @burnish.hookimpl?)"
            raise _broken(info, f"offers {offered} in its hook {hookspecs.HOOKS[kind]}, not `{name}`")
        spec = specs[name]
        if spec.api != KINDS[kind]:
            raise PluginApiError(
                f"{info.id} of {info.distribution} was written for API {spec.api} of the kind {kind}; this burnish has "
                f"API {KINDS[kind]}: install a version of {info.distribution} made for it"
            )
        return spec

    def _source(self, kind: str, name: str) -> Source:
        _check_kind(kind)
        sources = [source for source in self._sources() if (kind, name) == (source.info.kind, source.info.name)]
        usable = [source for source in sources if not source.info.blocked]
        if not usable:
            raise self._not_found(kind, name, blocked=bool(sources))
        if len(usable) > 1:
            names = sorted(source.info.distribution for source in usable)
            whom = " and ".join(names) if len(set(names)) > 1 else f"{names[0]}, {len(names)} times"
            raise PluginClashError(
                f"{kind}.{name} is offered by {whom}; uninstall one of them, or block it: "
                f"{BLOCK_VARIABLE}={kind}.{name}@{names[0]}"
            )
        return usable[0]

    def _not_found(self, kind: str, name: str, *, blocked: bool) -> PluginNotFoundError:
        if blocked:
            return PluginNotFoundError(f"{kind}.{name} is blocked; take it out of {BLOCK_VARIABLE} or `blocked`")
        names = sorted({info.name for info in self.available(kind) if not info.blocked})
        near = did_you_mean(name, names)
        custom = "" if near else f"; by custom it is called burnish-{name}"
        return PluginNotFoundError(
            f"no {kind} named `{name}` is installed; {near and f'{near} '}there is: {', '.join(names) or 'none'}. "
            f"A distribution offers one through the entry point `{kind}.{name}` in the group `{GROUP}`{custom}"
        )

    def _plugin(self, source: Source) -> _Plugin:
        """Import a plugin, once."""
        info = source.info
        key = f"{info.distribution} {info.module}"
        if not info.module:
            held: _Plugin = source.load()
            return held
        if key not in self._plugins:
            try:
                plugin = source.load()
            except (Exception, SystemExit) as error:
                raise _broken(info, f"cannot be imported: {first_line(error)}") from error
            self._plugins[key] = _Plugin(plugin, info.distribution)
        return self._plugins[key]

    # --- its life ------------------------------------------------------------------------------------------------

    def options(self, kind: str, name: str, table: Mapping[str, Any] | None = None, *, file: str | None = None) -> Any:
        """Read a user's table as a component's options, and open nothing; None where it takes none.

        Raises what `spec` raises, and `OptionsError` naming file, key and expected type.
        """
        where = f"{kind} `{name}`"
        return structure_options(self.spec(kind, name).options, {} if table is None else table, where=where, file=file)

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
        options = self.options(kind, name, table, file=file)
        opened: Any = spec.open(options, env or Environment(variables=self._variables))
        if not hasattr(type(opened), "__aenter__"):
            made = type(opened).__name__
            _discard(opened)
            raise _broken(
                self._source(kind, name).info, f"gave {made} from `Spec.open`, which gives an async context manager"
            )
        async with opened as instance:
            yield instance

    def check(self) -> list[tuple[PluginInfo, PluginError]]:
        """Import every component that is not blocked and say which are broken or clash; harmless to the rest."""
        infos = self.available()
        faults: list[tuple[PluginInfo, PluginError]] = [(damage.info, damage.error) for damage in self._damage]
        for info in infos:
            if info.blocked:
                continue
            try:
                if info.kind not in KINDS:
                    raise PluginBrokenError(f"{info.distribution} offers `{info.id}`, but there is no such kind")
                self.spec(info.kind, info.name)
            except PluginError as error:
                faults.append((info, error))
        return faults


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise UsageError(f"there is no kind `{kind}`; the kinds are {', '.join(KINDS)}")


def _broken(info: PluginInfo, why: str) -> PluginBrokenError:
    return PluginBrokenError(
        f"the plugin {info.id} of {info.distribution} {why}. Reinstall or uninstall {info.distribution}, or choose "
        f"another {info.kind}"
    )
