"""Programs as JSON and TOML: the same content comes back, and what is wrong is named with its place."""

from __future__ import annotations

import contextlib
import copy
import json
import pickle
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish_programs import ir
from burnish_programs.ir._build import WIRE
from burnish_programs.ir._nodes import DEEPEST, KINDS
from burnish_programs.ir._steps import STEPS
from burnish_programs.ir._validate import CHECKS

QA = ir.program(
    "question -> answer, verdict: int",
    ir.Hole("search", "question -> context: list[str]", impl="host:search", caps=("read",)),
    ir.ForkJoin(
        [
            ir.Predict("draft", "question, context -> draft, kind: Literal['a', 'b']", model="small"),
            ir.Seq([ir.Predict("hint", "question -> hint", model="large")], {"hint": "hint.hint"}, name="side"),
        ]
    ),
    ir.Retry(ir.Predict("answer", "draft, hint -> answer", model="small"), max_attempts=3, backoff_ms=10),
    ir.Route(
        "pick",
        on="draft.kind",
        arms={"a": ir.Hole("check", "answer, style -> verdict: int", {"style": ir.Lit([1, None])}, impl="host:check")},
        default=ir.Predict("judge", "answer -> verdict: int", model="large", temperature=0.5),
    ),
    models=["small", "large"],
    name="qa",
)


def test_one_table_entry_for_each_node_kind() -> None:
    """A node kind that lacks its check, its wiring or its step is found here."""
    kinds = set(KINDS.values())
    assert [kinds] * 3 == [set(CHECKS), set(WIRE), set(STEPS)]


def test_every_node_kind_comes_back() -> None:
    """JSON and TOML give equal programs of equal hash (section 4, scenario 72)."""
    assert QA == ir.Program.from_json(json.loads(json.dumps(QA.to_json())))
    assert QA == ir.Program.from_toml(QA.to_toml())
    assert QA.program_hash == ir.Program.from_toml(QA.to_toml()).program_hash
    assert list(QA.slots) == list(ir.Program.from_toml(QA.to_toml()).slots)


def test_the_hash_is_pinned() -> None:
    """16 hex digits of XXH3-64, the same in every process and release: overlays name their program by it."""
    program = ir.program("question -> answer", ir.Predict("answer", "question -> answer"))
    assert "5ef467e4912f267d" == program.program_hash


def test_order_of_names_is_no_content() -> None:
    """Keys in another order give the same hash; the order of nodes is content."""
    form = QA.to_json()
    assert QA.program_hash == ir.Program.from_json(dict(reversed(form.items()))).program_hash


def test_any_change_changes_the_hash() -> None:
    """Every default and parameter is content (section 4: `program_hash`)."""
    leaf: dict[str, Any] = {"name": "answer", "sig": "question -> answer", "bindings": {"question": "$.question"}}
    changes: list[dict[str, Any]] = [
        {},
        {"instruction": "Answer."},
        {"demos": [ir.DemoRow({"question": "1"}, {"answer": "2"})]},
        {"demos": [ir.DemoRow({"question": 1}, {"answer": "2"})]},
        {"demos": [ir.DemoRow({"question": True}, {"answer": "2"})]},
        {"temperature": 0.0},
        {"max_tokens": 5},
    ]
    hashes = {ir.program("question -> answer", ir.Predict(**leaf, **more)).program_hash for more in changes}
    assert len(changes) == len(hashes)


def test_lineage_is_no_content() -> None:
    """What a program came from is kept in files and left out of hash and equality."""
    baked = QA.bake(QA.overlay(), {"score": None})
    assert QA.program_hash == baked.program_hash
    assert QA == baked
    assert dict(baked.lineage) == dict(ir.Program.from_toml(baked.to_toml()).lineage)


def test_copies_and_pickles() -> None:
    """A program goes to another process by whoever takes it there."""
    assert QA == pickle.loads(pickle.dumps(QA))
    assert QA is copy.deepcopy(QA)
    assert 1 == len({QA, ir.Program.from_json(QA.to_json())})


def test_a_file_reads_well() -> None:
    """TOML that a person would write: one header a node, ports as text, long text as a block, defaults left out."""
    program = ir.program(
        "question -> answer",
        ir.Predict("answer", "question -> answer", instruction='Say "yes"\nor no.\\'),
    )
    expected = f'''program_hash = "{program.program_hash}"
format = 1
name = "program"
signature = "question -> answer"

[[nodes]]
kind = "predict"
name = "answer"
signature = "question -> answer"
inputs = {{question = "$.question"}}
instruction = """
Say "yes"
or no.\\\\"""

[out]
answer = "answer.answer"
'''
    assert expected == program.to_toml()


