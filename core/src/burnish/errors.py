"""Every error that burnish raises, split by whose fault it is.

One root, `BurnishError`. Below it: *usage* (the caller's call or configuration is wrong; nothing was spent),
*plugin* (an installed plugin is missing, clashing or broken), *evaluation* (a program, metric or model failed while it
ran; inside a fan-out these are values, not exceptions), *store* (a file or a server that keeps state), and
`InternalError` (ours: please report). Each message says what, where, and the next step, and keeps its facts as
attributes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from decimal import Decimal

    from burnish._edges.result import Result
    from burnish._model.lm import Usage
    from burnish._model.outcome import Fault


class BurnishError(Exception):
    """The root: `except BurnishError` catches whatever burnish raises on purpose."""

    result: Result | None = None
    """What a run had found when this error ended it; None where no run was under way."""


# --- usage: the caller's; raised before anything is spent -------------------------------------------------


class UsageError(BurnishError, ValueError):
    """A call, a row or a configuration that cannot work; nothing was spent."""


class ConfigError(UsageError):
    """A configuration value is wrong: names file, key and the expected type."""


class UnknownIndexError(UsageError, IndexError):
    """A candidate or example index that the engine does not have."""


class UnknownParameterError(UsageError, LookupError):
    """A candidate names a predictor or text parameter that the program does not have."""

    def __init__(self, name: str, known: tuple[str, ...] = ()) -> None:
        self.name, self.known = name, known
        have = f"; the program has: {', '.join(f'`{k}`' for k in known)}" if known else ""
        super().__init__(f"predictor `{name}` not found{have}")


class RowError(UsageError):
    """A row cannot be used: names its index and field."""

    def __init__(self, message: str, *, row: int | None = None, field: str | None = None) -> None:
        self.row, self.field = row, field
        super().__init__(message)


class NotAModelError(UsageError, TypeError):
    """What was given as a model is none: no object of the model kind, and not callable."""


class BudgetRefusedError(UsageError):
    """A cap that cannot be kept, or that cannot buy one round (`needed` is the number that would); nothing is spent."""

    def __init__(self, message: str, *, cap: str, needed: int | None = None) -> None:
        self.cap, self.needed = cap, needed
        super().__init__(message)


class ContextLostError(UsageError, RuntimeError):
    """A predictor under tuning was called outside its rollout, mostly from a thread started without its context."""


# --- plugin: whoever installed or wrote the plugin ---------------------------------------------------------


class PluginError(BurnishError):
    """A plugin is missing, clashes, is broken, or speaks another API."""


class PluginNotFoundError(PluginError, LookupError):
    """No installed distribution offers this kind and name."""


class PluginClashError(PluginError):
    """Two distributions offer one kind and name: both are named."""


class PluginBrokenError(PluginError, ImportError):
    """A plugin that a configuration asks for failed to import or to register, or does not keep to its kind."""


class PluginApiError(PluginError):
    """A plugin was written for another number of its kind's API."""


# --- evaluation: the program, the metric or the model, while it ran ----------------------------------------


class EvaluationError(BurnishError):
    """Something under evaluation failed."""


class MetricError(EvaluationError):
    """The metric raised, or returned something that is not a finite score.

    The outputs are kept, by the engine or in its cache: a mended metric calls no model for them.
    """

    def __init__(self, message: str, *, row: int | None = None, candidate: int | None = None) -> None:
        self.row, self.candidate = row, candidate
        super().__init__(message)


class CallFailedError(EvaluationError):
    """A strategy's own call brought nothing: `fault` says why."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(f"the call failed: {fault}")


class ParseError(EvaluationError, ValueError):
    """A model's reply does not hold the declared outputs; `raw` is the whole reply."""

    def __init__(self, message: str, *, raw: str, field: str | None = None) -> None:
        self.raw, self.field = raw, field
        super().__init__(message)


class BudgetExceededError(EvaluationError):
    """One model call would pass a cap of the budget; it was not made."""

    def __init__(self, message: str, *, cap: str) -> None:
        self.cap = cap
        super().__init__(message)


class RunStoppedError(EvaluationError):
    """A run ended early (credentials, a missing model, too many infrastructure failures); what was paid for is kept."""


# --- models --------------------------------------------------------------------------------------------------


