"""Checkpoint and resume, version 1: scenarios 7 and 9 to 12, E78 to E82."""

from __future__ import annotations

import json
import threading
from decimal import Decimal
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import burnish as b
from burnish import Complete, EngineConfig, Eval, EvalEngine, RolloutCache, abc
from burnish._runtime.ledger import Ledger
from burnish.errors import ModelTimeoutError, StoreError, UnknownIndexError, UsageError
from burnish.testing import ScriptedModel

from ._kit import Ambient, Leaf, Module, always, as_said, ask, echo, evaluated, idle, rows, tenth, told
from .test_scenarios import Answers, counts, right


class Scored:
    """A metric with a name of its own, which scores what its function says."""

    def __init__(self, name: str, score: Any) -> None:
        self.fingerprint, self.evaluate = name, score


def cells(engine: EvalEngine) -> list[list[dict[int, Eval] | None]]:
    """Give the samples of every cell."""
    matrix = engine.matrix
    found = [[matrix.cell(c, e) for e in range(matrix.examples)] for c in range(matrix.candidates)]
    return [[None if cell is None else dict(cell.samples) for cell in row] for row in found]


def said(engine: EvalEngine) -> list[str]:
    """Give the warnings about checkpoints."""
    return [w.message for w in engine._evaluator.state.warnings if w.kind == "checkpoint"]


async def filled(program: Any, count: int = 3, metric: Any = tenth, *candidates: b.Candidate) -> EvalEngine:
    """Make an engine in which each candidate, by default the empty one, is evaluated on all rows."""
    engine = EvalEngine(rows(count), metric)
    for candidate in candidates or (b.Candidate(),):
        await engine.evaluate(program, engine.register(candidate))
    return engine


async def test_scenario_7_a_resume_keeps_charges() -> None:
    """Scenario 7 (E80): with max_lm_calls 5, 3 rows and 2 charged calls, a resume has lm_calls 5, metric_calls 3."""
    config = EngineConfig(budget=b.Budget(max_lm_calls=5))
    engine = EvalEngine(rows(3), tenth, config)
    await engine.evaluate(Ambient(echo), engine.register(b.Candidate()))
    engine.charge(0, 2)
    again = EvalEngine.resume(rows(3), tenth, config, engine.checkpoint())
    assert (5, 3, False) == (again.spend.lm_calls, again.spend.metric_calls, again.budget_allows(1))
    wider = EvalEngine.resume(rows(3), tenth, EngineConfig(budget=b.Budget(max_lm_calls=6)), engine.checkpoint())
    assert (True, False) == (wider.budget_allows(1), wider.budget_allows(2))


async def test_scenario_9_what_was_known_is_served() -> None:
    """Scenario 9 (E78-E80): 3 rows are resumed with a new module and no answers left; 4 rows do not match."""
    engine = await filled(Module(Answers(seed=[0, 1, 2]), answer=Leaf("seed")), 3, right)
    text = engine.checkpoint()
    again = EvalEngine.resume(rows(3), right, None, text)
    assert (1, 3) == (again.num_candidates, again.spend.metric_calls)
    index = again.register(b.Candidate())
    evaluation = evaluated(await again.evaluate(Module(Answers(seed=[]), answer=Leaf("seed")), index))
    assert (0, 1.0, [None] * 3) == (index, evaluation.mean(), [r.trace for r in evaluation.rollouts])
    assert (3, 3, 3) == counts(again.spend)
    assert (1.0, []) == (again.matrix.mean(0), said(again))
    idle(again)
    with pytest.raises(UsageError, match="does not match the provided example set: it has 3 rows, 4 were given"):
        EvalEngine.resume(rows(4), right, None, text)


async def test_scenario_10_another_version() -> None:
    """Scenario 10 (E79): version 99 is refused by its number; so is what only looks like version 1."""
    text = (await filled(Ambient(echo))).checkpoint()
    data = json.loads(text)
    assert 1 == data["version"]
    for version, shown in ((99, "99"), (True, "True"), (1.0, "1.0"), ("1", "1"), (10**200, "1" + "0" * 39), ([], "")):
        with pytest.raises(StoreError, match=f"unsupported engine checkpoint version {shown}"):
            EvalEngine.resume(rows(3), tenth, None, json.dumps({**data, "version": version}))