@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_files(suffix: str, tmp_path: Path) -> None:
    """`save` and `load` go by the name's ending."""
    path = tmp_path / f"qa{suffix}"
    ir.save(QA, path)
    assert QA == ir.load(path)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """The error names the file, and what in it."""
    path = tmp_path / "qa.json"
    path.write_text("{")
    with pytest.raises(ir.ProgramError, match=r"qa\.json: JSON: "):
        ir.load(path)
    path.write_text('{"name": "a", "name": "b"}')
    with pytest.raises(ir.ProgramError, match=r"qa\.json: name: stands twice"):
        ir.load(path)
    path.write_text('{"nodes": ' + "[" * 100_000)
    with pytest.raises(ir.ProgramError, match="nested too deeply"):
        ir.load(path)
    with pytest.raises(ValueError, match="cannot be read"):
        ir.load(tmp_path / "none.toml")


LEAF = '{"kind": "predict", "name": "p", "signature": "q -> a", "inputs": {"q": "$.q"}, "temperature": %s}'
WAIT = '{"kind": "retry", "child": {"kind": "predict", "name": "p", "signature": "q -> a"}, "backoff_ms": %s}'


@pytest.mark.parametrize("number", ["9" * 5000, "-1" + "0" * 400])
@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"format": %s}', "format"),
        ('{"signature": "q -> a", "nodes": [' + LEAF + '], "out": {}}', "nodes[0].temperature"),
        ('{"signature": "q -> a", "nodes": [' + WAIT + '], "out": {}}', "nodes[0].backoff_ms"),
        ('{"signature": %s, "nodes": [], "out": {}}', "signature"),
    ],
)
def test_numbers_that_are_too_large_are_named(text: str, place: str, number: str, tmp_path: Path) -> None:
    """No number of a file makes another error: more digits than Python reads are refused as a whole."""
    path = tmp_path / "p.json"
    path.write_text(text % number)
    with pytest.raises(ir.ProgramError) as caught:
        ir.load(path)
    assert f"{path}: {place if len(number) < 1000 else 'JSON'}" == caught.value.place
    (tmp_path / "p.toml").write_text(f"format = {number}\n")
    with pytest.raises(ir.ProgramError, match=r"p\.toml: "):
        ir.load(tmp_path / "p.toml")


def nested(levels: int, lit: Any = None) -> ir.Program:
    """Give a program of sequences inside of each other."""
    node: ir.Node = ir.Predict("p", "q -> a", {"q": "$.q" if lit is None else ir.Lit(lit)})
    last = "p.a"
    for number in range(levels):
        node, last = ir.Seq([node], {"a": last}, name=f"s{number}"), f"s{number}.a"
    return ir.program("q -> a", node, out={"a": last})


def test_depth_is_bounded(tmp_path: Path) -> None:
    """What can be made can be written and read; deeper nodes are refused with their place, deeper values when saved."""
    deep = nested(DEEPEST - 1)
    for suffix in (".toml", ".json"):
        ir.save(deep, tmp_path / f"p{suffix}")
        assert deep == ir.load(tmp_path / f"p{suffix}")
    for levels in (DEEPEST, 2000):
        with pytest.raises(ir.ProgramError, match=f"nested more than {DEEPEST} levels deep") as caught:
            nested(levels)
        assert caught.value.place.startswith("nodes[0].body[0].")
    value: Any = 1
    for _ in range(400):
        value = [value]
    with contextlib.suppress(ir.ProgramError):
        ir.save(nested(0, value), tmp_path / "p.toml")


def put(form: Any, place: str, value: Any) -> Any:
    """Give a form with a value at a place like `nodes[0].inputs.question`; None takes it out."""
    form = copy.deepcopy(form)
    *way, last = [int(part) if part.isdigit() else part for part in re.findall(r"[^.\[\]]+", place)]
    at = form
    for part in way:
        at = at[part]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return form


