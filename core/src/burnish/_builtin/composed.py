"""`strategy.sequential` and `strategy.portfolio`: strategies made of others, by name."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import attrs

from burnish import abc
from burnish._toolkit.portfolio import Portfolio
from burnish._toolkit.stages import Sequential
from burnish.errors import UsageError
from burnish.hookspecs import hookimpl


@attrs.frozen(kw_only=True)
class PortfolioOptions:
    """Options of `portfolio`."""

    strategies: tuple[Any, ...] = ()
    """Each the name of a strategy, or a table with `use` and its options."""


@attrs.frozen(kw_only=True)
class SequentialOptions(PortfolioOptions):
    """Options of `sequential`."""

    shares: tuple[float, ...] = ()
    """What part of the budget's rollouts each stage may take, in proportion; empty: all that is left."""


async def _opened(options: PortfolioOptions, env: abc.Environment) -> tuple[abc.Strategy, ...]:
    if env.open is None:
        raise UsageError("strategies inside a strategy are opened by a run; make `burnish.Portfolio(...)` of objects")
    return tuple([await env.open("strategy", what) for what in options.strategies])


@asynccontextmanager
async def open_sequential(options: SequentialOptions, env: abc.Environment) -> AsyncIterator[Sequential]:
    """Open the stages, and give them as one strategy."""
    yield Sequential(strategies=await _opened(options, env), shares=options.shares)


@asynccontextmanager
async def open_portfolio(options: PortfolioOptions, env: abc.Environment) -> AsyncIterator[Portfolio]:
    """Open the entrants, and give them as one strategy."""
    yield Portfolio(strategies=await _opened(options, env))


@hookimpl
def burnish_strategies() -> Iterable[abc.Spec[abc.Strategy]]:
    """Offer `sequential` and `portfolio`."""
    return [
        abc.Spec(
            name="sequential",
            open=open_sequential,
            options=SequentialOptions,
            summary="strategies in a row, each from the best of the one before",
        ),
        abc.Spec(
            name="portfolio",
            open=open_portfolio,
            options=PortfolioOptions,
            summary="strategies side by side at equal shares of the budget; the best wins",
        ),
    ]
