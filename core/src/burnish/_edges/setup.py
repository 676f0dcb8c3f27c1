"""What makes up a run: read, opened and checked before anything is spent."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from burnish import abc
from burnish._edges.compose import Composition
from burnish._edges.request import RunRequest
from burnish._edges.resume import budget_facts
from burnish._model.budget import Budget
from burnish._model.candidate import Candidate
from burnish._model.canonical import Json, JsonMap, fingerprint
from burnish._model.example import Example, make_examples
from burnish._model.report import Plan
from burnish._runtime.capture import as_data
from burnish._runtime.config import EngineConfig
from burnish._runtime.evaluator import Evaluator
from burnish._runtime.given import missing
from burnish._runtime.invoke import Invoker
from burnish._runtime.metric import MetricRunner
from burnish._runtime.model_calls import as_model
from burnish._runtime.pricing import name_of, no_bound, no_price
from burnish._runtime.scope import current_models
from burnish._runtime.target import as_target, inputs_of
from burnish.errors import BudgetRefusedError, RowError, UsageError


@attrs.frozen(kw_only=True)
class Setup:
    """Everything that makes up a run, checked for what can be checked without effects."""

    target: abc.Target
    train: Sequence[Example]
    val: Sequence[Example]
    test: Sequence[Example]
    metric: Any
    strategies: Sequence[Any]
    models: Mapping[str, Any]
    seed: int
    config: EngineConfig
    metric_info: abc.MetricInfo
    repeats: int = 1
    min_gain: float = 0.0
    start: Candidate = Candidate()
    warnings: tuple[str, ...] = ()


async def compose(parts: Composition, wanted: RunRequest, config: EngineConfig) -> Setup:
    """Open program, metric, strategies and models, copy the program, and read all rows.

    Raises usage and plugin errors.
    """
    target = as_target(await parts.open("target", wanted.program))
    copy = getattr(target, "copy", None)
    rows = {"trainset": [*wanted.trainset], "valset": [*(wanted.valset or ())], "testset": [*(wanted.testset or ())]}
    if not rows["trainset"]:
        raise UsageError("the trainset is empty; a strategy has nothing to learn from")
    chain = wanted.strategy if isinstance(wanted.strategy, (list, tuple)) else [wanted.strategy]
    if not chain:
        raise UsageError("no strategy was given")
    train, val, test = _examples(target, rows)
    metric = await parts.open("metric", wanted.metric)
    models = await parts.models(wanted.models)
    strategies = [await parts.open("strategy", one) for one in chain]
    check_prices(config.budget, models)
    if wanted.executor is None:  # another process may bring its own
        check_roles(models, program=target, metric=metric)
    return Setup(
        target=target if copy is None else copy(),
        train=train,
        val=val,
        test=test,
        metric=metric,
        metric_info=MetricRunner(metric, Invoker(config.concurrency)).info,
        strategies=strategies,
        models=models,
        seed=wanted.seed,
        repeats=wanted.repeats,
        min_gain=wanted.min_gain,
        config=config,
        warnings=tuple(_overlaps(train, val, test)),
    )


def _examples(target: abc.Target, by_set: Mapping[str, Sequence[Any]]) -> list[tuple[Example, ...]]:
    """Read all rows, those of the test too: what the program cannot take is refused before anything is spent.

    Raises `RowError` with the name of the set and the row's index in it.
    """
    made = []
    for name, rows in by_set.items():
        try:
            made.append(tuple(_seen_by(target, example, index) for index, example in enumerate(make_examples(rows))))
        except RowError as error:
            raise RowError(f"{name}: {error}", row=error.row, field=error.field) from None
    return made


def _seen_by(target: abc.Target, example: Example, index: int) -> Example:
    inputs = inputs_of(example, index, target)
    return example if target.inputs is None else example.seen_by(inputs)


def _overlaps(train: Sequence[Example], val: Sequence[Example], test: Sequence[Example]) -> list[str]:
    """Name the rows that stand in two of the sets: a score on them says less than it seems to.

    Rows are the same where the program gets the same inputs, whatever their ids and labels.
    """
    by_set = {"train": train, "validation": val, "test": test}
    found = []
    for first, second in (("train", "validation"), ("train", "test"), ("validation", "test")):
        known, whole = {e.source for e in by_set[first]}, {e.fingerprint for e in by_set[first]}
        rows = [str(i) for i, example in enumerate(by_set[second]) if example.source in known]
        if rows:
            shown = ", ".join(rows[:5]) + (", ..." if len(rows) > 5 else "")
            same = all(by_set[second][int(row)].fingerprint in whole for row in rows)
            how = "" if same else ", with the same inputs for the program"
            found.append(f"{len(rows)} of the {second} rows stand in the {first} rows too{how} ({second} rows {shown})")
    return found


def problem_of(setup: Setup, examples: tuple[Example, ...]) -> abc.Problem:
    """Say what a strategy is asked to solve: validation columns first, then those of the trainset."""
    val = tuple(range(len(setup.val)))
    train = tuple(range(len(setup.val), len(setup.val) + len(setup.train)))
    return abc.Problem(
        parameters=setup.target.parameters(),
        train=train,
        val=val,
        start=setup.start,
        metric=setup.metric_info,
        seed=setup.seed,
        examples=examples,
    )


def check_budget(budget: Budget, plan: Plan, *, test: int, metering: str) -> None:
    """Refuse a budget that cannot be kept, or that cannot pay one round of the first strategy beside the test.

    `plan` is the first strategy's, `test` the number of test rows, `metering` the target's. Raises
    `BudgetRefusedError`.
    """
    for name in ("max_requests", "max_tokens", "max_cost"):
        if metering == "opaque" and getattr(budget, name) is not None:
            raise BudgetRefusedError(
                f"{name} cannot be kept: this program's model calls cannot be seen; cap max_metric_calls", cap=name
            )
    needed = plan.minimum + 2 * test
    for name in ("max_metric_calls", "max_lm_calls", "max_requests"):
        cap = getattr(budget, name)
        if cap is not None and cap < needed:
            each = ", each at least one request" if name == "max_requests" else ""
            raise BudgetRefusedError(
                f"{name} = {cap} buys nothing: one round needs {plan.minimum} rollouts and the test of "
                f"{test} rows {2 * test}{each}; allow at least {needed}, or use fewer rows",
                cap=name,
                needed=needed,
            )


def check_prices(budget: Budget, models: Mapping[str, Any]) -> None:
    """Refuse a cap in money where nobody knows what a call of one of the models may cost.

    Models that the program brings itself are not seen here: their first call shows it. Raises `BudgetRefusedError`.
    """
    if budget.max_cost is None:
        return
    for role, given in {**current_models(), **models}.items():
        model = as_model(given)
        limits, who = model.limits, f"{name_of(model)} (role `{role}`)"
        if limits.price is None:
            raise BudgetRefusedError(no_price(who), cap="max_cost")
        if limits.max_output_tokens is None and not limits.price.free:
            raise BudgetRefusedError(no_bound(who), cap="max_cost")


def check_roles(models: Mapping[str, Any], **users: Any) -> None:
    """Refuse a run without a model for a role that a part says it asks (`roles`). Raises `UsageError` naming the part.

    As in `model_for`, the task's stands in for roles that have none.
    """
    have = {**current_models(), **models}
    for name, part in users.items():
        lacking = [] if "task" in have else sorted(set(getattr(part, "roles", ())) - have.keys())
        if lacking:
            raise UsageError(
                f"the {name} asks a model of the role `{lacking[0]}`, and this run has none: pass "
                f"`models={{'{lacking[0]}': model}}`, or give its predictors `model=...`"
            )


def facts_of(setup: Setup, evaluator: Evaluator) -> JsonMap:
    """What a resume compares, and what a reader wants to know."""
    python = ".".join(platform.python_version_tuple()[:2])
    versions: dict[str, Json] = {"python": python, "burnish": _version("burnish")}
    sets = {"train": setup.train, "validation": setup.val, "test": setup.test}
    return {
        "format": "burnish.run",
        "version": 1,
        "seed": setup.seed,
        "salt": setup.config.cache_salt,
        "failure_score": setup.config.failure_score,
        "rows": {name: fingerprint([e.fingerprint for e in make_examples(rows)]) for name, rows in sets.items()},
        "counts": {name: len(rows) for name, rows in sets.items()},
        "start": setup.start.fingerprint,
        "program": setup.target.fingerprint,
        "metric": evaluator.metric.fingerprint,
        "strategies": [_strategy_facts(strategy) for strategy in setup.strategies],
        "budget": budget_facts(setup.config.budget),
        "versions": versions,
        **({"repeats": setup.repeats} if setup.repeats > 1 else {}),
        **evaluator.identity_facts(setup.target),
    }


def _strategy_facts(strategy: Any) -> Json:
    """Say which strategy it is, what its decisions depend on, and how it is set."""
    options = attrs.asdict(strategy, recurse=False) if attrs.has(type(strategy)) else {}
    return {
        "strategy": type(strategy).__name__,
        "replay_version": getattr(strategy, "replay_version", 1),
        "options": {name: _option_facts(value) for name, value in options.items()},
    }


def _option_facts(value: Any) -> Json:
    """Give an option as data; strategies among the parts of one, by what they are themselves."""
    if isinstance(value, tuple) and value and not any(missing("strategy", one) for one in value):
        return [_strategy_facts(one) for one in value]
    return as_data(value)


def _version(distribution: str) -> str:
    import importlib.metadata

    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
