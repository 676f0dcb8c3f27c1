"""What a search knows: its members, their scores, and who is best where."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Literal

import attrs

from burnish import Candidate, CandidateEval, Eval, toolkit
from burnish.abc import Problem
from burnish.errors import UsageError
from burnish_gepa._frontier import Frontier

FrontierType = Literal["instance", "objective", "hybrid", "cartesian"]


@attrs.frozen(kw_only=True)
class Member:
    """A candidate that was validated. Members are told apart by their numbers, in the order in which they were told."""

    number: int
    index: int
    """Its number in the engine."""
    candidate: Candidate
    origin: str
    """`start`, `reflection`, `merge`."""
    parents: tuple[int, ...] = ()
    """Numbers of the members that it was made of."""
    changed: tuple[str, ...] = ()
    """Parameters that were rewritten, or merged."""
    iteration: int = -1
    evaluation: CandidateEval
    """On the validation rows."""
    inherited: tuple[int, ...] = ()
    """Validation columns where it was not run, in a race, and its parent's result stands in."""


class Pool:
    """Members and scores, built only of what was told, in its order. The start is its first member from the beginning.

    Args:
        val: validation columns.
        kind: what candidates may be best at.
        start: the candidate that the search starts from.
        index: its number in the engine.
        bar: the score that is perfect, and whether that is sure: else it is none once a score passes it.
    """

    def __init__(
        self, val: Sequence[int], kind: FrontierType, start: Candidate, index: int, bar: tuple[float, bool]
    ) -> None:
        self.val, self.kind = tuple(val), kind
        self.bar, self._sure = bar
        nothing = CandidateEval(candidate=index)
        self.members = {0: Member(number=0, index=index, candidate=start, origin="start", evaluation=nothing)}
        self.means = {0: -math.inf}
        """Mean on the validation rows by member; of one without any scored row it is minus infinity."""
        self.frontier = Frontier()
        self.best = 0
        """The member with the best mean; the earliest of equals."""
        self.known: dict[int, None] = {}
        """Content hashes of all candidates that were evaluated, rejected ones too."""
        self._scores: dict[int, dict[int, Eval | None]] = {start.stable_hash: {}}

    # --- scores ---------------------------------------------------------------------------------------------------

    def learn(self, candidate: Candidate, evaluation: CandidateEval) -> None:
        """Take in what was told of a candidate, whether or not it is a member."""
        self.known[candidate.stable_hash] = None
        scores = self._scores.setdefault(candidate.stable_hash, {})
        for rollout in evaluation.rollouts:
            if rollout.eval is not None or rollout.example not in scores:
                scores[rollout.example] = rollout.eval
            if rollout.eval is not None and rollout.eval.score > self.bar and not self._sure:
                self.bar = math.inf

    @property
    def asked(self) -> int:
        """Cells that were asked for: the rollouts that the search takes where nothing is known beforehand."""
        return sum(map(len, self._scores.values()))

    def eval(self, number: int, column: int) -> Eval | None:
        """Give a member's eval on a row; None where it is not scored there."""
        return self._scores[self.members[number].candidate.stable_hash].get(column)

    def total(self, number: int, columns: Iterable[int]) -> float:
        """Sum a member's scores on some rows that it is scored on."""
        evals = [self.eval(number, column) for column in columns]
        return math.fsum(found.score for found in evals if found is not None)

    def lacking(self, candidate: Candidate, columns: Iterable[int]) -> int:
        """Count the rows that a candidate was not asked for yet."""
        scores = self._scores.get(candidate.stable_hash, {})
        return sum(scores.get(column) is None for column in columns)

    def perfect(self, number: int, columns: Sequence[int]) -> bool:
        """Whether a member is known to be perfect on each of some rows."""
        evals = [self.eval(number, column) for column in columns]
        return all(found is not None and found.score >= self.bar for found in evals)

    # --- members --------------------------------------------------------------------------------------------------

    def add(self, member: Member) -> None:
        """Take in a new member, or the start, with its validation."""
        number, evaluation = member.number, without_traces(member.evaluation)
        self.members[number] = attrs.evolve(member, evaluation=evaluation)
        mean = evaluation.mean()
        self.means[number] = -math.inf if mean is None else mean
        for key, score in self._keys(evaluation):
            self.frontier.take(number, key, score)
        if number:
            first = self.members[self.best]
            if toolkit.best_of([first.evaluation, evaluation]) is evaluation:
                self.best = number

    def complete(self, number: int, evaluation: CandidateEval) -> None:
        """Put the whole validation of a member in the place of a partly inherited one, and find the best again."""
        self.members[number] = attrs.evolve(self.members[number], evaluation=evaluation, inherited=())
        mean = evaluation.mean()
        self.means[number] = -math.inf if mean is None else mean
        best = toolkit.best_of(member.evaluation for member in self.members.values())
        self.best = next(n for n, member in self.members.items() if member.evaluation is best)

    def leaders(self) -> dict[int, float]:
        """Give the best score of each validation row; minus infinity where nobody is scored."""
        best = {column: self.frontier.best(column) for column in self.val}
        return {column: -math.inf if score is None else score for column, score in best.items()}

    def _keys(self, evaluation: CandidateEval) -> Iterator[tuple[Hashable, float]]:
        objectives: dict[str, list[float]] = {}
        for rollout in evaluation.rollouts:
            found = rollout.eval
            if found is None:
                continue
            if self.kind in ("instance", "hybrid"):
                yield rollout.example, found.score
            if self.kind == "instance":
                continue
            for name, value in found.objectives.items():
                objectives.setdefault(name, []).append(value)
                if self.kind == "cartesian":
                    yield (rollout.example, name), value
        if self.kind in ("objective", "hybrid"):
            for name, values in objectives.items():
                yield name, math.fsum(values) / len(values)

    def check_objectives(self, evaluation: CandidateEval) -> None:
        """Refuse a frontier over objectives where the metric names none. Raises `UsageError`."""
        evals = [r.eval for r in evaluation.rollouts if r.eval is not None]
        if self.kind != "instance" and evals and not any(found.objectives for found in evals):
            raise UsageError(
                f"GEPA: frontier_type = {self.kind!r} compares objectives, and the metric gives none: return "
                "Eval(score, feedback, objectives={name: value}), or take frontier_type = 'instance'"
            )

    def ancestors(self, number: int) -> dict[int, None]:
        """Give the members that a member descends from, itself not among them, nearest first."""
        found: dict[int, None] = {}
        queue = list(self.members[number].parents)
        for parent in queue:
            if parent not in found:
                found[parent] = None
                queue.extend(self.members[parent].parents)
        return found


def without_traces(evaluation: CandidateEval) -> CandidateEval:
    """Give an evaluation without its traces: members live as long as the search."""
    if all(rollout.trace is None for rollout in evaluation.rollouts):
        return evaluation
    return attrs.evolve(evaluation, rollouts=tuple(attrs.evolve(r, trace=None) for r in evaluation.rollouts))


def text_of(problem: Problem, candidate: Candidate, name: str) -> str:
    """Give the text that is in force for a parameter under a candidate."""
    parameter, overlay = problem.parameters[name], candidate.overlays.get(name)
    if overlay is not None and overlay.instruction is not None:
        return overlay.instruction
    if overlay is not None and overlay.clear_instruction:
        return parameter.default_instruction
    return parameter.instruction

