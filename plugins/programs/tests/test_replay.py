"""Replay: recorded traces answer the calls of a program, until it asks for something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing

import burnish
from burnish import errors
from burnish.testing import Divergence, RecordedModel, ReplayReport, ScriptedModel, replay
from burnish.traces import Trace, dumps, loads
from burnish_programs import Module, Predict, ir, models


class Chain(Module):
    """Two drafts, then a refinement of the second."""

    def __init__(self, second: str = "two") -> None:
        self.drafter = Predict("question -> draft", demos=[{"question": "a", "draft": "b"}])
        self.refiner = Predict("draft -> answer")
        self.second = second

    async def forward(self, *, question: str) -> Any:
        await self.drafter(question=question)
        draft = (await self.drafter(question=self.second)).draft
        return await self.refiner(draft=draft)


def changed(instruction: str = "Refine it well.") -> Chain:
    """The chain with another instruction of the refiner."""
    program = Chain()
    program.refiner.set_state(burnish.PredictState(instruction=instruction))
    return program


def scripted() -> ScriptedModel:
    return ScriptedModel(lambda request: f"reply to {request.messages[-1].content}")


async def recorded(program: Any = None) -> Trace:
    """Record three calls, and take them through a file's text."""
    with models(task=scripted()), burnish.capture() as captured:
        await (program or Chain())(question="one")
    trace = loads(dumps(captured.trace))
    assert 3 == len(trace.spans)
    return trace


async def test_three_calls_from_a_file() -> None:
    """Scenario 61: served 3, live 0, and the same output; no model is needed, and the usage is the recorded one."""
    trace = await recorded()
    with models(task=scripted()):
        expected = await Chain()(question="one")
    with replay(trace) as replaying, burnish.capture() as captured:
        assert expected == await Chain()(question="one")
    assert ReplayReport(served=3, live=0) == replaying.report
    assert trace.spans[-1].request_hash is not None
    assert [span.usage for span in trace.spans] == [span.usage for span in captured.trace.spans]
    model = scripted()
    with models(task=model), replay(trace):  # the model in force is part of the request, and is not asked
        assert expected == await Chain()(question="one")
    assert 0 == model.calls


async def test_a_changed_instruction_diverges_where_it_is_read() -> None:
    """Scenario 61: with another instruction of the refiner 2 calls are served, then refiner 0 diverges."""
    trace = await recorded()
    with pytest.raises(errors.PlaybackDivergedError) as caught, replay(trace) as replaying:
        await changed()(question="one")
    assert "call 0 of `refiner` is not the recorded one: the instruction or demos changed" in str(caught.value)
    assert ("refiner", 0) == (caught.value.component, caught.value.seq)
    told = Divergence(
        component="refiner", seq=0, span=2, differs="the instruction or demos", trace_id=trace.meta.trace_id
    )
    assert (2, 0, 2, told) == (
        replaying.report.served, replaying.report.live, replaying.report.diverged_at, replaying.report.divergence
    )


async def test_a_changed_input_diverges_at_its_call() -> None:
    """Scenario 61: with another input of the second draft 1 call is served, then drafter 1 diverges."""
    trace = await recorded()
    with pytest.raises(errors.PlaybackDivergedError, match="the inputs changed") as caught, replay(trace) as replaying:
        await Chain(second="other")(question="one")
    assert ("drafter", 1, 1, 0) == (
        caught.value.component, caught.value.seq, replaying.report.served, replaying.report.live
    )


async def test_a_call_that_lacks_texts_is_not_served() -> None:
    """Scenario 61: a span with complete=false is Incomplete, and served is 0."""
    trace = await recorded()
    first, *others = trace.spans
    cut = attrs.evolve(trace, spans=(attrs.evolve(first, complete=False), *others))
    with pytest.raises(errors.PlaybackIncompleteError), replay(loads(dumps(cut))) as replaying:
        await Chain()(question="one")
    assert ReplayReport(served=0, live=0) == replaying.report


async def test_a_further_call_is_exhausted() -> None:
    """Scenario 61: one call more is Exhausted, drafter 2, and nothing diverged."""

    class Longer(Chain):
        async def forward(self, *, question: str) -> Any:
            await super().forward(question=question)
            return await self.drafter(question="more")

    trace = await recorded()
    with pytest.raises(errors.PlaybackExhaustedError) as caught, replay(trace) as replaying:
        await Longer()(question="one")
    assert "the trace has 2 of `drafter`, 1 of `refiner`" in str(caught.value)
    assert ("drafter", 2, None) == (caught.value.component, caught.value.seq, replaying.report.diverged_at)
    assert 3 == replaying.report.served


