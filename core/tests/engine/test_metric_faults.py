"""The metric's faults: every output is kept, siblings finish, and a mended metric pays for nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing

import burnish as b
from burnish import EngineConfig, Eval, EvalEngine, RolloutCache, RolloutStatus, abc, errors
from burnish._builtin.sqlite import SqliteOptions, open_sqlite
from burnish.errors import MetricError, UsageError
from burnish.testing import ScriptedModel

from ._kit import Ambient, ask, evaluated, idle, rows
from ._search import Tries, program, split, tune


@attrs.frozen
class Answer:
    text: str


class Hostile(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no repr for you")


async def nobody_awaits() -> float:
    return 1.0


def raising(error: BaseException) -> Callable[[], Any]:
    def fail() -> Any:
        raise error

    return fail


BAD: list[tuple[Callable[[], Any], str]] = [
    (lambda: None, "the metric returned None; is a `return` missing?"),
    (lambda: float("nan"), "the metric returned nan: the score is nan; a score must be finite"),
    (lambda: float("inf"), "a score must be finite"),
    (lambda: 10**400, "a score must be finite"),
    (lambda: "yes", "the metric returned str 'yes'; return a number, a bool, (score, feedback) or burnish.Eval"),
    (lambda: (1.0, 2.0), "the metric returned tuple (1.0, 2.0)"),
    (lambda: Eval(1.0, {"why": "x"}), "the metric's feedback is dict; it is a text or None"),  # type: ignore[arg-type]
    (lambda: Unshowable(), "the metric returned Unshowable <Unshowable that cannot be shown>"),
    (lambda: "x" * 5000, "the metric returned str 'xxx"),
    (raising(ValueError("boom")), "the metric raised ValueError: boom"),
    (raising(ValueError("a\nb\n" * 100_000)), "the metric raised ValueError: a"),
    (raising(Hostile()), "the metric raised Hostile"),
    (raising(ValueError("\x00 \ud83d <b>")), "the metric raised ValueError: \x00"),
    (raising(SystemExit(1)), "the metric raised SystemExit: 1"),
    (raising(asyncio.CancelledError("gone")), "the metric raised CancelledError: gone"),
    (raising(GeneratorExit()), "the metric raised GeneratorExit"),
    (raising(BaseExceptionGroup("two", [SystemExit(1), asyncio.CancelledError()])), "raised BaseExceptionGroup: two"),
    (lambda: 1e308, "the metric returned 1e+308: the score is 1e+308; beyond 1e+150 sums overflow: scale it"),
]


@pytest.mark.parametrize(("bad", "message"), BAD, ids=[f"{i}" for i in range(len(BAD))])
@pytest.mark.parametrize("sync", [True, False])
async def test_a_bad_metric_names_row_and_candidate(bad: Callable[[], Any], message: str, sync: bool) -> None:
    """E40, WE: what is no finite score is an error with row and candidate; all other rows are scored and booked."""
    model = ScriptedModel(lambda request: request.messages[0].content)

    async def act(q: Any, instruction: str) -> Any:
        return (await b.call_model(model, ask(str(q)))).text

    @b.inline
    def inline(example: Any, prediction: Any) -> Any:
        return bad() if example["q"] == 2 and broken else 1.0

    async def awaited(example: Any, prediction: Any) -> Any:
        return bad() if example["q"] == 2 and broken else 1.0

    broken = True
    engine = EvalEngine(rows(5), inline if sync else awaited)
    index = engine.register(b.Candidate())
    with pytest.raises(MetricError) as caught:
        await engine.evaluate(Ambient(act), index)
    assert message in str(caught.value)
    assert (2, index, True) == (caught.value.row, caught.value.candidate, len(str(caught.value)) < 700)
    assert ([1.0, 1.0, None, 1.0, 1.0], 5, 5) == (engine.matrix.row(index), engine.spend.metric_calls, model.calls)

    broken = False
    mended = evaluated(await engine.evaluate(Ambient(act), index))
    assert ([1.0] * 5, 5, 5) == (mended.scores(), engine.spend.metric_calls, model.calls)
    assert mended.rollouts[2].trace is not None
    idle(engine)


async def test_a_coroutine_that_nobody_awaited_is_named() -> None:
    """An async metric that gives another coroutine back forgot an `await`; a sync one may hand its coroutine over."""

    async def forgot(example: Any, prediction: Any) -> Any:
        return nobody_awaits()

    def hands_over(example: Any, prediction: Any) -> Any:
        return nobody_awaits()

    async def act(q: Any, instruction: str) -> Any:
        return q

    engine = EvalEngine(rows(1), forgot)
    with pytest.raises(MetricError, match="returned a coroutine that nobody awaited"):
        await engine.evaluate(Ambient(act), engine.register(b.Candidate()))
    engine = EvalEngine(rows(1), hands_over)
    assert 1.0 == evaluated(await engine.evaluate(Ambient(act), engine.register(b.Candidate()))).mean()


async def test_kept_outputs_need_no_budget() -> None:
    """Scoring a kept output is no new rollout: it fits even where the cap is reached; it is the live object."""
    broken = True

    @b.inline
    def metric(example: Any, prediction: Any) -> Any:
        return None if broken else float(isinstance(prediction, Answer))

    async def act(q: Any, instruction: str) -> Any:
        return Answer(str(q))

    engine = EvalEngine(rows(2), metric, EngineConfig(budget=b.Budget(max_metric_calls=2)))
    index = engine.register(b.Candidate())
    with pytest.raises(MetricError, match="row 0"):
        await engine.evaluate(Ambient(act), index)
    broken = False
    assert 1.0 == evaluated(await engine.evaluate(Ambient(act), index)).mean()
    assert (2, 0) == (engine.spend.metric_calls, engine.spend.cache_hits)


class Broken:
    """A metric that is mended later; its identity is its name."""

    __burnish_inline__ = True

    def __init__(self, fingerprint: str, broken: bool, rows: tuple[int, ...] | None = None) -> None:
        self.fingerprint, self.broken, self.rows = fingerprint, broken, rows
        self.saw: list[Any] = []

    def evaluate(self, example: Any, prediction: Any, trace: b.Trace) -> float:
        self.saw.append(prediction)
        if self.broken and (self.rows is None or len(self.saw) in self.rows):
            raise ValueError("boom")
        return float(len(trace.spans))


@pytest.mark.parametrize(("make", "served"), [(str, True), (lambda text: {"a": [text]}, True), (Answer, False)])
async def test_kept_outputs_survive_the_process(make: Callable[[str], Any], served: bool, tmp_path: Path) -> None:
    """Through a persistent cache a second engine scores them without a model, unless they would come back changed."""
    model = ScriptedModel(lambda request: "ok")

    async def act(q: Any, instruction: str) -> Any:
        return make((await b.call_model(model, ask(str(q)))).text)

    async def evaluate(metric: Broken) -> list[float | None]:
        options = SqliteOptions(path=str(tmp_path / "cache.db"))
        async with open_sqlite(options, abc.Environment()) as cache:
            engine = EvalEngine(rows(3), metric, cache=cache)
            return evaluated(await engine.evaluate(Ambient(act), engine.register(b.Candidate()))).scores()

    with pytest.raises(MetricError, match="kept in the cache: mend the metric, run again" if served else "kept"):
        await evaluate(Broken("one", broken=True))
    mended = Broken("two", broken=False)
    assert [1.0] * 3 == await evaluate(mended)
    assert (3 if served else 6) == model.calls
    assert [make("ok")] * 3 == mended.saw


@pytest.mark.parametrize("make", [str, Answer])
async def test_rows_that_were_scored_are_kept_too(make: Callable[[str], Any]) -> None:
    """One row of three breaks the metric; the mended one is another metric, and still no model is called again."""
    model = ScriptedModel(lambda request: "ok")

    async def act(q: Any, instruction: str) -> Any:
        return make((await b.call_model(model, ask(str(q)))).text)

    metric = Broken("one", broken=True, rows=(2,))
    engine = EvalEngine(rows(3), metric, EngineConfig(concurrency=1))
    index = engine.register(b.Candidate())
    with pytest.raises(MetricError, match="kept by this engine: mend the metric, evaluate again"):
        await engine.evaluate(Ambient(act), index)
    assert [1.0, None, 1.0] == engine.matrix.row(index)
    metric.broken = False
    runner = engine._evaluator.metric
    runner.code_print = attrs.evolve(runner.code_print, fingerprint="mended")
    assert [1.0] * 3 == evaluated(await engine.evaluate(Ambient(act), index)).scores()
    assert (3, 3) == (model.calls, engine.spend.metric_calls)
    assert [make("ok")] * 3 == metric.saw[3:]
    idle(engine)


async def test_a_failing_cache_is_no_fault_of_the_run() -> None:
    """A cache may fail in any way: the evaluation goes on without it."""

    class Failing(RolloutCache):
        async def get_many(self, request: abc.CacheGet) -> Any:
            raise ConnectionResetError("gone")

        async def put_many(self, request: abc.CachePut) -> None:
            raise TypeError("a bug in the cache")

    async def act(q: Any, instruction: str) -> Any:
        return q

    engine = EvalEngine(rows(3), Broken("m", broken=False), cache=Failing())
    assert 1.0 == evaluated(await engine.evaluate(Ambient(act), engine.register(b.Candidate()))).mean()
    idle(engine)


async def test_a_cache_that_hangs_holds_nobody_for_ever(autojump_clock: trio.testing.MockClock) -> None:
    """What lands is safe before the cache is told, and the cache is told for half a minute at most."""

    class Hanging(RolloutCache):
        async def put_many(self, request: abc.CachePut) -> None:
            await trio.sleep_forever()

    async def act(q: Any, instruction: str) -> Any:
        return q

    engine = EvalEngine(rows(3), Broken("m", broken=False), cache=Hanging())
    assert 1.0 == evaluated(await engine.evaluate(Ambient(act), engine.register(b.Candidate()))).mean()
    assert 30 == trio.current_time()


JUDGE_FAULTS = [
    (errors.ModelServerError("502"), RolloutStatus.INFRASTRUCTURE_FAILED),
    (errors.ModelRefusedError("not this text"), RolloutStatus.INFRASTRUCTURE_FAILED),
    (errors.BudgetExceededError("no room", cap="max_requests"), RolloutStatus.REJECTED),
    (ConnectionResetError("the judge's own client"), RolloutStatus.INFRASTRUCTURE_FAILED),
]


@pytest.mark.parametrize(("error", "status"), JUDGE_FAULTS)
async def test_a_judge_without_an_answer_leaves_its_row_unscored(error: Exception, status: RolloutStatus) -> None:
    """It is neither a verdict on the candidate nor the metric's bug; the output is kept and scored at the next try."""
    fails, ran = [True], []

    async def judge(example: Any, prediction: Any) -> float:
        if example["q"] == 1 and fails[0]:
            raise RuntimeError("the judge failed") from error
        return 1.0

    async def act(q: Any, instruction: str) -> Any:
        ran.append(q)
        return q

    engine = EvalEngine(rows(3), judge)
    index = engine.register(b.Candidate())
    outcome = await engine.evaluate(Ambient(act), index)
    done = outcome.partial if isinstance(outcome, b.BudgetExhausted) else outcome.evaluations
    assert isinstance(done, tuple)
    assert (None, status) == (done[0].scores()[1], done[0].rollouts[1].status)
    fails[0] = False
    assert 1.0 == evaluated(await engine.evaluate(Ambient(act), index)).mean()
    assert (3, 3) == (len(ran), engine.spend.metric_calls)


