"""The seed's rollout cache, and records through every cache."""

from __future__ import annotations

import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from burnish import abc
from burnish._builtin.memory import open_memory
from burnish._builtin.sqlite import open_sqlite
from burnish._model import codec
from burnish._model.budget import RoleSpend
from burnish._model.evals import Eval
from burnish._model.lm import Usage
from burnish._model.outcome import Fault, RolloutRecord, RolloutStatus
from burnish._model.trace import Exchange, Span, Trace, TraceMeta
from burnish._runtime.rollout_cache import RolloutCache

KEY = ":".join(f"{n:016x}" for n in (1, 2, 3, 4))


def test_seed_face_gets_what_was_inserted() -> None:
    """get, insert, len and is_empty do what the seed says (E31), and the last insert of a key wins."""
    cache = RolloutCache()
    assert (True, 0, None) == (cache.is_empty, len(cache), cache.get(KEY))
    cache.insert(KEY, Eval(0.25, "nearly", {"brevity": 1.0}))
    assert (False, 1) == (cache.is_empty, len(cache))
    assert Eval(0.25, "nearly", {"brevity": 1.0}) == cache.get(KEY)
    cache.insert(KEY, Eval(0.0))
    assert Eval(0.0) == cache.get(KEY)
    assert [KEY] == list(cache)
    assert KEY in cache
    assert "<RolloutCache of 1 rollouts>" == repr(cache)


async def test_both_faces_show_one_table() -> None:
    """What the seed's face inserts is a record of a rollout that succeeded, and the other way round (E31, E35)."""
    cache = RolloutCache()
    cache.insert(KEY, Eval(1.0, "good"))
    record = (await cache.get_many(abc.CacheGet(keys=(KEY,))))[KEY]
    assert ("", RolloutStatus.SUCCEEDED) == (record.check, codec.loads(record.body, RolloutRecord).status)
    assert Eval(1.0, "good") == codec.loads(record.body, RolloutRecord).eval
    failed = RolloutRecord(status=RolloutStatus.AGENT_FAILED, eval=Eval(0.0, "why"), fault=Fault(type="E", message="m"))
    await cache.put_many(abc.CachePut(records=(abc.CacheRecord(key=KEY, check="c", body=codec.dumps(failed)),)))
    assert Eval(0.0, "why") == cache.get(KEY)
    assert failed == cache.rollout(KEY)


async def test_unreadable_or_unscored_record_is_no_answer() -> None:
    """A damaged body reads as absent, and so does a rollout without a score: a re-run mends both."""
    cache = RolloutCache()
    unscored = codec.dumps(RolloutRecord(status=RolloutStatus.SUCCEEDED, output="kept"))
    for body in ("{", '"text"', '{"status": "nonsense"}', unscored):
        await cache.put_many(abc.CachePut(records=(abc.CacheRecord(key=KEY, check="", body=body),)))
        assert cache.get(KEY) is None
    cache.insert(KEY, Eval(1.0))
    assert Eval(1.0) == cache.get(KEY)


@pytest.mark.slow
async def test_reading_from_memory_is_fast() -> None:
    """Far more than 100,000 records a second come out of memory, in batches; so do evals once decoded."""
    cache = RolloutCache()
    keys = tuple(f"{n:016x}:{n:016x}:{n:016x}:{0:016x}" for n in range(20_000))
    for key in keys:
        cache.insert(key, Eval(0.5, "feedback"))
        cache.get(key)

    async def by_hundreds() -> None:
        for start in range(0, len(keys), 100):
            await cache.get_many(abc.CacheGet(keys=keys[start : start + 100]))

    async def one_by_one() -> None:
        for key in keys:
            cache.get(key)

    for way in (by_hundreds, one_by_one):
        rates = []
        for _ in range(3):
            began = time.perf_counter()
            await way()
            rates.append(len(keys) / (time.perf_counter() - began))
        assert max(rates) > 200_000, way.__name__


# --- any record through any cache ------------------------------------------------------------------------------

texts = st.text(max_size=30)
"""Any text; half surrogate pairs come beside it, as a model's reply may hold them."""
wild_texts = st.text(st.characters(exclude_categories=()), max_size=30)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | wild_texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
evals = st.builds(
    Eval,
    st.floats(-1e9, 1e9),
    st.none() | wild_texts,
    st.dictionaries(texts, st.floats(-1e9, 1e9), max_size=2),
)
usages = st.builds(Usage, input_tokens=st.integers(0, 10**9), output_tokens=st.integers(0, 10**9))
spans = st.builds(
    Span,
    id=st.integers(0, 9),
    component=texts,
    seq=st.integers(0, 9),
    inputs=st.dictionaries(texts, json_values, max_size=2),
    output=st.none() | st.dictionaries(texts, json_values, max_size=2),
    events=st.lists(st.builds(Exchange, text=wild_texts, usage=usages), max_size=2).map(tuple),
    raw_output=st.none() | wild_texts,
    eval=st.none() | evals,
)
traces = st.builds(
    Trace,
    meta=st.builds(TraceMeta, candidate_hash=st.none() | st.integers(0, 2**64 - 1)),
    spans=st.lists(spans, max_size=2).map(tuple),
)
rollouts = st.builds(
    RolloutRecord,
    status=st.sampled_from(RolloutStatus),
    eval=st.none() | evals,
    fault=st.none() | st.builds(Fault, type=texts, message=wild_texts),
    output=json_values,
    trace=st.none() | traces,
    calls=st.dictionaries(texts, st.builds(RoleSpend, requests=st.integers(0, 99), usage=usages), max_size=2),
    models=st.lists(texts, max_size=2).map(tuple),
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=st.lists(rollouts, max_size=4))
def test_any_rollout_comes_back_equal(records: list[RolloutRecord], tmp_path: Path) -> None:
    """Whatever a rollout holds, what a cache gives back decodes to the same rollout (E31, E35)."""
    put = tuple(
        abc.CacheRecord(key=f"{n:067x}", check=f"{n:032x}", body=codec.dumps(each)) for n, each in enumerate(records)
    )

    async def through(cache: abc.Cache, reopened: AbstractAsyncContextManager[abc.Cache] | None) -> None:
        await cache.put_many(abc.CachePut(records=put))
        if reopened is not None:
            async with reopened as again:
                return await compare(again)
        await compare(cache)

    async def compare(cache: abc.Cache) -> None:
        found = await cache.get_many(abc.CacheGet(keys=tuple(r.key for r in put)))
        assert list(put) == [found[r.key] for r in put]
        assert records == [codec.loads(found[r.key].body, RolloutRecord) for r in put]

    async def all_caches() -> None:
        env = abc.Environment(base_dir=tmp_path)
        async with open_memory(None, env) as memory, open_sqlite(None, env) as file:
            await through(memory, None)
            await through(file, open_sqlite(None, env))

    trio.run(all_caches)
