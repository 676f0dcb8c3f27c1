"""MIPROv2: sets of demos, grounded instructions, and TPE over both (Opsahl-Ong et al. 2024; DSPy's MIPROv2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from random import Random
from typing import ClassVar, Literal

import attrs

from burnish import BudgetExhausted, CandidateEval, Engine, Plan, toolkit
from burnish.abc import Problem
from burnish_miprov2 import _proposer as proposer
from burnish_miprov2._knobs import Knobs
from burnish_miprov2._report import Facts, MIPROv2Report, Rejection, Trial, perfect, trusted
from burnish_miprov2._space import Space
from burnish_miprov2._tpe import VERSIONS, Asker

GROUNDING_DEMOS, GROUNDING_ROWS = 3, 8
"""Zero-shot: demos that the proposer is shown, and rows that the teacher may try for them."""
PERFECT = "perfect score"
REDRAWS = 8
"""Draws for one set of demos before it is given up: a small pool has few distinct sets."""


@attrs.frozen(kw_only=True)
class MIPROv2(Knobs):
    """Choose an instruction and a set of demos for every predictor together.

    First sets of demos are made: the start's own, labeled rows, the first that the teacher got right, seeded random
    ones. Then a proposer that has looked at rows, program and demos writes instructions; the start's own is the first
    of them. Then TPE tries combinations on minibatches of the validation rows; every `minibatch_full_eval_steps` trials
    the one with the best mean so far is scored on all of them. The best of those, the start among them, wins.

    No combination is tried twice, and a perfect score on all rows ends the search. A space no larger than the trials is
    tried out whole, on all rows where that costs no more than to search it. What cannot be scored is told to TPE as
    unknown, never as 0.

    `compile` raises `UsageError`, before anything is spent, for an empty train set and a program without parameters.
    Running out of budget ends it with the best so far.
    """

    versions: Mapping[str, str] = attrs.field(init=False, repr=False, eq=False, factory=lambda: dict(VERSIONS))
    """What its decisions depend on beside answers and knobs; no knob, but with these in a run's lock."""
    replay_version: ClassVar[int] = 1

    async def compile(self, engine: Engine, problem: Problem) -> MIPROv2Report:
        """Score the start, make sets of demos, propose instructions, search, and report the best."""
        search = _Search(engine, problem, self)
        await search.score_start()
        await search.make_demo_sets()
        await search.propose_instructions()
        await search.try_combinations()
        return search.report()

    def plan(self, problem: Problem) -> Plan:
        """Bound rollouts (start, teacher, trials, full evaluations) and calls of the proposer."""
        sizes, rows, scoring = self.layout(problem)
        teaches = self.fewshot_aware if self.zero_shot else self.max_bootstrapped_demos > 0
        taught = min(len(rows.sources), GROUNDING_ROWS) if self.zero_shot else len(rows.sources)
        return Plan(
            rollouts=len(scoring) + (taught if teaches else 0) + self.search_cost(sizes, len(scoring)),
            proposer_calls=self.proposer_calls(sizes, len(problem.parameters), len(rows.sources)),
            candidates=sizes.trials,
            minimum=2 * len(scoring),
            note=f"{sizes.trials} trials on {sizes.batch(self, len(scoring))} of {len(scoring)} validation rows",
        )


