"""Going on with a run where something stands in the way: another process, a full disk, a directory of no use."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from ._place import Place, integrity

pytestmark = pytest.mark.slow
NO_CACHE = '[cache]\nuse = "none"\n'


def found(place: Place, name: str) -> Any:
    """Give what a run came to: scores, winner, test."""
    form = place.result(name)
    best = json.loads((place.run_dir(name) / "best.json").read_text(encoding="utf-8"))
    return form["validation"], form["test"]["baseline"], form["test"]["winner"], form["changes"], best


def unbroken(place: Place) -> int:
    """Run it once without any harm, as `whole`; gives the number of its calls."""
    assert 0 == place.run("--name", "whole", calls="whole.log")[0]
    return place.asked("whole.log")


def test_two_processes_that_resume_one_run(place: Place) -> None:
    """One goes on, the other makes no call and says who is there; what either does changes nothing."""
    place.configure(test=10, candidates=1, more=NO_CACHE)
    calls = unbroken(place)
    process = place.start("--name", "x")
    place.wait_answered(12, process)
    process.kill()
    process.communicate()
    before = place.asked()
    processes = [place.start("runs/x", command="resume") for _ in range(3)]
    said = [process.communicate(timeout=60) for process in processes]
    codes = [process.returncode for process in processes]
    assert {0, 2} >= set(codes), said
    assert 0 in codes
    for code, (_, err) in zip(codes, said, strict=True):
        assert code == 0 or "another process runs in runs/x" in err
    assert calls <= place.asked() <= calls + 8
    assert before <= calls
    assert found(place, "whole") == found(place, "x")


def test_a_run_goes_on_when_there_is_room_again(place: Place) -> None:
    """Stopped by a full disk again and again, with ever more room: nothing that was committed is lost or paid again."""
    place.configure(test=10, candidates=1, more=NO_CACHE)
    calls = unbroken(place)
    arguments, command, codes = ["--name", "x"], "run", []
    for size in range(60_000, 3_000_000, 60_000):
        limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))\n"
        code, _, err = place.run(*arguments, command=command, prelude=limit)
        assert "Traceback" not in err
        assert code in (0, 2, 3), err
        codes.append(code)
        if code == 0:
            break
        if (place.run_dir("x") / "run.db").exists():
            assert ["ok"] == integrity(place.run_dir("x") / "run.db")
            arguments, command = ["runs/x"], "resume"
    assert (0, True) == (codes[-1], 3 in codes)
    assert calls <= place.asked() <= calls + 8 * (len(codes) - 1)
    assert found(place, "whole") == found(place, "x")


@pytest.mark.parametrize("name", ["burnish.lock", "run.db", "best.json", "result.json"])
def test_a_file_that_cannot_be_written_is_named(place: Place, name: str) -> None:
    """A directory in the place of one of a run's files: it is named, and once it is gone the run goes on."""
    place.configure(test=10, candidates=1, more=NO_CACHE)
    unbroken(place)
    process = place.start("--name", "x")
    place.wait_answered(12, process)
    process.send_signal(signal.SIGTERM)
    assert 3 == (process.communicate(timeout=30), process.returncode)[1]
    path = place.run_dir("x") / name
    path.rename(place.path / name)
    (path / "in the way").mkdir(parents=True)
    code, _, err = place.run("runs/x", command="resume")
    assert code == (2 if name in ("burnish.lock", "run.db") else 3), err
    assert "Traceback" not in err
    assert f"runs/x/{name}" in err or (name == "run.db" and "there is no run.db" in err)
    (path / "in the way").rmdir()
    path.rmdir()
    (place.path / name).rename(path)
    code, _, err = place.run("runs/x", command="resume")
    assert 0 == code, err
    assert found(place, "whole") == found(place, "x")
