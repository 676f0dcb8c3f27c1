"""Faults by whose they are: the program's, the model's, the infrastructure's; each rollout for itself."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
import trio
import trio.testing

import burnish as b
from burnish import Complete, EngineConfig, EvalEngine, RolloutStatus, errors
from burnish._runtime.blame import blame
from burnish.abc import ModelLimits
from burnish.testing import ScriptedModel

from ._kit import Ambient, Module, always, ask, echo, evaluated, idle, rows, tenth


async def test_one_failing_row_in_ten_loses_none_of_the_nine() -> None:
    """E12, WE: the seed threw nine paid results away; here each lands, and the tenth gets the failure score, cached."""

    async def act(q: Any, instruction: str) -> Any:
        await trio.lowlevel.checkpoint()
        if q == 4:
            raise ValueError("no such thing\nsecond line")
        return q

    program, engine = Ambient(act), EvalEngine(rows(10), tenth, EngineConfig(failure_score=-0.5))
    index = engine.register(b.Candidate())
    evaluation = evaluated(await engine.evaluate(program, index))
    failed = evaluation.rollouts[4]
    assert [-0.5 if i == 4 else i / 10 for i in range(10)] == evaluation.scores() == engine.matrix.row(index)
    assert (RolloutStatus.AGENT_FAILED, "ValueError") == (failed.status, failed.error and failed.error.type)
    assert failed.eval is not None
    assert failed.trace is not None
    assert failed.trace.outcome is not None
    assert "The program failed: ValueError: no such thing" == failed.eval.feedback
    assert "ValueError: no such thing\nsecond line" == failed.trace.outcome.error
    assert (10, 10) == (engine.spend.metric_calls, engine.spend.lm_spans)

    again = evaluated(await engine.evaluate(program, index))
    assert (evaluation.scores(), 10, 10) == (again.scores(), engine.spend.metric_calls, engine.spend.cache_hits)
    assert RolloutStatus.AGENT_FAILED is again.rollouts[4].status


@attrs.define(eq=False)
class Kept:
    """Raises a cancellation that is over long ago, as a memo does that keeps what a call raised."""

    error: BaseException | None = None

    async def again(self) -> Any:
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await trio.sleep_forever()
            except trio.Cancelled as error:
                self.error = error
        assert self.error is not None
        raise self.error


@pytest.mark.parametrize("grouped", [False, True])
async def test_a_kept_cancellation_is_the_program_s_own_failure(grouped: bool) -> None:
    """Where nothing is cancelled, a `trio.Cancelled` ends one rollout: it never runs, and is paid for, again."""
    scripted = ScriptedModel(lambda request: "1")

    async def act(q: Any, instruction: str) -> Any:
        await b.call_model(scripted, ask())
        if q != 1:
            return q
        try:
            await Kept().again()
        except trio.Cancelled as error:
            if grouped:
                raise BaseExceptionGroup("two calls", [error, ValueError("no")]) from None
            raise

    engine = EvalEngine(rows(3), always, EngineConfig(budget=b.Budget(max_metric_calls=3)))
    with trio.fail_after(5):
        evaluation = evaluated(await engine.evaluate(Ambient(act), engine.register(b.Candidate())))
    assert [1.0, 0.0, 1.0] == evaluation.scores()
    assert RolloutStatus.AGENT_FAILED is evaluation.rollouts[1].status
    assert (3, 3) == (scripted.calls, engine.spend.metric_calls)


async def test_a_kept_cancellation_of_a_metric_is_the_metric_s() -> None:
    """It is a `MetricError`, like whatever else a metric raises."""

    async def metric(example: Any, prediction: Any) -> float:
        await Kept().again()
        return 1.0

    engine = EvalEngine(rows(2), metric)
    with trio.fail_after(5), pytest.raises(errors.MetricError, match="Cancelled"):
        await engine.evaluate(Ambient(echo), engine.register(b.Candidate()))


async def test_a_kept_cancellation_of_a_model_is_the_model_s() -> None:
    """It is a model that failed: no verdict on the candidate, and nothing runs on without end."""

    async def reply(request: Any) -> str:
        await Kept().again()
        return "1"

    async def act(q: Any, instruction: str) -> Any:
        return (await b.call_model(reply, ask())).text

    engine = EvalEngine(rows(1), always)
    with trio.fail_after(5):
        (row,) = evaluated(await engine.evaluate(Ambient(act), engine.register(b.Candidate()))).rollouts
    assert (RolloutStatus.INFRASTRUCTURE_FAILED, "ModelFailedError") == (row.status, row.error and row.error.type)


def client_error(name: str, base: str = "ClientError", status: int | None = None) -> Exception:
    """Make an error as a client's library has it: known by the names of its classes, or by its response."""
    error: Exception = type(name, (type(base, (Exception,), {}),), {})("no answer")
    if status is not None:
        error.response = SimpleNamespace(status_code=status)  # type: ignore[attr-defined]
    return error


