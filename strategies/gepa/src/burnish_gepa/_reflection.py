"""Reflection: what a component's calls looked like in a minibatch, and the program that writes it a better text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import attrs

from burnish import CallRequest, Candidate, CandidateEval, Parameter, RolloutOutcome, Span
from burnish.abc import Json, Problem
from burnish.errors import MetricError, UsageError
from burnish_gepa._pool import text_of
from burnish_programs import Predict

CALLS_SHOWN = 5
"""Calls of one component that are shown of one rollout."""


@attrs.frozen(kw_only=True)
class Shown:
    """One row of the minibatch as the reflection sees it."""

    column: int
    score: float
    text: str
    """Inputs, outputs, feedback and errors."""


@attrs.frozen(kw_only=True)
class Reflection:
    """One text to be rewritten, and why."""

    component: str
    parameter: Parameter = attrs.field(repr=False)
    text: str
    """The text in force."""
    shown: tuple[Shown, ...]

    @property
    def examples(self) -> str:
        """All rows in one text."""
        parts = [f"Example {n} (score {one.score:g})\n{one.text}" for n, one in enumerate(self.shown, 1)]
        return "\n\n".join(parts)


@runtime_checkable
class Proposer(Protocol):
    """Writes new texts: says what is to be asked, and reads the answer. The engine asks, pays and records."""

    def request(self, wish: Reflection) -> CallRequest:
        """Give the run of a small program that writes a new text; its role is `proposer`."""

    def read(self, prediction: Any) -> str:
        """Take the new text out of the prediction. Raises `ValueError` for one that holds none: it is asked again."""


INSTRUCTION = """\
You improve one text of a program that calls a language model. You are given the text as it is now, what it is for, and
what happened on some examples: what went in, what came out, and feedback on the result.

Find out from the feedback what the text fails to say. Keep what it says that works. Write down what the feedback
teaches about the task in general terms: rules, formats, facts and pitfalls that will matter for examples that are not
shown here. Do not copy the examples, their inputs or their answers into the text. Reply with the whole new text, ready
to use, and nothing about how you found it."""

_THOUGHTS = re.compile(r"<\s*/?\s*(?:think|thinking|reasoning)\s*>", re.IGNORECASE)
_FENCE = re.compile(r"\A\s*(`{3,})[^\n`]*\n(.*?)\n?[ \t]*\1\s*\Z", re.DOTALL)


_REFLECT = Predict("component, requirements, current_text, examples -> new_text", INSTRUCTION, name="reflect")


@attrs.frozen
class ReflectionProposer:
    """Ask the proposer's model for a whole new text, with the current one and the examples before it."""

    program: Any = None
    """From `component`, `requirements`, `current_text` and `examples` to `new_text`; None: the standard one."""

    def request(self, wish: Reflection) -> CallRequest:
        inputs = {
            "component": wish.component,
            "requirements": requirements(wish.parameter),
            "current_text": wish.text,
            "examples": wish.examples,
        }
        return CallRequest(program=self.program or _REFLECT, inputs=inputs)

    def read(self, prediction: Any) -> str:
        text = str(prediction.new_text)
        fenced = _FENCE.match(text)
        text = (fenced[2] if fenced else text).strip()
        if _THOUGHTS.search(text):
            raise ValueError("it holds a model's thoughts")
        return text


def requirements(parameter: Parameter) -> str:
    """Say what a new text of a parameter is for and has to keep."""
    lines = []
    if parameter.inputs or parameter.outputs:
        fields = [", ".join(f"{f.name} ({f.type})" for f in side) for side in (parameter.inputs, parameter.outputs)]
        lines.append(f"It tells the model how to get from {fields[0] or 'nothing'} to {fields[1]}.")
    else:
        lines.append("It is a text that the program uses as it is.")
    if parameter.placeholders:
        names = ", ".join(f"{{{{{name}}}}}" for name in parameter.placeholders)
        lines.append(f"It must hold {names}, where the program puts values in, and no other placeholder.")
    return " ".join(lines)


# --- the reflective data set --------------------------------------------------------------------------------------


