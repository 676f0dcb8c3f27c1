"""Measure burnish beside DSPy and gepa, and print a table in Markdown; see `benchmarks/README.md`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PEERS = ("dspy>=3,<4", "gepa>=0.1,<1")
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

Row = tuple[str, str, str, str, bool | None]
"""Work, burnish, peers, what is to be reached, and whether it is; None where there is nothing to reach."""


def peers_python(directory: Path) -> Path:
    """Make the peers' environment, or bring it up to date, and give its interpreter."""
    python = directory / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    uv = shutil.which("uv")
    if uv is None:
        raise SystemExit("the peers' environment is made by uv: install it, or run with --no-peers")
    if not python.exists():
        subprocess.run([uv, "venv", "--no-project", "--quiet", "--python", sys.executable, str(directory)], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--upgrade", "--python", str(python), *PEERS], check=True)
    return python


class Worker:
    """A process that measures; `fresh` work gets one of its own."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[str] | None = None

    def _start(self) -> subprocess.Popen[str]:
        quiet = {**os.environ, "PYTHONWARNINGS": "ignore", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        pipe = subprocess.PIPE
        return subprocess.Popen(
            self._command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, cwd=ROOT, env=quiet
        )

    def __call__(self, work: str, *, fresh: bool = False, **arguments: Any) -> dict[str, float]:
        """Have it measure something."""
        if fresh:
            self.close()
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"work": work, **arguments}) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            self._process = None
            raise SystemExit(f"{' '.join(self._command)} failed at {work} {arguments}")
        measured: dict[str, float] = json.loads(answer)
        return measured

    def close(self) -> None:
        """End the process."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(30)
            self._process = None


class Table:
    """Measures rows, alternating, and judges medians."""

    def __init__(self, ours: Worker, peers: Worker | None, rounds: int) -> None:
        self._ours, self._peers, self._rounds = ours, peers, rounds

    def medians(
        self, rounds: int | None = None, /, **works: tuple[bool, dict[str, Any]]
    ) -> dict[str, dict[str, float]]:
        """Measure works in turn, round by round; `(True, arguments)` is a peer's. Gives the medians by name."""
        taken: dict[str, list[dict[str, float]]] = {name: [] for name in works}
        for _ in range(rounds or self._rounds):
            for name, (peer, arguments) in works.items():
                worker = self._peers if peer else self._ours
                if worker is not None:
                    taken[name].append(worker(**arguments))
        return {
            name: {key: statistics.median(one[key] for one in found) for key in found[0]}
            for name, found in taken.items()
            if found
        }


def ours(work: str, **arguments: Any) -> tuple[bool, dict[str, Any]]:
    """Name a work of burnish's."""
    return False, {"work": work, **arguments}


def theirs(work: str, **arguments: Any) -> tuple[bool, dict[str, Any]]:
    """Name a work of the peers'."""
    return True, {"work": work, **arguments}


def _ratio(value: float, other: float | None) -> str:
    return "-" if other is None else f"{value / other:.2f}"


def short_rows(table: Table, size: argparse.Namespace) -> Iterator[Row]:
    """256 rollouts of 20 ms at 16 in flight."""
    work = {"count": 256, "slots": 16, "seconds": 0.020}
    found = table.medians(
        floor=ours("floor", **work),
        us=ours("evaluate", **work),
        bare=theirs("evaluate", **work),
        predict=theirs("evaluate", **work, kind="predict"),
    )
    us, floor = found["us"]["wall"], found["floor"]["wall"]
    name = "256 x 20 ms at 16"
    reach = f"ratio {us / floor:.2f} <= 1.08"
    yield f"{name}, bare trio tasks", f"{us:.3f} s", f"{floor:.3f} s", reach, us <= 1.08 * floor
    if "predict" in found:
        bare, predict = found["bare"]["wall"], found["predict"]["wall"]
        yield f"{name}, DSPy bare", f"{us:.3f} s", f"{bare:.3f} s", f"ratio {us / bare:.2f}", None
        reach = f"ratio {us / predict:.2f} <= 0.95"
        yield f"{name}, DSPy with Predict", f"{us:.3f} s", f"{predict:.3f} s", reach, us <= 0.95 * predict


def long_rows(table: Table, size: argparse.Namespace) -> Iterator[Row]:
    """Many rollouts of 50 ms at 64 and at 256 in flight, in a fresh process: its memory is looked at, too."""
    for slots, most in ((64, 1.10), (256, 1.35)):
        work = {"count": size.rows, "slots": slots, "seconds": 0.050}
        found = table.medians(us=ours("evaluate", fresh=True, **work), bare=theirs("evaluate", **work))
        us, ideal = found["us"], -(-size.rows // slots) * 0.050
        peer = f"{found['bare']['wall']:.2f} s" if "bare" in found else "-"
        name = f"{size.rows:,} x 50 ms at {slots}"
        reach = f"{us['wall'] / ideal:.2f} of ideal {ideal:.2f} s <= {most}"
        yield f"{name}, DSPy bare", f"{us['wall']:.2f} s", peer, reach, us["wall"] <= most * ideal
        if us["grown"]:
            yield f"{name}, memory", f"+{us['grown']:.0f} MB", "-", "<= +30 MB", us["grown"] <= 30


def rate_rows(table: Table, size: argparse.Namespace) -> Iterator[Row]:
    """Rollouts that take no time: what the bookkeeping costs."""
    for kind in ("bare", "predict"):
        work = {"count": 2000, "slots": 16, "kind": kind}
        found = table.medians(us=ours("evaluate", **work), peer=theirs("evaluate", **work))
        us = 2000 / found["us"]["wall"]
        peer = 2000 / found["peer"]["wall"] if "peer" in found else None
        reach = f"{_ratio(us, peer)} times >= 4"
        shown = "-" if peer is None else f"{peer:,.0f}/s"
        reached = None if peer is None else us >= 4 * peer
        yield f"2,000 rollouts of no time, {kind}", f"{us:,.0f}/s", shown, reach, reached
    rate = table.medians(us=ours("stored", count=2000))["us"]["rate"]
    yield "the same bare, with a run store", f"{rate:,.0f}/s", "-", ">= 6,000/s", rate >= 6000


def call_rows(table: Table, size: argparse.Namespace) -> Iterator[Row]:
    """One captured Predict call, without demos and with 64."""
    found = table.medians(
        us0=ours("captured", demos=0),
        us64=ours("captured", demos=64),
        peer0=theirs("captured", demos=0),
        peer64=theirs("captured", demos=64),
    )
    for n in (0, 64):
        us, peer = found[f"us{n}"]["us"], found.get(f"peer{n}", {}).get("us")
        shown = "-" if peer is None else f"{peer:,.0f} us"
        reached = None if peer is None else us <= peer / 10
        reach = f"ratio {_ratio(us, peer)} <= 0.10"
        yield f"a captured Predict call, {n} demos, CPU", f"{us:.0f} us", shown, reach, reached
    few, many = found["us0"]["us"], found["us64"]["us"]
    reach = f"ratio {many / few:.2f} <= 1.10"
    yield "64 demos beside none, CPU", f"{many:.0f} and {few:.0f} us", "-", reach, many <= 1.1 * few


def served_rows(table: Table, size: argparse.Namespace) -> Iterator[Row]:
    """A second evaluation, from memory and from a SQLite file."""
    for where, least in (("memory", 100_000), ("sqlite", 20_000)):
        rate = table.medians(us=ours("served", where=where))["us"]["rate"]
        yield f"served from {where}", f"{rate:,.0f} pairs/s", "-", f">= {least:,}/s", rate >= least


def store_rows(table: Table, size: argparse.Namespace) -> Iterator[Row]:
    """What the run store takes beside the same rollouts without it, and a run that begins again."""
    bytes_first: float | None = None
    for count in (n for n in (1000, 10_000, 100_000) if n <= size.rollouts):
        last = count == size.rollouts or count == 100_000
        work = ours("stored", count=count, again=last, fresh=True)
        found = table.medians(size.rounds if count <= 1000 else 1, us=work)["us"]
        name = f"run store, {count:,} rollouts"
        yield f"{name}, time", f"{found['wall_us']:.0f} us a rollout", "-", "<= 150 us", found["wall_us"] <= 150
        bytes_first = bytes_first or found["bytes"]
        linear = found["bytes"] <= 1.1 * bytes_first
        yield f"{name}, size", f"{found['bytes']:.0f} bytes a rollout", "-", "linear", linear
        if last:
            paid = found["extra_calls"]
            shown = f"{found['resume_wall']:.1f} s, {paid:.0f} calls paid"
            fits = found["resume_wall"] <= 10 * count / 100_000 and paid == 0
            yield f"begin again after {count:,} rollouts", shown, "-", f"<= {10 * count / 100_000:g} s, 0 calls", fits


def frontier_rows(table: Table, size: argparse.Namespace) -> Iterator[Row]:
    """An accepted candidate of 500 binary rows: frontier and choice."""
    found = table.medians(
        us10=ours("frontier", candidates=10),
        us500=ours("frontier", candidates=500),
        peer10=theirs("frontier", candidates=10),
        peer500=theirs("frontier", candidates=500),
    )
    for n in (10, 500):
        us, peer = found[f"us{n}"]["ms"], found.get(f"peer{n}", {}).get("ms")
        shown = "-" if peer is None else f"{peer:.1f} ms"
        yield f"frontier, {n} candidates x 500 rows, CPU", f"{us:.2f} ms", shown, "<= 1 ms", us <= 1
    growth = found["us500"]["ms"] / found["us10"]["ms"]
    yield "frontier, growth from 10 to 500", f"{growth:.2f}", "-", "<= 2", growth <= 2
    if "peer500" in found:
        few, many = found["peer10"], found["peer500"]
        saves = f"{few['save_ms']:.0f} and {many['save_ms']:.0f} ms, {many['save_bytes'] / 1e6:.1f} MB each"
        yield "gepa's save at 10 and 500 candidates", "-", saves, "-", None


def iteration_rows(table: Table, size: argparse.Namespace) -> Iterator[Row]:
    """1 + 4 + 4 + 4 calls of 80 ms on 4 slots."""
    found = table.medians(
        us=ours("iteration"), batched=theirs("iteration"), single=theirs("iteration", parallel=False)
    )
    us, ideal = found["us"], 0.320
    peer = "-"
    if "batched" in found:
        peer = f"{found['batched']['wall']:.3f} s batched, {found['single']['wall']:.3f} s one by one"
    fits = us["wall"] <= 1.04 * ideal and us["calls"] == 13
    reach = f"{us['wall'] / ideal:.3f} of ideal {ideal} s <= 1.04, 13 calls"
    yield "1 + 4 + 4 + 4 calls of 80 ms on 4 slots", f"{us['wall']:.3f} s, {us['calls']:.0f} calls", peer, reach, fits


PARTS: dict[str, Callable[[Table, argparse.Namespace], Iterator[Row]]] = {
    "short": short_rows,
    "long": long_rows,
    "rate": rate_rows,
    "call": call_rows,
    "served": served_rows,
    "store": store_rows,
    "frontier": frontier_rows,
    "iteration": iteration_rows,
}


def _arguments() -> argparse.Namespace:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    parser = argparse.ArgumentParser(prog="python -m benchmarks.table", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}; all without")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, of which the medians count (5)")
    parser.add_argument("--rows", type=int, default=10_000, help="rollouts of the part `long` (10000)")
    parser.add_argument("--rollouts", type=int, default=100_000, help="most rollouts of the part `store` (100000)")
    parser.add_argument("--peers-env", type=Path, default=cache / "burnish-benchmarks", help="the peers' environment")
    parser.add_argument("--no-peers", action="store_true", help="measure burnish alone")
    given = parser.parse_args()
    unknown = set(given.parts) - set(PARTS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    return given


@contextmanager
def _workers(given: argparse.Namespace) -> Iterator[tuple[Worker, Worker | None]]:
    mine = Worker([sys.executable, "-m", "benchmarks.table.ours"])
    peers = None if given.no_peers else Worker([str(peers_python(given.peers_env)), str(HERE / "peers.py")])
    try:
        yield mine, peers
    finally:
        for worker in (mine, peers):
            if worker is not None:
                worker.close()


def main(show: Callable[[str], None] = lambda line: print(line, flush=True)) -> int:
    """Print the table row by row; ends non-zero where something is not reached."""
    given = _arguments()
    missed = []
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    show(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load} before; {given.rounds} rounds\n")
    show("| work | burnish | peer | to reach | reached |\n|---|---|---|---|---|")
    with _workers(given) as (mine, peers):
        table = Table(mine, peers, given.rounds)
        for part in given.parts or PARTS:
            for name, us, peer, reach, reached in PARTS[part](table, given):
                word = "-" if reached is None else "yes" if reached else "**no**"
                show(f"| {name} | {us} | {peer} | {reach} | {word} |")
                missed += [name] if reached is False else []
    show(f"\nNot reached: {'; '.join(missed)}." if missed else "\nAll that was to be reached is.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
