"""What a run takes, from a few real rollouts of the program as it is: `burnish plan --sample N`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import attrs
import trio

from burnish import Budget, Engine, Plan, Report, RoleSpend, RunHandle, aoptimize
from burnish.abc import Problem
from burnish.errors import UsageError
from burnish.events import RolloutLanded
from burnish_cli import text
from burnish_cli.job import Job

NOTE = "measured on the program as it is: demos and longer instructions make prompts longer"


@attrs.frozen
class Sample:
    """The model calls of some rollouts, by role."""

    rollouts: Sequence[Mapping[str, RoleSpend]]

    @property
    def roles(self) -> list[str]:
        return sorted({role for calls in self.rollouts for role in calls})

    def spread(self, role: str, rollouts: int) -> dict[str, tuple[float, float] | None]:
        """Give the range of calls, tokens and dollars that so many rollouts take; None for money without a price."""
        spent = [calls.get(role, RoleSpend()) for calls in self.rollouts]
        priced = not any(one.unpriced for one in spent)
        return {
            "calls": _between([one.requests for one in spent], rollouts),
            "tokens": _between([one.usage.total for one in spent], rollouts),
            "cost": _between([float(one.cost) for one in spent], rollouts) if priced else None,
        }

    def to_json(self, rollouts: int) -> dict[str, Any]:
        """Give it as JSON values, for a run of so many rollouts."""
        roles = {role: self.spread(role, rollouts) for role in self.roles}
        return {"rollouts": len(self.rollouts), "for": rollouts, "roles": roles, "note": NOTE}

    def in_words(self, rollouts: int, proposer_calls: int) -> Iterator[str]:
        """Say it in lines, for a run of so many rollouts."""
        yield f"sample    {text.count(len(self.rollouts), 'rollout')}, {NOTE}"
        for role in self.roles:
            found = self.spread(role, rollouts)
            calls, tokens, cost = found["calls"], found["tokens"], found["cost"]
            assert calls is not None
            assert tokens is not None
            money = "no price known" if cost is None else _range(cost, "${:.4g}".format)
            yield (
                f"cost      {text.safe(role)}, for {text.count(rollouts, 'rollout')}: {_range(calls)} calls, "
                f"{_range(tokens)} tokens, {money}"
            )
        if not self.roles:
            yield "cost      unknown: no model call of these rollouts was seen"
        if proposer_calls:
            yield f"cost      beside them at most {text.count(proposer_calls, 'proposer call')}, not measured"


def _between(values: Sequence[float], count: int) -> tuple[float, float]:
    """Give the range of the sum of so many further values (95 % if they are normal); one value shows no spread."""
    mean = statistics.fmean(values)
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    more = 2 * spread * math.sqrt(count * count / len(values) + count)
    return max(count * min(values), count * mean - more), count * mean + more


def _range(pair: tuple[float, float], write: Any = "{:,.0f}".format) -> str:
    low, high = (write(value) for value in pair)
    return low if low == high else f"{low} to {high}"


@attrs.frozen
class _Measure:
    """A strategy that scores the program as it is on the first rows."""

    count: int
    replay_version = 1

    async def compile(self, engine: Engine, problem: Problem) -> Report:
        """Score the start, on the rows that any run scores it on first."""
        columns = (problem.val or problem.train)[: self.count]
        await engine.evaluate_many([(engine.register(problem.start), columns)])
        return Report(strategy="sample", best=problem.start, seed=problem.seed)

    def plan(self, problem: Problem) -> Plan:
        """Say what that takes."""
        return Plan(rollouts=self.count)


def take_sample(job: Job, count: int) -> Sample:
    """Run some rollouts of the program as it is, under the run's caps and into its cache.

    Raises `UsageError` for a count below 1, and what a run raises.
    """
    if count < 1:
        raise UsageError(f"--sample {count} measures nothing; give the number of rollouts to run")
    handle = RunHandle()
    trio.run(partial(_run, job, count, handle))
    landed = [event for event in handle.events if isinstance(event, RolloutLanded)]
    return Sample([event.record.calls for event in landed if event.source == "live" or event.record.calls])


async def _run(job: Job, count: int, handle: RunHandle) -> None:
    budget: Budget = attrs.evolve(job.config.budget, max_metric_calls=count)
    await aoptimize(
        job.program,
        trainset=job.splits.values("train"),
        valset=job.splits.values("val"),
        metric=job.metric,
        strategy=_Measure(count),
        budget=budget,
        seed=job.config.seed,
        models=job.models,
        cache=job.cache,
        concurrency=job.config.concurrency,
        meter=job.meter,
        executor=job.executor,
        cache_salt=job.config.engine.cache_salt,
        failure_score=job.config.engine.failure_score,
        rollout_timeout=job.config.engine.rollout_timeout,
        plugins=job.plugins,
        env=job.env,
        handle=handle,
        config_file=job.file,
    )
