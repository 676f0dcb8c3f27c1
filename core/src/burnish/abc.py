"""The kinds of burnish: what a plugin implements. Nobody inherits; having the methods is enough.

Every kind comes as a `Spec` from a hook in `burnish.hookspecs`. Where a call may grow it takes one frozen request
object. Methods named in a kind's docstring as optional are declared by a capability of the `Spec`.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

import attrs

from burnish._model.canonical import Json as Json
from burnish._model.canonical import JsonMap as JsonMap
from burnish._model.layout import BLOCK as BLOCK
from burnish._model.layout import LAYOUT_VERSION as LAYOUT_VERSION
from burnish._model.layout import BasePrompt as BasePrompt
from burnish._model.layout import lay_out as lay_out
from burnish._model.layout import stops as stops
from burnish._model.lm import Layout as Layout
from burnish._model.lm import LMRequest as LMRequest
from burnish._model.lm import LMResponse as LMResponse
from burnish._model.lm import Message as Message
from burnish._model.lm import ModelPrice as ModelPrice
from burnish._model.lm import Role as Role
from burnish._model.lm import Turns as Turns
from burnish._model.lm import Usage as Usage

if TYPE_CHECKING:
    from burnish._model.candidate import Candidate
    from burnish._model.evals import Eval
    from burnish._model.events import Event
    from burnish._model.example import Example
    from burnish._model.outcome import RolloutRecord
    from burnish._model.parameter import Parameter, PredictState
    from burnish._model.report import Plan, Report
    from burnish._model.trace import Trace
    from burnish._runtime.engine import Engine

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@attrs.frozen(kw_only=True)
class Environment:
    """Where a plugin's instance lives: given to `Spec.open` beside the options."""

    base_dir: Path = attrs.field(factory=Path)
    """Relative paths in options start here: the configuration file's directory, else the working directory."""
    run_dir: Path | None = None
    """The run's directory, where the run has one."""
    cache_dir: Path | None = None
    """The user's cache directory for large files; None takes the platform's."""
    variables: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    """Environment variables. Options hold the *name* of a secret's variable, never the secret."""
    open: Callable[[str, Any], Awaitable[Any]] | None = attrs.field(default=None, repr=False, eq=False)
    """Opens a further component of a kind, for plugins that are made of others: a name, a table with `use`, or an
    object, which stays as it is. It lives as long as the run. None outside of one."""


def _names(names: Iterable[str]) -> frozenset[str]:
    return frozenset(names)


@attrs.frozen(kw_only=True)
class Spec(Generic[T]):
    """One named component that a plugin offers."""

    name: str
    """The component's name: equal to the entry point's `<kind>.<name>`."""
    open: Callable[[Any, Environment], AbstractAsyncContextManager[T]]
    """`open(options, env)`: an async context manager around the instance, so that its life is explicit."""
    options: type | None = None
    """An attrs class; the user's table is structured into it, strictly. None: no options."""
    api: int = 1
    """The number of the kind's API that the plugin was written for."""
    capabilities: frozenset[str] = attrs.field(default=frozenset(), converter=_names)
    summary: str = ""
    """One line for `burnish plugins`."""


# --- metric (stable) -----------------------------------------------------------------------------------------

MetricReturn: TypeAlias = "Eval | float | bool | tuple[float, str | None]"


@runtime_checkable
class Metric(Protocol):
    """Scores a rollout. A plain callable `(example, prediction, trace=None)` is a metric too.

    Optional: `evaluate_spans(example, prediction, trace)` gives `(span id, Eval)` pairs, called once a rollout after
    `evaluate`; `fingerprint: str` names the code's identity; `maximum: float` is the best score there is; `roles` are
    those of the models that it asks by role: a run without one is refused before it begins.
    Either method may be sync or async; a sync one runs in a worker thread unless marked with `burnish.inline`.
    Rows and predictions that are plain containers come as copies; objects are shared by all rollouts: only read them.
    """

    def evaluate(
        self, example: Any, prediction: Any, trace: Trace | None = None
    ) -> MetricReturn | Awaitable[MetricReturn]: ...


# --- model (provisional) -------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ModelLimits:
    """What the core's shared limiter and its retries need to know of a model."""

    key: str
    """Models with one key share one limiter: endpoint, credential (as a digest) and model id."""
    max_in_flight: int | None = None
    """Calls at once; None leaves it to the run's concurrency."""
    timeout: float | None = 120.0
    """Seconds that one attempt may take."""
    retries: int = 4
    """Further attempts after an error whose `retryable` is true."""
    max_output_tokens: int | None = None
    """Bound of one reply in tokens, thinking included, where the model has one; a request's own `max_tokens` goes
    before it. A cap on tokens or money reserves so many for each call; a cap on money is refused without it."""
    price: ModelPrice | None = None
    """What its tokens cost; None where unknown, which a cap on money refuses. A model that costs nothing says 0."""
    extra_input_tokens: int = 128
    """What the model may put into a prompt beside the texts of the turns: a chat template's head, tools, a schema."""


