"""*cue-kinds*: a task on which strategies can be compared call by call, ours beside DSPy's and gepa's.

    python benchmarks/cue_kinds.py                      # what is installed of ours, and the peers
    python benchmarks/cue_kinds.py --only gepa --seeds 11 --no-peers
    python benchmarks/cue_kinds.py --only gepa --stragglers

Eight kinds of question, 40 train and 40 validation rows, five a kind. The scripted model answers a row right where the
instruction holds the cue of its kind, or a right demo of that kind stands in the prompt, or the kind is 0: so 12.5 %
are right to begin with. Asked for an instruction it keeps the best one that it sees and adds exactly one cue: the first
that feedback in the prompt names as missing, else one picked by a hash of the prompt. Of instructions with as many cues
it takes the last: attempts are shown in ascending order of their scores. A call takes 20 ms, eight at once.

Every run is a process of its own, so that all it prints can be counted; calls are counted at the model. The peers run
in an environment that this command makes once, with `uv`, in the user's cache directory. Columns: `score` is that of
the program in the end, on all validation rows, by the rule above; `x floor` the seconds as a multiple of what the calls
take with eight in flight all the time; `pool` the share of eight that was in flight.

This module is the scenario and the command. It needs Python alone, as the peers' environment has no burnish.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KINDS, EACH, SECONDS, SLOTS = 8, 5, 0.020, 8
BASE = "Answer the question."
PEERS = ("dspy>=3.4,<3.5", "gepa>=0.1.4,<0.2", "optuna>=4")
"""What the peers' environment has."""

# --- rows and the rule --------------------------------------------------------------------------------------------


def rows(first: int) -> list[dict[str, str]]:
    """Give five rows of each kind, numbered from `first` on."""
    numbers = range(first, first + EACH)
    return [{"question": f"Q{k}-{n:02}", "answer": f"A{k}-{n:02}"} for n in numbers for k in range(KINDS)]


TRAIN, VAL = rows(10), rows(50)


def cue(kind: int) -> str:
    """Give the words that make the model answer a kind of question."""
    return f"[cue {kind}]"


def kind_of(question: str) -> int:
    """Give the kind of a question."""
    return int(question[1])


_QUESTION = re.compile(r"\bQ(\d)-(\d\d)\b")
_INSTRUCTION = re.compile(re.escape(BASE) + r"(?: \[cue \d\])*")
_CUE = re.compile(r"\[cue (\d)\]")
_MISSING = re.compile(r"missing: \[cue (\d)\]")


def solve(prompt: str) -> str:
    """Answer the last question of a prompt: right where it may be, by instruction, demos or kind."""
    *shown, (kind, number) = _QUESTION.findall(prompt)
    cues = _CUE.findall(prompt)
    demos = [k for k, n in shown if f"A{k}-{n}" in prompt]
    return f"A{kind}-{number}" if kind == "0" or kind in cues or kind in demos else "unknown"


def propose(prompt: str, sample: int = 0) -> str:
    """Give an instruction: the best that the prompt shows, and one cue more; `sample` is its number among equals."""
    seen = _INSTRUCTION.findall(prompt)
    best = max(reversed(seen), key=lambda text: len(set(_CUE.findall(text))), default=BASE)  # the last of equals
    lacking = [str(k) for k in range(KINDS) if str(k) not in _CUE.findall(best)]
    named = [k for k in _MISSING.findall(prompt) if k in lacking]
    if not lacking:
        return best
    digest = hashlib.sha256(f"{sample}:{prompt}".encode()).digest()
    kind = named[0] if named else lacking[int.from_bytes(digest[:4], "big") % len(lacking)]
    return f"{best} {cue(int(kind))}"


_PLAIN = re.compile(r"summary|descri|observ|reason|rationale|analysis|diagnos|prefix")


def reply(prompt: str, output: str, sample: int = 0) -> str:
    """Give what the model writes into the output of this name."""
    if output == "answer":
        return solve(prompt)
    return "Questions with a letter and two numbers." if _PLAIN.search(output) else propose(prompt, sample)


def judge(row: Mapping[str, str], answer: str) -> tuple[float, str]:
    """Score an answer, with the feedback that names the missing cue."""
    right = str(answer).strip() == row["answer"]
    return float(right), "right" if right else f"wrong; missing: {cue(kind_of(row['question']))}"


def true_score(instruction: str, demos: Iterable[Mapping[str, Any]]) -> float:
    """Give the share of the validation rows that a program with these texts gets right."""
    shown = "\n".join(f"{demo.get('question', '')}\n{demo.get('answer', '')}" for demo in demos)
    answers = [solve(f"{instruction}\n{shown}\n{row['question']}") for row in VAL]
    right = [judge(row, answer)[0] for row, answer in zip(VAL, answers, strict=True)]
    return sum(right) / len(right)


@dataclass
class Meter:
    """Counts calls at the model, whoever asks; safe under threads."""

    stragglers: bool = False
    """Take 80 ms, and of twenty calls one 1.2 s."""
    calls: int = 0
    proposals: int = 0
    busy: float = 0.0
    """Seconds of all calls together."""
    prompts: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, prompt: str, output: str, sample: int = 0) -> float:
        """Count one call; gives the seconds that it takes."""
        digest = hashlib.sha256(f"{sample}:{prompt}".encode()).digest()
        slow = digest[0] < 256 / 20
        seconds = SECONDS if not self.stragglers else 1.2 if slow else 0.080
        with self.lock:
            self.calls += 1
            self.proposals += output != "answer"
            self.busy += seconds
            self.prompts.add(f"{sample}:{prompt}")
        return seconds

    def told(self, *, score: float, seconds: float, stop: str = "") -> dict[str, Any]:
        """Give the figures of a run."""
        return {
            "score": score, "calls": self.calls, "unique": len(self.prompts), "proposals": self.proposals,
            "seconds": seconds, "pool": self.busy / SLOTS / seconds, "stop": stop,
        }


