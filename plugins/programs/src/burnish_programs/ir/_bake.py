"""Make an overlay's values a program's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from burnish.abc import Json
from burnish_programs.ir._nodes import Leaf
from burnish_programs.ir._overlay import Overlay
from burnish_programs.ir._params import PARAMS
from burnish_programs.ir._program import Program


def bake(program: Program, overlay: Overlay, lineage: str | Mapping[str, Json] | None) -> Program:
    """Give the new program; see `Program.bake`."""
    changes: dict[str, dict[str, Any]] = {}
    for slot, value in overlay.entries(program):
        changes.setdefault(slot.owner, {}).update(PARAMS[slot.kind].bake(value))

    def baked(leaf: Leaf) -> Leaf:
        return attrs.evolve(leaf, **changes.get(leaf.name, {}))

    note = {"note": lineage} if isinstance(lineage, str) else lineage or {}
    parents = {"parent": program.program_hash, "overlay": f"{overlay.hash():016x}"}
    return attrs.evolve(program, root=program.root.with_leaves(baked), lineage={**note, **parents})
