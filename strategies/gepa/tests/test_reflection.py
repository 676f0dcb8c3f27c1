"""What reflections are shown, and of which programs: several components, texts, programs as data, objectives."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs
import pytest

import burnish as b
from burnish import CallRequest, abc
from burnish._model.trace import ToolRun, TraceMeta
from burnish.errors import UsageError
from burnish_gepa import GEPA, Reflection, ReflectionProposer
from burnish_gepa._reflection import reflect_on, requirements
from burnish_programs import Module, Predict, PromptProgram, ir

from ._kinds import TRAIN, VAL, Run, metric, rows


class Chain(Module):
    """A draft and an answer; each needs a cue of its own."""

    def __init__(self) -> None:
        self.draft = Predict("question -> draft", "Draft.")
        self.final = Predict("question, draft -> answer", "Answer.")

    async def forward(self, *, question: str) -> Any:
        draft = (await self.draft(question=question)).draft
        return await self.final(question=question, draft=draft)


def chained(request: abc.LMRequest) -> str:
    """Draft well with the cue `think`, answer well with a good draft and the cue `short`."""
    system, user = request.messages[0].content, request.messages[-1].content
    if request.layout is not None and "draft" in request.layout.outputs:
        return "draft: good" if "think" in system else "draft: poor"
    kind, number = re.findall(r"Q(\d)-(\d+)", user)[-1]
    return f"answer: A{kind}-{number}" if "draft: good" in user and "short" in system else "not an answer at all: x"


def told(request: abc.LMRequest) -> str:
    """Give each component its cue."""
    return "new_text: Draft, think." if "component: draft" in request.messages[-1].content else "new_text: Be short."


@b.inline
def steps(example: Mapping[str, str], prediction: Any, trace: Any = None) -> b.Eval:
    """Score the draft a little, the answer fully."""
    draft = [span.output["draft"] for span in trace.for_component("draft")] if trace else []
    good, right = "good" in draft, prediction["answer"] == example["answer"]
    return b.Eval(1.0 if right else 0.4 if good else 0.1, f"draft {'fine' if good else 'poor'}, right: {right}")


def test_a_program_of_several_texts_is_rewritten_in_turn() -> None:
    """Round robin: the draft first, then the answer; each reflection sees the calls of its own component alone."""
    run = Run(GEPA(max_metric_calls=120), program=Chain(), task=chained, proposer=told, metric=steps)
    changed = [entry.changed for entry in run.report.candidates[1:]]  # type: ignore[attr-defined]
    assert ("draft",) in changed
    assert 1.0 == run.report.best_score
    assert {"draft": "Draft, think.", "final": "Be short."} == {
        name: overlay.instruction for name, overlay in run.result.candidate.overlays.items()
    }
    for prompt in run.prompts:
        mine, other = ("draft", "final") if "component: draft" in prompt else ("final", "draft")
        assert ("output draft:" in prompt) is (mine == "draft")
        assert f"component: {other}" not in prompt


def test_a_reflection_sees_inputs_outputs_and_feedback() -> None:
    """Scenario 46: `call 0:`, the span's input and output, the metric's feedback, and the text in force."""
    prompt = Run(GEPA(max_metric_calls=30)).prompts[0]
    for part in ("call 0:", "input question: Q", "output answer: ", "feedback: missing [cue ", "current_text: Answer"):
        assert part in prompt


def test_errors_of_a_component_are_shown() -> None:
    """A reply that cannot be parsed is shown whole, with the error; the failed row's feedback is that error."""
    program = Predict("question -> answer: int", "Answer.", name="answer")
    run = Run(
        GEPA(max_metric_calls=30, patience=1), program=program, task=lambda request: "answer: no number",
        metric=failing, proposer=lambda request: "new_text: Numbers please.",
    )
    assert "reply that could not be used: answer: no number" in run.prompts[0]
    assert "error: parse" in run.prompts[0]


@b.inline
def failing(example: Any, prediction: Any, trace: Any = None) -> b.Eval:
    return b.Eval(0.0, "wrong")


def test_all_components_are_rewritten_at_once() -> None:
    """`component_selector="all"`: one child with both new texts, of two reflections asked together."""
    strategy = GEPA(max_metric_calls=60, component_selector="all")
    run = Run(strategy, program=Chain(), task=chained, proposer=told, metric=steps)
    first = run.report.candidates[1]
    assert ("draft", "final") == first.changed  # type: ignore[attr-defined]
    assert (2, 1.0) == (run.proposer.calls, run.report.best_score)


def test_a_prompt_file_is_rewritten_with_its_placeholders() -> None:
    """A text keeps `{{question}}`: a reply that loses it, or invents another one, is asked for again."""
    cues = "new_text: {{question}} [cue 1] [cue 2] [cue 3]"
    replies = ["new_text: no place", "new_text: {{question}} {{context}}", cues]

    def task(request: abc.LMRequest) -> str:
        kind, number = re.findall(r"Q(\d)-(\d+)", request.messages[-1].content)[-1]
        return f"A{kind}-{number}" if kind == "0" or f"[cue {kind}]" in request.messages[-1].content else "unknown"

    prompt = PromptProgram("Say it: {{question}}", output="answer")
    run = Run(GEPA(max_metric_calls=60), program=prompt, task=task, proposer=replies)
    assert ["it has lost {{question}}", "it has {{context}}, which the program does not fill in"] == [
        rejected.reason for rejected in run.report.rejected_texts
    ]
    assert (1.0, 3) == (run.report.best_score, run.proposer.calls)
    assert "must hold {{question}}" in run.prompts[0]


