"""What goes to a stream: lines for people, or one JSON object for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

from burnish_cli import text


def print_json(value: Mapping[str, Any], stream: TextIO) -> None:
    """Print one JSON object, in ASCII: any encoding has it."""
    text.write_line(stream, json.dumps(value, ensure_ascii=True))


def print_lines(lines: Iterable[str], stream: TextIO) -> None:
    """Print lines."""
    for line in lines:
        text.write_line(stream, line)
