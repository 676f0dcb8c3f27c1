"""Caps on requests, tokens and money: where they strike does not depend on how many rollouts run at once."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

import burnish as b
from burnish import BudgetExhausted, EngineConfig, EvalEngine, RolloutStatus
from burnish.abc import LMResponse, Usage
from burnish.errors import ModelConnectionError
from burnish.testing import ScriptedModel
from burnish_programs import Predict

from ._kit import Ambient, always, ask, idle, rows, told

PRICE = Decimal("0.25")


def calling(calls: Callable[[Any], int], model: ScriptedModel) -> Ambient:
    """Make a program that asks the model so many times for a row, and takes a while that differs by row."""

    async def act(q: Any, instruction: str) -> Any:
        for _ in range(calls(q)):
            await b.call_model(model, ask(f"{q} {instruction}"))
            await trio.sleep(q * 7 % 5)
        return q

    return Ambient(act)


def priced() -> ScriptedModel:
    """Make a model whose answers cost a quarter and ten tokens."""
    return ScriptedModel(lambda _: LMResponse(text="ok", cost=PRICE, usage=Usage(output_tokens=10)), delay=1)


async def scored(budget: b.Budget, concurrency: int, calls: int, candidates: int = 1) -> Any:
    """Evaluate twenty rows; gives the scored rows of each candidate, the cap, and what was spent."""
    model = priced()
    engine = EvalEngine(rows(20), always, EngineConfig(concurrency=concurrency, budget=budget))
    indices = [engine.register(told("answer", str(n))) for n in range(candidates)]
    outcome = await engine.evaluate_many(calling(lambda q: calls, model), indices)
    idle(engine)
    assert isinstance(outcome, BudgetExhausted)
    assert isinstance(outcome.partial, tuple)
    which = [[r.example for r in e.rollouts if r.eval is not None] for e in outcome.partial]
    assert outcome.needed == 20 * candidates - sum(map(len, which))
    assert {RolloutStatus.REJECTED} == {r.status for e in outcome.partial for r in e.rollouts if r.eval is None}
    return which, outcome.cap, engine.spend.metric_calls, model.calls


@pytest.mark.parametrize("concurrency", [1, 4, 16])
@pytest.mark.parametrize(
    ("budget", "calls", "fit"),
    [
        (b.Budget(max_requests=10), 2, 5),
        (b.Budget(max_requests=11), 2, 5),
        (b.Budget(max_requests=10), 1, 10),
        (b.Budget(max_requests=2), 3, 0),
        (b.Budget(max_cost=Decimal(1)), 2, 2),
        (b.Budget(max_cost=Decimal("4.75")), 1, 19),
        (b.Budget(max_tokens=75), 2, 3),
    ],
)
async def test_a_cap_strikes_at_the_same_row_however_many_run_at_once(
    budget: b.Budget, calls: int, fit: int, concurrency: int, autojump_clock: Any
) -> None:
    """E27: programs that make the same number of calls for every row; what a cap cut is no metric call."""
    which, cap, metric_calls, made = await scored(budget, concurrency, calls)
    (name,) = (n for n in ("max_requests", "max_cost", "max_tokens") if getattr(budget, n) is not None)
    assert ([list(range(fit))], name, fit) == (which, cap, metric_calls)
    assert fit * calls + (2 if fit == 0 else 0) == made


@pytest.mark.parametrize("concurrency", [1, 4, 16])
async def test_a_cap_leaves_leading_candidates_whole(concurrency: int, autojump_clock: Any) -> None:
    """A candidate's rows run before the next one's, so that a cap cuts one candidate and not all of them."""
    which, *_ = await scored(b.Budget(max_requests=51), concurrency, 2, candidates=2)
    assert [list(range(20)), list(range(5))] == which


@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    calls=st.lists(st.integers(0, 4), min_size=12, max_size=12),
    cap=st.integers(0, 25),
    concurrency=st.sampled_from([1, 4, 16]),
)
def test_no_cap_is_passed_where_rows_need_different_numbers(calls: list[int], cap: int, concurrency: int) -> None:
    """Requests stay within the cap, whatever the rows need; so does money, where all calls cost the same."""

    async def main() -> None:
        for budget in (b.Budget(max_requests=cap), b.Budget(max_cost=cap * PRICE)):
            model = priced()
            engine = EvalEngine(rows(12), always, EngineConfig(concurrency=concurrency, budget=budget))
            await engine.evaluate(calling(calls.__getitem__, model), engine.register(b.Candidate()))
            idle(engine)
            assert model.calls == engine.spend.requests <= cap
            assert engine._evaluator.ledger._rations.held().requests == 0

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def test_whoever_waits_for_a_rollout_that_a_cap_cut_is_told_the_cap(autojump_clock: Any) -> None:
    """Two tasks ask for the same candidate where one request is left: both get the same answer."""
    for calls in (1, 2):  # with two, the first row is cut inside and nothing is scored
        engine = EvalEngine(rows(2), always, EngineConfig(budget=b.Budget(max_requests=1)))
        program, index, got = calling(lambda q, n=calls: n, priced()), engine.register(b.Candidate()), []

        async def one(engine: EvalEngine = engine, program: Any = program, index: int = index, got: Any = got) -> None:
            got.append(await engine.evaluate(program, index))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one)
            nursery.start_soon(one)
        (first, second) = got
        assert isinstance(first, BudgetExhausted)
        assert isinstance(second, BudgetExhausted)
        assert [("max_requests", calls)] * 2 == [(outcome.cap, outcome.needed) for outcome in (first, second)]
        assert isinstance(first.partial, tuple)
        assert isinstance(second.partial, tuple)
        assert [e.scores() for e in first.partial] == [e.scores() for e in second.partial]
        idle(engine)


async def test_a_failure_teaches_nothing(autojump_clock: Any) -> None:
    """The first rollout is lost before its second call: the next one runs alone too, and shows that two are needed."""
    answers = [ModelConnectionError("gone"), *["ok"] * 30]
    model = ScriptedModel(lambda _: answers.pop(0), limits=b.abc.ModelLimits(key="m", retries=0))
    config = EngineConfig(budget=b.Budget(max_requests=10))
    engine = EvalEngine(rows(20), always, config)
    outcome = await engine.evaluate(calling(lambda q: 2, model), engine.register(b.Candidate()))
    assert isinstance(outcome, BudgetExhausted)
    assert isinstance(outcome.partial, tuple)
    assert [1, 2, 3, 4] == [r.example for r in outcome.partial[0].rollouts if r.eval is not None]
    assert 9 == model.calls


async def test_programs_that_fail_do_not_run_one_by_one(autojump_clock: Any) -> None:
    """One that fails over its call has shown what it needs; the others run together, on all slots."""

    async def act(q: Any, instruction: str) -> Any:
        await b.call_model(model, ask(str(q)))
        raise ValueError("unreadable")

    model, program = priced(), Ambient(act)
    engine = EvalEngine(rows(17), always, EngineConfig(budget=b.Budget(max_requests=99)))
    assert isinstance(await engine.evaluate(program, engine.register(b.Candidate())), b.Complete)
    assert (16, 17) == (program.peak, model.calls)


async def test_room_is_what_requests_leave() -> None:
    """Seven requests left are room for three rollouts of two, once it is known that they need two."""
    engine = EvalEngine(rows(9), always, EngineConfig(budget=b.Budget(max_requests=9)))
    ledger = engine._evaluator.ledger
    assert 9 == ledger.room()
    await engine.evaluate(calling(lambda q: 2, ScriptedModel(lambda _: "ok")), engine.register(b.Candidate()), [0])
    assert (3, None) == (ledger.room(), ledger.refusal(1))
    ledger.set_aside(3)
    assert (0, "max_requests") == (ledger.room(), ledger.refusal(1))
    ledger.set_aside(2)
    assert (1, None) == (ledger.room(), ledger.refusal(1))


@pytest.mark.parametrize("cap", [900, 2500, 4000, 7000])
def test_a_cap_on_tokens_ends_at_the_same_place(cap: int) -> None:
    """E27: rows of different lengths, and demos that make prompts longer: the same rollouts at any concurrency."""
    rows = [{"q": "say " + "so " * (n % 7) + f"x{n}", "a": f"x{n}"} for n in range(45)]

    def run(concurrency: int) -> Any:
        result = b.optimize(
            Predict("q -> a"),
            trainset=rows[:15],
            valset=rows[15:30],
            testset=rows[30:],
            metric="exact_match",
            strategy=b.Use("bootstrap-random", num_candidates=5),
            budget=b.Budget(max_tokens=cap),
            models=ScriptedModel(lambda request: f"a: {request.messages[-1].content.split()[-1]}"),
            concurrency=concurrency,
        )
        assert result.spend.tokens <= cap
        return result.spend.metric_calls, result.spend.tokens, result.stop_reason, result.reports[0].candidates

    assert run(1) == run(16)


def test_a_cap_on_requests_buys_what_a_cap_on_rollouts_buys() -> None:
    """For a program of one call, `max_requests = n` finds the winner that `max_metric_calls = n` finds."""
    rows = [{"q": f"say x{n}", "a": f"x{n}"} for n in range(60)]

    def answer(request: Any) -> str:
        demos = any(message.role == "assistant" for message in request.messages)
        word = request.messages[-1].content.split()[-1]
        return f"a: {word if demos or int(word[1:]) % 3 else 'wrong'}"

    def run(**caps: Any) -> Any:
        result = b.optimize(
            Predict("q -> a"),
            trainset=rows[:20],
            valset=rows[20:40],
            testset=rows[40:],
            metric="exact_match",
            strategy=b.Use("bootstrap-random", num_candidates=3),
            budget=b.Budget(**caps),
            models=ScriptedModel(answer),
        )
        return result.candidate, result.spend.metric_calls

    assert not run(max_metric_calls=100)[0].is_empty
    assert run(max_metric_calls=100) == run(max_requests=100)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    needs=st.lists(st.integers(5, 10), min_size=12, max_size=12),
    grows=st.lists(st.integers(1, 4), min_size=3, max_size=3),
    cap=st.integers(0, 600),
    fit=st.sampled_from(["whole", "leading", "rows"]),
)
def test_a_cap_stops_at_the_same_rollout(needs: list[int], grows: list[int], cap: int, fit: Any) -> None:
    """E27: rows that differ up to twofold, candidates up to fourfold: the same cells at concurrency 1, 4 and 16."""

    async def cells(concurrency: int) -> Any:
        async def act(q: Any, instruction: str) -> Any:
            await trio.sleep(q * 7 % 5)
            await b.call_model(model, ask(f"{q} {instruction}"))
            return q

        def answer(request: Any) -> LMResponse:
            q, grow = request.messages[-1].content.split()
            return LMResponse(text="ok", usage=Usage(output_tokens=needs[int(q)] * int(grow)))

        model = ScriptedModel(answer, delay=1)
        config = EngineConfig(concurrency=concurrency, budget=b.Budget(max_tokens=cap))
        evaluator = EvalEngine(rows(12), always, config)._evaluator
        requests = [(evaluator.register(told("answer", str(grow))), range(12)) for grow in grows]
        outcome = await evaluator.evaluate_many(Ambient(act), requests, fit=fit)
        assert evaluator.ledger.spend.tokens < cap + 40  # what is dearer than all before may pass it
        done = outcome.evaluations if isinstance(outcome, b.Complete) else outcome.partial or ()
        return [e.scores() for e in done], evaluator.ledger.spend.tokens

    got = [trio.run(cells, n, clock=trio.testing.MockClock(autojump_threshold=0)) for n in (1, 4, 16)]
    assert [got[0]] * 3 == got
