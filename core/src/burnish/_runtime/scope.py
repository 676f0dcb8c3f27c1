"""What surrounds a rollout: the candidate it runs under, the models by role, and the account that its calls go to.

Three context variables, set by the engine and read by programs. A program reads its texts from the candidate in force
at render time, so candidates run side by side and nothing is mutated; each read leaves a receipt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal
from typing import Any

import attrs
import trio

from burnish._model.budget import ZERO, RoleSpend
from burnish._model.candidate import Candidate, Overlay
from burnish._runtime.within import Within
from burnish.errors import ModelError, UsageError

_injection: ContextVar[Injection | None] = ContextVar("burnish_injection", default=None)
_models: ContextVar[Mapping[str, Any]] = ContextVar("burnish_models", default={})  # noqa: B039 (never mutated)
_account: ContextVar[Account | None] = ContextVar("burnish_account", default=None)


@attrs.define
class Injection:
    """The candidate in force, and who read it."""

    candidate: Candidate
    source: str | None = None
    """Fingerprint of the row under evaluation: demos made from it are left out."""
    rendered: set[str] = attrs.field(factory=set)

    def read(self, name: str) -> Overlay | None:
        """Give the overlay of a parameter and note that it was rendered; None where the candidate leaves it alone."""
        self.rendered.add(name)
        return self.candidate.overlays.get(name)


def current_injection() -> Injection | None:
    """Give the candidate in force; None outside rollouts."""
    return _injection.get()


def injected(injection: Injection | None) -> Within[None]:
    """Put a candidate in force inside the block; None takes any outer one out of force."""
    return Within(None, (_injection, injection))


@contextmanager
def models(**by_role: Any) -> Iterator[None]:
    """Set the models by role (`task`, `proposer`, `judge`) inside the block; roles not named keep theirs.

    A model is an `abc.Model` or any callable `(request) -> text or LMResponse`, sync or async.
    """
    token = _models.set({**_models.get(), **{role: model for role, model in by_role.items() if model is not None}})
    try:
        yield
    finally:
        _models.reset(token)


def current_models() -> Mapping[str, Any]:
    """Give the models in force, by role."""
    return _models.get()


def model_for(role: str) -> Any:
    """Give the model of a role; `task` stands in for roles that have none. Raises `UsageError` where there is none."""
    in_force, account = _models.get(), _account.get()
    if role == "task" and account is not None and account.task_is is not None:
        role = account.task_is
    model = in_force.get(role, in_force.get("task"))
    if model is None:
        raise UsageError(
            f"no model for the role `{role}`: wrap the call in `with burnish_programs.models({role}=model):`, "
            "pass `models={...}` to optimize, or give the predictor `model=...`"
        )
    return model


@attrs.define
class Account:
    """Where the model calls of one rollout (or one proposal) are booked, by role."""

    role: str = "task"
    """The role of calls that name none."""
    task_is: str | None = None
    """The role that calls of the role `task` have: in a proposer's program, the proposer's."""
    sample: int = 0
    """Which sample of the rollout this is: requests that name none are asked as this one."""
    calls: dict[str, RoleSpend] = attrs.field(factory=dict)
    models: dict[str, None] = attrs.field(factory=dict)
    """Ids of the models that answered, in order of first answer."""
    refused: str | None = None
    """The cap that refused a call, also where the program swallowed the error."""
    lost: ModelError | None = None
    """The last failure of a model or its transport that reached the program, also where it swallowed the error."""
    answered: bool = False
    """Whether any call was answered."""
    cut: bool = False
    """Whether an answer ended at its bound of tokens."""
    note: Callable[[str, Any], Awaitable[None]] | None = None
    """Writes down that a request of a role leaves, with its bound, where something is capped and the run is kept."""
    held: Decimal = ZERO
    """What its requests may have cost, of which nobody knows."""
    ledger: Any = None
    """A `Ledger` (floor above): asked before each request, told after."""
    limits: Any = None
    """The run's `Limits`: one limiter a model."""
    token: trio.lowlevel.TrioToken | None = None
    """The event loop of the run: how sync code in a foreign thread finds its way back."""

    def book(self, role: str, spent: RoleSpend, model: str = "") -> None:
        """Book a request that was made, and the id of the model that answered it."""
        known = self.calls.get(role)
        self.calls[role] = spent if known is None else known + spent
        if model:
            self.models[model] = None


def current_account() -> Account | None:
    """Give the account in force; None outside rollouts and proposals."""
    return _account.get()


def accounted(account: Account, by_role: Mapping[str, Any] | None = None) -> Within[Account]:
    """Book the model calls inside the block on `account`, with `by_role` in force before the models that were."""
    within = Within(account, (_account, account))
    return within if not by_role else within.also(Within(None, (_models, {**_models.get(), **by_role})))