FAULTS: list[tuple[BaseException, RolloutStatus]] = [
    (errors.ModelConnectionError("no route"), RolloutStatus.INFRASTRUCTURE_FAILED),
    (errors.ModelTimeoutError("too slow"), RolloutStatus.INFRASTRUCTURE_FAILED),
    (errors.ModelServerError("502"), RolloutStatus.INFRASTRUCTURE_FAILED),
    (errors.ModelRateLimitError("429"), RolloutStatus.INFRASTRUCTURE_FAILED),
    (errors.ModelMalformedError("half"), RolloutStatus.INFRASTRUCTURE_FAILED),
    (errors.ModelRequestError("400"), RolloutStatus.INFRASTRUCTURE_FAILED),
    (errors.ContextLengthError("too long"), RolloutStatus.AGENT_FAILED),
    (errors.ModelRefusedError("no"), RolloutStatus.AGENT_FAILED),
    (errors.ParseError("no answer", raw="gibberish"), RolloutStatus.AGENT_FAILED),
    (SystemExit(3), RolloutStatus.AGENT_FAILED),
    (asyncio.CancelledError("an asyncio task was cancelled"), RolloutStatus.AGENT_FAILED),
    (GeneratorExit(), RolloutStatus.AGENT_FAILED),
    (BaseExceptionGroup("two", [SystemExit(3), ValueError("a bug")]), RolloutStatus.AGENT_FAILED),
    (FileNotFoundError(2, "no prompt.txt"), RolloutStatus.AGENT_FAILED),
    (PermissionError(13, "no"), RolloutStatus.AGENT_FAILED),
    (OSError(28, "no space left"), RolloutStatus.AGENT_FAILED),
    (client_error("HTTPStatusError", status=404), RolloutStatus.AGENT_FAILED),
    (ConnectionRefusedError(111, "refused"), RolloutStatus.INFRASTRUCTURE_FAILED),
    (TimeoutError("timed out"), RolloutStatus.INFRASTRUCTURE_FAILED),
    (trio.TooSlowError(), RolloutStatus.INFRASTRUCTURE_FAILED),
    (OSError(errno.ENETUNREACH, "network unreachable"), RolloutStatus.INFRASTRUCTURE_FAILED),
    (socket.gaierror(-2, "name not known"), RolloutStatus.INFRASTRUCTURE_FAILED),
    (ssl.SSLCertVerificationError("self-signed"), RolloutStatus.INFRASTRUCTURE_FAILED),
    (client_error("ConnectTimeout", "TimeoutException"), RolloutStatus.INFRASTRUCTURE_FAILED),
    (client_error("APITimeoutError", "APIConnectionError"), RolloutStatus.INFRASTRUCTURE_FAILED),
    (client_error("ServerDisconnectedError", "ClientConnectionError"), RolloutStatus.INFRASTRUCTURE_FAILED),
    (client_error("HTTPStatusError", status=503), RolloutStatus.INFRASTRUCTURE_FAILED),
    (client_error("RateLimitError", status=429), RolloutStatus.INFRASTRUCTURE_FAILED),
]


