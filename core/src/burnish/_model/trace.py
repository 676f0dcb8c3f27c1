"""What happened inside one rollout: spans, one a predictor call (seed 002; E68-E77)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias
from urllib.parse import urlsplit

import attrs
import xxhash

from burnish._model.canonical import Json, canonical_bytes
from burnish._model.evals import Eval
from burnish._model.lm import Message, Turns, Usage, turns_bytes
from burnish._model.names import names_secret
from burnish.errors import UsageError

TRACE_VERSION = 1

_URL = re.compile(r"https?://", re.IGNORECASE)

SpanErrorKind = Literal["lm", "parse", "tool", "cancelled", "program"]


@attrs.frozen(kw_only=True)
class SpanError:
    """Why a span has no output."""

    kind: SpanErrorKind
    message: str


@attrs.frozen(kw_only=True)
class Exchange:
    """One round trip to the provider."""

    text: str
    usage: Usage = Usage()
    finish_reason: str = "stop"
    model: str = ""
    """The id of the model that answered."""


@attrs.frozen(kw_only=True)
class ToolRun:
    """One tool call inside a span."""

    id: str
    name: str
    arguments: Json = None
    result: str = ""
    error: str | None = None
    duration_us: int = 0


SpanEvent: TypeAlias = Exchange | ToolRun


@attrs.frozen(kw_only=True)
class Span:
    """One predictor call."""

    id: int
    """Dense, in order of start."""
    component: str
    seq: int
    """How many calls of this component began before."""
    parent: int | None = None
    inputs: Mapping[str, Json] = attrs.field(factory=dict)
    output: Mapping[str, Json] | None = None
    prefix: int | None = None
    """Index into the trace's `prefixes`: instruction and demos."""
    suffix: tuple[Message, ...] = ()
    """The turns of this very call."""
    model: int | None = None
    """Index into the trace's `models`."""
    request_hash: str | None = None
    events: tuple[SpanEvent, ...] = ()
    raw_output: str | None = None
    """The reply as it came, also when it could not be parsed."""
    usage: Usage = Usage()
    error: SpanError | None = None
    eval: Eval | None = None
    """What the metric said of this span alone (`evaluate_spans`)."""
    started_us: int = 0
    """Microseconds since the rollout began."""
    duration_us: int = 0
    complete: bool = True
    """False where a text was cut by a size limit."""


def _readable(_: Any, __: attrs.Attribute[int], version: int) -> None:
    if version > TRACE_VERSION:
        raise UsageError(f"a trace of version {version} cannot be read: this burnish knows {TRACE_VERSION}; update it")


@attrs.frozen(kw_only=True)
class TraceMeta:
    """Which rollout this is."""

    trace_id: str = ""
    started_at_us: int = 0
    """When the rollout began, in microseconds since the epoch; 0 where it was not noted."""
    candidate_hash: int | None = None
    inputs: Mapping[str, Json] = attrs.field(factory=dict)
    tags: Mapping[str, str] = attrs.field(factory=dict)
    version: int = attrs.field(default=TRACE_VERSION, validator=_readable)


@attrs.frozen(kw_only=True)
class TraceOutcome:
    """How the rollout ended."""

    output: Json = None
    error: str | None = None
    eval: Eval | None = None
    duration_us: int = 0


class HasParameters(Protocol):
    """A program that names its parameters by path: `{"drafter": ("drafter.instruction", "drafter.demos")}`."""

    @property
    def param_ids(self) -> Mapping[str, Sequence[str]]: ...


@attrs.frozen(kw_only=True)
class Trace:
    """The spans of one rollout, with prompts' common beginnings and model settings stored once."""

    meta: TraceMeta = TraceMeta()
    spans: tuple[Span, ...] = ()
    prefixes: tuple[tuple[Message, ...], ...] = ()
    models: tuple[Mapping[str, Json], ...] = ()
    """Identities of the models, without credentials."""
    outcome: TraceOutcome | None = None
    param_ids: Mapping[str, tuple[str, ...] | None] | None = None
    """The parameters of each component by path, None for one that the program does not have; None until attached."""

    @property
    def components(self) -> tuple[str, ...]:
        """Names of the components, in order of first use."""
        return tuple(dict.fromkeys(s.component for s in self.spans))

    def for_component(self, name: str) -> list[Span]:
        """Give the spans of a component in order; none for an unknown name."""
        return [s for s in self.spans if s.component == name]

    def successes(self) -> list[Span]:
        """Give the spans that have an output."""
        return [s for s in self.spans if s.output is not None]

    def prompt(self, span: Span) -> tuple[Message, ...]:
        """Give all turns of a span's request."""
        head = () if span.prefix is None else self.prefixes[span.prefix]
        return head + span.suffix

    def model_of(self, span: Span) -> Mapping[str, Json] | None:
        """Give the identity of the model that a span called."""
        return None if span.model is None else self.models[span.model]

    def with_span_evals(self, evals: Mapping[int, Eval]) -> Trace:
        """Stamp evals onto their spans; ids that are not in the trace are passed over (E56)."""
        if not evals:
            return self
        spans = tuple(attrs.evolve(s, eval=evals[s.id]) if s.id in evals else s for s in self.spans)
        return attrs.evolve(self, spans=spans)

    def ended(self, outcome: TraceOutcome) -> Trace:
        """Give the same with how the rollout ended: by hand, since it is done for every rollout."""
        return Trace(
            meta=self.meta,
            spans=self.spans,
            prefixes=self.prefixes,
            models=self.models,
            outcome=outcome,
            param_ids=self.param_ids,
        )

    def attach_program(self, program: HasParameters) -> Trace:
        """Give the trace with the paths of each component's parameters, as the program names them."""
        known = program.param_ids
        return attrs.evolve(self, param_ids={c: tuple(known[c]) if c in known else None for c in self.components})


def request_hash(
    model: Mapping[str, Json] | bytes, prefix: tuple[Message, ...], suffix: tuple[Message, ...] = ()
) -> str:
    """Fingerprint a request: the model's identity and all turns, wherever they are cut (E76).

    The identity may come as its canonical bytes. The turns come first, so that `Turns` are read once.
    """
    digest = prefix.digest.copy() if isinstance(prefix, Turns) else xxhash.xxh3_128(turns_bytes(prefix))
    digest.update(turns_bytes(suffix))
    digest.update(model if isinstance(model, bytes) else canonical_bytes(dict(model)))
    return digest.hexdigest()


def public_identity(identity: Mapping[str, Json]) -> dict[str, Json]:
    """Give a model's identity as traces show it: no text under a secret's name, URLs cut after the port (E75).

    An `identity` is to hold no credential anyhow; but traces are handed on, and this does not rest on each model.
    """
    return {name: _public(value) for name, value in identity.items() if not _is_secret(name, value)}


def _public(value: Json) -> Json:
    if isinstance(value, str):
        return _place(value) if _URL.match(value) else value
    if isinstance(value, Mapping):
        return public_identity(value)
    return [_public(item) for item in value] if isinstance(value, (list, tuple)) else value


def _is_secret(name: str, value: Json) -> bool:
    return not isinstance(value, (int, float, type(None))) and names_secret(name)


def _place(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.partition("://")[0] + "://"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
