"""The hooks: one a kind. A plugin implements those of the kinds it offers, in the module its entry point names.

```toml
[project.entry-points.burnish]
"cache.redis" = "burnish_redis._plugin"
```

A hook runs once, when a configuration that names the component is composed, and returns frozen specs with a factory
in them. Hooks are sync, take no arguments and do no work: connecting, loading and checking belong into `Spec.open`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pluggy

from burnish import abc

PROJECT = "burnish"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

HOOKS: Mapping[str, str] = {
    "metric": "burnish_metrics",
    "strategy": "burnish_strategies",
    "cache": "burnish_caches",
    "meter": "burnish_meters",
    "sink": "burnish_sinks",
    "model": "burnish_models",
    "executor": "burnish_executors",
    "target": "burnish_targets",
}
"""The hook of each kind."""

# --- what is measured ----------------------------------------------------------------------------------------


@hookspec
def burnish_metrics() -> Iterable[abc.Spec[abc.Metric]]:  # type: ignore[empty-body]
    """Offer metrics.

    Called once per composition, only when a configuration names `metric.<name>` of this plugin.

        @burnish.hookimpl
        def burnish_metrics():
            return [burnish.Spec(name="bleu", open=open_bleu, options=BleuOptions)]
    """


# --- what searches -------------------------------------------------------------------------------------------


@hookspec
def burnish_strategies() -> Iterable[abc.Spec[abc.Strategy]]:  # type: ignore[empty-body]
    """Offer strategies.

    Called once per composition, only when a configuration names `strategy.<name>` of this plugin.

        @burnish.hookimpl
        def burnish_strategies():
            return [burnish.Spec(name="gepa", open=open_gepa, options=GepaOptions)]
    """


# --- what keeps and counts -----------------------------------------------------------------------------------


@hookspec
def burnish_caches() -> Iterable[abc.Spec[abc.Cache]]:  # type: ignore[empty-body]
    """Offer rollout caches.

    Called once per composition, only when a configuration names `cache.<name>` of this plugin.

        @burnish.hookimpl
        def burnish_caches():
            return [burnish.Spec(name="redis", open=open_redis, capabilities={"shared", "persistent"})]
    """


@hookspec
def burnish_meters() -> Iterable[abc.Spec[abc.Meter]]:  # type: ignore[empty-body]
    """Offer budget meters.

    Called once per composition, only when a configuration names `meter.<name>` of this plugin.

        @burnish.hookimpl
        def burnish_meters():
            return [burnish.Spec(name="team", open=open_team_quota, options=QuotaOptions)]
    """


@hookspec
def burnish_sinks() -> Iterable[abc.Spec[abc.Sink]]:  # type: ignore[empty-body]
    """Offer trace sinks.

    Called once per composition, only when a configuration names `sink.<name>` of this plugin.

        @burnish.hookimpl
        def burnish_sinks():
            return [burnish.Spec(name="otel", open=open_otel, options=OtelOptions)]
    """


# --- what runs -----------------------------------------------------------------------------------------------


@hookspec
def burnish_models() -> Iterable[abc.Spec[abc.Model]]:  # type: ignore[empty-body]
    """Offer language models.

    Called once per composition, only when a configuration names `model.<name>` of this plugin.

        @burnish.hookimpl
        def burnish_models():
            return [burnish.Spec(name="openai", open=open_endpoint, options=EndpointOptions)]
    """


@hookspec
def burnish_executors() -> Iterable[abc.Spec[abc.Executor]]:  # type: ignore[empty-body]
    """Offer executors of rollouts.

    Called once per composition, only when a configuration names `executor.<name>` of this plugin.

        @burnish.hookimpl
        def burnish_executors():
            return [burnish.Spec(name="dask", open=open_dask, options=DaskOptions)]
    """


@hookspec
def burnish_targets() -> Iterable[abc.Spec[abc.Target]]:  # type: ignore[empty-body]
    """Offer ways to turn a described or foreign program into a target.

    Called once per composition, only when a configuration names `target.<name>` of this plugin.

        @burnish.hookimpl
        def burnish_targets():
            return [burnish.Spec(name="dspy", open=open_module, options=ModuleOptions)]
    """
