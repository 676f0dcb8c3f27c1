"""Programs as JSON and TOML: strict, with errors that name place and field; reading imports and runs nothing."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import attrs

from burnish.abc import Json, JsonMap
from burnish.errors import UsageError
from burnish_programs.ir import _fields as f
from burnish_programs.ir._errors import ProgramError
from burnish_programs.ir._nodes import KINDS, Node, Seq
from burnish_programs.ir._toml import dumps

if TYPE_CHECKING:
    from burnish_programs.ir._program import Program

DEEP = "nested too deeply"


def read_node(value: Json, place: str) -> Node:
    """Read a node of any kind, and all below it."""
    form = f.keyed(value, place)
    if "kind" not in form:
        raise ProgramError(place, f"`kind` is missing: one of {', '.join(KINDS)}")
    kind = KINDS.get(f.text(form["kind"], f"{place}.kind"))
    if kind is None:
        raise ProgramError(f"{place}.kind", f"unknown kind {form['kind']!r}; known: {', '.join(KINDS)}")
    fields = {FORMS[field.name].key: field for field in _attributes(kind)}
    f.keyed(form, place, ("kind", *fields))
    values: dict[str, Any] = {}
    for key, field in fields.items():
        if key in form:
            values[field.name] = FORMS[field.name].read(form[key], f"{place}.{key}")
        elif field.default is attrs.NOTHING:
            raise ProgramError(place, f"`{key}` is missing; a `{kind.kind}` has: {', '.join(fields)}")
    node: Node = f.made(place, kind, **values)
    return node


def write_node(node: Node) -> JsonMap:
    """Write a node and all below it; what is as it is by default is left out."""
    form: JsonMap = {"kind": node.kind}
    for field in _attributes(type(node)):
        value = getattr(node, field.name)
        if value != _default(field):
            form[FORMS[field.name].key] = FORMS[field.name].write(value)
    return form


def _attributes(kind: type[Node]) -> tuple[attrs.Attribute[Any], ...]:
    return tuple(attrs.fields(cast("Any", kind)))


def _default(field: attrs.Attribute[Any]) -> Any:
    default: Any = field.default
    return default.factory() if hasattr(default, "factory") else default


def _read_nodes(value: Json, place: str) -> tuple[Node, ...]:
    return tuple(read_node(item, f"{place}[{i}]") for i, item in enumerate(f.listed(value, place)))


def _write_nodes(nodes: tuple[Node, ...]) -> Json:
    return [write_node(node) for node in nodes]


def _read_arms(value: Json, place: str) -> dict[str, Node]:
    return {name: read_node(item, f"{place}.{name}") for name, item in f.keyed(value, place).items()}


def _write_arms(arms: Mapping[str, Node]) -> Json:
    return {name: write_node(arm) for name, arm in arms.items()}


FORMS = {
    **f.FORMS,
    "body": f.Form("body", _read_nodes, _write_nodes),
    "branches": f.Form("branches", _read_nodes, _write_nodes),
    "arms": f.Form("arms", _read_arms, _write_arms),
    "default": f.Form("default", read_node, write_node),
    "judge": f.Form("judge", read_node, write_node),
    "child": f.Form("child", read_node, write_node),
}

_KEYS = (
    "format",
    "name",
    "program_hash",
    "signature",
    "models",
    "caps",
    "lineage",
    "lineage_json",
    "nodes",
    "out",
)


def write_content(program: Program) -> JsonMap:
    """Write what a program is: what its hash is made of."""
    form: JsonMap = {"format": program.format, "name": program.name, "signature": str(program.sig)}
    if program.models:
        form["models"] = list(program.models)
    if program.caps:
        form["caps"] = list(program.caps)
    return {**form, "nodes": _write_nodes(program.nodes), "out": f.write_ports(program.root.out)}


def write_program(program: Program) -> JsonMap:
    """Write a program, its hash and its lineage."""
    form: JsonMap = {"program_hash": program.program_hash, **write_content(program)}
    return {**form, **f.write_data("lineage", dict(program.lineage))} if program.lineage else form


def read_program(value: Json) -> Program:
    """Read a program and check it. Raises `ProgramError`."""
    with _bounded("nodes"):
        return _read_program(value)


@contextmanager
def _bounded(place: str) -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise ProgramError(place, DEEP) from None


def _read_program(value: Json) -> Program:
    from burnish_programs.ir._program import Program

    form = f.keyed(value, "", _KEYS)
    _check_format(form)
    for key in ("signature", "nodes", "out"):
        if key not in form:
            raise ProgramError(key, "missing; a program has `signature`, `nodes` and `out`")
    lineage = f.data(form, "lineage", "lineage") if "lineage" in form or "lineage_json" in form else {}
    program = Program(
        name=f.text(form.get("name", "program"), "name"),
        sig=f.read_signature(form["signature"], "signature"),
        root=Seq(body=_read_nodes(form["nodes"], "nodes"), out=f.read_ports(form["out"], "out")),
        models=f.names(form.get("models", []), "models"),
        caps=f.names(form.get("caps", []), "caps"),
        lineage=f.keyed(lineage, "lineage"),
    )
    said = form.get("program_hash", program.program_hash)
    if said != program.program_hash:
        why = f"says {said}, the content has {program.program_hash}: it was changed by hand; leave the line out"
        raise ProgramError("program_hash", why)
    return program


def _check_format(form: JsonMap) -> None:
    from burnish_programs.ir._program import Program

    found = f.whole(form.get("format", Program.format), "format")
    if found != Program.format:
        raise ProgramError("format", f"this burnish reads format {Program.format}, the file has {found}")


def to_toml(program: Program) -> str:
    """Write a program as TOML. Raises `UsageError` for null, and for values that are nested too deeply."""
    with _bounded("TOML"):
        return dumps(write_program(program))


def from_toml(written: str) -> Program:
    """Read a program that was written as TOML."""
    try:
        with _bounded("TOML"):
            form = tomllib.loads(written)
    except ValueError as error:  # an integer of thousands of digits, too
        raise _unread("TOML", error) from None
    return read_program(form)


def load(path: str | Path) -> Program:
    """Read a program from a `.toml` or `.json` file. Raises `ProgramError` that names file, place and field."""
    path = Path(path)
    try:
        written = path.read_text("utf-8")
        return from_toml(written) if path.suffix == ".toml" else read_program(_loads(written))
    except ProgramError as error:
        raise ProgramError(f"{path}: {error.place}", error.why) from None
    except OSError as error:
        raise UsageError(f"the program {str(path)!r} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"the program {str(path)!r} is not UTF-8: byte {error.start} cannot be read") from None


def save(program: Program, path: str | Path) -> None:
    """Write a program to a `.toml` or `.json` file, in place of what is there."""
    path = Path(path)
    path.write_text(to_toml(program) if path.suffix == ".toml" else _to_json_text(program), "utf-8")


def _to_json_text(program: Program) -> str:
    with _bounded("JSON"):
        return json.dumps(write_program(program), indent=2) + "\n"


def _loads(written: str) -> Json:
    try:
        with _bounded("JSON"):
            value: Json = json.loads(written, object_pairs_hook=_once)
    except ValueError as error:
        raise _unread("JSON", error) from None
    return value


def _unread(place: str, error: ValueError) -> ProgramError:
    return error if isinstance(error, ProgramError) else ProgramError(place, str(error))


def _once(pairs: list[tuple[str, Json]]) -> JsonMap:
    form = dict(pairs)
    if len(form) < len(pairs):
        twice = next(key for key, _ in pairs if [k for k, _ in pairs].count(key) > 1)
        raise ProgramError(twice, "stands twice in one object")
    return form