@pytest.mark.parametrize(
    ("change", "value", "place"),
    [
        ("format", 2, "format"),
        ("format", "1", "format"),
        ("name", 1, "name"),
        ("extra", 1, "extra"),
        ("nodes", {}, "nodes"),
        ("out", None, "out"),
        ("signature", "question answer", "signature"),
        ("models", ["small", 1], "models[1]"),
        ("caps", "read", "caps"),
        ("lineage", [], "lineage"),
        ("program_hash", "0" * 16, "program_hash"),
        ("nodes[0]", 1, "nodes[0]"),
        ("nodes[0].kind", "tool", "nodes[0].kind"),
        ("nodes[0].kind", None, "nodes[0]"),
        ("nodes[0].name", None, "nodes[0]"),
        ("nodes[0].model", "small", "nodes[0].model"),
        ("nodes[0].code", {"sum": "1"}, "nodes[0].code.sum"),
        ("nodes[0].inputs.question", 1, "nodes[0].inputs.question"),
        ("nodes[0].inputs.question", "question", "nodes[0].inputs.question"),
        ("nodes[0].inputs.question", {}, "nodes[0].inputs.question"),
        ("nodes[0].inputs.question", {"lit": 1, "lit_json": "1"}, "nodes[0].inputs.question"),
        ("nodes[0].inputs.question", {"lit_json": "{"}, "nodes[0].inputs.question.lit_json"),
        ("nodes[1].branches[0].signature", "-> draft", "nodes[1].branches[0].signature"),
        ("nodes[1].branches[0].demos", [{"output": {}}], "nodes[1].branches[0].demos[0]"),
        ("nodes[1].branches[0].demos", [{"input": 1}], "nodes[1].branches[0].demos[0].input"),
        ("nodes[1].branches[1].body[0].name", 3, "nodes[1].branches[1].body[0].name"),
        ("nodes[2].max_attempts", True, "nodes[2].max_attempts"),
        ("nodes[2].feedback", 1, "nodes[2].feedback"),
        ("nodes[2].child", [], "nodes[2].child"),
        ("nodes[3].arms.a.impl", None, "nodes[3].arms.a"),
        ("nodes[3].default.temperature", "hot", "nodes[3].default.temperature"),
    ],
)
def test_what_is_wrong_is_named(change: str, value: Any, place: str) -> None:
    """Strict: unknown keys, missing ones and wrong types are refused, with the place as a reader would point at it."""
    form: Any = put(QA.to_json(), change, value)
    with pytest.raises(ir.ProgramError) as caught:
        ir.Program.from_json(form)
    assert place == caught.value.place
    assert str(caught.value).startswith(f"{place}: ")


def test_reading_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hole's function is named, never looked up (the rule on trust)."""
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    program = ir.program("q -> a", ir.Hole("hole", "q -> a", impl="trap:function"))
    assert program == ir.Program.from_toml(program.to_toml())


# --- what hypothesis finds ----------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
ROW = st.builds(
    ir.DemoRow,
    st.fixed_dictionaries({"q": JSON}),
    st.fixed_dictionaries({}, optional={"a": JSON}),
    source=st.none() | TEXT,
)
SIGNATURES = ["q -> a", "q -> a, b: list[int] | None", "q -> a: str, c: Literal['x -> y:', 'z,\"']"]


@st.composite
def programs(draw: st.DrawFn) -> ir.Program:
    """Chains of predictors in all kinds of containers."""
    nodes: list[ir.Node] = []
    last = "$.q"
    for i in range(draw(st.integers(1, 3))):
        source = draw(st.sampled_from(["$.q", last]) | st.builds(ir.Lit, JSON))
        leaf = ir.Predict(
            f"n{i}",
            draw(st.sampled_from(SIGNATURES)),
            {"q": source},
            instruction=draw(st.none() | TEXT),
            demos=draw(st.lists(ROW, max_size=2)),
            temperature=draw(st.none() | st.floats(0, 2)),
        )
        last = f"n{i}.a"
        wrap = draw(st.sampled_from(["bare", "retry", "seq"]))
        if wrap == "seq":
            nodes.append(ir.Seq([leaf], {"a": last}, name=f"s{i}"))
            last = f"s{i}.a"
        else:
            nodes.append(ir.Retry(leaf) if wrap == "retry" else leaf)
    caps = draw(st.lists(st.text("abc.", min_size=1), unique=True, max_size=2).filter(lambda n: all(map(str.strip, n))))
    return ir.Program(name=draw(TEXT), sig="q -> a", root=ir.Seq(nodes, {"a": last}), caps=caps)


@settings(max_examples=15, deadline=None)
@given(programs())
def test_round_trips(program: ir.Program) -> None:
    """Whatever a program holds comes back from both forms, and has the same hash and slots."""
    written = json.dumps(program.to_json())
    for back in (ir.Program.from_json(json.loads(written)), ir.Program.from_toml(program.to_toml())):
        assert program == back
        assert program.program_hash == back.program_hash
        assert program.slots == back.slots


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(TEXT, JSON, max_size=4))
def test_toml_holds_what_json_holds(form: dict[str, Any]) -> None:
    """The writer of TOML loses nothing but null, which it refuses."""
    from burnish_programs.ir._toml import dumps

    if "null" in json.dumps(form):
        return
    assert json.dumps(form, sort_keys=True) == json.dumps(tomllib.loads(dumps(form)), sort_keys=True)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_form_breaks_the_reader(data: st.DataObject) -> None:
    """Any JSON in any place gives a program or a `ProgramError`, nothing else."""
    places = ["nodes", "out", "models", "lineage", "nodes[0]", "nodes[0].inputs", "nodes[1].branches", "nodes[3].arms"]
    form = put(QA.to_json(), data.draw(st.sampled_from(places)), data.draw(JSON.filter(lambda v: v is not None)))
    form.pop("program_hash")
    with contextlib.suppress(ir.ProgramError):
        ir.Program.from_json(form)
