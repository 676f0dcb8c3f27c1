"""What a user sees when a metric, a program or a provider misbehaves, and what is kept.

    uv run --group test python benchmarks/faults.py

Each case runs `burnish.optimize` on 20 rows with a model that counts its calls, and prints the result or the error, the
calls made, and, after an error, the calls that a second run with the fault mended makes on the same cache.
"""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

import burnish
from burnish import errors
from burnish.testing import ScriptedModel
from burnish_bootstrap import BootstrapFewShot
from burnish_programs import Module, Predict

ROWS = [{"question": f"q{i}", "answer": "yes"} for i in range(20)]
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))


class QA(Module):
    """Answer in one step; `act` may misbehave first."""

    fingerprint = "qa"

    def __init__(self, act: Callable[[str], None] | None = None) -> None:
        self.answer = Predict("question -> answer")
        self._act = act

    async def forward(self, *, question: str) -> Any:
        """Answer a question."""
        if self._act is not None:
            self._act(question)
        return await self.answer(question=question)


class Threaded(QA):
    """Answer from a thread that is started without its context."""

    def forward(self, *, question: str) -> Any:  # type: ignore[override]
        """Answer a question."""
        answers: list[Any] = []
        thread = threading.Thread(target=lambda: answers.append(self.answer.sync(question=question)))
        thread.start()
        thread.join()
        return answers[0]


def good(example: Any, prediction: Any) -> float:
    """Compare."""
    return float(example["answer"] == prediction["answer"])


async def late(example: Any, prediction: Any) -> Any:
    """Forget to await."""
    return good_later()


async def good_later() -> float:
    """Come later."""
    return 1.0


def boom(example: Any, prediction: Any) -> float:
    """Raise on one row."""
    if example["question"] == "q13":
        raise KeyError("gold")
    return 1.0


def one_in_ten(question: str) -> None:
    """Fail on two of twenty rows."""
    if question in ("q3", "q13"):
        raise RuntimeError("disk is full")


def stormy() -> ScriptedModel:
    """Answer 429 for five seconds, then well."""
    until = time.monotonic() + 5.0

    def reply(request: Any) -> str:
        if time.monotonic() < until:
            raise errors.ModelRateLimitError("slow down", retry_after=1.0)
        return "yes"

    return ScriptedModel(reply, name="scripted")


def run(program: Any, metric: Any, model: ScriptedModel, cache: Path) -> str:
    """Run once and say what came of it."""
    try:
        result = burnish.optimize(
            program,
            trainset=ROWS[:6],
            valset=ROWS[6:12],
            testset=ROWS[12:],
            metric=metric,
            strategy=BootstrapFewShot(max_labeled_demos=0),
            budget=burnish.Budget(max_metric_calls=100),
            models=model,
            cache=burnish.Use("sqlite", path=str(cache)),
        )
    except errors.BurnishError as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    test = result.test
    notes = "".join(f"\n    warning: {text}" for text in result.warnings)
    return f"baseline {result.baseline}, best {result.best}, test rows scored {test and test.rows}{notes}"


def main() -> None:
    """Run the cases."""
    cases: list[tuple[str, Any, Any]] = [
        ("metric returns None", QA(), lambda e, p: None),
        ("metric returns NaN", QA(), lambda e, p: float("nan")),
        ('metric returns "yes"', QA(), lambda e, p: "yes"),
        ("metric returns a coroutine", QA(), late),
        ("metric raises on one test row", QA(), boom),
        ("program raises on one row in ten", QA(one_in_ten), good),
        ("program answers from a bare thread", Threaded(), good),
    ]
    for name, program, metric in cases:
        with tempfile.TemporaryDirectory() as place:
            first, second = ScriptedModel(lambda r: "yes"), ScriptedModel(lambda r: "yes")
            print(f"{name}\n  {run(program, metric, first, Path(place) / 'c.db')}\n  model calls {first.calls}", end="")
            if metric is not good:
                run(program, good, second, Path(place) / "c.db")
                print(f"; mended, run again: {second.calls}", end="")
            print()
    with tempfile.TemporaryDirectory() as place:
        model, began = stormy(), time.monotonic()
        outcome = run(QA(), good, model, Path(place) / "c.db")
        print(f"model answers 429 for 5 s\n  {outcome}\n  model calls {model.calls}, {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
