"""One text from turns, for a base model without a chat template; and the same as a template for llama.cpp's server.

A system text, then one block an example with a blank line between, the reply on the line after its input. The text
ends with the first output label and its colon. No space follows: the tokens of this model family hold the space before
a word, so that `category: ` can only go on with a digit or a symbol.
"""

from __future__ import annotations

import json

import attrs

from burnish.abc import Layout, LMRequest, Message

VERSION = 1
"""Raised when the text of a request changes: part of the model's identity."""
SPACE = " \t\r\n"
BLOCK = "\n\n"


@attrs.frozen(kw_only=True)
class Prompt:
    """A request as a base model sees it."""

    text: str
    """The whole prompt; the reply goes on from its end."""
    prefill: str = ""
    """The end of the prompt that belongs to the reply: a program that parses the reply needs it in front."""
    stop: tuple[str, ...] = ()
    """Texts before which the reply ends."""


def lay_out(request: LMRequest, *, multiline: bool = False) -> Prompt:
    """Lay a request out as one text.

    With a layout, fields as the program wrote them; without one, `User:` and `Assistant:` turns. A last assistant turn
    is the start of the reply, as chat endpoints take it. The value of a single output ends with its line, unless it may
    be `multiline` or the reply of a demo has several lines.
    """
    turns = [Message(m.role, m.content.strip(SPACE)) for m in request.messages]
    turns = [turn for turn in turns if turn.content]
    started = turns.pop().content if turns and turns[-1].role == "assistant" else None
    fields = request.layout if request.layout and request.layout.outputs else None
    opening = f"{fields.outputs[0]}:" if fields else "Assistant:"
    if started is not None:
        opening = started if fields else f"Assistant: {started}"
    text = "".join(_lead(turn, fields, first=i == 0) + turn.content for i, turn in enumerate(turns))
    end = "" if not text else "\n" if fields else BLOCK
    prefill = opening if fields else started or ""
    multiline = multiline or any("\n" in turn.content for turn in turns if turn.role == "assistant")
    return Prompt(text=text + end + opening, prefill=prefill, stop=(*stops(fields, multiline), *request.stop))


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


def _lead(turn: Message, layout: Layout | None, *, first: bool) -> str:
    if layout is not None:
        return "" if first else "\n" if turn.role == "assistant" else BLOCK
    label = {"user": "User: ", "assistant": "Assistant: "}.get(turn.role, "")
    return label if first else BLOCK + label


def chat_template(layout: Layout | None = None) -> str:
    """Write the layout as a Jinja chat template: llama.cpp's server then turns chat turns into the same prompt.

    The reply that its chat endpoint gives back does not hold the label that the prompt ended with.
    """
    fields = layout if layout and layout.outputs else None
    if fields:
        lead = f"""{{{{- '' if ns.first else {_quote(chr(10))} if m.role == 'assistant' else {_quote(BLOCK)} -}}}}"""
        opening = "\n" + f"{fields.outputs[0]}:"
    else:
        lead = (
            f"{{{{- '' if ns.first else {_quote(BLOCK)} -}}}}"
            "{{- 'User: ' if m.role == 'user' else 'Assistant: ' if m.role == 'assistant' else '' -}}"
        )
        opening = BLOCK + "Assistant:"
    return (
        "{%- set ns = namespace(first=true) -%}{%- for m in messages -%}{%- set text = m.content | trim -%}"
        "{%- if text -%}" + lead + "{{- text -}}{%- set ns.first = false -%}{%- endif -%}{%- endfor -%}"
        "{%- if add_generation_prompt -%}{{- " + _quote(opening) + " -}}{%- endif -%}"
    )


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
