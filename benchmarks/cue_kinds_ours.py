"""One strategy of burnish on *cue-kinds*: started by `cue_kinds.py`, with what to run as JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import cue_kinds
import trio

import burnish
from burnish.abc import Json, LMRequest, LMResponse, ModelLimits, Usage
from burnish_programs import Predict


class CueModel:
    """The scripted model as a model of burnish: task and proposer alike."""

    def __init__(self, meter: cue_kinds.Meter) -> None:
        self.meter = meter
        self.limits = ModelLimits(key="cue-kinds", timeout=None)

    @property
    def identity(self) -> Mapping[str, Json]:
        return {"provider": "benchmarks", "model": "cue-kinds"}

    async def complete(self, request: LMRequest) -> LMResponse:
        """Answer each of the outputs that the request asks for."""
        prompt = "\n".join(message.content for message in request.messages)
        outputs = request.layout.outputs if request.layout else ("answer",)
        wanted = next(iter(outputs), "instruction")
        await trio.sleep(self.meter.begin(prompt, wanted, request.sample))
        text = "\n".join(f"{name}: {cue_kinds.reply(prompt, name, request.sample)}" for name in outputs)
        usage = Usage(input_tokens=len(prompt.split()), output_tokens=len(text.split()))
        return LMResponse(text=text, usage=usage, model="cue-kinds")


@burnish.inline
def metric(example: Any, prediction: Any) -> burnish.Eval:
    """Score an answer, with feedback."""
    score, feedback = cue_kinds.judge(example, prediction.answer)
    return burnish.Eval(score, feedback)


def program() -> Predict:
    """Make the program under tuning."""
    return Predict("question -> answer", cue_kinds.BASE, name="answer")


async def tuned(strategy: Any, *, budget: int | None, seed: int, meter: cue_kinds.Meter, **more: Any) -> burnish.Result:
    """Run a strategy on the scenario."""
    model = CueModel(meter)
    return await burnish.aoptimize(
        program(),
        trainset=cue_kinds.TRAIN,
        valset=cue_kinds.VAL,
        metric=metric,
        strategy=strategy,
        budget=burnish.Budget(max_metric_calls=budget) if budget else burnish.Budget.unlimited(),
        models={"task": model, "proposer": model},
        seed=seed,
        **{"concurrency": cue_kinds.SLOTS, **more},
    )


def score_of(result: burnish.Result) -> float:
    """Give the true validation score of a result's program."""
    state = result.program.get_state()
    demos = [{name: demo.get(name) for name in ("question", "answer")} for demo in state.demos or ()]
    return cue_kinds.true_score(state.instruction or cue_kinds.BASE, demos)


def main(asked: Mapping[str, Any]) -> None:
    """Run what was asked for and write its figures."""
    meter = cue_kinds.Meter(stragglers=asked["stragglers"])
    module, _, name = asked["strategy"].partition(":")
    strategy = getattr(import_module(module), name)(**asked["options"])

    async def timed() -> tuple[burnish.Result, float]:
        began = time.perf_counter()
        result = await tuned(strategy, budget=asked["budget"], seed=asked["seed"], meter=meter)
        return result, time.perf_counter() - began

    result, seconds = trio.run(timed)
    told = meter.told(score=score_of(result), seconds=seconds, stop=result.stop_reason)
    Path(asked["out"]).write_text(json.dumps(told), "utf-8")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
