"""GEPA: the whole search, from the start's validation to the report (Agrawal et al. 2025; gepa)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import attrs

from burnish import BudgetExhausted, CandidateEval, Engine, toolkit
from burnish.abc import Problem
from burnish_gepa._knobs import Knobs
from burnish_gepa._merge import Merge, find_merge
from burnish_gepa._pool import Member, Pool
from burnish_gepa._racing import Request, race
from burnish_gepa._reflection import check_feedback, long_values
from burnish_gepa._report import GEPAReport
from burnish_gepa._report_of import report_of
from burnish_gepa._selection import Gain
from burnish_gepa._steps import Child, Job, Told, Work, compared, evaluations_of, merged_child, reflected_child


@attrs.frozen(kw_only=True)
class GEPA(Knobs):
    """Rewrite texts by reflection on what went wrong, and keep what wins on some row.

    The start is validated once. Then, again and again: a parent is drawn from those that are best on some validation
    row; it runs on a minibatch of train rows; a model reads what happened, with the metric's feedback, and rewrites one
    of the parent's texts; the child runs on the same minibatch, and is validated where it did strictly better.

    `compile` raises `MetricError` for an eval without feedback, and `UsageError` for a program without texts. Running
    out of budget, a perfect score, or reflections that bring nothing end it with the best so far.
    """

    replay_version: ClassVar[int] = 1

    async def compile(self, engine: Engine, problem: Problem) -> GEPAReport:
        """Search, and report the best mean on the validation rows; the start stays on a tie."""
        search = Search(engine, self.seeded(problem), self)
        async with engine.lagged("iteration", lag=self.in_flight) as chains:
            chains.start(partial(search.run, search.flying[0]), bound=len(search.val))
            if self.racing or not problem.val:  # what follows needs its scores, or asks for the same cells
                search.take(*await chains.rest())
            while not search.ended:
                search.take(*await chains.turn())
                job = search.next(engine.remaining if self.in_flight == 1 else chains.remaining)
                if job is not None and chains.start(partial(search.run, job), bound=job.allowance):
                    continue
                if not search.flying:
                    break
                search.take(*await chains.rest())  # what they leave of their allowances may do for more
            search.take(*await chains.rest())
        await search.finish()
        return report_of(search)


class Search:
    """One run: what it knows, what it tries next, and how an iteration goes."""

    def __init__(self, engine: Engine, problem: Problem, knobs: Knobs) -> None:
        self.engine, self.problem, self.knobs = engine, problem, knobs
        self.before = engine.spend
        self.val = problem.val or problem.train
        start = engine.register(problem.start)
        self.pool = Pool(self.val, knobs.frontier_type, problem.start, start, knobs.bar(problem))
        self.ended = ""
        self.told: list[Told] = []
        self.flying = [Job(iteration=-1, start=self.pool.members[0], allowance=len(self.val))]
        """Iterations that were begun and not told yet, in order; the first is the validation of the start."""
        self.passed_over = self.merges = 0
        self._bound, self._knob = knobs.bound(problem, engine.remaining)
        self._calls = knobs.calls_counted(problem, engine.scarce)
        self._most_works = knobs.most_works(problem, self._bound)
        self._batches = toolkit.Epochs(problem.train, knobs.batch(problem), lambda epoch: problem.rng(f"gepa/{epoch}"))
        self._parents, self._merging = problem.rng("gepa/parents"), problem.rng("gepa/merges")
        self._turns: Counter[int] = Counter()
        self._leaks = long_values(problem, knobs.leak_chars)
        self._pairs: dict[tuple[int, int, int], None] = {}
        self._found, self._begun, self._works, self._dry = False, 0, 0, 0

    # --- between iterations: on what was told, in its order -------------------------------------------------------

    def take(self, *told: Told) -> None:
        """Take in what iterations found."""
        for one in told:
            self.flying = [job for job in self.flying if job is not one.job]
            self._take(one)

    def _take(self, told: Told) -> None:
        pool, knobs = self.pool, self.knobs
        for candidate, evaluation in told.seen:
            pool.learn(candidate, evaluation)
        for member in told.members:
            if member.origin == "start":
                pool.add(member)
            elif all(member.index != other.index for other in pool.members.values()):
                pool.add(attrs.evolve(member, number=len(pool.members)))
                self._found = self._found or member.origin == "reflection"
        self.told.append(attrs.evolve(told, seen=[]))
        self._dry = 0 if told.texts else self._dry + bool(told.dry)
        if told.cap:
            self.ended = self.ended or f"budget: {told.cap}"
        elif knobs.skip_perfect_score and pool.perfect(pool.best, self.val):
            self.ended = self.ended or "perfect score"
        elif self._dry >= knobs.patience:
            self.ended = self.ended or f"no text of use from {self._dry} reflections in a row: {told.dry:.300}"

    def next(self, remaining: int | None) -> Job | None:
        """Decide what the next iteration does; None where there is nothing to do, or no room for it now."""
        if self.ended:
            return None
        room, why = self._bound - self.pool.asked - sum(job.allowance for job in self.flying), f"bound: {self._knob}"
        remaining = remaining and remaining - sum(told.calls for told in self.told) * (self._calls > 0)
        if remaining is not None and remaining < room:
            room, why = remaining, f"budget: {self.engine.scarce}"
        room -= len(self.val) if self.knobs.racing else 0  # what the winner of a race owes in the end
        job = self._merge(room) or self._mutation(room)
        if job is not None:
            self._begun += 1
            self.flying.append(job)
        elif not self.flying and not self.ended:
            self.ended = why
        return job

    def _merge(self, room: int) -> Job | None:
        """A merge is due where the last iteration found a new member (gepa)."""
        knobs, due = self.knobs, self._found
        self._found = False
        if not due or not knobs.use_merge or self.merges >= knobs.max_merge_invocations or room < len(self.val):
            return None
        merge = find_merge(self.pool, self._merging, self._pairs, knobs.merge_val_overlap_floor)
        if merge is None:
            return None
        self.merges += 1
        parents = (self.pool.members[merge.first], self.pool.members[merge.second])
        return self._job(merge=merge, parents=parents, allowance=len(self.val))

    def _mutation(self, room: int) -> Job | None:
        works = self._draw()
        full = len(self.val) - (0 if self.problem.val else min(map(len, (w.columns for w in works)), default=0))
        costs = [self.pool.lacking(w.parent.candidate, w.columns) + len(w.columns) + self._calls for w in works]
        while works and room < sum(costs) + full:
            works, costs = works[:-1], costs[:-1]
        if not works:
            return None
        self._works += len(works)
        survivors = min(len(works), (room - sum(costs)) // full) if full else len(works)
        return self._job(works=tuple(works), allowance=sum(costs) + survivors * full, survivors=survivors)

    def _draw(self) -> list[Work]:
        """Draw tasks until one is worth something: what is known to be perfect is passed over, for nothing."""
        pool, knobs = self.pool, self.knobs
        draw = partial(knobs.candidate_selection.choose, pool, self._parents)
        if self._works >= self._most_works:
            self.ended = f"bound: reflections ({self._knob})"
            return []
        for _ in range(10 + 10 * len(self.problem.train)):
            works = []
            for number, columns in knobs.sampling.sample(draw, self._batches.draw):
                if knobs.skip_perfect_score and pool.perfect(number, columns):
                    self.passed_over += 1
                    continue
                works.append(Work(parent=pool.members[number], columns=columns, turn=self._turns[number]))
                self._turns[number] += 1
            if works:
                return works
        self.ended = "" if self.flying else "every minibatch is perfect"  # what is in flight may bring a new parent
        return []

    def _job(self, **facts: Any) -> Job:
        leaders = self.pool.leaders() if self.knobs.racing else None
        return Job(iteration=self._begun, known=dict(self.pool.known), bar=self.pool.bar, race=leaders, **facts)

    async def finish(self) -> None:
        """Validate the best wholly where a race left rows to its parent, until the best is one that was."""
        while (member := self.pool.members[self.pool.best]).inherited:
            told = Told(job=Job(iteration=self._begun))
            found = await self._evaluate(told, "finish", [(member.candidate, member.index, self.val)])
            self.take(told)
            if not found or toolkit.score_of(found[0]) is None:
                break
            self.pool.complete(member.number, found[0])

    # --- one iteration: on what its job says, and nothing else ----------------------------------------------------

    async def run(self, job: Job) -> Told:
        """Run parents, reflect, run children, validate those that did better; or try a merge, or run the start."""
        told = Told(job=job)
        if job.start is not None:
            await self._run_start(told, job.start)
        elif job.merge is not None:
            await self._validate(told, await self._try_merge(told, job.merge))
        else:
            children = await self._reflect(told, await self._run_parents(told))
            await self._validate(told, await self._run_children(told, children))
        return told

    async def _run_start(self, told: Told, start: Member) -> None:
        """Run the start on all validation rows, once."""
        requests = [(start.candidate, start.index, self.val)]
        for evaluation in await self._evaluate(told, "start", requests, traces=not self.problem.val):
            self.pool.check_objectives(evaluation)
            told.members.append(attrs.evolve(start, evaluation=evaluation))

    async def _run_parents(self, told: Told) -> list[tuple[Work, CandidateEval]]:
        """Run each parent on its minibatch with traces, or take that from the store; leave out perfect ones."""
        works, worked = told.job.works, []
        requests = [(work.parent.candidate, work.parent.index, work.columns) for work in works]
        for work, seen in zip(works, await self._evaluate(told, "parents", requests, traces=True), strict=False):
            scores = [score for score in seen.scores() if score is not None]
            if not scores:
                told.line(work, "unscored")
            elif self.knobs.skip_perfect_score and seen.coverage == 1.0 and min(scores) >= told.job.bar:
                told.line(work, "perfect", seen)
            else:
                worked.append((work, seen))
        return [] if told.cap else worked

    async def _reflect(self, told: Told, worked: Sequence[tuple[Work, CandidateEval]]) -> list[Child]:
        """Have the chosen texts of all parents rewritten at once; a child is its parent with the new texts."""
        wishes = [self.knobs.wishes(self.problem, work.parent.candidate, work.turn, seen) for work, seen in worked]
        asked = [(work, wish) for (work, _), some in zip(worked, wishes, strict=True) for wish in some]
        check, proposer = partial(self.knobs.text_check, told.job.known, self._leaks), self.knobs.proposer
        requests = [proposer.request(wish) for _, wish in asked]
        checks = [check(work.parent.candidate, wish) for work, wish in asked]
        with self.engine.step("reflect"):
            proposals = await toolkit.propose(self.engine, requests, proposer.read, checks)
        answers, children = iter(proposals), dict[int, Child]()
        for (work, seen), some in zip(worked, wishes, strict=True):
            candidate, changed = work.parent.candidate, []
            for wish, proposal in zip(some, answers, strict=False):
                told.reflected(wish, proposal)
                if proposal.text is not None:
                    candidate = candidate.set_instruction(wish.component, proposal.text)
                    changed.append(wish.component)
            child = reflected_child(told.job, work, seen, candidate, self.engine.register(candidate), changed)
            if not changed or child.candidate.stable_hash in told.job.known or child.index in children:
                told.end(child, "known already" if changed else "no text" if some else "nothing to learn from")
            else:
                children[child.index] = child
        return list(children.values())

    async def _run_children(self, told: Told, children: Sequence[Child]) -> list[Child]:
        """Run each child on its parent's minibatch; gives those that are accepted, and chosen, in order."""
        requests = [(child.candidate, child.index, child.columns) for child in children]
        gains, ran = list[Gain](), list[Child]()
        for child, seen in zip(children, await self._evaluate(told, "children", requests, traces=True), strict=False):
            child, before, after = compared(child, seen)
            ran.append(child)
            if after and self.knobs.acceptance.accepts(before, after):
                gains.append(Gain(task=len(ran) - 1, gain=(math.fsum(after) - math.fsum(before)) / len(after)))
            else:
                told.end(child, "no improvement" if after else "unscored")
        kept = [gain.task for gain in self.knobs.selection.keep(gains)]
        for gain in gains:
            if gain.task not in kept[: told.job.survivors]:
                told.end(ran[gain.task], "no room" if gain.task in kept else "not chosen")
        return [ran[n] for n in kept[: told.job.survivors]]

    async def _try_merge(self, told: Told, merge: Merge) -> list[Child]:
        """Run a merged candidate on a few validation rows; it has to do as well as the better of its sides."""
        child = merged_child(told.job, merge, self.engine.register(merge.candidate))
        for seen in await self._evaluate(told, "merge", [(child.candidate, child.index, merge.rows)]):
            after = math.fsum(score for score in seen.scores() if score is not None)
            child = attrs.evolve(child, line=attrs.evolve(child.line, after=after))
            if seen.coverage == 1.0 and after >= merge.threshold:
                return [child]
            told.end(child, "no improvement" if seen.coverage == 1.0 else "unscored")
        return []

    async def _validate(self, told: Told, children: Sequence[Child]) -> None:
        """Run the accepted children on all validation rows, in one fan-out; or as far as their race goes."""
        if told.job.race is not None:
            await race(self._evaluate, told, children, told.job.race, self.problem.rng("gepa/race"))
            return
        requests = [(child.candidate, child.index, self.val) for child in children]
        found = await self._evaluate(told, "validate", requests, traces=not self.problem.val)
        for child, evaluation in zip(children, found, strict=False):
            if toolkit.score_of(evaluation) is None:  # a cap cut it, or no row is scored: nothing to compare
                told.end(child, "no room" if told.cap else "unscored")
            else:
                told.add(child, evaluation)

    async def _evaluate(
        self, told: Told, step: str, requests: Sequence[Request], *, traces: bool = False
    ) -> Sequence[CandidateEval]:
        """Evaluate candidates on columns, as far as the budget goes; each eval has to have its feedback."""
        if not requests:
            return ()
        with self.engine.step(step):
            outcome = await self.engine.evaluate_many([(i, columns) for _, i, columns in requests], traces=traces)
        if isinstance(outcome, BudgetExhausted):
            told.cap = told.cap or str(outcome.cap)
        found = evaluations_of(outcome)
        told.seen += [(candidate, seen) for (candidate, _, _), seen in zip(requests, found, strict=False)]
        check_feedback(found, self.problem, ", ".join(self.problem.parameters), told.job.iteration + 1)
        return found
