"""The strategies as plugins: by entry point, by name, with options."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from burnish import Environment, PluginManager, Spec, abc
from burnish.errors import ConfigError
from burnish_bootstrap import BootstrapFewShot, BootstrapRandomSearch, _plugin

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))


def specs() -> dict[str, Spec[Any]]:
    return {spec.name: spec for spec in _plugin.burnish_strategies()}


def test_every_spec_has_its_entry_point() -> None:
    """`strategy.<name>` of the distribution names this module."""
    points = PROJECT["project"]["entry-points"]["burnish"]
    assert {f"strategy.{name}": _plugin.__name__ for name in specs()} == points


@pytest.mark.parametrize("kind", [BootstrapFewShot, BootstrapRandomSearch])
async def test_a_table_of_knobs_opens_the_strategy(kind: Any) -> None:
    """The options are the strategy's knobs, and the strategy is what they make."""
    name = "bootstrap" if kind is BootstrapFewShot else "bootstrap-random"
    plugins = PluginManager(discover=False)
    plugins.register(_plugin)
    table = {"max_rounds": 2, "metric_threshold": 0.5, "stratify": False}
    async with plugins.open("strategy", name, table, Environment()) as strategy:
        assert kind(max_rounds=2, metric_threshold=0.5, stratify=False) == strategy
        assert isinstance(strategy, abc.Strategy)
        assert 2 == kind.replay_version


async def test_a_wrong_knob_is_a_config_error() -> None:
    """It names the key that was probably meant."""
    plugins = PluginManager(discover=False)
    plugins.register(_plugin)
    with pytest.raises(ConfigError, match=r"max_round: is not a known option; did you mean `max_rounds`"):
        async with plugins.open("strategy", "bootstrap", {"max_round": 2}, Environment()):
            pass
