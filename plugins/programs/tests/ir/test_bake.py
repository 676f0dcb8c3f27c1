"""Baking: an overlay's values become a program's defaults (section 4; scenario 72, the half that needs no model)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish_programs import ir

QA = ir.program(
    "question -> answer",
    ir.Hole("search", "question -> context", impl="host:search"),
    ir.Retry(
        ir.Seq(
            [ir.Predict("draft", "question, context -> draft", model="small")],
            {"draft": "draft.draft"},
            name="drafting",
        )
    ),
    ir.Route(
        "pick",
        on="$.question",
        arms={"why": ir.Predict("explain", "draft -> answer", model="large")},
        default=ir.Predict("refine", "question, draft -> answer", model="large"),
    ),
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "draft.instruction": st.text(),
    "explain.model": st.sampled_from(["small", "large"]),
    "search.code": st.fixed_dictionaries({"hash": st.text(min_size=1)}),
    "refine.demos": st.lists(
        st.fixed_dictionaries({"input": st.fixed_dictionaries({"question": st.text()})}), max_size=2
    ),
}


def test_values_become_defaults() -> None:
    """The new program has them, wherever the leaf stands; the old one stays as it is."""
    overlay = QA.overlay({"draft.instruction": "x", "explain.model": "small", "search.code": {"hash": "ab"}})
    before = QA.to_json()
    baked = QA.bake(overlay)
    assert before == QA.to_json()
    assert ir.Instruction("x") == baked.slots["draft.instruction"].default
    assert ir.ModelRef("small") == baked.slots["explain.model"].default
    assert ir.Code("ab") == baked.slots["search.code"].default
    assert QA.slots["refine.model"] == baked.slots["refine.model"]


def test_lineage() -> None:
    """It is the note, and the hashes of parent and overlay as hex, whoever says otherwise (section 4)."""
    overlay = QA.overlay({"draft.instruction": "x"})
    hashes = {"parent": QA.program_hash, "overlay": f"{overlay.hash():016x}"}
    assert {"note": "by hand", **hashes} == dict(QA.bake(overlay, "by hand").lineage)
    assert {"score": 0.5, **hashes} == dict(QA.bake(overlay, {"score": 0.5, "parent": "me", "overlay": 1}).lineage)
    assert hashes == dict(QA.bake(overlay).lineage)
    assert {} == dict(QA.lineage)


def test_the_empty_overlay() -> None:
    """It bakes to the same hash, with lineage stamped; old overlays still fit."""
    baked = QA.bake(QA.overlay())
    assert QA.program_hash == baked.program_hash == baked.lineage["parent"]
    QA.overlay({"draft.instruction": "x"}).check(baked)


def test_old_overlays_do_not_fit() -> None:
    """The hash has changed, so what was made for the parent is refused."""
    overlay = QA.overlay({"draft.instruction": "x"})
    baked = QA.bake(overlay)
    assert QA.program_hash != baked.program_hash
    with pytest.raises(ir.BaseMismatchError):
        baked.bake(overlay)


def test_what_does_not_fit_is_not_baked() -> None:
    """The overlay is checked first: kinds, paths, models."""
    with pytest.raises(ir.KindMismatchError):
        QA.bake(ir.Overlay(base=QA.program_hash, values={"draft.instruction": ir.Demos()}))
    with pytest.raises(ir.UnknownPathError):
        QA.bake(ir.Overlay(base=QA.program_hash, values={"drafter.instruction": ir.Instruction("x")}))


@settings(max_examples=50, deadline=None)
@given(st.fixed_dictionaries({}, optional=VALUES))
def test_laws(values: dict[str, Any]) -> None:
    """What the overlay resolves to, the baked program has by default; round trips keep it; equal bakes are equal."""
    overlay = QA.overlay(values)
    baked = QA.bake(overlay, "law")
    assert {path: overlay.resolve(QA, path) for path in QA.slots} == {p: s.default for p, s in baked.slots.items()}
    assert QA.bake(overlay).program_hash == baked.program_hash
    back = ir.Program.from_json(baked.to_json())
    assert (baked, dict(baked.lineage)) == (back, dict(back.lineage))
