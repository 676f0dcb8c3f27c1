"""A process that starts runs in children of its own, each from a warm start, so that many can be killed."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import trio

import burnish as b
from burnish import abc
from burnish.abc import LMRequest, LMResponse, Usage
from burnish_programs import Predict

ROWS = [{"q": f"say x{n}", "a": f"x{n}"} for n in range(85)]
SETS: Mapping[str, Any] = {"trainset": ROWS[:20], "valset": ROWS[20:50], "testset": ROWS[50:]}
CALLS, RESULT = "calls", "told.json"


class Appending:
    """Answers by content after a time that differs by request, and writes each call into a file, whoever makes it."""

    identity: Mapping[str, Any] = {"provider": "crash", "model": "appending"}
    limits = abc.ModelLimits(key="crash:appending", timeout=None, max_output_tokens=4)

    def __init__(self, path: Path, pace: float) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._pace = pace

    async def complete(self, request: LMRequest) -> LMResponse:
        number = int(hashlib.sha256(request.fingerprint.encode()).hexdigest(), 16)
        os.write(self._file, b"%d\n" % (number % 10**9))
        await trio.sleep(self._pace * (1 + number % 7))
        demos = sum(message.role == "assistant" for message in request.messages)
        word = request.messages[-1].content.split()[-1]
        right = number // 7 % 10 < 4 + demos % 4
        return LMResponse(text=f"a: {word if right else 'wrong'}", usage=Usage(input_tokens=9, output_tokens=2))


def run(
    path: Path,
    *,
    cached: bool = False,
    concurrency: int = 16,
    pace: float = 0.002,
    strategies: Sequence[tuple[str, Mapping[str, Any]]] = (("bootstrap-random", {"num_candidates": 4}),),
    most: int = 5000,
    rows: int = 100,
) -> b.Result:
    """Begin the run of a directory, or go on with it; `rows` bounds each of its sets, `most` its requests."""
    return b.optimize(
        Predict("q -> a"),
        metric="exact_match",
        strategy=[b.Use(name, **options) for name, options in strategies],
        budget=b.Budget(max_requests=most),
        cache=b.Use("sqlite", path=str(path / "cache.db")) if cached else None,
        models=Appending(path / CALLS, pace),
        concurrency=concurrency,
        run_dir=path / "run",
        resume=(path / "run" / "run.db").exists(),
        **{name: part[:rows] for name, part in SETS.items()},
    )


def told(result: b.Result) -> dict[str, Any]:
    """Give all of a result that depends on no time and on no kill."""
    assert result.test is not None
    return {
        "scores": [result.baseline, result.best, result.stop_reason],
        "winner": result.candidate.to_json(),
        "test": [list(result.test.baseline_scores), list(result.test.winner_scores)],
        "rollouts": result.spend.metric_calls,
        "reports": [
            [[e.origin, f"{e.candidate.stable_hash:016x}", e.scores] for e in report.candidates] + [list(report.notes)]
            for report in result.reports
        ],
        "warnings": list(result.warnings),
    }


def _arm(moment: tuple[str, int, bool]) -> None:
    """Have this process killed at the n-th call of a function of `os`, before or after what it does."""
    name, number, after = moment
    real: Callable[..., Any] = getattr(os, name)
    left = [number]

    def deadly(*args: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] == 0 and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        done = real(*args, **options)
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    setattr(os, name, deadly)


class Nursery:
    """Starts runs; leaving the block ends the process that they are children of."""

    def __init__(self, hash_seed: int = 0) -> None:
        self._variables = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}

    def __enter__(self) -> Nursery:
        self._server = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self._variables,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.communicate()

    def start(self, path: Path, **options: Any) -> int:
        """Start or go on with a run; gives the process's id."""
        assert self._server.stdin is not None
        path.mkdir(parents=True, exist_ok=True)
        self._server.stdin.write(json.dumps({"path": str(path), **options}) + "\n")
        self._server.stdin.flush()
        return int(self._answer())

    def wait(self) -> int:
        """Wait for its end; gives the exit code, negative for a signal."""
        return int(self._answer())

    def _answer(self) -> str:
        assert self._server.stdout is not None
        return self._server.stdout.readline()


def calls(path: Path) -> int:
    """How many calls the model has got."""
    return (path / CALLS).read_bytes().count(b"\n") if (path / CALLS).exists() else 0


def wait_calls(path: Path, count: int, alive: Callable[[], bool]) -> None:
    """Wait until the model has got so many calls, or nobody is there to make them."""
    while calls(path) < count and alive():
        time.sleep(0.002)


def _child(path: Path, moment: Any = None, **options: Any) -> None:
    if moment is not None:
        _arm(moment)
    result = run(path, **options)
    (path / RESULT).write_text(json.dumps(told(result)), encoding="utf-8")


def _serve() -> None:
    for line in sys.stdin:
        options = json.loads(line)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                _child(Path(options.pop("path")), **options)
                code = 0
            except BaseException as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            finally:
                os._exit(code)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    _serve()
