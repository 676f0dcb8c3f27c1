"""One text from turns, for a base model without a chat template.

A system text, then one block an example with a blank line between, the reply on the line after its input. The text
ends with the first output label and its colon. No space follows: most tokenizers hold the space before a word, so that
`category: ` can only go on with a digit or a symbol.
"""

from __future__ import annotations

import attrs

from burnish._model.lm import Layout, LMRequest, Message

LAYOUT_VERSION = 1
"""Raised when the text of a request changes: part of the identity of models that use it."""
SPACE = " \t\r\n"
BLOCK = "\n\n"


@attrs.frozen(kw_only=True)
class BasePrompt:
    """A request as a base model sees it."""

    text: str
    """The whole prompt; the reply goes on from its end."""
    prefill: str = ""
    """The end of the prompt that belongs to the reply: a program that parses the reply needs it in front."""
    stop: tuple[str, ...] = ()
    """Texts before which the reply ends."""


def lay_out(request: LMRequest, *, multiline: bool = False) -> BasePrompt:
    """Lay a request out as one text.

    With a layout, fields as the program wrote them; without one, `User:` and `Assistant:` turns. A prompt that ends in
    a label of its own (`category:`, a layout without outputs) is followed by its reply after one blank, as people write
    it. A last assistant turn is the start of the reply, as chat endpoints take it. The value of a single output ends
    with its line, unless it may be `multiline` or the reply of a demo has several lines.
    """
    turns = [Message(m.role, m.content.strip(SPACE)) for m in request.messages]
    turns = [turn for turn in turns if turn.content]
    started = turns.pop().content if turns and turns[-1].role == "assistant" else None
    several = multiline or any("\n" in turn.content for turn in turns if turn.role == "assistant")
    if started is None and _ends_in_label(request.layout, turns):
        text = "".join(_after_label(turn, first=i == 0) + turn.content for i, turn in enumerate(turns))
        return BasePrompt(text=text, stop=(BLOCK if several else "\n", *request.stop))
    fields = request.layout if request.layout and request.layout.outputs else None
    opening = f"{fields.outputs[0]}:" if fields else "Assistant:"
    if started is not None:
        opening = started if fields else f"Assistant: {started}"
    text = "".join(_lead(turn, fields, first=i == 0) + turn.content for i, turn in enumerate(turns))
    end = "" if not text else "\n" if fields else BLOCK
    prefill = opening if fields else started or ""
    return BasePrompt(text=text + end + opening, prefill=prefill, stop=(*stops(fields, several), *request.stop))


def stops(layout: Layout | None, multiline: bool = False) -> tuple[str, ...]:
    """Give the texts that end a reply.

    A single output's value ends with its line: without a demo a small model goes on with lists of its own invention.
    Otherwise a blank line, the next example's input, or the outputs once more end it.
    """
    if layout is None or not layout.outputs:
        return ("\nUser:",)
    if len(layout.outputs) == 1 and not multiline:
        return ("\n",)
    return (BLOCK, *(f"\n{label}:" for label in (*layout.inputs, layout.outputs[0])))


def _ends_in_label(layout: Layout | None, turns: list[Message]) -> bool:
    """Whether the prompt itself ends in the label of its reply."""
    return layout is not None and not layout.outputs and bool(turns) and turns[-1].content.endswith(":")


def _after_label(turn: Message, *, first: bool) -> str:
    return "" if first else " " if turn.role == "assistant" else BLOCK


def _lead(turn: Message, layout: Layout | None, *, first: bool) -> str:
    if layout is not None:
        return "" if first else "\n" if turn.role == "assistant" else BLOCK
    label = {"user": "User: ", "assistant": "Assistant: "}.get(turn.role, "")
    return label if first else BLOCK + label