class Spans:
    """A metric that scores spans, in whatever form it is given."""

    __burnish_inline__ = True

    def __init__(self, pairs: Callable[[], Any]) -> None:
        self.pairs, self.order = pairs, list[str]()

    def evaluate(self, example: Any, prediction: Any, trace: b.Trace | None = None) -> Eval:
        self.order.append("rollout")
        return Eval(0.5, "why")

    def evaluate_spans(self, example: Any, prediction: Any, trace: b.Trace) -> Any:
        self.order.append("spans")
        return self.pairs()


def generated() -> Iterable[tuple[int, Any]]:
    yield 0, 1.0
    raise ValueError("half way")


async def test_spans_are_scored_after_the_rollout() -> None:
    """E56: stamped on their spans; unknown ids are passed over, of an id named twice the last counts."""

    async def act(q: Any, instruction: str) -> Any:
        return q

    metric = Spans(lambda: [(0, 0.1), (7, Eval(1.0)), (0, Eval(0.2, "second"))])
    engine = EvalEngine(rows(1), metric)
    program = Ambient(act, names=("a", "c"))
    (rollout,) = evaluated(await engine.evaluate(program, engine.register(b.Candidate()))).rollouts
    assert rollout.trace is not None
    assert [Eval(0.2, "second"), None] == [span.eval for span in rollout.trace.spans]
    assert (["rollout", "spans"], Eval(0.5, "why")) == (metric.order, rollout.eval)