async def test_scenario_11_the_salt() -> None:
    """Scenario 11: of 2 rows, salt 1 serves none and shows none of the old scores; salt 0 serves both."""
    text = (await filled(Ambient(echo), 2)).checkpoint()
    other = EvalEngine.resume(rows(2), tenth, EngineConfig(cache_salt=1), text)
    assert [None, None] == other.matrix.row(0)
    (warning,) = said(other)
    assert warning.startswith("the checkpoint's scores were taken under another cache_salt: 2 of them, ")
    fresh = evaluated(await other.evaluate(Ambient(echo), 0))
    assert (0, 4, True) == (other.spend.cache_hits, other.spend.metric_calls, all(r.trace for r in fresh.rollouts))
    same = EvalEngine.resume(rows(2), tenth, EngineConfig(cache_salt=0), text)
    served = evaluated(await same.evaluate(Ambient(echo), 0))
    assert (2, 2, [None, None]) == (
        same.spend.cache_hits, same.spend.metric_calls, [r.trace for r in served.rollouts],
    )


async def test_scenario_12_an_installed_winner() -> None:
    """Scenario 12 (E33): after an install the same candidate's 2 rows run again; a resume knows both programs."""
    module, winner = Module(answer=Leaf("seed")), told("answer", "better")
    engine = await filled(module, 2, tenth, winner)
    assert (2, 2, 0) == counts(engine.spend)
    b.apply_candidate(module, winner)
    evaluation = evaluated(await engine.evaluate(module, 0))
    assert (4, 4, 0) == counts(engine.spend)
    assert all(r.trace is not None for r in evaluation.rollouts)

    for leaf, before, ran in (("better", [0.0, 0.1], 0), ("seed", [None, None], 0), ("third", [None, None], 2)):
        again, third = EvalEngine.resume(rows(2), tenth, None, engine.checkpoint()), Module(answer=Leaf(leaf))
        await again.evaluate(third, 0, [])
        assert (before, ran) == (again.matrix.row(0), len(said(again)) * ran), leaf
        evaluated(await again.evaluate(third, 0))
        assert (ran, 4 + ran, 2 - ran, [0.0, 0.1]) == (third.ran, *counts(again.spend)[1:], again.matrix.row(0)), leaf


async def test_another_metric_shows_none_of_the_old_scores() -> None:
    """E34, E80 (WE): a changed metric begins with empty cells, says why, and runs; spend and candidates go on."""
    first = told("answer", "x")
    engine = await filled(Ambient(echo), 3, Scored("tenths", tenth), b.Candidate(), first)
    engine.matrix.record(1, 2, 0.5)
    again = EvalEngine.resume(rows(3), Scored("ones", always), None, engine.checkpoint())
    assert [[None] * 3, [None, None, 0.5]] == [again.matrix.row(c) for c in (0, 1)], "what a hand wrote in stays"
    assert (6, 2, 0) == (again.spend.metric_calls, again.num_candidates, again.register(b.Candidate()))
    (warning,) = said(again)
    assert warning.startswith("the checkpoint's scores were taken under another metric: 5 of them, ")
    assert ", of the candidates 0, 1, are not in the matrix;" in warning
    assert [1.0] * 3 == evaluated(await again.evaluate(Ambient(echo), 0)).scores()
    assert (9, 9, 0) == counts(again.spend)

    failing = EvalEngine.resume(rows(3), Scored("ones", always), EngineConfig(failure_score=-1), engine.checkpoint())
    assert "under another metric and failure_score:" in said(failing)[0]


async def test_a_metric_without_an_identity_vouches_for_no_score() -> None:
    """E80: whether a metric that holds an open object is the same one cannot be told, so its scores are left out."""
    judge = threading.Lock()

    async def metric(example: Any, prediction: Any) -> float:
        return float(judge.locked())

    engine = await filled(Ambient(echo), 2, metric)
    assert [0.0, 0.0] == engine.matrix.row(0)
    again = EvalEngine.resume(rows(2), metric, None, engine.checkpoint())
    assert ([None, None], 1) == (again.matrix.row(0), len(said(again)))
    assert "holds objects without a content identity" in said(again)[0]


