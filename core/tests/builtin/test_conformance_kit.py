"""The conformance kit finds what would hurt a user: each faulty plugin here is caught by the test that names it."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from burnish import abc
from burnish._builtin.meter import MeterOptions, StandardMeter
from burnish._runtime.rollout_cache import RolloutCache
from burnish.errors import ModelServerError, UsageError
from burnish.testing import ScriptedModel
from burnish.testing.conformance import (
    CacheConformance,
    MeterConformance,
    ModelConformance,
    SinkConformance,
    needs,
    xfail,
)


def run(kit: type, test: str, tmp_path: Path) -> None:
    """Run one test of a conformance class, as pytest would."""
    getattr(kit(), test)(tmp_path=tmp_path)


def cache_kit(make: Any) -> type[CacheConformance]:
    """Make the conformance class of a cache class."""

    class Kit(CacheConformance):
        def open(self, tmp_path: Path) -> AbstractAsyncContextManager[abc.Cache]:
            return _opened(make())

    return Kit


@asynccontextmanager
async def _opened(instance: Any) -> AsyncIterator[Any]:
    yield instance


class TornCache(RolloutCache):
    """Puts record by record."""

    async def put_many(self, request: abc.CachePut) -> None:
        for record in request.records:
            await super().put_many(abc.CachePut(records=(record,)))


class MixingCache(RolloutCache):
    """Takes the first half of a key for the key."""

    async def put_many(self, request: abc.CachePut) -> None:
        await super().put_many(
            abc.CachePut(records=tuple(attrs.evolve(r, key=r.key[:34]) for r in request.records))
        )

    async def get_many(self, request: abc.CacheGet) -> Mapping[str, abc.CacheRecord]:
        short = await super().get_many(abc.CacheGet(keys=tuple(k[:34] for k in request.keys)))
        return {k: attrs.evolve(short[k[:34]], key=k) for k in request.keys if k[:34] in short}


class ForgetfulCache(RolloutCache):
    """Reads, waits, writes: loses what others wrote meanwhile."""

    async def put_many(self, request: abc.CachePut) -> None:
        before = dict(self._records)
        await trio.lowlevel.checkpoint()
        self._records = {**before, **{r.key: r for r in request.records}}


class AsciiCache(RolloutCache):
    """Cannot keep what has no UTF-8 form."""

    async def put_many(self, request: abc.CachePut) -> None:
        for record in request.records:
            record.body.encode()
        await super().put_many(request)


class FirstWinsCache(RolloutCache):
    """Keeps the first record of a key."""

    async def put_many(self, request: abc.CachePut) -> None:
        await super().put_many(abc.CachePut(records=tuple(r for r in request.records if r.key not in self)))


class BlockingCache(RolloutCache):
    """Waits for its disk in the event loop."""

    async def put_many(self, request: abc.CachePut) -> None:
        time.sleep(0.06)  # noqa: ASYNC251 - this is the fault
        await super().put_many(request)


class UncancellableCache(RolloutCache):
    """Has no checkpoint."""

    async def get_many(self, request: abc.CacheGet) -> Mapping[str, abc.CacheRecord]:
        return {k: self._records[k] for k in request.keys if k in self._records}


class HalfCancelledCache(RolloutCache):
    """Leaves a part behind when it is cancelled."""

    async def put_many(self, request: abc.CachePut) -> None:
        self._records.update({r.key: r for r in request.records[:3]})
        await super().put_many(request)


class HalfRefusedCache(RolloutCache):
    """Checks records while it stores them."""

    async def put_many(self, request: abc.CachePut) -> None:
        await trio.lowlevel.checkpoint()
        for record in request.records:
            record.body.encode("utf-8", "surrogatepass")
            self._records[record.key] = record


class BlankCache(RolloutCache):
    """Says None for what it does not have."""

    async def get_many(self, request: abc.CacheGet) -> Mapping[str, abc.CacheRecord]:
        return {**dict.fromkeys(request.keys), **await super().get_many(request)}  # type: ignore[dict-item]


class PairsCache(RolloutCache):
    """Gives pairs instead of a mapping."""

    async def get_many(self, request: abc.CacheGet) -> Any:
        return list((await super().get_many(request)).items())


@pytest.mark.parametrize(
    ("faulty", "caught_by"),
    [
        (BlankCache, "test_answers_with_records_alone"),
        (PairsCache, "test_answers_with_records_alone"),
        (TornCache, "test_batch_is_never_seen_in_part"),
        (MixingCache, "test_keeps_similar_keys_apart"),
        (ForgetfulCache, "test_loses_no_concurrent_put"),
        (AsciiCache, "test_gives_back_what_was_put"),
        (FirstWinsCache, "test_last_writer_wins"),
        (BlockingCache, "test_never_holds_the_event_loop"),
        (UncancellableCache, "test_calls_reach_a_checkpoint"),
        (HalfCancelledCache, "test_cancelled_put_is_whole_or_absent"),
        (HalfRefusedCache, "test_refused_batch_leaves_nothing"),
    ],
)
def test_faulty_cache_is_caught(faulty: type, caught_by: str, tmp_path: Path) -> None:
    """A cache that tears, mixes up, loses, chokes, blocks or cannot be cancelled fails the test that says so."""
    with pytest.raises((AssertionError, UnicodeEncodeError)):
        run(cache_kit(faulty), caught_by, tmp_path)
    run(cache_kit(RolloutCache), caught_by, tmp_path)


def test_cache_that_forgets_on_closing_is_caught(tmp_path: Path) -> None:
    """A cache that claims to be persistent and is not fails."""

    class Kit(CacheConformance):
        capabilities = frozenset({"persistent"})

        def open(self, tmp_path: Path) -> AbstractAsyncContextManager[abc.Cache]:
            return _opened(RolloutCache())

    with pytest.raises(AssertionError, match="lost by closing"):
        run(Kit, "test_reopened_cache_has_its_records", tmp_path)


@pytest.mark.slow  # the kit waits two seconds for the thread to end
def test_leaked_thread_is_caught(tmp_path: Path) -> None:
    """A plugin that leaves a thread behind fails, and the thread is named."""
    stop = threading.Event()

    @asynccontextmanager
    async def leaking() -> AsyncIterator[RolloutCache]:
        threading.Thread(target=stop.wait, name="left-behind", daemon=True).start()
        yield RolloutCache()

    class Kit(CacheConformance):
        def open(self, tmp_path: Path) -> AbstractAsyncContextManager[abc.Cache]:
            return leaking()

    try:
        with pytest.raises(AssertionError, match="left-behind"):
            run(Kit, "test_leaves_nothing_running", tmp_path)
    finally:
        stop.set()


class RacingMeter(StandardMeter):
    """Waits between looking and booking."""

    async def lease(self, request: abc.Lease) -> abc.Grant | abc.Exhausted:
        self._expire(self._clock())
        short = self._short({u: getattr(request.amount, u) for u in self._used})
        await trio.lowlevel.checkpoint()
        if short is None:
            self._add({u: getattr(request.amount, u) for u in self._used}, 1)
            return abc.Grant(key=request.key)
        return abc.Exhausted(cap=short)


class GenerousMeter(StandardMeter):
    """Believes whatever a release says."""

    async def release(self, key: str, unused: abc.Amount) -> None:
        await trio.lowlevel.checkpoint()
        self._add({u: getattr(unused, u) for u in self._used}, -1)


class TersestMeter(StandardMeter):
    """Grants by saying nothing."""

    async def lease(self, request: abc.Lease) -> Any:
        answer = await super().lease(request)
        return answer if isinstance(answer, abc.Exhausted) else None


class EternalMeter(StandardMeter):
    """Never takes a lease back."""

    def _expire(self, now: float) -> None:
        pass


@pytest.mark.parametrize(
    ("faulty", "caught_by"),
    [
        (RacingMeter, "test_never_grants_too_much_to_many"),
        (RacingMeter, "test_one_key_is_one_lease"),
        (GenerousMeter, "test_release_counts_once_and_for_known_keys"),
        (TersestMeter, "test_nothing_is_always_granted"),
        (EternalMeter, "test_forgotten_lease_comes_back"),
    ],
)
def test_faulty_meter_is_caught(faulty: type[StandardMeter], caught_by: str, tmp_path: Path) -> None:
    """A meter that grants too much, counts twice or forgets nothing fails the test that says so."""

    class Kit(MeterConformance):
        def open(self, tmp_path: Path) -> AbstractAsyncContextManager[abc.Meter]:
            return _opened(faulty(MeterOptions(**attrs.asdict(self.caps))))

    with pytest.raises(AssertionError):
        run(Kit, caught_by, tmp_path)


class ListSink:
    """Keeps what arrives, in a list."""

    def __init__(self) -> None:
        self.arrived: list[tuple[str, int, Any]] = []

    async def deliver(self, batch: abc.Delivery) -> None:
        await trio.lowlevel.checkpoint()
        self.arrived += [(batch.run, n, event) for n, event in self.chosen(batch)]

    def chosen(self, batch: abc.Delivery) -> list[tuple[int, Any]]:
        return list(batch.events)


class BackwardSink(ListSink):
    """Turns batches round."""

    def chosen(self, batch: abc.Delivery) -> list[tuple[int, Any]]:
        return list(reversed(batch.events))


class HoldingSink(ListSink):
    """Lets no cancellation interrupt it."""

    async def deliver(self, batch: abc.Delivery) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(0.05)


class OneCursorSink(ListSink):
    """Has one cursor for all runs."""

    def chosen(self, batch: abc.Delivery) -> list[tuple[int, Any]]:
        return [pair for pair in batch.events if pair[0] > max((n for _, n, _ in self.arrived), default=0)]


@pytest.mark.parametrize(
    ("faulty", "caught_by"),
    [
        (BackwardSink, "test_events_arrive_unchanged_and_in_order"),
        (OneCursorSink, "test_runs_are_kept_apart"),
        (ListSink, "test_number_that_comes_again_is_taken_once"),
    ],
)
def test_faulty_sink_is_caught(faulty: type[ListSink], caught_by: str, tmp_path: Path) -> None:
    """A sink that reorders, drops or repeats fails the test that says so."""
    sink = faulty()

    class Kit(SinkConformance):
        capabilities = frozenset({"readable", "deduplicates"})

        def open(self, tmp_path: Path) -> AbstractAsyncContextManager[abc.Sink]:
            return _opened(sink)

        async def delivered(self, tmp_path: Path) -> list[tuple[str, int, Any]]:
            return sink.arrived

    with pytest.raises(AssertionError):
        run(Kit, caught_by, tmp_path)


def test_sink_that_holds_on_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sink that shields its deliveries from cancellation for longer than it may fails."""
    monkeypatch.setattr("burnish.testing._conformance_sink.LONGEST_END", 0.01)

    class Kit(SinkConformance):
        def open(self, tmp_path: Path) -> AbstractAsyncContextManager[abc.Sink]:
            return _opened(HoldingSink())

    with pytest.raises(AssertionError, match="after it was cancelled"):
        run(Kit, "test_cancelled_delivery_ends_soon", tmp_path)


