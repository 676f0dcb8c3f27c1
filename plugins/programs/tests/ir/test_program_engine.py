"""`ProgramEvalEngine`: the seed's program lane as a face over the core's engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

import burnish
from burnish import BudgetExhausted, EngineConfig, Promoted, Rejected, RolloutStatus, abc
from burnish.errors import RowError, UnknownIndexError, UsageError
from burnish.testing import ScriptedModel
from burnish_programs import Prediction, models, program_of
from burnish_programs.ir._engine import ProgramEvalEngine
from burnish_programs.ir._env import RuntimeEnv
from burnish_programs.ir._errors import BaseMismatchError, UnknownPathError
from burnish_programs.ir._meter import Budget
from burnish_programs.ir._overlay import Overlay
from burnish_programs.ir._program import Program
from burnish_programs.ir._run import Interpreter
from burnish_programs.ir._target import InterpreterTarget
from burnish_programs.ir._values import DemoRow, Demos, Instruction, ModelRef

from ._kit import answerer, ask, draft_and_refine, evaluated, program, system


def rows(n: int) -> list[DemoRow]:
    """Labeled rows."""
    return [DemoRow({"question": f"q{i}"}, {"answer": "Good."}) for i in range(n)]


@burnish.inline
def same(row: DemoRow, output: Any, trace: Any = None) -> float:
    """Score 1 where the answer is the row's."""
    return float(output["answer"] == row.output["answer"])


def instructed(made: Program, text: str) -> Overlay:
    """An overlay with an instruction."""
    return made.overlay().set(made, "answer.instruction", Instruction(text))


async def test_two_candidates_run_side_by_side() -> None:
    """Scenario 19, E48, E50, E51, E53: two overlays, the second with another model, on 1 example; both at once."""
    made = answerer("m1", models=["m1", "m2"])
    m1, m2 = ScriptedModel(lambda r: "from m1", name="m1"), ScriptedModel(lambda r: "from m2", name="m2")
    interpreter = Interpreter(made, RuntimeEnv().bind_model("m1", m1).bind_model("m2", m2))
    seen: list[burnish.Trace] = []
    both = trio.Event()

    async def metric(row: DemoRow, output: Any, trace: burnish.Trace) -> float:
        assert isinstance(row, DemoRow)
        seen.append(trace)
        if len(seen) == 2:
            both.set()
        with trio.fail_after(5):
            await both.wait()
        return {"from m1": 1.0, "from m2": 2.0}[output["answer"]]

    engine = ProgramEvalEngine(rows(1), metric)
    a = instructed(made, "A.")
    b = instructed(made, "B.").set(made, "answer.model", ModelRef("m2"))
    indices = [engine.register(a), engine.register(b)]
    first, second = evaluated(await engine.evaluate_program_candidates(interpreter, indices))
    assert ([1.0], [2.0]) == (first.scores(), second.scores())
    answers = [evaluation.rollouts[0].trace.outcome.output for evaluation in (first, second)]
    assert [{"answer": "from m1"}, {"answer": "from m2"}] == answers
    assert {a.hash(), b.hash()} == {trace.meta.candidate_hash for trace in seen}
    assert [made.program_hash] * 2 == [trace.meta.tags["program"] for trace in seen]
    assert {"question": "q0"} == seen[0].meta.inputs
    assert (["A."], ["B."]) == ([system(r) for r in m1.requests], [system(r) for r in m2.requests])
    assert 2 <= engine.peak_candidate_concurrency
    assert (2, 2, 2) == (engine.spend.metric_calls, engine.spend.lm_calls, len(engine.cache))

    again = evaluated(await engine.evaluate_program_candidates(interpreter, indices))
    assert [None, None] == [evaluation.rollouts[0].trace for evaluation in again]
    assert (2, 2) == (engine.spend.cache_hits, engine.spend.metric_calls)


async def test_a_batch_that_does_not_fit_runs_nothing() -> None:
    """Scenario 20: a cap of 1, two candidates on 1 example: exhausted, 2 needed, nothing spent."""
    made, model = answerer(), ScriptedModel([])
    engine = ProgramEvalEngine(rows(1), same, EngineConfig(budget=burnish.Budget(max_metric_calls=1)))
    indices = [engine.register(instructed(made, text)) for text in ("A.", "B.")]
    with models(task=model):
        outcome = await engine.evaluate_program_candidates(Interpreter(made), indices)
    assert isinstance(outcome, BudgetExhausted)
    assert (2, 0, 0) == (outcome.needed, engine.spend.metric_calls, model.calls)


