"""Runs that cannot end as they should: hung threads, closed terminals, lost files, errors of no one's kind."""

from __future__ import annotations

import json
import signal
import subprocess
import time

import pytest

from burnish import load

from ._place import Place

pytestmark = pytest.mark.slow


def wait_for(place: Place, name: str, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 30
    while not (place.path / name).exists():
        assert process.poll() is None, "the run ended before the moment that was to be hit"
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_interrupt_names_the_thread_that_it_waits_for(place: Place) -> None:
    """A thread that hangs is named and left behind: exit code 3 with all files, and paid work kept."""
    place.configure(program='use = "crash_parts:stuck"')
    process = place.start(CRASH_ROWS="25")
    wait_for(place, "stuck", process)
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=15)
    finally:
        process.kill()
    assert 3 == process.returncode, err
    assert "stopping, the best so far is kept; interrupt again to stop at once" in err
    assert "waiting for `Stuck.forward` (crash_parts.py:" in err
    assert "stopped     cancelled" in out
    assert place.answered() == place.cached() <= place.result()["spend"]["rollouts"] <= place.answered() + 8


def test_a_second_interrupt_ends_a_run_that_hangs(place: Place) -> None:
    """The loop held for ever, the second signal ends the process within seconds: the winner is written, exit code 3."""
    place.configure(strategy='use = "crash_parts:holding"')
    process = place.start()
    wait_for(place, "stuck", process)
    try:
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(0.1)
        _, err = process.communicate(timeout=15)
    finally:
        process.kill()
    assert 3 == process.returncode, err
    assert "`Finding.compile` (crash_parts.py:" in err
    last = err.splitlines()[-1]
    assert "did not return; the best so far is in runs/burnish/best.json; `burnish resume runs/burnish` goes on" in last
    assert place.answered() == place.cached()
    scores = load(place.run_dir() / "best.json").scores
    assert (scores["baseline"] or 1.0) < (scores["validation"] or 0.0)


def test_a_hang_up_ends_a_run_like_a_termination(place: Place) -> None:
    """A closed terminal sends SIGHUP, mostly twice: the best so far is kept, and exit code 3 says so."""
    place.configure()
    process = place.start()
    place.wait_answered(40, process)
    for _ in range(2):
        process.send_signal(signal.SIGHUP)
    out, err = process.communicate(timeout=30)
    assert 3 == process.returncode, err
    assert "stopped     cancelled" in out
    assert {"best.json", "result.json"} <= {path.name for path in place.run_dir().iterdir()}


def test_an_ignored_hang_up_is_ignored(place: Place) -> None:
    """Under `nohup` a run goes on to its end."""
    place.configure()
    process = place.start(prelude="import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n")
    place.wait_answered(40, process)
    process.send_signal(signal.SIGHUP)
    out, err = process.communicate(timeout=30)
    assert 0 == process.returncode, err
    assert "stopped " not in out


@pytest.mark.parametrize(
    ("redirect", "code"),
    [
        ("2>&-", 0),
        (">&-", 0),
        ("<&- >&- 2>&-", 0),
        ("2>/dev/full", 0),
        (">/dev/full", 3),
        (">/dev/full 2>&1", 3),
        ("| head -c 1; exit 0", 0),
        ("2>&1 | head -c 1; exit 0", 0),
    ],
)
def test_closed_and_full_streams_cost_no_run(place: Place, redirect: str, code: int) -> None:
    """The run goes on, what the program prints included, and its result is written; a lost summary is exit code 3."""
    place.configure(program='use = "crash_parts:loud"', candidates=1)
    returned, out, err = place.run(redirect=redirect)
    assert code == returned, err
    assert "Traceback" not in out + err
    assert "Exception" not in out + err
    assert ("the output could not be written: No space left on device" in err) is (redirect == ">/dev/full")
    form = place.result()
    assert (True, 0) == (form["finished"], form["failures"]["search"]["failed"])
    assert (place.run_dir() / "best.json").exists()


@pytest.mark.parametrize("lost", ["no_best", "no_result", "no_directory"])
@pytest.mark.parametrize("as_json", [False, True])
def test_what_cannot_be_written_is_printed(place: Place, lost: str, as_json: bool) -> None:
    """The summary comes first, then the winner's text where no file has it, then what could not be written: 3."""
    place.configure(strategy=f'use = "crash_parts:{lost}"')
    code, out, err = place.run(*["--json"] * as_json)
    assert 3 == code, err
    assert "Traceback" not in err
    assert "\x1b" not in out + err
    if as_json:
        assert json.loads(out)["changes"]
    else:
        assert ": a new text and 1 demo\n" in out
    assert ("    Found \\x1b[2J text." in err) is (lost != "no_result")
    last = err[err.index("burnish: error: ") :]
    assert "cannot be" in last
    assert ("run it again" if lost == "no_directory" else "`burnish resume runs/burnish` goes on") in last
    assert ("the winner is in runs/burnish/best.json" in last) is (lost == "no_result")


def test_two_runs_at_once_take_two_directories(place: Place) -> None:
    """Without `--name` each process gets a directory of its own, whoever is first."""
    place.configure(candidates=1)
    processes = [place.start(calls=f"calls{number}.log") for number in range(3)]
    said = [process.communicate(timeout=60) for process in processes]
    assert [0, 0, 0] == [process.returncode for process in processes], said
    names = {path.name for path in (place.path / "runs").iterdir() if path.is_dir()}
    assert {"burnish", "burnish-2", "burnish-3"} == names
    assert names == {place.result(name)["name"] for name in names}


def test_a_run_that_does_not_begin_leaves_no_directory(place: Place) -> None:
    """Refused for its budget or for its program, a run takes no name from the next."""
    place.configure(budget="max_metric_calls = 3")
    assert 4 == place.run()[0]
    place.configure(program='use = "crash_parts:none"')
    assert 2 == place.run()[0]
    assert [] == [path.name for path in (place.path / "runs").glob("*") if path.is_dir()]


@pytest.mark.parametrize(
    ("strategy", "code", "said"),
    [
        ("boom", 70, "internal error; please report it with the lines above"),
        ("cancelled", 3, "the strategy `Raising` is broken: `compile` raised CancelledError"),
        ("leaving", 3, "the strategy `Raising` is broken: `compile` raised SystemExit: 1"),
    ],
)
def test_what_a_plugin_raises_is_its_fault(place: Place, strategy: str, code: int, said: str) -> None:
    """Whatever it raises, `CancelledError` and `SystemExit` too: never exit code 1, and the terminal is safe."""
    place.configure(strategy=f'use = "crash_parts:{strategy}"')
    returned, out, err = place.run()
    assert code == returned, err
    assert "\x1b" not in out + err
    assert f"burnish: error: {said}" in err
    assert 20 == place.cached()


def test_a_cap_that_leaves_rows_unscored_is_said(place: Place) -> None:
    """No candidate was compared in full: the summary gives the counts and the cap."""
    place.configure(budget="max_tokens = 320")
    code, out, err = place.run()
    assert 0 == code, err
    assert "no improvement found: " in out.splitlines()[0]
    assert "when max_tokens struck" in out.splitlines()[0]
    partly = place.result()["partly"]
    assert partly
    assert all(part["scored"] < part["rows"] == 20 for part in partly)
