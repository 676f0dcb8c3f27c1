"""The grounded proposer: small programs that look at rows and program, then write an instruction for one predictor."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any

import attrs

from burnish import CallRequest, Engine, FieldInfo, Parameter, toolkit
from burnish.abc import Json
from burnish_programs import Predict

TIPS = {
    "none": "",
    "creative": "Be bold: phrase the task in a way that nobody has tried on it yet.",
    "simple": "Say it in few, plain words.",
    "description": "Be explicit: say in full what comes in, what has to come out, and what to watch for.",
    "high stakes": "Put the reader into a situation in which much depends on getting this right.",
    "persona": "Tell the reader who they are: the expert for exactly this task.",
}
"""What an instruction is asked for with, by name."""
MOST_CHARS = 1000
"""Of one value of a row that the proposer is shown; what is longer is cut there."""
LEAK_CHARS = 40
"""A text of a train row of this length or more may not stand in an instruction."""
ATTEMPTS = 3
"""How often a text is asked for before it is given up."""
MOST_BATCHES = 5
"""Batches of train rows that the proposer looks at."""

OBSERVE = Predict(
    "examples -> observations",
    instruction="These rows were taken from the data set of a task. Write down in two or three sentences what is "
    "common to them and useful to somebody who has to write instructions for the task: subject, form, length, "
    "difficulty, what the answers look like. Quote no row.",
)
SUMMARIZE = Predict(
    "observations -> summary",
    instruction="Several people have looked at parts of one data set and noted what they saw. Sum it up in two or "
    "three sentences for somebody who has to write instructions for the task.",
)
DESCRIBE = Predict(
    "program -> description",
    instruction="Here are the parts of a program that calls a language model: their fields and their instructions. "
    "Describe in two or three sentences which task the whole program solves, and how it goes about it.",
)
DESCRIBE_PART = Predict(
    "program, program_description, part -> part_description",
    instruction="Here is a program that calls a language model. Describe in one or two sentences what the named part "
    "contributes to the whole.",
)
PROPOSE = (
    "Write the instruction under which a language model will do one part of a program as well as possible. You see "
    "the instruction that is in force now, and what else is known. Give the text of the new instruction, which stands "
    "alone: whoever reads it sees nothing of what you see here. Do not answer any of the examples, and do not quote "
    "them. Keep every name in double braces as it is."
)


@attrs.frozen(kw_only=True)
class Grounds:
    """What the proposer knows before it writes."""

    summary: str = ""
    """Of the data set."""
    program: str = ""
    """A description of the program."""
    parts: Mapping[str, str] = attrs.field(factory=dict)
    """A description of each part, by parameter."""


async def find_grounds(
    engine: Engine, parameters: Mapping[str, Parameter], batches: Sequence[str], *, program_aware: bool
) -> Grounds:
    """Look at batches of rows and at the program, all at once, then sum up what was seen.

    What failed three times is left out: proposals are made without it.
    """
    listing = program_text(parameters)
    requests = [CallRequest(program=OBSERVE, inputs={"examples": batch}) for batch in batches]
    if program_aware:
        requests.append(CallRequest(program=DESCRIBE, inputs={"program": listing}))
    texts = await _texts(engine, "look", requests)
    description = texts.pop() if program_aware else ""
    observations = [text for text in texts if text]
    requests = []
    if len(observations) > 1:
        requests.append(CallRequest(program=SUMMARIZE, inputs={"observations": "\n\n".join(observations)}))
    if program_aware:
        requests += [
            CallRequest(
                program=DESCRIBE_PART, inputs={"program": listing, "program_description": description, "part": name}
            )
            for name in parameters
        ]
    texts = await _texts(engine, "sum up", requests)
    summary = texts.pop(0) if len(observations) > 1 else "\n".join(observations)
    return Grounds(
        summary=summary,
        program=description,
        parts=dict(zip(parameters, texts, strict=True)) if program_aware else {},
    )


async def _texts(engine: Engine, step: str, requests: Sequence[CallRequest]) -> list[str]:
    """Ask for one text each; empty where no attempt brought one."""
    texts = [""] * len(requests)
    for attempt in range(ATTEMPTS):
        open_ones = [number for number, text in enumerate(texts) if not text]
        if not open_ones:
            break
        with engine.step(step, attempt):
            asked = [attrs.evolve(requests[n], sample=1000 * attempt + n) for n in open_ones]
            replies = await engine.propose_many(asked)
        for number, reply in zip(open_ones, replies, strict=True):
            if reply.fault is None:
                texts[number] = str(next(iter(reply.prediction.values()))).strip()
        if any(reply.cap is not None for reply in replies):
            break
    return texts


def request_for(
    parameter: Parameter,
    grounds: Grounds,
    *,
    demos: str = "",
    tip: str = "",
    sample: int = 0,
    temperature: float | None = None,
) -> CallRequest:
    """Ask for one instruction. What is not known, or switched off, does not stand in the prompt at all."""
    known = {
        "dataset_summary": grounds.summary,
        "program_description": grounds.program,
        "part": f"{parameter.name}: {_fields(parameter)}",
        "part_description": grounds.parts.get(parameter.name, ""),
        "examples": demos,
        "basic_instruction": parameter.instruction,
        "tip": tip,
    }
    inputs = {name: text for name, text in known.items() if text}
    program = Predict(f"{', '.join(inputs)} -> instruction", instruction=PROPOSE, temperature=temperature)
    return CallRequest(program=program, inputs=inputs, sample=sample)


def read(prediction: Mapping[str, Any]) -> str:
    """Take the instruction out of a reply."""
    return str(prediction["instruction"]).strip()


def checks_of(
    parameters: Mapping[str, Parameter], rows: Iterable[Mapping[str, Json]]
) -> dict[str, Callable[[str], str | None]]:
    """Make the check of each parameter's texts: of use by themselves, and new for this parameter."""
    held = leaks(rows)
    return {name: _new(p, toolkit.text_check(p, leaks=held)) for name, p in parameters.items()}


