"""Programs as targets: identity, inputs, candidates side by side, context."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio

import burnish
from burnish import Candidate, Complete, EvalEngine, abc
from burnish.errors import ContextLostError, RowError, UnknownParameterError, UsageError
from burnish.testing import ScriptedModel
from burnish_programs import Module, ModuleTarget, Predict, Prediction, models


def instruction_of(request: abc.LMRequest) -> str:
    """A model's reply: the first line of the system turn."""
    return "a: " + request.messages[0].content.partition("\n")[0]


def same(example: Any, prediction: Any, trace: Any = None) -> float:
    """Score 1 where the answer is the row's label."""
    return float(prediction.a == example["label"])


class Anything(Module):
    """Takes whatever a row holds."""

    def __init__(self) -> None:
        self.answer = Predict("q -> a")

    async def forward(self, **inputs: Any) -> Any:
        return await self.answer(q=inputs["q"])


async def test_a_row_with_a_field_self_is_refused_before_anything_runs() -> None:
    """`forward(self, **inputs)` cannot be given it: an error of the row, not a failure of the program (E62)."""
    engine = EvalEngine([{"q": "1", "self": "me"}], same)
    with pytest.raises(RowError, match="row 0, field `self`: the program takes any input"):
        await engine.evaluate(Anything(), engine.register(Candidate()))
    assert 0 == engine.spend.metric_calls


class One(Module):
    """One predictor, called from somewhere."""

    def __init__(self, call: Callable[[Predict, str], Any] | None = None) -> None:
        self.answer = Predict("q -> a", instruction="own")
        self.call = call

    async def forward(self, *, q: str) -> Any:
        return await (self.call(self.answer, q) if self.call else self.answer(q=q))


# --- identity --------------------------------------------------------------------------------------------------


def test_target_is_a_target() -> None:
    """Modules and predictors are programs: `as_target` gives their target, with what the engine asks of one."""
    for program in (One(), Predict("q -> a")):
        target = burnish.as_target(program)
        assert isinstance(target, ModuleTarget)
        assert isinstance(target, abc.Target)
        assert isinstance(next(iter(target.predictors.values())), abc.Predictor)
        assert ("call", "ambient", program) == (target.metering, target.injection, target.program)


def test_fingerprint_follows_the_state() -> None:
    """E33, scenario 12: installing a winner changes the identity, putting the state back restores it."""
    target = ModuleTarget(One())
    before = target.fingerprint
    assert 32 == len(before)
    undo = burnish.apply_candidate(target.program, Candidate().with_instruction("answer", "new"))
    assert before != target.fingerprint
    burnish.restore_candidate(target.program, undo)
    assert before == target.fingerprint == ModuleTarget(One()).fingerprint == target.copy().fingerprint


def test_an_exchanged_predictor_is_taken_up() -> None:
    """A predictor that was put in another's place counts from the next fingerprint on: names, state, parameters."""
    target = ModuleTarget(One())
    before = target.fingerprint
    target.program.answer = Predict("q -> a", instruction="other")  # type: ignore[union-attr]
    assert before != target.fingerprint
    assert "other" == target.parameters()["answer"].instruction


def test_fingerprint_follows_signature_settings_model_and_code() -> None:
    """E34: signature, settings, pinned model, plain attributes, closures and code are part of the identity."""

    def module(**changes: Any) -> Module:
        made = One()
        for name, value in changes.items():
            setattr(made, name, value)
        return made

    def closing(over: int) -> Module:
        class Closed(Module):
            def forward(self, *, q: str) -> int:
                return over

        return Closed()

    own = "own"
    programs = [
        module(),
        module(answer=Predict("q -> a: int", own)),
        module(answer=Predict("q -> a", own, temperature=0.0)),
        module(answer=Predict("q -> a", own, role="judge")),
        module(answer=Predict("q -> a", own, model=ScriptedModel([], name="x"))),
        module(answer=Predict("q -> a", own, model=ScriptedModel([], name="y"))),
        module(answer=Predict("q -> a", own, demos=[{"q": 1}])),
        module(answer=Predict("q -> a", own, demos=[{"q": 1.0}])),
        module(words=["a"]),
        module(words=["b"]),
        module(words=("b",)),
        module(fingerprint="given"),
        closing(1),
        closing(2),
        Predict("q -> a", own),
    ]
    prints = [burnish.as_target(program).fingerprint for program in programs]
    assert len(programs) == len(set(prints))
    assert prints == [burnish.as_target(program).fingerprint for program in programs]


