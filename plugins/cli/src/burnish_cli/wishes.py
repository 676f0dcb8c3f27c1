"""The command line of `burnish tune` as values."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from burnish import Budget, PluginManager
from burnish.errors import PluginError, PluginNotFoundError, UsageError
from burnish_cli.config import Component, Size
from burnish_cli.infer import Wishes

KNOWN = ("openai", "llamacpp")
OPENAI = (
    "install burnish-openai (in a checkout: `uv run --group api burnish ...`) and say `--model openai/<id>`"
)


def make_wishes(
    *,
    prompt: Path,
    data: Path,
    metric: str,
    model: str | None,
    strategy: Sequence[str],
    caps: Mapping[str, Any],
    sizes: Mapping[str, str | None],
    **rest: Any,
) -> Wishes:
    """Read what was typed. Raises `UsageError` naming the option, `PluginNotFoundError` where a model must be named."""
    splits: dict[str, Any] = {name: read_size(name, size) for name, size in sizes.items() if size is not None}
    return Wishes(
        prompt=prompt,
        data=data,
        metric=Component(use=metric),
        strategy=tuple(Component(use=name) for name in strategy),
        models={"task": model_component(model)},
        budget=Budget(**caps),
        **splits,
        **rest,
    )


def read_size(name: str, size: str) -> Size:
    """Read a count, a fraction or a file."""
    for kind in (int, float):
        try:
            number = kind(size)
        except ValueError:
            continue
        if number < 0 or (kind is float and not 0 < number < 1):
            raise UsageError(f"--{name} {size} is neither a count nor a fraction between 0 and 1")
        return number
    return size


def model_component(model: str | None) -> Component:
    """Read `plugin` or `plugin/model`; None takes the only model that is installed, or that needs no options."""
    plugins = PluginManager(variables=os.environ)
    names = [info.name for info in plugins.available("model") if not info.blocked]
    if model is not None:
        return _named(model, plugins, names)
    if not names:
        raise PluginNotFoundError(f"no model is installed; {OPENAI}")
    ready = names if len(names) == 1 else [name for name in names if _needs_no_options(plugins, name)]
    if len(ready) != 1:
        raise PluginNotFoundError(f"several models are installed ({', '.join(names)}); say which by `--model`")
    others = [name for name in names if name != ready[0]]
    return Component(use=ready[0], why=f"needs no options, unlike {', '.join(others)}" if others else "")


def _named(model: str, plugins: PluginManager, names: Sequence[str]) -> Component:
    use, _, name = model.partition("/")
    if ":" in use:
        return Component(use=model)
    if use not in names:
        of = "openai" if "openai" in names else next((n for n in names if not _needs_no_options(plugins, n)), None)
        there = f"there is: {', '.join(names) or 'none'}"
        if use in KNOWN or of is None:
            raise PluginNotFoundError(f"no model plugin named `{use}` is installed ({there}); {OPENAI}")
        raise PluginNotFoundError(
            f"`{model}` names no model plugin ({there}); a model's id stands behind its plugin: `--model {of}/{model}`"
        )
    if not name and not _needs_no_options(plugins, use):
        raise UsageError(f"--model {use}: say which model too: `--model {use}/<id>`")
    return Component(use=use, options={"model": name} if name else {})


def _needs_no_options(plugins: PluginManager, name: str) -> bool:
    try:
        options = plugins.spec("model", name).options
    except PluginError:  # a broken one is none to take without a word
        return False
    return options is None or all(field.default is not attrs.NOTHING for field in attrs.fields(options) if field.init)
