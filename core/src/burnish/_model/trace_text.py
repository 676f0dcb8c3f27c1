"""Traces as lines of JSON, for files, sinks and fixtures of tests (seed 002; E77).

    {"h": {"v": 1, ...}, "components": ["drafter"], "models": [{...}], "prefixes": [[{"role": ..., "content": ...}]]}
    {"id": 0, "component": 0, "seq": 0, ...}            one line a span; components, models and prefixes by index
    {"f": {"output": ..., "eval": ...}}                 how it ended, where that is known

Any number of traces may stand one after the other. Long texts are cut, so that a line stays one that tools can take.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from burnish._model import codec
from burnish._model.canonical import Json, fingerprint
from burnish._model.lm import Message
from burnish._model.trace import TRACE_VERSION, Span, Trace, TraceMeta, TraceOutcome
from burnish.errors import StoreError, UsageError

TEXT_LIMIT = 64 << 10
"""Bytes of UTF-8 that a text may have."""
TOOL_LIMIT = 16 << 10
"""The same for what goes to tools and comes from them."""
HIDDEN = "[redacted]"

_ROOM = 128  # for the mark that ends a cut text


class Shears:
    """Cuts long texts and hides secrets in JSON values; `used` says whether it changed anything."""

    def __init__(self, hide: Iterable[str] = ()) -> None:
        self.hide = sorted({secret for secret in hide if secret}, key=lambda secret: (-len(secret), secret))
        self.used = False

    def json(self, value: Json, limit: int = TEXT_LIMIT) -> Json:
        """Give a value with each of its texts within the limit. What it gives, it leaves as it is."""
        if isinstance(value, str):
            return self._text(value, limit)
        if isinstance(value, Mapping):
            return {key: self.json(below, limit) for key, below in value.items()}
        return [self.json(below, limit) for below in value] if isinstance(value, (list, tuple)) else value

    def _text(self, text: str, limit: int) -> str:
        for secret in self.hide:
            if secret in text:
                text, self.used = text.replace(secret, HIDDEN), True
        if 4 * len(text) <= limit:
            return text
        raw = text.encode("utf-8", "surrogatepass")
        if len(raw) <= limit:
            return text
        self.used = True
        head = raw[: limit - _ROOM].decode("utf-8", "ignore")
        return f"{head}\n[cut here: {len(raw)} bytes in all, xxh3 {fingerprint(text)}]"


def dumps(traces: Trace | Iterable[Trace], *, hide: Iterable[str] = ()) -> str:
    """Write one or more traces as lines of JSON.

    `hide` are secrets (API keys that a prompt or a reply may repeat): each becomes `[redacted]` wherever it stands. A
    span that lost some of its texts by that or by their length has `complete` false, and is not replayed. Raises
    `UsageError` for a secret that is no text.
    """
    secrets = _secrets(hide)
    return "".join(f"{codec.json_line(line)}\n" for t in _listed(traces) for line in lines(t, secrets))


def _secrets(hide: Iterable[str]) -> tuple[str, ...]:
    if isinstance(hide, str):
        raise UsageError("`hide` is a list of secrets; write one alone as `hide=[secret]`")
    secrets = tuple(hide)
    for secret in secrets:
        if not isinstance(secret, str):  # without its value: it is a secret
            raise UsageError(f"each secret in `hide` is a text, not of the type {type(secret).__name__}")
    return secrets


def _listed(traces: Trace | Iterable[Trace]) -> Iterable[Trace]:
    return (traces,) if isinstance(traces, Trace) else traces


def lines(trace: Trace, hide: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Give a trace's lines as JSON values: header, spans and, where it is known, how it ended."""
    shears = Shears(hide)
    components = list(trace.components)
    meta = {"v": TRACE_VERSION, **codec.unstructure(trace.meta)}
    meta["v"] = meta.pop("version")
    header: dict[str, Any] = {"h": shears.json(meta), "components": components}
    if trace.param_ids is not None:
        ids = trace.param_ids
        header["param_ids"] = [None if ids.get(c) is None else list(ids[c] or ()) for c in components]
    header["models"] = [shears.json(dict(model)) for model in trace.models]
    prefixes = [_shorn(codec.unstructure(p, tuple[Message, ...]), hide) for p in trace.prefixes]
    header["prefixes"] = [prefix for prefix, _ in prefixes]
    spans = [_span_line(span, components, hide, [cut for _, cut in prefixes]) for span in trace.spans]
    footer = [] if trace.outcome is None else [{"f": shears.json(codec.unstructure(trace.outcome))}]
    return [header, *spans, *footer]


