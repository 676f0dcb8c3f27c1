"""A tiny strategy and a program for it: what a candidate says is its score."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio

import burnish as b
from burnish import Plan, Report, abc

from ._kit import Leaf, Module, as_said, told


class Tries:
    """Evaluate the start, then each text in turn; the best on validation wins."""

    def __init__(self, *texts: str, before: Callable[[str], Awaitable[None]] | None = None) -> None:
        self.texts, self.before = texts, before
        self.problem: abc.Problem | None = None

    def plan(self, problem: abc.Problem) -> Plan:
        rows = len(problem.val or problem.train)
        return Plan(rollouts=(1 + len(self.texts)) * rows, candidates=len(self.texts), minimum=2 * rows)

    async def compile(self, engine: b.Engine, problem: abc.Problem) -> Report:
        self.problem = problem
        columns, stop = problem.val or problem.train, "finished"
        scored: list[tuple[float, b.Candidate]] = []
        for candidate in [problem.start, *(told("answer", text) for text in self.texts)]:
            if self.before is not None:
                await self.before(instruction(candidate))
            outcome = await engine.evaluate_many([(engine.register(candidate), columns)])
            if isinstance(outcome, b.BudgetExhausted):
                stop = f"budget: {outcome.cap}"
                break
            mean = outcome.evaluation.mean()
            if mean is not None:
                scored.append((mean, candidate))
        best = max(scored, key=lambda pair: pair[0], default=(0.0, problem.start))
        baseline = scored[0][0] if scored else None
        return Report(strategy="tries", best=best[1], baseline_score=baseline, best_score=best[0], stop_reason=stop)


def instruction(candidate: b.Candidate) -> str:
    """Give what a candidate says."""
    overlay = candidate.overlays.get("answer")
    return "" if overlay is None else overlay.instruction or ""


async def say(q: Any, text: str) -> float:
    """Score what the instruction says."""
    await trio.lowlevel.checkpoint()
    return float(text)


def program(text: str = "0.1") -> Module:
    """Make a program whose score is its instruction."""
    return Module(say, answer=Leaf(text))


def split(**sizes: int) -> dict[str, list[dict[str, Any]]]:
    """Make train, val and test sets of so many rows, none of them twice."""
    return {f"{name}set": [{"q": f"{name} {i}"} for i in range(size)] for name, size in sizes.items()}


def tune(given: Any, strategy: Any, sets: dict[str, Any], **options: Any) -> b.Result:
    """Call `optimize` with no cap and with the output as the score, unless told otherwise."""
    return b.optimize(given, strategy=strategy, **{"metric": as_said, "budget": b.Budget(), **sets, **options})
