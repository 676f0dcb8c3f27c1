"""Write JSON objects as TOML that people like to read; the standard library only reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from burnish.abc import Json, JsonMap
from burnish.errors import UsageError

LONGEST = 110
"""Characters of a line, where that can be had."""


def dumps(form: JsonMap) -> str:
    """Write an object. Raises `UsageError` for null and for text that is not Unicode."""
    return "\n".join(_table(form, "")).lstrip("\n") + "\n"


def _table(form: JsonMap, path: str) -> Iterator[str]:
    """Write what fits in a line first, then tables: TOML gives what follows a header to that table."""
    later: list[tuple[str, Json]] = []
    for key, value in form.items():
        line = f"{_key(key)} = {_inline(value)}"
        if _is_table(value) and (not path or len(line) > LONGEST or _tables_below(value)):
            later.append((key, value))
        elif isinstance(value, str) and "\n" in value:
            yield f"{_key(key)} = {_block(value)}"
        else:
            yield line
    for key, value in later:
        below = f"{path}.{_key(key)}" if path else _key(key)
        for item in value if isinstance(value, list) else [value]:
            lines = list(_table(_object(item), below))
            if isinstance(value, list) or not lines or lines[0]:
                yield from ("", f"[[{below}]]" if isinstance(value, list) else f"[{below}]")
            yield from lines


def _object(value: Json) -> JsonMap:
    return value if isinstance(value, dict) else {}


def _is_table(value: Json) -> bool:
    rows = value if isinstance(value, list) else [value]
    return bool(rows) and all(isinstance(row, dict) for row in rows)


def _tables_below(value: Json) -> bool:
    """Whether a table holds tables itself (nodes in nodes): too much for a line, however short."""
    rows = value if isinstance(value, list) else [value]
    return any(isinstance(item, dict) and "kind" in item for row in rows for item in (row, *_object(row).values()))


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _text(key)


def _inline(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_key(key)} = {_inline(item)}' for key, item in value.items())}}}"
    raise UsageError("TOML has no null; write the file as JSON")


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UsageError(f"TOML holds Unicode text only; {value!r:.60} has half a character") from None
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _block(value: str) -> str:
    """Write text of several lines as such: line breaks stand, everything else is escaped as in one line."""
    lines = "\n".join(_text(line)[1:-1] for line in value.split("\n"))
    safe = '""' not in value and not value.endswith('"')
    return '"""\n' + (lines.replace('\\"', '"') if safe else lines) + '"""'
