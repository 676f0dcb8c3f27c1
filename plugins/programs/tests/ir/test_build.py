"""Writing programs in Python: what is left unbound is bound by name, and the program says it all."""

from __future__ import annotations

import pytest

import burnish
from burnish_programs import ir
from burnish_programs.ir._build import WIRE


def search(question: str) -> list[str]:
    """A host function."""
    return [question]


def test_inputs_are_bound_by_name() -> None:
    """The latest earlier output of the name wins, else the program's input; the outputs likewise."""
    program = ir.program(
        "question -> draft",
        ir.Hole("search", "question -> context", impl="host:search"),
        ir.Predict("draft", "question, context -> draft"),
        ir.Predict("refine", "question, draft -> draft"),
        ir.Predict("polish", "draft, question, tone -> draft", {"question": "search.context", "tone": ir.Lit("dry")}),
    )
    expected = {
        "search": {"question": ir.Input("question")},
        "draft": {"question": ir.Input("question"), "context": ir.Out("search", "context")},
        "refine": {"question": ir.Input("question"), "draft": ir.Out("draft", "draft")},
        "polish": {
            "draft": ir.Out("refine", "draft"),
            "question": ir.Out("search", "context"),
            "tone": ir.Lit("dry"),
        },
    }
    assert expected == {name: dict(leaf.bindings) for name, leaf in program.leaves.items()}
    assert {"draft": ir.Out("polish", "draft")} == dict(program.root.out)


def test_containers_are_wired_through() -> None:
    """Branches, arms and children are bound like nodes; a route gives its outputs under its own name."""
    program = ir.program(
        "question -> answer",
        ir.ForkJoin([ir.Predict("one", "question -> left"), ir.Retry(ir.Predict("two", "question -> right"))]),
        ir.Route(
            "pick",
            on="one.left",
            arms={"short": ir.Predict("terse", "left, right -> answer")},
            default=ir.Predict("full", "left, right -> answer"),
        ),
    )
    pair = {"left": ir.Out("one", "left"), "right": ir.Out("two", "right")}
    assert [pair, pair] == [dict(program.leaves[name].bindings) for name in ("terse", "full")]
    assert {"answer": ir.Out("pick", "answer")} == dict(program.root.out)


def test_models_and_caps_are_collected() -> None:
    """In the order they are named; what is said explicitly wins."""
    nodes = [
        ir.Hole("search", "question -> context", impl="host:search", caps=["read", "net"]),
        ir.Predict("draft", "context -> draft", model="small"),
        ir.Predict("answer", "draft -> answer", model="large"),
    ]
    program = ir.program("question -> answer", *nodes)
    assert (("small", "large"), ("read", "net")) == (program.models, program.caps)
    more = ir.program("question -> answer", *nodes, models=["tiny", "small", "large"])
    assert ("tiny", "small", "large") == more.models


def test_nothing_of_the_name() -> None:
    """What cannot be bound is an error that names place and field."""
    with pytest.raises(ir.ProgramError, match=r"nodes\[0\]\.inputs\.context: nothing is bound"):
        ir.program("question -> answer", ir.Predict("answer", "question, context -> answer"))
    with pytest.raises(ir.ProgramError, match=r"out\.answer: missing"):
        ir.program("question -> answer", ir.Predict("draft", "question -> draft"))
    with pytest.raises(ValueError, match="a list of names is wanted"):
        ir.program("q -> a", ir.Predict("x", "q -> a"), models="small")


def test_a_kind_that_cannot_be_bound_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node kind without its entry fails at once, and leaves no input unbound; what is no node is said so."""
    with pytest.raises(ir.ProgramError, match=r"nodes\[0\]: a node is wanted, not str"):
        ir.program("q -> a", "x")  # type: ignore[arg-type]
    monkeypatch.delitem(WIRE, ir.Predict)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="Predict"):
        ir.program("q -> a", ir.Predict("x", "q -> a"))


def test_a_hole_of_a_function() -> None:
    """Its name, where it stands, and the content hash of its code (`burnish.code_print`)."""
    hole = ir.Hole.of(search, "question -> context: list[str]", caps=["read"])
    assert ("search", f"{__name__}:search", ("read",)) == (hole.name, hole.impl, hole.caps)
    assert burnish.code_print(search).fingerprint == hole.code.hash
    assert "find" == ir.Hole.of(search, "question -> context", name="find").name
