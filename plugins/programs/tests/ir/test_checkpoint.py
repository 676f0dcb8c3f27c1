"""Checkpoints of the program lane's engine: the core's, with overlays instead of candidates."""

from __future__ import annotations

from typing import Any

import pytest

import burnish
from burnish.errors import UsageError
from burnish.testing import ScriptedModel
from burnish_programs import models
from burnish_programs.ir._engine import ProgramEvalEngine
from burnish_programs.ir._errors import BaseMismatchError
from burnish_programs.ir._overlay import Overlay
from burnish_programs.ir._program import Program
from burnish_programs.ir._run import Interpreter
from burnish_programs.ir._values import DemoRow, Demos, Instruction

from ._kit import answerer, evaluated


def rows(n: int) -> list[DemoRow]:
    """Labeled rows."""
    return [DemoRow({"question": f"q{i}"}, {"answer": "Good."}) for i in range(n)]


@burnish.inline
def same(row: DemoRow, output: Any, trace: Any = None) -> float:
    """Score 1 where the answer is the row's."""
    return float(output["answer"] == row.output["answer"])


def overlays(made: Program) -> list[Overlay]:
    """The base, one with an instruction, one with demos too."""
    told = made.overlay().set(made, "answer.instruction", Instruction("Be good."))
    return [made.overlay(), told, told.set(made, "answer.demos", Demos((rows(3)[2],)))]


def task() -> ScriptedModel:
    """A model that answers all."""
    return ScriptedModel(lambda request: "Good.", name="task")


async def test_a_resumed_engine_serves_overlays() -> None:
    """E78-E80 in the program lane: three overlays x 2 rows are served after a resume; registering gives old indices and
    the overlays themselves; other rows do not match."""
    made, model = answerer(), task()
    engine = ProgramEvalEngine(rows(2), same)
    indices = [engine.register(overlay) for overlay in overlays(made)]
    with models(task=model):
        await engine.evaluate_program_candidates(Interpreter(made), indices)
        text = engine.checkpoint()
        again = ProgramEvalEngine.resume(rows(2), same, None, text)
        assert isinstance(again, ProgramEvalEngine)
        assert [o.hash() for o in overlays(made)] == [again.candidate_hash(i) for i in indices]
        assert overlays(made) == [Overlay.from_candidate(made, again.candidate(i)) for i in indices]
        assert indices == [again.register(overlay) for overlay in overlays(made)]
        assert overlays(made) == [again.candidate(i) for i in indices]
        served = evaluated(await again.evaluate_program_candidates(Interpreter(made), indices))
    assert [[1.0, 1.0]] * 3 == [evaluation.scores() for evaluation in served]
    assert (6, 6, 6) == (model.calls, again.spend.metric_calls, again.spend.cache_hits)
    with pytest.raises(UsageError, match="does not match the provided example set"):
        ProgramEvalEngine.resume(rows(3), same, None, text)


async def test_a_baked_program_is_another_one() -> None:
    """Scenarios 72 and 73, E80: after a resume, a baked program refuses the old overlays, and its first evaluation
    takes the old program's scores out of the matrix."""
    made = answerer()
    engine = ProgramEvalEngine(rows(2), same)
    base, told, _ = overlays(made)
    with models(task=task()):
        await engine.evaluate_program_candidates(Interpreter(made), [engine.register(base), engine.register(told)])
        again = ProgramEvalEngine.resume(rows(2), same, None, engine.checkpoint())
        assert [1.0, 1.0] == again.matrix.row(1)
        baked = made.bake(told)
        with pytest.raises(BaseMismatchError):
            await again.evaluate(Interpreter(baked), 1)
        assert [1.0, 1.0] == again.matrix.row(1)
        fresh = again.register(baked.overlay())
        await again.evaluate(Interpreter(baked), fresh)
    assert [[None, None], [None, None], [1.0, 1.0]] == [again.matrix.row(c) for c in range(3)]
    assert (6, 0) == (again.spend.metric_calls, again.spend.cache_hits)
