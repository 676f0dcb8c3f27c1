"""The metrics with names: what they compare, what they say, and how they are identified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import attrs
import pytest

from burnish import abc
from burnish._builtin.metrics import (
    Classification,
    Contains,
    ExactMatch,
    FieldMetric,
    Numeric,
    StringSimilarity,
    burnish_metrics,
)
from burnish._runtime.codeprint import code_print
from burnish.errors import ConfigError, UsageError


def score(metric: FieldMetric, label: Any, answer: Any) -> float:
    """Score an answer against a label, both under one name."""
    return metric.evaluate({"question": "?", "answer": label}, {"answer": answer}).score


@pytest.mark.parametrize(
    ("metric", "label", "answer", "expected"),
    [
        (ExactMatch(), "Paris", " paris\n", 1.0),
        (ExactMatch(), "Paris", "Lyon", 0.0),
        (ExactMatch(), "STRASSE", "straße", 1.0),
        (ExactMatch(case=True), "Paris", "paris", 0.0),
        (ExactMatch(), "4", 4, 1.0),
        (ExactMatch(), "4", 4.0, 1.0),
        (ExactMatch(), 4, "four", 0.0),
        (ExactMatch(), "true", True, 1.0),
        (ExactMatch(), 1, True, 0.0),
        (ExactMatch(), "", None, 1.0),
        (ExactMatch(), ["a", "b"], ["a", "b"], 1.0),
        (ExactMatch(), "1e2", "100", 0.0),
        (Contains(), "Paris", "It is PARIS, I think.", 1.0),
        (Contains(case=True), "Paris", "It is PARIS, I think.", 0.0),
        (Contains(), "Paris", "Lyon", 0.0),
        (Contains(), "", "anything", 0.0),
        (Contains(), "", " ", 1.0),
        (Classification(), "spam", " spam ", 1.0),
        (Classification(), "spam", "Spam", 0.0),
        (StringSimilarity(), "a b", "a b", 1.0),
        (StringSimilarity(), "A b", "a B", 0.95),
        (StringSimilarity(), "a b", "a c", 0.5),
        (Numeric(), "1,234.5", 1234.5, 1.0),
        (Numeric(), 3, "3.0", 1.0),
        (Numeric(), 3, "3.01", 0.0),
        (Numeric(tolerance=0.1), 3, "3.1", 1.0),
        (Numeric(tolerance=0.1), 3, "3.2", 0.0),
        (Numeric(), 3, "three", 0.0),
        (Numeric(), 3, float("nan"), 0.0),
        pytest.param(Numeric(), 10**400, 10**400, 1.0, id="huge"),
        pytest.param(Numeric(), 1.0, 10**400, 0.0, id="hugely-wrong"),
        (Numeric(), "12345678901234567890", 12345678901234567891, 0.0),
        (Numeric(), 1, "1e99999999999", 0.0),
        (Numeric(), 1, True, 0.0),
    ],
)
def test_score(metric: FieldMetric, label: Any, answer: Any, expected: float) -> None:
    """Each metric scores as its name says: white space never counts, case where asked, numbers by value."""
    assert expected == score(metric, label, answer)


def test_feedback_names_expected_and_got() -> None:
    """A wrong answer's text holds both sides, so that a proposer sees what went wrong."""
    for metric in (ExactMatch(), Contains(), Classification(), StringSimilarity(), Numeric()):
        text = str(metric.evaluate({"answer": "12"}, {"answer": "7"}).feedback)
        assert ("12" in text, "7" in text) == (True, True), text
    assert "no finite number" in str(Numeric().evaluate({"answer": 12}, {"answer": "many"}).feedback)


class Pair(NamedTuple):
    question: str
    answer: str


@dataclass
class Data:
    question: str
    answer: str


@attrs.frozen
class Frozen:
    question: str
    answer: str


class Plain:
    def __init__(self, question: str, answer: str) -> None:
        self.question, self._answer = question, answer

    @property
    def answer(self) -> str:
        return self._answer


