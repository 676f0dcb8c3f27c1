"""The feedback helpers say what the seed page says (E63-E67)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish import errors
from burnish._model.evals import Eval
from burnish._model.feedback import (
    Failure,
    Stage,
    StageResult,
    Success,
    classification_feedback,
    code_pipeline_feedback,
    multi_objective_feedback,
    retrieval_feedback,
    string_similarity_feedback,
)


def test_retrieval_lists_hits_and_misses_in_input_order() -> None:
    """F1 over precision and recall, and what was found, missed and wrong in the order of the input (E63)."""
    got = retrieval_feedback(["z", "b", "x", "a"], ["a", "c", "b", "d"], context_docs=list("abcdxyz"))
    expected = "\n".join(
        (
            "Retrieved 2/4 correct documents (Precision: 0.500, Recall: 0.500, F1: 0.500)",
            "Correctly retrieved: b, a",
            "Missed: c, d",
            "Incorrectly retrieved: z, x",
            "Total available documents: 7",
        )
    )
    assert Eval(0.5, expected) == got


def test_retrieval_counts_repetitions_and_empty_lists() -> None:
    """Repeated documents lower precision; nothing retrieved is precision 0, nothing expected recall 1 (E63)."""
    twice = retrieval_feedback(["a", "a"], ["a"])
    assert Eval(2 / 3, _retrieved("1/1", 0.5, 1.0, 2 / 3) + "\nCorrectly retrieved: a") == twice
    assert Eval(0.0, _retrieved("0/0", 0.0, 1.0, 0.0)) == retrieval_feedback([], [])
    assert Eval(0.0, _retrieved("0/1", 0.0, 0.0, 0.0) + "\nMissed: a") == retrieval_feedback([], ["a"])
    wrong = _retrieved("0/0", 0.0, 1.0, 0.0) + "\nIncorrectly retrieved: a\nTotal available documents: 0"
    assert Eval(0.0, wrong) == retrieval_feedback(["a"], [], context_docs=[])


def _retrieved(counts: str, precision: float, recall: float, f1: float) -> str:
    numbers = f"(Precision: {precision:.3f}, Recall: {recall:.3f}, F1: {f1:.3f})"
    return f"Retrieved {counts} correct documents {numbers}"


def test_code_pipeline_stops_at_the_first_failure() -> None:
    """A line a stage, and the first failure ends the report; the score is the caller's (E64)."""
    stages: list[tuple[Stage | str, StageResult]] = [
        (Stage.PARSE, Success()),
        ("Compile", Failure("missing ;")),
        (Stage.TEST, Success()),
    ]
    text = "Parse: Success\nCompile: missing ;\nFailed at stage: Compile"
    assert Eval(0.3, text) == code_pipeline_feedback(stages, 0.3)
    every = [(stage, Success()) for stage in Stage]
    text = "Parse: Success\nCompile: Success\nExecute: Success\nTest: Success"
    assert Eval(1.0, text) == code_pipeline_feedback(every, 1.0)
    with pytest.raises(errors.UsageError, match="Parse, Compile, Execute, Test"):
        code_pipeline_feedback([("Link", Success())], 0.0)


def test_multi_objective_is_a_weighted_mean_by_name() -> None:
    """Objectives stand sorted by name, a weight not given is 1, and weights that add up to 0 score 0 (E65)."""
    objectives = {"speed": (0.5, "slow"), "accuracy": (1.0, "right")}
    got = multi_objective_feedback(objectives, {"accuracy": 3.0})
    text = "[accuracy] Score: 1.000 - right\n[speed] Score: 0.500 - slow\nOverall: 0.875 (weighted average)"
    assert Eval(0.875, text, {"accuracy": 1.0, "speed": 0.5}) == got
    assert 0.75 == multi_objective_feedback(objectives).score
    assert 0.0 == multi_objective_feedback(objectives, {"accuracy": 0.0, "speed": 0.0}).score
    assert Eval(0.0, "Overall: 0.000 (weighted average)") == multi_objective_feedback({})


def test_string_similarity_has_three_steps() -> None:
    """Equal once trimmed; equal but for case, untrimmed; else the F1 of the words with what differs, in order (E66)."""
    assert Eval(1.0, "Exact match") == string_similarity_feedback(" Paris\n", "Paris")
    close = "Match ignoring case (minor formatting difference)"
    assert Eval(0.95, close) == string_similarity_feedback("PARIS", "Paris")
    assert 1.0 == string_similarity_feedback("PARIS ", "Paris").score
    assert close != string_similarity_feedback("PARIS ", "Paris").feedback
    got = string_similarity_feedback("the Quick red dog dog", "The quick brown fox")
    lines = (
        "Expected: The quick brown fox",
        "Predicted: the Quick red dog dog",
        "Missing words: brown, fox",
        "Extra words: red, dog",
    )
    assert Eval(0.5, "\n".join(lines)) == got


def test_string_similarity_of_nothing() -> None:
    """Where nothing is expected recall is 1, and precision decides; where nothing is predicted the score is 0 (E66)."""
    assert 1.0 == string_similarity_feedback("", " ").score
    assert Eval(0.0, "Expected: \nPredicted: a\nExtra words: a") == string_similarity_feedback("a", "")
    assert Eval(0.0, "Expected: a\nPredicted: \nMissing words: a") == string_similarity_feedback("", "a")


def test_classification_names_both_classes() -> None:
    """Right or wrong with regard to case, both classes named, the confidence if there is one (E67)."""
    right, wrong = classification_feedback("spam", "spam", 0.9), classification_feedback("Spam", "spam")
    assert (1.0, 0.0) == (right.score, wrong.score)
    assert ["Correct class: predicted spam, expected spam", "Confidence: 0.900"] == str(right.feedback).splitlines()
    assert ["Wrong class: predicted Spam, expected spam"] == str(wrong.feedback).splitlines()


@settings(max_examples=40)
@given(st.lists(st.text(max_size=4), max_size=6), st.lists(st.text(max_size=4), max_size=6))
def test_scores_stay_between_nothing_and_all(retrieved: list[str], expected: list[str]) -> None:
    """Whatever comes in, retrieval and similarity score 0 to 1, and an equal pair is never worse than another."""
    texts = " ".join(retrieved), " ".join(expected)
    for score in (retrieval_feedback(retrieved, expected).score, string_similarity_feedback(*texts).score):
        assert math.isfinite(score)
        assert 0.0 <= score <= 1.0
    assert 1.0 == string_similarity_feedback(texts[0], texts[0]).score