class RetryingModel(ScriptedModel):
    """Asks again by itself."""

    async def complete(self, request: abc.LMRequest) -> abc.LMResponse:
        try:
            return await super().complete(request)
        except ModelServerError:
            return await super().complete(request)


class TalkativeModel(ScriptedModel):
    """Shows its key."""

    @property
    def identity(self) -> Mapping[str, abc.Json]:
        return {"model": "m", "key": "sk-secret"}


class CountingModel(ScriptedModel):
    """Has its use in its identity."""

    @property
    def identity(self) -> Mapping[str, abc.Json]:
        return {"model": "m", "calls": self.calls}


class LateModel(ScriptedModel):
    """Does not hear that it is cancelled."""

    async def complete(self, request: abc.LMRequest) -> abc.LMResponse:
        with trio.CancelScope(shield=True):
            await trio.sleep(0.15)
        return await super().complete(request)


class SwappingModel(ScriptedModel):
    """Answers with the last request it has heard."""

    async def complete(self, request: abc.LMRequest) -> abc.LMResponse:
        self.requests.append(request)
        await trio.lowlevel.checkpoint()
        return abc.LMResponse(text=self.requests[-1].messages[0].content)


class LongModel(ScriptedModel):
    """Says more than its bound."""

    @property
    def limits(self) -> abc.ModelLimits:
        return abc.ModelLimits(key="m", max_output_tokens=100)

    async def complete(self, request: abc.LMRequest) -> abc.LMResponse:
        await trio.lowlevel.checkpoint()
        return abc.LMResponse(text="on and on", usage=abc.Usage(output_tokens=101))


