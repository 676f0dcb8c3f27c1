"""What a run will do and cost at most, before it does it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import attrs
import trio

from burnish import (
    FEWEST_FOR_INTERVAL,
    Budget,
    Candidate,
    Composition,
    Plan,
    Use,
    check_budget,
    make_examples,
)
from burnish.abc import MetricInfo, Problem, Strategy
from burnish_cli import text
from burnish_cli.config import SPLITS
from burnish_cli.job import Job
from burnish_cli.sample import Sample
from burnish_cli.tally import search_seconds


@attrs.frozen(kw_only=True)
class RunPlan:
    """The strategies' plans, in order, and the final test."""

    strategies: tuple[tuple[str, Plan], ...]
    test: int
    """Rollouts that are set aside for baseline and winner on the test rows."""

    @property
    def rollouts(self) -> int:
        """Upper bound of the whole run."""
        return sum(plan.rollouts for _, plan in self.strategies) + self.test

    @property
    def proposer_calls(self) -> int:
        """Upper bound of the calls that the strategies make themselves."""
        return sum(plan.proposer_calls for _, plan in self.strategies)

    def within(self, budget: Budget) -> int:
        """Give the rollouts that the whole run makes at most under these caps."""
        return min([self.rollouts, *(c for c in (budget.max_metric_calls, budget.max_lm_calls) if c is not None)])

    def levels(self) -> list[dict[str, Any]]:
        """Say what some budgets buy, the test included: one round of the first strategy, and up to the whole plan."""
        _, first = self.strategies[0]
        more = first.rollouts - first.minimum
        wanted = dict.fromkeys((first.minimum, first.minimum + more // 2, first.rollouts) if first.candidates else ())
        levels = [{"rollouts": count + self.test, "candidates": first.buys(count)} for count in wanted]
        if len(self.strategies) > 1:
            candidates = sum(plan.candidates for _, plan in self.strategies)
            levels.append({"rollouts": self.rollouts, "candidates": candidates})
        return levels


def make_plan(job: Job) -> RunPlan:
    """Ask each strategy what it may do. Raises what opening them raises; nothing is spent."""
    return trio.run(_make_plan, job)


async def _make_plan(job: Job) -> RunPlan:
    rows = [*job.splits.values("val"), *job.splits.values("train")]
    val = len(job.splits.val)
    problem = Problem(
        parameters=job.parameters,
        val=tuple(range(val)),
        train=tuple(range(val, len(rows))),
        start=Candidate(),
        metric=MetricInfo(),
        seed=job.config.seed,
        examples=make_examples(rows),
    )
    async with AsyncExitStack() as stack:
        plans, parts = [], Composition(stack, job.plugins, job.env, job.file)
        for what in job.strategies:
            strategy: Strategy = await parts.open("strategy", what)
            name = what.name if isinstance(what, Use) else type(what).__name__
            plans.append((name, strategy.plan(problem).repeated(job.config.engine.repeats)))
        return RunPlan(strategies=tuple(plans), test=2 * len(job.splits.test))


def check(job: Job, plan: RunPlan) -> None:
    """Refuse a budget that a run would refuse. Raises `BudgetRefusedError`, and `UsageError` for a cap of no use."""
    first = plan.strategies[0][1]
    check_budget(job.config.budget, first, test=len(job.splits.test), metering=job.metering)


def to_json(job: Job, plan: RunPlan, sample: Sample | None = None) -> dict[str, Any]:
    """Give a plan as JSON values."""
    rollouts = plan.within(job.config.budget)
    return {
        "inputs": dict(job.config.data.inputs),
        "labels": dict(job.config.data.labels),
        "rows": {name: len(getattr(job.splits, name)) for name in SPLITS},
        "strategies": [{"strategy": name, **attrs.asdict(part)} for name, part in plan.strategies],
        "test": plan.test,
        "rollouts": plan.rollouts,
        "proposer_calls": plan.proposer_calls,
        "buys": plan.levels(),
        "sample": None if sample is None else sample.to_json(rollouts),
        "budget": {name: str(cap) if name == "max_cost" else cap for name, cap in _caps(job.config.budget).items()},
        "run_dir": str(job.run_dir),
        "notes": list(job.splits.notes),
    }


def in_words(job: Job, plan: RunPlan, sample: Sample | None = None) -> Iterator[str]:
    """Say what will happen, a line at a time."""
    splits, data = job.splits, job.config.data
    sizes = f"{len(splits.train):,} train, {len(splits.val):,} validation, {len(splits.test):,} test rows"
    columns = f"{_names(data.inputs.values())} → {_names(data.labels.values()) or 'no label'}"
    yield f"data      {text.safe(columns)}; {sizes}"
    roles = ", ".join(
        f"{role}: {component.use}{f' ({component.why})' if component.why else ''}"
        for role, component in job.config.models.items()
    )
    yield f"models    {text.safe(roles) or 'the program brings its own'}"
    for name, part in plan.strategies:
        proposals = f", {text.count(part.proposer_calls, 'proposer call')}" if part.proposer_calls else ""
        note = f"; {text.safe(part.note)}" if part.note else ""
        made = f"{text.count(part.candidates, 'new candidate')} beside the baseline"
        yield f"strategy  {text.safe(name)}: at most {text.count(part.rollouts, 'rollout')} for {made}{proposals}{note}"
    if plan.test:
        few = "" if len(splits.test) >= FEWEST_FOR_INTERVAL else f"; an interval needs {FEWEST_FOR_INTERVAL} rows"
        yield f"test      {text.count(plan.test, 'rollout')} for baseline and winner, set aside beforehand{few}"
        if job.config.budget.max_seconds is not None:
            ends = text.clock(search_seconds(job.config.budget.max_seconds))
            yield f"time      the search ends after {ends} at the latest, the rest of `max_seconds` is for the test"
    if levels := plan.levels():
        each = [(text.count(n["rollouts"], "rollout"), text.count(n["candidates"], "candidate")) for n in levels]
        yield f"buys      about, with the test: {'; '.join(f'{rollouts}: {made}' for rollouts, made in each)}"
    if sample is not None:
        yield from sample.in_words(plan.within(job.config.budget), plan.proposer_calls)
    caps = ", ".join(f"{name} = {cap}" for name, cap in _caps(job.config.budget).items()) or "no cap"
    yield f"budget    {caps}; the plan needs at most {text.count(plan.rollouts, 'rollout')}"
    yield f"run       {text.safe(str(job.run_dir))}"
    for note in splits.notes:
        yield f"note: {text.safe(note)}"


def _names(columns: Iterable[str]) -> str:
    return ", ".join(f"`{column}`" for column in columns)


def _caps(budget: Budget) -> dict[str, Any]:
    return {name: cap for name, cap in attrs.asdict(budget, recurse=False).items() if cap is not None}
