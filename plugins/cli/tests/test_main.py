"""The command line itself: help, listings, errors and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from burnish.errors import BudgetExceededError, InternalError, RunStoppedError, StoreError
from burnish_cli import main, text
from burnish_cli.exits import Exit, report_error


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.slow
def test_help_imports_neither_core_nor_programs() -> None:
    """`burnish --help` names every command and loads only what it needs for that."""
    code = "import sys, burnish_cli; burnish_cli.main(['--help']); print([m for m in sys.modules if m in {0}])"
    done = python(code.format({"burnish", "trio", "cattrs", "structlog", "burnish_programs", "rich.markdown"}))
    assert "" == done.stderr
    assert [] == json.loads(done.stdout.splitlines()[-1])
    for command in ("run", "plan", "tune", "evaluate", "show", "plugins", "doctor"):
        assert f"│ {command}" in done.stdout


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_error() -> None:
    """`burnish plugins | head -0` ends quietly."""
    code = (
        "import os, sys, burnish_cli; r, w = os.pipe(); os.close(r); os.dup2(w, 1); "
        "sys.exit(burnish_cli.main(['plugins']))"
    )
    done = python(code)
    assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["rnu"], 'Unknown command "rnu". Did you mean "run"?'),
        (["run", "--sede", "1"], "Unknown option: --sede. Did you mean --seed?"),
        (["run", "--seed", "x"], 'unable to convert "x" into int'),
        (["run", "a.toml", "b.toml"], "Unused Tokens: ['b.toml']"),
        (["tune", "prompt.md"], "--data requires an argument. See `burnish tune --help`."),
        (["show"], "--run"),
    ],
)
def test_a_wrong_command_line(capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str) -> None:
    """Plain text on stderr with the nearest thing that exists; exit code 2."""
    assert 2 == main(arguments)
    out, err = capsys.readouterr()
    assert "" == out
    assert err.startswith("burnish: error: ")
    assert expected in err


def test_plugins_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Kind, name and distribution of each component, as a table or as one JSON object."""
    assert 0 == main(["plugins"])
    assert ["metric", "exact_match", "burnish"] in [line.split()[:3] for line in capsys.readouterr().out.splitlines()]
    assert 0 == main(["plugins", "--json"])
    form = json.loads(capsys.readouterr().out)
    assert {"kind": "cache", "name": "sqlite"}.items() <= form["plugins"][1].items()
    assert {} == form["clashes"]


def test_clashes_and_blocks_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two distributions with one component are named, a blocked one is marked, an unknown kind and a broken one too."""
    for name in ("one", "two"):
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
        points = '[burnish]\nmetric.bleu = no_such_module\n' + ("magic.wand = x\n" if name == "one" else "")
        (info / "entry_points.txt").write_text(points, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("BURNISH_BLOCK_PLUGINS", "meter.*")
    assert 0 == main(["plugins"])
    lines = capsys.readouterr().out.splitlines()
    assert "clash: metric.bleu is offered by one and two" == lines[-1]
    assert [True] == [line.endswith("blocked") for line in lines if line.startswith("meter")]
    assert [True] == [line.endswith("there is no kind `magic`") for line in lines if line.startswith("magic")]
    assert 2 == main(["doctor", "--json"])
    faults = json.loads(capsys.readouterr().out)["faults"]
    assert {"metric.bleu", "magic.wand"} <= {fault["plugin"] for fault in faults}
    assert 2 == main(["doctor"])
    assert "metric.bleu (two): metric.bleu is offered by one and two" in capsys.readouterr().out


def test_a_run_without_a_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`show` says what is missing: the directory, any run in it, or the result alone."""
    assert 2 == main(["show", str(tmp_path / "none")])
    assert f"error: {tmp_path / 'none'} is not there" in capsys.readouterr().err
    assert 2 == main(["show", str(tmp_path)])
    assert "holds no run: neither result.json nor run.db is there" in capsys.readouterr().err
    assert 2 == main(["show", str(tmp_path), "--prompt"])
    assert "best.json cannot be read: No such file or directory" in capsys.readouterr().err
    assert 2 == main(["show", str(tmp_path), "--json"])
    assert "result.json is not there: the run has not come to its end" in capsys.readouterr().err


def test_a_command_is_written_as_it_works_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under `uv run`, whose PATH ends with it, and where the command is called by its path, the same is printed."""
    monkeypatch.delenv("UV_RUN_RECURSION_DEPTH", raising=False)
    monkeypatch.setattr("shutil.which", lambda _: "/bin/burnish")
    assert "`burnish show 'runs/a b' --prompt`" == text.command("show", Path("runs/a b"), "--prompt")
    monkeypatch.setenv("UV_RUN_RECURSION_DEPTH", "1")
    assert "`uv run --no-sync burnish show runs`" == text.command("show", "runs")
    monkeypatch.delenv("UV_RUN_RECURSION_DEPTH")
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr("sys.argv", [".venv/bin/burnish"])
    assert "`.venv/bin/burnish show runs`" == text.command("show", "runs")


def test_whose_fault(capsys: pytest.CaptureFixture[str]) -> None:
    """Each kind of error has its exit code; only burnish's own faults come with a traceback."""
    cases = {
        Exit.WRONG_INPUT: StoreError("torn\nsecond line"),
        Exit.BUDGET_REFUSED: BudgetExceededError("no room", cap="max_cost"),
        Exit.STOPPED: RunStoppedError("credentials"),
        Exit.INTERNAL: InternalError("ours"),
    }
    assert list(cases) == [report_error(error) for error in cases.values()]
    err = capsys.readouterr().err
    assert "burnish: error: torn\n  second line\n" in err
    assert "burnish: error: internal error; please report it with the lines above" in err
    assert Exit.INTERNAL == report_error(KeyError("x"))