async def test_the_gate() -> None:
    """Scenario 21, E54: of 2 rows, minibatch [0]: promoted at 0.5, row 0 cached; rejected at 2.0 with mean 1.0."""
    made = answerer()
    interpreter, engine = Interpreter(made), ProgramEvalEngine(rows(2), same)
    c1, c2 = engine.register(instructed(made, "Good.")), engine.register(made.overlay())
    with models(task=lambda request: "Good."):
        promoted = await engine.evaluate_gated(interpreter, c1, [0], 0.5)
        rejected = await engine.evaluate_gated(interpreter, c2, [0], 2.0)
        single = evaluated(await engine.evaluate(interpreter, c1, [0]))[0]
    assert isinstance(promoted, Promoted)
    assert 1.0 == promoted.minibatch.mean() == promoted.full.mean()
    assert [True, False] == [rollout.trace is None for rollout in promoted.full.rollouts]
    assert isinstance(rejected, Rejected)
    assert 1.0 == rejected.minibatch.mean()
    assert single.rollouts[0].trace is None


async def test_an_overlay_of_no_program_fails_the_batch() -> None:
    """Scenario 22, E52: an overlay made by itself fits no program, candidate 7 is none; nothing is spent on either."""
    made, model = answerer(), ScriptedModel([])
    interpreter, engine = Interpreter(made), ProgramEvalEngine(rows(1), same)
    good, stale = engine.register(made.overlay()), engine.register(Overlay())
    other = engine.register(draft_and_refine().overlay())
    with models(task=model):
        for index in (stale, other):
            with pytest.raises(BaseMismatchError, match="overlay minted against program"):
                await engine.evaluate_program_candidates(interpreter, [good, index])
        with pytest.raises(UnknownIndexError, match="candidate index 7 is not registered"):
            await engine.evaluate_program_candidates(interpreter, [7])
    assert (0, 0) == (model.calls, engine.spend.metric_calls)


async def test_the_registry_gives_overlays_back() -> None:
    """E49: equal content has one index, its base included; the overlay that comes back is the one that was given."""
    made, other = answerer(), draft_and_refine()
    engine = ProgramEvalEngine(rows(2), same)
    demos = instructed(made, "A.").set(made, "answer.demos", Demos([DemoRow({"question": "?"}, {"answer": "!"})]))
    first = [engine.register(overlay) for overlay in (made.overlay(), demos, other.overlay())]
    again = [engine.register(overlay) for overlay in (made.overlay(), demos, other.overlay())]
    assert [0, 1, 2] == first == again
    assert [made.overlay(), demos] == [engine.candidate(0), engine.candidate(1)]
    assert demos.hash() == engine.candidate_hash(1)
    assert (3, 2, rows(2)) == (engine.num_candidates, engine.num_examples, engine.examples)
    with pytest.raises(UnknownIndexError):
        engine.candidate(3)


async def test_the_cache_has_the_seeds_key() -> None:
    """E31, E32: the key of a rollout names overlay and row; `cache` gives its eval."""
    made = answerer()
    engine = ProgramEvalEngine(rows(1), same, EngineConfig(cache_salt=7))
    assert engine.cache.is_empty
    index = engine.register(instructed(made, "Good."))
    with models(task=ScriptedModel(system)):
        (evaluation,) = evaluated(await engine.evaluate_program_candidates(Interpreter(made), [index]))
    key = evaluation.rollouts[0].trace.meta.trace_id.rpartition(":")[0]
    assert [f"{engine.candidate_hash(index):016x}", "0000000000000007"] == [key.split(":")[i] for i in (1, 3)]
    found = engine.cache.get(key)
    assert found is not None
    assert 1.0 == found.score
    assert engine.cache.get("other") is None


async def test_rows_are_pairs_of_input_and_output() -> None:
    """What a row labels never reaches the program; a name may stand on both sides; the metric gets the row itself."""
    leaf_rows = [DemoRow({"question": "a"}, {"question": "b", "answer": "Good."})]
    got: list[Any] = []

    def metric(row: DemoRow, output: Any, trace: Any) -> tuple[float, str]:
        got.append((row, output))
        return 1.0, "fine"

    engine = ProgramEvalEngine(leaf_rows, metric)
    model = ScriptedModel(system)
    with models(task=model):
        evaluation = evaluated(await engine.evaluate(Interpreter(answerer()), engine.register(answerer().overlay())))[0]
    assert "question: a" == model.requests[0].messages[-1].content
    assert leaf_rows[0] is got[0][0]
    assert Prediction(answer="Answer.") == got[0][1]
    assert "fine" == evaluation.rollouts[0].eval.feedback
    lacking = ProgramEvalEngine([DemoRow({}, {"question": "b"})], same)
    index = lacking.register(answerer().overlay())
    with pytest.raises(RowError, match="row 0 has no field `question`"):
        await lacking.evaluate(Interpreter(answerer()), index)


