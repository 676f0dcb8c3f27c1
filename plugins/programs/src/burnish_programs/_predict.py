"""`Predict` and `ChainOfThought`: one call of a model with a signature."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import burnish
from burnish import abc
from burnish.abc import LMResponse, Message
from burnish_programs._leaf import Leaf, Settings
from burnish_programs._parse import parse_reply
from burnish_programs._render import DemoTurns, Prefix, demo_turns, input_text, layout_of, system_text
from burnish_programs._signature import Field, Signature
from burnish_programs._types import Maybe


class Predict(Leaf):
    """Ask a model for the outputs of a signature.

        answer = Predict("question, context -> answer: float", instruction="Answer with a number.")
        prediction = await answer(question="...", context="...")
        prediction.answer

    The instruction is, in this order: what the candidate in force says, `instruction`, the signature's default. A demo
    is a row of input and output fields; fields that it lacks are left out of its turns.

    Args:
        signature: text (see `Signature`), or a `Signature`.
        instruction: what to do; None: the signature's default.
        demos: rows to show before the question.
        model: an `abc.Model` or callable that this predictor always uses; None: the one of its role.
        role: `task`, `proposer` or `judge`: which model of `burnish.models(...)` it uses, and whose spend it is.
        temperature, max_tokens: of each request; None leaves the model's own.
        name: its name in candidates and traces where it stands alone; in a module its attribute's name counts.
    """

    def __init__(
        self,
        signature: str | Signature,
        instruction: str | None = None,
        demos: Iterable[Mapping[str, Any]] = (),
        model: Any = None,
        role: str = "task",
        temperature: float | None = None,
        max_tokens: int | None = None,
        name: str | None = None,
    ) -> None:
        settings = Settings(role=role, temperature=temperature, max_tokens=max_tokens)
        super().__init__(instruction=instruction, demos=demos, model=model, settings=settings, name=name)
        self.signature = self._signature(signature if isinstance(signature, Signature) else Signature.parse(signature))

    def _signature(self, signature: Signature) -> Signature:
        return signature

    def __repr__(self) -> str:
        return self.shown(repr(str(self.signature)))

    @cached_property
    def default_instruction(self) -> str:
        return self.signature.default_instruction

    @cached_property
    def input_fields(self) -> Sequence[abc.InputField]:
        return tuple(_input(field) for field in self.signature.inputs)

    def parameter(self, name: str) -> burnish.Parameter:
        return burnish.Parameter(
            name=name,
            instruction=self.instruction,
            default_instruction=self.default_instruction,
            demos=self.demos,
            inputs=tuple(field.info for field in self.signature.inputs),
            outputs=tuple(field.info for field in self.signature.outputs),
        )

    def render_prefix(self, instruction: str, demos: Sequence[burnish.Demo]) -> Prefix:
        turns = [DemoTurns(source=demo.source, turns=demo_turns(self.signature, demo)) for demo in demos]
        head = (Message("system", system_text(self.signature, instruction)),)
        return Prefix(head=head, demos=tuple(turns), layout=layout_of(self.signature))

    def render_call(self, instruction: str, inputs: Mapping[str, Any]) -> tuple[Message, ...]:
        return (Message("user", input_text(self.signature.inputs, inputs)),)

    def parse(self, response: LMResponse, prefix: Prefix) -> dict[str, Any]:
        return parse_reply(response.text, self.signature.outputs, response.finish_reason)

    def describe(self) -> dict[str, Any]:
        return {
            "kind": type(self).__qualname__,
            "signature": str(self.signature),
            "default": self.default_instruction,
            "settings": self.settings.to_json(),
        }


class ChainOfThought(Predict):
    """A `Predict` that has the model write its reasoning first: a further output `reasoning: str` before the others."""

    def _signature(self, signature: Signature) -> Signature:
        return signature.with_output_first("reasoning")


def _input(field: Field) -> abc.InputField:
    """Say what a row must give.

    Only a `str` that was written down is checked: a number that a CSV file holds as text reads the same in a prompt.
    """
    annotation = str if field.declared and field.type.plain is str else None
    return abc.InputField(name=field.name, required=not isinstance(field.type, Maybe), annotation=annotation)