@runtime_checkable
class Model(Protocol):
    """Answers one request, once: no retry, no waiting for a rate limit of its own; the core does both.

    Raises a subclass of `burnish.errors.ModelError`, with the `usage` and `cost` of a call that was charged all the
    same. Any other exception is the model's own bug: it becomes a `ModelFailedError`, is not retried and is no verdict
    on a candidate; so is an answer that is no valid `LMResponse` (`ModelAnswerError`). Cancellation ends the call at
    once; what the provider charges for it is the caller's loss.
    """

    @property
    def identity(self) -> Mapping[str, Json]:
        """What decides the answer: provider, endpoint, model id, sampling settings. Never a credential."""

    @property
    def limits(self) -> ModelLimits: ...

    async def complete(self, request: LMRequest) -> LMResponse: ...


# --- cache (stable) ------------------------------------------------------------------------------------------

TRACE_KEY = ":trace"
"""How the key of a rollout's trace ends, after that of the rollout: what a cache that makes room may drop first."""
PREFIX_KEY = "prefix:"
"""How the key of a prompt's beginning begins, which the traces of many rollouts refer to; then its fingerprint."""


def is_rollout(key: str) -> bool:
    """Say whether a cache's key is a rollout's own, not that of a part."""
    return not (key.endswith(TRACE_KEY) or key.startswith(PREFIX_KEY))


@attrs.frozen(kw_only=True)
class CacheRecord:
    """One stored rollout: text under a key."""

    key: str
    """`baseline:candidate:example:salt`, each 16 hex digits (seed 000); what belongs to a rollout has other forms."""
    check: str
    """128-bit fingerprint of everything that the key stands for; a record with another one is not an answer."""
    body: str
    """JSON text. A cache keeps it as it is and never interprets it."""
    created: float = 0.0
    """Seconds since the epoch, for a maximal age."""


@attrs.frozen(kw_only=True)
class CacheGet:
    """Ask for the records of many keys."""

    keys: tuple[str, ...]


@attrs.frozen(kw_only=True)
class CachePut:
    """Store many records: all of them or, on an error, none."""

    records: tuple[CacheRecord, ...]


@runtime_checkable
class Cache(Protocol):
    """Keeps rollouts between runs. It may forget, traces first; it may never invent, mix up or tear.

    `get_many` returns the records it has, by key; a damaged record counts as absent, and what is absent is left out. A
    cache that raises or answers anything else is asked no more. `put_many` is atomic; the last writer of a key wins.
    Both reach a checkpoint. Capabilities: `persistent` (survives the process), `shared` (several
    processes at once).
    """

    async def get_many(self, request: CacheGet) -> Mapping[str, CacheRecord]: ...

    async def put_many(self, request: CachePut) -> None: ...


# --- meter (provisional) -------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Amount:
    """What a lease asks for; the same units as `burnish.Budget`."""

    metric_calls: int = 0
    lm_calls: int = 0
    requests: int = 0
    tokens: int = 0


@attrs.frozen(kw_only=True)
class Lease:
    """Ask for an allowance. The same `key` asked twice is one lease; after `ttl` seconds what was not used returns."""

    amount: Amount
    key: str
    ttl: float = 3600.0


@attrs.frozen(kw_only=True)
class Grant:
    """The allowance was given."""

    key: str


@attrs.frozen(kw_only=True)
class Exhausted:
    """The allowance was refused; `cap` names what ran out."""

    cap: str
    remaining: Amount = Amount()


@runtime_checkable
class Meter(Protocol):
    """Grants allowances from something larger than one run (a team's quota). A run's exact ledger stays in the core.

    A `Grant` names the lease's key; any other answer, and what `lease` raises, stops the run: nothing starts on it.
    `release` gives back what a lease did not use; releasing an unknown or expired key changes nothing.
    """

    async def lease(self, request: Lease) -> Grant | Exhausted: ...

    async def release(self, key: str, unused: Amount) -> None: ...


# --- sink (provisional) --------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Delivery:
    """Events in order, each with its number in the run store; after an outage a number may come again."""

    run: str
    events: tuple[tuple[int, Event], ...]


@runtime_checkable
class Sink(Protocol):
    """Takes a run's events: at least once, in order. It follows the run with a cursor, so it never slows or breaks it.

    `deliver` returns when the batch is safe; what it raises is logged, and the batch comes again later. Cancelled, it
    ends soon: a run that ends gives its sinks five seconds, and leaves behind what goes on.
    """

    async def deliver(self, batch: Delivery) -> None: ...


# --- target (provisional) ------------------------------------------------------------------------------------

Metering: TypeAlias = Literal["call", "rollout", "opaque"]
Injection: TypeAlias = Literal["ambient", "copy", "apply"]