def test_what_has_no_identity_is_opaque() -> None:
    """An object without content identity (a lock) is given as opaque; plain data and predictors are not."""
    lock = threading.Lock()
    module = One()
    module.lock, module.words, module.steps = lock, {"a": [1]}, [Predict("q -> a")]  # type: ignore[attr-defined]
    assert (lock,) == ModuleTarget(module).opaque
    assert () == ModuleTarget(Predict("q -> a")).opaque


# --- parameters and candidates ---------------------------------------------------------------------------------


def test_parameters_say_what_a_proposer_needs() -> None:
    """Section 2, point 5: instruction in force, default, demos and fields with their types."""
    module = One()
    burnish.apply_candidate(module, Candidate().set_demos("answer", [{"q": "x", "a": "y"}]))
    (parameter,) = burnish.as_target(module).parameters().values()
    assert ("answer", "predictor", "own", True) == (
        parameter.name,
        parameter.kind,
        parameter.instruction,
        parameter.takes_demos,
    )
    assert "Given the field `q`, produce the field `a`." == parameter.default_instruction
    assert [{"q": "x", "a": "y"}] == [dict(demo) for demo in parameter.demos]
    kind = Predict("q -> a: Literal['x', 'y']").parameter("p").outputs[0]
    assert ("a", "Literal['x', 'y']", "one of: x, y") == (kind.name, kind.type, kind.description)


def test_install_is_atomic() -> None:
    """Scenario 15, weak point 10: a winner is installed whole, or not at all where a name is unknown."""
    target = ModuleTarget(One())
    tuned = Candidate().with_instruction("answer", "new").set_demos("answer", [{"q": "x", "a": "y"}])
    with pytest.raises(UnknownParameterError, match="predictor `zzz` not found"):
        target.install(tuned.with_instruction("zzz", "x"))
    assert ("own", ()) == (target.program.answer.instruction, target.program.answer.demos)  # type: ignore[union-attr]
    target.install(tuned)
    state = target.program.answer.get_state()  # type: ignore[union-attr]
    assert ("new", 1) == (state.instruction, len(state.demos))
    target.install(Candidate().clear_instruction("answer").set_demos("answer", []))
    assert burnish.PredictState() == target.program.answer.get_state()  # type: ignore[union-attr]


async def test_unknown_name_is_refused_before_anything_is_spent() -> None:
    """Weak point 7: a candidate with a name that the program does not have never scores the baseline."""
    model = ScriptedModel(instruction_of)
    engine = EvalEngine([{"q": "x", "label": "own"}], same)
    wrong = engine.register(Candidate().with_instruction("anwser", "x"))
    with models(task=model), pytest.raises(UnknownParameterError, match="`anwser`"):
        await engine.evaluate(One(), wrong)
    assert (0, 0) == (model.calls, engine.spend.metric_calls)


async def test_candidates_run_side_by_side_over_one_program() -> None:
    """Scenario 14, E83: two candidates of one program wait for each other inside their rollouts; nothing is mutated."""
    arrived, both = [0], trio.Event()

    async def meet(predict: Predict, q: str) -> Prediction:
        arrived[0] += 1
        if arrived[0] == 2:
            both.set()
        await both.wait()
        return await predict(q=q)

    program = One(meet)
    engine = EvalEngine([{"q": "x", "label": "one"}], same)
    ids = [engine.register(Candidate().with_instruction("answer", text)) for text in ("one", "two")]
    with models(task=ScriptedModel(instruction_of)), trio.fail_after(5):
        outcome = await engine.evaluate_many(program, ids)
    assert isinstance(outcome, Complete)
    assert [1.0, 0.0] == [evaluation.mean() for evaluation in outcome.evaluations]
    assert 2 == engine.peak_candidate_concurrency
    assert "own" == program.answer.instruction


async def test_metric_reads_the_trace() -> None:
    """Scenario 27: the metric sees one span of the step, with the recorded question."""

    def metric(example: Any, prediction: Any, trace: burnish.Trace) -> tuple[float, str]:
        (span,) = trace.for_component("answer")
        return 1.0, f"asked {span.inputs['q']}, said {span.output}"

    with models(task=ScriptedModel(["a: yes"])):
        (verdict,) = await burnish.evaluate_trainset(One(), [{"q": "why", "label": ""}], metric)
    assert "asked why, said {'a': 'yes'}" == verdict.feedback


