"""The file form of what a node's fields hold: one reader and writer each, strict, with errors that name the place."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

import attrs

from burnish.abc import Json, JsonMap
from burnish.errors import UsageError
from burnish_programs._signature import Signature
from burnish_programs.ir._errors import ProgramError
from burnish_programs.ir._nodes import Carry, Input, Lit, Port, port, signature
from burnish_programs.ir._values import Code, DemoRow

P = ParamSpec("P")
T = TypeVar("T")
LARGEST = 2**53
"""Of whole numbers: a float holds each up to here, and no count comes near it."""


@attrs.frozen
class Form:
    """How a field stands in a file: under which key, read and written how."""

    key: str
    read: Callable[[Json, str], Any]
    """Takes the value and its place; raises `ProgramError`."""
    write: Callable[[Any], Json]


def keyed(value: Json, place: str, known: tuple[str, ...] | None = None) -> JsonMap:
    """Take an object, with no other keys than these."""
    if not isinstance(value, dict):
        raise ProgramError(place, f"an object is wanted, not {_shown(value)}")
    for key in value if known is not None else ():
        if known is not None and key not in known:
            raise ProgramError(f"{place}.{key}" if place else key, f"unknown; known here: {', '.join(known)}")
    return value


def listed(value: Json, place: str) -> list[Json]:
    """Take a list."""
    if not isinstance(value, list):
        raise ProgramError(place, f"a list is wanted, not {_shown(value)}")
    return value


def text(value: Json, place: str) -> str:
    """Take a text."""
    if not isinstance(value, str):
        raise ProgramError(place, f"a text is wanted, not {_shown(value)}")
    return value


def flag(value: Json, place: str) -> bool:
    """Take true or false."""
    if not isinstance(value, bool):
        raise ProgramError(place, f"true or false is wanted, not {_shown(value)}")
    return value


def whole(value: Json, place: str) -> int:
    """Take a whole number."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ProgramError(place, f"a whole number is wanted, not {_shown(value)}")
    if abs(value) > LARGEST:
        raise ProgramError(place, f"a whole number up to {LARGEST} is wanted")
    return value


