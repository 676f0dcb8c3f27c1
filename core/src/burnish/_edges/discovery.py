"""Which components are installed: read from the metadata of distributions, and nothing of them is imported."""

from __future__ import annotations

import fnmatch
import importlib
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from burnish._model.names import did_you_mean
from burnish.errors import ConfigError, PluginBrokenError, first_line

if TYPE_CHECKING:
    from importlib.metadata import Distribution

GROUP = "burnish"


@attrs.frozen(kw_only=True)
class PluginInfo:
    """One component that is there, as metadata says; nothing was imported for it."""

    kind: str
    name: str
    distribution: str
    version: str = ""
    module: str = ""
    """What the entry point names; empty for what was registered by hand."""
    blocked: bool = False

    @property
    def id(self) -> str:
        """`<kind>.<name>`, as the entry point is named."""
        return f"{self.kind}.{self.name}" if self.name else self.kind


@attrs.frozen(kw_only=True)
class Source:
    """Where a component comes from: an entry point to load, or a plugin object given by hand."""

    info: PluginInfo
    load: Callable[[], Any]


@attrs.frozen
class Damage:
    """A distribution whose entry points cannot be read; the others are not concerned."""

    info: PluginInfo
    error: PluginBrokenError


class Blocks:
    """What may not be used: `<kind>.<name>` or `<kind>.<name>@<distribution>`, with `*` for any."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = [_normal(pattern) for pattern in patterns]

    def holds(self, kind: str, name: str, distribution: str) -> bool:
        """Whether a component is blocked. Names of distributions are compared as installers do: `a-b` is `A_B`."""
        forms = (f"{kind}.{name}", _normal(f"{kind}.{name}@{distribution}"))
        return any(fnmatch.fnmatchcase(form, pattern) for form in forms for pattern in self._patterns)


def _normal(pattern: str) -> str:
    component, at, distribution = pattern.partition("@")
    return f"{component}{at}{re.sub(r'[-_.]+', '-', distribution).lower()}"


def installed(blocks: Blocks) -> Iterator[Source | Damage]:
    """Give the components of all distributions on `sys.path`, each read on its own; the order means nothing."""
    from importlib.metadata import distributions  # 15 ms that `import burnish` need not pay

    seen: set[str] = set()
    for distribution in distributions():
        try:
            text = distribution.read_text("entry_points.txt") or ""
            if f"[{GROUP}]" not in text:
                continue
            name, version = _facts(distribution)
            if _normal(f"@{name}") in seen:  # shadowed by the one that stands earlier on the path
                continue
            seen.add(_normal(f"@{name}"))
            yield from _sources(distribution, name, version, blocks)
        except Exception as error:
            yield _damage(distribution, error)


def _sources(distribution: Distribution, name: str, version: str, blocks: Blocks) -> list[Source]:
    found = []
    for point in distribution.entry_points:
        if point.group == GROUP:
            kind, _, component = point.name.partition(".")
            info = PluginInfo(
                kind=kind,
                name=component,
                distribution=name,
                version=version,
                module=point.value,
                blocked=blocks.holds(kind, component, name),
            )
            found.append(Source(info=info, load=partial(type(point).load, point)))
    return found


def _facts(distribution: Distribution) -> tuple[str, str]:
    metadata, where = distribution.metadata, getattr(distribution, "_path", "unknown")
    return str((metadata.get_all("Name") or [where])[0]), str((metadata.get_all("Version") or [""])[0])


def _damage(distribution: Distribution, error: Exception) -> Damage:
    try:
        name, version = _facts(distribution)
    except Exception:  # its name is as unreadable as the rest
        name, version = "unknown", ""
    where = getattr(distribution, "_path", None)
    info = PluginInfo(kind="*", name="*", distribution=name, version=version)
    return Damage(
        info,
        PluginBrokenError(
            f"the entry points of {name}{f' in {where}' if where else ''} cannot be read: {first_line(error)}. "
            f"Reinstall or uninstall {name}"
        ),
    )


def load_attribute(reference: str) -> Any:
    """Import what `module:attribute` names; the attribute may be a path (`Holder.model`).

    Whether it may be used is the caller's to judge. Raises `ConfigError` where the text has another form, module or
    attribute is missing, or the module fails.
    """
    module, _, path = reference.partition(":")
    if not module or not path:
        raise ConfigError(f"`{reference}` is not of the form `module:attribute`")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        way = "install it, or add its directory to PYTHONPATH"
        raise ConfigError(
            f"`{reference}` cannot be imported: the module `{error.name}` is not there; {way}"
        ) from None
    except (Exception, SystemExit) as error:
        raise ConfigError(f"`{reference}` cannot be imported: {first_line(error)}") from error
    for name in path.split("."):
        if not hasattr(found, name):
            near = did_you_mean(name, dir(found))
            raise ConfigError(f"`{reference}` names `{name}`, which is not there{near and f'; {near}'}")
        found = getattr(found, name)
    return found
