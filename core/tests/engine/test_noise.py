"""Noisy scores: what a search reports of them is the truth within its interval, and noise need not be adopted."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest

import burnish as b
from burnish import Plan, Report, abc, toolkit
from burnish_programs import Predict

SEEDS = range(4)
CANDIDATES = 30


class Picks:
    """Score many instructions that make no difference, and pick the highest mean."""

    replay_version = 1

    def plan(self, problem: abc.Problem) -> Plan:
        rows = len(problem.val)
        return Plan(rollouts=(1 + CANDIDATES) * rows, candidates=CANDIDATES, minimum=2 * rows)

    async def compile(self, engine: b.Engine, problem: abc.Problem) -> Report:
        texts = [f"way {problem.seed}.{n}" for n in range(CANDIDATES)]
        candidates = [problem.start, *(problem.start.set_instruction("predict", text) for text in texts)]
        numbers = {engine.register(candidate): candidate for candidate in candidates}
        outcome = await engine.evaluate_many([(index, problem.val) for index in numbers])
        found = toolkit.evaluation_of(outcome)
        best, start = toolkit.best_of(found.values()), next(iter(found.values()), None)
        cut = isinstance(outcome, b.BudgetExhausted)
        return Report(
            strategy="picks",
            best=problem.start if best is None else numbers[best.candidate],
            baseline_score=toolkit.score_of(start),
            best_score=toolkit.score_of(best),
            stop_reason=f"budget: {outcome.cap}" if isinstance(outcome, b.BudgetExhausted) and cut else "finished",
            facts={"rows": [len(e.rollouts) for e in found.values()], "remaining": engine.remaining},
        )


def coin(request: abc.LMRequest) -> str:
    """Answer right by a toss of its own for each prompt and sample: the true score of anything is 0.5."""
    return f"a: {int(request.fingerprint, 16) % 2}"


def heads(example: Any, prediction: Any) -> float:
    return float(prediction.a == "1")


heads.fingerprint = "heads"  # type: ignore[attr-defined]


def rows(kind: str, count: int) -> list[dict[str, str]]:
    return [{"q": f"{kind} {n}"} for n in range(count)]


def tossed(seed: int, *, val: int = 40, test: int = 120, **options: Any) -> b.Result:
    return b.optimize(
        Predict("q -> a"), strategy=Picks(), models=coin, metric=b.inline(heads), trainset=rows("train", 1),
        valset=rows("val", val), testset=rows("test", test), seed=seed, **{"budget": b.Budget(), **options},
    )


@pytest.mark.slow
def test_what_is_reported_of_coin_flips_is_the_truth() -> None:
    """The winner's validation mean flatters and says among how many it was chosen; its test score does not.

    DSPy's COPRO reports 72.5 for such a metric.
    """
    results = [tossed(seed) for seed in SEEDS]
    flattering = statistics.fmean(result.best or 0.0 for result in results)
    assert 0.6 < flattering < 0.75
    for result in results:
        assert 1 + CANDIDATES == result.compared
        assert f"-> {result.best:.3f} (chosen among 31)" in str(result)
        test = result.test
        assert test is not None
        assert test.comparison is not None
        low, high = test.comparison.low, test.comparison.high
        assert low is not None
        assert high is not None
        assert low <= 0.0 <= high
        assert not result.improved
        assert abs(test.comparison.winner - 0.5) < 2.6 * (0.25 / 120) ** 0.5
    assert abs(statistics.fmean(r.test.comparison.winner for r in results if r.test and r.test.comparison) - 0.5) < 0.05


@pytest.mark.slow
def test_a_margin_keeps_the_program_as_it_is() -> None:
    """With `min_gain` above what the luckiest of 30 is ahead by, no coin flip is adopted, and the result says why."""
    for seed in SEEDS:
        result = tossed(seed, min_gain=4.0, val=12, test=1)
        assert result.candidate.is_empty
        assert result.baseline == result.best
        assert any("less than min_gain = 4: the program stays as it is" in warning for warning in result.warnings)


@pytest.mark.slow
def test_repeats_make_the_luckiest_less_lucky() -> None:
    """Four rollouts a cell halve what noise is ahead by; their mean is the cell's score, and each is paid for."""
    once = [tossed(seed, val=10, test=0) for seed in SEEDS]
    often = [tossed(seed, val=10, test=0, repeats=4) for seed in SEEDS]
    ahead = [statistics.fmean((r.best or 0.0) - 0.5 for r in some) for some in (once, often)]
    assert ahead[1] < 0.65 * ahead[0]
    assert 4 * once[0].spend.metric_calls == often[0].spend.metric_calls


def test_a_strategy_need_not_know_of_repeats() -> None:
    """It is told one rollout a row, and rooms and refusals count rows: three rollouts each."""
    result = tossed(0, val=4, test=0, repeats=3, budget=b.Budget(max_metric_calls=40))
    facts = result.reports[0].facts
    assert ([4, 4, 4], 1, 36) == (facts["rows"], facts["remaining"], result.spend.metric_calls)
    assert "budget: max_metric_calls" == result.stop_reason
    assert result.best is not None
    assert round(12 * result.best, 6) == round(12 * result.best)


def test_a_budget_pays_the_repeats_of_one_round_or_is_refused() -> None:
    """Two candidates on four rows, three times each."""
    with pytest.raises(b.errors.BudgetRefusedError) as caught:
        tossed(0, val=4, test=0, repeats=3, budget=b.Budget(max_metric_calls=23))
    assert 24 == caught.value.needed


@pytest.mark.parametrize("wrong", [{"repeats": 0}, {"repeats": 1.5}, {"min_gain": -1}, {"min_gain": float("nan")}])
def test_what_cannot_be_meant_is_refused(wrong: dict[str, Any]) -> None:
    """No rollouts at all, half a one, a margin below nothing."""
    with pytest.raises(b.errors.UsageError, match=next(iter(wrong))):
        tossed(0, **wrong)


def test_other_repeats_are_another_run(tmp_path: Path) -> None:
    """What its strategy was told depends on them (R1)."""
    tossed(0, val=2, test=0, repeats=2, run_dir=tmp_path / "run")
    with pytest.raises(b.errors.ResumeRefusedError, match="how often rollouts are repeated"):
        tossed(0, val=2, test=0, repeats=3, run_dir=tmp_path / "run", resume=True)
    again = tossed(0, val=2, test=0, repeats=2, run_dir=tmp_path / "run", resume=True)
    assert 2 * 2 * (1 + CANDIDATES) == again.spend.metric_calls
