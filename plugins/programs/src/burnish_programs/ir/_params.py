"""The kinds of parameters: how a value of each is checked, written, carried by a candidate, and made a default."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

import burnish
from burnish.abc import Json
from burnish_programs.ir import _fields as f
from burnish_programs.ir._errors import DemoFieldError
from burnish_programs.ir._nodes import Leaf
from burnish_programs.ir._validate import check_model, check_rows
from burnish_programs.ir._values import DemoRow, Demos, Instruction, Kind, ModelRef, ParamValue


@attrs.frozen(kw_only=True)
class ParamKind:
    """What there is to know of one kind. `path` is where a value stands, for errors."""

    check: Callable[[Any, Leaf, tuple[str, ...], str], None]
    """Refuses a value that a leaf of a program with these models does not take."""
    write: Callable[[Any], Json]
    read: Callable[[Json, str], ParamValue]
    put: Callable[[burnish.Candidate, str, Any], burnish.Candidate]
    """Sets a value of the leaf of this name on a candidate."""
    take: Callable[[Any, Leaf, str], ParamValue]
    """Makes a value of what a candidate sets."""
    bake: Callable[[Any], Mapping[str, Any]]
    """The fields of the leaf that hold it as the default."""


def demo_of(row: DemoRow) -> burnish.Demo:
    """Give a row as a core demo: flat, inputs whose name an output has too apart."""
    both = {name: value for name, value in row.input.items() if name in row.output}
    return burnish.Demo({**row.input, **row.output}, source=row.source, shadowed=both)


def row_of(demo: burnish.Demo, leaf: Leaf, path: str) -> DemoRow:
    """Split a flat demo by a leaf's signature. Raises `DemoFieldError` for a field of neither side."""
    inputs = [field.name for field in leaf.sig.inputs]
    outputs = [field.name for field in leaf.sig.outputs]
    for name in [*demo.row, *demo.shadowed]:
        if name not in inputs and name not in outputs:
            raise DemoFieldError(path, name, "field", (*inputs, *outputs))
    given = [n for n in inputs if n in demo.shadowed or (n in demo.row and n not in outputs)]
    return DemoRow(
        {name: demo.input_value(name) for name in given},
        {name: demo.row[name] for name in outputs if name in demo.row},
        source=demo.source,
    )


def _take_demos(demos: tuple[burnish.Demo, ...], leaf: Leaf, path: str) -> Demos:
    return Demos(row_of(demo, leaf, f"{path}[{i}]") for i, demo in enumerate(demos))


PARAMS: Mapping[Kind, ParamKind] = {
    "instruction": ParamKind(
        check=lambda value, leaf, models, path: None,
        write=lambda value: value.text,
        read=lambda form, path: Instruction(f.text(form, path)),
        put=lambda candidate, name, value: candidate.set_instruction(name, value.text),
        take=lambda text, leaf, path: Instruction(text),
        bake=lambda value: {"instruction": value.text},
    ),
    "demos": ParamKind(
        check=lambda value, leaf, models, path: check_rows(value.rows, leaf.sig, path),
        write=lambda value: [f.write_row(row) for row in value.rows],
        read=lambda form, path: Demos(f.read_rows(form, path)),
        put=lambda candidate, name, value: candidate.set_demos(name, map(demo_of, value.rows)),
        take=_take_demos,
        bake=lambda value: {"demos": value.rows},
    ),
    "model": ParamKind(
        check=lambda value, leaf, models, path: check_model(value.model, models, path),
        write=lambda value: value.model,
        read=lambda form, path: ModelRef(f.text(form, path)),
        put=lambda candidate, name, value: candidate.set_value(name, "model", value.model),
        take=lambda form, leaf, path: ModelRef(f.text(form, path)),
        bake=lambda value: {"model": value.model},
    ),
    "code": ParamKind(
        check=lambda value, leaf, models, path: None,
        write=f.write_code,
        read=f.read_code,
        put=lambda candidate, name, value: candidate.set_value(name, "code", f.write_code(value)),
        take=lambda form, leaf, path: f.read_code(form, path),
        bake=lambda value: {"code": value},
    ),
}
