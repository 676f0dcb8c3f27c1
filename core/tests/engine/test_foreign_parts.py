"""Executors and caches that misbehave: the books stay right, and the run goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs

import burnish as b
from burnish import EngineConfig, EvalEngine, RolloutRecord, RolloutStatus, abc

from ._kit import Ambient, always, echo, evaluated, idle, rows, told


class Elsewhere:
    """Gives a good record, but for row 1, where `bad` says what it gives."""

    def __init__(self, bad: Callable[[], Any]) -> None:
        self.bad = bad

    async def run(self, rollout: Any) -> Any:
        await trio.lowlevel.checkpoint()
        good = RolloutRecord(status=RolloutStatus.SUCCEEDED, eval=b.Eval(1.0))
        return self.bad() if rollout.example.row["q"] == 1 else good


class Refusing(Ambient):
    """A program that does not know its own outputs again."""

    def load_prediction(self, output: Any) -> Any:
        raise KeyError("answer")


def leave() -> Any:
    """Exit, as a worker's own signal handler may."""
    raise SystemExit(3)


BAD: Mapping[str, Callable[[], Any]] = {
    "no JSON": lambda: RolloutRecord(status=RolloutStatus.SUCCEEDED, eval=b.Eval(1.0), output=object()),  # type: ignore[arg-type]
    "no status": lambda: RolloutRecord(status="good", eval=b.Eval(1.0)),  # type: ignore[arg-type]
    "no calls": lambda: RolloutRecord(status=RolloutStatus.SUCCEEDED, eval=b.Eval(1.0), calls={"task": 3}),  # type: ignore[dict-item]
    "not to revive": lambda: RolloutRecord(status=RolloutStatus.SUCCEEDED, output={"a": 1}),
    "no record": lambda: {"status": "succeeded"},
    "an exit": leave,
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("cached", [True, False])
async def test_a_bad_record_is_the_executor_s_failure(bad: str, cached: bool) -> None:
    """Its row is unscored, the siblings are scored, and every reservation is settled once."""
    config = EngineConfig(budget=b.Budget(max_metric_calls=3, max_requests=9))
    cache = b.RolloutCache() if cached else None
    engine = EvalEngine(rows(3), always, config, executor=Elsewhere(BAD[bad]), cache=cache)
    evaluation = evaluated(await engine.evaluate(Refusing(echo), engine.register(b.Candidate())))
    assert [1.0, None, 1.0] == evaluation.scores()
    row = evaluation.rollouts[1]
    assert row.error is not None
    assert (RolloutStatus.INFRASTRUCTURE_FAILED, "executor") == (row.status, row.error.where)
    assert 3 == engine.spend.metric_calls
    idle(engine)


class Cache:
    """Hangs or fails where it is told to; counts what it is asked."""

    def __init__(self, get: str = "", put: str = "") -> None:
        self.how, self.asked = {"get": get, "put": put}, 0

    async def _act(self, what: str) -> None:
        self.asked += 1
        await trio.lowlevel.checkpoint()
        if self.how[what] == "hangs":
            await trio.sleep_forever()
        if self.how[what] == "fails":
            raise OSError("gone")

    async def get_many(self, request: abc.CacheGet) -> Mapping[str, abc.CacheRecord]:
        await self._act("get")
        return {}

    async def put_many(self, request: abc.CachePut) -> None:
        await self._act("put")


@pytest.mark.parametrize(
    ("how", "seconds"),
    [({"get": "hangs"}, 30), ({"put": "hangs"}, 30), ({"get": "fails"}, 0), ({"put": "fails"}, 0)],
)
async def test_a_cache_that_hangs_or_fails_is_asked_no_more(
    how: dict[str, str], seconds: int, autojump_clock: Any
) -> None:
    """It costs its patience once, not once an evaluation; the rows are scored all the same."""
    cache = Cache(**how)
    engine = EvalEngine(rows(3), always, cache=cache)
    began = trio.current_time()
    for text in "xyz":
        index = engine.register(told("answer", text))
        assert [1.0] * 3 == evaluated(await engine.evaluate(Ambient(echo), index)).scores()
    assert seconds == trio.current_time() - began
    assert cache.asked == (1 if "get" in how else 1 + 3)
    idle(engine)


async def test_a_sample_can_be_asked_for_alone() -> None:
    """A range names the samples: the third alone runs once, whatever else is unknown; a number is all up to it."""
    program, engine = Ambient(echo), EvalEngine(rows(2), always)
    seen = b.Engine(engine._evaluator, program)
    index = seen.register(b.Candidate())
    outcome = await seen.evaluate_many([(index, [0, 1])], samples=range(2, 3))
    assert isinstance(outcome, b.Complete)
    assert ([0, 1], 2) == ([r.example for r in outcome.evaluation.rollouts], len(program.ran))
    assert [2] == list(engine.matrix.cell(index, 0).samples)  # type: ignore[union-attr]
    whole = await seen.evaluate_many([(index, [0, 1])], samples=3)
    assert isinstance(whole, b.Complete)
    assert (6, 6) == (len(whole.evaluation.rollouts), len(program.ran))


def left() -> Any:
    """Leave the process, as a plugin must not."""
    raise SystemExit(3)


def cancelled() -> Any:
    """Raise what asyncio cancels with."""
    raise asyncio.CancelledError


class Answering(Cache):
    """Answers with what it is told to, and takes nothing where it is told to."""

    def __init__(self, answer: Callable[[tuple[str, ...]], Any], put: Callable[[], Any] = lambda: None) -> None:
        super().__init__()
        self.answer, self.put = answer, put

    async def get_many(self, request: abc.CacheGet) -> Any:
        await super().get_many(request)
        return self.answer(request.keys)

    async def put_many(self, request: abc.CachePut) -> None:
        await super().put_many(request)
        self.put()


def record(key: str, check: Any = "", body: Any = "") -> abc.CacheRecord:
    return abc.CacheRecord(key=key, check=check, body=body)


NONSENSE: Mapping[str, tuple[Callable[[tuple[str, ...]], Any], str]] = {
    "nothing": (lambda keys: None, "get_many gave None instead of a mapping"),
    "a list": (lambda keys: [record(key) for key in keys], "instead of a mapping from keys to CacheRecords"),
    "texts": (lambda keys: dict.fromkeys(keys, "x"), "get_many gave 'x' instead of a CacheRecord"),
    "blanks": (dict.fromkeys, "gave None instead of a CacheRecord; what is not there is left out"),
    "another's record": (lambda keys: {keys[0]: record(keys[1])}, "get_many gave a record of"),
    "more than was asked for": (lambda keys: {"k": record("k")}, "get_many gave a record of 'k' under 'k'"),
    "a body of bytes": (lambda keys: {keys[0]: record(keys[0], body=b"")}, "whose check and body are not both text"),
    "a check of None": (lambda keys: {keys[0]: record(keys[0], check=None)}, "whose check and body are not both text"),
    "an exit": (lambda keys: left(), "SystemExit: 3"),
    "a cancellation of asyncio": (lambda keys: cancelled(), "CancelledError"),
}


@pytest.mark.parametrize("case", NONSENSE)
async def test_a_cache_that_answers_nonsense_costs_no_more_than_its_hits(case: str) -> None:
    """Nothing of the answer counts; what it was is logged once, and the run goes on without the cache."""
    answer, why = NONSENSE[case]
    cache = Answering(answer)
    engine = EvalEngine(rows(3), always, cache=cache)
    with capture_logs() as logs:
        for text in "xy":
            index = engine.register(told("answer", text))
            assert [1.0] * 3 == evaluated(await engine.evaluate(Ambient(echo), index)).scores()
    assert 1 == cache.asked
    assert ["the cache failed; the run goes on without it"] == [line["event"] for line in logs]
    assert why in logs[0]["error"]
    idle(engine)


@pytest.mark.parametrize("how", [left, cancelled])
async def test_a_cache_or_executor_that_exits_is_a_plugin_that_failed(how: Callable[[], Any]) -> None:
    """Neither ends the process or the run: the cache is asked no more, the executor's row is unscored."""
    cache = Answering(lambda keys: {}, put=how)
    engine = EvalEngine(rows(3), always, cache=cache, executor=Elsewhere(how))
    evaluation = evaluated(await engine.evaluate(Ambient(echo), engine.register(b.Candidate())))
    assert [1.0, None, 1.0] == evaluation.scores()
    assert RolloutStatus.INFRASTRUCTURE_FAILED == evaluation.rollouts[1].status
    idle(engine)


async def test_a_record_of_another_rollout_is_the_executor_s_failure() -> None:
    """A trace says whose it is; a record that comes with another's is no answer."""

    class Swapping:
        """Runs everything here, and answers with the first record."""

        first: RolloutRecord | None = None

        async def run(self, rollout: Any) -> Any:
            mine = await rollout.here()
            self.first = self.first or mine
            return self.first

    engine = EvalEngine(rows(2), always, EngineConfig(keep_traces="all", concurrency=1), executor=Swapping())
    evaluation = evaluated(await engine.evaluate(Ambient(echo), engine.register(b.Candidate())))
    assert [1.0, None] == evaluation.scores()
    error = evaluation.rollouts[1].error
    assert error is not None
    assert "it gave the record of another rollout" in error.message
