"""A strategy's own calls: run by the engine, paid from the same budget, told again when the run begins again."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.lowlevel

import burnish as b
from burnish import CallRequest, Plan, Reply, Report, abc
from burnish._runtime.target import as_target
from burnish.abc import LMResponse, Usage
from burnish.errors import (
    BudgetExceededError,
    CallFailedError,
    ContextLengthError,
    ModelRefusedError,
    ModelServerError,
    RunStoppedError,
    UsageError,
)
from burnish.events import CallLanded, fold, read_events
from burnish.testing import ScriptedModel
from burnish_programs import Predict

from ._kit import always, ask

ROWS = [{"q": f"say x{n}", "a": f"x{n}"} for n in range(6)]


class Proposes:
    """Ask a proposer for instructions, and evaluate each."""

    replay_version = 1

    def __init__(self, count: int = 3) -> None:
        self.count, self.told = count, []

    def plan(self, problem: abc.Problem) -> Plan:
        return Plan(rollouts=99, candidates=self.count, minimum=1)

    async def compile(self, engine: b.Engine, problem: abc.Problem) -> Report:
        proposer = Predict("task -> instruction")
        with engine.step("propose"):
            replies = await engine.propose_many([CallRequest(program=proposer, inputs={"task": "say"})] * self.count)
        self.told += [replies, engine.spend]
        best = problem.start
        for number, reply in enumerate(replies):
            if reply.fault is None:
                with engine.step("try", number):
                    index = engine.register(best.set_instruction("predict", reply.prediction.instruction))
                    await engine.evaluate_many([(index, problem.train)])
        return Report(strategy="proposes", best=best)


def models(fail: Any = None) -> tuple[ScriptedModel, ScriptedModel]:
    """Make a task model that answers right, and a proposer whose replies differ by sample."""

    def propose(request: abc.LMRequest) -> LMResponse:
        if fail is not None and request.sample == 1:
            raise fail
        return LMResponse(text=f"instruction: try {request.sample}", usage=Usage(output_tokens=7))

    limits = abc.ModelLimits(key="proposer", retries=0)
    task = ScriptedModel(lambda request: f"a: {request.messages[-1].content.split()[-1]}")
    return task, ScriptedModel(propose, limits=limits, name="proposer")


def run(directory: Path | None, strategy: Proposes, task: Any, proposer: Any, **options: Any) -> b.Result:
    given: dict[str, Any] = {"budget": b.Budget(), "metric": "exact_match", "trainset": ROWS, **options}
    by_role = {"task": task, "proposer": proposer}
    return b.optimize(Predict("q -> a"), strategy=strategy, models=by_role, run_dir=directory, **given)


def test_equal_requests_are_further_samples(tmp_path: Path) -> None:
    """R8: n equal prompts are n answers; calls are the proposer's, metered by role, and recorded."""
    task, proposer = models()
    strategy = Proposes()
    result = run(tmp_path / "run", strategy, task, proposer)
    replies, spend = strategy.told
    assert ["try 0", "try 1", "try 2"] == [reply.prediction.instruction for reply in replies]
    assert (3, 3, 21, 0) == (spend.requests, spend.by_role["proposer"].requests, spend.tokens, spend.metric_calls)
    assert (3 + 18, 18) == (result.spend.requests, result.spend.by_role["task"].requests)
    assert fold(read_events(tmp_path / "run" / "run.db")).spend.requests == 21


def test_a_resumed_run_is_told_the_same_replies(tmp_path: Path) -> None:
    """R2, R8, R15: replies that landed are told again; those under way are asked once more, and count as spent."""
    first = Proposes()
    task, proposer = models()
    run(tmp_path / "run", first, task, proposer)
    again = Proposes()
    task, proposer = models()
    run(tmp_path / "run", again, task, proposer, resume=True)
    assert (0, 0) == (task.calls, proposer.calls)
    assert first.told == again.told
    events = list(read_events(tmp_path / "run" / "run.db"))
    landed = [n for n, event in enumerate(events, 1) if isinstance(event, CallLanded)]
    with sqlite3.connect(tmp_path / "run" / "run.db") as connection:
        for table in ("events", "traces"):
            connection.execute(f"DELETE FROM {table} WHERE n > ?", (landed[1],))
    connection.close()
    third = Proposes()
    task, proposer = models()
    result = run(tmp_path / "run", third, task, proposer, resume=True)
    assert (1, first.told[0]) == (proposer.calls, third.told[0])
    assert 3 + 18 == result.spend.requests


@pytest.mark.parametrize(
    ("fault", "where"), [(ModelServerError("503"), "model"), (ValueError("broken"), "model")], ids=str
)
def test_a_failed_call_is_a_value(fault: Exception, where: str, tmp_path: Path) -> None:
    """One reply fails, the others are told; `retry_failed` asks it anew when the run is resumed."""
    strategy = Proposes()
    run(tmp_path / "run", strategy, *models(fault))
    replies = strategy.told[0]
    assert [None, where, None] == [reply.fault and reply.fault.where for reply in replies]
    with pytest.raises(CallFailedError, match=r"503|broken"):
        replies[1].get()
    again, (task, proposer) = Proposes(), models()
    run(tmp_path / "run", again, task, proposer, resume=b.Resume(retry_failed=True))
    assert 1 == proposer.calls
    assert [None] * 3 == [reply.fault for reply in again.told[0]]


