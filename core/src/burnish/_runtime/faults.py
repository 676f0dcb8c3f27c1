"""What an error counts as: the fault of a rollout, or of a strategy's call."""

from __future__ import annotations

from burnish._model.outcome import Fault, RolloutStatus
from burnish._runtime.blame import VERDICTS, of_network
from burnish._runtime.scope import Account
from burnish.errors import BudgetExceededError, ModelError, UsageError, text_of


def is_usage(error: BaseException) -> bool:
    """Say whether an error means that the caller has to mend something: nothing else would go better."""
    return isinstance(error, UsageError) and not isinstance(error, ModelError)


def fault_of(error: BaseException, *, judge: bool = False) -> Fault:
    """Make the fault of the error that `blame` found.

    `where` says what it counts as: `budget` for a cap, `model` for a provider or the way to it, also where a client of
    the program's own met it, and `program` for all else. What a model says of its request (a context that is too long,
    a refusal) is the program's, but of a `judge` it says nothing about the program.
    """
    model = isinstance(error, ModelError)
    where = "program"
    if isinstance(error, BudgetExceededError):
        where = "budget"
    elif (judge or not isinstance(error, VERDICTS)) if model else of_network(error):
        where = "model"
    fatal = is_usage(error) or (isinstance(error, ModelError) and error.fatal)
    return Fault(type=type(error).__name__, message=text_of(error), where=where, fatal=fatal)


def status_of(fault: Fault) -> RolloutStatus:
    """Give the status of a rollout that a fault of its program ended."""
    if fault.where == "model":
        return RolloutStatus.INFRASTRUCTURE_FAILED
    return RolloutStatus.REJECTED if fault.where == "budget" or fault.fatal else RolloutStatus.AGENT_FAILED


def counted(fault: Fault | None, account: Account) -> Fault | None:
    """Give the fault that counts for a program that ended with this one, or with a result.

    What it made of a refused call is no result, nor is what it made of a model that never answered.
    """
    lost = account.lost
    if account.refused is not None and (fault is None or fault.where != "budget"):
        return refused(account.refused)
    if fault is None and lost is not None and (lost.fatal or not account.answered):
        return fault_of(lost)
    return fault


def refused(cap: str) -> Fault:
    """Give the fault of a program that went on after a call was refused."""
    message = f"the budget's {cap} refused a call inside the program; what the program made of that is no result"
    return Fault(type=BudgetExceededError.__name__, message=message, where="budget")


def not_run(what: str) -> Fault:
    """Give the fault of what the run's end left out."""
    return Fault(type="NotRun", message=f"the run ended before this {what} started", where="budget")
