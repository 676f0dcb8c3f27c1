"""Candidates: partial changes as frozen data with a canonical hash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from burnish._model.candidate import Candidate, Demo, Overlay, candidate_from_json, demo_from_json
from burnish._model.canonical import NotCanonicalError
from burnish._model.parameter import PredictState
from burnish.errors import UsageError

quick = settings(
    derandomize=True, deadline=None, max_examples=20, database=None, suppress_health_check=[HealthCheck.too_slow]
)
texts, numbers = st.text(max_size=5), st.floats(allow_nan=False, allow_infinity=False) | st.integers()
cells: st.SearchStrategy[Any] = st.none() | st.booleans() | numbers | texts
names = st.sampled_from(["q", "row", "source", "shadowed"])
rows: st.SearchStrategy[dict[str, Any]] = st.dictionaries(names, cells | st.just({}), max_size=4)
demos = st.builds(Demo, rows, source=st.none() | texts, shadowed=rows)
lists = st.none() | st.lists(demos, max_size=3)
changes = st.builds(Overlay, instruction=st.none() | texts, demos=lists)
clears = st.builds(Overlay, clear_instruction=st.just(True), demos=lists)
candidates = st.builds(Candidate, st.dictionaries(texts, changes | clears, max_size=3))


def test_scenario_16() -> None:
    """Hash: any order of building, every kind of change its own, empty is the default, JSON keeps it (scenario 16)."""
    one = Candidate().with_instruction("a", "A").with_instruction("b", "B").set_demos("b", [{"q": 1}])
    other = Candidate().set_demos("b", [{"q": 1}]).with_instruction("b", "B").with_instruction("a", "A")
    assert one.stable_hash == other.stable_hash
    assert one == other
    assert hash(one) == hash(other)
    assert one.stable_hash != one.with_instruction("a", "changed").stable_hash
    assert Candidate().stable_hash == Candidate({}).stable_hash == Candidate({"a": Overlay()}).stable_hash
    assert Candidate() == Candidate({"a": Overlay()})
    cleared, set_ = Candidate().clear_instruction("a"), Candidate().set_instruction("a", "")
    assert 3 == len({cleared.stable_hash, set_.stable_hash, Candidate().stable_hash})
    assert Candidate().set_demos("a", []).stable_hash != Candidate().stable_hash
    read = candidate_from_json(json.loads(json.dumps(one.to_json())))
    assert one.stable_hash == read.stable_hash
    assert one.fingerprint == read.fingerprint


def test_what_is_unset_is_left_alone_and_not_in_the_form() -> None:
    """None means leave alone; the empty candidate is the baseline (E20)."""
    assert Candidate().is_empty
    candidate = Candidate().set_instruction("answer", "Be brief.")
    assert not candidate.is_empty
    assert Overlay(instruction="Be brief.") == candidate.overlays["answer"]
    assert candidate.overlays["answer"].demos is None
    assert {"answer": {"instruction": "Be brief."}} == candidate.to_json()


def test_types_of_demo_values_and_order_of_demos_are_content() -> None:
    """`1`, `1.0`, `True` and `"1"` in a demo in a demo make four candidates; the order of demos matters (E21)."""
    four = [Candidate().set_demos("p", [{"x": value}]) for value in (1, 1.0, True, "1")]
    assert 4 == len({c.stable_hash for c in four})
    assert 4 == len(set(four))
    assert four[0] != four[1]
    forth = Candidate().set_demos("p", [{"x": 1}, {"x": 2}])
    assert forth.stable_hash != Candidate().set_demos("p", [{"x": 2}, {"x": 1}]).stable_hash


def test_nan_in_a_demo_is_refused() -> None:
    """A demo without a canonical form never becomes part of a candidate (E21)."""
    with pytest.raises(NotCanonicalError) as caught:
        Candidate().set_demos("p", [{"x": [float("nan")]}])
    assert "demo.x[0]" == caught.value.path


def test_an_instruction_can_be_cleared_and_demos_removed() -> None:
    """`clear_instruction` puts the default back, `demos=[]` removes them, each undone by setting again (E24)."""
    state = PredictState(instruction="seed", demos=[{"q": "old"}])
    cleared = Candidate().set_instruction("p", "x").clear_instruction("p").set_demos("p", [])
    assert Overlay(clear_instruction=True, demos=[]) == cleared.overlays["p"]
    assert PredictState() == state.updated(cleared.overlays["p"])
    again = cleared.set_instruction("p", "y").overlays["p"]
    assert not again.clear_instruction
    assert PredictState(instruction="y") == state.updated(again)
    assert state == state.updated(Overlay())


def test_an_overlay_cannot_set_and_clear_at_once() -> None:
    """Which of the two wins must never be a question (E24)."""
    with pytest.raises(UsageError, match="not both"):
        Overlay(instruction="x", clear_instruction=True)


def test_candidates_are_frozen() -> None:
    """Each change returns a new candidate; nothing that it holds can be written (E20)."""
    first = Candidate().set_instruction("p", "one").set_demos("p", [{"q": 1}])
    before = first.stable_hash
    second = first.set_instruction("p", "two")
    assert "one" == first.overlays["p"].instruction
    assert first.overlays["p"].demos == second.overlays["p"].demos
    writable: Any = first
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        writable.overlays = {}
    with pytest.raises(TypeError):
        writable.overlays["p"] = Overlay()
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        writable.overlays["p"].instruction = "three"
    with pytest.raises(TypeError):
        writable.overlays["p"].demos[0].row["q"] = 2
    assert before == first.stable_hash == Candidate(dict(first.overlays)).stable_hash


def test_a_demo_does_not_follow_the_row_it_was_made_of() -> None:
    """The row is copied, so that a later change of the user's own object changes no identity (E20)."""
    row = {"q": ["a"]}
    candidate = Candidate().set_demos("p", [row])
    row["q"].append("b")
    row["r"] = []
    assert {"p": {"demos": [{"q": ["a"]}]}} == candidate.to_json()