async def test_live_for_good_after_the_first_change() -> None:
    """Scenario 62: with the middle changed 1 is served and 2 are live, the later matching prompt too; unchanged, 3."""

    class Fixed(Chain):
        async def forward(self, *, question: str) -> Any:
            await self.drafter(question=question)
            await self.drafter(question=self.second)
            return await self.refiner(draft="the same")

    trace, model = await recorded(Fixed()), scripted()
    with models(task=model):
        with replay(trace, mode="until_divergence") as replaying, burnish.capture() as captured:
            await Fixed(second="other")(question="one")
        assert (1, 2, 1) == (replaying.report.served, replaying.report.live, replaying.report.diverged_at)
        assert trace.spans[2].request_hash == captured.trace.spans[2].request_hash
        assert 2 == model.calls
        with replay(trace, mode="until_divergence") as replaying:
            await Fixed()(question="one")
    assert ReplayReport(served=3, live=0) == replaying.report
    assert 2 == model.calls


async def test_going_live_needs_a_model() -> None:
    """Without a model in force the call that would go live says how to give one."""
    trace = await recorded()
    with pytest.raises(errors.PlaybackExhaustedError, match=r"burnish\.models"), replay(trace, "until_divergence"):
        await changed()(question="one")


async def test_a_swallowed_divergence_comes_out_at_the_end() -> None:
    """A program that catches everything cannot hide that it is another one."""

    class Swallows(Chain):
        async def forward(self, *, question: str) -> Any:
            try:
                return await super().forward(question=question)
            except Exception:
                return None

    trace = await recorded()
    with pytest.raises(errors.PlaybackDivergedError), replay(trace):
        assert await Swallows(second="other")(question="one") is None


@pytest.mark.parametrize("what", ["model", "temperature"])
async def test_model_and_settings_are_part_of_a_request(what: str) -> None:
    """Another model, or a predictor's temperature, diverges; the stand-in for a missing model does not."""
    trace, program = await recorded(), Chain()
    if what == "temperature":
        program.drafter.settings = attrs.evolve(program.drafter.settings, temperature=0.5)
    model = ScriptedModel([], name="other") if what == "model" else RecordedModel()
    refused = pytest.raises(errors.PlaybackDivergedError, match="the model or its settings")
    with refused, models(task=model), replay(trace):
        await program(question="one")


async def test_failures_are_replayed_too() -> None:
    """A reply that could not be parsed fails again so, and a model's error comes back as its own class."""

    class Parses(Module):
        def __init__(self) -> None:
            self.one = Predict("q -> a: int")

        async def forward(self, *, q: str) -> Any:
            return await self.one(q=q)

    replies: list[Any] = ["dunno", errors.ContextLengthError("the prompt has 9 tokens too many")]
    traces = []
    with models(task=ScriptedModel(replies)):
        for _ in range(2):
            with burnish.capture() as captured, pytest.raises(errors.EvaluationError):
                await Parses()(q="x")
            traces.append(captured.trace)
    with replay(traces) as replaying:
        with burnish.capture(), pytest.raises(errors.ParseError):
            await Parses()(q="x")
        with burnish.capture(), pytest.raises(errors.ContextLengthError, match="9 tokens too many"):
            await Parses()(q="x")
    assert ReplayReport(served=2) == replaying.report


class Both(Module):
    """Drafts several questions at once and gives the drafts in order."""

    def __init__(self, order: str, together: bool = True) -> None:
        self.drafter = Predict("question -> draft")
        self.order, self.together = order, together

    async def forward(self, *, questions: str) -> Any:
        drafts: dict[str, str] = {}

        async def draft(question: str, gate: trio.Event) -> None:
            await gate.wait()
            drafts[question] = (await self.drafter(question=question)).draft

        async with trio.open_nursery() as nursery:
            for question in self.order:
                gate = trio.Event()
                nursery.start_soon(draft, question, gate)
                gate.set()
                await trio.testing.wait_all_tasks_blocked(0.0 if self.together else 0.05)
        return {question: drafts[question] for question in questions}