def number(value: Json, place: str) -> float:
    """Take a number, as a float."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise ProgramError(place, f"a number is wanted, not {_shown(value)}")
    if not abs(value) <= sys.float_info.max:  # infinite and NaN ones too
        raise ProgramError(place, "a finite number is wanted, no larger than a float can be")
    return float(value)


def names(value: Json, place: str) -> tuple[str, ...]:
    """Take a list of texts."""
    return tuple(text(item, f"{place}[{i}]") for i, item in enumerate(listed(value, place)))


def data(form: JsonMap, key: str, place: str) -> Json:
    """Take what stands under `key`, or as JSON text under `<key>_json`: the way to write null in TOML."""
    if f"{key}_json" not in form:
        return form[key]
    if key in form:
        raise ProgramError(place, f"`{key}` and `{key}_json` are one thing; write one of them")
    written = text(form[f"{key}_json"], f"{place}.{key}_json")
    try:
        value: Json = json.loads(written)
    except (ValueError, RecursionError) as error:
        raise ProgramError(f"{place}.{key}_json", f"not JSON: {error}") from None
    return value


def write_data(key: str, value: Json) -> JsonMap:
    """Give a value under its key, in the one way that JSON and TOML can hold it."""
    return {f"{key}_json": json.dumps(value, sort_keys=True)} if _holds_null(value) else {key: value}


def _holds_null(value: Json) -> bool:
    if isinstance(value, (list, dict)):
        return any(map(_holds_null, value.values() if isinstance(value, dict) else value))
    return value is None


def read_signature(value: Json, place: str) -> Signature:
    """Read a signature."""
    return made(place, signature, text(value, place))


def read_port(value: Json, place: str) -> Port:
    """Read `$.field`, `node.field` or `{"lit": value}`."""
    if isinstance(value, dict):
        form = keyed(value, place, ("lit", "lit_json"))
        return made(place, Lit, data(form, "lit", place)) if form else made(place, port, "")
    return made(place, port, text(value, place))


def write_port(value: Port) -> Json:
    """Write a port."""
    if isinstance(value, Lit):
        return write_data("lit", value.value)
    return f"$.{value.field}" if isinstance(value, Input) else f"{value.node}.{value.field}"


def read_ports(value: Json, place: str) -> dict[str, Port]:
    """Read ports by field."""
    return {name: read_port(item, f"{place}.{name}") for name, item in keyed(value, place).items()}


def write_ports(value: Mapping[str, Port]) -> Json:
    """Write ports by field."""
    return {name: write_port(item) for name, item in value.items()}


def read_carry(value: Json, place: str) -> dict[str, Carry]:
    """Read what a loop carries."""
    carried = {}
    for name, item in keyed(value, place).items():
        form = keyed(item, f"{place}.{name}", ("start", "then"))
        for key in ("start", "then"):
            if key not in form:
                raise ProgramError(f"{place}.{name}", f"`{key}` is missing: what is carried has a `start` and a `then`")
        start, then = (read_port(form[key], f"{place}.{name}.{key}") for key in ("start", "then"))
        carried[name] = Carry(start, then)
    return carried


def write_carry(value: Mapping[str, Carry]) -> Json:
    """Write what a loop carries."""
    return {name: {"start": write_port(item.start), "then": write_port(item.then)} for name, item in value.items()}


def read_row(value: Json, place: str) -> DemoRow:
    """Read a demo row."""
    form = keyed(value, place, ("input", "input_json", "output", "output_json", "source"))
    if "input" not in form and "input_json" not in form:
        raise ProgramError(place, "a demo has an `input`")
    given = keyed(data(form, "input", place), f"{place}.input")
    output = data(form, "output", place) if "output" in form or "output_json" in form else {}
    source = text(form["source"], f"{place}.source") if "source" in form else None
    return made(place, DemoRow, given, keyed(output, f"{place}.output"), source=source)


def write_row(row: DemoRow) -> JsonMap:
    """Write a demo row."""
    form = {**write_data("input", dict(row.input)), **write_data("output", dict(row.output))}
    return form if row.source is None else {**form, "source": row.source}


def read_rows(value: Json, place: str) -> tuple[DemoRow, ...]:
    """Read demo rows."""
    return tuple(read_row(item, f"{place}[{i}]") for i, item in enumerate(listed(value, place)))


def read_code(value: Json, place: str) -> Code:
    """Read the code of a hole."""
    form = keyed(value, place, ("hash", "source", "lang"))
    return Code(**{key: text(item, f"{place}.{key}") for key, item in form.items()})


def write_code(code: Code) -> JsonMap:
    """Write the code of a hole; what is not said is not in it."""
    return {key: value for key, value in attrs.asdict(code).items() if value != getattr(Code(), key)}


def made(place: str, make: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Make a value; what it refuses is refused here, with the place."""
    try:
        return make(*args, **options)
    except ProgramError:
        raise
    except (UsageError, TypeError) as error:
        raise ProgramError(place, str(error)) from None


def _shown(value: Json) -> str:
    try:
        return json.dumps(value)[:60]
    except (ValueError, TypeError, RecursionError):  # thousands of digits or levels
        return type(value).__name__


def same(value: Any) -> Json:
    """Write what is JSON as it is."""
    plain: Json = value
    return plain


FORMS = {
    "name": Form("name", text, same),
    "sig": Form("signature", read_signature, str),
    "bindings": Form("inputs", read_ports, write_ports),
    "instruction": Form("instruction", text, same),
    "demos": Form("demos", read_rows, lambda rows: [write_row(row) for row in rows]),
    "model": Form("model", text, same),
    "temperature": Form("temperature", number, same),
    "max_tokens": Form("max_tokens", whole, same),
    "impl": Form("impl", text, same),
    "code": Form("code", read_code, write_code),
    "caps": Form("caps", names, list),
    "out": Form("out", read_ports, write_ports),
    "on": Form("on", read_port, write_port),
    "carry": Form("carry", read_carry, write_carry),
    "again": Form("while", read_port, write_port),
    "max_iters": Form("max_iters", whole, same),
    "feedback_field": Form("feedback_field", text, same),
    "threshold": Form("threshold", number, same),
    "max_rounds": Form("max_rounds", whole, same),
    "max_attempts": Form("max_attempts", whole, same),
    "backoff_ms": Form("backoff_ms", whole, same),
    "feedback": Form("feedback", flag, same),
}
"""By the name of a field: one name has one form in every node. Those that hold nodes are in `_form`."""
