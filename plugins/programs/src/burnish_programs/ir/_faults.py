"""What may go wrong when a program of the IR is loaded and run. What a model or a reply does wrong is burnish's own."""

from __future__ import annotations

from burnish.errors import EvaluationError, UsageError


class LoadError(UsageError):
    """An environment does not give what a program needs: models, holes or capabilities; `missing` names all of it."""

    def __init__(self, message: str, *, missing: tuple[str, ...] = ()) -> None:
        self.missing = missing
        super().__init__(message)


class InputError(UsageError):
    """A run's input does not fit the program's signature: names the field; no call was made."""

    def __init__(self, message: str, *, field: str) -> None:
        self.field = field
        super().__init__(message)


class RunError(EvaluationError):
    """A run ended at a node; `at` is the leaf, or the field that decided."""

    def __init__(self, message: str, *, at: str) -> None:
        self.at = at
        super().__init__(message)


class RunBudgetError(RunError):
    """The budget of this one run refused a call; nothing retries it. `cap` names what ran out.

    Not `BudgetExceededError`, which is the search's own budget: a rollout that ends like this is the program's failure.
    """

    def __init__(self, message: str, *, at: str, cap: str) -> None:
        self.cap = cap
        super().__init__(message, at=at)


class RouteError(RunError):
    """A value has no arm, and the route has no default."""


class HoleError(RunError):
    """A host function raised, or gave something that is not what its signature says; the error is its cause."""