async def test_calls_at_once_may_begin_in_any_order() -> None:
    """Which of two parallel calls of a predictor comes first is the scheduler's choice; of others it counts."""

    async def record(program: Both) -> tuple[Any, Trace]:
        slowly = ScriptedModel(lambda request: request.messages[-1].content.upper(), delay=0.03)
        with models(task=slowly), burnish.capture() as captured:
            return await program(questions="abc"), captured.trace

    output, trace = await record(Both("abc"))
    for order in ("abc", "cab", "bca"):
        with replay(trace) as replaying:
            assert output == await Both(order)(questions="abc")
        assert ReplayReport(served=3) == replaying.report
    with pytest.raises(errors.PlaybackDivergedError, match="the inputs changed"), replay(trace):
        await Both("abd")(questions="abd")  # out of a nursery, and bare
    output, trace = await record(Both("abc", together=False))
    with replay(trace):
        assert output == await Both("abc")(questions="abc")
    with pytest.raises(errors.PlaybackDivergedError), replay(trace):
        await Both("bac")(questions="abc")


def test_sync_programs_are_replayed_too() -> None:
    """A sync program asks from a worker thread of the engine's, or without any event loop."""

    class Plain(Module):
        def __init__(self) -> None:
            self.one = Predict("question -> answer")

        def forward(self, *, question: str) -> Any:
            return self.one.sync(question=question)

    with models(task=scripted()), burnish.capture() as captured:
        expected = Plain().one.sync(question="x")
        live = trio.run(scores, engine(), Plain(), burnish.Candidate())
    traces = [rollout.trace for rollout in live.rollouts if rollout.trace is not None]
    with replay([captured.trace, *traces]) as replaying:
        assert expected == Plain().one.sync(question="x")
        assert live.scores() == trio.run(scores, engine(), Plain(), burnish.Candidate()).scores()
    assert ReplayReport(served=4) == replaying.report


# --- runs ------------------------------------------------------------------------------------------------------


ROWS = [{"question": f"q{i}", "gold": i % 2} for i in range(3)]


@burnish.inline
def metric(example: Any, prediction: Any) -> float:
    """Score by the length of the answer."""
    return len(prediction.answer) / 1000


def engine(**config: Any) -> burnish.EvalEngine:
    return burnish.EvalEngine(ROWS, metric, burnish.EngineConfig(**config))


async def scores(evaluator: burnish.EvalEngine, program: Module, candidate: burnish.Candidate) -> Any:
    outcome = await evaluator.evaluate(program, evaluator.register(candidate))
    found = outcome.completed()
    assert isinstance(found, burnish.CandidateEval)
    return found


async def test_rollouts_find_their_traces_by_content() -> None:
    """An engine's rollouts in any order: each takes the trace of its candidate and row, and nothing is spent."""
    short, long = burnish.Candidate(), burnish.Candidate().with_instruction("refiner", "Be long.")
    with models(task=scripted()):
        live = engine()
        first = [await scores(live, Chain(), candidate) for candidate in (short, long)]
    traces = [r.trace for found in first for r in found.rollouts if r.trace is not None]
    assert 6 == len(traces)
    again = engine(concurrency=3)
    with replay(reversed(traces)) as replaying:
        second = [await scores(again, Chain(), candidate) for candidate in (long, short)]
    assert [found.scores() for found in first] == [found.scores() for found in reversed(second)]
    assert ReplayReport(served=18) == replaying.report
    assert (0, 0, 6) == (again.spend.requests, again.spend.tokens, again.spend.metric_calls)


async def test_a_new_candidate_is_paid_from_where_it_differs() -> None:
    """Until divergence, a candidate that changes the refiner costs one call a row, not three."""
    with models(task=scripted()):
        base = await scores(engine(), Chain(), burnish.Candidate())
        traces, model = [r.trace for r in base.rollouts if r.trace is not None], scripted()
        evaluator = engine()
        with models(task=model), replay(traces, mode="until_divergence") as replaying:
            await scores(evaluator, Chain(), burnish.Candidate().with_instruction("refiner", "Be long."))
    assert (6, 3, 3) == (replaying.report.served, replaying.report.live, len(replaying.report.divergences))
    assert (3, 3) == (model.calls, evaluator.spend.requests)


