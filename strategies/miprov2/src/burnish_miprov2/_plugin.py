"""The plugin: what the entry point `strategy.miprov2` names."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import burnish
from burnish import abc
from burnish_miprov2._miprov2 import MIPROv2


@asynccontextmanager
async def _open(options: MIPROv2, env: abc.Environment) -> AsyncIterator[MIPROv2]:
    """A strategy is its own options and holds nothing open."""
    yield options


@burnish.hookimpl
def burnish_strategies() -> Iterable[burnish.Spec[abc.Strategy]]:
    """Offer `miprov2`."""
    return [
        burnish.Spec(
            name="miprov2",
            open=_open,
            options=MIPROv2,
            summary="Instructions from a grounded proposer and sets of demos, chosen together by TPE.",
        )
    ]