async def test_spans_are_scored_here_too() -> None:
    """E56, section 2 item 8: `evaluate_spans` works on programs; what it says stands on the spans."""

    class Metric:
        def evaluate(self, row: DemoRow, output: Any, trace: Any) -> float:
            return 1.0

        def evaluate_spans(self, row: DemoRow, output: Any, trace: burnish.Trace) -> list[tuple[int, float]]:
            return [(span.id, 0.25) for span in trace.for_component("drafter")] + [(99, 1.0)]

    made = draft_and_refine()
    engine = ProgramEvalEngine([DemoRow({"question": "?"})], Metric())
    with models(task=ScriptedModel(lambda request: "draft: d\nanswer: a")):
        evaluation = evaluated(await engine.evaluate(Interpreter(made), engine.register(made.overlay())))[0]
    assert [0.25, None] == [span.eval and span.eval.score for span in evaluation.rollouts[0].trace.spans]
    assert (1, 2) == (engine.spend.lm_calls, engine.spend.lm_spans)


async def test_a_rollouts_own_budget_is_the_programs_failure() -> None:
    """E51, WE: a rollout that passes its runtime budget failed; one that the search's budget stops is no verdict."""
    made = draft_and_refine()
    interpreter, engine = Interpreter(made), ProgramEvalEngine([DemoRow({"question": "?"})], same)
    index = engine.register(made.overlay())
    with models(task=ScriptedModel(lambda request: "draft: d\nanswer: a")):
        target = interpreter.target(budget=Budget(max_lm_calls=1))
        (failed,) = evaluated(await engine.evaluate(target, index))[0].rollouts
    assert (RolloutStatus.AGENT_FAILED, "RunBudgetError") == (failed.status, failed.error.type)
    assert "the run's budget refused a call at `refiner`" in failed.eval.feedback

    config = EngineConfig(budget=burnish.Budget(max_requests=1))
    engine = ProgramEvalEngine([DemoRow({"question": "?"})], same, config)
    with models(task=ScriptedModel(lambda request: "draft: d\nanswer: a")):
        outcome = await engine.evaluate(interpreter, engine.register(made.overlay()))
    assert isinstance(outcome, BudgetExhausted)
    assert "max_requests" == outcome.cap


async def test_a_failing_program_is_its_candidates_failure() -> None:
    """A reply that cannot be parsed is the program's failure, in its own row alone."""
    leaf = ask("answer", "question -> answer: int", question="$.question")
    typed = program("question -> answer: int", leaf, out={"answer": "answer.answer"})
    engine = ProgramEvalEngine(rows(2), same)
    with models(task=lambda request: "4" if "q1" in request.messages[-1].content else "many"):
        (evaluation,) = evaluated(await engine.evaluate(Interpreter(typed), engine.register(typed.overlay())))
    assert ["agent_failed", "succeeded"] == [rollout.status.value for rollout in evaluation.rollouts]


# --- the target ------------------------------------------------------------------------------------------------


def test_an_interpreter_is_a_program_to_tune() -> None:
    """`as_target` gives a target with the leaves that call a model as parameters, with the models to choose from."""
    made = answerer("m1", models=["m1", "m2"])
    env = RuntimeEnv().bind_model("m1", lambda request: "1").bind_model("m2", lambda request: "2")
    target = burnish.as_target(Interpreter(made, env))
    assert isinstance(target, InterpreterTarget)
    assert isinstance(target, abc.Target)
    assert isinstance(program_of(Interpreter(made, env), "host:qa"), InterpreterTarget)
    parameter = target.parameters()["answer"]
    assert ("Answer.", {"model": ("m1", "m2")}) == (parameter.instruction, parameter.values)
    assert ["question"] == [field.name for field in target.inputs or ()]
    target.check(burnish.Candidate().with_instruction("answer", "New.").set_value("answer", "model", "m2"))
    with pytest.raises(UsageError):
        target.check(burnish.Candidate().set_value("answer", "model", "m3"))
    with pytest.raises(UnknownPathError):
        target.check(burnish.Candidate().with_instruction("other", "New."))


