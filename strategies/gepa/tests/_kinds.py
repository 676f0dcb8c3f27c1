"""A task in small: questions of some kinds, each answered right where the instruction holds the cue of its kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import burnish as b
from burnish import abc
from burnish.testing import ScriptedModel
from burnish_gepa import GEPA, GEPAReport
from burnish_programs import Predict

BASE = "Answer the question."
LIMITS = abc.ModelLimits(key="kinds", retries=0, timeout=None)


def rows(first: int, each: int = 2, kinds: int = 4) -> list[dict[str, str]]:
    """Give rows of each kind, numbered from `first` on."""
    return [{"question": f"Q{k}-{n}", "answer": f"A{k}-{n}"} for n in range(first, first + each) for k in range(kinds)]


TRAIN, VAL = rows(10), rows(50)


def answer(request: abc.LMRequest) -> str:
    """Answer a question where its cue is there, or its kind is 0."""
    system, question = request.messages[0].content, request.messages[-1].content
    kind, number = re.findall(r"Q(\d)-(\d+)", question)[-1]
    return f"answer: A{kind}-{number}" if kind == "0" or f"[cue {kind}]" in system else "answer: unknown"


def improve(request: abc.LMRequest) -> str:
    """Add the first cue that feedback names as missing to the text that is shown."""
    prompt = request.messages[-1].content
    text = re.search(r"current_text: (.*?)\nexamples:", prompt, re.DOTALL)
    missing = re.findall(r"missing (\[cue \d\])", prompt)
    assert text is not None
    return f"new_text: {text[1].strip()} {missing[0] if missing else '[nothing]'}"


@b.inline
def metric(example: Mapping[str, str], prediction: Any, trace: Any = None) -> b.Eval:
    """Say which cue is missing."""
    right = prediction["answer"] == example["answer"]
    return b.Eval(float(right), "right" if right else f"missing [cue {example['question'][1]}]")


def program() -> Any:
    """Make the program under tuning."""
    return Predict("question -> answer", BASE, name="answer")


Reply = Callable[[abc.LMRequest], Any]


class Run:
    """One run: its result, its report and its models."""

    def __init__(self, strategy: Any = None, *, task: Reply = answer, proposer: Any = improve, **options: Any) -> None:
        self.task = ScriptedModel(task, name="task", limits=LIMITS)
        self.proposer = ScriptedModel(proposer, name="proposer", limits=LIMITS)
        given: dict[str, Any] = {
            "program": program(), "trainset": TRAIN, "valset": VAL, "metric": metric, "budget": b.Budget(),
            "concurrency": 4,
        }
        given.update(options)
        self.result = b.optimize(
            given.pop("program"), strategy=strategy or GEPA(max_metric_calls=100),
            models={"task": self.task, "proposer": self.proposer}, **given,
        )
        (report,) = self.result.reports
        assert isinstance(report, GEPAReport)
        self.report = report

    @property
    def text(self) -> str:
        """The winner's instruction."""
        overlay = self.result.candidate.overlays.get("answer")
        return BASE if overlay is None else overlay.instruction or ""

    @property
    def prompts(self) -> list[str]:
        """What the reflections were shown."""
        return [request.messages[-1].content for request in self.proposer.requests]