def _shorn(value: Json, hide: Sequence[str], limit: int = TEXT_LIMIT) -> tuple[Any, bool]:
    shears = Shears(hide)
    return shears.json(value, limit), shears.used


def _span_line(span: Span, components: list[str], hide: Sequence[str], cut: list[bool]) -> dict[str, Any]:
    plain = codec.unstructure(span)
    events = [_shorn(e, hide, TOOL_LIMIT if e["type"] == "ToolRun" else TEXT_LIMIT) for e in plain.pop("events", ())]
    line, changed = _shorn(plain, hide)
    line["component"] = components.index(span.component)
    if events:
        line["events"] = [event for event, _ in events]
    if changed or any(shorter for _, shorter in events) or (span.prefix is not None and cut[span.prefix]):
        line["complete"] = False
    return dict(line)


def loads(text: str | bytes) -> Trace:
    """Read the one trace of a text. Raises `StoreError` where it holds none or several, and as `loads_all` does."""
    found = loads_all(text)
    if len(found) != 1:
        raise StoreError(f"the text holds {len(found)} traces, not one: `loads_all` reads any number")
    return found[0]


def loads_all(text: str | bytes) -> list[Trace]:
    """Read all traces of a text, in order; fields and events that this version does not know are passed over.

    Raises `StoreError`, with the line's number, for what is damaged or of a newer version.
    """
    found: list[_Reading] = []
    try:
        written = text.decode() if isinstance(text, bytes) else text
    except UnicodeDecodeError as error:
        raise StoreError(f"the text is not UTF-8: byte {error.start} cannot be read") from None
    for number, line in enumerate(written.split("\n"), 1):
        if line.strip():
            try:
                _take(json.loads(line), found)
            except (ValueError, TypeError, LookupError, AttributeError, RecursionError, StoreError) as error:
                raise StoreError(f"line {number} is no line of a trace that can be read: {error}") from error
    return [reading.trace() for reading in found]


@attrs.define(kw_only=True)
class _Reading:
    """A trace as far as its lines were read."""

    meta: TraceMeta
    components: list[str]
    param_ids: dict[str, tuple[str, ...] | None] | None
    models: tuple[Mapping[str, Json], ...]
    prefixes: tuple[tuple[Message, ...], ...]
    spans: list[Span] = attrs.field(factory=list)
    outcome: TraceOutcome | None = None

    def trace(self) -> Trace:
        """Give the trace of what was read."""
        return Trace(
            meta=self.meta,
            spans=tuple(self.spans),
            prefixes=self.prefixes,
            models=self.models,
            outcome=self.outcome,
            param_ids=self.param_ids,
        )


def _take(line: dict[str, Any], found: list[_Reading]) -> None:
    if "h" in line:
        found.append(_header(line))
    elif not found:
        raise StoreError("a trace begins with a header, a line with `h`")
    elif "f" in line:
        found[-1].outcome = codec.structure(line["f"], TraceOutcome)
    else:
        found[-1].spans.append(_span(line, found[-1]))


def _header(line: dict[str, Any]) -> _Reading:
    head = dict(line["h"])
    version = head.pop("v")
    if version > TRACE_VERSION:
        raise StoreError(f"the trace has version {version}, this burnish reads up to {TRACE_VERSION}: update burnish")
    components, ids = [str(name) for name in line["components"]], line.get("param_ids")
    if ids is not None:
        ids = {c: None if own is None else tuple(own) for c, own in zip(components, ids, strict=True)}
    return _Reading(
        meta=codec.structure({**head, "version": version}, TraceMeta),
        components=components,
        param_ids=ids,
        models=tuple(dict(model) for model in line["models"]),
        prefixes=tuple(codec.structure(prefix, tuple[Message, ...]) for prefix in line["prefixes"]),
    )


def _span(line: dict[str, Any], reading: _Reading) -> Span:
    span = codec.structure({**line, "component": reading.components[line["component"]]}, Span)
    for index, known in ((span.prefix, reading.prefixes), (span.model, reading.models)):
        if index is not None and not 0 <= index < len(known):
            raise StoreError(f"span {span.id} refers to number {index} of {len(known)} in the header")
    return span
