"""Prompt files: a text with placeholders, sent as it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import structlog

import burnish
from burnish import abc
from burnish.abc import Layout, LMResponse, Message
from burnish.errors import ParseError, UsageError
from burnish_programs._leaf import Leaf, Settings
from burnish_programs._parse import label_pattern, parse_reply, parse_value
from burnish_programs._render import DemoTurns, Prefix, output_text
from burnish_programs._signature import Field, parse_field
from burnish_programs._template import Template, nearly_placeholders, placeholders_of
from burnish_programs._types import Text, to_text

log = structlog.get_logger("burnish")

_template = lru_cache(maxsize=256)(Template.of)


class PromptProgram(Leaf):
    """A prompt as it is: a text in which `{{name}}` stands for the row's field `name`.

        ask = PromptProgram("Say which category this belongs to: {{gloss}}", output="category")
        (await ask(gloss="a small dog")).category

    The filled text is one user turn, every other byte of it unchanged: nothing is added about the reply's form, and
    values are put in once and never expanded. The reply is the output; an output with a type (`"label: Literal['a',
    'b']"`) is read as `burnish_programs` reads replies. As a parameter it is a text: a candidate replaces it whole and
    has to keep each placeholder.

    Demos are the same text filled with the demo's fields, before the question, each with its output as the assistant's
    turn: after the output's name (`category: animal`), or bare where the text ends in a label of its own (`Category:`).
    Chat models take either, and a base model goes on after the label. A label in a reply's first line is taken off.

    Args:
        text: the prompt; it holds at least one placeholder.
        output: name of the output, or `name: type`.
        demos, model, role, temperature, max_tokens: as in `Predict`.
        name: its name in candidates and traces where it stands alone.
    """

    fallback_name = "prompt"

    def __init__(
        self,
        text: str,
        output: str = "output",
        *,
        demos: Iterable[Mapping[str, Any]] = (),
        model: Any = None,
        role: str = "task",
        temperature: float | None = None,
        max_tokens: int | None = None,
        name: str | None = None,
    ) -> None:
        settings = Settings(role=role, temperature=temperature, max_tokens=max_tokens)
        super().__init__(instruction=None, demos=demos, model=model, settings=settings, name=name)
        self.text = text
        self.output: Field = parse_field(output)
        if not self.placeholders:
            raise UsageError(
                "the prompt has no placeholder, so that every row would ask the same: write {{field}}, without blanks, "
                f"where a row's value goes; it reads {text[:80]!r}"
            )
        for wrong in nearly_placeholders(text):
            log.warning("not a placeholder because of its blanks, sent as it is", text=wrong)

    def __repr__(self) -> str:
        return self.shown(f"{', '.join(self.placeholders)} -> {self.output}")

    @property
    def default_instruction(self) -> str:
        return self.text

    @cached_property
    def placeholders(self) -> tuple[str, ...]:
        """Names of the fields that the text has a place for."""
        return placeholders_of(self.text)

    @cached_property
    def input_fields(self) -> Sequence[abc.InputField]:
        return tuple(abc.InputField(name=name) for name in self.placeholders)

    def parameter(self, name: str) -> burnish.Parameter:
        return burnish.Parameter(
            name=name,
            kind="text",
            instruction=self.instruction,
            default_instruction=self.text,
            demos=self.demos,
            inputs=tuple(burnish.FieldInfo(name=name) for name in self.placeholders),
            outputs=(self.output.info,),
            placeholders=self.placeholders,
            takes_demos=True,
        )

    def set_state(self, state: burnish.PredictState) -> None:
        parameter = self.parameter(self.name or self.fallback_name)
        burnish.check_overlay(parameter, burnish.Overlay(instruction=state.instruction))
        super().set_state(state)

    def render_prefix(self, instruction: str, demos: Sequence[burnish.Demo]) -> Prefix:
        template, cue = _template(instruction, self.placeholders), cue_of(instruction)
        turns = [DemoTurns(source=demo.source, turns=self._demo_turns(template, demo, cue)) for demo in demos]
        layout = Layout(outputs=() if cue else (self.output.name,))
        return Prefix(head=(), demos=tuple(turns), layout=layout, cue=cue)

    def _demo_turns(self, template: Template, demo: burnish.Demo, cue: str | None) -> tuple[Message, ...]:
        values = {name: demo.input_value(name) for name in self.placeholders}
        answer = demo.get(self.output.name)
        if answer is None or all(value is None for value in values.values()):
            return ()
        reply = to_text(answer) if cue else output_text((self.output,), demo)
        return (Message("user", template.fill(values)), Message("assistant", reply))

    def render_call(self, instruction: str, inputs: Mapping[str, Any]) -> tuple[Message, ...]:
        return (Message("user", _template(instruction, self.placeholders).fill(inputs)),)

    def parse(self, response: LMResponse, prefix: Prefix) -> dict[str, Any]:
        reply = response.text.strip()
        value = _without_label(reply, (self.output.name, *([prefix.cue] if prefix.cue else [])))
        if not isinstance(self.output.type, Text):
            try:
                return parse_reply(value, (self.output,), response.finish_reason)
            except ParseError as error:
                raise ParseError(str(error), raw=response.text, field=error.field) from None
        return {self.output.name: reply if value is reply else parse_value(value, self.output.type)}

    def describe(self) -> dict[str, Any]:
        return {
            "kind": type(self).__qualname__,
            "text": self.text,
            "output": str(self.output),
            "settings": self.settings.to_json(),
        }


class PromptFile(PromptProgram):
    """A `PromptProgram` whose text is kept in a file: UTF-8, read once, byte for byte.

    `source` is the path; a text that holds a placeholder is taken as the prompt itself. The other arguments are those
    of `PromptProgram`.
    """

    def __init__(self, source: str | Path, output: str = "output", **options: Any) -> None:
        inline = isinstance(source, str) and bool(placeholders_of(source))
        self.path = None if inline else Path(source)
        super().__init__(str(source) if self.path is None else _read(self.path), output, **options)


def cue_of(text: str) -> str | None:
    """Give the label that a text ends with (`Category:`), after which its reply is to stand; None where it has none."""
    last = text.rstrip().rpartition("\n")[2].strip()
    label = last[:-1].strip()
    return label if last.endswith((":", "：")) and label and len(label) <= 60 and "{{" not in label else None


def _without_label(reply: str, labels: tuple[str, ...]) -> str:
    """Take a label off the front of a reply: some models write it, most do not."""
    first, newline, more = reply.partition("\n")
    found = label_pattern(labels).fullmatch(first)
    return reply if found is None else (found["rest"] + newline + more).strip()


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"the prompt file {str(path)!r} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"the prompt file {str(path)!r} is not UTF-8: byte {error.start} cannot be read") from None