async def test_a_run_stops_at_the_first_row_that_is_not_as_recorded() -> None:
    """Strict, around an engine: the error is the call's, and no row is scored as failed."""
    with models(task=scripted()):
        base = await scores(engine(), Chain(), burnish.Candidate())
    traces = [r.trace for r in base.rollouts if r.trace is not None]
    evaluator = engine()
    with pytest.raises(errors.PlaybackDivergedError, match="call 0 of `refiner`") as caught, replay(traces):
        await scores(evaluator, changed(), burnish.Candidate())
    assert isinstance(caught.value.__cause__, errors.RunStoppedError)
    assert evaluator.matrix.mean(0) is None


class Once:
    """A strategy that evaluates the seed and one candidate."""

    def plan(self, problem: Any) -> burnish.Plan:
        return burnish.Plan(rollouts=4, minimum=4)

    async def compile(self, engine: Any, problem: Any) -> Any:
        other = problem.start.with_instruction("refiner", "Be long.")
        indices = [engine.register(candidate) for candidate in (problem.start, other)]
        await engine.evaluate_many([(index, problem.val) for index in indices])
        return burnish.Report(strategy="once", best=other)


def test_a_test_without_a_model_from_a_recorded_run(tmp_path: Path) -> None:
    """The run store of a run holds what it takes to run it again without a model: same scores, no request."""

    def tune(run_dir: Path | None) -> burnish.Result:
        rows = [{"question": f"q{i}"} for i in range(6)]
        return burnish.optimize(
            Chain(),
            trainset=rows[:2],
            valset=rows[2:4],
            testset=rows[4:],
            metric=metric,
            strategy=Once(),
            budget=burnish.Budget(max_metric_calls=50),
            run_dir=run_dir,
        )

    with models(task=scripted()):
        before = tune(tmp_path / "run")
    traces = burnish.traces.of_run(tmp_path / "run")
    assert 8 == len(traces)
    assert 4 == len(burnish.traces.of_run(tmp_path / "run" / "run.db", "test"))
    with replay(traces) as replaying:
        after = tune(None)
    assert (before.baseline, before.best, before.test) == (after.baseline, after.best, after.test)
    assert (24, 0) == (replaying.report.served, replaying.report.live)
    assert 0 == after.spend.requests


async def test_a_judge_is_not_recorded() -> None:
    """A metric's own calls are in no trace: refused, or asked of its model where that is said."""
    judge = ScriptedModel(lambda _: "0.5")

    async def judged(example: Any, prediction: Any) -> float:
        return float((await burnish.call_model(judge, burnish.abc.LMRequest(messages=()))).text)

    def evaluator() -> burnish.EvalEngine:
        return burnish.EvalEngine(ROWS[:1], judged)

    with models(task=scripted()):
        base = await scores(evaluator(), Chain(), burnish.Candidate())
    traces = [r.trace for r in base.rollouts if r.trace is not None]
    with pytest.raises(errors.PlaybackExhaustedError, match='unrecorded="live"'), replay(traces):
        await scores(evaluator(), Chain(), burnish.Candidate())
    with replay(traces, unrecorded="live") as replaying:
        assert 0.5 == (await scores(evaluator(), Chain(), burnish.Candidate())).mean()
    assert (3, 1) == (replaying.report.served, replaying.report.live)




async def test_programs_as_data_are_replayed_alike() -> None:
    """The interpreter asks through the same predictors: a retry's attempts are served, an overlay's change is not."""
    program = ir.program(
        "question -> answer: int",
        ir.Predict("drafter", "question -> draft"),
        ir.Retry(ir.Predict("refiner", "draft -> answer: int")),
    )
    interpreter, given = ir.Interpreter(program), {"question": "6*7"}
    with models(task=ScriptedModel(["a draft", "dunno", "42"])), burnish.capture() as captured:
        assert {"answer": 42} == await interpreter.run(given)
    trace = loads(dumps(captured.trace))
    with replay(trace) as replaying:
        assert {"answer": 42} == await interpreter.run(given)
    assert ReplayReport(served=3) == replaying.report
    overlay = program.overlay({"refiner.instruction": "Calculate."})
    with models(task=ScriptedModel(["43"])), pytest.raises(errors.PlaybackDivergedError), replay(trace):
        await interpreter.run(given, overlay)
    with models(task=ScriptedModel(["43"])), replay(trace, "until_divergence") as replaying:
        assert {"answer": 43} == await interpreter.run(given, overlay)
    assert (1, 1, 1) == (replaying.report.served, replaying.report.live, replaying.report.diverged_at)
