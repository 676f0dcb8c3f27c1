"""The command line of burnish tune as values."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from burnish.errors import PluginNotFoundError, UsageError
from burnish_cli.config import Component
from burnish_cli.infer import Wishes
from burnish_cli.wishes import make_wishes, model_component, read_size


def wishes(**typed: Any) -> Wishes:
    fields: dict[str, Any] = {
        "prompt": Path("prompt.md"),
        "data": Path("rows.csv"),
        "metric": "exact_match",
        "model": "openai/org/model-1",
        "strategy": ["bootstrap"],
        "caps": {},
        "sizes": {},
    }
    return make_wishes(**{**fields, **typed})


def test_what_was_typed() -> None:
    """Caps, sizes and the model's id are read; what was not typed is left to be inferred."""
    found = wishes(
        caps={"max_cost": 0.1, "max_tokens": 7, "max_seconds": None},
        sizes={"train": "60", "val": "0.25", "test": "test.csv"},
        strategy=["bootstrap", "gepa"],
    )
    assert {"task": Component(use="openai", options={"model": "org/model-1"})} == found.models
    assert (Decimal("0.1"), 7, None) == (found.budget.max_cost, found.budget.max_tokens, found.budget.max_seconds)
    assert (60, 0.25, "test.csv") == (found.train, found.val, found.test)
    assert ["bootstrap", "gepa"] == [component.use for component in found.strategy]
    assert wishes().budget.is_unlimited
    assert wishes().val is None


@pytest.mark.parametrize("size", ["-1", "1.5", "0.0", "nan", "inf"])
def test_a_size_that_is_none_is_refused(size: str) -> None:
    """A number must be a count or a fraction; anything that is no number is a file."""
    with pytest.raises(UsageError, match=r"--val .* is neither a count nor a fraction"):
        read_size("val", size)


def test_one_model_needs_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The only installed model is taken, or of several the only one that needs no options; of none, none is."""
    monkeypatch.setenv("BURNISH_BLOCK_PLUGINS", "model.openai")
    assert Component(use="llamacpp") == model_component(None)
    monkeypatch.setenv("BURNISH_BLOCK_PLUGINS", "")
    chosen = model_component(None)
    assert ("llamacpp", {}, "needs no options, unlike openai") == (chosen.use, chosen.options, chosen.why)
    monkeypatch.setenv("BURNISH_BLOCK_PLUGINS", "model.*")
    with pytest.raises(PluginNotFoundError, match="no model is installed"):
        model_component(None)


def test_of_several_ready_models_one_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is guessed between two that need no options, nor where none is ready; a broken one is not taken."""
    for ready in (("llamacpp", "openai"), ()):
        monkeypatch.setattr("burnish_cli.wishes._needs_no_options", lambda _, name, ready=ready: name in ready)
        with pytest.raises(PluginNotFoundError, match=r"several models are installed \(llamacpp, openai\)"):
            model_component(None)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("gpt-5-mini", "a model's id stands behind its plugin: `--model openai/gpt-5-mini`"),
        ("org/model-1", "`--model openai/org/model-1`"),
        ("openai", "--model openai: say which model too: `--model openai/<id>`"),
    ],
)
def test_a_models_id_alone_is_no_model(typed: str, expected: str) -> None:
    """What is meant by it is named."""
    with pytest.raises((UsageError, PluginNotFoundError), match=re.escape(expected)):
        model_component(typed)


def test_a_model_plugin_that_is_not_there_is_named_with_the_way_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a checkout, too; an object is found by its reference, with a slash or without."""
    monkeypatch.setenv("BURNISH_BLOCK_PLUGINS", "model.openai")
    with pytest.raises(PluginNotFoundError, match=r"burnish-openai \(in a checkout: `uv run --group api burnish"):
        model_component("openai/gpt-5-mini")
    assert Component(use="toy:model") == model_component("toy:model")