@pytest.mark.parametrize(
    ("faulty", "caught_by"),
    [
        (RetryingModel, "test_failed_call_is_not_repeated"),
        (RetryingModel, "test_failures_are_typed"),
        (TalkativeModel, "test_shows_no_secret"),
        (CountingModel, "test_identity_is_stable"),
        (LateModel, "test_cancelled_call_ends_promptly"),
        (SwappingModel, "test_each_call_gets_its_own_answer"),
        (LongModel, "test_keeps_within_its_bounds"),
    ],
)
def test_faulty_model_is_caught(faulty: type[ScriptedModel], caught_by: str, tmp_path: Path) -> None:
    """A model that retries, leaks, changes its identity, hangs on, mixes up answers or passes its bound is caught."""
    seen: list[ScriptedModel] = []

    class Kit(ModelConformance):
        capabilities = frozenset({"echoes", "fails", "stalls", "counted"})
        failures = (ModelServerError,)
        secrets = ("sk-secret",)
        promptly = 0.02

        def open(self, tmp_path: Path) -> AbstractAsyncContextManager[ScriptedModel]:
            return self._opened(faulty(lambda request: request.messages[0].content))

        def open_failing(self, tmp_path: Path, error: type) -> AbstractAsyncContextManager[ScriptedModel]:
            return self._opened(faulty([error("down for a while"), "fine"]))

        def open_stalled(self, tmp_path: Path) -> AbstractAsyncContextManager[ScriptedModel]:
            return self._opened(faulty(["never"], delay=float("inf")))

        def _opened(self, model: ScriptedModel) -> AbstractAsyncContextManager[ScriptedModel]:
            seen.append(model)
            return _opened(model)

        def requests_seen(self) -> int:
            return seen[-1].calls

    with pytest.raises(AssertionError):
        run(Kit, caught_by, tmp_path)


