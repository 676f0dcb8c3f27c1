"""From a reply's text to typed outputs.

An output stands after its label, `label: value`, up to the next output's label. Labels are read in any case, with
blanks or hyphens for `_`, and with Markdown around them (`**Answer:** 42`, `- answer: 42`, `### Answer: 42`). Where the
first output has no label, what stands before the other labels is its value: so a single output may come bare, and a
reply may go on where the prompt ended with the label. A label that comes again is passed over. A JSON object with all
outputs as its keys is read too.

What surrounds a value is taken off, what would have to be guessed is an error:

* `str`: as it is, without the blanks around it; a value that is one JSON string (`"..."`) is decoded.
* `int`, `float`: `42`, `-1`, `+3`, `1,234`, `42.`, `42.0`, `$3`; a float also `.5`, `1e3`. Not `4 m`, `50%`, `3,5`.
* `bool`: true, false, yes, no. `Literal`: the choice as written, else in any case, without quotes and full stop.
* `list[T]`, `dict[str, T]`: JSON, in a code fence or not; a list also with one `- item` on each line.
* `T | None`: nothing, null, none or n/a is None.

Numbers, booleans and choices followed by more lines are read from the first line.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from burnish.errors import ParseError
from burnish_programs._signature import Field
from burnish_programs._types import (
    NULLS,
    Boolean,
    Choices,
    DictOf,
    FieldType,
    Integer,
    ListOf,
    Maybe,
    MismatchError,
    Number,
    Text,
    choice_text,
    show,
)

_BULLET = re.compile(r"[ \t]*(?:[-*+•]|\d{1,4}[.)])[ \t]+(\S.*)")
_FENCE = re.compile(r"\A\s*(`{3,}|~{3,})[^\n`]*\n(.*?)\n?[ \t]*\1\s*\Z", re.DOTALL)
_INTEGER = re.compile(r"([-+]?)(?:[0-9]+|[0-9]{1,3}(?:,[0-9]{3})+)(?:\.0*)?")
_NUMBER = re.compile(r"([-+]?)(?:(?:[0-9]+|[0-9]{1,3}(?:,[0-9]{3})+)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,4})?")
_MONEY = re.compile(r"\A([-+]?)[ ]?[$€£¥][ ]?")
_MARKS = "*_`"
_SCALARS = (Integer, Number, Boolean, Choices)


@lru_cache(maxsize=512)
def label_pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Make the pattern of a line that begins with a label: groups `open`, `f0` `f1` ... by label, `shut`, `rest`."""
    labels = "|".join(f"(?P<f{i}>{re.escape(name).replace('_', '[_ -]')})" for i, name in enumerate(names))
    return re.compile(
        rf"[ \t]*(?:(?:[-+*•>]|\#{{1,6}}|\d{{1,3}}[.)])[ \t]+)*(?P<open>[{_MARKS}]{{0,3}})(?:{labels})"
        rf"(?P<shut>[{_MARKS}]{{0,3}})[ \t]*[:：](?P<rest>.*)",
        re.IGNORECASE,
    )


def parse_reply(reply: str, outputs: Sequence[Field], finish_reason: str = "stop") -> dict[str, Any]:
    """Read the outputs out of a reply. Raises `ParseError` that keeps the reply and names the field."""
    whole = _json_object(reply, outputs)
    texts = split_reply(reply, outputs) if whole is None else whole
    cut = " (the reply was cut off at its length limit: raise `max_tokens`)" if finish_reason == "length" else ""
    values: dict[str, Any] = {}
    for field in outputs:
        text = texts.get(field.name)
        try:
            if text is not None:
                values[field.name] = parse_value(text, field.type)
            elif isinstance(field.type, Maybe) and not cut:
                values[field.name] = None
            else:
                where = "the reply has no" if reply.strip() else "the reply is empty: no"
                raise ParseError(f"{where} `{field.name}: {field.type.describe()}`{cut}", raw=reply, field=field.name)
        except MismatchError as error:
            why = f"`{field.name}` in the reply: expected {error.expected}, got {error.got}{cut}"
            raise ParseError(why, raw=reply, field=field.name) from None
    return values


def split_reply(reply: str, outputs: Sequence[Field]) -> Mapping[str, str]:
    """Split a reply at its labels: the text of each output that it has, by name."""
    names = tuple(field.name for field in outputs)
    pattern = label_pattern(names)
    inner = _unfenced(reply)
    if inner is not reply and any(pattern.match(line) for line in inner.split("\n")):
        reply = inner
    parts: list[tuple[str, list[str]]] = [("", [])]
    for line in reply.split("\n"):
        found = pattern.match(line)
        if found is None:
            parts[-1][1].append(line)
        else:
            index = next(i for i in range(len(names)) if found[f"f{i}"] is not None) if len(names) > 1 else 0
            parts.append((names[index], [_rest(found)]))
    texts: dict[str, str] = {}
    for name, lines in parts[1:]:
        texts.setdefault(name, "\n".join(lines).strip())
    before = "\n".join(parts[0][1]).strip()
    if names[0] not in texts and before:
        texts[names[0]] = before
    return texts


