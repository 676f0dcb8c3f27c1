"""The choices of a search, as small objects that can be replaced: parents, tasks, components, acceptance, survivors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Protocol, TypeVar, runtime_checkable

import attrs

from burnish.errors import UsageError
from burnish_gepa._pool import Pool

T = TypeVar("T")


def _kind(name: str) -> Any:
    """Make a field that tells choices with equal numbers apart where a run's options are compared by their fields."""
    return attrs.field(default=name, init=False, repr=False)


# --- parents ------------------------------------------------------------------------------------------------------


@runtime_checkable
class ParentSelector(Protocol):
    """Chooses who is changed next."""

    def choose(self, pool: Pool, rng: Random) -> int:
        """Give the number of a member of the pool; decide on the pool and `rng` alone."""


@attrs.frozen
class Pareto:
    """Draw from the frontier, in proportion to the keys that a candidate holds.

    The best mean gets at least `best_share` of the draws: the frontier alone may leave it none, where others hold all
    of its keys between them.
    """

    best_share: float = 0.1
    top: int | None = None
    """Draw from the `top` best means of the frontier only; None: from all of it."""
    kind: str = _kind("Pareto")

    def choose(self, pool: Pool, rng: Random) -> int:
        weights: dict[int, float] = dict(pool.frontier.weights(pool.means))
        if self.top is not None:
            ranked = sorted(weights, key=lambda number: (-pool.means[number], number))[: self.top]
            weights = {number: weights[number] for number in sorted(ranked)}
        others = math.fsum(weight for number, weight in weights.items() if number != pool.best)
        least = others * self.best_share / (1 - self.best_share)
        weights[pool.best] = max(weights.get(pool.best, 0), least) or 1
        return rng.choices(list(weights), list(weights.values()))[0]


@attrs.frozen
class CurrentBest:
    """Take the best mean."""

    kind: str = _kind("CurrentBest")

    def choose(self, pool: Pool, rng: Random) -> int:
        return pool.best


@attrs.frozen
class EpsilonGreedy:
    """Take the best mean, or with a chance of `epsilon` any candidate."""

    epsilon: float = 0.1
    kind: str = _kind("EpsilonGreedy")

    def choose(self, pool: Pool, rng: Random) -> int:
        anyone = rng.random() < self.epsilon
        return rng.choice(list(pool.members)) if anyone else pool.best


# --- tasks --------------------------------------------------------------------------------------------------------

Task = tuple[int, tuple[int, ...]]
"""A parent's number and a minibatch of columns."""


@runtime_checkable
class Sampler(Protocol):
    """Chooses the tasks of one iteration: who is changed on which minibatch."""

    def sample(self, parent: Callable[[], int], minibatch: Callable[[], tuple[int, ...]]) -> Sequence[Task]:
        """Give tasks; each call of `parent` draws a parent, each of `minibatch` gives rows not shown this epoch."""


def _many(_: Any, attribute: Any, value: Any) -> None:
    if type(value) is not int or value < 1:
        raise UsageError(f"{attribute.name} is {value!r}; it takes a whole number of at least 1")


@attrs.frozen
class SingleMutation:
    """One parent, one minibatch."""

    kind: str = _kind("SingleMutation")

    def sample(self, parent: Callable[[], int], minibatch: Callable[[], tuple[int, ...]]) -> Sequence[Task]:
        return [(parent(), minibatch())]


@attrs.frozen
class SameParent:
    """One parent on `n` minibatches."""

    n: int = attrs.field(validator=_many)
    kind: str = _kind("SameParent")

    def sample(self, parent: Callable[[], int], minibatch: Callable[[], tuple[int, ...]]) -> Sequence[Task]:
        chosen = parent()
        return [(chosen, minibatch()) for _ in range(self.n)]


@attrs.frozen
class Independent:
    """`n` draws of a parent and a minibatch."""

    n: int = attrs.field(validator=_many)
    kind: str = _kind("Independent")

    def sample(self, parent: Callable[[], int], minibatch: Callable[[], tuple[int, ...]]) -> Sequence[Task]:
        return [(parent(), minibatch()) for _ in range(self.n)]


@attrs.frozen
class PxN:
    """`p` draws of a parent, each on `n` minibatches."""

    p: int = attrs.field(validator=_many)
    n: int = attrs.field(validator=_many)
    kind: str = _kind("PxN")

    def sample(self, parent: Callable[[], int], minibatch: Callable[[], tuple[int, ...]]) -> Sequence[Task]:
        return [(chosen, minibatch()) for chosen in [parent() for _ in range(self.p)] for _ in range(self.n)]


# --- components ---------------------------------------------------------------------------------------------------


@runtime_checkable
class ComponentSelector(Protocol):
    """Chooses which parameters of a parent are rewritten."""

    def choose(self, names: Sequence[str], shown: Sequence[str], turn: int) -> Sequence[str]:
        """Give some of `shown`: the parameters, of all `names`, that the minibatch tells something about.

        `turn` counts how often this parent was changed before.
        """


