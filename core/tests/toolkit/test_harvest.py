"""Harvesting demos: scenario 34 and what its rules say of every other case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from burnish import Demo, Eval, FieldInfo, Parameter, RolloutOutcome, RolloutStatus, Span, Trace, toolkit
from burnish._model.example import make_examples
from burnish._model.trace import SpanError

ROWS = [{"q": f"q{i}"} for i in range(8)]
EXAMPLES = make_examples(ROWS)
DRAFT = Parameter(name="draft", inputs=(FieldInfo(name="q"),), outputs=(FieldInfo(name="draft"),))
REFINE = Parameter(name="refine", inputs=(FieldInfo(name="draft"),), outputs=(FieldInfo(name="draft"),))
PARAMETERS = {"draft": DRAFT, "refine": REFINE}


def span(number: int, component: str, inputs: Mapping[str, Any], output: Mapping[str, Any] | None, **more: Any) -> Span:
    return Span(id=number, component=component, seq=0, inputs=inputs, output=output, **more)


def rollout(column: int, score: float | None, *spans: Span, **more: Any) -> RolloutOutcome:
    return RolloutOutcome(
        example=column, eval=None if score is None else Eval(score), trace=Trace(spans=spans), **more
    )


def draft(column: int, score: float | None, text: str = "d", *, span_score: float | None = None) -> RolloutOutcome:
    judged = None if span_score is None else Eval(span_score)
    return rollout(column, score, span(0, "draft", {"q": f"q{column}"}, {"draft": text}, eval=judged))


def questions(demos: Mapping[str, tuple[Demo, ...]]) -> list[Any]:
    return [demo["q"] for demo in demos.get("draft", ())]


def test_a_rollout_below_the_bar_gives_no_demo() -> None:
    """Scores 1.0 and 0.0 with a bar of 1.0: only the first is a demo, and it knows its row (scenario 34)."""
    demos = toolkit.harvest([draft(1, 1.0), draft(2, 0.0)], EXAMPLES, PARAMETERS, min_score=1.0)
    assert {"draft": (Demo({"q": "q1", "draft": "d"}, source=EXAMPLES[1].fingerprint),)} == demos


def test_a_spans_own_eval_decides_before_the_rollouts_score() -> None:
    """A draft judged 0.0 in a 1.0 rollout is dropped, one judged 1.0 in a 0.0 rollout is kept (scenario 34)."""
    rollouts = [draft(1, 1.0, span_score=0.0), draft(2, 0.0, span_score=1.0)]
    assert ["q2"] == questions(toolkit.harvest(rollouts, EXAMPLES, PARAMETERS, min_score=1.0))


def test_with_one_slot_a_better_span_beats_an_earlier_rollout() -> None:
    """A span of 0.9 comes before a rollout of 0.5 that ran first (scenario 34); in order of acceptance it does not."""
    rollouts = [draft(1, 0.5), draft(2, 0.0, span_score=0.9)]
    best = toolkit.harvest(rollouts, EXAMPLES, PARAMETERS, min_score=0.5, limit=1)
    first = toolkit.harvest(rollouts, EXAMPLES, PARAMETERS, min_score=0.5, limit=1, order="first")
    assert (["q2"], ["q1"]) == (questions(best), questions(first))


def test_equal_scores_stay_in_the_order_of_the_rollouts() -> None:
    """The sort is stable, so that the same rollouts give the same demos."""
    rollouts = [draft(column, score) for column, score in ((3, 0.5), (1, 1.0), (4, 0.5), (2, 1.0))]
    assert ["q1", "q2", "q3", "q4"] == questions(toolkit.harvest(rollouts, EXAMPLES, PARAMETERS, min_score=0.0))


def test_equal_inputs_give_one_demo_the_best() -> None:
    """Dedup runs over the input fields, whatever their order, after sorting."""
    first = span(0, "draft", {"q": "same", "hint": 1}, {"draft": "worse"})
    again = span(0, "draft", {"hint": 1, "q": "same"}, {"draft": "better"})
    other = span(0, "draft", {"q": "same", "hint": 1.0}, {"draft": "another hint"})
    rollouts = [rollout(0, 0.5, first), rollout(1, 0.9, again), rollout(2, 0.5, other)]
    demos = toolkit.harvest(rollouts, EXAMPLES, PARAMETERS, min_score=0.5)["draft"]
    assert ["better", "another hint"] == [demo["draft"] for demo in demos]


def test_a_field_on_both_sides_keeps_both_values() -> None:
    """`draft -> draft`: the row holds the output, `shadowed` the input, which the seed's flat row lost."""
    refined = rollout(5, 1.0, span(0, "refine", {"draft": "raw"}, {"draft": "fine"}))
    (demo,) = toolkit.harvest([refined], EXAMPLES, PARAMETERS, min_score=1.0)["refine"]
    assert ("fine", "raw") == (demo["draft"], demo.input_value("draft"))


