"""burnish run, plan, tune and evaluate, end to end: the real core, a scripted model, real files."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import burnish
from burnish._runtime.run_store import RunStore
from burnish.errors import StoreError
from burnish_cli import main

CONFIG = """
seed = 1
[data]
path = "rows.jsonl"
inputs = ["q"]
labels = ["a"]
train = 4
val = 12
test = 20
stratify = "a"
[program]
use = "toy_parts:Program"
[models.task]
use = "toy_parts:model"
[metric]
use = "toy_parts:metric"
[[strategy]]
use = "toy_parts:good"
[budget]
max_metric_calls = 100
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with rows, parts and a configuration; what is imported from it is forgotten afterwards."""
    rows = [{"q": f"{i}: say {'ab'[i % 2]}", "a": "ab"[i % 2]} for i in range(40)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (tmp_path / "burnish.toml").write_text(CONFIG, encoding="utf-8")
    shutil.copy(Path(__file__).with_name("toy_parts.py"), tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("toy_parts", None)


def change(place: Path, *pairs: tuple[str, str]) -> None:
    text = CONFIG
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    (place / "burnish.toml").write_text(text, encoding="utf-8")


def result(place: Path, run: str = "burnish") -> dict[str, Any]:
    form: dict[str, Any] = json.loads((place / "runs" / run / "result.json").read_text(encoding="utf-8"))
    return form


@pytest.mark.slow
def test_a_run_from_a_file(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan and plain progress go to stderr, the result to stdout and into the run directory (scenario 66)."""
    assert 0 == main(["run"])
    out, err = capsys.readouterr()
    assert "burnish: improved by +0.500 on untouched test rows" in out
    assert "test        0.500 → 1.000 on 20 rows, +0.500 (95% interval +0." in out
    assert "strategy  Try: at most 24 rollouts for 1 new candidate beside the baseline" in err
    assert "baseline 0.500 on 12 validation rows" in err
    assert "new best 1.000 (candidate 1)" in err
    form = result(place)
    assert ("improved", "finished", 1) == (form["outcome"], form["stop_reason"], form["seed"])
    assert (64, 64) == (form["spend"]["rollouts"], form["spend"]["by_role"]["task"]["requests"])
    assert [{"name": "leaf", "instruction": True, "demos": None}] == form["changes"]
    names = {path.name for path in (place / "runs" / "burnish").iterdir()}
    assert {"burnish.lock", "run.db", "best.json", "result.json"} <= names