@attrs.frozen
class RoundRobin:
    """One after the other, for each parent; those that the minibatch did not use are passed over."""

    kind: str = _kind("RoundRobin")

    def choose(self, names: Sequence[str], shown: Sequence[str], turn: int) -> Sequence[str]:
        first = turn % len(names)
        return [name for name in (*names[first:], *names[:first]) if name in shown][:1]


@attrs.frozen
class AllComponents:
    """All of them at once."""

    kind: str = _kind("AllComponents")

    def choose(self, names: Sequence[str], shown: Sequence[str], turn: int) -> Sequence[str]:
        return shown


# --- acceptance and survivors -------------------------------------------------------------------------------------


@runtime_checkable
class Acceptance(Protocol):
    """Says whether a child did well enough on its minibatch to be validated."""

    def accepts(self, before: Sequence[float], after: Sequence[float]) -> bool:
        """Compare the scores of parent and child on the rows that both are scored on, in order of the columns."""


@attrs.frozen
class StrictImprovement:
    """A strictly greater sum."""

    kind: str = _kind("StrictImprovement")

    def accepts(self, before: Sequence[float], after: Sequence[float]) -> bool:
        return math.fsum(after) > math.fsum(before)


@attrs.frozen
class ImprovementOrEqual:
    """A sum that is not smaller."""

    kind: str = _kind("ImprovementOrEqual")

    def accepts(self, before: Sequence[float], after: Sequence[float]) -> bool:
        return math.fsum(after) >= math.fsum(before)


@attrs.frozen(kw_only=True)
class Gain:
    """An accepted child, as the survivors are chosen from."""

    task: int
    """Its place among the iteration's tasks."""
    gain: float
    """What it gained on its minibatch, on average over the rows."""


@runtime_checkable
class Survivors(Protocol):
    """Chooses which of an iteration's accepted children are validated."""

    def keep(self, gains: Sequence[Gain]) -> Sequence[Gain]:
        """Give some of them; where the budget has no room for all, the first go first."""


@attrs.frozen
class AllImprovements:
    """All of them, the greatest gain first."""

    kind: str = _kind("AllImprovements")

    def keep(self, gains: Sequence[Gain]) -> Sequence[Gain]:
        return sorted(gains, key=lambda one: (-one.gain, one.task))


@attrs.frozen
class TopK:
    """The `k` greatest gains; of equals the earlier."""

    k: int = attrs.field(validator=_many)
    kind: str = _kind("TopK")

    def keep(self, gains: Sequence[Gain]) -> Sequence[Gain]:
        return AllImprovements().keep(gains)[: self.k]


@attrs.frozen
class BestImprovement:
    """The greatest gain."""

    kind: str = _kind("BestImprovement")

    def keep(self, gains: Sequence[Gain]) -> Sequence[Gain]:
        return TopK(1).keep(gains)


# --- by name ------------------------------------------------------------------------------------------------------

PARENTS: Mapping[str, Callable[..., ParentSelector]] = {
    "pareto": Pareto,
    "current_best": CurrentBest,
    "epsilon_greedy": EpsilonGreedy,
    "top_k_pareto": lambda k=5: Pareto(top=k),
}
COMPONENTS: Mapping[str, Callable[..., ComponentSelector]] = {"round_robin": RoundRobin, "all": AllComponents}
ACCEPTANCES: Mapping[str, Callable[..., Acceptance]] = {
    "strict_improvement": StrictImprovement,
    "improvement_or_equal": ImprovementOrEqual,
}
SAMPLERS: Mapping[str, Callable[..., Sampler]] = {
    "SingleMutation": SingleMutation,
    "SameParent": SameParent,
    "Independent": Independent,
    "PxN": PxN,
}
SURVIVORS: Mapping[str, Callable[..., Survivors]] = {
    "AllImprovements": AllImprovements,
    "BestImprovement": BestImprovement,
    "TopK": TopK,
}


def named(known: Mapping[str, Callable[..., T]], knob: str, given: object, kind: type) -> T:
    """Make the object that a knob names, `TopK(2)` or `pareto`; an object of the kind is taken as it is.

    Raises `UsageError` that lists what there is.
    """
    if isinstance(given, str):
        form = re.fullmatch(r"(\w+)(?:\((\d+(?:\s*,\s*\d+)*)\))?", given.strip())
        if form is not None and form[1] in known:
            numbers = [int(number) for number in (form[2] or "").split(",") if number]
            try:
                return known[form[1]](*numbers)
            except TypeError:
                raise UsageError(f"GEPA: {knob} = {given!r} has a wrong number of numbers in parentheses") from None
    elif isinstance(given, kind):
        return given  # type: ignore[return-value]
    raise UsageError(
        f"GEPA: {knob} is {given!r:.80}; it takes one of {', '.join(known)} (with its numbers in parentheses), or an "
        f"object with the method of {kind.__name__}"
    )
