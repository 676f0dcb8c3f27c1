"""Money and requests over kills and resumes: no cap is passed, nothing that was paid is thrown away (R3, R15)."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pytest

import burnish as b
from burnish import Plan, Report, abc
from burnish.abc import LMResponse, Usage
from burnish.errors import ModelTimeoutError
from burnish.events import RolloutLanded, RolloutStarted, Told, read_events
from burnish.testing import ScriptedModel
from burnish_programs import Predict

ROWS = [{"q": f"say x{n}", "a": f"x{n}"} for n in range(20)]
PRICE = abc.ModelPrice(input=0, output=Decimal(10_000))


def priced(bound: int, tokens: int = 10, slow: Iterable[str] = ()) -> ScriptedModel:
    """Make a model of 0.01 a token, whose answers have so many and at most `bound`."""

    def answer(request: abc.LMRequest) -> LMResponse:
        word = request.messages[-1].content.split()[-1]
        if word in slow:
            raise ModelTimeoutError("slow")
        return LMResponse(text=f"a: {word}", usage=Usage(output_tokens=tokens))

    limits = abc.ModelLimits(key="m", retries=0, max_output_tokens=bound, price=PRICE)
    return ScriptedModel(answer, limits=limits)


@attrs.frozen
class Once:
    """Evaluate the start, all rows in one ask or each in its own, and note what was told."""

    apart: bool = False
    replay_version = 1

    def plan(self, problem: abc.Problem) -> Plan:
        return Plan(rollouts=9, candidates=1, minimum=1)

    async def compile(self, engine: b.Engine, problem: abc.Problem) -> Report:
        start, told = engine.register(problem.start), []
        for columns in [[c] for c in problem.val] if self.apart else [list(problem.val)]:
            outcome = await engine.evaluate_many([(start, columns)])
            done = outcome.evaluations if isinstance(outcome, b.Complete) else outcome.partial or ()
            scores = [r.eval and r.eval.score for e in done for r in e.rollouts] if isinstance(done, tuple) else []
            told.append((type(outcome).__name__, scores))
        return Report(strategy="once", best=problem.start, notes=(repr(told),))


@attrs.frozen
class Propose(Once):
    """Ask a proposer four times for two texts."""

    async def compile(self, engine: b.Engine, problem: abc.Problem) -> Report:
        for number in range(4):
            with engine.step("propose", number):
                request = b.CallRequest(program=Predict("q -> a"), inputs={"q": str(number)})
                await engine.propose_many([request] * 2)
        return Report(strategy="propose", best=problem.start)


def run(directory: Path, model: ScriptedModel, budget: b.Budget, strategy: Any = None, **options: Any) -> b.Result:
    sets: dict[str, Any] = {"trainset": ROWS[:8], "valset": ROWS[8:20], "testset": []}
    return b.optimize(
        Predict("q -> a"),
        strategy=strategy or Once(),
        run_dir=directory,
        metric="exact_match",
        models=model,
        budget=budget,
        concurrency=1,
        **{**sets, **options},
    )


def cut(directory: Path, to: Path, events: int) -> Path:
    """Copy a run as it was after so many events."""
    shutil.copytree(directory, to)
    with sqlite3.connect(to / "run.db") as connection:
        for table in ("events", "traces"):
            connection.execute(f"DELETE FROM {table} WHERE n > ?", (events,))
    connection.close()
    return to


def numbers(directory: Path, holds: Callable[[list[Any]], bool]) -> list[int]:
    """Give the numbers of the events after which something holds of all so far."""
    events = list(read_events(directory / "run.db"))
    return [n for n in range(1, len(events) + 1) if holds(events[:n])]


def count(events: list[Any], kind: type) -> int:
    return sum(isinstance(event, kind) for event in events)


@pytest.mark.parametrize("budget", [b.Budget(max_requests=8), b.Budget(max_cost=Decimal("1.0"))], ids=str)
def test_an_ask_that_was_cut_is_told_as_it_would_have_been(budget: b.Budget, tmp_path: Path) -> None:
    """What had landed of an ask is told with the rest that still fits: it does not keep the rest out."""
    whole = priced(10)
    first = run(tmp_path / "whole", whole, budget)
    three = numbers(tmp_path / "whole", lambda e: count(e, RolloutLanded) == count(e, RolloutStarted) == 3)[0]
    rest = priced(10)
    again = run(cut(tmp_path / "whole", tmp_path / "cut", three), rest, budget, resume=True)
    assert (first.reports[0].notes, whole.calls - 3) == (again.reports[0].notes, rest.calls)


def test_what_a_timeout_may_have_cost_stays_kept_back(tmp_path: Path) -> None:
    """Two calls timed out and may have been charged: a resumed run keeps their bounds back as the whole one does."""
    budget, slow = b.Budget(max_cost=Decimal("0.8")), ("x9", "x11")
    first = run(tmp_path / "whole", priced(10, slow=slow), budget, Once(apart=True))
    for at in numbers(tmp_path / "whole", lambda e: isinstance(e[-1], Told))[1:6:2]:
        place = cut(tmp_path / "whole", tmp_path / f"cut {at}", at)
        again = run(place, priced(10, slow=slow), budget, Once(apart=True), resume=True)
        assert first.reports[0].notes == again.reports[0].notes


def test_the_room_that_calls_need_is_known_again(tmp_path: Path) -> None:
    """Calls are bounded by 1.00 and cost 0.05: a resumed run refuses what the whole one refuses."""
    budget, test = b.Budget(max_cost=Decimal("2.5")), [{"q": f"say y{n}", "a": "y"} for n in range(16)]
    sets: dict[str, Any] = {"trainset": ROWS[:4], "valset": ROWS[4:8], "testset": test}
    first = run(tmp_path / "whole", priced(100, 5), budget, Once(apart=True), **sets)
    quiet = numbers(tmp_path / "whole", lambda e: count(e, RolloutStarted) == count(e, RolloutLanded))[2:]
    for at in quiet[:: max(1, len(quiet) // 5)]:
        place = cut(tmp_path / "whole", tmp_path / f"cut {at}", at)
        again = run(place, priced(100, 5), budget, Once(apart=True), resume=True, **sets)
        assert first.reports[0].notes == again.reports[0].notes, at


CHILD = """
import os, pathlib, signal, sys
sys.path.insert(0, {here!r})
import test_resume_money as t

