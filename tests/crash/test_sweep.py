"""Runs that are killed again and again and go on each time: the run that nobody killed, and nothing paid twice."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from burnish.events import RolloutLanded, fold, read_events

from ._place import Place, integrity, select
from ._sweep import RESULT, Nursery, calls, wait_calls

pytestmark = pytest.mark.slow
KILLS = 100


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as made:
        yield made


@pytest.fixture(scope="module")
def unkilled(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the run comes to that nobody kills, one rollout at a time."""
    path = tmp_path_factory.mktemp("unkilled")
    nursery.start(path, concurrency=1, pace=0.0)
    assert 0 == nursery.wait()
    assert 300 == calls(path)
    return {**whole(path), "calls": calls(path)}


def whole(path: Path) -> dict[str, Any]:
    """What a finished run tells, and what its store says of candidates and scores."""
    state = fold(read_events(path / "run" / "run.db"))
    told: dict[str, Any] = json.loads((path / RESULT).read_text(encoding="utf-8"))
    best = json.loads((path / "run" / "best.json").read_text(encoding="utf-8"))
    scores = [state.matrix.row(index) for index in range(len(state.candidates))]
    return {**told, "best": best, "candidates": state.candidates, "matrix": scores}


def gone_on(path: Path, expected: dict[str, Any]) -> None:
    """Check a run that was killed and resumed until its end (R15)."""
    assert {**expected, "calls": 0} == {**whole(path), "calls": 0}
    events = list(read_events(path / "run" / "run.db"))
    live = [event.key for event in events if isinstance(event, RolloutLanded) and event.source == "live"]
    lost = sum(type(event).__name__.endswith("Lost") for event in events)
    assert calls(path) <= expected["calls"] + lost
    assert len(live) == len(set(live))
    assert calls(path) <= fold(events).spend.requests


def test_a_hundred_kills_change_nothing(nursery: Nursery, unkilled: dict[str, Any], tmp_path: Path) -> None:
    """Killed at seeded moments, in replay, search and test: the same trajectory, sound files, nothing answered twice.

    R2, R10, R13 and R15. Every other run has a cache; the concurrency differs from life to life.
    """
    rng, kills, runs = random.Random(15), 0, 0
    while kills < KILLS:
        path, cached, done = tmp_path / f"run{runs}", bool(runs % 2), False
        runs += 1
        while not done:
            pid = nursery.start(path, cached=cached, concurrency=rng.choice((1, 5, 16)), pace=0.001)
            if rng.random() < 0.7:
                wait_calls(path, calls(path) + rng.randrange(1, 90), partial(alive, pid))
            else:
                time.sleep(rng.random() * 0.1)
            with suppress(ProcessLookupError):  # it came to its end meanwhile, and the nursery has seen it
                os.kill(pid, signal.SIGKILL)
            done = killed(nursery, path)
            kills += not done
        gone_on(path, unkilled)
    assert runs >= 5


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("function", "number"), [("fsync", 1), ("fsync", 2), ("replace", 1)])
def test_a_kill_while_files_are_written(
    nursery: Nursery, unkilled: dict[str, Any], tmp_path: Path, function: str, number: int, after: bool
) -> None:
    """Killed while `burnish.lock` or `best.json` is written, a run leaves no half file, and goes on."""
    nursery.start(tmp_path, pace=0.0, moment=(function, number, after))
    assert not killed(nursery, tmp_path)
    best = tmp_path / "run" / "best.json"
    assert (function, after) != ("replace", True) or json.loads(best.read_text(encoding="utf-8"))
    nursery.start(tmp_path, pace=0.0)
    assert killed(nursery, tmp_path)
    gone_on(tmp_path, unkilled)
    assert unkilled["calls"] == calls(tmp_path)


def killed(nursery: Nursery, path: Path) -> bool:
    """Wait for a run that was killed, and check what it left; says whether it came to its end instead."""
    code, store = nursery.wait(), path / "run" / "run.db"
    assert code in (0, -signal.SIGKILL)
    if store.exists():
        assert ["ok"] == integrity(store)
        if not select(store, "SELECT name FROM sqlite_master") or not select(store, "SELECT 1 FROM events LIMIT 1"):
            assert 0 == calls(path)  # before it began: there is nothing to go on with
            shutil.rmtree(path / "run")
    return code == 0


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_interrupts_change_nothing(place: Place, name: str) -> None:
    """The command that a stopped run names goes on with it; interrupted three times, it ends as if nobody had."""
    place.configure(candidates=3, val=30, test=30, more='[cache]\nuse = "none"\n')
    assert 0 == place.run("--name", "whole", calls="whole.log")[0]
    rng, arguments, command = random.Random(name), ["--name", "x"], "run"
    codes = []
    for _ in range(3):
        process = place.start(*arguments, command=command)
        wait_for_calls(place, place.asked() + rng.randrange(10, 50), process)
        process.send_signal(getattr(signal, name))
        out, err = process.communicate(timeout=30)
        codes.append(process.returncode)
        if process.returncode == 0:
            break
        assert 3 == process.returncode, err
        assert "Traceback" not in err
        assert "`burnish resume runs/x` goes on with it" in out
        assert ["ok"] == integrity(place.run_dir("x") / "run.db")
        arguments, command = ["runs/x"], "resume"
    if codes[-1] != 0:
        assert 0 == place.run("runs/x", command="resume")[0]
    assert codes.count(3) >= 2
    assert shown(place.result("whole")) == shown(place.result("x"))
    assert json.loads((place.run_dir("whole") / "best.json").read_text()) == json.loads(
        (place.run_dir("x") / "best.json").read_text()
    )
    started = codes.count(3) * 8
    assert place.asked("whole.log") <= place.asked() <= place.asked("whole.log") + started
    assert 0 == place.run("runs/x", command="resume", calls="again.log")[0]
    assert (0, shown(place.result("whole"))) == (place.asked("again.log"), shown(place.result("x")))


def wait_for_calls(place: Place, count: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 30
    while place.asked() < count and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.003)


def shown(form: dict[str, Any]) -> dict[str, Any]:
    """Give what a result tells of rows and scores: what interrupts cost is in its spend."""
    test = {key: value for key, value in form["test"].items() if key != "looks"}
    strategies = [{**part, "requests": 0} for part in form["strategies"]]
    spend = form["spend"]["rollouts"]
    return {**form, "test": test, "strategies": strategies, "spend": spend, "name": "", "run_dir": ""}


def alive(pid: int) -> bool:
    """Whether a process has not ended; one that has and was not waited for is a zombie."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
