"""The candidate in force: who reads it, who must not, and that the program is always brought back."""

from __future__ import annotations

import contextvars
import threading
from typing import Any

import pytest
import trio
import trio.testing

import burnish as b
from burnish import EngineConfig, EvalEngine, errors
from burnish.testing import ScriptedModel

from ._kit import Ambient, Leaf, Module, always, as_said, ask, echo, evaluated, instruction_of, rows, told


def warnings_of(engine: EvalEngine, kind: str) -> list[str]:
    return [w.message for w in engine._evaluator.state.warnings if w.kind == kind]


@pytest.mark.parametrize("where", ["child task", "worker thread", "thread with context", "nested task in thread"])
async def test_a_candidate_reaches_what_a_program_starts(where: str) -> None:
    """The seed lost it there and scored the baseline; context variables carry it (weak point 9, E74)."""
    read: list[str] = []

    def note() -> None:
        with b.span("inner", {}):
            read.append(instruction_of("answer"))

    async def act(q: Any, instruction: str) -> Any:
        if where == "child task":

            async def child() -> None:
                note()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(child)
        elif where == "worker thread":
            await trio.to_thread.run_sync(note)
        elif where == "nested task in thread":
            await trio.to_thread.run_sync(lambda: trio.from_thread.run_sync(note))
        else:
            thread = threading.Thread(target=contextvars.copy_context().run, args=[note])
            thread.start()
            await trio.to_thread.run_sync(thread.join)
        return q

    class Late(Ambient):
        async def run(self, inputs: Any, candidate: b.Candidate) -> Any:
            with b.span("answer", inputs):
                return await self.act(inputs["q"], "")

    engine = EvalEngine(rows(2), always)
    evaluation = evaluated(await engine.evaluate(Late(act), engine.register(told("answer", "new"))))
    assert (["new"] * 2, []) == (read, warnings_of(engine, "unread"))
    for rollout in evaluation.rollouts:
        assert rollout.trace is not None
        assert [("answer", None), ("inner", 0)] == [(s.component, s.parent) for s in rollout.trace.spans]


async def test_an_unread_candidate_is_named() -> None:
    """Each rollout leaves receipts; the first candidate that no rollout read is named, with the way out.

    The others suffer from the same program, so that one line a run says it all."""

    async def act(q: Any, instruction: str) -> Any:
        def lost() -> None:
            instruction_of("answer")

        thread = threading.Thread(target=lost)
        thread.start()
        await trio.to_thread.run_sync(thread.join)
        return q

    class Lost(Ambient):
        async def run(self, inputs: Any, candidate: b.Candidate) -> Any:
            return await self.act(inputs["q"], "")

    engine = EvalEngine(rows(2), always)
    baseline, *changed = [engine.register(c) for c in (b.Candidate(), *(told("answer", f"new {n}") for n in range(4)))]
    for some in (changed[:2], changed[2:]):
        await engine.evaluate_many(Lost(act), [baseline, *some])
    (warning,) = warnings_of(engine, "unread")
    assert "candidate 1 changes `answer`, but no rollout read it" in warning
    assert "contextvars.copy_context().run" in warning


@pytest.mark.parametrize("failure", [errors.ModelConnectionError("no route"), RuntimeError("disk is full")])
async def test_what_failed_is_not_called_unread(failure: Exception) -> None:
    """Lost to the infrastructure or to the program, a rollout ended before it would have read the candidate."""

    class Unreachable(Ambient):
        async def run(self, inputs: Any, candidate: b.Candidate) -> Any:
            raise failure

    engine = EvalEngine(rows(2), always)
    await engine.evaluate(Unreachable(echo), engine.register(told("answer", "new")))
    assert [] == warnings_of(engine, "unread")


async def test_one_reading_rollout_is_enough() -> None:
    """A program that needs a predictor for some rows only is not accused."""

    class Sometimes(Ambient):
        async def run(self, inputs: Any, candidate: b.Candidate) -> Any:
            return instruction_of("answer") if inputs["q"] == 1 else "none"

    engine = EvalEngine(rows(3), always)
    await engine.evaluate(Sometimes(echo), engine.register(told("answer", "new")))
    assert [] == warnings_of(engine, "unread")


async def test_the_metric_stands_outside() -> None:
    """E11, E13: no capture and no candidate around the metric; its judge leaves no span and is booked as judge."""
    model = ScriptedModel(lambda request: "1")

    async def judge(example: Any, prediction: Any) -> float:
        with b.span("judge", {}) as span:
            assert span is None
            assert "seed" == instruction_of("answer")
        return float((await b.call_model(model, ask())).text)

    async def act(q: Any, instruction: str) -> Any:
        assert "new" == instruction
        return (await b.call_model(model, ask(instruction))).text

    engine = EvalEngine(rows(2), judge)
    evaluation = evaluated(await engine.evaluate(Ambient(act), engine.register(told("answer", "new"))))
    assert 1.0 == evaluation.mean()
    assert {"judge": 2, "task": 2} == {role: share.requests for role, share in engine.spend.by_role.items()}
    assert all(r.trace is not None and r.trace.components == ("answer",) for r in evaluation.rollouts)