def reflect_on(
    component: str, parameter: Parameter, text: str, minibatch: CandidateEval, most_chars: int
) -> Reflection | None:
    """Give what a minibatch's traces tell of one component; None where they tell nothing."""
    limit = max(200, most_chars // max(1, len(minibatch.rollouts)))
    shown = []
    for rollout in minibatch.rollouts:
        lines = list(_lines(component, parameter, rollout))
        if lines and rollout.eval is not None:
            lines.append(f"feedback: {rollout.eval.feedback}")
            told = _within(lines, limit)
            shown.append(Shown(column=rollout.example, score=rollout.eval.score, text=told))
    if not shown:
        return None
    return Reflection(component=component, parameter=parameter, text=text, shown=tuple(shown))


def wishes_of(
    problem: Problem, candidate: Candidate, minibatch: CandidateEval, most_chars: int
) -> dict[str, Reflection]:
    """Give what a minibatch tells of a candidate's texts, by parameter; those that it tells nothing of are absent."""
    wishes = {
        name: reflect_on(name, parameter, text_of(problem, candidate, name), minibatch, most_chars)
        for name, parameter in problem.parameters.items()
    }
    return {name: wish for name, wish in wishes.items() if wish is not None}


def _lines(component: str, parameter: Parameter, rollout: RolloutOutcome) -> Iterator[str]:
    """Tell the calls of a component; of a text that no call bears the name of, the whole rollout."""
    trace = rollout.trace
    spans = [] if trace is None else trace.for_component(component)
    for span in spans[:CALLS_SHOWN]:
        yield from _call(span)
    if len(spans) > CALLS_SHOWN:
        yield f"({len(spans) - CALLS_SHOWN} more calls)"
    if not spans and parameter.kind == "text" and trace is not None:
        yield f"inputs: {_plain(dict(trace.meta.inputs))}"
        for span in trace.spans[:CALLS_SHOWN]:
            for event in span.events:
                tool: Any = event
                if hasattr(tool, "arguments"):
                    yield f"tool {tool.name}({_plain(tool.arguments)}): {tool.error or tool.result}"
        yield f"output: {_plain(rollout.output)}"
    if (spans or parameter.kind == "text") and rollout.error is not None:
        yield f"error: {rollout.error}"


def _call(span: Span) -> Iterator[str]:
    yield f"call {span.seq}:"
    for name, value in span.inputs.items():
        yield f"  input {name}: {_plain(value)}"
    for name, value in (span.output or {}).items():
        yield f"  output {name}: {_plain(value)}"
    if span.output is None and span.raw_output:
        yield f"  reply that could not be used: {span.raw_output}"
    if span.error is not None:
        yield f"  error: {span.error.kind}: {span.error.message}"
    if span.eval is not None:
        yield f"  score of this call: {span.eval.score:g}"
        if span.eval.feedback:
            yield f"  feedback on this call: {span.eval.feedback}"


def _plain(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


CUT = " characters left out ...]"


def _within(lines: Sequence[str], limit: int) -> str:
    """Join lines to at most about `limit` characters: what is longer than its share loses its middle."""
    short = sorted(len(line) for line in lines)
    room, share = limit, limit
    for place, length in enumerate(short):  # short lines leave what they do not need to the long ones
        share = room // (len(short) - place)
        if length > share:
            break
        room -= length
    else:
        return "\n".join(lines)
    return "\n".join(line if len(line) <= share else _cut(line, share) for line in lines)


def _cut(line: str, share: int) -> str:
    half = max(20, share // 2)
    left = len(line) - 2 * half
    return line if left <= 0 else f"{line[:half]}[... {left}{CUT}{line[-half:]}"


# --- checks -------------------------------------------------------------------------------------------------------

Check = Callable[[str], str | None]


def check_feedback(evaluations: Iterable[CandidateEval], problem: Problem, module: str, generation: int) -> None:
    """Refuse an eval without feedback, which reflection is made of. Raises `MetricError` naming module and row."""
    for evaluation in evaluations:
        for rollout in evaluation.rollouts:
            if rollout.eval is not None and rollout.eval.feedback is None:
                column = rollout.example
                inside = column in problem.val
                where = f"validation row {column}" if inside else f"train row {column - len(problem.val)}"
                raise MetricError(
                    f"GEPA requires feedback for every evaluated example (module=`{module}`, generation="
                    f"{generation}): the metric gave none for {where}, {problem.row(column)!r:.200}; return "
                    "Eval(score, feedback), with the feedback saying what is wrong, or that all is right",
                    row=column,
                    candidate=evaluation.candidate,
                )


Validator = Callable[[str, str], str | None]
"""`(component, new text) -> why it is no use`, or None."""


def long_values(problem: Problem, least: int) -> list[str]:
    """Give the texts of at least `least` characters in train rows, each once, but for those that most rows share."""
    seen: dict[str, int] = {}
    for column in problem.train:
        for value in _texts(problem.row(column)):
            if len(value) >= least:
                seen[value] = seen.get(value, 0) + 1
    return [value for value, rows in seen.items() if 2 * rows <= len(problem.train) or len(problem.train) == 1]


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def must_be_proposer(value: Any) -> None:
    """Refuse what is no proposer. Raises `UsageError`."""
    if not isinstance(value, Proposer):
        raise UsageError(f"GEPA: proposer is {value!r:.80}; it needs the methods `request` and `read`")
