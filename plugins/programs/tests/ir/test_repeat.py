"""Loops and refinements: what they carry, when they end, what they refuse (section 4; scenarios 67, 68)."""

from __future__ import annotations

from typing import Any

import pytest
import trio

import burnish
from burnish import models
from burnish.testing import ScriptedModel
from burnish_programs import ir

LOOP = ir.program(
    "text -> text",
    ir.Loop(
        "improve",
        [ir.Predict("edit", "text -> text, more: bool")],
        carry={"text": ("$.text", "edit.text")},
        again="edit.more",
        max_iters=5,
        out={"text": "edit.text", "before": "improve.text"},
    ),
    out={"text": "improve.text"},
)
REFINE = ir.program(
    "topic -> text",
    ir.Refine(
        ir.Predict("write", "topic, hint -> text"),
        ir.Predict("judge", "topic, text -> score: float, feedback"),
        feedback_field="hint",
        threshold=0.8,
    ),
)


@pytest.mark.parametrize("program", [LOOP, REFINE])
def test_they_come_back_from_files(program: ir.Program) -> None:
    """Equal, of one hash, with the same slots."""
    for back in (ir.Program.from_json(program.to_json()), ir.Program.from_toml(program.to_toml())):
        assert (program, program.program_hash, program.slots) == (back, back.program_hash, back.slots)


@pytest.mark.parametrize(("program", "leaf"), [(LOOP, "edit"), (REFINE, "write"), (REFINE, "judge")])
def test_leaves_inside_are_tuned_and_baked(program: ir.Program, leaf: str) -> None:
    """They have slots like any other (scenario 72)."""
    baked = program.bake(program.overlay({f"{leaf}.instruction": "Do it well."}))
    assert ir.Instruction("Do it well.") == baked.slots[f"{leaf}.instruction"].default


async def test_a_loop_runs_until_it_is_told_to_stop() -> None:
    """Scenario 67: of 5 iterations 2 run; the inputs are v1, then v2; the outputs are those of the last one, v3."""
    model = ScriptedModel(["text: v2\nmore: true", "text: v3\nmore: false"])
    with models(task=model), burnish.capture() as captured:
        assert {"text": "v3"} == dict(await ir.Interpreter(LOOP).run({"text": "v1"}))
    assert [{"text": "v1"}, {"text": "v2"}] == [dict(span.inputs) for span in captured.trace.spans]


async def test_a_loop_is_bounded() -> None:
    """It ends at its bound, whatever the model says, and without a condition."""
    model = ScriptedModel(lambda request: "text: again\nmore: true")
    with models(task=model):
        await ir.Interpreter(LOOP).run({"text": "v1"})
    assert 5 == model.calls
    thrice = ir.program("q -> a", ir.Loop("x", [ir.Predict("y", "q -> a")], max_iters=3, out={"a": "y.a"}))
    model = ScriptedModel(lambda request: "a: 1")
    with models(task=model):
        assert {"a": "1"} == dict(await ir.Interpreter(thrice).run({"q": "1"}))
    assert 3 == model.calls


async def test_the_last_iteration_is_what_is_seen_later() -> None:
    """What the loop gives of what it carries is what its last iteration was given."""
    program = ir.program("text -> before", *LOOP.nodes)
    model = ScriptedModel(["text: v2\nmore: true", "text: v3\nmore: false"])
    with models(task=model):
        assert {"before": "v2"} == dict(await ir.Interpreter(program).run({"text": "v1"}))


async def test_a_refinement_ends_at_its_score() -> None:
    """Scenario 68: judged 0.2, then 0.9; the writer runs twice, and its second hint is the feedback."""
    model = ScriptedModel(
        ["text: dull", "score: 0.2\nfeedback: Be vivid.", "text: vivid", "score: 0.9\nfeedback: Good."]
    )
    with models(task=model), burnish.capture() as captured:
        assert {"text": "vivid"} == dict(await ir.Interpreter(REFINE).run({"topic": "sea"}))
    spans = captured.trace.spans
    assert ["write", "judge", "write", "judge"] == [span.component for span in spans]
    assert ["", "Be vivid."] == [span.inputs["hint"] for span in spans if span.component == "write"]
    assert ["dull", "vivid"] == [span.inputs["text"] for span in spans if span.component == "judge"]