def test_the_fingerprint_follows_program_models_and_budget() -> None:
    """What decides the results is in the identity, and no more: the same program bound the same way is one."""
    made = answerer("m1", models=["m1"])

    def fingerprint(program: Program, name: str = "a", **options: Any) -> str:
        env = RuntimeEnv().bind_model("m1", ScriptedModel([], name=name))
        return Interpreter(program, env).target(**options).fingerprint

    base = fingerprint(made)
    assert base == fingerprint(answerer("m1", models=["m1"]))
    others = [
        fingerprint(made, "b"),
        fingerprint(made.bake(instructed(made, "New."))),
        fingerprint(made, budget=Budget(max_lm_calls=3)),
    ]
    assert 4 == len({base, *others})
    assert base == fingerprint(made, budget=Budget(deadline=123.4))  # a time of one process's clock


async def test_a_winner_is_baked_in(tmp_path: Path) -> None:
    """`install` makes the interpreter run the baked program, as `load(...).apply` does; a copy is one of its own."""
    made = answerer()
    interpreter = Interpreter(made)
    target = interpreter.target()
    copied = target.copy()  # type: ignore[attr-defined]
    copied.install(burnish.Candidate().with_instruction("answer", "Won."))
    with models(task=system):
        assert {"answer": "Won."} == await copied.program.run({"question": "?"})
        assert {"answer": "Answer."} == await interpreter.run({"question": "?"})
    assert copied.program.program.program_hash == copied.tags["program"] != made.program_hash
    assert made.program_hash == copied.program.program.lineage["parent"]
    assert interpreter is target.program  # type: ignore[attr-defined]
    with pytest.raises(BaseMismatchError):
        copied.install(made.overlay().to_candidate())

    best = tmp_path / "best.json"
    burnish.save(best, instructed(made, "Saved.").to_candidate(), target.parameters())
    assert interpreter is burnish.load(best).apply(interpreter)
    with models(task=system):
        assert {"answer": "Saved."} == await interpreter.run({"question": "?"})
    assert interpreter.program.program_hash == target.tags["program"] != made.program_hash  # type: ignore[attr-defined]
    assert "Saved." == target.parameters()["answer"].instruction


async def test_a_target_runs_the_candidate_in_force() -> None:
    """What is asked to run must be what would be rendered; without a rollout that is the program as it is."""
    target = Interpreter(answerer()).target()
    candidate = burnish.Candidate().with_instruction("answer", "Other.")
    with models(task=system):
        assert {"answer": "Answer."} == await target.run({"question": "?"}, burnish.Candidate())
        with pytest.raises(UsageError, match="not the one in force"):
            await target.run({"question": "?"}, candidate)
        with burnish.injected(burnish.Injection(candidate)):
            assert {"answer": "Other."} == await target.run({"question": "?"}, candidate)


class Texts:
    """A strategy: evaluate the start, then each text as the instruction; the best wins."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts

    def plan(self, problem: abc.Problem) -> burnish.Plan:
        rows = len(problem.val or problem.train)
        return burnish.Plan(rollouts=(1 + len(self.texts)) * rows, candidates=len(self.texts), minimum=2 * rows)

    async def compile(self, engine: burnish.Engine, problem: abc.Problem) -> burnish.Report:
        columns, scored = problem.val or problem.train, []
        for candidate in [problem.start, *(problem.start.set_instruction("answer", text) for text in self.texts)]:
            outcome = await engine.evaluate_many([(engine.register(candidate), columns)])
            scored.append((evaluated(outcome)[0].mean(), candidate))
        score, best = max(scored, key=lambda pair: pair[0])
        return burnish.Report(
            strategy="texts", best=best, baseline_score=scored[0][0], best_score=score, stop_reason="finished"
        )


def test_every_strategy_works_on_it() -> None:
    """`optimize` tunes an interpreter as any program: labeled rows, the leaves as parameters, a copy that won."""
    interpreter = Interpreter(answerer())
    result = burnish.optimize(
        interpreter,
        trainset=rows(3),
        metric=same,
        strategy=Texts("Bad.", "Good."),
        budget=burnish.Budget(max_metric_calls=20),
        models={"task": ScriptedModel(system)},
    )
    assert (0.0, 1.0) == (result.baseline, result.best)
    assert burnish.Candidate().with_instruction("answer", "Good.") == result.candidate
    assert Instruction("Good.") == result.program.program.slots["answer.instruction"].default
    assert answerer() == interpreter.program