# --- the kit itself -------------------------------------------------------------------------------------------


def test_tests_are_plain_functions_of_claimed_capabilities() -> None:
    """No pytest plugin can take a test over, and a test of a capability that is not claimed is not there."""
    persistent = "test_reopened_cache_has_its_records"
    plain = cache_kit(RolloutCache)

    class Claiming(plain):  # type: ignore[misc, valid-type]
        capabilities = frozenset({"persistent"})

    tests = [getattr(Claiming, name) for name in dir(Claiming) if name.startswith("test_") and getattr(Claiming, name)]
    assert [] == [t.__name__ for t in tests if not callable(t) or t.__code__.co_flags & 0x80]
    assert getattr(plain, persistent) is None
    assert getattr(Claiming, persistent) is not None
    assert getattr(Claiming, "test_instances_see_each_other") is None  # noqa: B009 - mypy knows it as a coroutine


def test_unknown_capability_is_refused() -> None:
    """A misspelt capability would take tests away in silence; it is an error that lists the known ones."""
    with pytest.raises(UsageError, match="persistant"):

        class Kit(CacheConformance):
            capabilities = frozenset({"persistant"})


def test_overriding_a_test_is_refused() -> None:
    """Nobody passes by writing the test anew, in the class or in a mixin."""
    with pytest.raises(UsageError, match="test_last_writer_wins"):

        class Kit(CacheConformance):
            def test_last_writer_wins(self, tmp_path: Path) -> None:  # type: ignore[override]
                pass

    class Mixin:
        def test_last_writer_wins(self, tmp_path: Path) -> None:
            pass

    with pytest.raises(UsageError, match=r"Mixin overrides .*test_last_writer_wins"):

        class Mixed(Mixin, CacheConformance):  # type: ignore[misc]
            pass


def test_xfail_runs_the_test_and_wants_it_to_fail(tmp_path: Path) -> None:
    """A marked test that fails is an expected failure with its reason; one that passes is an error; heirs keep it."""

    class Kit(CacheConformance):
        test_last_writer_wins = xfail(reason="the first one wins here")  # type: ignore[assignment]

        @xfail(reason="not so")
        async def test_new_cache_knows_nothing(self, tmp_path: Path) -> None:  # type: ignore[override]
            """The inherited test is what runs."""

        def open(self, tmp_path: Path) -> AbstractAsyncContextManager[abc.Cache]:
            return _opened(FirstWinsCache())

    class Heir(Kit):
        pass

    for kit in (Kit, Heir):
        with pytest.raises(pytest.xfail.Exception, match="the first one wins here"):
            run(kit, "test_last_writer_wins", tmp_path)
        with pytest.raises(AssertionError, match="remove its xfail"):
            run(kit, "test_new_cache_knows_nothing", tmp_path)
    with pytest.raises(UsageError, match="reason"):
        xfail(reason=" ")


def test_own_async_tests_become_plain_too(tmp_path: Path) -> None:
    """A plugin's own async tests beside the kit's run under trio, with their own fixtures."""
    seen: list[object] = []

    class Kit(CacheConformance):
        async def test_mine(self, tmp_path: Path, capsys: object) -> None:
            await trio.lowlevel.checkpoint()
            seen.append(capsys)

    getattr(Kit(), "test_mine")(tmp_path=tmp_path, capsys="given")  # noqa: B009 - it is no coroutine any more
    assert ["given"] == seen


def test_hanging_plugin_fails_in_time(tmp_path: Path) -> None:
    """A plugin that never answers fails the test instead of hanging the suite."""

    class Kit(CacheConformance):
        patience = 0.05

        @asynccontextmanager
        async def open(self, tmp_path: Path) -> AsyncIterator[abc.Cache]:
            await trio.sleep(1000)
            yield RolloutCache()

    with pytest.raises(trio.TooSlowError):
        run(Kit, "test_is_a_cache", tmp_path)


def test_needs_marks_a_function() -> None:
    """`needs` leaves a function as it is, but for the mark."""

    async def test() -> None: ...

    assert test is needs("shared")(test)


@pytest.mark.slow
def test_importing_the_kit_does_not_import_pytest() -> None:
    """pytest is an extra: the kit can be imported without it."""
    code = "import sys, burnish.testing.conformance; print('pytest' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert "False" == done.stdout.strip()
