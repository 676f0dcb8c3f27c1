"""Evaluating a program on rows without an engine (seed 002; E55-E61)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from burnish._model.candidate import Candidate
from burnish._model.evals import Eval
from burnish._model.outcome import Complete, Fault, RolloutOutcome, RolloutRecord
from burnish._runtime.config import DEFAULT_EVAL_CONCURRENCY, EngineConfig
from burnish._runtime.evaluator import Evaluator
from burnish._runtime.target import as_target
from burnish.errors import EvaluationError, MetricError


@attrs.frozen(kw_only=True)
class Result:
    """One row's result of `forward_all`: an output, or the fault that stood in its way."""

    output: Any = None
    error: Fault | None = None

    @property
    def ok(self) -> bool:
        return self.error is None


class RowFailedError(EvaluationError):
    """A row could not be evaluated: `row` is its index, `fault` says why."""

    def __init__(self, row: int, fault: Fault | None) -> None:
        self.row, self.fault = row, fault
        super().__init__(f"row {row}: {fault or 'unscored'}")


async def evaluate_trainset(module: Any, rows: Iterable[Any], metric: Any) -> list[Eval]:
    """Run a program on every row and score it, 16 at once; results in row order (E59).

    All rows finish, unless credentials or the model are missing; then the failure of the lowest row, where there is
    one, is raised as `RowFailedError` or `MetricError`. Rows of one content are run once.
    """
    return await evaluate_trainset_with_concurrency(module, rows, metric, DEFAULT_EVAL_CONCURRENCY)


async def evaluate_trainset_with_concurrency(
    module: Any, rows: Iterable[Any], metric: Any, concurrency: int
) -> list[Eval]:
    """Do `evaluate_trainset` with so many at once; 1 is strictly sequential, less is taken as 1."""
    evaluator = Evaluator(rows, metric, EngineConfig(concurrency=concurrency))
    evals: list[Eval] = []
    for rollout in await _every_row(evaluator, module):
        fault = rollout.error
        if fault is not None and fault.where == "metric":
            raise MetricError(f"{fault.message} (row {rollout.example})", row=rollout.example)
        if rollout.eval is None or fault is not None:
            raise RowFailedError(rollout.example, fault)
        evals.append(rollout.eval)
    return evals


async def _every_row(evaluator: Evaluator, module: Any) -> tuple[RolloutOutcome, ...]:
    """Run a program as it is on all rows; failures stay in their rows."""
    index, columns = evaluator.register(Candidate()), range(len(evaluator.examples))
    outcome = await evaluator.evaluate_many(as_target(module), [(index, columns)], lenient=True)
    assert isinstance(outcome, Complete)
    return outcome.evaluation.rollouts


async def forward_all(
    module: Any, rows: Sequence[Any], concurrency: int = DEFAULT_EVAL_CONCURRENCY
) -> list[Result]:
    """Run a program on every row without scoring; one result a row, in order, failures as values (E61).

    Rows of one content are run once, and share the output. Where going on is pointless (credentials, no model), the
    rows that were not run say so.
    """
    outputs: dict[str, Any] = {}

    class Keep:
        """Runs rollouts here and keeps the live outputs, which records hold as JSON only."""

        async def run(self, rollout: Any) -> RolloutRecord:
            record: RolloutRecord = await rollout.here()
            outputs[rollout.example.fingerprint] = rollout.prediction
            return record

    evaluator = Evaluator(rows, _unscored, EngineConfig(concurrency=concurrency), executor=Keep())
    rollouts = await _every_row(evaluator, module)
    prints = [example.fingerprint for example in evaluator.examples]
    return [
        Result(output=outputs.get(prints[r.example])) if r.error is None else Result(error=r.error) for r in rollouts
    ]


def _unscored(example: Any, prediction: Any) -> float:
    return 0.0


_unscored.__burnish_inline__ = True  # type: ignore[attr-defined]
