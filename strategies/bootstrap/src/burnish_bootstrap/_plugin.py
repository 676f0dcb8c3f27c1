"""The plugin: what the entry points `strategy.bootstrap` and `strategy.bootstrap-random` name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import TypeVar

import burnish
from burnish import abc
from burnish_bootstrap._fewshot import BootstrapFewShot
from burnish_bootstrap._random_search import BootstrapRandomSearch

S = TypeVar("S", BootstrapFewShot, BootstrapRandomSearch)


@asynccontextmanager
async def _open(options: S, env: abc.Environment) -> AsyncIterator[S]:
    """A strategy is its own options and holds nothing open."""
    yield options


@burnish.hookimpl
def burnish_strategies() -> Iterable[burnish.Spec[abc.Strategy]]:
    """Offer `bootstrap` and `bootstrap-random`."""
    return [
        burnish.Spec(
            name="bootstrap",
            open=_open,
            options=BootstrapFewShot,
            summary="Demos from the program's own successes and from labeled rows: one set, few rollouts.",
        ),
        burnish.Spec(
            name="bootstrap-random",
            open=_open,
            options=BootstrapRandomSearch,
            summary="Many sets of such demos; the best on the validation rows wins.",
        ),
    ]
