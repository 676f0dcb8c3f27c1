"""What a caller asks a run for: each argument of `optimize`, named here and nowhere else."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from burnish import abc
from burnish._edges.handle import RunHandle
from burnish._edges.plugins import PluginManager
from burnish._edges.resume import Resume
from burnish._model.budget import Budget
from burnish._model.canonical import JsonMap
from burnish._runtime.config import DEFAULT_EVAL_CONCURRENCY, EngineConfig
from burnish.errors import UsageError


@attrs.frozen
class RunRequest:
    """One run, as it was asked for. Components are objects, names of plugins, or `burnish.Use(name, **options)`.

    Nothing is checked when it is made: `config` and `directory` raise when a run looks at them.
    """

    program: Any = attrs.field(repr=False)
    """What to tune: a program, a target, a callable, or a component of the kind `target`."""
    trainset: Sequence[Any] = attrs.field(kw_only=True, repr=False)
    """The rows that a strategy learns from."""
    valset: Sequence[Any] | None = attrs.field(kw_only=True, repr=False, default=None)
    """The rows that candidates are compared on; None: those of the trainset."""
    testset: Sequence[Any] | None = attrs.field(kw_only=True, repr=False, default=None)
    """The rows that baseline and winner meet on at the end; None: no test."""
    metric: Any = attrs.field(kw_only=True)
    strategy: Any = attrs.field(kw_only=True)
    """One, or several in a row: each starts from the best of the one before."""
    budget: Budget = attrs.field(kw_only=True)
    seed: int = attrs.field(kw_only=True, default=0)
    models: Mapping[str, Any] | Any | None = attrs.field(kw_only=True, default=None)
    """By role; a single one is the task's."""
    cache: Any = attrs.field(kw_only=True, default=None)
    concurrency: int = attrs.field(kw_only=True, default=DEFAULT_EVAL_CONCURRENCY)
    """Rollouts in flight at once, over candidates and rows together."""
    run_dir: str | Path | None = attrs.field(kw_only=True, default=None)
    """Where the run is kept; None: nowhere."""
    resume: Resume | bool = attrs.field(kw_only=True, default=False)
    """Whether to go on with the run that `run_dir` holds, and how: nothing is paid twice."""
    answers: str | Path | None = attrs.field(kw_only=True, default=None)
    """The directory of another run whose results are answers here, where rollouts are the same; the test is fresh."""
    configuration: JsonMap | None = attrs.field(kw_only=True, repr=False, default=None)
    """What whoever goes on with the run has to know: kept in its lock file as it is, so it must hold no secret."""
    executor: Any = attrs.field(kw_only=True, default=None)
    meter: Any = attrs.field(kw_only=True, default=None)
    sinks: Sequence[Any] = attrs.field(kw_only=True, default=())
    cache_salt: int = attrs.field(kw_only=True, default=0)
    """This and the next two are those of `burnish.EngineConfig`."""
    failure_score: float = attrs.field(kw_only=True, default=0.0)
    rollout_timeout: float | None = attrs.field(kw_only=True, default=None)
    """In seconds."""
    repeats: int = attrs.field(kw_only=True, default=1)
    """Rollouts of each candidate on each row in the search, for metrics or models that are noisy: their mean counts."""
    min_gain: float = attrs.field(kw_only=True, default=0.0)
    """By how many standard errors, row by row, the winner must beat the program as it is on validation; else that one
    stays. Of k candidates that are no better, the luckiest is about `sqrt(2 ln k)` ahead: 2.6 for 30."""
    plugins: PluginManager | None = attrs.field(kw_only=True, default=None)
    """Where components are found by name; None: what is installed."""
    env: abc.Environment | None = attrs.field(kw_only=True, default=None)
    """Given to each component that is opened; None: this process's."""
    handle: RunHandle | None = attrs.field(kw_only=True, default=None)
    """To watch and cancel the run from outside."""
    config_file: str | None = attrs.field(kw_only=True, default=None)
    """Named in errors about a component's options."""

    @property
    def resuming(self) -> Resume | None:
        """How the run goes on; None for a new one. Raises `UsageError` where there is nothing to go on with."""
        if not self.resume:
            return None
        if self.run_dir is None:
            raise UsageError("resume: a run goes on in its `run_dir`; name it")
        return Resume() if self.resume is True else self.resume

    @property
    def directory(self) -> Path | None:
        """The run's directory as a path."""
        return None if self.run_dir is None else Path(self.run_dir)

    @property
    def environment(self) -> abc.Environment:
        """What components get when they are opened: the run's directory among it."""
        return attrs.evolve(self.env or abc.Environment(variables=os.environ), run_dir=self.directory)

    @property
    def config(self) -> EngineConfig:
        """How the run's engine evaluates. Raises `UsageError` for a value that cannot be meant."""
        if not isinstance(self.budget, Budget):
            raise UsageError(
                f"budget: {self.budget!r:.80} is no budget; pass for example `burnish.Budget(max_metric_calls=500)`, "
                "or `burnish.Budget()` for no cap"
            )
        if not isinstance(self.repeats, int) or isinstance(self.repeats, bool) or self.repeats < 1:
            raise UsageError(f"repeats: {self.repeats!r} is no whole number from 1 on")
        if not isinstance(self.min_gain, (int, float)) or not 0 <= self.min_gain < math.inf:
            raise UsageError(f"min_gain: {self.min_gain!r} is no number of standard errors, from 0 on")
        return EngineConfig(
            concurrency=self.concurrency,
            budget=self.budget,
            cache_salt=self.cache_salt,
            failure_score=self.failure_score,
            rollout_timeout=self.rollout_timeout,
            keep_traces="all",
            preflight=True,
            max_failures_in_row=16,
        )
