"""Text for people: safe to print whatever its origin, and numbers as they are read."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import unicodedata
from decimal import Decimal
from pathlib import Path
from typing import TextIO

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def safe(text: str, *, limit: int | None = None, lines: bool = False) -> str:
    """Make text that a model, a row or a plugin wrote harmless to a terminal.

    Control characters (escape sequences among them), line separators, halves of surrogate pairs and marks that turn the
    writing direction are shown as `\\x1b`. `lines` keeps line feeds and tabs. Longer text than `limit` is cut.
    """
    kept = "\n\t" if lines else ""
    if limit is not None and len(text) > limit:
        text = text[: limit - 1] + "…"
    return "".join(c if c in kept or not _harmful(c) else _escaped(c) for c in text)


def _harmful(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in _BIDI


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def write_line(stream: TextIO, line: str) -> None:
    """Write one line at once, escaping what the stream's encoding does not have."""
    encoding = stream.encoding or "utf-8"
    stream.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    stream.flush()


def command(*words: str | Path) -> str:
    """Write a call of `burnish` that works where the user is: `uv run` puts it on no PATH but its own.

    Without its groups `uv run` would take the command away again, so it is told to change nothing.
    """
    here = "burnish"
    if os.environ.get("UV_RUN_RECURSION_DEPTH"):
        here = "uv run --no-sync burnish"
    elif shutil.which(here) is None and Path(sys.argv[0]).name == here:
        here = shlex.quote(sys.argv[0])
    return safe(f"`{' '.join([here, *(shlex.quote(str(word)) for word in words)])}`")


def score(value: float | None) -> str:
    """Write a score, with a dash for none."""
    return "–" if value is None else f"{value:.3f}"


def clock(seconds: float) -> str:
    """Write a duration: `0:35`, `12:05`, `3:02:10`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def money(amount: Decimal) -> str:
    """Write US dollars, small amounts with the digits that they need."""
    return f"${amount:.2f}" if amount >= 1 or amount == 0 else f"${amount:.4f}"


def count(number: int, noun: str) -> str:
    """Write a count with its noun: `1 row`, `1,200 rows`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