def _new(parameter: Parameter, check: Callable[[str], str | None]) -> Callable[[str], str | None]:
    taken = {_plain(parameter.instruction): True}

    def checked(text: str) -> str | None:
        why = "it is known already" if _plain(text) in taken else check(text)
        if why is None:
            taken[_plain(text)] = True
        return why

    return checked


def _plain(text: str) -> str:
    return " ".join(text.split())


def tips(count: int, rng: Random, *, aware: bool) -> list[str]:
    """Give so many names of tips, in seeded order, each before any comes again; `none` where they are switched off."""
    deck: list[str] = []
    while len(deck) < count:
        deck += rng.sample(list(TIPS), len(TIPS)) if aware else ["none"] * count
    return deck[:count]


def program_text(parameters: Mapping[str, Parameter]) -> str:
    """Write down the parts of a program."""
    parts = [f"{p.name}: {_fields(p)}\ninstruction: {p.instruction}" for p in parameters.values()]
    return "\n\n".join(parts)


def _fields(parameter: Parameter) -> str:
    def side(fields: Iterable[FieldInfo]) -> str:
        return ", ".join(f.name if f.type == "str" else f"{f.name}: {f.type}" for f in fields)

    return f"{side(parameter.inputs)} -> {side(parameter.outputs)}" if parameter.outputs else "a text"


def batches(rows: Sequence[Mapping[str, Json]], size: int, rng: Random) -> list[str]:
    """Draw some batches of rows, as texts."""
    drawn = rng.sample(rows, min(len(rows), MOST_BATCHES * size))
    return [rows_text(drawn[first : first + size]) for first in range(0, len(drawn), size)]


def rows_text(rows: Iterable[Mapping[str, Json]]) -> str:
    """Write down rows or demos, a blank line between them."""
    return "\n\n".join("\n".join(f"{name}: {_value(value)}" for name, value in row.items()) for row in rows)


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS]} [...]"


def leaks(rows: Iterable[Mapping[str, Json]]) -> list[str]:
    """Give the texts of rows that no instruction may hold: those long enough to be told from common words."""
    return [value for row in rows for value in row.values() if isinstance(value, str) and len(value) >= LEAK_CHARS]
