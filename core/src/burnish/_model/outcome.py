"""What an evaluation gives back: statuses, outcomes, and what of a rollout is stored (E44-E47, E86)."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import TypeAlias

import attrs

from burnish._model.budget import RoleSpend
from burnish._model.canonical import Json
from burnish._model.evals import Eval
from burnish._model.trace import Trace


class RolloutStatus(enum.StrEnum):
    """How a rollout ended, by whose fault. The first two are verdicts on the candidate; the others score nothing.

    Each has a second spelling, the words of the contract: `RolloutStatus.succeeded is RolloutStatus.SUCCEEDED`.
    """

    SUCCEEDED = "succeeded"
    AGENT_FAILED = "agent_failed"
    """The program failed (exception, unparsable reply, context overflow, refusal): the failure score, cached."""
    INFRASTRUCTURE_FAILED = "infrastructure_failed"
    """The transport or the provider failed: unscored, not cached."""
    POLICY_BLOCKED = "policy_blocked"
    """A guard stopped it before it was dispatched: nothing ran, so it counts as no metric call."""
    TIMED_OUT = "timed_out"
    REJECTED = "rejected"
    """Not run or not accepted: a budget refused a call inside it, or its result failed a check."""

    succeeded = SUCCEEDED
    agent_failed = AGENT_FAILED
    infrastructure_failed = INFRASTRUCTURE_FAILED
    policy_blocked = POLICY_BLOCKED
    timed_out = TIMED_OUT
    rejected = REJECTED

    @property
    def scored(self) -> bool:
        """Whether it is a verdict on the candidate."""
        return self in (RolloutStatus.SUCCEEDED, RolloutStatus.AGENT_FAILED)


succeeded = RolloutStatus.SUCCEEDED
agent_failed = RolloutStatus.AGENT_FAILED
infrastructure_failed = RolloutStatus.INFRASTRUCTURE_FAILED


@attrs.frozen(kw_only=True)
class Fault:
    """Why a rollout has no (good) score: the error's type name and message, as data."""

    type: str
    message: str
    where: str = "program"
    """`program`, `metric`, `model` (a provider or the way to it), `budget` or `executor`."""
    fatal: bool = False
    """Whether every further rollout must fail in the same way (credentials, missing model)."""

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


@attrs.frozen(kw_only=True)
class RolloutRecord:
    """One rollout as an executor returns it and as stores keep it."""

    status: RolloutStatus
    eval: Eval | None = None
    fault: Fault | None = None
    output: Json = None
    """The prediction as JSON; None where it has no JSON form."""
    trace: Trace | None = None
    spans: int = 0
    calls: Mapping[str, RoleSpend] = attrs.field(factory=dict)
    """Model calls by role."""
    models: tuple[str, ...] = ()
    """Ids of the models that answered."""
    rendered: tuple[str, ...] = ()
    """Receipt: the parameters that were read under this candidate."""
    duration_us: int = 0

    @property
    def owes_score(self) -> bool:
        """Whether the program did its work and only the metric failed."""
        return self.status is RolloutStatus.SUCCEEDED and self.eval is None

    def without_trace(self) -> RolloutRecord:
        """Give the same without its trace: by hand, since it is done for every rollout."""
        if self.trace is None:
            return self
        return RolloutRecord(
            status=self.status,
            eval=self.eval,
            fault=self.fault,
            output=self.output,
            spans=self.spans,
            calls=self.calls,
            models=self.models,
            rendered=self.rendered,
            duration_us=self.duration_us,
        )

    @property
    def telling(self) -> bool:
        """Whether it shows what a rollout needs: it did its work, or the program failed over its calls."""
        failed = self.status in (RolloutStatus.AGENT_FAILED, RolloutStatus.TIMED_OUT)
        return self.status is RolloutStatus.SUCCEEDED or (failed and bool(self.calls))

    @property
    def cut(self) -> bool:
        """Whether a cap ended it: no result, and no metric call."""
        return self.status is RolloutStatus.REJECTED and self.fault is not None and self.fault.where == "budget"


@attrs.frozen
class RolloutOutcome:
    """One requested row's result."""

    example: int
    """Column."""
    eval: Eval | None = None
    """None where the rollout is unscored."""
    trace: Trace | None = None
    """None where a served rollout was stored without its trace."""
    status: RolloutStatus = RolloutStatus.SUCCEEDED
    error: Fault | None = None
    output: Json = None
    cached: bool = False
    """Whether it was served instead of run."""


@attrs.frozen
class CandidateEval:
    """One candidate over the requested rows, in request order."""

    candidate: int
    rollouts: tuple[RolloutOutcome, ...] = ()

    @property
    def coverage(self) -> float:
        """Share of the requested rows that are scored; 1.0 for an empty request."""
        return sum(r.eval is not None for r in self.rollouts) / len(self.rollouts) if self.rollouts else 1.0

    def mean(self) -> float | None:
        """Average over scored rows: 0.0 for an empty request, None where rows were asked and none scored."""
        if not self.rollouts:
            return 0.0
        scores = [r.eval.score for r in self.rollouts if r.eval is not None]
        return math.fsum(scores) / len(scores) if scores else None

    def scores(self) -> list[float | None]:
        """Give each row's score, None where unscored."""
        return [None if r.eval is None else r.eval.score for r in self.rollouts]


@attrs.frozen
class Complete:
    """Everything that was asked for was evaluated (rows that could not be scored included)."""

    evaluations: tuple[CandidateEval, ...]
    single: bool = False
    """Whether one candidate was asked for, not a list of them: `completed()` gives it bare then."""

    @property
    def evaluation(self) -> CandidateEval:
        """The one evaluation of a single-candidate request."""
        (only,) = self.evaluations
        return only

    def completed(self) -> CandidateEval | tuple[CandidateEval, ...]:
        """Give the payload: the evaluation of `evaluate`, the tuple of `evaluate_many`."""
        return self.evaluation if self.single else self.evaluations


@attrs.frozen
class BudgetExhausted:
    """The rest did not fit the budget."""

    needed: int
    """Unserved, unique rollouts that were asked for."""
    stage: str | None = None
    """Of a gate: `minibatch` or `full`."""
    partial: tuple[CandidateEval, ...] | CandidateEval | None = None
    """What was evaluated before: a gate's minibatch, or what finished before a cap on single calls struck."""
    cap: str | None = None
    """The cap that refused."""

    def completed(self) -> None:
        """Give None."""


@attrs.frozen
class Rejected:
    """The minibatch mean did not pass the threshold."""

    minibatch: CandidateEval


@attrs.frozen
class Promoted:
    """The minibatch mean passed the threshold; `full` is the evaluation on all rows."""

    minibatch: CandidateEval
    full: CandidateEval


@attrs.frozen
class Undecided:
    """The minibatch holds unscored rows, so that its mean is no verdict."""

    minibatch: CandidateEval


EvalOutcome: TypeAlias = Complete | BudgetExhausted
GateOutcome: TypeAlias = Rejected | Promoted | Undecided | BudgetExhausted
