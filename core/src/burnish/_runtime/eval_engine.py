"""The evaluator with the seed's names: `EvalEngine`, with programs given per call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Self

import attrs

from burnish import abc
from burnish._model.budget import Spend
from burnish._model.candidate import Candidate
from burnish._model.example import own
from burnish._model.matrix import ScoreMatrix
from burnish._model.outcome import Complete, EvalOutcome, GateOutcome
from burnish._model.pareto import ParetoView
from burnish._model.signed import method_like
from burnish._runtime.answers import Answers
from burnish._runtime.batch import Request
from burnish._runtime.checkpoint import Restored, restore, write
from burnish._runtime.codeprint import same_code
from burnish._runtime.config import EngineConfig
from burnish._runtime.engine import gated
from burnish._runtime.evaluator import Evaluator
from burnish._runtime.target import as_target


class EvalEngine:
    """The seed's engine: examples, a metric, a registry of candidates, and programs given per call (seed 000).

    Columns are the examples, in order. It keeps scores, not traces: served rollouts come with `trace=None`, unless
    `EngineConfig(keep_traces="all")`.

        engine = burnish.EvalEngine(rows, metric)
        i = engine.register(burnish.Candidate().with_instruction("answer", "Answer with a number."))
        outcome = await engine.evaluate(program, i)
    """

    @method_like(Evaluator)
    def __init__(self, *args: Any, **parts: Any) -> None:
        self._evaluator = Evaluator(*args, **parts)
        self._targets: list[tuple[Any, abc.Target]] = []
        self._restored: Restored | None = None

    def _target(self, program: Any) -> abc.Target:
        for known, target in self._targets:
            if same_code(known, program):
                return target
        target = as_target(program)
        self._targets.append((program, target))
        return target

    def _met(self, program: Any, requests: Sequence[Request]) -> abc.Target:
        target = self._target(program)
        if self._restored is not None:
            self._evaluator.check(target, requests)  # usage errors come before anything changes (E7)
            self._restored.meet(target)
            self._restored = None
        return target

    def _columns(self, subset: Sequence[int] | None) -> Sequence[int]:
        return range(self.num_examples) if subset is None else subset

    def register(self, candidate: Candidate) -> int:
        """Give the candidate's index; a candidate of known content keeps its old one (E4)."""
        return self._evaluator.register(candidate)

    async def evaluate(self, module: Any, candidate: int, subset: Sequence[int] | None = None) -> EvalOutcome:
        """Evaluate one candidate on the example indices of `subset`, None for all.

        Gives `Complete(evaluation)`, or `BudgetExhausted(needed)` where the unknown part does not fit: nothing ran
        then. Raises usage errors before anything is spent, and `MetricError` after all rows finished.
        """
        outcome = await self.evaluate_many(module, [candidate], subset)
        return attrs.evolve(outcome, single=True) if isinstance(outcome, Complete) else outcome

    async def evaluate_many(
        self, module: Any, candidates: Sequence[int], subset: Sequence[int] | None = None
    ) -> EvalOutcome:
        """Evaluate several candidates in one fan-out; gives one evaluation each, in the order of the request."""
        columns = self._columns(subset)
        requests = [(index, columns) for index in candidates]
        return await self._evaluator.evaluate_many(self._met(module, requests), requests)

    async def evaluate_gated(
        self, module: Any, candidate: int, minibatch: Sequence[int], threshold: float
    ) -> GateOutcome:
        """Evaluate on a minibatch; only a mean strictly above the threshold earns the full set (E45)."""
        evaluate = partial(self._evaluator.evaluate_many, self._met(module, [(candidate, minibatch)]))
        return await gated(evaluate, candidate, minibatch, threshold, range(self.num_examples))

    def candidate(self, index: int) -> Candidate:
        """Give a registered candidate. Raises `UnknownIndexError`."""
        return self._evaluator.candidate(index)

    def candidate_hash(self, index: int) -> int:
        """Give a registered candidate's 64-bit content hash. Raises `UnknownIndexError`."""
        return self._evaluator.candidate(index).stable_hash

    def pareto(self) -> ParetoView:
        """Take a dominance snapshot over all columns."""
        return self.matrix.pareto()

    def pareto_over(self, columns: Iterable[int]) -> ParetoView:
        """Take a dominance snapshot over some columns."""
        return self.matrix.pareto_over(columns)

    def budget_allows(self, rollouts: int) -> bool:
        """Whether so many more rollouts fit."""
        return self._evaluator.ledger.refusal(rollouts) is None

    def charge(self, metric_calls: int = 0, lm_calls: int = 0) -> None:
        """Book what the caller spent itself (reflection, a teacher); it is never refused (E16)."""
        self._evaluator.charge(Spend(metric_calls=metric_calls, lm_calls=lm_calls))

    def checkpoint(self) -> str:
        """Give candidates, scores, answers and spend as JSON text, for `resume` (E78). Traces are not in it.

        At any time: a rollout that is under way is not in it either, but for the calls that it has paid for.
        """
        return write(self._evaluator)

    @classmethod
    def resume(
        cls, examples: Iterable[Any], metric: Any, config: EngineConfig | None, checkpoint: str, **parts: Any
    ) -> Self:
        """Make an engine that goes on where another stood when it gave the `checkpoint`.

        The examples must be the same, in order; `config` is taken as it is, so that budget and salt may change, and so
        are `parts`, which are those of the engine itself (`cache`, `models`). Spend goes on from what was spent. Scores
        of another metric, salt or failure score are left out of the matrix. So are all, when the first program is
        evaluated, where none of them is of that program; a warning of the kind `checkpoint` names them.

        Raises `StoreError` for a text that is damaged or of another version, `UsageError` for other examples.
        """
        engine = cls(examples, metric, config, **parts)
        engine._restored = restore(engine._evaluator, checkpoint)
        return engine

    @property
    def examples(self) -> list[Any]:
        """Copies of the rows, as they were given."""
        return [own(example.row) for example in self._evaluator.examples]

    @property
    def num_examples(self) -> int:
        return len(self._evaluator.examples)

    @property
    def num_candidates(self) -> int:
        return len(self._evaluator.state.candidates)

    @property
    def config(self) -> EngineConfig:
        return self._evaluator.config

    @property
    def spend(self) -> Spend:
        """What has been spent so far."""
        return attrs.evolve(self._evaluator.state.spend, seconds=self._evaluator.ledger.spend.seconds)

    @property
    def matrix(self) -> ScoreMatrix:
        return self._evaluator.state.matrix

    @property
    def cache(self) -> Answers:
        """What is known by now: `get(key)` gives an eval, `len` the number of rollouts."""
        return self._evaluator.answers

    @property
    def peak_candidate_concurrency(self) -> int:
        """Most distinct candidates that were in flight at once (E53)."""
        return self._evaluator.peak_candidates
