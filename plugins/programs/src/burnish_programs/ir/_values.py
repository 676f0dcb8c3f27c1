"""The values of the program IR: demo rows, parameter values and slots (seed 000; E48, scenarios 19, 72, 73)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeAlias

import attrs

import burnish
from burnish.abc import Json
from burnish.errors import UsageError

Kind: TypeAlias = Literal["instruction", "demos", "model", "code"]
"""What a parameter is, and the last part of its path: `draft.instruction`, `draft.demos`, `search.code`."""


def frozen_json(value: Mapping[str, Any]) -> Mapping[str, Json]:
    """Take a mapping of names to JSON in as a read-only copy. Raises `UsageError` for what has no JSON form."""
    plain = burnish.to_json(value)
    if not isinstance(plain, dict):
        raise UsageError(f"a mapping of names to values is wanted here, not {type(value).__name__}")
    return MappingProxyType(plain)


def json_field(**options: Any) -> Any:
    """Declare a field of JSON, compared by content: 1, 1.0 and True are three things (E21)."""
    return attrs.field(eq=burnish.fingerprint, **options)


def typed(*kinds: type) -> Any:
    """Check that a field is of one of these types, a bool being no number. Raises `UsageError`."""
    names = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)

    def check(owner: Any, field: attrs.Attribute[Any], value: Any) -> None:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise UsageError(f"{type(owner).__name__}.{field.name} is {names}, not {type(value).__name__}")

    return check


NONE = type(None)


@attrs.frozen
class DemoRow:
    """A labeled example: inputs and outputs apart, so that a name may stand on both sides."""

    input: Mapping[str, Json] = json_field(converter=frozen_json)
    output: Mapping[str, Json] = json_field(factory=dict, converter=frozen_json)
    source: str | None = attrs.field(default=None, kw_only=True, validator=typed(str, NONE))
    """Fingerprint of the row it was made from; it is left out of the prompt that scores that very row."""

    def __burnish_sides__(self) -> tuple[Mapping[str, Json], Mapping[str, Json]]:
        """Say to an engine what goes into the program and what is the metric's."""
        return self.input, self.output


def demo_rows(value: Iterable[DemoRow]) -> tuple[DemoRow, ...]:
    """Take demos in."""
    return tuple(value)


@attrs.frozen
class Instruction:
    """The instruction of a leaf."""

    kind: ClassVar[Kind] = "instruction"
    text: str = attrs.field(validator=typed(str))


@attrs.frozen
class Demos:
    """The demos of a leaf."""

    kind: ClassVar[Kind] = "demos"
    rows: tuple[DemoRow, ...] = attrs.field(default=(), converter=demo_rows)


@attrs.frozen
class ModelRef:
    """The model of a leaf, by the name that the program declares and the environment binds."""

    kind: ClassVar[Kind] = "model"
    model: str = attrs.field(validator=typed(str))


@attrs.frozen
class Code:
    """The code of a hole: its content hash (`burnish.code_print`; empty: any), and the source where it is known."""

    kind: ClassVar[Kind] = "code"
    hash: str = attrs.field(default="", validator=typed(str))
    source: str = attrs.field(default="", validator=typed(str))
    lang: str = attrs.field(default="python", validator=typed(str))


ParamValue: TypeAlias = Instruction | Demos | ModelRef | Code


@attrs.frozen(kw_only=True)
class ParamSlot:
    """One parameter of a program: where it is, what it is, what it holds by default."""

    path: str
    owner: str
    """The leaf that it belongs to."""
    default: ParamValue

    @property
    def kind(self) -> Kind:
        return self.default.kind
