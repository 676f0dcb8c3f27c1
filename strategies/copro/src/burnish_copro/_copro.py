"""COPRO: coordinate ascent over the instructions of a program (DSPy's COPRO; Khattab et al. 2023)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import attrs

from burnish import BudgetExhausted, Candidate, CandidateEntry, CandidateEval, Engine, Plan, toolkit
from burnish.abc import Problem
from burnish_copro._knobs import Knobs
from burnish_copro._proposer import Proposers, Told, leaks_of, mistakes_of, read, text_in_force
from burnish_copro._report import Attempt, COPROReport, RejectedProposal, Turn, report_of

Texts = Mapping[str, Sequence[str]]
"""Proposed texts by predictor, in the order of their requests."""


@attrs.frozen(kw_only=True)
class COPRO(Knobs):
    """Improve one instruction after the other, in rounds of proposals that see how the earlier ones scored.

    The program is scored as it is. Each round asks for `breadth` texts for each predictor, all at once: the first from
    the text in force, the later ones from the best attempts so far in ascending order of their scores. Then the
    predictors take turns: what is new is scored in one fan-out, with the other predictors at their best so far, and the
    best stays. Ties keep the earlier candidate. A text that is known already is neither scored nor asked for again.

    Candidates are scored on the validation rows, without any on the train rows. Proposers see texts and scores, and
    what the metric says of the best candidate's mistakes on train rows (`feedback_rows`), never validation rows; a
    proposal that holds a train row's text is refused.

    `compile` raises `UsageError`, before anything is spent, for a program without texts. A budget that runs out ends it
    with the best so far; so do a perfect score, and a round of which no proposal is of use.
    """

    replay_version: ClassVar[int] = 1

    async def compile(self, engine: Engine, problem: Problem) -> COPROReport:
        """Score the start, then propose and score round by round, and report the best."""
        self.check(problem)
        search = Search(engine, problem, self)
        await search.score_start()
        for depth in range(self.depth):
            if search.ended:
                break
            with engine.step("depth", depth):
                texts = await search.propose(depth)
                for name in texts:
                    if not search.ended:
                        await search.improve(depth, name, texts[name])
            search.end_round()
        return report_of(search)

    def plan(self, problem: Problem) -> Plan:
        """Bound rollouts and proposals: as if every proposal were new, and of use at its last attempt only."""
        self.check(problem)
        rows, predictors = len(scoring(problem)), len(problem.parameters)
        texts = predictors * (self.breadth * self.depth - 1)
        mistakes = self.depth * min(self.feedback_rows, len(problem.train)) if problem.val else 0
        return Plan(
            rollouts=(1 + texts) * rows * self.repeats + mistakes,
            proposer_calls=texts * toolkit.ATTEMPTS,
            candidates=texts,
            minimum=2 * rows * self.repeats,
            note=f"the start and up to {texts} texts for {predictors} predictors, each on {rows} rows",
        )


def scoring(problem: Problem) -> tuple[int, ...]:
    """Give the columns that candidates are compared on."""
    return problem.val or problem.train


class Search:
    """One run: what it has registered, scored and tried so far."""

    def __init__(self, engine: Engine, problem: Problem, knobs: COPRO) -> None:
        self.engine, self.problem, self.knobs = engine, problem, knobs
        self.columns, self.predictors, self.before = scoring(problem), problem.parameters, engine.spend
        self.start = self.best = engine.register(problem.start)
        """The candidate that all begins with, and the one that everything is built on."""
        self.entries = {self.start: CandidateEntry(index=self.start, candidate=problem.start, origin="start")}
        """Candidates by index, in the order in which they were made."""
        self.evaluations: dict[int, CandidateEval] = {}
        self.attempts: dict[str, dict[str, float]] = {name: {} for name in self.predictors}
        """Scores by predictor and text, in the order in which they were made."""
        self.known = {name: {_plain(self._text(name))} for name in self.predictors}
        """Texts by predictor, blanks aside."""
        self.turns: list[Turn] = []
        self.rejected: list[RejectedProposal] = []
        self.ended = ""
        """Why the search ended early; empty where it did not."""
        self._cap = ""
        self._proposers = Proposers.make(knobs.prompt_model, knobs.init_temperature)
        self._checks = {name: self._check(name) for name in self.predictors}
        self._bar = toolkit.success_bar(None, problem.metric.maximum)
        self._each = len(self.columns) * knobs.repeats
        rows, size = problem.train, knobs.feedback_rows
        self._epochs = toolkit.Epochs(rows, size, problem.rng) if rows and size else None

    @property
    def candidate(self) -> Candidate:
        """The best candidate so far."""
        return self.entries[self.best].candidate

    def _text(self, name: str) -> str:
        return text_in_force(self.predictors[name], self.candidate)

    def _check(self, name: str) -> toolkit.Check:
        text, knobs = self._text(name), self.knobs
        leaks = leaks_of(map(self.problem.example, self.problem.train), text)
        protected = [part for part in knobs.protected if part in text]
        most = max(knobs.max_chars, 2 * len(text))
        return toolkit.text_check(self.predictors[name], most_chars=most, protected=protected, leaks=leaks)

    # --- the steps of the algorithm ----------------------------------------------------------------------------

    async def score_start(self) -> None:
        """Score the program as it is: the baseline, and what every text has to beat."""
        with self.engine.step("start"):
            await self._score([self.start])
        self._keep_best([])
        if not self.ended and self.evaluations[self.start].mean() is None:
            self.ended = "the start could not be scored"

    async def propose(self, depth: int) -> Texts:
        """Ask for the texts of all predictors at once; gives those that are of use, known ones among them."""
        rows = self._feedback_rows()
        counts = self._counts(depth, aside=len(rows) if self.problem.val else 0)
        if self.ended:
            return {}
        mistakes = await self._mistakes(rows)
        requests, owners = [], []
        for name, count in counts.items():
            told = Told(self._text(name), self.ascending(name) if depth else (), mistakes)
            first = depth * self.knobs.breadth  # equal requests of two rounds are samples of one
            requests += [self._proposers.request(self.predictors[name], told, first + n) for n in range(count)]
            owners += [name] * count
        checks = [self._checks[name] for name in owners]
        with self.engine.step("propose"):
            proposals = await toolkit.propose(self.engine, requests, read, checks, distinct=False)
        return self._taken(depth, counts, owners, proposals)

    async def improve(self, depth: int, name: str, texts: Sequence[str]) -> None:
        """Score one predictor's new texts at once, with the others at their best so far, and keep the best."""
        parent, base, added = self.best, self.candidate, dict[int, str]()
        for text in texts:
            if _plain(text) not in self.known[name]:
                self.known[name].add(_plain(text))
                candidate = base.set_instruction(name, text)
                index = self.engine.register(candidate)
                origin = f"depth {depth}, {name}"
                self.entries[index] = CandidateEntry(index=index, candidate=candidate, origin=origin, parent=parent)
                added[index] = text
        if added:
            with self.engine.step(name):
                await self._score(list(added))
        for index, text in added.items():
            self._attempted(name, text, self.evaluations.get(index))
        self._keep_best(list(added))
        best = toolkit.score_of(self.evaluations.get(self.best))
        self.turns.append(Turn(depth=depth, predictor=name, usable=len(texts), new=len(added), best=best))

    def end_round(self) -> None:
        """End the search where a cap has cut the round's proposals short."""
        if self._cap and not self.ended:
            self.ended = f"budget: {self._cap}"

    # --- what they are made of ---------------------------------------------------------------------------------

    def ascending(self, name: str) -> tuple[Attempt, ...]:
        """Give the `breadth` best attempts in ascending order of score; of equal ones the earliest comes last."""
        best = sorted(self.attempts[name].items(), key=lambda item: -item[1])[: self.knobs.breadth]
        return tuple(Attempt(text=text, score=score) for text, score in reversed(best))

    def _counts(self, depth: int, aside: int) -> Mapping[str, int]:
        """Say how many texts to ask for: `breadth` with the original, and no more than the budget can score."""
        count, room = self.knobs.breadth - (depth == 0), self.engine.remaining
        left = len(self.predictors) * count
        if room is not None:
            left = (room - aside) // self._each
        if left < 1:
            left, self.ended = 0, f"budget: {self.engine.scarce}"
        counts: dict[str, int] = {}
        for sharing, name in zip(range(len(self.predictors), 0, -1), self.predictors, strict=True):
            counts[name] = min(count, -(-(left - sum(counts.values())) // sharing))
        return counts

    def _feedback_rows(self) -> tuple[int, ...]:
        """Draw the rows whose mistakes are shown; none where the metric says nothing, or the budget is short."""
        said = any(r.eval is not None and r.eval.feedback for r in self.evaluations[self.best].rollouts)
        rows, room = self._epochs.draw() if self._epochs is not None and said else (), self.engine.remaining
        # a text that is scored is worth more than a mistake that is shown
        short = bool(self.problem.val) and room is not None and room < len(rows) + self._each
        return () if short else rows

    async def _mistakes(self, rows: Sequence[int]) -> str:
        """Show what the metric says of the best candidate on train rows, which without validation rows it has said."""
        outcomes = self.evaluations[self.best].rollouts
        if rows and self.problem.val:
            with self.engine.step("mistakes"):
                outcome = await self.engine.evaluate_many([(self.best, rows)])
            if isinstance(outcome, BudgetExhausted):
                self._cap = outcome.cap or "rollouts"
            found = toolkit.evaluation_of(outcome).get(self.best)
            outcomes = () if found is None else found.rollouts
        return mistakes_of((o for o in outcomes if o.example in rows), self.problem.examples, self._bar)

    def _taken(
        self, depth: int, counts: Mapping[str, int], owners: Sequence[str], proposals: Sequence[toolkit.Proposal]
    ) -> Texts:
        texts: dict[str, list[str]] = {name: [] for name in counts}
        for name, proposal in zip(owners, proposals, strict=True):
            self._cap = self._cap or proposal.cap or ""
            texts[name] += [] if proposal.text is None else [proposal.text]
            self.rejected += [
                RejectedProposal(depth=depth, predictor=name, reason=refused.reason, text=refused.text[:500])
                for refused in proposal.rejected
            ]
        if not any(texts.values()):
            self.ended = f"budget: {self._cap}" if self._cap else "no proposal was of use"
        return texts

    async def _score(self, indices: Sequence[int]) -> None:
        requests = [(index, self.columns) for index in indices]
        outcome = await self.engine.evaluate_many(requests, samples=self.knobs.repeats)
        self.evaluations.update(toolkit.evaluation_of(outcome))
        if isinstance(outcome, BudgetExhausted):
            self.ended = f"budget: {outcome.cap}"

    def _keep_best(self, added: Sequence[int]) -> None:
        """Build on the best from here on; the earlier one where they tie."""
        best = toolkit.best_of(self.evaluations[i] for i in (self.best, *added) if i in self.evaluations)
        if best is None:
            return
        self.best, score, most = best.candidate, toolkit.score_of(best), self.problem.metric.maximum
        for name in self.predictors:
            self._attempted(name, self._text(name), best)
        if most is not None and score is not None and score >= most and best.coverage == 1.0 and not self.ended:
            self.ended = "perfect score"

    def _attempted(self, name: str, text: str, evaluation: CandidateEval | None) -> None:
        """Note a text's score; the mean of the few rows that an outage left would mislead, so that it is not told."""
        score = toolkit.score_of(evaluation)
        if evaluation is not None and score is not None and evaluation.coverage >= 0.5:
            self.attempts[name][text] = max(score, self.attempts[name].get(text, score))


def _plain(text: str) -> str:
    """Two texts that differ in blanks alone are one."""
    return " ".join(text.split())