def test_every_span_of_a_predictor_counts_unless_one_a_rollout_is_asked_for() -> None:
    """Then the best span stays, the latest of equals: the one that led to the result."""
    calls = [span(i, "draft", {"q": f"try {i}"}, {"draft": "d"}, eval=Eval(s)) for i, s in enumerate((0.9, 1.0, 1.0))]
    once = [rollout(0, 1.0, *calls)]
    every = toolkit.harvest(once, EXAMPLES, PARAMETERS, min_score=0.5, order="first")
    one = toolkit.harvest(once, EXAMPLES, PARAMETERS, min_score=0.5, one_per_rollout=True)
    assert (["try 0", "try 1", "try 2"], ["try 2"]) == (questions(every), questions(one))


@pytest.mark.parametrize(
    "useless",
    [
        RolloutOutcome(example=0, eval=Eval(1.0)),
        rollout(0, None, span(0, "draft", {"q": "q0"}, {"draft": "d"})),
        rollout(0, 1.0, span(0, "draft", {"q": "q0"}, None, error=SpanError(kind="parse", message="no"))),
        rollout(0, 1.0, span(0, "draft", {"q": "q0"}, {"draft": "cut at the lim"}, complete=False)),
        rollout(0, 1.0, span(0, "helper", {"q": "q0"}, {"draft": "d"})),
        rollout(0, 1.0, span(0, "prompt", {"q": "q0"}, {"draft": "d"})),
        rollout(0, 1.0, span(0, "draft", {"q": "q0"}, {"draft": "d"}), status=RolloutStatus.AGENT_FAILED),
    ],
    ids=["no trace", "unscored", "unparsed", "cut", "no parameter", "takes no demos", "failed"],
)
def test_what_is_no_evidence_gives_no_demo(useless: RolloutOutcome) -> None:
    """Also a failed rollout whose failure score reaches the bar, and a component that no candidate could change."""
    parameters = {**PARAMETERS, "prompt": Parameter(name="prompt", kind="text")}
    assert {} == toolkit.harvest([useless], EXAMPLES, parameters, min_score=0.0)


@pytest.mark.parametrize(
    ("score", "threshold", "maximum", "expected"),
    [
        (1.0, None, None, True),
        (0.99, None, None, False),
        (0.0, None, None, False),
        (0.7, 0.7, None, True),
        (0.6, 0.7, 0.5, False),
        (5.0, None, 10.0, False),
        (10.0, None, 10.0, True),
        (0.0, 0.0, None, True),
        (0.0, None, 0.0, True),
    ],
)
def test_success_is_a_bar_never_truthiness(
    score: float, threshold: float | None, maximum: float | None, expected: bool
) -> None:
    """The threshold, else the metric's maximum, else 1.0: in DSPy any score but zero is a success without one."""
    assert expected is (score >= toolkit.success_bar(threshold, maximum))