@pytest.mark.parametrize(("error", "status"), FAULTS, ids=lambda value: getattr(type(value), "__name__", ""))
@pytest.mark.parametrize("form", ["bare", "wrapped", "handled", "grouped"])
async def test_who_is_to_blame(error: BaseException, status: RolloutStatus, form: str) -> None:
    """E86: what the transport did is unscored, not cached; what the candidate did is a verdict, whatever wraps it."""
    verdict = status is RolloutStatus.AGENT_FAILED

    async def act(q: Any, instruction: str) -> Any:
        if form == "wrapped" and (not verdict or isinstance(error, errors.ModelError)):
            raise RuntimeError("the client failed") from error
        if form == "handled" and (not verdict or isinstance(error, errors.ModelError)):
            try:
                raise error
            except Exception:
                raise RuntimeError("step failed")  # noqa: B904 (as most people write it)
        if form == "grouped" and isinstance(error, Exception):
            raise ExceptionGroup("both calls failed", [error, ExceptionGroup("inner", [error])])
        raise error

    program, engine = Ambient(act), EvalEngine(rows(2), always)
    index = engine.register(b.Candidate())
    evaluation = evaluated(await engine.evaluate(program, index))
    assert [status] * 2 == [r.status for r in evaluation.rollouts]
    assert ([0.0] * 2 if verdict else [None] * 2) == evaluation.scores()
    assert (0.0 if verdict else None) == evaluation.mean()
    await engine.evaluate(program, index)
    assert (2 if verdict else 4) == len(program.ran)


async def test_a_program_takes_an_error_on_itself_with_from_none() -> None:
    """`raise ... from None` says that what was handled is no part of it; a ring of contexts ends."""

    async def act(q: Any, instruction: str) -> Any:
        try:
            raise errors.ModelServerError("502")
        except Exception as error:
            mine = RuntimeError("the second try failed too")
            mine.__context__, error.__context__ = error, mine
            raise mine from None

    engine = EvalEngine(rows(1), always)
    evaluation = evaluated(await engine.evaluate(Ambient(act), engine.register(b.Candidate())))
    assert ([RolloutStatus.AGENT_FAILED], [0.0]) == ([r.status for r in evaluation.rollouts], evaluation.scores())
    first, second = errors.ModelServerError("502"), RuntimeError("step failed")
    first.__context__, second.__context__ = second, first
    assert first is blame(second)


@pytest.mark.parametrize("where", ["program", "metric"])
def test_what_the_caller_handles_is_no_part_of_a_rollout(where: str) -> None:
    """All errors of a run that was started in an `except` block, say on another model, have that one as context."""

    async def act(q: Any, instruction: str) -> Any:
        if where == "program":
            raise ValueError("a bug")

    def judge(example: Any, prediction: Any) -> float:
        raise ValueError("a bug")

    async def run() -> b.RolloutOutcome:
        engine = EvalEngine(rows(1), judge if where == "metric" else always)
        with contextlib.suppress(errors.MetricError):
            return evaluated(await engine.evaluate(Ambient(act), engine.register(b.Candidate()))).rollouts[0]
        raise AssertionError("the metric failed") from None

    try:
        raise errors.ModelServerError("the first model is down")
    except errors.ModelServerError:
        if where == "program":
            assert RolloutStatus.AGENT_FAILED is trio.run(run).status
        else:
            with pytest.raises(AssertionError, match="the metric failed"):
                trio.run(run)


async def test_missing_credentials_cost_one_call() -> None:
    """With `preflight` the first rollout runs alone: the run stops after one call, and a later try costs one again."""
    model = ScriptedModel([errors.ModelAuthError("bad key", status=401)] * 2 + ["ok"] * 20)

    async def act(q: Any, instruction: str) -> Any:
        return (await b.call_model(model, ask(str(q)))).text

    engine = EvalEngine(rows(16), always, EngineConfig(preflight=True))
    index = engine.register(b.Candidate())
    for calls in (1, 2):
        with pytest.raises(errors.RunStoppedError, match="bad key"):
            await engine.evaluate(Ambient(act), index)
        assert (calls, calls) == (model.calls, engine.spend.requests)
    assert 1.0 == evaluated(await engine.evaluate(Ambient(act), index)).mean()
    assert 18 == model.calls


async def test_a_program_without_a_model_stops_the_run() -> None:
    """A usage error inside the program would meet every row: it stops the run and says what to do."""

    async def act(q: Any, instruction: str) -> Any:
        return b.model_for("task")

    program, engine = Ambient(act), EvalEngine(rows(16), always, EngineConfig(preflight=True))
    with pytest.raises(errors.RunStoppedError, match="no model for the role `task`"):
        await engine.evaluate(program, engine.register(b.Candidate()))
    assert [0] == program.ran


