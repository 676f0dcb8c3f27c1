"""The same seed gives the same result: at any concurrency, in any order of answers, under any hash seed."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio

from burnish import Budget, Result, Use, optimize
from burnish.abc import LMRequest, LMResponse
from burnish.testing import ScriptedModel
from burnish_programs import Predict

from ._place import Place

pytestmark = pytest.mark.slow
BUDGETS = [
    Budget(max_metric_calls=400),
    Budget(max_metric_calls=95),
    Budget(max_lm_calls=95),
    Budget(max_requests=95),
    Budget(max_requests=130),
]


class Jittery(ScriptedModel):
    """Answers by content, after a random time."""

    def __init__(self, seed: int) -> None:
        super().__init__(self._answer, name="jittery")
        self._random = random.Random(seed)

    async def complete(self, request: LMRequest) -> LMResponse:
        await trio.sleep(self._random.random() * 0.002)
        return await super().complete(request)

    @staticmethod
    def _answer(request: LMRequest) -> str:
        demos = sum(message.role == "assistant" for message in request.messages)
        chance = int(request.fingerprint, 16) % 10
        return f"a: {request.messages[-1].content.split()[-1] if chance < 4 + demos // 3 else 'wrong'}"


def told(result: Result) -> dict[str, Any]:
    """Give all of a result that a user sees and that is no time."""
    assert result.test is not None
    return {
        "scores": (result.baseline, result.best, result.stop_reason),
        "winner": result.candidate.to_json(),
        "test": (result.test.baseline_scores, result.test.winner_scores),
        "spend": (result.spend.metric_calls, result.spend.requests, result.spend.tokens, result.spend.cache_hits),
        "candidates": [
            [(e.origin, e.candidate.stable_hash, e.scores) for e in report.candidates] for report in result.reports
        ],
        "notes": [report.notes for report in result.reports],
        "warnings": result.warnings,
    }


@pytest.mark.parametrize("budget", BUDGETS, ids=["enough", "rollouts", "LM calls", "requests", "more requests"])
def test_concurrency_and_order_of_answers_change_nothing(budget: Budget) -> None:
    """Scores, winner, spend, reports and notes are those of one at a time, where a cap ends the run too."""
    rows = [{"q": f"say x{n}", "a": f"x{n}"} for n in range(45)]

    def run(concurrency: int, seed: int) -> dict[str, Any]:
        result = optimize(
            Predict("q -> a"),
            trainset=rows[:15],
            valset=rows[15:30],
            testset=rows[30:],
            metric="exact_match",
            strategy=[Use("bootstrap-random", num_candidates=5), Use("bootstrap")],
            budget=budget,
            seed=3,
            models=Jittery(seed),
            concurrency=concurrency,
        )
        return told(result)

    expected = run(1, 0)
    for concurrency, seed in ((16, 1), (16, 2), (5, 3)):
        assert expected == run(concurrency, seed)


def test_the_hash_seed_changes_nothing(place: Place) -> None:
    """Two processes with other hash seeds, and another concurrency, write the same `best.json` and `result.json`."""
    found = []
    for number, concurrency in ((1, 1), (77, 16)):
        place.configure(concurrency=concurrency, train=6, val=8, test=8, candidates=2, more='[cache]\nuse = "none"\n')
        assert 0 == place.run("--name", f"seed{number}", PYTHONHASHSEED=str(number))[0]
        form = place.result(f"seed{number}")
        form["spend"].pop("seconds")
        form["test"].pop("looks")
        shown = {key: value for key, value in form.items() if key not in ("name", "run_dir")}
        found.append((shown, (place.run_dir(f"seed{number}") / "best.json").read_bytes()))
    assert found[0] == found[1]