@runtime_checkable
class Target(Protocol):
    """A program whose texts can be tuned. `run` is called inside a rollout's scope; it may run many times at once.

    `metering` says who counts the model calls: `call` (each goes through `burnish.call_model`), `rollout` (only whole
    rollouts are seen) or `opaque`. `injection` says how a candidate reaches the program: `ambient` (read at render
    time from the rollout's scope), `copy` (one instrumented copy a candidate) or `apply` (written, and always restored,
    one candidate at a time).

    Optional, each looked for by name:
    `copy() -> Target`: a target over a copy, which `optimize` tunes and gives back; without it the one that was given
    is tuned. `install(candidate)`: write a candidate into the program for good; without it a result's program is
    without the winner, and the result warns. `program`: what a result's program is; without it the target itself.
    `apply(candidate) -> undo` and `restore(undo)`: needed for `apply` injection, and only there; after `restore` the
    fingerprint must be what it was. `check(candidate)`: raise `UsageError` for a candidate that the program cannot
    take, before anything is spent. `bound()`: a context manager around each fan-out of an `ambient` or `copy` target,
    for example to have calls from outside a rollout's scope raise. `opaque`: objects that the code holds and that have
    no content identity; while there are any, nothing is cached beyond this process. `load_prediction(output)`: make a
    prediction of an output that was stored as JSON, for the metric. `tags`: texts by name that each rollout's trace
    carries in its `meta`. `roles`: those of the models that it asks by role; a run without one is refused before it
    begins.
    """

    @property
    def fingerprint(self) -> str:
        """128-bit fingerprint of code, defaults and current parameter values, as hex digits."""

    @property
    def metering(self) -> Metering: ...

    @property
    def injection(self) -> Injection: ...

    @property
    def inputs(self) -> Sequence[InputField] | None:
        """The fields a row must give, by name; None: the whole row goes in."""

    def parameters(self) -> Mapping[str, Parameter]: ...

    async def run(self, inputs: Mapping[str, Any], candidate: Candidate) -> Any: ...


@attrs.frozen(kw_only=True)
class InputField:
    """One input of a program."""

    name: str
    required: bool = True
    annotation: Any = None
    """The type that a value must have, where it is declared (a plain class); None: anything."""


@runtime_checkable
class Predictor(Protocol):
    """A leaf of a program that the mutation seam can write: `burnish.apply_candidate` (seed 000)."""

    def get_state(self) -> PredictState: ...

    def set_state(self, state: PredictState) -> None: ...


# --- executor (provisional) ----------------------------------------------------------------------------------


class Rollout(Protocol):
    """One rollout to run: what an executor gets."""

    @property
    def key(self) -> str: ...

    @property
    def example(self) -> Example: ...

    @property
    def candidate(self) -> Candidate: ...

    @property
    def sample(self) -> int: ...

    async def here(self) -> RolloutRecord:
        """Run it in this process, in this task: program, metric and span metric, each in its own scope."""


@runtime_checkable
class Executor(Protocol):
    """Runs rollouts, somewhere. The engine decides how many at once and in which order; there is no retry here.

    A failure of the program, the model or the worker comes back as a record with its status, never as an exception.
    Cancelled, `run` stops the rollout and returns within five seconds.
    """

    async def run(self, rollout: Rollout) -> RolloutRecord: ...


# --- strategy (stable) ---------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class MetricInfo:
    """What a strategy may know of the metric."""

    maximum: float | None = None
    """The best score there is, where the metric says it."""
    objectives: tuple[str, ...] = ()
    spans: bool = False
    """Whether it scores spans."""


@attrs.frozen(kw_only=True)
class Problem:
    """What a strategy is asked to solve. Columns are those of the engine's matrix: validation first, then train.

    Test rows are not here and never enter the matrix.
    """

    parameters: Mapping[str, Parameter]
    train: tuple[int, ...]
    val: tuple[int, ...]
    start: Candidate
    metric: MetricInfo
    seed: int = 0
    examples: tuple[Example, ...] = attrs.field(repr=False, default=())

    def row(self, column: int) -> JsonMap:
        """Give the data of a column, as plain JSON."""
        return dict(self.examples[column].data)

    def example(self, column: int) -> Example:
        """Give the example of a column: its data and its content identity."""
        return self.examples[column]

    def rng(self, purpose: str) -> random.Random:
        """Make the random numbers of one purpose: the same for the same seed and purpose, in every process."""
        return random.Random(f"burnish:{self.seed}:{purpose}")


@runtime_checkable
class Strategy(Protocol):
    """Searches for a better candidate. All effects go through `engine`; see "What every strategy owes" in the docs.

    `compile` decides only on what the engine told it, never on clocks or completion order. Running out of budget is a
    normal end with the best so far. `plan` says beforehand, without effects, what `compile` may ask at most.
    Optional: `replay_version: int`, raised whenever the same answers may lead to other asks.
    """

    async def compile(self, engine: Engine, problem: Problem) -> Report: ...

    def plan(self, problem: Problem) -> Plan: ...


KINDS: Mapping[str, int] = {
    "metric": 1,
    "strategy": 1,
    "cache": 1,
    "meter": 1,
    "sink": 1,
    "model": 1,
    "executor": 1,
    "target": 1,
}
"""The kinds, and the number of each one's API."""