def test_merge_puts_the_later_one_on_top() -> None:
    """What the later candidate sets wins, what it leaves alone stays, a clear undoes an earlier text."""
    base = Candidate().set_instruction("a", "A").set_demos("a", [{"q": 1}]).set_instruction("b", "B")
    later = Candidate().clear_instruction("a").set_demos("b", [])
    merged = base.merge(later)
    assert Overlay(clear_instruction=True, demos=[{"q": 1}]) == merged.overlays["a"]
    assert Overlay(instruction="B", demos=[]) == merged.overlays["b"]
    assert base == base.merge(Candidate()) == Candidate().merge(base)


@quick
@given(candidates)
def test_json_keeps_hash_and_equality(candidate: Candidate) -> None:
    """The JSON round trip gives back the same candidate, sources and shadowed inputs included (E21, scenario 16)."""
    read = candidate_from_json(json.loads(json.dumps(candidate.to_json())))
    assert candidate == read
    assert candidate.stable_hash == read.stable_hash
    assert candidate.to_json() == read.to_json()


@quick
@given(demos, demos)
def test_demos_share_a_form_only_if_they_are_equal(one: Demo, other: Demo) -> None:
    """No row can pass for the longer form of another demo, whatever its fields are called (E2)."""
    assert (one == other) == (json.dumps(one.to_json(), sort_keys=True) == json.dumps(other.to_json(), sort_keys=True))
    assert one == demo_from_json(one.to_json())


def test_a_row_named_like_the_longer_form_is_no_other_demo() -> None:
    """A demo with fields `row`, `source` and `shadowed` stays apart from a demo with a source (E2)."""
    plain = Demo({"row": {"a": 1}, "source": "s", "shadowed": {}})
    assert plain != Demo({"a": 1}, source="s")
    assert plain.to_json() != Demo({"a": 1}, source="s").to_json()
    assert plain == demo_from_json(plain.to_json())


def test_a_demo_reads_as_its_row_and_keeps_shadowed_inputs() -> None:
    """Where an output has an input's name, the row holds the output and `input_value` still finds the input."""
    demo = Demo({"draft": "better", "q": "?"}, shadowed={"draft": "first"})
    assert {"draft": "better", "q": "?"} == demo
    assert ["draft", "q"] == list(demo)
    assert "first" == demo.input_value("draft")
    assert "?" == demo.input_value("q")
    assert demo.input_value("missing") is None
    assert isinstance(demo, Mapping)


