"""Helpers for metrics that say why: each gives an `Eval` whose text a proposer can act on (seed 002; E63-E67).

All are pure, and what they list stands in the order of what they were given.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import attrs

from burnish._model.evals import Eval
from burnish.errors import UsageError


class Stage(enum.Enum):
    """A step of a pipeline that turns text into running code."""

    PARSE = "Parse"
    COMPILE = "Compile"
    EXECUTE = "Execute"
    TEST = "Test"


@attrs.frozen
class Success:
    """The stage passed."""


@attrs.frozen
class Failure:
    """The stage failed."""

    error: str


StageResult: TypeAlias = Success | Failure


def retrieval_feedback(
    retrieved: Sequence[str], expected: Sequence[str], context_docs: Sequence[str] | None = None
) -> Eval:
    """Score retrieved documents against the expected ones by F1, and list hits and misses (E63).

    Precision is over the list as it was retrieved, duplicates included, and 0 for none; recall is over the distinct
    expected documents, and 1 where none is expected. `context_docs` are all there are to find.
    """
    found, wanted = list(dict.fromkeys(retrieved)), list(dict.fromkeys(expected))
    correct = [doc for doc in found if doc in set(wanted)]
    missed = [doc for doc in wanted if doc not in set(found)]
    wrong = [doc for doc in found if doc not in set(wanted)]
    precision = len(correct) / len(retrieved) if retrieved else 0.0
    recall = len(correct) / len(wanted) if wanted else 1.0
    score = _f1(precision, recall)
    lines = [
        f"Retrieved {len(correct)}/{len(wanted)} correct documents "
        f"(Precision: {precision:.3f}, Recall: {recall:.3f}, F1: {score:.3f})"
    ]
    for title, docs in (("Correctly retrieved", correct), ("Missed", missed), ("Incorrectly retrieved", wrong)):
        if docs:
            lines.append(f"{title}: {', '.join(docs)}")
    if context_docs is not None:
        lines.append(f"Total available documents: {len(context_docs)}")
    return Eval(score, "\n".join(lines))


def code_pipeline_feedback(stages: Iterable[tuple[Stage | str, StageResult]], final_score: float) -> Eval:
    """Report how far a piece of code got: a line a stage, up to the first that failed (E64).

    The score is the caller's. Raises `UsageError` for an unknown stage.
    """
    lines = []
    for stage, result in stages:
        name = _stage(stage).value
        if isinstance(result, Failure):
            lines += [f"{name}: {result.error}", f"Failed at stage: {name}"]
            break
        lines.append(f"{name}: Success")
    return Eval(final_score, "\n".join(lines))


def multi_objective_feedback(
    objectives: Mapping[str, tuple[float, str]], weights: Mapping[str, float] | None = None
) -> Eval:
    """Join the scores and texts of several objectives into their weighted mean (E65).

    A weight that is not given is 1; weights that add up to 0 give the score 0. The eval carries each objective's score
    under its name.
    """
    weights = weights or {}
    lines, total, weighted = [], 0.0, 0.0
    for name in sorted(objectives):
        score, text = objectives[name]
        weight = weights.get(name, 1.0)
        total += weight
        weighted += weight * score
        lines.append(f"[{name}] Score: {score:.3f} - {text}")
    overall = weighted / total if total else 0.0
    lines.append(f"Overall: {overall:.3f} (weighted average)")
    return Eval(overall, "\n".join(lines), {name: objectives[name][0] for name in sorted(objectives)})


def string_similarity_feedback(predicted: str, expected: str) -> Eval:
    """Compare two texts: equal, equal but for case, or by the F1 of their words (E66).

    Equal once trimmed is 1.0; equal once lowercased, but not trimmed, is 0.95; else the sets of lowercased words are
    compared, and where none is expected recall is 1.
    """
    if predicted.strip() == expected.strip():
        return Eval(1.0, "Exact match")
    if predicted.lower() == expected.lower():
        return Eval(0.95, "Match ignoring case (minor formatting difference)")
    got, wanted = _words(predicted), _words(expected)
    common = len(got.keys() & wanted.keys())
    precision = common / len(got) if got else 0.0
    recall = common / len(wanted) if wanted else 1.0
    lines = [f"Expected: {expected}", f"Predicted: {predicted}"]
    for title, words in (("Missing words", wanted.keys() - got.keys()), ("Extra words", got.keys() - wanted.keys())):
        if words:
            lines.append(f"{title}: {', '.join(w for w in (*wanted, *got) if w in words)}")
    return Eval(_f1(precision, recall), "\n".join(lines))


def classification_feedback(predicted: str, expected: str, confidence: float | None = None) -> Eval:
    """Score a class as right (1.0) or wrong (0.0), with regard to case, and name both classes (E67)."""
    if predicted == expected:
        lines = [f"Correct class: predicted {predicted}, expected {expected}"]
    else:
        lines = [f"Wrong class: predicted {predicted}, expected {expected}"]
    if confidence is not None:
        lines.append(f"Confidence: {confidence:.3f}")
    return Eval(float(predicted == expected), "\n".join(lines))


def _stage(stage: Stage | str) -> Stage:
    try:
        return Stage(stage)
    except ValueError:
        known = ", ".join(s.value for s in Stage)
        raise UsageError(f"{stage!r} is no stage of a code pipeline; the stages are {known}") from None


def _f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _words(text: str) -> dict[str, None]:
    """Give the distinct lowercased words, in order: a dict is a set that keeps order."""
    return dict.fromkeys(text.lower().split())
