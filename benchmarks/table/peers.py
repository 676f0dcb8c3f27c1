"""What DSPy and gepa do of the table's work, in their own environment. Imports nothing of burnish."""

from __future__ import annotations

import logging
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # `benchmarks` alone: no site of ours is on the path

import dspy
from dspy.utils import DummyLM
from gepa.core.state import GEPAState, ValsetEvaluation
from gepa.strategies.candidate_selector import ParetoCandidateSelector

from benchmarks.table.worker import Measured, cpu_us, serve

logging.disable(logging.WARNING)
DEMO_TEXT = "A question that takes up about as much room as questions do. "
SIGNATURE = "question -> answer: int"


def dummy(answers: int) -> Any:
    """Make a model of so many answers, which come at once."""
    return DummyLM([{"answer": "1"}] * answers)


class Sleeper(dspy.Module):  # type: ignore[misc]
    """A program that takes so long, and then asks a dummy model where it has a predictor."""

    def __init__(self, seconds: float, predict: Any = None) -> None:
        super().__init__()
        self.seconds, self.predict = seconds, predict

    def forward(self, question: str) -> Any:
        """Wait, then answer."""
        if self.seconds:
            time.sleep(self.seconds)
        return dspy.Prediction(answer=question) if self.predict is None else self.predict(question=question)


def evaluate(count: int, slots: int, seconds: float = 0.0, kind: str = "bare") -> Measured:
    """Evaluate once with `dspy.Evaluate`: `kind` is `bare` or `predict`."""
    dspy.configure(lm=dummy(count + slots))
    program = Sleeper(seconds, dspy.Predict(SIGNATURE) if kind == "predict" else None)
    devset = [dspy.Example(question=f"q{i}").with_inputs("question") for i in range(count)]
    run = dspy.Evaluate(devset=devset, metric=lambda *_: 1.0, num_threads=slots, display_progress=False)
    wall, cpu = time.perf_counter(), time.process_time()
    run(program)
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def captured(demos: int, times: int = 60) -> Measured:
    """Call `dspy.Predict` with a dummy model; least CPU of a call, in microseconds."""
    dspy.configure(lm=dummy(times * 8))
    predict = dspy.Predict(SIGNATURE)
    predict.demos = [dspy.Example(question=DEMO_TEXT * 3, answer=n) for n in range(demos)]
    return {"us": cpu_us(lambda: predict(question="q"), times)}


def _binary(rng: random.Random, columns: int) -> ValsetEvaluation:
    scores = {column: float(rng.random() < 0.5) for column in range(columns)}
    return ValsetEvaluation(outputs_by_val_id=dict.fromkeys(scores, "out"), scores_by_val_id=scores)


def frontier(candidates: int, columns: int = 500) -> Measured:
    """Accept candidates with binary rows; CPU of the last one's bookkeeping and the next choice, and of a save."""
    rng = random.Random(0)
    state = GEPAState({"answer": "seed"}, _binary(rng, columns))
    selector, taken = ParetoCandidateSelector(random.Random(0)), 0.0
    for number in range(1, candidates):
        evaluation = _binary(rng, columns)
        began = time.process_time()
        state.update_state_with_new_program([0], {"answer": f"text {number}"}, evaluation, None, 0)
        if number == candidates - 1:
            selector.select_candidate_idx(state)
            taken = time.process_time() - began
    with tempfile.TemporaryDirectory() as directory:
        began = time.perf_counter()
        state.save(directory)
        saved = time.perf_counter() - began
        size = sum(path.stat().st_size for path in Path(directory).iterdir())
    return {"ms": taken * 1000, "save_ms": saved * 1000, "save_bytes": float(size)}


def iteration(seconds: float = 0.080, slots: int = 4, parallel: bool = True) -> Measured:
    """The 13 calls of one iteration: one after the other, or each stage of four through `dspy.Parallel`."""
    dspy.configure(lm=dummy(20))
    predict = Sleeper(seconds, dspy.Predict(SIGNATURE))
    began = time.perf_counter()
    predict(question="proposal")
    for stage in range(3):
        examples = [dspy.Example(question=f"q{4 * stage + n}").with_inputs("question") for n in range(4)]
        if parallel:
            dspy.Parallel(num_threads=slots, disable_progress_bar=True)([(predict, example) for example in examples])
        else:
            for example in examples:
                predict(**example.inputs())
    return {"wall": time.perf_counter() - began}


if __name__ == "__main__":
    os.environ.setdefault("DSPY_CACHEDIR", tempfile.mkdtemp())
    serve({work.__name__: work for work in (evaluate, captured, frontier, iteration)})
