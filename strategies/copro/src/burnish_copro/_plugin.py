"""The plugin: what the entry point `strategy.copro` names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import burnish
from burnish import abc
from burnish_copro._copro import COPRO


@asynccontextmanager
async def _open(options: COPRO, env: abc.Environment) -> AsyncIterator[COPRO]:
    """A strategy is its own options and holds nothing open."""
    yield options


@burnish.hookimpl
def burnish_strategies() -> Iterable[burnish.Spec[abc.Strategy]]:
    """Offer `copro`."""
    return [
        burnish.Spec(
            name="copro",
            open=_open,
            options=COPRO,
            summary="Better instructions: rounds of proposals that see the best attempts so far with their scores.",
        )
    ]
