"""A directory with a configuration, and commands that run there: in this process or in one of their own."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from burnish._model.events import Event
from burnish._runtime.run_store import read_events

CONFIG = """
seed = 1
concurrency = {concurrency}
[data]
path = "rows.jsonl"
inputs = ["q"]
labels = ["a"]
train = {train}
val = {val}
test = {test}
[program]
{program}
[models.task]
{model}
[metric]
use = "{metric}"
[[strategy]]
{strategy}
[budget]
{budget}
"""
DEFAULTS: Mapping[str, Any] = {
    "concurrency": 8,
    "train": 10,
    "val": 20,
    "test": 0,
    "program": 'signature = "q -> a"',
    "model": 'use = "crash_parts:logged"',
    "metric": "exact_match",
    "candidates": 3,
    "budget": "max_metric_calls = 600",
}
COMMAND = "import sys; from burnish_cli import main; sys.exit(main())"


@attrs.frozen
class Place:
    """A directory to run in. `configure` writes its files; every option has a default."""

    path: Path

    def configure(self, rows: Sequence[Mapping[str, Any]] | None = None, more: str = "", **options: Any) -> None:
        values = {**DEFAULTS, **options}
        searched = f'use = "bootstrap-random"\nnum_candidates = {values["candidates"]}'
        text = CONFIG.format_map({"strategy": searched, **values}) + more
        (self.path / "burnish.toml").write_text(text, encoding="utf-8")
        lines = rows or [{"q": f"say x{i}", "a": f"x{i}"} for i in range(80)]
        (self.path / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        shutil.copy(Path(__file__).with_name("crash_parts.py"), self.path)

    def start(
        self,
        *arguments: str,
        command: str = "run",
        calls: str = "calls.log",
        prelude: str = "",
        redirect: str = "",
        **env: str,
    ) -> subprocess.Popen[str]:
        """Start a command in a process of its own; `redirect` is what a shell is to do with its streams."""
        line = [sys.executable, "-c", prelude + COMMAND, command, *arguments]
        return subprocess.Popen(
            ["sh", "-c", f"exec {shlex.join(line)} {redirect}"] if redirect else line,
            cwd=self.path,
            env={**os.environ, "CRASH_CALLS": calls, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **options: str) -> tuple[int, str, str]:
        """Run it to its end: exit code, stdout, stderr."""
        process = self.start(*arguments, **options)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def log(self, calls: str = "calls.log") -> list[str]:
        path = self.path / calls
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def answered(self, calls: str = "calls.log") -> int:
        """How many calls the model has answered."""
        return sum(line.startswith("answered") for line in self.log(calls))

    def asked(self, calls: str = "calls.log") -> int:
        """How many calls the model has got."""
        return sum(line.startswith("asked") for line in self.log(calls))

    def wait_answered(self, count: int, process: subprocess.Popen[str], calls: str = "calls.log") -> None:
        """Wait until so many calls were answered in a process."""
        deadline = time.monotonic() + 30
        while self.answered(calls) < count:
            assert process.poll() is None, "the run ended before the moment that was to be hit"
            assert time.monotonic() < deadline
            time.sleep(0.003)

    def run_dir(self, name: str = "burnish") -> Path:
        return self.path / "runs" / name

    def result(self, name: str = "burnish") -> dict[str, Any]:
        form: dict[str, Any] = json.loads((self.run_dir(name) / "result.json").read_text(encoding="utf-8"))
        return form

    def events(self, name: str = "burnish") -> list[Event]:
        return list(read_events(self.run_dir(name) / "run.db"))

    def cached(self) -> int:
        """How many rollouts the shared cache holds; checks the file too."""
        assert ["ok"] == integrity(self.path / "runs" / "cache.db")
        # four hashes of 16 digits: what has more behind them is a trace, kept apart
        return int(select(self.path / "runs" / "cache.db", "SELECT COUNT(*) FROM rollout WHERE LENGTH(key) = 67")[0])


def select(path: Path, statement: str) -> list[Any]:
    """Give the first column of what SQLite answers."""
    connection = sqlite3.connect(path)
    try:
        return [row[0] for row in connection.execute(statement)]
    finally:
        connection.close()


def integrity(path: Path) -> list[Any]:
    """Give what SQLite says of a file: `["ok"]`."""
    return select(path, "PRAGMA integrity_check")