@pytest.mark.parametrize("pairs", [generated, lambda: [1, 2], lambda: 3, lambda: [([], 1.0)], lambda: {0: "yes"}])
async def test_bad_span_scores_are_the_metrics_fault(pairs: Callable[[], Any]) -> None:
    """E56: an error of `evaluate_spans`, or a form that is none, fails the rollout like the metric itself."""

    async def act(q: Any, instruction: str) -> Any:
        return q

    engine = EvalEngine(rows(2), Spans(pairs))
    with pytest.raises(MetricError, match="row 0"):
        await engine.evaluate(Ambient(act), engine.register(b.Candidate()))
    idle(engine)


@pytest.mark.parametrize("maximum", ["high", float("nan"), float("inf"), [1.0]])
def test_a_maximum_that_no_score_can_reach_is_refused(maximum: Any) -> None:
    """A metric's `maximum` is looked at before anything is spent: strategies compare scores with it."""

    class Metric:
        def evaluate(self, example: Any, prediction: Any, trace: Any = None) -> float:
            return 1.0

    metric, given = Metric(), program()
    metric.maximum = maximum  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match=r"the metric's `maximum` is .*; it is a finite number"):
        tune(given, Tries("0.5"), split(train=1, val=2), metric=metric)
    assert 0 == given.ran
