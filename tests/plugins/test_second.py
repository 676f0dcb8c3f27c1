"""A second distribution takes the place of executor, meter, cache and sink, through entry points alone.

`second/` is a distribution of a third party. It is built and installed into a directory of its own; a child process
with that directory on its path opens the four by name and runs scenarios 1 to 6 of the engine on them (`scenarios.py`),
and a whole run. If a seam were not real, a rollout, a reservation, a record or an event would pass it by.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from burnish import abc

HERE = Path(__file__).parent
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the second distribution and install it, with uv, which runs this repository's commands anyway."""
    place = tmp_path_factory.mktemp("second")
    uv = os.environ.get("UV") or shutil.which("uv")
    assert uv, "uv is not on the PATH; it builds the distribution under tests/plugins/second"
    command = [uv, "pip", "install", "--quiet", "--no-deps", "--python", sys.executable, "--target", str(place)]
    subprocess.run([*command, str(HERE / "second")], check=True, timeout=120)
    return place


@pytest.fixture(scope="module")
def report(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the scenarios in a process where the second distribution is installed; warnings are errors there too."""
    paths = [str(installed), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-W", "error", str(HERE / "scenarios.py"), str(tmp_path_factory.mktemp("run"))],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (0, "") == (done.returncode, done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def done(examples: list[int], scores: list[float], traces: int | None = None) -> dict[str, Any]:
    """What an evaluation gave: rows in order, scores, and how many rollouts came with a trace (None: all)."""
    mean = pytest.approx(sum(scores) / len(scores))
    return {"examples": examples, "scores": scores, "mean": mean, "traces": len(scores) if traces is None else traces}


def refused(needed: int, cap: str = "max_metric_calls", stage: str | None = None) -> dict[str, Any]:
    """What a refusal says."""
    return {"needed": needed, "stage": stage, "cap": cap}


def spend(fresh: int, cached: int) -> dict[str, int]:
    """What so many fresh and served rollouts cost."""
    return {"metric_calls": fresh, "lm_calls": fresh, "lm_spans": fresh, "cache_hits": cached}


def test_the_child_has_the_second_distribution_and_loads_no_other(report: dict[str, Any]) -> None:
    """Its four components are found by entry point; nothing else was imported, no built-in and no neighbour."""
    kinds = ("cache", "executor", "meter", "sink")
    assert dict.fromkeys((f"{kind}.second" for kind in kinds), "burnish-second") == report["distributions"]
    assert ["burnish_second", "burnish_second._parts", "burnish_second._plugin"] == report["imported"]


def test_scenario_1(report: dict[str, Any]) -> None:
    """Eight rows on eight slots wait for each other and complete, in order; mean of matrix and evaluation agree."""
    assert {
        "done": done(list(range(8)), [i / 10 for i in range(8)]),
        "spend": spend(8, 0),
        "matrix_mean": pytest.approx(0.35),
    } == report["1"]["result"]


def test_scenario_2(report: dict[str, Any]) -> None:
    """Subset [3, 1, 2] of four rows: results in that order, cell 0 empty."""
    assert {"done": done([3, 1, 2], [0.3, 0.1, 0.2]), "row": [None, 0.1, 0.2, 0.3]} == report["2"]["result"]


def test_scenario_3(report: dict[str, Any]) -> None:
    """Three right answers; a repeat that asks no model; a second candidate with one wrong answer, taken out again."""
    first, again, other = report["3"]["result"]["steps"]
    assert {"done": done([0, 1, 2], [1.0, 1.0, 1.0]), "spend": spend(3, 0), "left": 0} == first
    assert {"done": done([0, 1, 2], [1.0, 1.0, 1.0], traces=0), "spend": spend(3, 3), "left": 0} == again
    assert [0.0, 1.0, 1.0] == sorted(other["done"]["scores"])  # the wrong answer goes to whichever row asks second
    assert {"done": done([0, 1, 2], other["done"]["scores"]), "spend": spend(6, 3), "left": 0} == other
    assert report["3"]["result"]["instruction"] is None


def test_scenario_4(report: dict[str, Any]) -> None:
    """Cap 4 on three rows: 3 spent, another candidate refused whole, the repeat free, one row fits, then nothing."""
    tenths = [0.0, 0.1, 0.2]
    assert {
        "steps": [
            {"done": done([0, 1, 2], tenths), "metric_calls": 3},
            {"done": refused(3), "metric_calls": 3},
            {"done": done([0, 1, 2], tenths, traces=0), "metric_calls": 3},
            {"done": done([0], [0.0]), "metric_calls": 4},
        ],
        "allows": False,
    } == report["4"]["result"]


def test_scenario_5(report: dict[str, Any]) -> None:
    """A gate rejects the weak candidate after two rollouts and promotes the strong one, its minibatch served."""
    assert {
        "weak": {"verdict": "Rejected", "minibatch": done([0, 1], [0.1, 0.1])},
        "after_weak": [2, None],
        "strong": {
            "verdict": "Promoted",
            "minibatch": done([0, 1], [0.9, 0.9]),
            "full": done(list(range(6)), [0.9] * 6, traces=4),
        },
        "metric_calls": 8,
        "wins": [0, 6],
        "frontier_is_strong": True,
        "best_is_strong": True,
    } == report["5"]["result"]


def test_scenario_6(report: dict[str, Any]) -> None:
    """A cap below the minibatch spends nothing; one below the promotion keeps what the minibatch paid."""
    assert {
        "tight": refused(2, stage="minibatch"),
        "tight_spend": spend(0, 0),
        "passed": refused(2, stage="full"),
        "metric_calls": 2,
        "cells": [0.9, None],
    } == report["6"]["result"]


def test_another_engine_is_served_by_the_cache(report: dict[str, Any]) -> None:
    """What went through JSON text in the second cache is an answer: three hits, no rollout, no lease."""
    result, seen = report["second engine"]["result"], report["second engine"]["seen"]
    assert {"done": done([0, 1, 2], [0.0, 0.1, 0.2], traces=0), "spend": spend(0, 3)} == result
    assert sorted(seen["written"]) == sorted(seen["served"]) == sorted(seen["cached"])
    assert (3, [3]) == (len(seen["executed"]), seen["asked"])


def test_the_meter_can_refuse(report: dict[str, Any]) -> None:
    """A quota of 4 under a budget of 100: 3 and 1 are granted, what is served needs none, the fifth is refused."""
    assert {
        "steps": [
            done([0, 1, 2], [0.0, 0.1, 0.2]),
            done([3], [0.3]),
            done([0, 1, 2, 3], [0.0, 0.1, 0.2, 0.3], traces=0),
            refused(1, cap="meter: metric_calls"),
        ],
        "spend": spend(4, 4),
    } == report["quota"]["result"]
    assert ([3, 1, 1], 4) == (report["quota"]["seen"]["asked"], len(report["quota"]["seen"]["executed"]))


LEASES = {
    "1": [8],
    "2": [3],
    "3": [3, 3],
    "4": [3, 1],
    "5": [2, 2, 4],
    "6": [2],
    "second engine": [3],
}
"""What the meter is asked for: a lease for each batch that the run's own budget admits, nothing for what is served."""

SCENARIOS = ("1", "2", "3", "4", "5", "6", "second engine", "quota", "run")


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_rollout_goes_through_the_executor(report: dict[str, Any], name: str) -> None:
    """The rollouts that the run store says were live are those that the second executor ran, each once."""
    seen = report[name]["seen"]
    assert Counter(seen["live"]) == Counter(seen["executed"])
    assert len(set(seen["executed"])) == len(seen["executed"]) > 0


@pytest.mark.parametrize("name", [*LEASES, "run"])
def test_every_reservation_asks_the_meter(report: dict[str, Any], name: str) -> None:
    """Leases add up to the rollouts that ran, under keys that differ; each is given back, with nothing left over."""
    seen = report[name]["seen"]
    assert len(seen["executed"]) == sum(seen["asked"])
    assert len(set(seen["lease_keys"])) == len(seen["lease_keys"])
    assert [[key, 0] for key in seen["lease_keys"]] == seen["released"]
    assert LEASES.get(name, seen["asked"]) == seen["asked"]


@pytest.mark.parametrize("name", SCENARIOS[:-1])
def test_every_answer_is_looked_up_and_kept_in_the_cache(report: dict[str, Any], name: str) -> None:
    """Before a rollout runs the second cache is asked for it; what landed is written there, once."""
    seen = report[name]["seen"]
    assert Counter(seen["executed"]) == Counter(seen["written"])
    assert set(seen["executed"]) <= set(seen["looked_up"])


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_event_reaches_the_sink_once_and_in_order(report: dict[str, Any], name: str) -> None:
    """Numbers 1 to n without gap or repetition, the events equal to those in the run store, in several deliveries."""
    seen = report[name]["seen"]
    assert list(range(1, len(seen["stored_numbers"]) + 1)) == seen["numbers"] == seen["stored_numbers"]
    assert seen["same_events"]
    assert seen["deliveries"] > 1


def test_a_whole_run_takes_its_parts_by_name(report: dict[str, Any]) -> None:
    """`optimize(cache="second", ...)`: search and test go through the same four; test rows are never cached."""
    run = report["run"]
    assert {"scores": [pytest.approx(0.1), pytest.approx(0.9)], "metric_calls": 10} == run["result"]
    assert 10 == len(run["seen"]["executed"])
    rollouts = {key for key in run["seen"]["written"] if abc.is_rollout(key)}
    assert (6, 12) == (len(rollouts), len(run["seen"]["written"]))  # each with its trace
    assert rollouts < set(run["seen"]["executed"])