class ModelError(EvaluationError):
    """A call to a language model failed. `retryable` says whether the same request may succeed later.

    `usage` and `cost` are what the call was charged for nevertheless, where the endpoint said it: they are booked.
    """

    retryable = False
    fatal = False
    """Whether every further call must fail too (credentials, no such model): the run stops after one call."""

    usage: Usage | None = None
    cost: Decimal | None = None
    """In US dollars; None where it is unknown."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        usage: Usage | None = None,
        cost: Decimal | None = None,
    ) -> None:
        self.status, self.retry_after = status, retry_after
        self.usage, self.cost = usage, cost
        super().__init__(message)


class ModelAuthError(ModelError):
    """The endpoint refused the credentials."""

    fatal = True


class ModelNotFoundError(ModelError, LookupError):
    """The endpoint does not have this model."""

    fatal = True


class ModelRateLimitError(ModelError):
    """Too many requests; `retry_after` is in seconds, where the endpoint said it."""

    retryable = True


class ModelTimeoutError(ModelError, TimeoutError):
    """No whole answer within the time limit; the provider may still have charged it."""

    retryable = True


class ModelConnectionError(ModelError, ConnectionError):
    """The endpoint could not be reached, or the connection broke."""

    retryable = True


class ModelServerError(ModelError):
    """The endpoint answered 5xx."""

    retryable = True


class ModelMalformedError(ModelError):
    """The endpoint's answer is not what its protocol says (truncated body, bad JSON, missing fields)."""

    retryable = True


class ModelAnswerError(ModelMalformedError, ValueError):
    """A model's code gave an answer that cannot be booked or stored (a cost below 0, no text): its author's to mend."""

    retryable = False


class ModelFailedError(ModelError):
    """A model's code raised an error of its own, which is the cause: nobody knows whether it may pass."""


class ContextLengthError(ModelError, ValueError):
    """The prompt does not fit the model's context: the candidate's fault, never retried."""


class ModelRefusedError(ModelError):
    """The provider declined to answer this content: the candidate's or the row's fault, never retried."""


class ModelRequestError(ModelError, ValueError):
    """The endpoint says that the request itself is wrong (another 4xx): never retried."""


# --- replay: a test's; a program no longer asks what its traces recorded ----------------------------------------


class PlaybackError(UsageError):
    """A model call cannot be answered from recorded traces: `component` and `seq` say which call."""

    def __init__(self, message: str, *, component: str | None = None, seq: int | None = None) -> None:
        self.component, self.seq = component, seq
        super().__init__(message)


class PlaybackDivergedError(PlaybackError):
    """A call asks for something else than was recorded: another prompt or another model."""


class PlaybackIncompleteError(PlaybackError):
    """The recorded call lacks its answer, or a part of its texts."""


class PlaybackExhaustedError(PlaybackError):
    """A call was not recorded at all."""


# --- stores ----------------------------------------------------------------------------------------------------


class ReplayDivergedError(BurnishError):
    """A run that begins again asks for something else than it did before, so that what it was told does not hold.

    `step`, `recorded` and `asked` say where and what; `number` is the event in the run store.
    """

    def __init__(self, step: str, recorded: str, asked: str, number: int = 0) -> None:
        self.step, self.recorded, self.asked, self.number = step, recorded, asked, number
        super().__init__(
            f"the run does not do what it did: in step `{step}` it asked for {recorded}, now it asks for {asked}; "
            "go on from there with the results so far as answers (`--continue-live`), or start a new run on them "
            "(`burnish fork`)"
        )


class ResumeRefusedError(UsageError):
    """A run cannot begin again as it is: `changed` names what is another one now."""

    def __init__(self, message: str, changed: tuple[str, ...] = ()) -> None:
        self.changed = changed
        super().__init__(message)


class StoreError(BurnishError):
    """A cache, run store or sink cannot be read or written: names the file and what to do."""

    def __init__(self, message: str, *, path: str | None = None) -> None:
        self.path = path
        super().__init__(message)


class InternalError(BurnishError):
    """A fault of burnish itself."""


def text_of(error: BaseException, limit: int = 2000) -> str:
    """Give at most `limit` characters of an error's message; nothing where its own `__str__` fails."""
    try:
        return str(error)[:limit]
    except Exception:
        return ""


def first_line(error: BaseException, limit: int = 300) -> str:
    """Describe an error in one line of at most `limit` characters: its type and the start of its message."""
    text = text_of(error, limit + 1000).strip().partition("\n")[0]
    name = type(error).__name__
    line = f"{name}: {text}" if text else name
    return line if len(line) <= limit else line[: limit - 1] + "…"


def unwrap(error: BaseException) -> BaseException:
    """Give the one error inside (nested) exception groups that hold just one, else the group itself."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
