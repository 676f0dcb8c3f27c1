"""Callables as programs and models: as many threads as the engine has slots, and caps that cannot be kept are named."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
import trio
from structlog.testing import capture_logs

import burnish as b
from burnish import EngineConfig, EvalEngine
from burnish.abc import LMRequest
from burnish.testing import ScriptedModel

from ._kit import always, ask, evaluated, rows

AT_ONCE = 70
"""More than the 40 threads of the limiter that trio shares."""


@pytest.mark.parametrize("what", ["program", "model", "model of a sync program"])
async def test_threads_do_not_cap_below_the_slots(what: str) -> None:
    """With 70 slots 70 sync programs or models run at once, also where a thread waits for one on the loop."""
    together = threading.Barrier(AT_ONCE)

    def meet(request: LMRequest) -> str:
        together.wait(timeout=10)
        return "ok"

    async def asking(q: int) -> str:
        return (await b.call_model(meet, ask(str(q)))).text

    programs: dict[str, Any] = {
        "program": lambda q: meet(ask()),
        "model": asking,
        "model of a sync program": lambda q: b.run_from_sync(lambda: asking(q)),
    }
    engine = EvalEngine(rows(AT_ONCE), always, EngineConfig(concurrency=AT_ONCE))
    evaluation = evaluated(await engine.evaluate(programs[what], engine.register(b.Candidate())))
    assert {"ok"} == {rollout.output for rollout in evaluation.rollouts}


async def test_a_thread_waits_for_none_that_it_holds() -> None:
    """With all of trio's shared threads busy in programs that call a sync model, the model still gets one."""

    def slow(q: int) -> str:
        return b.run_from_sync(lambda: b.call_model(lambda request: "ok", ask())).text

    shared = trio.to_thread.current_default_thread_limiter()
    before, shared.total_tokens = shared.total_tokens, 1
    try:
        with trio.fail_after(10):
            assert "ok" == await trio.to_thread.run_sync(slow, 1)
    finally:
        shared.total_tokens = before


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    """Gather what is logged, and leave structlog as it was."""
    before = structlog.get_config() if structlog.is_configured() else None
    with capture_logs() as gathered:
        yield gathered
    structlog.reset_defaults()
    if before is not None:
        structlog.configure(**before)


async def test_a_cap_that_an_own_sdk_passes_by_is_named_once(lines: list[Any]) -> None:
    """A function that calls nothing through burnish runs under the cap, with one warning that says what would hold."""

    def by_itself(q: int) -> str:
        return "an SDK's answer"

    engine = EvalEngine(rows(3), always, EngineConfig(budget=b.Budget(max_requests=9, max_cost=1)))
    for _ in range(2):
        for index in (engine.register(b.Candidate()), engine.register(b.Candidate())):
            assert 1.0 == evaluated(await engine.evaluate(by_itself, index)).mean()
    (line,) = [line for line in lines if "caps" in line]
    assert ("warning", ["max_requests", "max_cost"]) == (line["log_level"], line["caps"])
    assert ("by_itself", True) == (line["program"].rpartition(".")[2], "cap max_metric_calls" in line["event"])


@pytest.mark.parametrize("cap", ["max_requests", "max_metric_calls", None])
async def test_a_cap_that_holds_is_not_named(cap: str | None, lines: list[Any]) -> None:
    """A function that asks through burnish is metered, and without a cap on calls there is nothing to say."""
    model = ScriptedModel(lambda request: "ok")

    async def program(q: int) -> str:
        return (await b.call_model(model, ask())).text if cap == "max_requests" else "ok"

    budget = b.Budget(**({} if cap is None else {cap: 5}))
    engine = EvalEngine(rows(2), always, EngineConfig(budget=budget))
    assert 1.0 == evaluated(await engine.evaluate(program, engine.register(b.Candidate()))).mean()
    assert [] == lines