def test_a_program_as_data_is_tuned() -> None:
    """The program lane: leaves of an interpreter are components like any other."""
    leaf = ir.Predict("answer", "question -> answer", instruction="Answer the question.")
    run = Run(program=ir.Interpreter(ir.program("question -> answer", leaf)))
    assert (1.0, "perfect score") == (run.report.best_score, run.report.stop_reason)


def test_a_component_that_no_call_used_is_passed_over() -> None:
    """A predictor that the minibatch never called has nothing to learn from: the next in turn is rewritten."""

    class Lazy(Module):
        def __init__(self) -> None:
            self.never = Predict("question -> note", "Note.")
            self.answer = Predict("question -> answer", "Answer the question.")

        async def forward(self, *, question: str) -> Any:
            return await self.answer(question=question)

    run = Run(program=Lazy())
    assert 1.0 == run.report.best_score
    assert {("answer",)} == {line.components for line in run.report.iterations if line.child is not None}


@attrs.frozen
class Terse:
    """A proposer of one's own: another program, another way to read it."""

    inner: ReflectionProposer = ReflectionProposer(Predict("current_text, examples -> better", "Improve.", name="mine"))

    def request(self, wish: Reflection) -> CallRequest:
        return CallRequest(program=self.inner.program, inputs={"current_text": wish.text, "examples": wish.examples})

    def read(self, prediction: Any) -> str:
        return str(prediction.better)


def test_a_proposer_can_be_replaced() -> None:
    """Any object with `request` and `read` writes the texts."""
    run = Run(GEPA(max_metric_calls=60, proposer=Terse()), proposer=lambda request: "better: [cue 1] [cue 2] [cue 3]")
    assert (1.0, "[cue 1] [cue 2] [cue 3]") == (run.report.best_score, run.text)


@b.inline
def judged(example: Mapping[str, str], prediction: Any, trace: Any = None) -> b.Eval:
    found = metric(example, prediction)
    return b.Eval(found.score, found.feedback, {"right": found.score, "short": 1 - found.score})


@pytest.mark.parametrize("kind", ["objective", "hybrid", "cartesian"])
def test_objectives_make_frontiers(kind: Any) -> None:
    """Candidates may be best at an objective; the report has their means."""
    run = Run(GEPA(max_metric_calls=70, frontier_type=kind), metric=judged)
    start = run.report.candidates[0]
    assert {"right": 0.25, "short": 0.75} == start.objectives  # type: ignore[attr-defined]
    assert 2 <= len(run.report.frontier)
    assert kind == run.report.frontier_type


def test_a_frontier_over_objectives_needs_some() -> None:
    """A metric without objectives is named, with what to do."""
    with pytest.raises(UsageError, match=r"frontier_type = 'objective'.*the metric gives none"):
        Run(GEPA(max_metric_calls=30, frontier_type="objective"))


def test_minibatches_of_parallel_proposals_differ() -> None:
    """Under four proposals gepa shows three of four minibatches twice; here no row comes twice within an epoch."""
    run = Run(
        GEPA(max_metric_calls=90, sampling="Independent(4)", reflection_minibatch_size=2), trainset=rows(10, 4),
        proposer=lambda request: "new_text: of no use " + request.fingerprint[:6],
    )
    shown = [line.columns for line in run.report.iterations[:8]]
    assert 16 == len({column for columns in shown for column in columns}) == sum(map(len, shown))
    assert {len(VAL) + n for n in range(16)} == {column for columns in shown for column in columns}
    assert len(TRAIN) == 8


def test_a_tool_description_is_told_by_the_whole_rollout() -> None:
    """A text that no predictor call bears the name of is judged by what went in, the tools' runs, and what came out."""
    outcome = b.RolloutOutcome(0, b.Eval(0.0, "it searched for the wrong thing"), traced(), output={"answer": "x"})
    parameter = b.Parameter(name="search.description", kind="text", instruction="Search.")
    wish = reflect_on(parameter.name, parameter, "Search.", b.CandidateEval(0, (outcome,)), 2000)
    assert wish is not None
    for part in ('inputs: {"q": "cats"}', 'tool search({"for": "dogs"}): no cat', "output: ", "the wrong thing"):
        assert part in wish.examples
    assert "It is a text that the program uses as it is." == requirements(parameter)


def traced() -> b.Trace:
    """Make the trace of a rollout that used a tool."""
    used = ToolRun(id="1", name="search", arguments={"for": "dogs"}, result="no cat")
    span = b.Span(id=0, component="agent", seq=0, events=(used,))
    return b.Trace(meta=TraceMeta(inputs={"q": "cats"}), spans=(span,))
