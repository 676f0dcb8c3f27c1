"""Programs and metrics that do what nobody should: write into rows, raise what is no `Exception`."""

from __future__ import annotations

from typing import Any

import pytest

from burnish import Budget, Use, optimize
from burnish.testing import ScriptedModel
from burnish_programs import Module, Predict

from ._place import Place

pytestmark = pytest.mark.slow

PARTS = """
import burnish

@burnish.exposed
def cancelled(example, prediction):
    import asyncio
    raise asyncio.CancelledError
"""


def test_rows_stay_as_they_are() -> None:
    """A program that appends to a list of its input, and a metric that writes into the row, change nobody's row."""
    lengths: list[int] = []

    class Chat(Module):
        def __init__(self) -> None:
            self.p = Predict("q -> a")

        async def forward(self, *, history: list[str]) -> Any:
            lengths.append(len(history))
            history.append("user: again")
            return await self.p(q=history[0])

    def metric(example: Any, prediction: Any) -> bool:
        right = bool(example["a"] == prediction["a"])
        example["a"] = "overwritten"
        return right

    rows = [{"history": [f"x{n}"], "a": "yes"} for n in range(12)]
    result = optimize(
        Chat(),
        trainset=rows[:4],
        valset=rows[4:8],
        testset=rows[8:],
        metric=metric,
        strategy=Use("bootstrap-random", num_candidates=2),
        budget=Budget(max_metric_calls=100),
        models=ScriptedModel(lambda request: "a: yes"),
    )
    assert {1} == set(lengths)
    assert (1.0, 1.0) == (result.baseline, result.best)


def test_a_cancelled_coroutine_of_the_metrics_is_no_verdict(place: Place) -> None:
    """`asyncio.CancelledError` is the metric's failure like any other; exit code 1 means `no improvement` alone."""
    (place.path / "parts_cancelled.py").write_text(PARTS, encoding="utf-8")
    place.configure(metric="parts_cancelled:cancelled")
    code, _, err = place.run()
    assert 3 == code
    assert "the metric raised CancelledError" in err
    assert "Traceback" not in err
