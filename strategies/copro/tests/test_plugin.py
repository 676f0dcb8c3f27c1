"""COPRO as a plugin: by entry point, by name, with options."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from burnish import Environment, PluginManager, abc
from burnish.errors import ConfigError
from burnish_copro import COPRO, _plugin

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))


def test_the_spec_has_its_entry_point() -> None:
    """`strategy.copro` of the distribution names this module."""
    points = PROJECT["project"]["entry-points"]["burnish"]
    assert {f"strategy.{spec.name}": _plugin.__name__ for spec in _plugin.burnish_strategies()} == points


async def test_a_table_of_knobs_opens_the_strategy() -> None:
    """The options are the strategy's knobs, and the strategy is what they make."""
    plugins = PluginManager(discover=False)
    plugins.register(_plugin)
    table = {"breadth": 4, "init_temperature": 1, "protected": ["Be brief."]}
    async with plugins.open("strategy", "copro", table, Environment()) as strategy:
        assert COPRO(breadth=4, init_temperature=1, protected=("Be brief.",)) == strategy
        assert isinstance(strategy, abc.Strategy)


@pytest.mark.parametrize(
    ("table", "why"),
    [({"breath": 2}, "did you mean `breadth`"), ({"breadth": 1}, "at least 2"), ({"prompt_model": "x"}, "proposer")],
    ids=str,
)
async def test_a_wrong_knob_is_a_config_error(table: dict[str, object], why: str) -> None:
    """It names the knob, and what it takes."""
    plugins = PluginManager(discover=False)
    plugins.register(_plugin)
    with pytest.raises(ConfigError, match=why):
        async with plugins.open("strategy", "copro", table, Environment()):
            pass
