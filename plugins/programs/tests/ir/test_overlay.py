"""Overlays of the IR: for one program, checked by kind, lossless as candidates (section 4; scenario 73; E49, E52)."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import burnish
from burnish_programs import ir

QA = ir.program(
    "question -> answer",
    ir.Hole("search", "question -> context", impl="host:search"),
    ir.Predict("draft", "question, context -> draft", instruction="Draft.", model="small"),
    ir.Predict("refine", "question, draft -> draft, answer", model="large"),
)
ROW = ir.DemoRow({"question": "q", "draft": "old"}, {"draft": "new", "answer": "a"})


def test_slots() -> None:
    """Paths are `<leaf>.<kind>`, in declared order; defaults are what the program says (section 4: `ParamSlot`)."""
    expected = [
        ("search.code", "search", ir.Code()),
        ("draft.instruction", "draft", ir.Instruction("Draft.")),
        ("draft.demos", "draft", ir.Demos()),
        ("draft.model", "draft", ir.ModelRef("small")),
        (
            "refine.instruction",
            "refine",
            ir.Instruction("Given the fields `question`, `draft`, produce the fields `draft`, `answer`."),
        ),
        ("refine.demos", "refine", ir.Demos()),
        ("refine.model", "refine", ir.ModelRef("large")),
    ]
    assert expected == [(slot.path, slot.owner, slot.default) for slot in QA.slots.values()]
    assert ["code", "instruction", "demos", "model"] == [slot.kind for slot in QA.slots.values()][:4]


def test_a_lone_model_is_implied_and_none_is_no_slot() -> None:
    """One declared model is every leaf's; without any, the ambient model serves and there is no slot (section 4)."""
    leaf = ir.Predict("a", "q -> a")
    assert ir.ModelRef("m") == ir.program("q -> a", leaf, models=["m"]).slots["a.model"].default
    assert "a.model" not in ir.program("q -> a", leaf).slots


def test_set_get_resolve() -> None:
    """`set` gives a new overlay; `resolve` falls back to the slot's default."""
    empty = QA.overlay()
    one = empty.set(QA, "draft.instruction", ir.Instruction("Be short."))
    assert empty.is_empty
    assert not one.is_empty
    assert ir.Instruction("Be short.") == one.get("draft.instruction")
    assert None is one.get("draft.demos")
    assert ir.Instruction("Be short.") == one.resolve(QA, "draft.instruction")
    assert ir.Instruction("Draft.") == empty.resolve(QA, "draft.instruction")
    assert [("draft.instruction", ir.Instruction("Be short."))] == [(s.path, v) for s, v in one.entries(QA)]


def test_base_is_checked_always() -> None:
    """A stale overlay is refused by `set`, `resolve`, `check`, `bake`: typed setters too (section 4, WE; E52)."""
    other = QA.bake(QA.overlay({"draft.instruction": "Other."}))
    stale = QA.overlay({"draft.model": "large"})
    message = f"overlay minted against program {QA.program_hash}, run against {other.program_hash}"
    for use in (
        lambda: stale.set(other, "draft.instruction", ir.Instruction("x")),
        lambda: stale.resolve(other, "draft.instruction"),
        lambda: stale.check(other),
        lambda: other.bake(stale),
        lambda: ir.Overlay.from_candidate(other, stale.to_candidate()),
    ):
        with pytest.raises(ir.BaseMismatchError, match=message) as caught:
            use()
        assert (other.program_hash, QA.program_hash) == (caught.value.expected, caught.value.got)
    with pytest.raises(ir.BaseMismatchError, match="overlay minted against program"):
        ir.Overlay().check(QA)


def test_kind_is_checked() -> None:
    """A value of another kind is refused with path, expected and got (scenario 73)."""
    with pytest.raises(ir.KindMismatchError) as caught:
        QA.overlay().set(QA, "draft.demos", ir.Instruction("x"))
    error = caught.value
    assert ("draft.demos", "demos", "instruction") == (error.path, error.expected, error.got)
    with pytest.raises(ir.KindMismatchError, match="`str`"):
        QA.overlay().set(QA, "draft.instruction", "x")  # type: ignore[arg-type]
    by_hand = ir.Overlay(base=QA.program_hash, values={"draft.model": ir.Demos()})
    with pytest.raises(ir.KindMismatchError):
        by_hand.check(QA)


def test_unknown_paths_and_models() -> None:
    """The error names what there is."""
    with pytest.raises(ir.UnknownPathError, match=r"no slot `drafter\.instruction`; it has: `search\.code`") as caught:
        QA.overlay().set(QA, "drafter.instruction", ir.Instruction("x"))
    assert "drafter.instruction" == caught.value.path
    with pytest.raises(ir.ProgramError, match=r"draft\.model: `huge` is none of the program's models: `small`"):
        QA.overlay({"draft.model": "huge"})
    with pytest.raises(ir.UnknownPathError):
        QA.overlay().resolve(QA, "draft.tools")


def test_demo_fields_are_checked() -> None:
    """A demo has the signature's fields, each on its side."""
    with pytest.raises(ir.DemoFieldError, match="has the input `context`, the signature has question, draft") as caught:
        QA.overlay({"refine.demos": [{"input": {"context": "x"}}]})
    assert ("refine.demos[0]", "context", "input") == (caught.value.path, caught.value.field, caught.value.side)
    with pytest.raises(ir.DemoFieldError, match="the output `question`"):
        QA.overlay({"refine.demos": [{"input": {"question": "x"}, "output": {"question": "x"}}]})
    with pytest.raises(ir.ProgramError, match=r"refine\.demos\[0\]\.output\.draft: missing"):
        QA.overlay({"refine.demos": [{"input": {"draft": "x"}}]})