async def test_failures_in_a_row_stop_the_run_with_their_causes() -> None:
    """They count across evaluations; one good rollout starts the count anew; what was paid for stays."""

    async def act(q: Any, instruction: str) -> Any:
        if q != 2:
            raise errors.ModelServerError("502") if q % 2 else errors.ModelConnectionError("no route")
        return q

    program = Ambient(act)
    engine = EvalEngine(rows(12), always, EngineConfig(concurrency=1, max_failures_in_row=5))
    index = engine.register(b.Candidate())
    await engine.evaluate(program, index, [0, 1, 2, 3, 4])
    with pytest.raises(errors.RunStoppedError) as caught:
        await engine.evaluate(program, index, [5, 6, 7, 8, 9, 10])
    text = "5 rollouts in a row failed: 3 x ModelServerError: 502; 2 x ModelConnectionError: no route"
    assert text in str(caught.value)
    assert [0, 1, 2, 3, 4, 5, 6, 7] == program.ran
    assert (8, 1.0) == (engine.spend.metric_calls, engine.matrix.score(index, 2))


async def test_a_rollout_has_a_time_limit(autojump_clock: trio.testing.MockClock) -> None:
    """A rollout over `rollout_timeout` is `timed_out` and unscored, also where the program fails on its way out."""

    async def act(q: Any, instruction: str) -> Any:
        try:
            await trio.sleep(10 if q else 1)
        finally:
            if q == 2:
                raise RuntimeError("fails while it is cancelled")
        return q

    async def in_child_tasks(q: Any, instruction: str) -> Any:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(act, q, instruction)
            nursery.start_soon(trio.sleep, 10)
        return q

    engine = EvalEngine(rows(3), always, EngineConfig(rollout_timeout=3))
    index = engine.register(b.Candidate())
    evaluation = evaluated(await engine.evaluate(Ambient(act), index))
    assert [RolloutStatus.SUCCEEDED] + [RolloutStatus.TIMED_OUT] * 2 == [r.status for r in evaluation.rollouts]
    assert "Timeout: the rollout took longer than 3 s" == str(evaluation.rollouts[1].error)
    other = Ambient(in_child_tasks, fingerprint="other")
    assert {RolloutStatus.TIMED_OUT} == {r.status for r in evaluated(await engine.evaluate(other, index)).rollouts}


async def test_cancelling_beats_what_fails_on_its_way_out(autojump_clock: trio.testing.MockClock) -> None:
    """A program that raises while it is cancelled neither turns that into an error nor is scored for it."""

    async def fails_late() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise RuntimeError("fails while it is cancelled")

    async def act(q: Any, instruction: str) -> Any:
        if q == 0:
            await fails_late()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails_late)
            await trio.sleep_forever()

    engine = EvalEngine(rows(3), always)
    with trio.move_on_after(1) as scope:
        await engine.evaluate(Ambient(act), engine.register(b.Candidate()))
    assert scope.cancelled_caught
    assert ([None] * 3, 0, 0) == (
        engine.matrix.row(0),
        engine.spend.metric_calls,
        engine._evaluator.ledger._rollouts_reserved,
    )


async def test_cancelling_beats_what_an_executor_fails_with_on_its_way_out() -> None:
    """An executor that raises beside the cancellation neither crashes a `move_on_after` nor leaves a verdict."""

    class FailsLate:
        async def run(self, rollout: Any) -> b.RolloutRecord:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                try:
                    await trio.sleep_forever()
                finally:
                    raise ValueError("fails while it is cancelled")

    engine = EvalEngine(rows(2), always, executor=FailsLate())
    with trio.move_on_after(0.02) as scope:
        await engine.evaluate(Ambient(echo), engine.register(b.Candidate()))
    assert scope.cancelled_caught
    assert ([None] * 2, 0) == (engine.matrix.row(0), engine.spend.metric_calls)
    idle(engine)


