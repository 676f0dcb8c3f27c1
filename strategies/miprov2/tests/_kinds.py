"""A small task for these tests: kinds of question that cues in the instruction, or demos, make answerable."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import burnish
from burnish import Budget, Result, abc
from burnish.testing import ScriptedModel
from burnish_miprov2 import MIPROv2, MIPROv2Report
from burnish_programs import Module, Predict

BASE = "Answer the question."
QUESTION = re.compile(r"\bQ(\d)-(\d\d)\b")


def rows(first: int, each: int = 3, kinds: int = 4) -> list[dict[str, str]]:
    """Rows of each kind, numbered from `first` on."""
    return [{"q": f"Q{k}-{n}", "a": f"A{k}-{n}"} for n in range(first, first + each) for k in range(kinds)]


TRAIN, VAL = rows(10), rows(50)


def solve(request: abc.LMRequest) -> str:
    """Answer right for kind 0, for kinds with a cue in the instruction, and for kinds with a right demo."""
    prompt = "\n".join(message.content for message in request.messages)
    *shown, (kind, number) = QUESTION.findall(prompt)
    demos = [k for k, n in shown if f"A{k}-{n}" in prompt]
    right = kind == "0" or f"[cue {kind}]" in prompt or kind in demos
    return f"a: A{kind}-{number}" if right else "a: unknown"


def outputs(request: abc.LMRequest) -> tuple[str, ...]:
    """Say what a request asks for."""
    assert request.layout is not None
    return tuple(request.layout.outputs)


def propose(request: abc.LMRequest) -> str:
    """Write an instruction with one cue, another one for each sample; describe what is to be described."""
    (wanted,) = outputs(request)
    return f"{wanted}: {BASE} [cue {1 + request.sample % 3}]" if wanted == "instruction" else f"{wanted}: questions"


class Two(Module):
    """Two predictors, the second of which sees what the first made."""

    def __init__(self) -> None:
        self.draft = Predict("q -> draft", BASE)
        self.answer = Predict("q, draft -> a", BASE)

    async def forward(self, *, q: str) -> Any:
        return await self.answer(q=q, draft=(await self.draft(q=q)).draft)


def model(reply: Callable[[abc.LMRequest], Any] = solve, name: str = "task") -> ScriptedModel:
    return ScriptedModel(reply, name=name, limits=abc.ModelLimits(key=name, retries=0))


def tune(
    strategy: MIPROv2 | None = None,
    *,
    task: Any = None,
    proposer: Any = None,
    program: Any = None,
    directory: Path | None = None,
    **options: Any,
) -> Result:
    """Run MIPROv2 on the task."""
    given: dict[str, Any] = {"trainset": TRAIN, "valset": VAL, "metric": "exact_match", "budget": Budget(), **options}
    models = {"task": task or model(), "proposer": proposer or model(propose, "proposer")}
    return burnish.optimize(
        program or Predict("q -> a", BASE), strategy=strategy or MIPROv2(), models=models, run_dir=directory, **given
    )


SMALL = MIPROv2(
    auto=None, num_candidates=4, num_trials=6, max_bootstrapped_demos=2, max_labeled_demos=2, minibatch_size=6
)
ZERO = MIPROv2(max_bootstrapped_demos=0, max_labeled_demos=0, num_candidates=4)


@cache
def small() -> Result:
    """Give the result of a small search: one for all tests that only look at it."""
    return tune(SMALL)


def report_of(result: Result) -> MIPROv2Report:
    (report,) = result.reports
    assert isinstance(report, MIPROv2Report)
    return report


def prompts(requests: Sequence[abc.LMRequest]) -> list[tuple[int, str]]:
    """Give what a model was asked, and as which sample."""
    return [(request.sample, "\n".join(message.content for message in request.messages)) for request in requests]


def inputs(request: abc.LMRequest) -> Mapping[str, str]:
    """Give the last turn's lines by label."""
    lines = request.messages[-1].content.split("\n")
    return dict(line.split(": ", 1) for line in lines if ": " in line)
