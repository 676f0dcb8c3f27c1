"""Traces beside their rollouts: whose are kept, how many bytes of them, and how they stand in a cache."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

import burnish as b
from burnish import EngineConfig, EvalEngine, RolloutCache, abc
from burnish._runtime.journal import RunJournal
from burnish._runtime.run_store import open_run_store
from burnish.abc import LMResponse, Message
from burnish.errors import UsageError

from ._kit import Ambient, evaluated, rows, tenth

DEMOS = (Message("system", "be brief " * 100), Message("user", "1"), Message("assistant", "one"))


async def answer(q: Any, instruction: str) -> Any:
    """Answer in a span with a prompt of its own; `q` 1 fails."""
    with b.span("inner", {"q": q}) as span:
        assert span is not None
        span.request(DEMOS, (Message("user", str(q)),), {"provider": "test"})
        span.exchange(LMResponse(text=f"answer {q}" * 10))
    if q == 1:
        raise ValueError("no")
    return q


def engine(
    n: int = 4, cache: abc.Cache | None = None, journal: RunJournal | None = None, **config: Any
) -> EvalEngine:
    return EvalEngine(rows(n), tenth, EngineConfig(concurrency=1, **config), cache=cache, journal=journal)


async def outcomes(evaluator: EvalEngine, program: Ambient, traces: bool | None = None) -> list[b.RolloutOutcome]:
    """Evaluate the unchanged program on all rows; with `traces` given, as a strategy asks."""
    index = evaluator.register(b.Candidate())
    if traces is None:
        return list(evaluated(await evaluator.evaluate(program, index)).rollouts)
    columns = list(range(evaluator.num_examples))
    outcome = await evaluator._evaluator.evaluate_many(program, [(index, columns)], traces=traces)
    return list(evaluated(outcome).rollouts)


@pytest.mark.parametrize(("keep", "kept"), [("none", []), ("failed", [1]), ("all", [0, 1, 2, 3])])
@pytest.mark.parametrize("shared", [False, True], ids=["here", "from the cache"])
async def test_traces_are_kept_by_policy(keep: str, kept: list[int], shared: bool) -> None:
    """E35: of the same engine or out of its cache, a served rollout has its output, and its trace where one is kept."""
    cache, program = RolloutCache(), Ambient(answer)
    first = await outcomes(engine(cache=cache, keep_traces=keep), program)
    evaluator = engine(cache=cache, keep_traces=keep)
    if not shared:
        await outcomes(evaluator, program)
    served = await outcomes(evaluator, program)
    assert 4 == len(program.ran)
    assert kept == [r.example for r in served if r.trace is not None]
    assert [first[n].trace for n in kept] == [served[n].trace for n in kept]
    assert [(r.eval, r.output) for r in first] == [(r.eval, r.output) for r in served]


async def test_memory_for_traces_is_bounded() -> None:
    """Beyond `max_trace_bytes` the oldest traces go and their scores stay; a row whose trace is wanted runs again."""
    program, evaluator = Ambient(answer), engine(keep_traces="all", max_trace_bytes=9000)
    await outcomes(evaluator, program)
    served = await outcomes(evaluator, program)
    assert [2, 3] == [r.example for r in served if r.trace is not None]
    assert all(r.eval is not None for r in served)
    assert 4 == len(program.ran)
    assert all(r.trace is not None for r in await outcomes(evaluator, program, traces=True))
    assert [0, 1, 2, 3, 0, 1] == program.ran
    with pytest.raises(UsageError, match="max_trace_bytes must be a whole number from 1 on"):
        EngineConfig(max_trace_bytes=0)


async def test_what_memory_dropped_the_cache_has() -> None:
    """Where there is a cache, no row runs again for its trace."""
    program, evaluator = Ambient(answer), engine(cache=RolloutCache(), keep_traces="all", max_trace_bytes=1)
    await outcomes(evaluator, program)
    assert all(r.trace is not None for r in await outcomes(evaluator, program, traces=True))
    assert 4 == len(program.ran)


class Forgetful(RolloutCache):
    """A cache of which a test takes parts away."""

    def parts(self, *kinds: str) -> dict[str, abc.CacheRecord]:
        return {key: record for key, record in self._parts.items() if any(kind in key for kind in kinds)}

    def forget(self, kind: str) -> None:
        for key in self.parts(kind):
            del self._parts[key]


async def test_beginnings_of_prompts_are_stored_once() -> None:
    """Four rollouts store their common demos once, apart from their traces; the cache counts rollouts alone."""
    cache = Forgetful()
    await outcomes(engine(cache=cache, keep_traces="all"), Ambient(answer))
    assert (4, 1, 4) == (len(cache), len(cache.parts(abc.PREFIX_KEY)), len(cache.parts(abc.TRACE_KEY)))
    (demos,) = cache.parts(abc.PREFIX_KEY).values()
    assert "be brief" in demos.body
    assert not any("be brief" in record.body for record in cache.parts(abc.TRACE_KEY).values())
    bodies = [cache._records[key].body for key in cache]
    assert max(map(len, bodies)) < 400
    assert all(abc.is_rollout(key) for key in cache)


@pytest.mark.parametrize("kind", [abc.TRACE_KEY, abc.PREFIX_KEY])
async def test_a_cache_may_forget_parts(kind: str) -> None:
    """Scores stay without their traces; who asks for traces has the rows run again, and all is stored anew."""
    cache, program = Forgetful(), Ambient(answer)
    await outcomes(engine(cache=cache, keep_traces="all"), program)
    cache.forget(kind)
    evaluator = engine(cache=cache, keep_traces="all")
    assert [None] * 4 == [r.trace for r in await outcomes(evaluator, program)]
    assert 4 == len(program.ran)
    assert all(r.trace is not None for r in await outcomes(evaluator, program, traces=True))
    assert 8 == len(program.ran)
    again = engine(cache=cache, keep_traces="all")
    assert all(r.trace is not None for r in await outcomes(again, program))
    assert 8 == len(program.ran)


@pytest.mark.parametrize("spoil", ["tie", "text", "beginning"])
async def test_a_trace_of_another_evaluation_is_none(spoil: str) -> None:
    """A trace belongs to the very record that it was stored with; a damaged part is no part."""
    cache, program = Forgetful(), Ambient(answer)
    await outcomes(engine(cache=cache, keep_traces="all"), program)
    kind = abc.PREFIX_KEY if spoil == "beginning" else abc.TRACE_KEY
    for key, record in cache.parts(kind).items():
        other = attrs.evolve(record, check="0" * 32) if spoil == "tie" else attrs.evolve(record, body="{")
        cache._parts[key] = other
    served = await outcomes(engine(cache=cache, keep_traces="all"), program)
    assert [None] * 4 == [r.trace for r in served]
    assert 4 == len(program.ran)


@pytest.mark.parametrize(
    ("config", "kept"),
    [({"keep_traces": "none"}, []), ({"keep_traces": "failed"}, [1]), ({"max_trace_bytes": 9000}, [2, 3])],
    ids=str,
)
async def test_the_policy_holds_for_what_an_earlier_run_found(config: dict[str, Any], kept: list[int]) -> None:
    """What a fork takes out of the old run comes with its trace to who asks, and stays in memory by the new policy."""
    program = Ambient(answer)
    async with open_run_store(None) as old, open_run_store(None) as new:
        await outcomes(engine(keep_traces="all", journal=RunJournal(old)), program)
        journal = RunJournal(new, answers=old)
        evaluator = engine(journal=journal, **{"keep_traces": "all", **config})
        assert all(r.trace is not None for r in await outcomes(evaluator, program, traces=True))
        records = list(evaluator.cache.records.values())
    assert 4 == len(program.ran)
    assert kept == [number for number, record in enumerate(records) if record.trace is not None]
