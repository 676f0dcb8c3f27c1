"""What a run leaves behind: a claimed directory, and `best.json`, which loads anywhere and refuses what it is not."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import trio

import burnish as b
from burnish import Candidate, errors
from burnish._edges.run_dir import claimed
from burnish._edges.saved import save

from ._kit import Leaf, told
from ._search import Tries, program, split, tune

RICH = (
    told("answer", "Réponds: {{q}}\n\"quoted\" \u2028 \ud83d")
    .set_demos("answer", [b.Demo({"q": 1, "a": [1.5, None, True]}, source="f" * 32), {"q": "x"}])
    .clear_instruction("other")
)


@pytest.mark.parametrize("candidate", [Candidate(), told("answer", "short"), RICH])
def test_a_saved_candidate_comes_back(candidate: Candidate, tmp_path: Path) -> None:
    """Round trip by content, scores and readable texts included; half a surrogate pair is no obstacle.

    The texts are those that the program will show: the declared one where the candidate clears an override.
    """
    path = tmp_path / "best.json"
    parameters = {
        "answer": b.Parameter(name="answer", instruction="seed"),
        "other": b.Parameter(name="other", instruction="set by hand", default_instruction="declared"),
    }
    save(path, candidate, parameters, validation=0.5, baseline=None)
    saved = b.load(path)
    assert (candidate, candidate.stable_hash) == (saved.candidate, saved.candidate.stable_hash)
    assert ({"validation": 0.5, "baseline": None}, str(path)) == (saved.scores, saved.path)
    overlay = candidate.overlays.get("answer")
    text = "seed" if overlay is None else overlay.instruction
    other = "declared" if candidate is RICH else "set by hand"
    assert {"answer": text, "other": other} == json.loads(path.read_text("utf-8"))["texts"]


def test_a_saved_candidate_knows_its_rows(tmp_path: Path) -> None:
    """The rows that it was found on are known again by their values, under other names of the fields too."""
    path = tmp_path / "best.json"
    rows = [{"q": "one", "a": 1}, {"q": "two", "a": 2}]
    save(path, told("answer", "short"), {}, seen=b.row_digests(rows), validation=0.5)
    saved = b.load(path)
    assert frozenset(b.row_digests([{"answer": 2, "question": "two"}, *rows[:1]])) == saved.seen
    assert {"validation": 0.5} == saved.scores
    assert saved.seen is not None
    assert not saved.seen & {*b.row_digests([{"q": "two", "a": 1}, {"q": "two", "a": "2"}, {"q": "two"}])}
    save(path, told("answer", "short"), {})
    assert b.load(path).seen is None


def test_applying_is_all_or_nothing(tmp_path: Path) -> None:
    """A program that lacks a predictor is refused, and stays as it is."""
    path = tmp_path / "best.json"
    save(path, told("answer", "new").set_instruction("zeta", "x"), {})
    given = program()
    with pytest.raises(errors.UnknownParameterError, match="`zeta`"):
        b.load(path).apply(given)
    assert "0.1" == given.leaves["answer"].instruction
    given.leaves["zeta"] = Leaf()
    assert given is b.load(path).apply(given)
    assert ("new", "x") == (given.leaves["answer"].instruction, given.leaves["zeta"].instruction)


def broken(**changes: Any) -> str:
    form = {"format": "burnish.candidate", "version": 1, "candidate": {"answer": {"instruction": "x"}}, **changes}
    return json.dumps({key: value for key, value in form.items() if value is not ...})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is no JSON"),
        ("{", "is no JSON"),
        ("\x80\x81", "no saved candidate|is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[]", 'it lacks `"format": "burnish.candidate"`'),
        ('{"name": "package"}', 'it lacks `"format": "burnish.candidate"`'),
        (broken(version=2), "has version 2; this burnish reads version 1: upgrade"),
        (broken(version=...), "has version None"),
        (broken(candidate=...), "a candidate is a JSON object"),
        (broken(candidate={"answer": {"instruction": 3}}), "`answer`"),
        (broken(candidate={"answer": {"prompt": "x"}}), "`answer`"),
        (broken(hash="0" * 16), "the file was changed"),
    ],
)
def test_what_is_no_saved_candidate_is_refused(text: str, why: str, tmp_path: Path) -> None:
    """Foreign, damaged, newer, tampered with: a `StoreError` that names the file."""
    path = tmp_path / "best.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(errors.StoreError, match=why) as caught:
        b.load(path)
    assert str(path) == caught.value.path
    assert str(path) in str(caught.value)


def test_a_missing_file_is_a_store_error(tmp_path: Path) -> None:
    """So is a directory."""
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(errors.StoreError, match="cannot be read"):
            b.load(path)


def test_a_tampered_winner_is_noticed(tmp_path: Path) -> None:
    """Whoever edits the candidate by hand is told that its hash does not fit; editing the scores is no matter."""
    tune(program(), Tries("0.5"), split(train=1, val=2), run_dir=tmp_path)
    path = tmp_path / "best.json"
    form = json.loads(path.read_text("utf-8"))
    form["scores"]["validation"] = 1.0
    path.write_text(json.dumps(form))
    assert told("answer", "0.5") == b.load(path).candidate
    form["candidate"]["answer"]["instruction"] = "0.6"
    path.write_text(json.dumps(form))
    with pytest.raises(errors.StoreError, match="the file was changed"):
        b.load(path)


def test_a_directory_holds_one_run(tmp_path: Path) -> None:
    """Taken while a run is in it, whoever asks; afterwards it holds a run already."""
    run_dir, inside, go = tmp_path / "a" / "run", threading.Event(), threading.Event()

    async def wait(text: str) -> None:
        inside.set()
        await trio.to_thread.run_sync(go.wait)

    def run() -> None:
        tune(program(), Tries(before=wait), split(train=1), run_dir=run_dir)

    thread = threading.Thread(target=run)
    thread.start()
    assert inside.wait(10)
    with pytest.raises(errors.StoreError, match="another process runs in"):
        tune(program(), Tries(), split(train=1), run_dir=run_dir)
    go.set()
    thread.join(10)
    with pytest.raises(errors.UsageError, match="holds a run already; choose another directory"):
        tune(program(), Tries(), split(train=1), run_dir=str(run_dir))
    assert {"burnish.lock", "run.db", "best.json"} == {p.name for p in run_dir.iterdir()}
    facts = json.loads((run_dir / "burnish.lock").read_text("utf-8"))
    assert ("burnish.run", 0) == (facts["format"], facts["seed"])
    assert {"train": 1, "validation": 0, "test": 0} == facts["counts"]


def test_a_directory_that_cannot_be_made_is_a_store_error(tmp_path: Path) -> None:
    """Before anything is spent."""
    (tmp_path / "file").write_text("")
    given = program()
    with pytest.raises(errors.StoreError, match="cannot be made"):
        tune(given, Tries(), split(train=1), run_dir=tmp_path / "file" / "run")
    assert 0 == given.ran


def test_a_claim_ends_with_its_block(tmp_path: Path) -> None:
    """Also where the block fails; a directory without a run may be claimed again."""
    with pytest.raises(LookupError), claimed(tmp_path):
        raise LookupError
    with claimed(tmp_path) as held:
        assert tmp_path == held
    with claimed(None) as nothing:
        assert nothing is None


@pytest.mark.parametrize("name", ["burnish.lock", "run.db", "run.db-wal", "best.json"])
@pytest.mark.parametrize("dangling", [False, True])
def test_no_file_of_a_run_is_written_through_a_link(tmp_path: Path, name: str, dangling: bool) -> None:
    """Where a link stands in the place of one, it is refused or replaced: what it points to stays as it was."""
    run, victim = tmp_path / "run", tmp_path / "victim"
    run.mkdir()
    (run / name).symlink_to(victim)
    if not dangling:
        victim.write_text("mine")
    refused = ""
    try:
        tune(program(), Tries("0.5"), split(train=1), run_dir=run)
    except (errors.StoreError, errors.UsageError) as error:
        refused = str(error)
    assert dangling is not victim.exists()
    assert dangling or "mine" == victim.read_text()
    if name == "burnish.lock":
        assert f"{run / name} cannot be opened: it is a symbolic link" in refused
    if name == "run.db":
        assert "holds a run already" in refused
    if name == "best.json":
        assert ("", False) == (refused, (run / name).is_symlink())


def test_a_saved_candidate_reads_as_text() -> None:
    """`print(load(...))` shows scores and texts; a score that is not known is left out."""
    saved = b.Saved(candidate=told("answer", "Be brief."), scores={"validation": 0.5, "baseline": None})
    assert "validation 0.500\n\n[answer]\nBe brief." == str(saved)
    assert "[answer]\nBe brief." == str(b.Saved(candidate=told("answer", "Be brief.")))


@pytest.mark.parametrize("text", ["[" * 100_000, f'{{"format": {"9" * 5000}}}'])
def test_depth_and_digits_are_no_saved_candidate(text: str, tmp_path: Path) -> None:
    """A file that JSON's own reader gives up on is named, like any other damaged one."""
    (tmp_path / "best.json").write_text(text)
    with pytest.raises(errors.StoreError, match=r"best\.json is no JSON"):
        b.load(tmp_path / "best.json")