@pytest.mark.parametrize(
    ("form", "where"),
    [
        ([], "a JSON object of overlays"),
        ({"p": []}, "the overlay of `p`"),
        ({"p": {"instructions": "x"}}, "the overlay of `p`"),
        ({"p": {"instruction": 5}}, "the overlay of `p`"),
        ({"p": {"demos": {"q": 1}}}, "the overlay of `p`"),
        ({"p": {"demos": [{"q": 1}, "x"]}}, "demo 1 of `p`"),
        ({"p": {"demos": [{"row": {}, "source": 4, "shadowed": {}}]}}, "demo 0 of `p`"),
        ({"p": {"clear_instruction": "yes"}}, "the overlay of `p`"),
        ({"p": {"clear_instruction": True, "instruction": "x"}}, "not both"),
    ],
)
def test_a_form_that_is_none_is_refused_by_place(form: Any, where: str) -> None:
    """A damaged or hand-written candidate is a usage error that says where."""
    with pytest.raises(UsageError, match=where):
        candidate_from_json(form)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Overlay(instruction=5),  # type: ignore[arg-type]
        lambda: Candidate({"p": {"instruction": "x"}}),  # type: ignore[dict-item]
        lambda: Candidate({1: Overlay(instruction="x")}),  # type: ignore[dict-item]
        lambda: Candidate().set_demos("p", ["no row"]),  # type: ignore[list-item]
        lambda: Candidate().set_demos("p", {"q": 1}),  # type: ignore[dict-item]
    ],
)
def test_values_of_another_type_are_refused(make: Any) -> None:
    """What is no text, overlay or row does not get as far as a hash."""
    with pytest.raises(UsageError):
        make()


PROGRAM = """
from burnish._model.candidate import Candidate
names = {"draft", "answer", "judge", "rank"}
candidate = Candidate()
for name in names:
    candidate = candidate.set_instruction(name, f"Do {name}.").set_demos(name, [{k: 1 for k in names}])
print(candidate.stable_hash, candidate.fingerprint)
"""


@pytest.mark.slow
def test_the_hash_is_the_same_in_another_process() -> None:
    """Another process with another hash seed builds the sets in another order and gets the same hash (E21)."""
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    names = ["answer", "draft", "judge", "rank"]
    here = Candidate()
    for name in names:
        here = here.set_demos(name, [dict.fromkeys(reversed(names), 1)]).set_instruction(name, f"Do {name}.")
    assert f"{here.stable_hash} {here.fingerprint}" == run.stdout.strip()


def test_other_values_and_a_base_are_part_of_the_content() -> None:
    """A value by kind and a base change the hash, come back from JSON, and merge; unset they change nothing (E21)."""
    plain = Candidate().set_instruction("answer", "Be brief.")
    other = plain.set_value("answer", "model", "large")
    based = attrs.evolve(other, base="00ff")
    assert 3 == len({plain.stable_hash, other.stable_hash, based.stable_hash})
    assert {"answer": {"instruction": "Be brief."}} == plain.to_json()
    assert [plain, other, based] == [candidate_from_json(c.to_json()) for c in (plain, other, based)]
    assert based == plain.merge(attrs.evolve(Candidate().set_value("answer", "model", "large"), base="00ff"))
    with pytest.raises(UsageError, match="has `values` that are no object"):
        candidate_from_json({"answer": {"values": 1}})


def test_a_candidate_reads_as_text() -> None:
    """`str` gives each changed text under its name, demos as a line of JSON each; `repr` stays the whole value."""
    candidate = (
        Candidate().set_instruction("answer", "Antworte.\nKurz.").set_demos("answer", [{"q": "ü", "a": 1}])
    )
    text = '[answer]\nAntworte.\nKurz.\ndemo: {"q": "ü", "a": 1}'
    assert text == str(candidate)
    other = candidate.clear_instruction("draft").set_demos("draft", []).set_value("draft", "model", "large")
    assert f'{text}\n\n[draft]\n(the default instruction)\nmodel: "large"\n(no demos)' == str(other)
    assert "(the program as it is)" == str(Candidate())