async def test_another_program_empties_the_matrix_when_it_is_met() -> None:
    """E80 (WE): the first program that is evaluated says whose the scores are; another one takes them out, by name."""
    engine = await filled(Ambient(echo), 3, tenth, b.Candidate(), told("answer", "x"))
    text = engine.checkpoint()
    other = EvalEngine.resume(rows(3), tenth, None, text)
    assert cells(engine) == cells(other)
    with pytest.raises(UnknownIndexError):
        await other.evaluate(Ambient(echo, fingerprint="other"), 1, [3])
    assert (cells(engine), []) == (cells(other), said(other)), "a usage error comes before anything changes (E7)"
    assert isinstance(await other.evaluate(Ambient(echo, fingerprint="other"), 1, [2]), Complete)
    assert [[None] * 3, [None, None, 0.2]] == [other.matrix.row(c) for c in (0, 1)]
    (warning,) = said(other)
    assert warning.startswith("the checkpoint's scores were taken on another program (other code, state or models): 6 ")
    evaluated(await other.evaluate(Ambient(echo), 0))
    assert (7, 3) == (other.spend.metric_calls, other.spend.cache_hits), "answers stay: the old program is served"

    with_model = EvalEngine.resume(rows(3), tenth, None, text, models={"task": ScriptedModel(["x"])})
    assert isinstance(await with_model.evaluate_gated(Ambient(echo), 0, [0], 5.0), b.Rejected)
    assert ([0.0, None, None], 1) == (with_model.matrix.row(0), len(said(with_model)))

    same = EvalEngine.resume(rows(3), tenth, None, text)
    await same.evaluate(Ambient(echo), 0, [0])
    await same.evaluate(Ambient(echo, fingerprint="other"), 0, [0])
    assert ([0.0, 0.1, 0.2], []) == (same.matrix.row(1), said(same)), "from then on it is an engine like any other"


@pytest.mark.parametrize(
    ("given", "row"),
    [
        ([{"q": 1}, {"q": 0}, {"q": 2}], 0),
        ([{"q": 0}, {"q": 1}, {"q": 2, "note": "metric only"}], 2),
        (rows(2), 2),
        (rows(4), 3),
        ([], 0),
        ([{"q": 0}, {"q": 1.0}, {"q": 2}], 1),
    ],
    ids=["moved", "edited", "removed", "added", "none", "of another type"],
)
async def test_other_examples_are_refused(given: list[Any], row: int) -> None:
    """E79: one row moved, edited, added or removed; the message names the first that differs."""
    text = (await filled(Ambient(echo))).checkpoint()
    with pytest.raises(UsageError, match=f"does not match the provided example set: .* differ from row {row} on"):
        EvalEngine.resume(given, tenth, None, text)


async def test_traces_are_not_stored_and_the_text_is_ascii() -> None:
    """E80: even where an engine keeps traces, its checkpoint has none; it holds what E78 lists, in plain ASCII."""
    engine = EvalEngine(rows(2), Scored("f", lambda *_: (1.0, "gut \u2713 \ud800")), EngineConfig(keep_traces="all"))
    await engine.evaluate(Ambient(echo), engine.register(b.Candidate()))
    text = engine.checkpoint()
    data = json.loads(text)
    assert text.isascii()
    assert {"version", "example_uids", "candidates", "matrix", "cache", "spend", "scoring", "digest"} == set(data)
    assert all("trace" not in record for record in data["cache"].values())
    again = EvalEngine.resume(rows(2), engine._evaluator.metric.metric, engine.config, text)
    assert cells(engine) == cells(again)
    assert [None, None] == [r.trace for r in evaluated(await again.evaluate(Ambient(echo), 0)).rollouts]


async def test_spend_goes_on_with_its_seconds() -> None:
    """E80: what models cost, by role, goes on, and so do the seconds: a resume is not a new start."""
    model = ScriptedModel(lambda request: "0.5", name="task")

    async def act(q: Any, instruction: str) -> Any:
        return (await b.call_model(model, ask("hello"))).text

    now = [100.0]
    config = EngineConfig(budget=b.Budget(max_seconds=60))
    engine = EvalEngine(
        rows(3), as_said, config, ledger=Ledger(config.budget, clock=lambda: now[0])
    )
    await engine.evaluate(Ambient(act), engine.register(b.Candidate()))
    now[0] += 50
    text, before = engine.checkpoint(), engine.spend
    assert (3, 50.0, 3) == (before.requests, before.seconds, before.by_role["task"].requests)
    again = EvalEngine.resume(
        rows(3), as_said, config, text, ledger=Ledger(config.budget, clock=lambda: now[0])
    )
    assert before == again.spend
    now[0] += 9
    assert (59.0, True) == (again.spend.seconds, again.budget_allows(1))
    now[0] += 1
    assert (60.0, False) == (again.spend.seconds, again.budget_allows(1))


