"""The metrics with names: `metric.exact_match`, `contains`, `classification`, `string_similarity` and `numeric`.

Each is a frozen value, scores 0 to 1, and says why. `field` names the label's column and the output, which have one
name; left out, it is the one field that row and prediction both have. All raise `UsageError` where there is no such
field. They run in the event loop: each takes microseconds.
"""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from fractions import Fraction
from typing import Any, ClassVar

import attrs

from burnish import abc
from burnish._builtin._fields import label_and_answer
from burnish._model.canonical import fingerprint, to_json
from burnish._model.evals import Eval
from burnish._model.feedback import classification_feedback, string_similarity_feedback
from burnish._model.trace import Trace
from burnish.errors import ConfigError, UsageError
from burnish.hookspecs import hookimpl

VERSION = 1
"""Raised whenever a metric of this module may score the same answer differently."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,400}")
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?")


@attrs.frozen(kw_only=True)
class FieldMetric:
    """What the metrics of this module have in common: they compare one field."""

    __burnish_inline__: ClassVar[bool] = True
    maximum: ClassVar[float] = 1.0
    """The best score there is."""

    field: str | None = None
    """Name of the label's column and of the output; None: the one that both have."""

    @property
    def fingerprint(self) -> str:
        """Name the code's version and the options: what a stored score depends on."""
        options = fingerprint(to_json(attrs.asdict(self)))
        return f"burnish.{type(self).__name__}/{VERSION}:{options}"

    def evaluate(self, example: Any, prediction: Any, trace: Trace | None = None) -> Eval:
        """Score one prediction against its row. Raises `UsageError` where the field is missing or ambiguous."""
        label, answer = label_and_answer(example, prediction, self.field)
        return self.compare(label, answer)

    def compare(self, label: Any, answer: Any) -> Eval:
        """Score an answer against a label."""
        raise NotImplementedError


@attrs.frozen(kw_only=True)
class ExactMatch(FieldMetric):
    """1.0 where the answer is the label, white space around it aside; numbers compare as numbers."""

    case: bool = False
    """Whether upper and lower case differ."""

    def compare(self, label: Any, answer: Any) -> Eval:
        """Score an answer against a label."""
        same = _same_number(label, answer) or _text(label, self.case) == _text(answer, self.case)
        return _verdict(same, f"expected {_shown(label)}", answer)


@attrs.frozen(kw_only=True)
class Contains(FieldMetric):
    """1.0 where the answer contains the label; an empty label is contained in an empty answer only."""

    case: bool = False
    """Whether upper and lower case differ."""

    def compare(self, label: Any, answer: Any) -> Eval:
        """Score an answer against a label."""
        wanted, got = _text(label, self.case), _text(answer, self.case)
        return _verdict(wanted in got if wanted else not got, f"expected a text that contains {_shown(label)}", answer)


@attrs.frozen(kw_only=True)
class Classification(FieldMetric):
    """1.0 where the answer is the label's class, with regard to case; white space around it aside (E67)."""

    def compare(self, label: Any, answer: Any) -> Eval:
        """Score an answer against a label."""
        return classification_feedback(_text(answer, case=True), _text(label, case=True))


@attrs.frozen(kw_only=True)
class StringSimilarity(FieldMetric):
    """1.0 for the same text, 0.95 but for case, else the F1 of the words (E66)."""

    def compare(self, label: Any, answer: Any) -> Eval:
        """Score an answer against a label."""
        return string_similarity_feedback(_plain(answer), _plain(label))


def _from_zero(_: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise ConfigError(f"{attribute.name} of metric.numeric is {value!r}; it must be a number from 0 on")


@attrs.frozen(kw_only=True)
class Numeric(FieldMetric):
    """1.0 where the answer is a number within `tolerance` of the label; text that is no number scores 0.0."""

    tolerance: float = attrs.field(default=0.0, converter=float, validator=_from_zero)
    """The largest difference that counts as right."""

    def compare(self, label: Any, answer: Any) -> Eval:
        """Score an answer against a label. Raises `UsageError` where the label is no finite number."""
        wanted, got = _number(label), _number(answer)
        if wanted is None:
            raise UsageError(f"metric.numeric needs a finite number as the row's label, not {_shown(label)}")
        within = f" (within {self.tolerance:g})" if self.tolerance else ""
        expected = f"expected {_shown(label)}{within}"
        if got is None:
            return Eval(0.0, f"Incorrect: {expected}, got {_shown(answer)}, which is no finite number.")
        return _verdict(_close(wanted, got, self.tolerance), expected, answer)


def _verdict(right: bool, expected: str, answer: Any) -> Eval:
    return Eval(float(right), f"{'Correct' if right else 'Incorrect'}: {expected}, got {_shown(answer)}.")


def _plain(value: Any) -> str:
    return "" if value is None else str(value)


def _text(value: Any, case: bool) -> str:
    text = _plain(value).strip()
    return text if case else text.casefold()


def _shown(value: Any) -> str:
    return "nothing" if value is None else repr(_plain(value).strip())


def _same_number(label: Any, answer: Any) -> bool:
    """Whether one side is a number and the other says the same number: a label `4` of a table, an answer `4.0`."""
    if not any(isinstance(v, (int, float)) and not isinstance(v, bool) for v in (label, answer)):
        return False
    wanted, got = _number(label), _number(answer)
    return wanted is not None and wanted == got


def _number(value: Any) -> float | int | None:
    """Read a finite number, as it is or out of text, with or without commas between thousands."""
    if isinstance(value, str):
        text = value.strip()
        if _THOUSANDS.fullmatch(text):
            text = text.replace(",", "")
        try:
            value = int(text) if _INTEGER.fullmatch(text) else float(text)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if isinstance(value, int) or math.isfinite(value) else None


def _close(wanted: float, got: float, tolerance: float) -> bool:
    """Whether two numbers are that near, in exact decimals: 3.1 is within 0.1 of 3, whatever its binary form."""
    return abs(_exact(wanted) - _exact(got)) <= _exact(tolerance)


def _exact(number: float) -> Fraction:
    return Fraction(number if isinstance(number, int) else repr(number))


def _spec(name: str, metric: Callable[[], FieldMetric], summary: str) -> abc.Spec[abc.Metric]:
    @asynccontextmanager
    async def open_metric(options: FieldMetric | None, env: abc.Environment) -> AsyncIterator[FieldMetric]:
        yield metric() if options is None else options

    kind = metric if isinstance(metric, type) else None
    return abc.Spec(name=name, open=open_metric, options=kind, summary=summary)


@hookimpl
def burnish_metrics() -> Iterable[abc.Spec[abc.Metric]]:
    """Offer the metrics of this module; each is its own options."""
    return [
        _spec("exact_match", ExactMatch, "1 where the answer is the label"),
        _spec("contains", Contains, "1 where the answer contains the label"),
        _spec("classification", Classification, "1 where the class is right, with regard to case"),
        _spec("string_similarity", StringSimilarity, "how much of the words agree"),
        _spec("numeric", Numeric, "1 where the number is right, within a tolerance"),
    ]