# --- the table ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One row of the table: a strategy with its options, the peer's name for it, and what is to be reached."""

    name: str
    strategy: str
    options: Mapping[str, Any]
    peer: str
    goal: str
    budget: int | None = None


_AUTO: Mapping[str, Any] = {"auto": "light"}
_BLIND = {**_AUTO, "max_bootstrapped_demos": 0, "max_labeled_demos": 0}
_MANY = {"num_candidates": 16, "stop_at_score": 1.0}
CASES: Sequence[Case] = (
    Case("COPRO 10 x 3", "burnish_copro:COPRO", {"breadth": 10, "depth": 3}, "copro",
         "50.0 %, <= 620 calls, <= 1.15 x floor"),
    Case("COPRO 4 x 8", "burnish_copro:COPRO", {"breadth": 4, "depth": 8}, "copro", "87.5 %, <= 580 calls"),
    Case("MIPROv2 light", "burnish_miprov2:MIPROv2", _AUTO, "mipro", "62.5 %, <= 360 calls"),
    Case("MIPROv2 light, zero-shot", "burnish_miprov2:MIPROv2", _BLIND, "mipro", "25.0 %, <= 262 calls"),
    Case("GEPA 400", "burnish_gepa:GEPA", {}, "gepa", "100 %, median of 11 <= 385 calls, <= 1.5 s", budget=400),
    Case("random search 16", "burnish_bootstrap:BootstrapRandomSearch", _MANY, "random", "100 %, <= 500 calls"),
)
HEAD = ("strategy", "by", "score", "calls", "unique", "proposals", "seconds", "x floor", "pool", "lines", "to reach")


def run(python: Path, side: str, case: Case, seed: int, stragglers: bool) -> dict[str, Any]:
    """Run one case in a process of its own; gives its figures and the lines it printed, or why there are none."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "figures.json"
        work = {"strategy": case.strategy if side == "ours" else case.peer, "options": dict(case.options),
                "budget": case.budget, "seed": seed, "stragglers": stragglers, "out": str(out)}
        script = Path(__file__).with_name(f"cue_kinds_{side}.py")
        done = subprocess.run(
            [str(python), str(script), json.dumps(work)], cwd=place, capture_output=True, text=True, timeout=300
        )
        printed = (done.stdout + done.stderr).replace("\r", "\n").splitlines()
        if done.returncode or not out.exists():
            return {"why": (printed or ["it said nothing"])[-1][:120]}
        return {**json.loads(out.read_text("utf-8")), "lines": len(printed)}


def cells(case: Case, side: str, found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Give one row of the table; figures of several seeds are medians."""
    yield from (case.name, side)
    good = [one for one in found if "why" not in one]
    if not good:
        yield found[0]["why"]
        return

    def median(name: str) -> float:
        return statistics.median(float(one[name]) for one in good)

    yield f"{median('score'):.1%}"
    yield from (f"{median(name):.0f}" for name in ("calls", "unique", "proposals"))
    yield f"{median('seconds'):.2f}"
    yield f"{1 / median('pool'):.2f}"
    yield f"{median('pool'):.0%}"
    yield f"{median('lines'):.0f}"
    yield case.goal if side == "ours" else ""


def peers() -> Path:
    """Give the Python of an environment with the peers, made where there is none yet."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "burnish-benchmarks"
    name = hashlib.sha256(" ".join(PEERS).encode()).hexdigest()[:12]
    python = cache / name / "bin" / "python"
    if not (cache / name / "ready").exists():
        subprocess.run(["uv", "venv", "-q", "--clear", "--python", "3.11", str(cache / name)], check=True)
        subprocess.run(["uv", "pip", "install", "-q", "--python", str(python), *PEERS], check=True)
        (cache / name / "ready").touch()
    return python


def main() -> None:
    """Run what was asked for and print the table."""
    parser = argparse.ArgumentParser(description="cue-kinds: burnish's strategies beside DSPy's and gepa's")
    parser.add_argument("--only", default="", help="part of the name of a case")
    parser.add_argument("--seeds", type=int, default=1, help="seeds from 0 on; figures are medians")
    parser.add_argument("--stragglers", action="store_true", help="80 ms a call, of twenty one 1.2 s")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--option", action="append", default=[], help="name=value for ours, on top of the case's")
    asked = parser.parse_args()
    more = {name: json.loads(value) for name, _, value in (one.partition("=") for one in asked.option)}
    sides = [("ours", Path(sys.executable))] + ([] if asked.no_peers else [("peer", peers())])
    _print(HEAD)
    _print("---" for _ in HEAD)
    for case in CASES:
        if asked.only.lower() not in case.name.lower():
            continue
        for side, python in sides:
            chosen = Case(**{**vars(case), "options": {**case.options, **more}}) if side == "ours" else case
            found = [run(python, side, chosen, seed, asked.stragglers) for seed in range(asked.seeds)]
            _print(cells(chosen, side, found))


def _print(cells: Iterable[str]) -> None:
    print("|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
