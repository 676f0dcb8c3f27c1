"""What passes between the search and its iterations: jobs, what they tell, and children on their way."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import attrs

from burnish import BudgetExhausted, Candidate, CandidateEval, Complete, toolkit
from burnish_gepa._merge import Merge
from burnish_gepa._pool import Member
from burnish_gepa._reflection import CUT, Reflection
from burnish_gepa._report import Iteration, RejectedText


@attrs.frozen(kw_only=True)
class Work:
    """A parent and the minibatch that it is to be improved on."""

    parent: Member
    columns: tuple[int, ...]
    turn: int
    """How often the parent was changed before."""


@attrs.frozen(kw_only=True, eq=False)
class Job:
    """What one iteration does, decided on what was told when it began."""

    iteration: int
    start: Member | None = None
    """The start, where it is to be validated."""
    works: tuple[Work, ...] = ()
    merge: Merge | None = None
    parents: tuple[Member, ...] = ()
    """Of a merge."""
    allowance: int = 0
    """Rollouts that it may take."""
    survivors: int = 1
    """Children that it may validate within that."""
    known: Mapping[int, None] = attrs.field(factory=dict, repr=False)
    """Content hashes of the candidates that were evaluated before."""
    bar: float = math.inf
    """The score that is perfect."""
    race: Mapping[int, float] | None = attrs.field(default=None, repr=False)
    """Where children race: the best score of each validation row."""


@attrs.frozen(kw_only=True)
class Child:
    """A candidate on its way to validation."""

    candidate: Candidate
    index: int
    """Its number in the engine."""
    origin: str
    parents: tuple[Member, ...]
    changed: tuple[str, ...]
    columns: tuple[int, ...]
    before: CandidateEval | None = None
    """Its parent on these columns."""
    line: Iteration


@attrs.define(kw_only=True, eq=False)
class Told:
    """What one iteration found."""

    job: Job
    seen: list[tuple[Candidate, CandidateEval]] = attrs.field(factory=list)
    """Everything that was evaluated."""
    members: list[Member] = attrs.field(factory=list)
    lines: list[Iteration] = attrs.field(factory=list)
    rejected: list[RejectedText] = attrs.field(factory=list)
    calls: int = 0
    """Calls of the proposer."""
    texts: int = 0
    """Texts of use that came of the reflections."""
    dry: str = ""
    """Why one brought none, where one did."""
    cut: int = 0
    """Reflections whose examples were shortened."""
    cap: str = ""
    """The cap of the run's budget that refused something."""

    def line(self, work: Work, outcome: str, before: CandidateEval | None = None) -> None:
        """Book a work that came to no child."""
        self.lines.append(
            Iteration(
                iteration=self.job.iteration,
                parents=(work.parent.index,),
                columns=work.columns,
                before=None if before is None else math.fsum(score or 0.0 for score in before.scores()),
                outcome=outcome,
            )
        )

    def end(self, child: Child, outcome: str) -> None:
        """Book how far a child came."""
        self.lines.append(attrs.evolve(child.line, outcome=outcome))

    def reflected(self, wish: Reflection, proposal: toolkit.Proposal) -> None:
        """Book what came of a reflection."""
        self.cut += CUT in wish.examples
        self.calls += len(proposal.rejected) + (proposal.text is not None)
        for one in proposal.rejected:
            self.rejected.append(
                RejectedText(
                    iteration=self.job.iteration, component=wish.component, reason=one.reason, text=one.text
                )
            )
        if proposal.text is not None:
            self.texts += 1
        elif proposal.cap is not None:
            self.cap = self.cap or proposal.cap
        else:
            self.dry = proposal.rejected[-1].reason if proposal.rejected else "it was not asked"

    def add(self, child: Child, evaluation: CandidateEval, *, inherited: tuple[int, ...] = ()) -> None:
        """Make a validated child a member."""
        self.members.append(
            Member(
                number=-1,
                index=child.index,
                candidate=child.candidate,
                origin=child.origin,
                parents=tuple(parent.number for parent in child.parents),
                changed=child.changed,
                iteration=self.job.iteration,
                evaluation=evaluation,
                inherited=inherited,
            )
        )
        self.end(child, "validated")


def compared(child: Child, seen: CandidateEval) -> tuple[Child, list[float], list[float]]:
    """Give a child with its sums, and its parent's scores and its own on the rows that both are scored on."""
    pairs = zip((child.before or seen).scores(), seen.scores(), strict=True)
    both = [(a, b) for a, b in pairs if a is not None and b is not None]
    before, after = [a for a, _ in both], [b for _, b in both]
    line = attrs.evolve(child.line, before=math.fsum(before), after=math.fsum(after))
    return attrs.evolve(child, line=line), before, after


def merged_child(job: Job, merge: Merge, index: int) -> Child:
    """Give the child that a merge makes."""
    line = Iteration(
        iteration=job.iteration,
        kind="merge",
        parents=tuple(parent.index for parent in job.parents),
        columns=merge.rows,
        components=merge.changed,
        before=merge.threshold,
        child=index,
    )
    return Child(
        candidate=merge.candidate,
        index=index,
        origin="merge",
        parents=job.parents,
        changed=merge.changed,
        columns=merge.rows,
        line=line,
    )


def reflected_child(
    job: Job, work: Work, before: CandidateEval, child: Candidate, index: int, changed: Sequence[str]
) -> Child:
    """Give the child that a parent's reflections make."""
    line = Iteration(
        iteration=job.iteration,
        parents=(work.parent.index,),
        columns=work.columns,
        components=tuple(changed),
        child=index if changed else None,
    )
    return Child(
        candidate=child,
        index=index,
        origin="reflection",
        parents=(work.parent,),
        changed=tuple(changed),
        columns=work.columns,
        before=before,
        line=line,
    )


def evaluations_of(outcome: Complete | BudgetExhausted) -> tuple[CandidateEval, ...]:
    """Give what was evaluated of a request, from its beginning on."""
    done = outcome.evaluations if isinstance(outcome, Complete) else outcome.partial
    return (done,) if isinstance(done, CandidateEval) else done or ()
