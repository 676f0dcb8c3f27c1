"""The hooks: one a kind, each offers the component `second`."""

from __future__ import annotations

from collections.abc import Iterable

import burnish
from burnish import abc
from burnish_second._parts import QuotaOptions, open_cache, open_executor, open_meter, open_sink


@burnish.hookimpl
def burnish_executors() -> Iterable[burnish.Spec[abc.Executor]]:
    """Offer `executor.second`."""
    return [burnish.Spec(name="second", open=open_executor)]


@burnish.hookimpl
def burnish_meters() -> Iterable[burnish.Spec[abc.Meter]]:
    """Offer `meter.second`."""
    return [burnish.Spec(name="second", open=open_meter, options=QuotaOptions)]


@burnish.hookimpl
def burnish_caches() -> Iterable[burnish.Spec[abc.Cache]]:
    """Offer `cache.second`."""
    return [burnish.Spec(name="second", open=open_cache)]


@burnish.hookimpl
def burnish_sinks() -> Iterable[burnish.Spec[abc.Sink]]:
    """Offer `sink.second`."""
    return [burnish.Spec(name="second", open=open_sink)]
