"""The built-ins come through entry points and hooks like everyone's."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path

import attrs
import pluggy

from burnish import abc, hookspecs

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
HOOKS = {
    "cache": "burnish_caches",
    "meter": "burnish_meters",
    "metric": "burnish_metrics",
    "sink": "burnish_sinks",
    "strategy": "burnish_strategies",
}


def declared() -> dict[str, str]:
    """Give the entry points that the core declares."""
    table = tomllib.loads(PROJECT.read_text(encoding="utf-8"))
    points: dict[str, str] = table["project"]["entry-points"]["burnish"]
    return points


def test_each_entry_point_names_a_module_that_offers_it() -> None:
    """Behind `<kind>.<name>` is a module whose hook gives a spec of that name, and no spec is without entry point."""
    offered = set()
    for point, module in declared().items():
        kind, name = point.split(".")
        if kind not in HOOKS:
            continue
        manager = pluggy.PluginManager(hookspecs.PROJECT)
        manager.add_hookspecs(hookspecs)
        manager.register(importlib.import_module(module))
        manager.check_pending()
        specs: list[abc.Spec[object]] = [s for result in getattr(manager.hook, HOOKS[kind])() for s in result]
        assert name in [spec.name for spec in specs], point
        offered |= {f"{kind}.{spec.name}" for spec in specs}
    assert {point for point in declared() if point.split(".")[0] in HOOKS} == offered


def test_each_spec_can_be_listed_and_configured() -> None:
    """A spec has a summary for `burnish plugins`, the kind's API number, and options with defaults, if any."""
    for point, module in declared().items():
        kind = point.split(".")[0]
        if kind in HOOKS:
            for spec in getattr(importlib.import_module(module), HOOKS[kind])():
                assert spec.summary, point
                assert abc.KINDS[kind] == spec.api
                assert spec.options is None or attrs.has(type(spec.options()))