async def test_what_surrounds_an_evaluation_does_not_reach_its_metric() -> None:
    """A capture or a candidate around the whole evaluation sees nothing of the judge, and the judge nothing of it."""
    read: list[str] = []

    async def judge(example: Any, prediction: Any) -> float:
        with b.span("judge", {}):
            read.append(instruction_of("answer"))
        return 1.0

    async def inner(q: Any, instruction: str) -> Any:
        return q

    async def act(q: Any, instruction: str) -> Any:
        await b.evaluate_trainset(Ambient(inner, names=("inner",)), rows(1), judge)
        return q

    engine = EvalEngine(rows(1), always)
    with b.capture() as captured:
        (rollout,) = evaluated(await engine.evaluate(Ambient(act), engine.register(told("answer", "new")))).rollouts
    assert rollout.trace is not None
    assert ((), ("answer",), ["seed"]) == (captured.trace.components, rollout.trace.components, read)


async def test_a_trace_names_candidate_input_and_outcome() -> None:
    """E11, E58, E72: meta and outcome are filled; the duration includes the metric's own time."""

    async def slow(example: Any, prediction: Any) -> b.Eval:
        await trio.sleep(0.02)
        return b.Eval(0.5, "half")

    engine = EvalEngine([{"q": 7, "gold": "x"}], slow)
    index = engine.register(told("answer", "new"))
    (rollout,) = evaluated(await engine.evaluate(Ambient(echo), index)).rollouts
    trace = rollout.trace
    assert trace is not None
    assert trace.outcome is not None
    assert (engine.candidate_hash(index), {"q": 7}) == (trace.meta.candidate_hash, trace.meta.inputs)
    assert trace.meta.trace_id
    assert trace.meta.started_at_us > 0
    assert (7, None, b.Eval(0.5, "half")) == (trace.outcome.output, trace.outcome.error, trace.outcome.eval)
    assert trace.outcome.duration_us >= 20_000


# --- written into the program ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["metric error", "cancelled", "program error"])
async def test_the_program_is_always_brought_back(how: str, autojump_clock: trio.testing.MockClock) -> None:
    """E6: applied, fanned out, and always restored."""
    leaf = Leaf("seed", (b.Demo({"q": 1}),))

    @b.inline
    def metric(example: Any, prediction: Any) -> Any:
        return None if how == "metric error" else 1.0

    async def act(q: Any, instruction: str) -> Any:
        assert "new" == instruction
        await trio.sleep(1)
        if how == "program error":
            raise ValueError("no")
        return q

    engine = EvalEngine(rows(3), metric)
    index = engine.register(told("answer", "new").set_demos("answer", []))
    with trio.move_on_after(0.5 if how == "cancelled" else 9) as scope:
        try:
            await engine.evaluate(Module(act, answer=leaf), index)
        except errors.MetricError:
            assert "metric error" == how
    assert (how == "cancelled") is scope.cancelled_caught
    assert ("seed", (b.Demo({"q": 1}),)) == (leaf.instruction, leaf.demos)
    assert 1 == engine.peak_candidate_concurrency


def test_a_failing_apply_changes_nothing() -> None:
    """E22: written in the order of names; what was written is put back before the error is raised."""
    first, second = Leaf("a"), Leaf("c", fails=True)
    module = Module(alpha=first, beta=second)
    candidate = told("beta", "y").set_instruction("alpha", "x")
    with pytest.raises(RuntimeError, match="cannot be written"):
        b.apply_candidate(Module(alpha=first, beta=Once(second)), candidate)
    assert "a" == first.instruction
    with pytest.raises(errors.UsageError, match=r"applying .* failed .*, and so did undoing it \(failed to restore"):
        b.apply_candidate(module, candidate)
    assert ("a", "c") == (first.instruction, second.instruction)


class Once(Leaf):
    """Fails at the first write alone."""

    def __init__(self, leaf: Leaf) -> None:
        super().__init__(leaf.instruction)
        self.fails = True

    def set_state(self, state: b.PredictState) -> None:
        try:
            super().set_state(state)
        finally:
            self.fails = False


def test_restoring_tries_every_predictor() -> None:
    """E23: the first failure is raised after all were tried."""
    leaves = {name: Leaf(name) for name in ("a", "b", "c")}
    module = Module(echo, **leaves)
    undo = b.apply_candidate(module, told("a", "1").set_instruction("b", "2").set_instruction("c", "3"))
    leaves["a"].fails = leaves["b"].fails = True
    with pytest.raises(errors.UsageError, match="failed to restore `a`: this predictor cannot be written"):
        b.restore_candidate(module, undo)
    assert ("1", "2", "c") == (leaves["a"].instruction, leaves["b"].instruction, leaves["c"].instruction)


async def test_a_copying_target_needs_no_writing() -> None:
    """`copy` injection: the target keeps one copy a candidate, so candidates run side by side like ambient ones."""

    class Copies(Ambient):
        injection = "copy"

        async def run(self, inputs: Any, candidate: b.Candidate) -> Any:
            injection = b.current_injection()
            assert injection is not None
            injection.rendered.update(candidate.overlays)
            await trio.testing.wait_all_tasks_blocked()
            return candidate.overlays["answer"].instruction

    engine = EvalEngine(rows(1), as_said, EngineConfig(concurrency=4))
    indices = [engine.register(told("answer", text)) for text in "12"]
    outcome = await engine.evaluate_many(Copies(echo), indices)
    assert isinstance(outcome, b.Complete)
    assert ([1.0, 2.0], 2) == ([e.mean() for e in outcome.evaluations], engine.peak_candidate_concurrency)
    assert [] == warnings_of(engine, "unread")
