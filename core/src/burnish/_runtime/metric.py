"""Calling a metric, whatever form it has, and refusing what is no score."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import Any

import attrs

from burnish._model.evals import Eval
from burnish._model.example import Example, own
from burnish._model.trace import Trace
from burnish._runtime.blame import stops
from burnish._runtime.codeprint import CodePrint, code_print
from burnish._runtime.invoke import Invoker, is_inline
from burnish._runtime.owed import shown
from burnish.abc import MetricInfo
from burnish.errors import MetricError, UsageError, first_line


class MetricRunner:
    """One metric of one engine: a callable `(example, prediction, trace=None)` or an object with `evaluate`."""

    def __init__(self, metric: Any, invoker: Invoker) -> None:
        self.metric = metric
        evaluate = getattr(metric, "evaluate", metric)
        if not callable(evaluate):
            raise UsageError(
                f"{metric!r:.80} is no metric: pass a callable (example, prediction) or an object with "
                "`evaluate(example, prediction, trace)`"
            )
        spans = getattr(metric, "evaluate_spans", None)
        self._evaluate = invoker.bind(evaluate)
        self._spans = None if spans is None else invoker.bind(spans)
        self._takes_trace = _takes_trace(evaluate)
        self.inline = is_inline(evaluate) and (spans is None or is_inline(spans))
        """Whether it runs on the loop and waits for nothing."""
        self.code_print: CodePrint = code_print(metric)
        self.info = MetricInfo(maximum=_maximum(metric), spans=self._spans is not None)

    @property
    def fingerprint(self) -> str:
        return self.code_print.fingerprint

    async def evaluate(self, example: Example, prediction: Any, trace: Trace) -> Eval:
        """Score one rollout. Raises `MetricError` where the metric raises or returns no finite score.

        The metric gets copies of row and prediction, as far as they are plain containers (`own`), and of what the spans
        hold: what it writes into them is seen by nobody.
        """
        extra = {"trace": _copy(trace)} if self._takes_trace == "keyword" else {}
        args = (_copy(trace),) if self._takes_trace == "positional" else ()
        try:
            value = await self._evaluate(own(example.row), own(prediction), *args, **extra)
        except BaseException as error:
            stop = stops(error)
            if stop is not None:
                raise stop from None
            raise MetricError(f"the metric raised {first_line(error)}") from error
        return as_eval(value)

    async def evaluate_spans(self, example: Example, prediction: Any, trace: Trace) -> dict[int, Eval]:
        """Score the spans, where the metric does so; of an id named twice the last counts (E56)."""
        if self._spans is None:
            return {}
        try:
            given = await self._spans(own(example.row), own(prediction), _copy(trace))
            pairs = dict(given.items() if isinstance(given, Mapping) else given)
        except BaseException as error:
            stop = stops(error)
            if stop is not None:
                raise stop from None
            raise MetricError(
                f"the metric's evaluate_spans raised {first_line(error)}; it returns (span id, Eval) pairs"
            ) from error
        return {span_id: as_eval(value) for span_id, value in pairs.items()}


def _maximum(metric: Any) -> float | None:
    """Read the best score that a metric names. Raises `UsageError` for what no score can be compared with."""
    maximum = getattr(metric, "maximum", None)
    if maximum is None or (isinstance(maximum, (int, float)) and -math.inf < maximum < math.inf):
        return maximum
    raise UsageError(
        f"the metric's `maximum` is {shown(maximum)}; it is a finite number, the best score there is: leave it out "
        "where there is none"
    )


def _copy(trace: Trace) -> Trace:
    """Copy a trace as far as it can be written into."""
    spans = [attrs.evolve(span, inputs=own(span.inputs), output=own(span.output)) for span in trace.spans]
    return attrs.evolve(trace, spans=tuple(spans))


def as_eval(value: Any) -> Eval:
    """Read what a metric returned: an `Eval`, a number, a bool, or `(score, feedback)`. Raises `MetricError`."""
    if isinstance(value, Eval):
        if not isinstance(value.feedback, (str, type(None))):
            raise MetricError(f"the metric's feedback is {type(value.feedback).__name__}; it is a text or None")
        return value
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise MetricError("the metric returned a coroutine that nobody awaited; write `return await ...`")
    if value is None:
        raise MetricError("the metric returned None; is a `return` missing?")
    score, feedback = value if isinstance(value, tuple) and len(value) == 2 else (value, None)
    if not isinstance(score, (bool, int, float)) or not isinstance(feedback, (str, type(None))):
        raise MetricError(
            f"the metric returned {type(value).__name__} {shown(value)}; return a number, a bool, (score, feedback) "
            "or burnish.Eval"
        )
    try:
        return Eval(score, feedback)
    except UsageError as error:
        raise MetricError(f"the metric returned {shown(value)}: {error}") from None


def _takes_trace(function: Any) -> str | None:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return "positional"
    by_name = {p.name: p for p in parameters}
    if "trace" in by_name:
        return "keyword" if by_name["trace"].kind is not inspect.Parameter.POSITIONAL_ONLY else "positional"
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return "positional"
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return "positional" if len(positional) > 2 else None