@pytest.mark.parametrize(
    "row", [Pair("?", "yes"), Data("?", "yes"), Frozen("?", "yes"), ({"question": "?"}, {"answer": "yes"})]
)
def test_field_is_found_in_any_row(row: Any) -> None:
    """Mappings, objects and pairs of inputs and outputs are rows; the one common field is compared (E62)."""
    for prediction in ({"answer": "yes"}, {"reasoning": "...", "answer": "yes"}):
        assert 1.0 == ExactMatch().evaluate(row, prediction).score
    assert 1.0 == ExactMatch(field="answer").evaluate(row, "yes").score


def test_field_may_be_a_property_or_the_only_output() -> None:
    """A named field is read as an attribute too; a prediction's only field, or plain text, is the answer to it."""
    assert 1.0 == ExactMatch(field="answer").evaluate(Plain("?", "yes"), Plain("?", "yes")).score
    assert 1.0 == ExactMatch(field="label").evaluate({"label": "yes"}, {"answer": "yes"}).score
    assert 1.0 == ExactMatch(field="count").evaluate({"count": "yes"}, "yes").score
    assert 1.0 == Numeric(field="n").evaluate({"n": 4}, 4).score


@pytest.mark.parametrize(
    ("field", "row", "prediction", "message"),
    [
        (None, {"a": 1, "b": 2}, {"a": 1, "b": 2}, "`a`, `b` are in both"),
        (None, {"label": 1}, {"answer": 1}, "no field is in both .*`answer`.*`label`"),
        (None, {"label": 1}, "text", "no field is in both the prediction \\(none\\)"),
        ("gold", {"label": 1}, {"answer": 1}, "the row has no field `gold`; it has `label`"),
        ("label", {"label": 1}, {"answer": 1, "why": 2}, "the prediction has no field `label`; it has `answer`, `why`"),
        ("values", {"label": 1}, {"values": 1}, "the row has no field `values`"),
    ],
)
def test_unclear_field_is_a_usage_error(field: str | None, row: Any, prediction: Any, message: str) -> None:
    """Where it is not clear what to compare, the error lists what there is and says what to name."""
    with pytest.raises(UsageError, match=message):
        ExactMatch(field=field).evaluate(row, prediction)


def test_label_that_is_no_number_is_the_rows_fault() -> None:
    """A numeric metric over a row without a number is a mistake in the data, never a score of 0."""
    for label in ("many", None, float("inf"), True):
        with pytest.raises(UsageError, match="finite number"):
            score(Numeric(), label, 1)


@pytest.mark.parametrize("tolerance", [-1.0, float("nan"), float("inf")])
def test_impossible_tolerance_is_refused(tolerance: float) -> None:
    """A tolerance is a number from 0 on."""
    with pytest.raises(ConfigError, match="tolerance"):
        Numeric(tolerance=tolerance)


def test_identity_follows_kind_and_options() -> None:
    """Equal metrics have one fingerprint, others another one; the engine takes it for the metric's identity (E34)."""
    metrics = [ExactMatch(), ExactMatch(case=True), ExactMatch(field="a"), Contains(), Numeric(), Numeric(tolerance=1)]
    prints = [metric.fingerprint for metric in metrics]
    assert len(set(prints)) == len(prints)
    assert ExactMatch().fingerprint == prints[0]
    assert prints[0].startswith("burnish.ExactMatch/1:")
    assert len({code_print(metric).fingerprint for metric in metrics}) == len(metrics)
    assert () == code_print(ExactMatch()).opaque


async def test_metric_is_its_own_options_and_runs_inline() -> None:
    """A spec opens to its options, or to the defaults; a metric says its maximum and that it needs no thread."""
    for spec in burnish_metrics():
        assert spec.options is not None
        for options in (None, spec.options(field="answer")):
            async with spec.open(options, abc.Environment()) as metric:
                assert options or spec.options() == metric
                assert (1.0, True) == (metric.maximum, metric.__burnish_inline__)  # type: ignore[attr-defined]
                assert isinstance(metric, abc.Metric)