async def test_a_checkpoint_amid_an_evaluation_holds_what_landed() -> None:
    """E82: scores, answers and spend of a checkpoint agree at any time; what is under way runs again after a resume."""
    taken: list[str] = []
    engine = EvalEngine(rows(4), tenth, EngineConfig(concurrency=1))

    async def act(q: Any, instruction: str) -> Any:
        taken.append(engine.checkpoint())
        return q

    await engine.evaluate(Ambient(act), engine.register(b.Candidate()))
    for landed, text in enumerate(taken):
        again, program = EvalEngine.resume(rows(4), tenth, None, text), Ambient(echo)
        assert [n / 10 if n < landed else None for n in range(4)] == again.matrix.row(0)
        assert (landed, landed, 0) == (len(again.cache), *counts(again.spend)[1:])
        assert [0.0, 0.1, 0.2, 0.3] == evaluated(await again.evaluate(program, 0)).scores()
        assert list(range(landed, 4)) == sorted(program.ran)


async def test_a_call_that_is_paid_for_is_never_lost() -> None:
    """E80: a rollout that is under way is not in the checkpoint, but what its calls have cost already is spent."""
    model, taken = ScriptedModel(lambda request: "0.5", name="task"), []
    engine = EvalEngine(rows(2), as_said, EngineConfig(concurrency=1))

    async def act(q: Any, instruction: str) -> Any:
        reply = (await b.call_model(model, ask("hello"))).text
        taken.append((engine.checkpoint(), engine.spend.requests))
        return reply

    await engine.evaluate(Ambient(act), engine.register(b.Candidate()))
    found = [EvalEngine.resume(rows(2), as_said, None, text) for text, _ in taken]
    assert [0, 1] == [requests for _, requests in taken], "the engine itself books calls with their rollout"
    assert [(1, 0), (2, 1)] == [(each.spend.requests, each.spend.metric_calls) for each in found]
    for each in found:
        idle(each)


@pytest.mark.parametrize("again", [False, True])
async def test_what_a_timeout_may_have_cost_stays_kept_back(again: bool) -> None:
    """E80: under a cap of 3.5 calls, two that timed out leave room for one, whether a resume follows them or not."""
    calls: list[int] = []

    def answer(request: abc.LMRequest) -> abc.LMResponse:
        calls.append(1)
        if len(calls) <= 2:
            raise ModelTimeoutError("slow")
        return abc.LMResponse(text="0.5", usage=abc.Usage(output_tokens=10))

    price = abc.ModelPrice(input=0, output=10_000)
    limits = abc.ModelLimits(key="m", retries=0, max_output_tokens=10, price=price)
    model = ScriptedModel(answer, name="task", limits=limits)
    config = EngineConfig(budget=b.Budget(max_cost=Decimal("0.35")), concurrency=1)

    async def act(q: Any, instruction: str) -> Any:
        return (await b.call_model(model, ask("hello"))).text

    engine, program = EvalEngine(rows(6), as_said, config), Ambient(act)
    start = engine.register(b.Candidate())
    for column in range(6):
        if again and column == 2:
            engine = EvalEngine.resume(rows(6), as_said, config, engine.checkpoint())
        await engine.evaluate(program, start, [column])
    assert 3 == len(calls)


async def test_the_answers_are_records_of_a_rollout_cache() -> None:
    """E31, E35: each entry under `cache` is a record as a `RolloutCache` takes it, under the seed's key."""
    engine = await filled(Ambient(echo))
    stored, cache = json.loads(engine.checkpoint())["cache"], RolloutCache()
    assert cache.is_empty
    await cache.put_many(
        abc.CachePut(records=tuple(abc.CacheRecord(key=k, check="", body=json.dumps(v)) for k, v in stored.items()))
    )
    again = EvalEngine.resume(rows(3), tenth, None, engine.checkpoint())
    assert (3, 3, False, False) == (len(cache), len(again.cache), cache.is_empty, again.cache.is_empty)
    assert sorted([0.0, 0.1, 0.2]) == sorted(e.score for key in stored if (e := cache.get(key)) is not None)
    assert all(cache.get(key) == again.cache.get(key) for key in stored)
    assert all([16] * 4 == [len(part) for part in key.split(":")] for key in stored)
    cache.insert("another", Eval(1.0))
    assert (None, Eval(1.0)) == (again.cache.get("another"), cache.get("another"))