@pytest.mark.slow
def test_json_is_one_object(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --json stdout is the result and nothing else: what the program prints goes to stderr."""
    assert 0 == main(["run", "burnish.toml", "--json", "--name", "other", "--seed", "7"])
    out, err = capsys.readouterr()
    assert result(place, "other") == json.loads(out)
    assert 7 == json.loads(out)["seed"]
    assert "printed by the program" in err
    assert 0 == main(["show", "runs/other", "--json"])
    assert json.loads(out) == json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_the_winner_can_be_read(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`show --prompt` prints texts and demos in full, harmless to a terminal; also what `optimize` left (66)."""
    change(place, ("toy_parts:good", "toy_parts:coloured"))
    assert 0 == main(["run"])
    assert "`burnish show runs/burnish --prompt` prints the winner" in capsys.readouterr().out
    assert 0 == main(["show", "runs/burnish", "--prompt"])
    path, *texts = capsys.readouterr().out.splitlines()
    assert "runs/burnish/best.json" == path
    assert [
        "  leaf", r"    Say the \x1b[1mlast word.", "    Now.", "    with 1 demo", '    {"q": "0: say a", "a": "a"}'
    ] == texts
    assert 0 == main(["show", "runs/burnish/result.json", "--prompt", "--json"])
    form = json.loads(capsys.readouterr().out)
    assert {"leaf": "Say the \x1b[1mlast word.\nNow."} == form["texts"]
    assert ["leaf"] == list(form["candidate"])
    (place / "runs" / "burnish" / "result.json").unlink()
    assert 0 == main(["show", "runs/burnish"])
    out = capsys.readouterr().out
    assert "burnish: no result.json, as `burnish run` writes it at its end; run.db says:" in out
    assert "  ended       finished\n  spend       64 rollouts · 64 requests" in out
    assert "  validation  0.500 → 1.000; `burnish show runs/burnish --prompt` prints the winner" in out


@pytest.mark.slow
def test_paths_start_at_the_configuration(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From another directory the same rows, parts, cache and run directory are found."""
    (place / "deep").mkdir()
    monkeypatch.chdir(place / "deep")
    assert 0 == main(["run", "../burnish.toml"])
    assert [] == list((place / "deep").iterdir())
    assert {"burnish", "cache.db"} <= {path.name for path in (place / "runs").iterdir()}


@pytest.mark.slow
def test_no_improvement_is_said_plainly(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A candidate that wins nothing is no improvement; exit code 1 only where it was asked for."""
    change(place, ("toy_parts:good", "toy_parts:useless"))
    assert 1 == main(["run", "--require-improvement"])
    assert "burnish: no improvement" in capsys.readouterr().out
    assert 0 == main(["run", "--name", "again"])
    assert "no improvement" == result(place, "again")["outcome"]
    assert 0 == main(["show", "runs/again"])
    assert "again: no improvement: no candidate beat the baseline" in capsys.readouterr().out
    assert 0 == main(["show", "runs"])
    told = "no improvement: no candidate beat the baseline on the validation rows"
    assert [f"runs/burnish: {told}", f"runs/again: {told}"] == capsys.readouterr().out.splitlines()


def test_a_plan_spends_nothing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Upper bounds by strategy, the test set aside, the caps; no run directory, no call."""
    assert 0 == main(["plan", "--json"])
    plan = json.loads(capsys.readouterr().out)
    assert (64, 40, {"max_metric_calls": 100}) == (plan["rollouts"], plan["test"], plan["budget"])
    assert {"train": 4, "val": 12, "test": 20} == plan["rows"]
    assert 0 == main(["plan"])
    assert "the plan needs at most 64 rollouts" in capsys.readouterr().out
    assert not (place / "runs").exists()
    assert 0 == sys.modules["toy_parts"].model.calls


def test_a_plan_with_a_sample_measures_what_rollouts_take(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As many calls as were allowed, by role, as a range for the whole run; the run does not pay for them again."""
    assert 0 == main(["plan", "--sample", "3", "--json"])
    plan = json.loads(capsys.readouterr().out)
    model = sys.modules["toy_parts"].model
    assert 3 == model.calls == plan["sample"]["rollouts"]
    calls = plan["sample"]["roles"]["task"]["calls"]
    assert (64, [64, 64]) == (plan["sample"]["for"], calls)
    assert {"rollouts": 64, "candidates": 1} == plan["buys"][-1]
    assert 0 == main(["plan", "--sample", "3"])
    out = capsys.readouterr().out
    assert "cost      task, for 64 rollouts: 64 calls, " in out
    assert "no price known" in out or "$" in out
    assert 3 == model.calls, "the second one is served"
    assert 0 == main(["run"])
    assert [] == [path for path in (place / "runs").iterdir() if path.name not in ("burnish", "cache.db")]


def test_a_sample_of_a_plan_that_would_be_refused_is_not_taken(place: Path) -> None:
    """Nothing is spent for a budget that buys nothing (exit code 4), nor for a sample of nothing (2)."""
    change(place, ("= 100", "= 30"))
    assert 4 == main(["plan", "--sample", "3"])
    change(place)
    assert 2 == main(["plan", "--sample", "-1"])
    assert 0 == sys.modules["toy_parts"].model.calls


def test_repeats_and_a_margin_stand_in_the_configuration(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A plan counts each repeat; a winner that is not far enough ahead leaves the program as it is, and is named."""
    change(place, ("[budget]", "[engine]\nrepeats = 2\nmin_gain = 1000.0\n[budget]"))
    assert 0 == main(["plan", "--json"])
    assert 2 * 24 + 40 == json.loads(capsys.readouterr().out)["rollouts"]
    assert 0 == main(["run"])
    told = result(place)
    assert 48 + 20 <= told["spend"]["rollouts"] <= 48 + 40
    change(place, ("[budget]", "[engine]\nrepeats = 0\nmin_gain = -1\n[budget]"))
    assert 2 == main(["plan"])
    err = capsys.readouterr().err
    assert "engine.repeats: must be at least 1" in err
    assert "engine.min_gain: must be a number of standard errors" in err


def test_a_plan_names_the_strategies_inside_one(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A portfolio by objects of one's own is planned as it would run; what both may ask adds up."""
    race = "import burnish\nrace = burnish.Portfolio(strategies=[good, good])\n"
    parts = place / "toy_parts.py"
    parts.write_text(parts.read_text("utf-8") + race, encoding="utf-8")
    change(place, ("toy_parts:good", "toy_parts:race"), ("= 100", "= 200"))
    assert 0 == main(["plan", "--json"])
    plan = json.loads(capsys.readouterr().out)
    assert 2 * 24 + 3 * 12 + 40 == plan["rollouts"]
    assert 0 == main(["run"])


TYPED = "a: Literal['a', 'c']"


@pytest.mark.parametrize("program", [f'signature = "q -> {TYPED}"', f'prompt = "p.md"\noutput = "{TYPED}"'])
def test_a_label_that_no_output_can_equal_is_named(
    place: Path, capsys: pytest.CaptureFixture[str], program: str
) -> None:
    """Before anything is spent: the value, the first row that has it, and what the program declares."""
    (place / "p.md").write_text("{{q}}", encoding="utf-8")
    change(place, ('use = "toy_parts:Program"', program), ("toy_parts:good", "toy_parts:nothing"))
    assert 0 == main(["plan"])
    out = capsys.readouterr().out
    assert "note: the label `a` is 'b' (rows.jsonl:2), which the program's Literal['a', 'c'] does not have" in out
    change(place, ('use = "toy_parts:Program"', program.replace("'c'", "'b'")), ("toy_parts:good", "toy_parts:nothing"))
    assert 0 == main(["plan"])
    assert "does not have" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "code", "expected"),
    [
        ("[metric]", '[models.judge]\nuse = "openai"\nmodle = "m"\n[metric]', 2, "toml:17: models.judge.modle: is not"),
        ('use = "toy_parts:metric"', 'use = "exact_match"\nfiled = "a"', 2, "burnish.toml:17: metric.filed: is not"),
        ('use = "toy_parts:good"', 'use = "bootstrap"\nmax_demo = 1', 2, "burnish.toml:19: strategy #1.max_demo: "),
        ("[budget]", '[cache]\nuse = "sqlite"\npath = 7\n[budget]', 2, "burnish.toml:21: cache.path: "),
        ("= 100", "= 30", 4, "max_metric_calls = 30 buys nothing"),
    ],
)
def test_a_plan_is_as_strict_as_a_run(
    place: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, code: int, expected: str
) -> None:
    """Every table of options and the smallest budget are checked, and nothing is opened for it."""
    change(place, (old, new))
    assert code == main(["plan"])
    assert expected in capsys.readouterr().err
    assert not (place / "runs").exists()


def test_a_plan_says_what_a_test_can_show(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With fewer than 8 test rows there is no interval, and so no improvement."""
    change(place, ("test = 20", "test = 7"))
    assert 0 == main(["plan"])
    assert "set aside beforehand; an interval needs 8 rows" in capsys.readouterr().out
    change(place, ("test = 20", "test = 8"))
    assert 0 == main(["plan"])
    out = capsys.readouterr().out
    assert "an interval" not in out
    assert "time " not in out
    change(place, ("[budget]", "[budget]\nmax_seconds = 100"))
    assert 0 == main(["plan"])
    assert "time      the search ends after 1:20 at the latest, the rest of" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "code", "expected"),
    [
        ("seed = 1", "seeds = 1", 2, "burnish.toml:2: seeds: is not a known key; did you mean `seed`?"),
        ("train = 4", 'train = "4"', 2, "burnish.toml:7: data.train: is the name of a file, as it stands in quotes"),
        ("rows.jsonl", "row.jsonl", 2, "row.jsonl: not found; did you mean `rows.jsonl`?"),
        ('inputs = ["q"]', 'inputs = ["Q"]', 2, "has no column `Q`"),
        ("test = 20", "test = 90", 2, "has 40 different rows; train 4 + val 12 + test 90 need 106"),
        ("toy_parts:metric", "toy_parts:unmarked", 2, "metric.use: `toy_parts:unmarked` is neither an"),
        ("toy_parts:metric", "toy_parts:metrics", 2, "names `metrics`, which is not there; did you mean `metric`?"),
        ("toy_parts:metric", "os:getcwd", 2, "is neither an object of burnish nor a marked function"),
        ("toy_parts:metric", "no_such:metric", 2, "the module `no_such` is not there"),
        ("toy_parts:metric", "no_such", 2, "no metric named `no_such` is installed; there is: "),
        ("toy_parts:Program", "toy_parts:Leaf", 2, "program.use: `toy_parts:Leaf` is neither"),
        ('use = "toy_parts:good"', 'use = "toy_parts:good"\nk = 1', 2, "strategy #1: `toy_parts:good` is an object"),
        ("[budget]", '[cache]\nuse = "sqlite"\npaths = "x"\n[budget]', 2, "cache.paths: is not"),
        ("= 100", "= 30", 4, "max_metric_calls = 30 buys nothing"),
    ],
)
def test_wrong_input_spends_nothing(
    place: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, code: int, expected: str
) -> None:
    """Plain text on stderr that says what and where, an exit code that says whose fault, and no model call (62)."""
    change(place, (old, new))
    assert code == main(["run", "--json"])
    out, err = capsys.readouterr()
    assert "" == out
    assert expected in err
    assert "burnish: error: " in err
    assert "Traceback" not in err
    assert 0 == (sys.modules["toy_parts"].model.calls if "toy_parts" in sys.modules else 0)


SIGNATURE = ('use = "toy_parts:Program"', "signature = \"q -> a\"")
BOOTSTRAP = ('use = "toy_parts:good"', 'use = "bootstrap"')
EXACT = ('use = "toy_parts:metric"', 'use = "exact_match"')
PROMPT = ('use = "toy_parts:Program"', 'prompt = "p.md"')


@pytest.mark.parametrize("command", ["plan", "run"])
def test_all_faults_of_a_file_are_told_at_once(place: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    """Columns, options and names that are wrong, each with its line, in one refusal before anything is spent (62)."""
    change(
        place,
        SIGNATURE,
        ('inputs = ["q"]', 'inputs = ["Q"]'),
        ('labels = ["a"]', 'labels = ["answer"]'),
        ('use = "toy_parts:metric"', 'use = "exact_mach"'),
        ('use = "toy_parts:good"', 'use = "bootstrap"\nmax_demo = 1'),
    )
    assert 2 == main([command])
    lines = capsys.readouterr().err.splitlines()
    starts = (
        "burnish: error: burnish.toml:5: data.inputs: rows.jsonl has no column `Q`; did you mean `q`? It has: `q`, `a`",
        "  burnish.toml:6: data.labels: rows.jsonl has no column `answer`; it has: `q`, `a`",
        "  burnish.toml:16: metric.use: no metric named `exact_mach` is installed; did you mean `exact_match`?",
        "  burnish.toml:19: strategy #1.max_demo: is not a known option; did you mean",
    )
    assert [*starts] == [line[: len(start)] for line, start in zip(lines, starts, strict=True)]
    assert not (place / "runs").exists()


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        (
            [SIGNATURE, ('use = "toy_parts:metric"', 'use = "exact_match"\nfield = "aa"')],
            ["burnish.toml:17: metric.field: there is no label `aa`; did you mean `a`? `data.labels`: `a`"],
        ),
        (
            [PROMPT, EXACT, ('prompt = "p.md"', 'prompt = "p.md"\noutput = "feeling"')],
            ["burnish.toml:13: program.output: `feeling` is no label (`data.labels`: `a`), so `exact_match`"],
        ),
        (
            [("\"q -> a\"", "\"q -> feeling\""), EXACT],
            ["burnish.toml:12: program.signature: `feeling` is no label", 'say `field = "a"` in `[metric]`'],
        ),
        (
            [SIGNATURE, EXACT, ('labels = ["a"]', "")],
            ["burnish.toml:3: data.labels: is missing: `exact_match` compares the program's output with a label"],
        ),
        (
            [SIGNATURE, ('use = "toy_parts:metric"', 'use = "numeric"')],
            ["burnish.toml:16: metric.use: metric.numeric needs a finite number as the row's label, not 'b' (rows"],
        ),
        (
            [SIGNATURE, EXACT, ("[models.task]", "[models.tsk]")],
            ["burnish.toml:13: models.tsk: nothing asks for a model of this name; did you mean `task`?"],
        ),
        (
            [SIGNATURE, EXACT, ('[models.task]\nuse = "toy_parts:model"', "")],
            ["models: the program asks a model, and none is named; add a table `[models.task]`"],
        ),
        (
            [SIGNATURE, EXACT, ("[metric]", '[models.grader]\nuse = "llamacpp"\n[metric]')],
            ["burnish.toml:15: models.grader: nothing asks for a model of this name"],
        ),
        (
            [SIGNATURE, ('use = "toy_parts:model"', 'use = "llamacpp"\nmodel = "gemma3"')],
            ["burnish.toml:13: models.task: ", '`model` must be "gemma3-270m", or the path of a .gguf file, not'],
        ),
        ([('use = "toy_parts:metric"', 'use = "toy_parts.metric"')], ["`module:attribute`: `toy_parts:metric`"]),
        ([('use = "toy_parts:metric"', 'use = "toy_parts"')], ["named `module:attribute`: `toy_parts:...`"]),
    ],
)
def test_parts_that_do_not_meet_are_refused(
    place: Path, capsys: pytest.CaptureFixture[str], pairs: list[tuple[str, str]], expected: list[str]
) -> None:
    """The metric's label and output, the program's models and an object's name are checked before anything is spent."""
    (place / "p.md").write_text("{{q}}", encoding="utf-8")
    pairs = [SIGNATURE, *pairs] if pairs[0][0].startswith('"q') else pairs
    change(place, *pairs, *([] if "toy_parts" in str(pairs[-1][1]) else [BOOTSTRAP]))
    assert 2 == main(["plan"])
    err = capsys.readouterr().err
    assert [] == [text for text in expected if text not in err], err
    assert 2 == main(["run"])
    assert not (place / "runs").exists()


def test_roles_of_a_program_of_ones_own_are_its_business(place: Path) -> None:
    """Nobody knows which models foreign code asks for, so no table of it is refused."""
    change(place, ("[metric]", '[models.grader]\nuse = "llamacpp"\n[metric]'))
    assert 0 == main(["plan"])


def test_a_configuration_that_is_not_there(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The next step is named; a file's name stands once, also that of a misspelt prompt."""
    (place / "burnish.toml").unlink()
    assert 2 == main(["run"])
    assert "burnish.toml: not found; name another file, or tune a prompt without one" in capsys.readouterr().err
    (place / "prompt.md").write_text("{{q}}", encoding="utf-8")
    assert 2 == main(["tune", "promt.md", "--data", "rows.jsonl"])
    assert "burnish: error: promt.md: not found; did you mean `prompt.md`?\n" == capsys.readouterr().err
    change(place, ('use = "toy_parts:Program"', 'prompt = "promt.md"'))
    assert 2 == main(["run"])
    assert "burnish: error: promt.md: not found; did you mean `prompt.md`?\n" == capsys.readouterr().err


@pytest.mark.slow
def test_a_run_directory_is_used_once(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second run gets a directory of its own; the same `--name` twice is refused before anything is spent."""
    assert 0 == main(["run"])
    before = result(place)
    capsys.readouterr()
    assert 0 == main(["run"])
    first = before["run_dir"]
    assert f"{first}-2" == result(place, "burnish-2")["run_dir"]
    assert (place / "runs" / "burnish-2" / "run.db").exists()
    assert 2 == main(["run", "--name", "burnish"])
    assert "holds a run already" in capsys.readouterr().err
    assert before == result(place)


@pytest.mark.slow
def test_what_was_paid_is_not_paid_again(place: Path) -> None:
    """Runs share a cache unless the file says otherwise; test rows are scored fresh; meter and sinks are opened."""
    assert 0 == main(["run"])
    assert 0 == main(["run", "--name", "second"])
    spend = result(place, "second")["spend"]
    assert (40, 24) == (spend["rollouts"], spend["cached"])
    more = '[cache]\nuse = "none"\n[meter]\nuse = "standard"\n[[sink]]\nuse = "jsonl"\n[budget]'
    change(place, ("[budget]", more))
    assert 0 == main(["run", "--name", "third"])
    assert 64 == result(place, "third")["spend"]["rollouts"]
    events = [json.loads(line) for line in (place / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    assert 64 == sum(event["event"]["type"] == "RolloutLanded" for event in events)


@pytest.mark.slow
def test_looks_at_test_rows_are_counted(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each further run on the same test rows says which look it is; evaluating a saved candidate is a look too."""
    assert 0 == main(["run"])
    assert 0 == main(["evaluate", "--candidate", "runs/burnish/best.json", "--require-improvement"])
    assert ", look 2 at these rows)" in capsys.readouterr().out
    form = result(place, "burnish-evaluation")
    assert ("evaluate", "improved", 40) == (form["command"], form["outcome"], form["spend"]["rollouts"])
    assert 0 == main(["evaluate"])
    out = capsys.readouterr().out
    assert "burnish-evaluation-2: the program as it is" in out
    assert "test        0.500 on 20 rows" in out
    assert 3 == result(place, "burnish-evaluation-2")["test"]["looks"]


@pytest.mark.slow
def test_rows_that_a_search_has_used_are_no_test(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`best.json` says what it was found on: under another split `evaluate` leaves those rows out, and says how many.

    Rows are known again whatever their columns are called; looks count where some of the rows are the same.
    """
    change(place, ("[data]", "[data]\nsplit_seed = 5"))
    assert 0 == main(["run"])
    change(place, ('inputs = ["q"]\nlabels = ["a"]', 'inputs = { q = "q" }\nlabels = { a = "a" }'))
    capsys.readouterr()
    best = "runs/burnish/best.json"
    assert 0 == main(["evaluate", "--candidate", best])
    out, err = capsys.readouterr()
    form = result(place, "burnish-evaluation")
    left = form["rows"]["test"]
    assert 0 < left < 20
    assert f"note: {20 - left} of 20 test rows left out: the search that found {best} has used them" in out
    assert (left, 2) == (form["test"]["rows"], form["test"]["looks"])
    assert "search" not in err.replace("the search that", "")
    seen = burnish.load(best).seen
    assert seen is not None
    assert seen.isdisjoint(form["test"]["digests"].split())
    assert seen == burnish.load("runs/burnish-evaluation/best.json").seen


@pytest.mark.slow
def test_a_candidate_found_on_unknown_rows_or_on_all(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that does not say its rows makes no row untouched; one that was found on all test rows is refused."""
    assert 0 == main(["run"])
    path = place / "runs" / "burnish" / "best.json"
    form = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**form, "seen": None}), encoding="utf-8")
    assert 0 == main(["evaluate", "--candidate", str(path)])
    out = capsys.readouterr().out
    assert "burnish-evaluation: not tested: nobody knows whether the test rows are new to the candidate" in out
    digests = result(place)["test"]["digests"]
    path.write_text(json.dumps({**form, "seen": digests}), encoding="utf-8")
    assert 2 == main(["evaluate", "--candidate", str(path)])
    assert "was found on every one of the 20 test rows" in capsys.readouterr().err


@pytest.mark.slow
def test_a_candidate_of_another_program_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A saved candidate that names a predictor which the program lacks costs nothing."""
    assert 0 == main(["run"])
    path = place / "runs" / "burnish" / "best.json"
    form = json.loads(path.read_text(encoding="utf-8"))
    form["candidate"] = {"stem": form["candidate"]["leaf"]}
    path.write_text(json.dumps({**form, "hash": None}), encoding="utf-8")
    calls = sys.modules["toy_parts"].model.calls
    assert 2 == main(["evaluate", "--candidate", str(path)])
    assert "best.json is of another program: predictor `stem` not found; the program has: `leaf`" in (
        capsys.readouterr().err
    )
    assert ["burnish", "cache.db"] == sorted(path.name for path in (place / "runs").iterdir())
    assert calls == sys.modules["toy_parts"].model.calls


@pytest.mark.slow
def test_an_interrupt_keeps_the_best_so_far(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """SIGINT ends the search; what is known is written and shown, and exit code 3 says that there was more to do."""
    change(place, ("toy_parts:good", "toy_parts:interrupted"))
    assert 3 == main(["run"])
    out, err = capsys.readouterr()
    assert "stopping, the best so far is kept" in err
    assert "stopped     cancelled; `burnish resume runs/burnish` goes on" in out
    assert "burnish: stopped before any candidate was scored on all validation rows" in out
    form = result(place)
    assert ("not tested", 0) == (form["outcome"], form["scored_candidates"])
    assert ("cancelled", False, None, 12) == (
        form["stop_reason"],
        form["finished"],
        form["test"],
        form["spend"]["rollouts"],
    )
    assert (place / "runs" / "burnish" / "best.json").exists()


@pytest.mark.slow
def test_a_second_interrupt_ends_the_run_at_once(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No traceback and no hanging, whichever of the two signals comes first."""
    change(place, ("toy_parts:good", "toy_parts:impatient"))
    assert 3 == main(["run"])
    assert "Traceback" not in capsys.readouterr().err


def test_an_interrupt_before_the_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """While the program is still being imported there is nothing to keep: exit code 130, no traceback."""
    (place / "toy_parts.py").write_text("raise KeyboardInterrupt", encoding="utf-8")
    assert 130 == main(["run"])
    assert ("", "") == capsys.readouterr()


def test_a_broken_metric_stops_the_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the metric's own words, made harmless; the outputs that were paid for are kept."""
    change(place, ("toy_parts:metric", "toy_parts:broken_metric"))
    assert 3 == main(["run"])
    err = capsys.readouterr().err
    assert r"ValueError: no score\x1b[2J" in err
    assert "what was found is in runs/burnish; mend the metric and run it again: what the cache" in err
    assert "Traceback" not in err
    form = result(place)
    assert (False, None) == (form["finished"], form["test"])
    assert form["stop_reason"].startswith("stopped: the metric raised ValueError: no score")
    assert 0 < form["spend"]["requests"]
    assert 0 == main(["show", "runs/burnish"])
    assert r"stopped     the metric raised" in capsys.readouterr().out


@pytest.mark.slow
def test_a_program_that_always_fails_is_no_ordinary_result(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The cause comes first, the counts stand in result.json, and exit code 3 says that nothing was learned (E45)."""
    change(place, ("toy_parts:Program", "toy_parts:Failing"), ("toy_parts:good", "toy_parts:nothing"))
    assert 3 == main(["run"])
    out, _ = capsys.readouterr()
    assert "burnish: every rollout failed: RuntimeError: disk is full (first in test row 0)" == out.splitlines()[0]
    assert "  failures    20 of 20 test rollouts, most often by this cause" in out
    assert 1 == out.count("disk is full")
    assert "note: " not in out
    form = result(place)
    assert ("failed", True, {"agent_failed": 20}) == (
        form["outcome"], form["finished"], form["failures"]["test"]["by_status"]
    )
    assert (12, 12) == (form["failures"]["search_baseline"]["failed"], form["failures"]["search"]["rollouts"])


@pytest.mark.slow
def test_what_a_useless_baseline_answers_is_shown(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where nearly every row scores nothing, the most frequent output says why; else nothing is said of it."""
    rows = [{"q": f"{i}: say {'ab'[i % 2]}", "a": "c"} for i in range(40)]
    (place / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    change(place, ("toy_parts:good", "toy_parts:nothing"))
    assert 0 == main(["run"])
    expected = "note: 32 of 32 outputs of the program as it was scored nothing; the most frequent of them (32):"
    assert f'{expected} {{"a": "a"}}' in capsys.readouterr().out


@pytest.mark.slow
def test_a_fault_of_the_test_keeps_the_winner(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where only a test row cannot be scored, result.json tells of the whole search, and best.json has its winner."""
    change(place, ("toy_parts:metric", "toy_parts:broken_on_test"))
    assert 3 == main(["run"])
    assert "no gold" in capsys.readouterr().err
    form = result(place)
    assert ({"baseline": 0.5, "winner": 1.0}, False) == (form["validation"], form["finished"])
    assert [{"name": "leaf", "instruction": True, "demos": None}] == form["changes"]
    assert (place / "runs" / "burnish" / "best.json").exists()


@pytest.mark.parametrize("name", ["run.db", "result.json"])
def test_a_full_disk_is_a_stop(
    name: str, place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a run is under way exit code 2 would be a lie: something was spent."""
    if name == "run.db":
        opened = RunStore._open

        def small(store: RunStore) -> None:
            opened(store)
            assert store._connection is not None
            store._connection.execute("PRAGMA max_page_count=4")

        monkeypatch.setattr(RunStore, "_open", small)
    else:

        def full(*_: object) -> None:
            raise StoreError("result.json cannot be written: No space left on device")

        monkeypatch.setattr("burnish_cli.runner.write_result", full)
    assert 3 == main(["run"])
    err = capsys.readouterr().err
    assert f"{name} cannot be" in err
    assert "Traceback" not in err
    assert 0 < sys.modules["toy_parts"].model.calls


@pytest.mark.slow
def test_the_engine_can_be_set(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`[engine]` reaches the run: another salt and the cache answers no more; what makes no sense is refused."""
    assert 0 == main(["run"])
    change(place, ("[budget]", "[engine]\ncache_salt = 7\nfailure_score = 0.25\nrollout_timeout = 60\n[budget]"))
    assert 0 == main(["run"])
    assert (64, 0) == tuple(result(place, "burnish-2")["spend"][key] for key in ("rollouts", "cached"))
    capsys.readouterr()
    wrong = {"rollout_timeout = 0": "must be above 0", "failure_score = nan": "must be finite", "salt = 1": "is not"}
    for line, why in wrong.items():
        change(place, ("[budget]", f"[engine]\n{line}\n[budget]"))
        assert 2 == main(["run"])
        assert f"engine.{line.split()[0]}: {why}" in capsys.readouterr().err


@pytest.mark.slow
def test_a_prompt_file_is_tuned_without_configuration(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Prompt, rows and metric are enough: columns are inferred, the plan is the budget, demos reach the prompt."""
    (place / "prompt.md").write_text("One of red, blue. {{ no }}\n{{text}}\nColour:", encoding="utf-8")
    things = {"sky water ice sea": "blue", "fire blood rose brick": "red"}
    pairs = [(a, b, n, label) for t, label in things.items() for a in t.split() for b in t.split() for n in "xyz"]
    rows = "".join(f"{a} {b} {n},{label}\n" for a, b, n, label in pairs)
    (place / "rows.csv").write_text("text,colour\n" + rows, encoding="utf-8")
    tune = ["tune", "prompt.md", "--data", "rows.csv", "--model", "toy_parts:nearest", "--strategy", "bootstrap"]
    assert 0 == main([*tune, "--plan-only", "--json"])
    out, err = capsys.readouterr()
    plan = json.loads(out)
    assert "warning: not a placeholder because of its blanks, sent as it is (text={{ no }})" in err
    assert ({"text": "text"}, {"colour": "colour"}) == (plan["inputs"], plan["labels"])
    assert {"max_metric_calls": plan["rollouts"]} == plan["budget"]
    assert 0 == main(["tune", "prompt.md", "--data", "rows.csv", "--plan-only"])
    assert "models    task: llamacpp (needs no options, unlike openai)" in capsys.readouterr().out
    assert not (place / "runs").exists()
    assert 0 == main([*tune, "--metric", "exact_match", "--require-improvement"])
    out, err = capsys.readouterr()
    assert "data      `text` → `colour`; 29 train, 29 validation, 38 test rows" in err
    assert "prompt: improved by" in out
    best = result(place, "prompt")["validation"]["winner"]
    assert (best == 1.0) == ("with `stop_at_score = 1.0` the search ends there" in out)
    assert result(place, "prompt")["spend"]["rollouts"] <= plan["rollouts"]
    assert 0 == main([*tune, "--metric", "exact_match", "--max-metric-calls", "140", "--json"])
    assert "prompt-2" == json.loads(capsys.readouterr().out)["name"]
    assert 4 == main([*tune, "--max-metric-calls", "80"])


@pytest.mark.slow
def test_a_signature_is_a_program(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An inline signature with its instruction runs; what is wrong in it is refused at its place."""
    signature = "signature = \"q -> a: Literal['a', 'b']\"\ninstruction = \"Say the last word.\""
    change(place, ('use = "toy_parts:Program"', signature), ("toy_parts:good", "toy_parts:nothing"))
    assert 0 == main(["run"])
    assert 1.0 == result(place)["test"]["baseline"]
    change(place, ('use = "toy_parts:Program"', 'signature = "q -> a: strr"'))
    assert 2 == main(["run", "--name", "other"])
    assert "unknown type `strr`" in capsys.readouterr().err