# --- inputs and outputs ----------------------------------------------------------------------------------------


def test_inputs_of_forward_and_of_a_signature() -> None:
    """Inputs are `forward`'s parameters, or the signature's; what is optional need not stand in a row (E62)."""

    class Typed(Module):
        async def forward(self, *, question: str, k: int = 3, tags: list[str] | None = None) -> None: ...

    class Open(Module):
        async def forward(self, **fields: Any) -> None: ...

    assert [("question", True, str), ("k", False, int), ("tags", False, None)] == [
        (field.name, field.required, field.annotation) for field in ModuleTarget(Typed()).inputs or ()
    ]
    assert ModuleTarget(Open()).inputs is None
    signature = "question: str, context, n: int, hint: str | None -> answer"
    assert [("question", True, str), ("context", True, None), ("n", True, None), ("hint", False, None)] == [
        (field.name, field.required, field.annotation) for field in ModuleTarget(Predict(signature)).inputs or ()
    ]


async def test_row_that_lacks_an_input_is_refused_before_any_call() -> None:
    """E62: the row and the field are named, and nothing is spent."""
    model = ScriptedModel(instruction_of)
    engine = EvalEngine([{"q": "x"}, {"query": "x"}], same)
    engine.register(Candidate())
    with models(task=model), pytest.raises(RowError, match="row 1 has no field `q`"):
        await engine.evaluate(One(), 0)
    assert 0 == model.calls


async def test_a_mapping_becomes_a_prediction_and_other_objects_pass() -> None:
    """What `forward` returns is wrapped where it is a mapping, live and from the store."""

    class Returns(Module):
        def forward(self, *, value: Any) -> Any:
            return value

    target = ModuleTarget(Returns())
    result = await target.run({"value": {"a": 1}}, Candidate())
    assert (Prediction, 1) == (type(result), result.a)
    assert "text" == await target.run({"value": "text"}, Candidate())
    assert Prediction(a=[1]) == target.load_prediction({"a": [1]})
    assert target.load_prediction(None) is None


async def test_a_candidate_that_is_not_in_force_is_refused() -> None:
    """`run` outside of a rollout's scope would render another candidate than the one it is given."""
    with pytest.raises(UsageError, match="not the one in force"):
        await ModuleTarget(One()).run({"q": "x"}, Candidate().with_instruction("answer", "new"))


# --- context ---------------------------------------------------------------------------------------------------


async def in_child_task(predict: Predict, q: str) -> Any:
    """Call from a task that `forward` starts."""
    results: list[Any] = []

    async def child() -> None:
        results.append(await predict(q=q))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(child)
    return results[0]


async def in_worker_thread(predict: Predict, q: str) -> Any:
    """Call from a worker thread of trio."""
    return await trio.to_thread.run_sync(lambda: predict.sync(q=q))


async def in_thread_with_context(predict: Predict, q: str) -> Any:
    """Call from a thread that was started by hand with its context."""
    return await by_hand(contextvars.copy_context().run, predict, q)


async def in_raw_thread(predict: Predict, q: str) -> Any:
    """Call from a thread that was started by hand without its context."""
    return await by_hand(lambda function: function(), predict, q)


async def by_hand(run: Callable[[Callable[[], None]], Any], predict: Predict, q: str) -> Any:
    """Start a thread, wait for it, and give or raise what came out."""
    results: list[Any] = []

    def work() -> None:
        try:
            results.append(predict.sync(q=q))
        except BaseException as error:
            results.append(error)

    thread = threading.Thread(target=run, args=(work,))
    thread.start()
    await trio.to_thread.run_sync(thread.join)
    if isinstance(results[0], BaseException):
        raise results[0]
    return results[0]


@pytest.mark.parametrize("call", [in_child_task, in_worker_thread, in_thread_with_context])
async def test_candidate_and_capture_reach_tasks_and_threads(call: Any) -> None:
    """Weak point 9, E74: tasks, `to_thread` and threads with their context render the candidate and are recorded."""
    engine = EvalEngine([{"q": "x", "label": "tuned"}], same)
    tuned = engine.register(Candidate().with_instruction("answer", "tuned"))
    with models(task=ScriptedModel(instruction_of)):
        outcome = await engine.evaluate(One(call), tuned)
    assert isinstance(outcome, Complete)
    (rollout,) = outcome.evaluation.rollouts
    assert rollout.eval is not None
    assert 1.0 == rollout.eval.score, rollout.error
    assert rollout.trace is not None
    assert ["answer"] == [span.component for span in rollout.trace.spans]