# --- any state -------------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=()), max_size=12)
names = st.sampled_from(["answer", "draft"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
overlays = st.builds(
    b.Overlay,
    instruction=st.none() | texts,
    demos=st.none() | st.lists(st.dictionaries(texts, json_values, max_size=2), max_size=2),
    values=st.dictionaries(texts, json_values, max_size=1),
)
candidates = st.builds(
    b.Candidate, st.dictionaries(names, overlays, max_size=2), base=st.none() | texts.filter(lambda t: "\ud800" > t)
)
evals = st.builds(
    Eval,
    st.floats(-1e9, 1e9) | st.sampled_from([0.1 + 0.2, -0.0, 1e-300, 1e150]),
    st.none() | texts,
    st.dictionaries(texts, st.floats(-1, 1), max_size=2),
)
plans = st.lists(st.tuples(candidates, st.lists(st.integers(0, 3), max_size=4), st.integers(0, 2)), max_size=4)


def joined(value: str | None) -> str | None:
    """Give a text with its surrogate pairs as the characters that they mean, as every JSON reader does."""
    return None if value is None else json.loads(json.dumps(value))


@pytest.mark.slow
@settings(
    derandomize=True, deadline=None, max_examples=40, database=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(plan=plans, given_evals=st.lists(evals, min_size=4, max_size=4), charged=st.integers(0, 9))
def test_a_resume_is_the_same_engine(plan: Any, given_evals: list[Eval], charged: int) -> None:
    """E78-E80: whatever was evaluated, failures and samples included, a resume has equal matrix, spend and candidates,
    gives the same checkpoint, and serves the same answers without running anything."""
    scored = [as_read(value) for value in given_evals]
    metric = Scored("given", lambda example, prediction: scored[example["q"]])

    async def act(q: Any, instruction: str) -> Any:
        if q == 3:
            raise ValueError("a bug in the program")
        return {"q": q, "x": [None, 1.5]}

    async def run() -> None:
        engine, program = EvalEngine(rows(4), metric), Ambient(act, names=("answer", "draft"))
        asked = [(engine.register(candidate), columns, sample) for candidate, columns, sample in plan]
        asked = [each for each in asked if not any(o.values for o in engine.candidate(each[0]).overlays.values())]
        for index, columns, sample in asked:
            await engine._evaluator.evaluate_many(
                engine._target(program), [(index, columns)], samples=range(sample, sample + 1)
            )
        engine.charge(charged, 2 * charged)
        text = engine.checkpoint()
        again, idler = EvalEngine.resume(rows(4), metric, None, text), Ambient(echo, names=("answer", "draft"))
        assert cells(engine) == cells(again)
        assert comparable(engine) == comparable(again)
        assert json.loads(text)["cache"] == json.loads(again.checkpoint())["cache"]
        assert all(engine.cache.get(key) == again.cache.get(key) for key in engine._evaluator.answers.records)
        for index, columns, sample in asked:
            pairs = [
                await each._evaluator.evaluate_many(
                    each._target(program if each is engine else idler),
                    [(index, columns)],
                    samples=range(sample, sample + 1),
                )
                for each in (engine, again)
            ]
            assert pairs[0] == pairs[1]
        assert ([], cells(engine)) == (idler.ran, cells(again))
        assert (comparable(engine), []) == (comparable(again), said(again))

    trio.run(run)


def as_read(value: Eval) -> Eval:
    objectives = {str(joined(name)): score for name, score in value.objectives.items()}
    return Eval(value.score, joined(value.feedback), objectives)


def comparable(engine: EvalEngine) -> tuple[Any, ...]:
    """Give candidates, their hashes, and spend without the time."""
    spend = engine.spend
    found = [engine.candidate(i) for i in range(engine.num_candidates)]
    return (
        found,
        [c.stable_hash for c in found],
        (*counts(spend), spend.lm_spans, spend.tokens, spend.requests, spend.cost, dict(spend.by_role)),
    )


def test_the_largest_sums_come_back() -> None:
    """E80: money is kept to the last digit, and numbers beyond what doubles hold as they are."""
    engine = EvalEngine(rows(1), tenth)
    spent = b.Spend(tokens=2**63 + 1, cost=Decimal("0.1234567890123456789"), requests=3)
    engine._evaluator.charge(spent)
    again = EvalEngine.resume(rows(1), tenth, None, engine.checkpoint()).spend
    assert (spent.tokens, spent.cost, spent.requests) == (again.tokens, again.cost, again.requests)