class Counted(t.ScriptedModel):
    async def complete(self, request):
        with open({calls!r}, "a") as file:
            file.write("x")
        if {kill}:
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().complete(request)

limits = t.abc.ModelLimits(key="m", retries=0, max_output_tokens=10, price=t.PRICE)
model = Counted(lambda request: t.LMResponse(text="a: 1", usage=t.Usage(output_tokens=10)), limits=limits)
t.run(pathlib.Path({run!r}), model, t.b.Budget({budget}), t.{strategy}(), resume={resume})
"""


@pytest.mark.slow
@pytest.mark.parametrize("budget", ['max_cost=t.Decimal("0.6")', "max_requests=6"])
@pytest.mark.parametrize("strategy", ["Propose", "Once"])
def test_kills_pass_no_cap(strategy: str, budget: str, tmp_path: Path) -> None:
    """Killed at its call three times and then left to end, a run has sent no more than the cap allows in all."""
    calls = tmp_path / "calls"
    for life in range(4):
        code = CHILD.format(
            here=str(Path(__file__).parent), calls=str(calls), kill=life < 3, run=str(tmp_path / "run"),
            strategy=strategy, budget=budget, resume=life > 0,
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
        assert (-signal.SIGKILL if life < 3 else 0) == done.returncode, done.stderr.decode()[-500:]
    assert 3 < len(calls.read_text()) <= 6
