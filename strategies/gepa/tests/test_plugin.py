"""The strategy as a plugin: by entry point, by name, with options."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from burnish import Environment, PluginManager, abc
from burnish.errors import ConfigError, UsageError
from burnish_gepa import GEPA, SameParent, TopK, _plugin

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))


def plugins() -> PluginManager:
    manager = PluginManager(discover=False)
    manager.register(_plugin)
    return manager


def test_every_spec_has_its_entry_point() -> None:
    """`strategy.gepa` of the distribution names this module."""
    points = PROJECT["project"]["entry-points"]["burnish"]
    assert {f"strategy.{spec.name}": _plugin.__name__ for spec in _plugin.burnish_strategies()} == points


async def test_a_table_of_knobs_opens_the_strategy() -> None:
    """Objects are named by text, with their numbers: a configuration file can say everything but code."""
    table = {"sampling": "SameParent(2)", "selection": "TopK(1)", "auto": "light", "protected": ["{json}"]}
    async with plugins().open("strategy", "gepa", table, Environment()) as strategy:
        assert GEPA(sampling=SameParent(2), selection=TopK(1), auto="light", protected=("{json}",)) == strategy
        assert isinstance(strategy, abc.Strategy)


@pytest.mark.parametrize(("table", "why"), [({"samplin": "x"}, "did you mean `sampling`"), ({"seed": "x"}, "seed")])
async def test_a_wrong_knob_is_a_config_error(table: dict[str, object], why: str) -> None:
    """It names the key, and the one that was probably meant."""
    with pytest.raises((ConfigError, UsageError), match=why):
        async with plugins().open("strategy", "gepa", table, Environment()):
            pass
