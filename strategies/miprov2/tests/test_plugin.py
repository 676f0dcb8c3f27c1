"""The strategy as a plugin: by entry point, by name, with options."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from burnish import Environment, PluginManager, abc
from burnish.errors import ConfigError, UsageError
from burnish_miprov2 import MIPROv2, _plugin

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))


def test_every_spec_has_its_entry_point() -> None:
    """`strategy.miprov2` of the distribution names this module."""
    points = PROJECT["project"]["entry-points"]["burnish"]
    assert {f"strategy.{spec.name}": _plugin.__name__ for spec in _plugin.burnish_strategies()} == points


async def test_a_table_of_knobs_opens_the_strategy() -> None:
    """The options are the knobs, with DSPy's names."""
    plugins = PluginManager(discover=False)
    plugins.register(_plugin)
    table = {"auto": "medium", "max_labeled_demos": 8, "minibatch_size": 25, "seed": 0, "tip_aware": False}
    async with plugins.open("strategy", "miprov2", table, Environment()) as strategy:
        assert MIPROv2(auto="medium", max_labeled_demos=8, minibatch_size=25, seed=0, tip_aware=False) == strategy
        assert isinstance(strategy, abc.Strategy)


@pytest.mark.parametrize("name", ["max_label_demos", "versions"])
async def test_a_wrong_knob_is_a_config_error(name: str) -> None:
    """A name that is no knob is refused by its name; so is what the strategy says of itself."""
    plugins = PluginManager(discover=False)
    plugins.register(_plugin)
    with pytest.raises(ConfigError, match=name):
        async with plugins.open("strategy", "miprov2", {name: 2}, Environment()):
            pass


@pytest.mark.parametrize(
    ("knobs", "why"),
    [
        ({"auto": None}, "without auto it needs num_candidates"),
        ({"auto": "huge"}, "light, medium, heavy"),
        ({"num_candidates": 1}, "at least 2"),
        ({"minibatch_size": 0}, "at least 1"),
        ({"metric_threshold": float("nan")}, "finite"),
        ({"seed": True}, "whole number"),
    ],
)
def test_wrong_values_are_refused(knobs: dict[str, object], why: str) -> None:
    """What cannot be meant is a usage error that names the knob."""
    with pytest.raises(UsageError, match=why):
        MIPROv2(**knobs)  # type: ignore[arg-type]
