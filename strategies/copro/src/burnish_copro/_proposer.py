"""The proposers: two small programs that write a text for a predictor, and what they are told."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import attrs

from burnish import CallRequest, Candidate, Example, Parameter, RolloutOutcome
from burnish_copro._report import Attempt
from burnish_programs import Predict

_TAIL = """\
Where mistakes of the best instruction are shown, write what would have prevented them, as a rule for all rows of the \
kind and never as the answer to that one row. Reply with the instruction as it is to be used: nothing about it, and no \
quotes around it."""

FIRST = f"""\
You write instructions for a language model. You are given a task and the instruction in use. Write one better \
instruction for the same task: say what to do, what decides a hard case and what a good answer looks like. Change \
something of substance, not the wording alone. {_TAIL}"""

NEXT = f"""\
You write instructions for a language model. You are given a task and instructions that were tried on it, in ascending \
order of their scores: the last one is the best so far, and higher scores are better. Find out what the better ones \
have in common, keep that, and write one new instruction that scores higher than all of them. It must differ in \
substance from each that was tried. {_TAIL}"""


@attrs.frozen
class Told:
    """What a proposer is told of one predictor."""

    text: str
    """The one in force."""
    attempts: Sequence[Attempt] = ()
    """The best so far, in ascending order of score; none in the first round."""
    mistakes: str = ""
    """What the metric said of rows that the best candidate got wrong."""


@attrs.frozen
class Proposers:
    """Both programs, on one model at one temperature."""

    first: Predict
    next: Predict

    @classmethod
    def make(cls, model: Any, temperature: float | None) -> Proposers:
        """Make them; `model` None leaves it to the run's `proposer`."""

        def program(signature: str, instruction: str) -> Predict:
            return Predict(signature, instruction, model=model, role="proposer", temperature=temperature)

        return cls(
            program("task, keep: str | None, mistakes: str | None, current_instruction -> proposed_instruction", FIRST),
            program("task, keep: str | None, mistakes: str | None, attempts -> proposed_instruction", NEXT),
        )

    def request(self, parameter: Parameter, told: Told, sample: int) -> CallRequest:
        """Ask for one text: from the one in force, or from attempts where there are any."""
        inputs: dict[str, Any] = {
            "task": task_of(parameter), "keep": keep_of(parameter), "mistakes": told.mistakes or None
        }
        if not told.attempts:
            return CallRequest(program=self.first, inputs={**inputs, "current_instruction": told.text}, sample=sample)
        shown = "\n\n".join(map(_shown, range(1, len(told.attempts) + 1), told.attempts))
        return CallRequest(program=self.next, inputs={**inputs, "attempts": shown}, sample=sample)


def read(prediction: Any) -> str:
    """Take the text out of a proposer's prediction."""
    return str(prediction.proposed_instruction).strip()


def _shown(number: int, attempt: Attempt) -> str:
    return f"[instruction {number}, score {attempt.score:.4g}]\n{attempt.text}"


def task_of(parameter: Parameter) -> str:
    """Say what the text is for."""
    inputs, outputs = (", ".join(_fields(fields)) or "something" for fields in (parameter.inputs, parameter.outputs))
    if parameter.kind == "text":
        return f"a prompt that is sent as it is, with the row's values in place of {inputs}; the reply is {outputs}"
    return f"given {inputs}, produce {outputs}"


def _fields(fields: Sequence[Any]) -> Iterator[str]:
    for field in fields:
        kind = "" if field.type == "str" else f" ({field.type})"
        yield f"{field.name}{kind}{f': {field.description}' if field.description else ''}"


def keep_of(parameter: Parameter) -> str | None:
    """Say which placeholders have to stay; None where there are none."""
    names = ", ".join(f"{{{{{name}}}}}" for name in parameter.placeholders)
    return f"the text must hold each of these as it stands here, and no other of their kind: {names}" if names else None


MOST_MISTAKES, MOST_CHARS, LEAST_LEAK = 5, 400, 24


def mistakes_of(outcomes: Iterable[RolloutOutcome], examples: Sequence[Example], bar: float) -> str:
    """Show the first rows with scores below `bar` and what the metric said of them; empty where it said nothing."""
    told = {o.example: o for o in outcomes if o.eval is not None and o.eval.feedback and o.eval.score < bar}
    return "\n".join(_mistake(outcome, examples[row]) for row, outcome in islice(told.items(), MOST_MISTAKES))


def _mistake(outcome: RolloutOutcome, example: Example) -> str:
    row = json.dumps(dict(example.data), ensure_ascii=False)
    said = outcome.eval.feedback if outcome.eval is not None else ""
    return f"- {row:.{MOST_CHARS}}\n  {said or '':.{MOST_CHARS}}"


def leaks_of(examples: Iterable[Example], text: str) -> list[str]:
    """Give the texts of rows that no proposal may hold: long enough to be no chance, and not in the original text."""
    values = (value for example in examples for value in example.data.values())
    return [v for v in values if isinstance(v, str) and len(v) >= LEAST_LEAK and v not in text]


def text_in_force(parameter: Parameter, candidate: Candidate) -> str:
    """Give a predictor's text under a candidate."""
    overlay = candidate.overlays.get(parameter.name)
    if overlay is not None and overlay.clear_instruction:
        return parameter.default_instruction
    return parameter.instruction if overlay is None or overlay.instruction is None else overlay.instruction
