"""Runs that are killed, interrupted and started twice: what is on disk, and what is paid again."""

from __future__ import annotations

import json
import random
import signal
from collections import Counter

import pytest

from burnish._model.events import RolloutLanded

from ._place import Place, integrity

pytestmark = pytest.mark.slow
U = 10 + 6 * 20
"""Rollouts of the whole search: the teacher's, and six candidates on the validation rows."""


def whole_or_absent(place: Place, name: str) -> None:
    """Check what a run left: a sound event table, and no file that is cut off."""
    assert ["ok"] == integrity(place.run_dir(name) / "run.db")
    for file in ("best.json", "result.json"):
        path = place.run_dir(name) / file
        assert not path.exists() or json.loads(path.read_text(encoding="utf-8"))
    assert {"burnish.lock", "run.db", "best.json", "result.json"} >= {
        path.name for path in place.run_dir(name).iterdir() if not path.name.startswith("run.db-")
    }


def test_kill_9_at_any_moment_leaves_whole_files_and_paid_work(place: Place) -> None:
    """Killed four times at seeded moments: all that a cache file holds is served, and no more than that is paid."""
    place.configure()
    moments = random.Random(7)
    for attempt in range(4):
        before = place.cached() if attempt else 0
        name, calls = f"killed{attempt}", f"calls{attempt}.log"
        process = place.start("--name", name, calls=calls)
        place.wait_answered(moments.randrange(1, 25), process, calls)
        process.kill()
        process.communicate()
        whole_or_absent(place, name)
        landed = [event for event in place.events(name) if isinstance(event, RolloutLanded) and event.source == "live"]
        assert place.answered(calls) >= len(landed) >= place.cached() - before
    held = place.cached()
    assert 0 == place.run("--name", "last", calls="last.log")[0]
    assert (U - held, U - held, held) == (
        place.asked("last.log"),
        place.result("last")["spend"]["rollouts"],
        place.result("last")["spend"]["cached"],
    )


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupted_run_keeps_what_was_paid_for(place: Place, name: str) -> None:
    """Exit code 3, the best so far, a result; what was answered before the signal is never asked again."""
    place.configure()
    process = place.start()
    place.wait_answered(random.Random(name).randrange(20, 100), process)
    process.send_signal(getattr(signal, name))
    out, err = process.communicate(timeout=30)
    assert 3 == process.returncode, err
    assert "Traceback" not in err
    assert "stopped     cancelled" in out
    assert {"best.json", "result.json"} <= {path.name for path in place.run_dir().iterdir()}
    whole_or_absent(place, "burnish")
    held = place.cached()
    assert held <= place.result()["spend"]["rollouts"] <= held + 8  # what was cut off was paid for, too
    assert 0 == place.run("--name", "again", calls="again.log")[0]
    assert U - held == place.asked("again.log")


def test_one_directory_takes_one_run(place: Place) -> None:
    """Of two processes that are told to use one directory, one runs and the other makes no call."""
    place.configure()
    processes = {calls: place.start("--name", "same", calls=calls) for calls in ("one.log", "two.log")}
    said = {calls: process.communicate(timeout=60) for calls, process in processes.items()}
    assert Counter([0, 2]) == Counter(process.returncode for process in processes.values()), said
    assert [0, U] == sorted(place.asked(calls) for calls in processes)
    whole_or_absent(place, "same")


def test_two_processes_share_one_cache_file(place: Place) -> None:
    """Two runs at once on one cache file end alike, and leave each rollout in it once."""
    place.configure()
    processes = {name: place.start("--name", name, calls=f"{name}.log") for name in ("one", "two")}
    said = {name: process.communicate(timeout=60) for name, process in processes.items()}
    assert [0, 0] == [process.returncode for process in processes.values()], said
    assert U == place.cached()
    one, two = place.result("one"), place.result("two")
    assert (one["validation"], one["changes"]) == (two["validation"], two["changes"])
    assert U <= place.asked("one.log") + place.asked("two.log") <= 2 * U


def test_a_full_disk_is_no_wrong_input(place: Place) -> None:
    """When files may not grow any more the run says which one, ends with exit code 3, and leaves it whole."""
    place.configure()
    small = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
    code, out, err = place.run(prelude=small)
    assert 3 == code, err
    assert "" == out
    assert "the run store runs/burnish/run.db cannot be used" in err
    assert "Traceback" not in err
    whole_or_absent(place, "burnish")
    assert 0 < sum(isinstance(event, RolloutLanded) for event in place.events()) <= place.answered()
