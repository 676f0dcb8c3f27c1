"""What of a program can be tuned: parameters by name, and the state of a predictor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

from burnish._model.candidate import Demo, Overlay
from burnish._model.canonical import Json

ParameterKind = Literal["predictor", "text"]


@attrs.frozen(kw_only=True)
class FieldInfo:
    """One field of a predictor, as a proposer needs to know it."""

    name: str
    type: str = "str"
    description: str = ""


@attrs.frozen(kw_only=True)
class Parameter:
    """One named thing that a candidate's overlay may change.

    A `predictor` has an instruction and demos; a `text` (a prompt file, a tool description) has its text, which an
    overlay's `instruction` replaces whole, and demos only where it says so.
    """

    name: str
    kind: ParameterKind = "predictor"
    instruction: str = ""
    """The text in force."""
    default_instruction: str = ""
    """The text that `clear_instruction` puts back."""
    demos: tuple[Demo, ...] = ()
    inputs: tuple[FieldInfo, ...] = ()
    outputs: tuple[FieldInfo, ...] = ()
    placeholders: tuple[str, ...] = ()
    """Names that the text holds as `{{name}}`; a change must keep each of them."""
    values: Mapping[str, tuple[Json, ...]] = attrs.field(factory=dict)
    """What else an overlay's `values` may change here: the choices by kind, none for any value."""

    takes_demos: bool = attrs.field()
    """Whether an overlay may set demos here: by default where the kind is `predictor`."""

    def lost(self, text: str) -> list[str]:
        """Give the placeholders that a new text no longer holds, as they are written."""
        return [mark for mark in (f"{{{{{name}}}}}" for name in self.placeholders) if mark not in text]

    @takes_demos.default
    def _takes_demos(self) -> bool:
        return self.kind == "predictor"


def _demo_tuple(rows: Sequence[Mapping[str, Any]]) -> tuple[Demo, ...]:
    return tuple(row if isinstance(row, Demo) else Demo(row) for row in rows)


@attrs.frozen(kw_only=True)
class PredictState:
    """The parameters of one predictor as they stand in the program."""

    instruction: str | None = None
    """An override of the declared instruction; None: none."""
    demos: tuple[Demo, ...] = attrs.field(default=(), converter=_demo_tuple)

    def updated(self, overlay: Overlay) -> PredictState:
        """Give the state with an overlay on top."""
        instruction = None if overlay.clear_instruction else self.instruction
        if overlay.instruction is not None:
            instruction = overlay.instruction
        demos = self.demos if overlay.demos is None else tuple(overlay.demos)
        return PredictState(instruction=instruction, demos=demos)
