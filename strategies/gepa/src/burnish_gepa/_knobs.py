"""The knobs of GEPA: names, defaults and meaning of gepa and DSPy, and what is new beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs

from burnish import Candidate, CandidateEval, Plan, toolkit
from burnish.abc import Problem
from burnish.errors import BudgetRefusedError, UsageError
from burnish_gepa._pool import FrontierType
from burnish_gepa._reflection import (
    Check,
    Proposer,
    Reflection,
    ReflectionProposer,
    Validator,
    must_be_proposer,
    wishes_of,
)
from burnish_gepa._selection import (
    ACCEPTANCES,
    COMPONENTS,
    PARENTS,
    SAMPLERS,
    SURVIVORS,
    Acceptance,
    AllImprovements,
    ComponentSelector,
    ParentSelector,
    Pareto,
    RoundRobin,
    Sampler,
    SingleMutation,
    StrictImprovement,
    Survivors,
    named,
)

if TYPE_CHECKING:  # a configuration names them by text, and the converters make objects of that
    ParentKnob = ParentSelector
    ComponentKnob = ComponentSelector
    AcceptanceKnob = Acceptance
    SamplerKnob = Sampler
    SurvivorsKnob = Survivors
else:
    ParentKnob, ComponentKnob = ParentSelector | str, ComponentSelector | str
    AcceptanceKnob, SamplerKnob, SurvivorsKnob = Acceptance | str, Sampler | str, Survivors | str

Auto = Literal["light", "medium", "heavy"]
SIZES = {"light": 6, "medium": 12, "heavy": 18}
"""Candidates that an automatic bound is meant for (DSPy)."""
UNBOUNDED = 1_000_000
"""What the plan says where the run's budget is the only bound; no search goes further."""


def _whole(least: int, *, optional: bool = False) -> Callable[[Any, Any, Any], None]:
    def check(owner: Any, attribute: Any, value: Any) -> None:
        if not (value is None and optional) and (type(value) is not int or value < least):
            raise UsageError(f"GEPA: {attribute.name} is {value!r}; it takes a whole number of at least {least}")

    return check


def _number(owner: Any, attribute: Any, value: Any) -> None:
    fine = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if value is not None and not fine:
        raise UsageError(f"GEPA: {attribute.name} is {value!r}; it takes a finite number, or none")


def _one_of(*choices: str | None) -> Callable[[Any, Any, Any], None]:
    def check(owner: Any, attribute: Any, value: Any) -> None:
        if value not in choices:
            listed = ", ".join("none" if choice is None else choice for choice in choices)
            raise UsageError(f"GEPA: {attribute.name} is {value!r}; it takes one of {listed}")

    return check


def _parent_selector(given: object) -> ParentSelector:
    return named(PARENTS, "candidate_selection", given, ParentSelector)


def _component_selector(given: object) -> ComponentSelector:
    return named(COMPONENTS, "component_selector", given, ComponentSelector)


def _acceptance(given: object) -> Acceptance:
    return named(ACCEPTANCES, "acceptance", given, Acceptance)


def _sampler(given: object) -> Sampler:
    return named(SAMPLERS, "sampling", given, Sampler)


def _survivors(given: object) -> Survivors:
    return named(SURVIVORS, "selection", given, Survivors)


def _proposer(_: Any, __: Any, value: Any) -> None:
    must_be_proposer(value)