async def test_thread_without_its_context_raises() -> None:
    """A thread started without its context would score the baseline: it raises and says how to carry the context."""
    program = One(in_raw_thread)
    target = ModuleTarget(program)
    with models(task=ScriptedModel(instruction_of)):
        with target.bound():
            with pytest.raises(ContextLostError, match=r"contextvars\.copy_context\(\)\.run"):
                await target.run({"q": "x"}, Candidate())
            with pytest.raises(ContextLostError, match="`answer` is being tuned"):
                await program.answer(q="x")
            assert "own" == (await program.copy().answer(q="x")).a
        assert "own" == (await program.answer(q="x")).a


async def test_thread_without_its_context_stops_an_evaluation() -> None:
    """In an engine's evaluation the same thread is a usage error: it scores nothing."""
    engine = EvalEngine([{"q": "x", "label": "own"}], same)
    engine.register(Candidate())
    model = ScriptedModel(instruction_of)
    with models(task=model), pytest.raises(burnish.errors.BurnishError, match="copy_context"):
        await engine.evaluate(One(in_raw_thread), 0)
    assert (0, 0.0) == (model.calls, engine.spend.tokens)


def test_runs_are_counted() -> None:
    """Two runs of one program at once: it is free when the last of them ends."""
    target = ModuleTarget(One())
    predict: Any = target.program.predictors()["answer"]
    with target.bound():
        with target.bound(), burnish.models(task=lambda _: "a"):
            pass
        with pytest.raises(ContextLostError):
            predict.sync(q="x")
    with models(task=lambda _: "a"):
        assert "a" == predict.sync(q="x").a


async def test_a_sync_forward_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over its time its predictors' calls end; a `forward` that does not return keeps nobody waiting."""
    monkeypatch.setattr("burnish._runtime.invoke.PATIENCE", 0.02)
    freed, model = threading.Event(), ScriptedModel(lambda request: "[[ ## a ## ]]\nx")

    class Hangs(Module):
        def __init__(self) -> None:
            self.answer = Predict("q -> a")

        def forward(self, *, q: int) -> Any:
            freed.wait(10)
            return self.answer.sync(q=str(q))

    engine = burnish.EvalEngine([{"q": 1}], lambda *_: 1.0, burnish.EngineConfig(rollout_timeout=0.02))
    try:
        with models(task=model), trio.fail_after(5):
            outcome = await engine.evaluate(Hangs(), engine.register(Candidate()))
    finally:
        freed.set()
    (rollout,) = outcome.completed().rollouts  # type: ignore[union-attr]
    assert (burnish.RolloutStatus.TIMED_OUT, 0) == (rollout.status, model.calls)


def test_roles_are_those_of_predictors_without_a_model() -> None:
    """Each role once; pinned predictors ask none, and a program that sets models itself is not judged by its looks."""

    class Own(Module):
        def __init__(self) -> None:
            self.answer = Predict("a -> b")

        async def forward(self, *, a: str) -> Any:
            with models(task=ScriptedModel(["x"])):
                return await self.answer(a=a)

    two = Module()
    two.one, two.two = Predict("a -> b"), Predict("a -> b", role="judge")  # type: ignore[attr-defined]
    two.pinned = Predict("a -> b", role="proposer", model=ScriptedModel(["x"]))  # type: ignore[attr-defined]
    assert ("task", "judge") == ModuleTarget(two).roles
    assert ("task",) == ModuleTarget(Predict("a -> b")).roles
    assert () == ModuleTarget(Own()).roles


def test_a_run_without_a_model_is_refused_at_once() -> None:
    """`optimize` says which role lacks its model, with what to pass, before any rollout."""
    with pytest.raises(UsageError, match=r"program asks a model of the role `task`.*`models=\{'task': model\}`"):
        burnish.optimize(
            Predict("a -> b"),
            trainset=[{"a": "x"}],
            metric=lambda row, said: 1.0,
            strategy=Never(),
            budget=burnish.Budget(max_metric_calls=10),
        )


class Never:
    """A strategy that must not begin."""

    def plan(self, problem: Any) -> Any:
        raise AssertionError("planned")

    async def compile(self, engine: Any, problem: Any) -> Any:
        raise AssertionError("compiled")
