"""Iterations in flight, racing, and runs that begin again: the same search, however it is run."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import trio

import burnish as b
from burnish import abc
from burnish.events import Asked, read_events
from burnish_gepa import GEPA, GEPAReport, Pool
from burnish_gepa._report_of import report_of

from ._kinds import TRAIN, VAL, Run, answer, improve, metric, program, rows


def slow(reply: Any, concurrency: int) -> Any:
    """Make a model whose calls take different times where several run at once."""

    async def call(request: abc.LMRequest) -> str:
        await trio.sleep(int(request.fingerprint[:6], 16) % 7 / 1000 if concurrency > 1 else 0)
        return str(reply(request))

    call.fingerprint = reply.__name__  # type: ignore[attr-defined]
    return call


def search(strategy: GEPA, concurrency: int, **options: Any) -> b.Result:
    models = {"task": slow(answer, concurrency), "proposer": slow(improve, concurrency)}
    given: dict[str, Any] = {"trainset": rows(10, 3), "valset": VAL, "budget": b.Budget(), **options}
    return b.optimize(program(), metric=metric, strategy=strategy, models=models, concurrency=concurrency, **given)


def story(result: b.Result) -> Any:
    """Give what a search did, with candidates by content: numbers in the engine are given as texts arrive."""
    (report,) = result.reports
    assert isinstance(report, GEPAReport)
    names = {entry.index: entry.candidate.fingerprint for entry in report.candidates}
    lines = [
        (line.iteration, [names[p] for p in line.parents], line.columns, line.before, line.after, line.outcome)
        for line in report.iterations
    ]
    entries = [(e.candidate.fingerprint, e.origin, e.scores, e.mean) for e in report.candidates]
    return lines, entries, report.stop_reason, report.best.fingerprint, report.asked, report.rejected_texts


KNOBS: list[dict[str, Any]] = [
    {"in_flight": 3}, {"sampling": "PxN(2, 2)", "in_flight": 2}, {"racing": True}, {"in_flight": 2, "racing": True}
]


@pytest.mark.slow
@pytest.mark.parametrize("knobs", KNOBS, ids=str)
@pytest.mark.parametrize("cap", [None, "max_metric_calls", "max_requests"])
def test_what_ends_first_changes_nothing(knobs: dict[str, Any], cap: str | None) -> None:
    """R5: with proposals in flight too, the search is the same at concurrency 1 and 16."""
    strategy, budget = GEPA(**{"max_metric_calls": 120, **knobs}), b.Budget(**({cap: 70} if cap else {}))
    first, second = (search(strategy, concurrency, budget=budget) for concurrency in (1, 16))
    assert story(first) == story(second)
    assert (second.spend.requests if cap == "max_requests" else second.spend.metric_calls) <= (70 if cap else 120)


@pytest.mark.parametrize("valset", [VAL, None], ids=["validation", "train alone"])
def test_validations_keep_no_traces(valset: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """gepa keeps the traces of full evaluations: here what lives as long as the search has none."""
    pools: list[Pool] = []
    monkeypatch.setattr("burnish_gepa._search.report_of", lambda search: pools.append(search.pool) or report_of(search))
    Run(valset=valset)
    rollouts = [rollout for member in pools[0].members.values() for rollout in member.evaluation.rollouts]
    assert (32, {None}) == (len(rollouts), {rollout.trace for rollout in rollouts})


def test_parallel_proposals_run_at_once() -> None:
    """gepa takes as long for four proposals as for four one after the other: here parents, reflections and children of
    all tasks are in flight together."""
    peaks = {"task": 0, "proposer": 0}

    def model(role: str, reply: Any) -> Any:
        now = 0

        async def call(request: abc.LMRequest) -> str:
            nonlocal now
            now += 1
            peaks[role] = max(peaks[role], now)
            await trio.sleep(0.002)
            now -= 1
            return str(reply(request))

        call.fingerprint = role  # type: ignore[attr-defined]
        return call

    b.optimize(
        program(), metric=metric, strategy=GEPA(max_metric_calls=60, sampling="Independent(4)"), budget=b.Budget(),
        models={"task": model("task", answer), "proposer": model("proposer", improve)}, trainset=rows(10, 3),
        valset=VAL, concurrency=16,
    )
    assert (True, True) == (peaks["task"] >= 12, peaks["proposer"] >= 3)


@pytest.mark.slow
def test_racing_costs_less_and_its_winner_was_validated() -> None:
    """A child is not run where that decides nothing; the best is run on every row before it is reported."""
    wide = {"valset": rows(50, 10), "trainset": TRAIN}
    plain, raced = (Run(GEPA(max_metric_calls=300, racing=racing), **wide) for racing in (False, True))
    assert 1.0 == plain.report.best_score == raced.report.best_score
    assert raced.task.calls < 0.7 * plain.task.calls
    best = next(entry for entry in raced.report.candidates if entry.candidate == raced.report.best)
    assert (40, 1.0) == (sum(score is not None for score in best.scores), best.mean)
    assert any(None in entry.scores for entry in raced.report.candidates)


def test_a_race_drops_who_cannot_win() -> None:
    """A child that gains on its minibatch alone is out where it can beat nobody any more; it stands in the report."""
    val = [*rows(50, 4, 1), {"question": "Q3-99", "answer": "never"}]
    run = Run(GEPA(max_metric_calls=120, racing=True, patience=2), trainset=rows(10, 3, 2), valset=val)
    assert "out of the race" in [line.outcome for line in run.report.iterations]
    assert run.result.candidate.is_empty


def test_a_race_finds_what_was_broken() -> None:
    """A child that wins a row and breaks those that were right is looked at further, and is no winner."""

    def breaks(request: abc.LMRequest) -> str:
        broken = "[cue 1]" in request.messages[0].content and "Q0" in request.messages[-1].content
        return "answer: broken" if broken else answer(request)

    val = [*rows(50, 12, 1), {"question": "Q1-99", "answer": "A1-99"}]
    run = Run(GEPA(max_metric_calls=150, racing=True, patience=2), task=breaks, trainset=rows(10, 2, 2), valset=val)
    assert run.result.candidate.is_empty


@pytest.mark.slow
@pytest.mark.parametrize(
    ("knobs", "budget"),
    [
        ({}, {}), ({"in_flight": 3}, {}), ({"racing": True}, {}), ({"sampling": "Independent(2)"}, {}),
        ({}, {"max_requests": 75}), ({"in_flight": 3}, {"max_metric_calls": 60}),
    ],
    ids=str,
)  # fmt: skip
def test_a_search_that_was_cut_at_any_ask_goes_on(
    knobs: dict[str, Any], budget: dict[str, int], tmp_path: Path
) -> None:
    """R1, R2, R5, R6, R8-R11; gepa pays for the seed again and diverges at once: cut at each ask and resumed, at
    concurrency 1 and 16, the same asks and the same search."""
    strategy = GEPA(**{"max_metric_calls": 90, **knobs})
    whole = search(strategy, 16, run_dir=tmp_path / "whole", budget=b.Budget(**budget))
    events = list(read_events(tmp_path / "whole" / "run.db"))
    asks = [number for number, event in enumerate(events, start=1) if isinstance(event, Asked)]
    for place, after in enumerate(asks[:: max(1, len(asks) // 8)]):
        directory = tmp_path / f"{place}"
        shutil.copytree(tmp_path / "whole", directory)
        with sqlite3.connect(directory / "run.db") as connection:
            for table in ("events", "traces"):
                connection.execute(f"DELETE FROM {table} WHERE n > ?", (after,))
        connection.close()
        again = search(strategy, (1, 16)[place % 2], run_dir=directory, budget=b.Budget(**budget), resume=True)
        assert story(whole) == story(again), after
        assert asked(tmp_path / "whole") == asked(directory), after


def asked(directory: Path) -> list[tuple[str, str]]:
    """Give what a run asked; chains in flight ask in any order."""
    return sorted((e.step, e.digest) for e in read_events(directory / "run.db") if isinstance(e, Asked))