def _rest(found: re.Match[str]) -> str:
    """Give what follows the colon; the end of `**label:** value` belongs to the label."""
    opened, rest = found["open"], found["rest"]
    if opened and not found["shut"] and rest.startswith(opened[::-1]):
        return rest[len(opened) :]
    return rest


def _json_object(reply: str, outputs: Sequence[Field]) -> Mapping[str, str] | None:
    """Read a reply that is one JSON object with every output as a key; None for any other."""
    text = _unfenced(reply.strip())
    if not (text.startswith("{") and text.endswith("}")) or isinstance(outputs[0].type, DictOf):
        return None
    try:
        value = load_json(text)
    except MismatchError:
        return None
    if any(field.name not in value for field in outputs):
        return None
    return {field.name: json.dumps(value[field.name], ensure_ascii=False) for field in outputs}


def _unfenced(text: str) -> str:
    fenced = _FENCE.match(text) if "```" in text or "~~~" in text else None
    return fenced[2].strip() if fenced else text


# --- one value -------------------------------------------------------------------------------------------------


def parse_value(text: str, kind: FieldType) -> Any:
    """Read one value of a type. Raises `MismatchError`."""
    text = text.strip()
    inner = kind.inner if isinstance(kind, Maybe) else kind
    if not isinstance(inner, _SCALARS):
        return _once(text, kind)
    try:
        return _once(text, kind)
    except MismatchError:
        line, _, more = text.partition("\n")
        if not more:
            raise
        return _once(line.strip(), kind)


def _once(text: str, kind: FieldType) -> Any:
    if isinstance(kind, Maybe):
        return None if is_null(text) and not _is_choice(text, kind.inner) else _once(text, kind.inner)
    if isinstance(kind, Text):
        return _text(text)
    if isinstance(kind, _SCALARS):
        return _scalar(text, kind)
    return _structure(text, kind)


def is_null(text: str) -> bool:
    """Whether a text says None where that is allowed."""
    return text.rstrip(".").casefold() in NULLS


def _text(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] == '"':
        try:
            decoded = load_json(text)
        except MismatchError:
            return text
        if isinstance(decoded, str):
            return decoded
    return text


def _scalar(text: str, kind: Integer | Number | Boolean | Choices) -> Any:
    if isinstance(kind, Choices):
        return _choice(text, kind)
    bare = _bare(text)
    if isinstance(kind, Boolean):
        word = bare.rstrip(".,;!").casefold()
        if word not in ("true", "yes", "false", "no"):
            raise MismatchError(kind.describe(), show_text(text))
        return word in ("true", "yes")
    return _number(bare, kind, text)


def _number(bare: str, kind: Integer | Number, text: str) -> int | float:
    plain = bare if bare.isdecimal() else _MONEY.sub(r"\1", bare.replace("−", "-"))
    pattern = _INTEGER if isinstance(kind, Integer) else _NUMBER
    if not pattern.fullmatch(plain):
        raise MismatchError(kind.describe(), show_text(text))
    plain = plain.replace(",", "")
    try:
        value = int(plain.partition(".")[0]) if isinstance(kind, Integer) else float(plain)
    except ValueError:  # more digits than Python reads
        raise MismatchError(kind.describe(), show_text(text)) from None
    if isinstance(value, float) and not math.isfinite(value):
        raise MismatchError("a finite number", show_text(text))
    return value


def _bare(text: str) -> str:
    """Take Markdown, quotes and blanks off both ends."""
    return text.strip().strip(_MARKS + "\"'").strip()


def _is_choice(text: str, kind: FieldType) -> bool:
    return isinstance(kind, Choices) and any(choice_text(choice) == text for choice in kind.values)


def _choice(text: str, kind: Choices) -> str | int | bool:
    text = text.strip()
    bare = _bare(_bare(text).rstrip(".,;:!"))
    for wanted in (text, _bare(text), bare):
        for choice in kind.values:
            if choice_text(choice) == wanted:
                return choice
    for wanted in (text, bare):
        alike = [choice for choice in kind.values if choice_text(choice).casefold() == wanted.casefold()]
        if len(alike) == 1:
            return alike[0]
    raise MismatchError(kind.describe(), show_text(text))


def _structure(text: str, kind: FieldType) -> Any:
    inner = _unfenced(text)
    try:
        value = load_json(inner)
    except MismatchError as error:
        items = _bullets(inner) if isinstance(kind, ListOf) else None
        if items is None or not isinstance(kind, ListOf):
            raise MismatchError(kind.describe(), error.got) from None
        return [parse_value(item, kind.item) for item in items]
    return kind.convert(value)


def _bullets(text: str) -> list[str] | None:
    lines = [line for line in text.split("\n") if line.strip()]
    found = [_BULLET.fullmatch(line) for line in lines]
    return [item[1] for item in found if item] if found and all(found) else None


def load_json(text: str) -> Any:
    """Read strict JSON: no NaN, no lone surrogates. Raises `MismatchError`."""
    try:
        value = json.loads(text, parse_constant=_no_constant)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise MismatchError("JSON", show_text(text)) from None
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def show_text(text: str) -> str:
    """Show the start of a text in an error."""
    return show(text).removeprefix("str ") if text else "nothing"