def test_hash() -> None:
    """The order of setting does not matter, base and content do (section 4: `hash()`; E21)."""
    one = QA.overlay({"draft.instruction": "x", "draft.model": "large"})
    assert one.hash() == QA.overlay({"draft.model": "large", "draft.instruction": "x"}).hash()
    others = [
        QA.overlay(),
        QA.overlay({"draft.instruction": "x"}),
        QA.overlay({"draft.demos": []}),
        QA.overlay({"refine.instruction": "x"}),
        ir.Overlay(values=one.values),
    ]
    assert 6 == len({one.hash(), *(other.hash() for other in others)})
    assert one == copy.copy(one)
    assert one.hash() == one.to_candidate().stable_hash


def test_named_round_trip_keeps_the_hash() -> None:
    """By path, as JSON; read back for the program, each value verified (scenario 73)."""
    code = ir.Code("ab", "def f(): ...")
    overlay = QA.overlay().set(QA, "refine.demos", ir.Demos([ROW])).set(QA, "search.code", code)
    assert overlay == ir.Overlay.from_named(QA, overlay.to_named())
    assert overlay.hash() == ir.Overlay.from_named(QA, overlay.to_named()).hash()
    with pytest.raises(ir.ProgramError, match=r"refine\.demos: a list is wanted, not \"x\""):
        ir.Overlay.from_named(QA, {"refine.demos": "x"})


def test_values_carry_over_by_name() -> None:
    """`to_named` has no base: the values fit another program that has the paths."""
    overlay = QA.overlay({"draft.instruction": "x"})
    other = QA.bake(overlay)
    assert other.program_hash == ir.Overlay.from_named(other, overlay.to_named()).base


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "draft.instruction": st.builds(ir.Instruction, st.text()),
    "draft.model": st.sampled_from([ir.ModelRef("small"), ir.ModelRef("large")]),
    "search.code": st.builds(ir.Code, st.text(), st.text()),
    "refine.demos": st.builds(
        ir.Demos,
        st.lists(
            st.builds(
                ir.DemoRow,
                st.fixed_dictionaries({}, optional={"question": st.text() | st.integers(), "draft": st.text()}),
                st.fixed_dictionaries({"draft": st.none() | st.text()}, optional={"answer": st.booleans()}),
                source=st.none() | st.text(),
            ),
            max_size=3,
        ),
    ),
}


@settings(max_examples=60, deadline=None)
@given(st.fixed_dictionaries({}, optional=VALUES))
def test_candidates_lose_nothing(values: dict[str, Any]) -> None:
    """An overlay is a candidate with a base, and back: an equal overlay of the same hash (E49)."""
    overlay = ir.Overlay(base=QA.program_hash, values=values)
    overlay.check(QA)
    candidate = overlay.to_candidate()
    assert QA.program_hash == candidate.base
    back = ir.Overlay.from_candidate(QA, candidate)
    assert overlay == back
    assert overlay.hash() == back.hash() == candidate.stable_hash
    assert overlay == ir.Overlay.from_named(QA, overlay.to_named())


def test_candidates_of_strategies() -> None:
    """Names and flat demos become paths and split rows; a candidate without a base fits (section 4: bridge)."""
    demo = {"question": "q", "answer": "a"}
    candidate = burnish.Candidate().set_instruction("draft", "x").set_demos("refine", [demo])
    expected = QA.overlay(
        {"draft.instruction": "x", "refine.demos": [{"input": {"question": "q"}, "output": {"answer": "a"}}]}
    )
    assert expected == ir.Overlay.from_candidate(QA, candidate)


def test_clearing_is_not_lost() -> None:
    """A cleared instruction is the program's own, removed demos are none, whatever the program has (section 2: 4)."""
    program = QA.bake(QA.overlay({"refine.demos": [{"input": {"question": "q"}}]}))
    candidate = burnish.Candidate().clear_instruction("draft").set_demos("refine", [])
    overlay = ir.Overlay.from_candidate(program, candidate)
    assert program.slots["draft.instruction"].default == overlay.resolve(program, "draft.instruction")
    assert ir.Demos(()) == overlay.resolve(program, "refine.demos")


def test_candidates_that_do_not_fit() -> None:
    """An unknown leaf, an unknown kind, a demo field of neither side: refused by name (section 4: bridge)."""
    with pytest.raises(ir.UnknownPathError, match="no slot `drafter`; it has: `search`, `draft`, `refine`"):
        ir.Overlay.from_candidate(QA, burnish.Candidate().set_instruction("drafter", "x"))
    with pytest.raises(ir.UnknownPathError, match=r"draft\.tools"):
        ir.Overlay.from_candidate(QA, burnish.Candidate().set_value("draft", "tools", []))
    with pytest.raises(ir.UnknownPathError, match=r"search\.instruction"):
        ir.Overlay.from_candidate(QA, burnish.Candidate().set_instruction("search", "x"))
    with pytest.raises(ir.DemoFieldError, match="the field `mood`"):
        ir.Overlay.from_candidate(QA, burnish.Candidate().set_demos("draft", [{"mood": "x"}]))
    with pytest.raises(ValueError, match="by its own name"):
        ir.Overlay.from_candidate(QA, burnish.Candidate().set_value("draft", "demos", []))