class _Search:
    """One run: what it has made and found so far."""

    def __init__(self, engine: Engine, problem: Problem, knobs: MIPROv2) -> None:
        self.engine, self.problem, self.knobs = engine, problem, knobs
        self.sizes, self.rows, self.scoring = knobs.layout(problem)
        self.batch = self.sizes.batch(knobs, len(self.scoring))
        self.start = engine.register(problem.start)
        self.facts = Facts(engine.spend, self.start, problem.start)
        self.full, self.ended = self.facts.full, ""
        self.space = Space(problem, self.sizes.sets)
        self.pool, self.taught = toolkit.DemoPool(parameters={}), toolkit.Taught(ended="")

    def _rng(self, purpose: str) -> Random:
        return self.knobs.rng(self.problem, purpose)

    async def score_start(self) -> None:
        """Score the start on all validation rows before all else, so that whatever ends the run there is a best."""
        with self.engine.step("start"):
            outcome = await self.engine.evaluate_many([(self.start, self.scoring)])
        self.full.update(toolkit.evaluation_of(outcome))
        if isinstance(outcome, BudgetExhausted):
            self.ended = f"budget: {outcome.cap}"
        elif perfect(self.full.get(self.start), self.problem.metric.maximum):
            self.ended = PERFECT

    # --- phase 1: sets of demos ---------------------------------------------------------------------------------

    async def make_demo_sets(self) -> None:
        """Draw the sets from one pool: labeled rows, the first of the teacher's, then seeded random ones."""
        takers = {name: p for name, p in self.problem.parameters.items() if p.takes_demos}
        if self.ended or not takers:
            return
        labeled = toolkit.labeled_demos(self.rows.sources, self.problem.examples, takers)
        await self._teach(all_labeled=len(labeled) == len(takers))
        self.pool = toolkit.DemoPool(parameters=takers, bootstrapped=self.taught.demos, labeled=labeled)
        most, total = self.knobs.max_bootstrapped_demos, self.knobs.max_labeled_demos
        self.space.add_set("labeled", self.pool.draw(0, total, self._rng("labeled")))
        if self.pool.bootstrapped:
            self.space.add_set("bootstrap", self.pool.draw(most, total, self._rng("fill"), shuffle=False))
        largest = min(most, self.pool.most_bootstrapped) or min(total, self.pool.most_labeled)
        for number in range(REDRAWS * self.sizes.sets if largest and self.space.sets else 0):
            rng = self._rng(f"shuffle {number}")
            size = rng.randint(1, largest)
            both = (size, total) if self.pool.bootstrapped else (0, size)
            self.space.add_set(f"shuffle {number}", self.pool.draw(*both, rng))

    async def _teach(self, *, all_labeled: bool) -> None:
        """Run the teacher over train rows; where its demos are for the proposer's eyes alone, over a few."""
        knobs, left = self.knobs, self.engine.remaining
        enough = knobs.max_bootstrapped_demos * max(1, self.sizes.sets - 3)
        allowance = None
        if left is not None:  # what the search leaves; of a smaller budget a quarter, and never what one trial needs
            spare = left - knobs.search_cost(self.sizes, len(self.scoring))
            allowance = max(0, spare, min(left // 4, left - len(self.scoring)))
        if knobs.zero_shot:
            enough = GROUNDING_DEMOS if knobs.fewshot_aware and not all_labeled else 0
            allowance = GROUNDING_ROWS if allowance is None else min(allowance, GROUNDING_ROWS)
        if not enough:
            return
        own = self.problem.start
        teacher = self.start if knobs.teacher is None else self.engine.register(own.merge(knobs.teacher))
        wanted = toolkit.Teaching(
            columns=toolkit.draw(self.rows.sources, len(self.rows.sources), label=partial(_label, self.problem)),
            enough=enough,
            min_score=toolkit.success_bar(knobs.metric_threshold, self.problem.metric.maximum),
            wave=knobs.wave,
            max_errors=knobs.max_errors,
            allowance=allowance,
        )
        self.taught = await toolkit.teach(self.engine, self.problem, teacher, wanted)

    # --- phase 2: instructions ----------------------------------------------------------------------------------

    async def propose_instructions(self) -> None:
        """Have the proposer look at rows and program, then ask for all instructions at once."""
        parameters = self.space.parameters
        wanted = [(name, number) for name in parameters for number in range(1, self.sizes.instructions)]
        if self.ended or not wanted:
            return
        knobs, rows = self.knobs, [self.problem.row(column) for column in self.rows.sources]
        seen = proposer.batches(rows, knobs.view_data_batch_size, self._rng("view")) if knobs.data_aware else ()
        with self.engine.step("grounds"):
            self.facts.grounds = await proposer.find_grounds(
                self.engine, parameters, seen, program_aware=knobs.program_aware
            )
        tips = proposer.tips(len(wanted), self._rng("tips"), aware=knobs.tip_aware)
        asked = [
            proposer.request_for(
                parameters[name],
                self.facts.grounds,
                demos=self._demos_shown(name, number) if knobs.fewshot_aware else "",
                tip=proposer.TIPS[tip],
                sample=sample,
                temperature=knobs.init_temperature,
            )
            for sample, ((name, number), tip) in enumerate(zip(wanted, tips, strict=True))
        ]
        checks = proposer.checks_of(parameters, rows)
        with self.engine.step("propose"):
            found = await toolkit.propose(
                self.engine, asked, proposer.read, [checks[name] for name, _ in wanted], distinct=False
            )
        for (name, _), tip, proposal in zip(wanted, tips, found, strict=True):
            self.facts.rejected += [Rejection(parameter=name, reason=r.reason, text=r.text) for r in proposal.rejected]
            if proposal.text is not None:
                self.space.add_instruction(name, proposal.text, tip)
            elif proposal.cap is not None:
                self.ended = f"budget: {proposal.cap}"

    def _demos_shown(self, name: str, number: int) -> str:
        """Give a set of the predictor's demos as a text: another one each time; zero-shot, a few of the pool."""
        demos = self.space.shown(name, number)
        if not demos:
            drawn = self.pool.draw(GROUNDING_DEMOS, GROUNDING_DEMOS, self._rng(f"grounding {number}"))
            demos = drawn.get(name, ())
        return proposer.rows_text(demos)

    # --- phase 3: the search ------------------------------------------------------------------------------------

    async def try_combinations(self) -> None:
        """Keep some trials in flight, each chosen by what those up to a fixed lag before it told."""
        if self.ended:
            return
        sizes, total = self.space.sizes, len(self.scoring)
        tpe = Asker(sizes, self.sizes.trials, self._rng("tpe"))
        self.facts.combinations, self.facts.exhaustive = tpe.space, tpe.exhaustive
        if tpe.exhaustive and tpe.most * total <= self.knobs.search_cost(self.sizes, total):
            self.batch = total  # to score all in full costs no more than to search
        self.choices = {self.start: (0,) * len(sizes)}
        self.tpe, self.told, self.tested = tpe, 0, 0
        self.means: dict[int, float] = {}
        self.epochs = toolkit.Epochs(self.scoring, self.batch, lambda purpose: self._rng(f"minibatch/{purpose}"))
        tpe.tell(self.choices[self.start], trusted(self.full.get(self.start)))
        cap = f"budget: {self.engine.scarce or 'rollouts'}"
        async with self.engine.lagged("trial", lag=self.knobs.trials_in_flight) as chains:
            while True:
                self._hear(await chains.turn())
                left = chains.remaining
                if tpe.more and left is not None and left < total:  # no room for a trial and a full evaluation of it
                    self.ended = self.ended or cap
                trial = self._due(self.knobs.minibatch_full_eval_steps) or self._next()
                if trial is None:
                    self._hear(await chains.rest())
                    trial = self._due(1)
                if trial is None:
                    break
                if not chains.start(partial(self._evaluate, trial), bound=self._unknown(trial)):
                    self.ended = self.ended or cap
                    break
            self._hear(await chains.rest())

    def _unknown(self, trial: Trial) -> int:
        """Count the rows of a trial that its candidate has no score for."""
        known = self.facts.small.get(trial.candidate)
        return len(trial.columns) - (0 if known is None else sum(r.eval is not None for r in known.rollouts))

    def _next(self) -> Trial | None:
        """Make a trial of the combination that is to be tried next; None where the search is over."""
        while not self.ended and (choice := self.tpe.ask()) is not None:
            candidate = self.space.candidate(choice)
            index = self.engine.register(candidate)
            if index not in self.choices:
                self.choices[index] = choice
                self.facts.candidates[index] = (f"trial {len(self.choices) - 1}", candidate)
                return self._trial("minibatch" if self.batch < len(self.scoring) else "full", index, self.epochs.draw())
            self.tpe.tell(choice, None)
        return None

    def _due(self, steps: int) -> Trial | None:
        """Make a full evaluation of the best mean without one, where so many trials were told since the last."""
        if self.told - self.tested < steps or self.ended == PERFECT:
            return None
        self.tested = self.told
        untested = {index: mean for index, mean in self.means.items() if index not in self.full}
        if not untested:
            return None
        best = max(untested, key=untested.__getitem__)  # the first of equals
        del self.means[best]
        return self._trial("full", best, self.scoring)

    def _trial(self, kind: Literal["minibatch", "full"], index: int, columns: Sequence[int]) -> Trial:
        choice = self.space.named(self.choices[index])
        return Trial(kind=kind, choice=choice, candidate=index, columns=tuple(columns))

    async def _evaluate(self, trial: Trial) -> Told:
        outcome = await self.engine.evaluate_many([(trial.candidate, trial.columns)])
        cap = f"budget: {outcome.cap}" if isinstance(outcome, BudgetExhausted) else ""
        return trial, toolkit.evaluation_of(outcome).get(trial.candidate), cap

    def _hear(self, told: Sequence[Told]) -> None:
        """Book what trials found, and tell TPE."""
        for trial, evaluation, cap in told:
            score = trusted(evaluation)
            done = trial.kind == "full" and perfect(evaluation, self.problem.metric.maximum)
            self.ended = self.ended or cap or (PERFECT if done else "")
            self.facts.trials.append(attrs.evolve(trial, score=score))
            self.tpe.tell(self.choices[trial.candidate], score)
            if evaluation is not None:
                (self.full if trial.kind == "full" else self.facts.small)[trial.candidate] = evaluation
            if trial.kind == "minibatch":
                self.told += 1
                if score is not None:
                    self.means[trial.candidate] = score

    def report(self) -> MIPROv2Report:
        """Choose among the full evaluations, and say how it came about."""
        return self.facts.report(
            self.engine.spend,
            self.problem,
            scoring=self.scoring,
            rows=self.rows,
            taught=self.taught,
            sets={name: tuple(origin for origin, _ in known) for name, known in self.space.sets.items()},
            instructions=tuple(one for known in self.space.instructions.values() for one in known),
            batch=self.batch,
            seed=self.knobs.seed,
            ended=self.ended,
        )


Told = tuple[Trial, CandidateEval | None, str]
"""A trial, what came of it, and the cap that cut it short."""


def _label(problem: Problem, column: int) -> str | None:
    return toolkit.row_label(problem.example(column), problem.parameters)