async def test_swallowed_refusals_are_no_result() -> None:
    """A program that catches everything cannot turn a refused call into a score (max_requests inside a rollout)."""
    model = ScriptedModel(lambda request: "ok", limits=ModelLimits(key="m", retries=0))

    async def act(q: Any, instruction: str) -> Any:
        try:
            for _ in range(2 if q == 2 else 1):
                await b.call_model(model, ask(str(q)))
            return "known"
        except Exception:
            return "unknown"

    engine = EvalEngine(rows(5), always, EngineConfig(concurrency=1, budget=b.Budget(max_requests=3)))
    index = engine.register(b.Candidate())
    outcome = await engine.evaluate(Ambient(act), index)
    assert isinstance(outcome, b.BudgetExhausted)
    assert (3, "max_requests", 3) == (outcome.needed, outcome.cap, engine.spend.requests)
    assert isinstance(outcome.partial, tuple)
    (partial,) = outcome.partial
    assert [1.0, 1.0, None, None, None] == partial.scores()
    assert [RolloutStatus.REJECTED] * 3 == [r.status for r in partial.rollouts[2:]]
    assert 2 == engine.spend.metric_calls


async def test_a_failing_restore_is_an_error() -> None:
    """A program that cannot be brought back would be scored wrong from then on: the error reaches the caller."""
    module = Module(echo)
    leaf = module.leaves["answer"]

    async def act(q: Any, instruction: str) -> Any:
        leaf.fails = True
        return q

    module.act = act
    engine = EvalEngine(rows(1), always)
    with pytest.raises(errors.UsageError, match="failed to restore `answer`: this predictor cannot be written"):
        await engine.evaluate(module, engine.register(b.Candidate().with_instruction("answer", "x")))
    assert 1 == engine.spend.metric_calls


async def test_an_executor_that_fails_is_infrastructure() -> None:
    """A plugin's fault does not cancel the siblings; what it reports of calls made elsewhere is booked."""

    class Elsewhere:
        async def run(self, rollout: Any) -> b.RolloutRecord:
            if rollout.example.row["q"] == 0:
                raise OSError("worker lost")
            calls = {"task": b.RoleSpend(requests=2)}
            return b.RolloutRecord(status=RolloutStatus.SUCCEEDED, eval=b.Eval(1.0), spans=1, calls=calls)

    evaluator = EvalEngine(rows(2), always, executor=Elsewhere())._evaluator
    index = evaluator.register(b.Candidate())
    outcome = await evaluator.evaluate_many(Ambient(echo), [(index, [0, 1])])
    assert isinstance(outcome, Complete)
    assert [None, 1.0] == outcome.evaluation.scores()
    assert (2, 2) == (evaluator.ledger.spend.requests, evaluator.state.spend.requests)


@pytest.mark.parametrize(
    ("error", "stops"), [(errors.ModelAuthError("bad key"), True), (errors.ModelConnectionError("no route"), False)]
)
async def test_what_a_program_makes_of_a_dead_provider_is_no_result(error: errors.ModelError, stops: bool) -> None:
    """A program that catches every exception cannot turn a refused key or a lost connection into a score."""
    dead = ScriptedModel(lambda request: (_ for _ in ()).throw(error), limits=ModelLimits(key="dead", retries=0))

    async def act(q: Any, instruction: str) -> Any:
        try:
            return (await b.call_model(dead, ask(str(q)))).text
        except Exception:
            return "I do not know"

    engine = EvalEngine(rows(3), always, EngineConfig(concurrency=1))
    index = engine.register(b.Candidate())
    if stops:
        with pytest.raises(errors.RunStoppedError, match="bad key"):
            await engine.evaluate(Ambient(act), index)
        assert 1 == dead.calls
    else:
        statuses = [r.status for r in evaluated(await engine.evaluate(Ambient(act), index)).rollouts]
        assert [b.RolloutStatus.INFRASTRUCTURE_FAILED] * 3 == statuses
    assert [None] * 3 == engine.matrix.row(index)


async def test_a_program_may_fall_back_to_another_model() -> None:
    """Where a second model answers, the first one's failure is the program's own affair."""
    down = errors.ModelConnectionError("no route")
    dead = ScriptedModel(lambda request: (_ for _ in ()).throw(down), limits=ModelLimits(key="dead", retries=0))
    alive = ScriptedModel(lambda request: "ok")

    async def act(q: Any, instruction: str) -> Any:
        try:
            return (await b.call_model(dead, ask(str(q)))).text
        except errors.ModelConnectionError:
            return (await b.call_model(alive, ask(str(q)))).text

    engine = EvalEngine(rows(3), always)
    outcome = evaluated(await engine.evaluate(Ambient(act), engine.register(b.Candidate())))
    assert [1.0] * 3 == outcome.scores()
