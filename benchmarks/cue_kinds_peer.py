"""One strategy of DSPy or gepa on *cue-kinds*: started by `cue_kinds.py` in an environment that has them."""

from __future__ import annotations

import json
import re
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cue_kinds

warnings.simplefilter("ignore", DeprecationWarning)  # of the interface for models below: its lines are ours


def dspy_model(meter: cue_kinds.Meter) -> Any:
    """Make the scripted model as one of DSPy: it answers each field that the last turn asks for, `n` times."""
    import dspy

    class CueLM(dspy.BaseLM):  # type: ignore[misc]
        def forward(self, prompt: str | None = None, messages: Any = None, **settings: Any) -> Any:
            turns = messages or [{"role": "user", "content": prompt}]
            text = "\n".join(turn["content"] for turn in turns)
            asked = turns[-1]["content"].partition("Respond with the corresponding output fields")[2]
            fields = [name for name in re.findall(r"\[\[ ## (\w+) ## \]\]", asked) if name != "completed"]
            time.sleep(meter.begin(text, (fields or ["instruction"])[0]))
            choices = [_choice(text, fields, number) for number in range(settings.get("n") or 1)]
            usage = {"prompt_tokens": len(text.split()), "completion_tokens": 1, "total_tokens": len(text.split()) + 1}
            return SimpleNamespace(choices=choices, usage=usage, model="cue-kinds")

    return CueLM(model="cue-kinds", temperature=0.0, max_tokens=1000, cache=False)


def _choice(text: str, fields: Sequence[str], number: int) -> Any:
    blocks = [f"[[ ## {name} ## ]]\n{cue_kinds.reply(text, name, number)}" for name in fields]
    content = "\n\n".join([*blocks, "[[ ## completed ## ]]"])
    return SimpleNamespace(message=SimpleNamespace(content=content), finish_reason="stop", logprobs=None)


def _dspy(make: Callable[[Any, Any], Callable[[Any, Any, Any], Any]], meter: cue_kinds.Meter) -> float:
    """Compile the program with one of DSPy's optimizers; gives its true score."""
    import dspy

    def metric(example: Any, prediction: Any, trace: Any = None) -> float:
        return cue_kinds.judge(example, prediction.answer)[0]

    lm = dspy_model(meter)
    dspy.configure(lm=lm)
    train, val = ([dspy.Example(**row).with_inputs("question") for row in rows] for rows in (
        cue_kinds.TRAIN, cue_kinds.VAL))
    student = dspy.Predict(dspy.Signature("question -> answer", cue_kinds.BASE))
    best = make(metric, lm)(student, train, val)
    return cue_kinds.true_score(best.signature.instructions, best.demos)


def copro(asked: Mapping[str, Any], meter: cue_kinds.Meter) -> float:
    """Run DSPy's COPRO on the train rows, as it does."""
    import dspy

    threads = {"num_threads": cue_kinds.SLOTS, "display_progress": True, "display_table": 0}

    def make(metric: Any, lm: Any) -> Any:
        optimizer = dspy.COPRO(prompt_model=lm, metric=metric, **asked["options"])
        return lambda student, train, val: optimizer.compile(student, trainset=train, eval_kwargs=threads)

    return _dspy(make, meter)


def mipro(asked: Mapping[str, Any], meter: cue_kinds.Meter) -> float:
    """Run DSPy's MIPROv2."""
    import dspy

    def make(metric: Any, lm: Any) -> Any:
        optimizer = dspy.MIPROv2(
            metric=metric, prompt_model=lm, task_model=lm, num_threads=cue_kinds.SLOTS, seed=9 + asked["seed"],
            **asked["options"],
        )
        return lambda student, train, val: optimizer.compile(student, trainset=train, valset=val)

    return _dspy(make, meter)


def random(asked: Mapping[str, Any], meter: cue_kinds.Meter) -> float:
    """Run DSPy's BootstrapFewShotWithRandomSearch."""
    import dspy

    def make(metric: Any, lm: Any) -> Any:
        optimizer = dspy.BootstrapFewShotWithRandomSearch(
            metric=metric, num_candidate_programs=asked["options"]["num_candidates"], num_threads=cue_kinds.SLOTS,
        )
        return lambda student, train, val: optimizer.compile(student, trainset=train, valset=val)

    return _dspy(make, meter)


class CueAdapter:
    """The scenario as gepa's adapter, with a pool of eight."""

    propose_new_texts = None

    def __init__(self, meter: cue_kinds.Meter) -> None:
        self.meter, self.pool = meter, ThreadPoolExecutor(cue_kinds.SLOTS)

    def evaluate(self, batch: Sequence[Any], candidate: Mapping[str, str], capture_traces: bool = False) -> Any:
        """Answer a batch, eight at once."""
        from gepa import EvaluationBatch

        def one(row: Mapping[str, str]) -> str:
            prompt = f"{candidate['answer']}\n{row['question']}"
            time.sleep(self.meter.begin(prompt, "answer"))
            return cue_kinds.reply(prompt, "answer")

        outputs = list(self.pool.map(one, batch))
        judged = [cue_kinds.judge(row, output) for row, output in zip(batch, outputs, strict=True)]
        traces = [{"row": row, "output": output, "feedback": told} for row, output, (_, told) in zip(
            batch, outputs, judged, strict=True)]
        return EvaluationBatch(
            outputs=outputs, scores=[score for score, _ in judged], trajectories=traces if capture_traces else None
        )

    def make_reflective_dataset(self, candidate: Any, evaluated: Any, components: Sequence[str]) -> Any:
        """Show inputs, outputs and feedback."""
        shown = [
            {"Inputs": trace["row"]["question"], "Generated Outputs": trace["output"], "Feedback": trace["feedback"]}
            for trace in evaluated.trajectories
        ]
        return dict.fromkeys(components, shown)


def gepa(asked: Mapping[str, Any], meter: cue_kinds.Meter) -> float:
    """Run gepa."""
    from gepa import optimize

    def reflect(prompt: Any) -> str:
        text = prompt if isinstance(prompt, str) else "\n".join(turn["content"] for turn in prompt)
        time.sleep(meter.begin(text, "instruction"))
        return f"```\n{cue_kinds.propose(text)}\n```"

    found = optimize(
        seed_candidate={"answer": cue_kinds.BASE}, trainset=cue_kinds.TRAIN, valset=cue_kinds.VAL,
        adapter=CueAdapter(meter), reflection_lm=reflect, max_metric_calls=asked["budget"], seed=asked["seed"],
        display_progress_bar=True, **asked["options"],
    )
    return cue_kinds.true_score(found.best_candidate["answer"], ())


def main(asked: Mapping[str, Any]) -> None:
    """Run what was asked for and write its figures."""
    meter = cue_kinds.Meter(stragglers=asked["stragglers"])
    began = time.perf_counter()
    score = {"copro": copro, "mipro": mipro, "random": random, "gepa": gepa}[asked["strategy"]](asked, meter)
    told = meter.told(score=score, seconds=time.perf_counter() - began)
    Path(asked["out"]).write_text(json.dumps(told), "utf-8")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
