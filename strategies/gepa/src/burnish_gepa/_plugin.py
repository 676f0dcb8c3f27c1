"""The plugin: what the entry point `strategy.gepa` names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import burnish
from burnish import abc
from burnish_gepa._search import GEPA


@asynccontextmanager
async def _open(options: GEPA, env: abc.Environment) -> AsyncIterator[GEPA]:
    """A strategy is its own options and holds nothing open."""
    yield options


@burnish.hookimpl
def burnish_strategies() -> Iterable[burnish.Spec[abc.Strategy]]:
    """Offer `gepa`."""
    return [
        burnish.Spec(
            name="gepa",
            open=_open,
            options=GEPA,
            summary="Texts rewritten by reflection on traces and feedback; needs a metric that gives feedback.",
        ),
    ]
