"""From fields and values to turns.

    system      the instruction, a blank line, and a line for each output: `answer (a number)`
    user        one demo's inputs: `question: ...`, one line each
    assistant   its outputs: `answer: 42`
    user        the inputs of this call

System and demos are the prefix: the same turns for every row. Text goes in as it is, everything else as JSON. What a
row says is data: nothing in it is expanded. Only an output is ever read back, so only an output is written with care: a
text that a reader could take for something else (it holds a line that looks like a label, has blank ends, says `null`
where that means None, or stands in quotes) is written as a JSON string.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

import burnish
from burnish.abc import Layout, Message, Turns
from burnish_programs._parse import is_null, label_pattern
from burnish_programs._signature import Field, Signature
from burnish_programs._types import Maybe, Text, to_text

RENDERING = 1
"""Raised whenever the same program and row give other turns, or the same reply another output: part of the identity."""
REPLY_FORM = "Reply with each output as `name: value`:"


@attrs.frozen(kw_only=True)
class DemoTurns:
    """One demo as turns."""

    source: str | None
    turns: tuple[Message, ...]


@attrs.frozen(kw_only=True)
class Prefix:
    """The turns that all calls under one instruction and one list of demos share."""

    head: tuple[Message, ...]
    demos: tuple[DemoTurns, ...]
    layout: Layout
    """Which labels the turns hold."""
    cue: str | None = None
    """The label that the last turn ends with by itself, without its colon."""
    messages: Turns = attrs.field(init=False)
    sources: frozenset[str] = attrs.field(init=False)

    @messages.default
    def _messages(self) -> Turns:
        return self._joined(self.demos)

    @sources.default
    def _sources(self) -> frozenset[str]:
        return frozenset(demo.source for demo in self.demos if demo.source is not None)

    def _joined(self, demos: Iterable[DemoTurns]) -> Turns:
        return Turns([*self.head, *(turn for demo in demos for turn in demo.turns)])

    def without(self, source: str | None) -> Turns:
        """Give the turns without the demos that were made from a row: it must not be shown its own answer."""
        if source is None or source not in self.sources:
            return self.messages
        return self._joined(demo for demo in self.demos if demo.source != source)


def system_text(signature: Signature, instruction: str) -> str:
    """Write the system turn: what to do, and how to reply."""
    form = "\n".join([REPLY_FORM, *(_wanted(field) for field in signature.outputs)])
    return f"{instruction}\n\n{form}" if instruction else form


def _wanted(field: Field) -> str:
    # A base model copies what stands after `label: `, so that only `text`, which restricts nothing, may stand there.
    if isinstance(field.type, Text):
        return f"{field.name}: {field.type.describe()}"
    return f"{field.name} ({field.type.describe()})"


def input_text(fields: Sequence[Field], values: Mapping[str, Any]) -> str:
    """Write a user turn: a line for each input that has a value."""
    return "\n".join(
        f"{field.name}: {to_text(values[field.name])}" for field in fields if values.get(field.name) is not None
    )


def output_text(fields: Sequence[Field], values: Mapping[str, Any]) -> str:
    """Write an assistant turn: a line for each output that stands in `values`."""
    return "\n".join(
        f"{field.name}: {output_value(field, values[field.name], fields)}" for field in fields if field.name in values
    )


def output_value(field: Field, value: Any, fields: Sequence[Field]) -> str:
    """Write an output's value so that reading it back gives it again."""
    if not isinstance(value, str):
        return to_text(value)
    optional = isinstance(field.type, Maybe)
    kind = field.type.inner if isinstance(field.type, Maybe) else field.type
    unclear = isinstance(kind, Text) and _unclear(value, fields, optional)
    return json.dumps(value, ensure_ascii=False) if unclear else value


def _unclear(value: str, fields: Sequence[Field], optional: bool) -> bool:
    if not value or value != value.strip() or (value[0] == value[-1] == '"') or (optional and is_null(value)):
        return True
    pattern = label_pattern(tuple(field.name for field in fields))
    return any(pattern.match(line) for line in value.split("\n")[1:])


def demo_turns(signature: Signature, demo: burnish.Demo) -> tuple[Message, ...]:
    """Write a demo as a user and an assistant turn.

    A field that the row does not have is left out of its turn. A demo without any input or any output gives no turns.
    """
    inputs = {f.name: demo.input_value(f.name) for f in signature.inputs}
    outputs = {f.name: demo[f.name] for f in signature.outputs if _has(demo, f)}
    user, assistant = input_text(signature.inputs, inputs), output_text(signature.outputs, outputs)
    return (Message("user", user), Message("assistant", assistant)) if user and assistant else ()


def _has(demo: burnish.Demo, field: Field) -> bool:
    return field.name in demo.row and (demo[field.name] is not None or isinstance(field.type, Maybe))


def layout_of(signature: Signature) -> Layout:
    """Say which labels the turns hold."""
    return Layout(
        inputs=tuple(field.name for field in signature.inputs),
        outputs=tuple(field.name for field in signature.outputs),
    )
