"""Options, identity, and what the plugin offers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

import burnish
from burnish import Environment, abc, errors
from burnish_llamacpp import LlamaOptions, _plugin, open_model
from burnish_llamacpp._model import identity
from burnish_llamacpp._server import cache_directory


def test_hook_offers_one_model() -> None:
    """The plugin's hook gives one spec, `llamacpp`, opened by `open_model`."""
    (spec,) = _plugin.burnish_models()
    assert ("llamacpp", open_model, LlamaOptions, abc.KINDS["model"]) == (spec.name, spec.open, spec.options, spec.api)


def test_manager_finds_it() -> None:
    """The entry point is named `model.llamacpp` and belongs to this distribution."""
    found = [info for info in burnish.PluginManager().available("model") if info.name == "llamacpp"]
    assert ["burnish-llamacpp"] == [info.distribution for info in found]


def test_identity_is_what_decides_the_answer() -> None:
    """Model, digest, layout, context, exactness and sampling: not where the file lies, threads, cache or timeout."""
    options = LlamaOptions(model="/some/where/tiny.gguf", temperature=0.5, max_tokens=9, seed=3, exact=True)
    expected = {
        "provider": "llamacpp",
        "model": "tiny",
        "weights": "sha256:ab12",
        "layout": 1,
        "context": 4096,
        "exact": True,
        "settings": {"temperature": 0.5, "max_tokens": 9, "multiline": False, "seed": 3},
    }
    faster = attrs.evolve(options, model="tiny.gguf", threads=4, prompt_cache_mib=0, timeout=9.0)
    assert [expected] * 2 == [identity(o, name="tiny", sha256="ab12") for o in (options, faster)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model", " "),
        ("context", 0),
        ("threads", 0),
        ("temperature", -1.0),
        ("temperature", float("nan")),
        ("max_tokens", 0),
        ("seed", -1),
        ("prompt_cache_mib", -1),
        ("timeout", 0.0),
        ("timeout", float("inf")),
    ],
)
def test_wrong_options_are_named(key: str, value: Any) -> None:
    """A value that cannot work is refused with its key."""
    with pytest.raises(errors.ConfigError, match=f"model.llamacpp: `{key}` must be"):
        LlamaOptions(**{key: value})


def test_cache_directory_is_the_users(tmp_path: Path) -> None:
    """The environment's directory, else XDG_CACHE_HOME where it is absolute, else `~/.cache`."""
    home = Path.home() / ".cache"
    expected = [tmp_path / "llamacpp", *(root / "burnish" / "llamacpp" for root in (tmp_path, home, home))]
    given = [
        Environment(cache_dir=tmp_path, variables={"XDG_CACHE_HOME": "/other"}),
        Environment(variables={"XDG_CACHE_HOME": str(tmp_path)}),
        Environment(variables={"XDG_CACHE_HOME": "relative"}),
        Environment(),
    ]
    assert expected == [cache_directory(env) for env in given]
