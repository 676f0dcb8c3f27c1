"""Texts with `{{name}}` where a row's value goes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from burnish_programs._types import to_text

_PLACEHOLDER = re.compile(r"\{\{([^\W\d]\w*)\}\}")
_NEARLY = re.compile(r"\{\{(?:\s+[^\W\d]\w*\s*|[^\W\d]\w*\s+)\}\}")


def placeholders_of(text: str) -> tuple[str, ...]:
    """Give the names that a text holds as `{{name}}`, in order, each once."""
    return tuple(dict.fromkeys(_PLACEHOLDER.findall(text)))


def nearly_placeholders(text: str) -> tuple[str, ...]:
    """Give what looks like a placeholder and is none, because of blanks: `{{ name }}`."""
    return tuple(dict.fromkeys(_NEARLY.findall(text)))


@attrs.frozen
class Template:
    """A text cut at its placeholders; only the given names count, and other braces are text."""

    parts: tuple[str, ...]
    """Text and names in turn: text first and last."""

    @classmethod
    def of(cls, text: str, names: Iterable[str]) -> Template:
        """Cut a text at the placeholders of these names."""
        known, parts, start = set(names), [""], 0
        for found in _PLACEHOLDER.finditer(text):
            if found[1] in known:
                parts[-1] += text[start : found.start()]
                parts += [found[1], ""]
                start = found.end()
        parts[-1] += text[start:]
        return cls(tuple(parts))

    def fill(self, values: Mapping[str, Any]) -> str:
        """Put the values in, once: what a value holds is never expanded. A missing value and None give nothing."""
        return "".join(
            part if i % 2 == 0 else "" if values.get(part) is None else to_text(values[part])
            for i, part in enumerate(self.parts)
        )
