"""The layout of base models as a template for llama.cpp's server."""

from __future__ import annotations

import json

from burnish.abc import BLOCK, Layout


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