@attrs.frozen(kw_only=True)
class Knobs:
    """What a search goes by."""

    max_metric_calls: int | None = attrs.field(default=None, validator=_whole(1, optional=True))
    """Rollouts that the search may ask for, beside what the run's budget allows; those that a store serves count too,
    so that a search takes the same course whatever is known beforehand."""
    max_full_evals: int | None = attrs.field(default=None, validator=_whole(1, optional=True))
    """The same as a multiple of all train and validation rows."""
    auto: Auto | None = attrs.field(default=None, validator=_one_of("light", "medium", "heavy", None))
    """The same by size, as DSPy reckons it. Of these three at most one is given; with none the run's budget counts, and
    `heavy` where that has no cap on rollouts."""
    reflection_minibatch_size: int = attrs.field(default=3, validator=_whole(1))
    """Train rows that a parent and its child are compared on."""
    candidate_selection: ParentKnob = attrs.field(factory=Pareto, converter=_parent_selector)
    """Who is changed next: `pareto`, `current_best`, `epsilon_greedy`, `top_k_pareto`, or an object with `choose`."""
    frontier_type: FrontierType = attrs.field(
        default="instance", validator=_one_of("instance", "objective", "hybrid", "cartesian")
    )
    """What candidates may be best at: a row, an objective of the metric over all rows, either, or one on a row."""
    component_selector: ComponentKnob = attrs.field(factory=RoundRobin, converter=_component_selector)
    """Which texts are rewritten: `round_robin` (one a time), `all`, or an object with `choose`."""
    skip_perfect_score: bool = True
    """Whether minibatches on which the parent is perfect are passed over; and the search ends when the best is perfect
    on all validation rows."""
    perfect_score: float | None = attrs.field(default=None, validator=_number)
    """The score that is perfect; None: the metric's maximum, or 1.0 where the metric names none."""
    use_merge: bool = True
    """Whether candidates with a common ancestor are merged; it takes a program of several texts."""
    max_merge_invocations: int = attrs.field(default=5, validator=_whole(0))
    """Merges that are tried, at most."""
    merge_val_overlap_floor: int = attrs.field(default=5, validator=_whole(1))
    """Validation rows that both sides of a merge are scored on, at least."""
    acceptance: AcceptanceKnob = attrs.field(factory=StrictImprovement, converter=_acceptance)
    """When a child is validated: `strict_improvement` or `improvement_or_equal` of its sum over that of its parent on
    the minibatch, or an object with `accepts`."""
    sampling: SamplerKnob = attrs.field(factory=SingleMutation, converter=_sampler)
    """What one iteration tries: `SingleMutation`, `SameParent(n)`, `Independent(n)`, `PxN(p, n)`, or an object with
    `sample`."""
    selection: SurvivorsKnob = attrs.field(factory=AllImprovements, converter=_survivors)
    """Which accepted children of an iteration are validated: `AllImprovements`, `BestImprovement`, `TopK(k)`, or an
    object with `keep`."""
    seed: int | None = None
    """None: the run's."""
    in_flight: int = attrs.field(default=1, validator=_whole(1))
    """Iterations under way at once. Each decides on what the iterations this number before it have told, so that it is
    part of what the search does, unlike the concurrency."""
    racing: bool = False
    """Whether a child is validated in growing parts, first where it may win, and no further than that needs."""
    proposer: Proposer = attrs.field(factory=ReflectionProposer, validator=_proposer)
    """Who writes new texts."""
    patience: int = attrs.field(default=5, validator=_whole(1))
    """Iterations in a row whose reflections brought no text of use, each asked several times, that end the search."""
    max_text_chars: int = attrs.field(default=20_000, validator=_whole(1))
    """The longest text that is taken."""
    max_example_chars: int = attrs.field(default=20_000, validator=_whole(200))
    """What a reflection is shown of its minibatch, about; longer texts lose their middle."""
    protected: tuple[str, ...] = ()
    """Parts of texts that every change must keep, where they stand."""
    leak_chars: int = attrs.field(default=60, validator=_whole(1))
    """Texts of train rows from this length on must not stand in a new text."""
    validators: tuple[Validator, ...] = ()
    """Further checks: `(component, new text)` gives why it is no use, or None."""

    def __attrs_post_init__(self) -> None:
        given = [n for n in ("max_metric_calls", "max_full_evals", "auto") if getattr(self, n) is not None]
        if len(given) > 1:
            raise UsageError(f"GEPA: {' and '.join(given)} are bounds of the same thing; give one of them")

    def bar(self, problem: Problem) -> tuple[float, bool]:
        """Give the score that is perfect, and whether somebody said so."""
        said = problem.metric.maximum if self.perfect_score is None else self.perfect_score
        return (1.0, False) if said is None else (said, True)

    def bound(self, problem: Problem, room: int | None) -> tuple[int, str]:
        """Give the rollouts that the search may ask for, and the knob that says so; `room` is the run's."""
        if self.max_metric_calls is not None:
            return self.max_metric_calls, "max_metric_calls"
        if self.max_full_evals is not None:
            rows = len(problem.train) + len(problem.val)
            return self.max_full_evals * rows, "max_full_evals"
        if self.auto is None and room is not None:
            return UNBOUNDED, "most rollouts of a search"
        return automatic(self.auto or "heavy", problem), f"auto = {self.auto or 'heavy'}"

    def plan(self, problem: Problem) -> Plan:
        """Bound the rollouts and the calls of the proposer by the search's own bound."""
        self.check(problem)
        rows, batch = len(problem.val or problem.train), self.batch(problem)
        bound, knob = self.bound(problem, UNBOUNDED)
        works = self.most_works(problem, bound)
        own = "" if bound < UNBOUNDED else ": the run's budget is the bound"
        return Plan(
            rollouts=bound,
            proposer_calls=works * len(problem.parameters) * toolkit.ATTEMPTS,
            candidates=max(0, bound - rows) // batch,
            minimum=self.minimum(problem),
            note=f"the start on {rows} rows; each child on {batch}, and on all where it is better ({knob}{own})",
        )

    def minimum(self, problem: Problem) -> int:
        """Give the rollouts of one round: the start, a minibatch twice, a validation, and a race's last word."""
        rows = len(problem.val or problem.train)
        return (3 if self.racing else 2) * rows + (2 * self.batch(problem) if problem.val else 0)

    def batch(self, problem: Problem) -> int:
        """Give the rows of a minibatch."""
        return min(self.reflection_minibatch_size, len(problem.train))

    def check(self, problem: Problem) -> None:
        """Refuse a problem without texts or rows, and a bound that buys no round. Raises `UsageError`."""
        if not problem.parameters:
            raise UsageError("GEPA rewrites texts, and the program has no parameter that holds one")
        if not problem.train:
            raise UsageError("the trainset is empty: reflection needs rows to learn from; pass at least one")
        needed, (bound, knob) = self.minimum(problem), self.bound(problem, UNBOUNDED)
        if bound < needed:
            raise BudgetRefusedError(
                f"GEPA: {knob} allows {bound} rollouts, and one round needs {needed} (the start on all validation "
                "rows, a minibatch twice, a child's validation); raise it, or use fewer validation rows",
                cap="max_metric_calls",
                needed=needed,
            )

    def seeded(self, problem: Problem) -> Problem:
        """Give the problem with the search's own seed, where it has one. Raises as `check` does."""
        self.check(problem)
        return problem if self.seed is None else attrs.evolve(problem, seed=self.seed)

    def wishes(
        self, problem: Problem, candidate: Candidate, turn: int, minibatch: CandidateEval
    ) -> Sequence[Reflection]:
        """Choose which of a candidate's texts are rewritten, of those that its minibatch tells something about."""
        told = wishes_of(problem, candidate, minibatch, self.max_example_chars)
        return [told[name] for name in self.component_selector.choose(tuple(problem.parameters), tuple(told), turn)]

    def text_check(self, known: Container[int], leaks: Iterable[str], parent: Candidate, wish: Reflection) -> Check:
        """Make the check of a new text: a known candidate, length, placeholders, protected parts, leaked rows, own."""
        standard = toolkit.text_check(
            wish.parameter,
            most_chars=self.max_text_chars,
            protected=[part for part in self.protected if part in wish.text],
            leaks=[leak for leak in leaks if leak not in wish.text],
        )

        def check(text: str) -> str | None:
            if parent.set_instruction(wish.component, text).stable_hash in known or text == wish.text:
                return "it is known already"
            found = (validate(wish.component, text) for validate in self.validators)
            return standard(text) or next((why for why in found if why), None)

        return check

    def calls_counted(self, problem: Problem, scarce: str | None) -> int:
        """Give the proposer's calls that a parent taken up reserves, as if they were rollouts.

        With iterations in flight and a cap on calls, what an iteration may take must be reserved when it begins: else
        it would depend on what ends first whom the cap refuses.
        """
        counted = self.in_flight > 1 and scarce in ("max_requests", "max_lm_calls")
        return len(problem.parameters) * toolkit.ATTEMPTS if counted else 0

    def most_works(self, problem: Problem, bound: int) -> int:
        """Give how often a parent may be taken up: reflections have a bound too, as each child costs a minibatch."""
        rows = len(problem.val or problem.train)
        return max(0, bound - rows) // self.batch(problem) + self.patience



def automatic(size: Auto, problem: Problem) -> int:
    """Reckon a bound by size, as DSPy does: as many rollouts as MIPROv2 would take with so many candidates.

    A full evaluation of the start, five rollouts a candidate, trials on minibatches of 35 rows, and a full evaluation
    after every fifth of them.
    """
    candidates, rows = SIZES[size], len(problem.val or problem.train)
    trials = int(max(4 * len(problem.parameters) * math.log2(candidates), 1.5 * candidates))
    full = 1 + (trials + 1) // 5 + 1 + (1 if trials < 5 else 0)
    return full * rows + 5 * candidates + 35 * trials
