"""A task whose best instruction is known: rows of some kinds, answered right where it has the cue of their kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import burnish as b
from burnish import abc
from burnish._model.canonical import hash64
from burnish.testing import ScriptedModel
from burnish_copro import COPRO, COPROReport
from burnish_programs import Predict

BASE = "Answer."
KINDS = 5


def rows(first: int, each: int = 2, kinds: int = KINDS) -> list[dict[str, str]]:
    """Give rows of each kind, numbered from `first` on."""
    return [{"question": f"Q{kind}-{n}", "answer": f"A{kind}-{n}"} for n in range(first, first + each)
            for kind in range(kinds)]


TRAIN, VAL = rows(10), rows(20)


def prompt_of(request: abc.LMRequest) -> str:
    return "\n".join(message.content for message in request.messages)


def is_proposal(request: abc.LMRequest) -> bool:
    return request.layout is not None and request.layout.outputs == ("proposed_instruction",)


def solve(request: abc.LMRequest) -> str:
    """Answer right where the kind is 0 or the prompt has its cue."""
    prompt = prompt_of(request)
    kind, number = re.findall(r"Q(\d)-(\d+)", prompt)[-1]
    return f"A{kind}-{number}" if kind == "0" or f"[{kind}]" in prompt else "unknown"


def propose(request: abc.LMRequest) -> str:
    """Keep the instruction that the prompt shows last, and add the cue that feedback names, else one by chance."""
    prompt = prompt_of(request)
    best = re.findall(re.escape(BASE) + r"(?: \[\d\])*", prompt)[-1]
    lacking = [kind for kind in map(str, range(KINDS)) if f"[{kind}]" not in best]
    named = [kind for kind in re.findall(r"missing (\d)", prompt) if kind in lacking]
    chosen = named[0] if named else lacking[hash64([prompt, request.sample]) % len(lacking)] if lacking else None
    return best if chosen is None else f"{best} [{chosen}]"


def model(
    proposals: Callable[[abc.LMRequest], str | abc.LMResponse] = propose, *, name: str = "cues", delay: float = 0.0
) -> ScriptedModel:
    """Make a model that is task and proposer alike."""

    def reply(request: abc.LMRequest) -> str | abc.LMResponse:
        return proposals(request) if is_proposal(request) else solve(request)

    return ScriptedModel(reply, name=name, delay=delay, limits=abc.ModelLimits(key=name, timeout=None, retries=0))


def proposals_in(model: ScriptedModel) -> list[abc.LMRequest]:
    return [request for request in model.requests if is_proposal(request)]


def rollouts_in(model: ScriptedModel) -> list[abc.LMRequest]:
    return [request for request in model.requests if not is_proposal(request)]


@b.inline
def exact(example: Any, prediction: Any) -> float:
    """Score without feedback."""
    return float(prediction.answer == example["answer"])


@b.inline
def told(example: Any, prediction: Any) -> b.Eval:
    """Score with feedback that names the missing cue."""
    right = prediction.answer == example["answer"]
    return b.Eval(float(right), "right" if right else f"wrong: missing {example['question'][1]}")


class Watched:
    """COPRO, with a list of what it asked the engine to evaluate."""

    def __init__(self, **knobs: Any) -> None:
        self.copro = COPRO(**knobs)
        self.asks: list[tuple[tuple[int, tuple[int, ...]], ...]] = []

    def plan(self, problem: abc.Problem) -> b.Plan:
        self.planned = self.copro.plan(problem)
        return self.planned

    async def compile(self, engine: b.Engine, problem: abc.Problem) -> COPROReport:
        asks = self.asks

        class Recording(b.Engine):
            async def evaluate_many(
                self, requests: Sequence[tuple[int, Sequence[int]]], **options: Any
            ) -> b.Complete | b.BudgetExhausted:
                asks.append(tuple((index, tuple(columns)) for index, columns in requests))
                return await super().evaluate_many(requests, **options)

        return await self.copro.compile(Recording(engine._evaluator, engine._target), problem)


def run(strategy: Any, models: Any, **options: Any) -> tuple[b.Result, COPROReport]:
    """Run COPRO on the task; gives the result and COPRO's report."""
    given: Mapping[str, Any] = {
        "program": Predict("question -> answer", BASE, name="answer"),
        "trainset": TRAIN, "valset": VAL, "metric": exact, "budget": b.Budget(), "concurrency": 8, **options,
    }
    result = b.optimize(strategy=strategy, models=models, **given)
    report = result.reports[0]
    assert isinstance(report, COPROReport)
    return result, report


def texts_of(report: COPROReport, name: str = "answer") -> list[str]:
    """Give the text of each candidate, in order; BASE where it leaves it alone."""
    overlays = [entry.candidate.overlays.get(name) for entry in report.candidates]
    return [BASE if overlay is None else overlay.instruction or BASE for overlay in overlays]