async def test_a_refinement_gives_the_last_round_where_none_is_good_enough() -> None:
    """A missing score is below every threshold; the rounds are bounded."""
    child, judge = REFINE.leaves["write"], ir.Predict("judge", "text -> score: float | None, feedback")
    program = ir.program("topic -> text", ir.Refine(child, judge, feedback_field="hint", threshold=-5, max_rounds=2))
    model = ScriptedModel(["text: 1", "score: null\nfeedback: no", "text: 2", "score: null\nfeedback: no"])
    with models(task=model):
        assert {"text": "2"} == dict(await ir.Interpreter(program).run({"topic": "sea"}))


async def test_runs_at_once_share_nothing() -> None:
    """What is carried and fed back is of one run (section 4: run state is per call)."""

    def reply(request: Any) -> str:
        asked = request.messages[-1].content
        if "score" in request.messages[0].content:
            return f"score: {0.9 if '!' in asked else 0.1}\nfeedback: louder"
        return "text: " + ("loud!" if "louder" in asked else asked.split("topic: ")[1].split()[0])

    interpreter = ir.Interpreter(REFINE)
    outputs: list[Any] = []

    async def run(topic: str) -> None:
        outputs.append(dict(await interpreter.run({"topic": topic})))

    with models(task=ScriptedModel(reply)):
        async with trio.open_nursery() as nursery:
            for topic in ("a!", "b", "c!"):
                nursery.start_soon(run, topic)
    assert [{"text": "a!"}, {"text": "c!"}, {"text": "loud!"}] == sorted(outputs, key=str)


def wrong(place: str, node: ir.Node, out: str = "x.a") -> str:
    """Make a program of one node that is refused at a place; gives why."""
    with pytest.raises(ir.ProgramError) as caught:
        ir.Program(sig="q -> a", root=ir.Seq([node], {"a": out}))
    assert place == caught.value.place
    return caught.value.why


def test_what_a_loop_refuses() -> None:
    """It is bounded; what it carries keeps its type; its condition is a bool; its inner names stay inside."""

    def loop(**options: Any) -> ir.Loop:
        leaf = ir.Predict("y", "q -> a, n: int", {"q": "$.q"})
        return ir.Loop("x", [leaf], **{"max_iters": 2, "out": {"a": "y.a"}, **options})

    ir.Program(sig="q -> a", root=ir.Seq([loop(carry={"a": ("$.q", "y.a")})], {"a": "x.a"}))
    assert "at least 1, not 0" == wrong("nodes[0].max_iters", loop(max_iters=0))
    assert "`while: bool` does not take `n: int`" == wrong("nodes[0].while", loop(again="y.n"))
    assert "`c: str` does not take `n: int`" == wrong("nodes[0].carry.c.then", loop(carry={"c": ("$.q", "y.n")}))
    assert "stands later" in wrong("nodes[0].carry.c.start", loop(carry={"c": ("y.a", "y.a")}))
    assert "cannot see it" in wrong("out.a", loop(), out="y.a")
    form: Any = LOOP.to_json()
    del form["nodes"][0]["carry"]["text"]["then"], form["program_hash"]
    with pytest.raises(ir.ProgramError, match=r"nodes\[0\]\.carry\.text: `then` is missing"):
        ir.Program.from_json(form)


def test_what_a_refinement_refuses() -> None:
    """The judge is a leaf with `score: float` and `feedback`, and the child a leaf that takes it (section 4)."""

    def refine(judge: str = "a -> score: float, feedback", field: str = "hint", **options: Any) -> ir.Refine:
        child = ir.Predict("x", "q, hint: str -> a", {"q": "$.q", "hint": ir.Lit("")})
        leaf = ir.Predict("j", judge, {"a": "x.a"})
        return ir.Refine(child, leaf, **{"feedback_field": field, "threshold": 1, **options})

    ir.Program(sig="q -> a", root=ir.Seq([refine()], {"a": "x.a"}))
    assert "`x` has no such input; it has `q`, `hint`" == wrong("nodes[0].feedback_field", refine(field="tip"))
    assert "`j` has no output `feedback`" in wrong("nodes[0].judge.signature", refine("a -> score: float"))
    assert "does not take `score: str`" in wrong("nodes[0].judge.signature", refine("a -> score, feedback"))
    assert "does not take `feedback: int`" in wrong(
        "nodes[0].judge.signature", refine("a -> score: int, feedback: int")
    )
    assert "at least 1, not 0" == wrong("nodes[0].max_rounds", refine(max_rounds=0))
    form: Any = REFINE.to_json()
    form["nodes"][0]["judge"] = {"kind": "retry", "child": form["nodes"][0]["judge"]}
    del form["program_hash"]
    with pytest.raises(ir.ProgramError, match=r"nodes\[0\]\.judge: a leaf is wanted, not a `retry`"):
        ir.Program.from_json(form)