def _fails(error: Exception, *, swallowed: bool = False) -> Any:
    """Make a small program whose model call fails; it may make a text of that."""
    dead = ScriptedModel(lambda request: (_ for _ in ()).throw(error), limits=abc.ModelLimits(key="dead", retries=0))

    async def program(text: str) -> str:
        try:
            return (await b.call_model(dead, ask(text))).text
        except Exception:
            if swallowed:
                return "I do not know"
            raise

    return program


async def _drops(text: str) -> str:
    raise ConnectionResetError(104, "reset by peer")


CALLS: dict[str, tuple[Any, str, str]] = {
    "context": (_fails(ContextLengthError("too long")), "program", "ContextLengthError"),
    "refusal": (_fails(ModelRefusedError("no")), "program", "ModelRefusedError"),
    "server": (_fails(ModelServerError("503")), "model", "ModelServerError"),
    "network": (_drops, "model", "ConnectionResetError"),
    "swallowed": (_fails(ModelServerError("503"), swallowed=True), "model", "ModelServerError"),
    "swallowed refusal": (_fails(ModelRefusedError("no"), swallowed=True), "", ""),
}


@pytest.mark.parametrize("case", CALLS)
async def test_whose_fault_a_call_s_failure_is(case: str) -> None:
    """E86 for calls: what the transport did is the model's, also where it was swallowed; the rest is the program's."""
    program, where, kind = CALLS[case]
    engine = b.Engine(b.EvalEngine(ROWS, always)._evaluator, as_target(lambda q: q))
    (reply,) = await engine.propose_many([CallRequest(program=program, inputs={"text": "abc"})])
    assert (where, kind) == (("", "") if reply.fault is None else (reply.fault.where, reply.fault.type))


def test_calls_are_admitted_like_rollouts() -> None:
    """A cap on requests holds for proposals: what does not fit is a reply with the cap, and no call is made."""
    strategy, (task, proposer) = Proposes(5), models()
    result = run(None, strategy, task, proposer, budget=b.Budget(max_requests=3), concurrency=1)
    replies = strategy.told[0]
    assert [None, None, None, "max_requests", "max_requests"] == [reply.cap for reply in replies]
    assert (3, 3) == (proposer.calls, result.spend.requests)
    with pytest.raises(BudgetExceededError):
        replies[-1].get()


def test_one_call_gives_its_prediction_or_raises() -> None:
    """`call` is one of `propose_many`: a prediction, `CallFailedError`, or the usage error before anything is spent."""
    got: list[Any] = []

    class Calls(Proposes):
        async def compile(self, engine: b.Engine, problem: abc.Problem) -> Report:
            got.append(await engine.call(lambda text: {"loud": text.upper()}, {"text": "abc"}))

            def broken(text: str) -> str:
                raise KeyError(text)

            for program, inputs in ((broken, {"text": "abc"}), (broken, {"text": {1, 2}})):
                try:
                    await engine.call(program, inputs)
                except (CallFailedError, UsageError) as error:
                    got.append(type(error))
            return Report(strategy="calls", best=problem.start)

    run(None, Calls(), *models())
    assert [{"loud": "ABC"}, CallFailedError] == got[:2]
    assert issubclass(got[2], UsageError)


def test_a_fatal_failure_of_a_proposer_ends_the_run() -> None:
    """Without credentials no further call can succeed: the run stops after the first."""
    from burnish.errors import ModelAuthError

    task, _ = models()
    proposer = ScriptedModel([ModelAuthError("401")], limits=abc.ModelLimits(key="p", retries=0))
    with pytest.raises(RunStoppedError, match="401"):
        run(None, Proposes(1), task, proposer)


async def test_calls_share_the_slots() -> None:
    """`concurrency` holds for proposals too."""
    inside, most = 0, 0

    async def busy(n: int) -> int:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        with trio.move_on_after(5):
            while inside < 4 and n < 4:  # the first four wait for each other
                await trio.lowlevel.checkpoint()
        await trio.sleep(0.001)
        inside -= 1
        return n

    class Many(Proposes):
        async def compile(self, engine: b.Engine, problem: abc.Problem) -> Report:
            replies = await engine.propose_many([CallRequest(program=busy, inputs={"n": n}) for n in range(9)])
            assert list(range(9)) == [reply.get() for reply in replies]
            assert all(isinstance(reply, Reply) for reply in replies)
            return Report(strategy="many", best=problem.start)

    task, proposer = models()
    await b.aoptimize(
        Predict("q -> a"), strategy=Many(), models={"task": task, "proposer": proposer}, budget=b.Budget(),
        metric="exact_match", trainset=ROWS, concurrency=4,
    )
    assert 4 == most
