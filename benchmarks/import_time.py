"""Time of `import burnish`, and of its first use, beside trio's own import in fresh processes.

    uv run --group test python benchmarks/import_time.py

Each round starts one process a case, in turn, so that what else the machine does hits all alike; medians over rounds.
`import burnish` defers everything to the first name that is asked for, so the honest figure is the second one: what a
program pays until it has an engine and a plugin manager. Trio, which burnish stands on, is subtracted from both.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

ROUNDS = 15
TARGET = 60.0
"""Milliseconds that `import burnish` may take beyond trio's import."""

CASES = {
    "python": "pass",
    "import trio": "import trio",
    "import burnish": "import burnish",
    "first use": "import burnish; burnish.EvalEngine; burnish.PluginManager",
}


def milliseconds(code: str) -> float:
    """Run code in a fresh process, start and end of the interpreter included."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return (time.perf_counter() - began) * 1000


def main() -> None:
    """Run all cases, alternating, and print medians and differences."""
    taken: dict[str, list[float]] = {name: [] for name in CASES}
    for code in CASES.values():
        milliseconds(code)  # byte code is written and files are in the page cache
    for _ in range(ROUNDS):
        for name, code in CASES.items():
            taken[name].append(milliseconds(code))
    medians = {name: statistics.median(values) for name, values in taken.items()}
    for name, value in medians.items():
        print(f"{name:16} {value:7.1f} ms   (least {min(taken[name]):.1f})")
    for name in ("import burnish", "first use"):
        print(f"{name} beyond trio: {medians[name] - medians['import trio']:+.1f} ms")
    over = medians["import burnish"] - medians["import trio"]
    print(f"target for `import burnish`: at most {TARGET:+.0f} ms: {'met' if over <= TARGET else 'MISSED'}")


if __name__ == "__main__":
    main()
