"""Wall time of 256 rollouts of 20 ms at 16 in flight, against 16 bare trio tasks that loop the same sleep.

    uv run --group test python benchmarks/fanout.py

Both run in one process, alternating; medians of five. The bare tasks are the floor: they do nothing but sleep.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import trio

import burnish

ROWS, SLOTS, SECONDS, ROUNDS = 256, 16, 0.020, 5


async def floor() -> float:
    """Loop the sleep in bare tasks, without any bookkeeping."""

    async def loop() -> None:
        for _ in range(ROWS // SLOTS):
            await trio.sleep(SECONDS)

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for _ in range(SLOTS):
            nursery.start_soon(loop)
    return time.perf_counter() - began


async def program(question: str) -> dict[str, str]:
    """Answer after the sleep."""
    await trio.sleep(SECONDS)
    return {"answer": question}


@burnish.inline
def metric(example: Any, prediction: Any) -> float:
    """Score by equality."""
    return float(example["question"] == prediction["answer"])


async def engine() -> float:
    """Evaluate the rows with the engine."""
    rows = [{"question": f"q{i}"} for i in range(ROWS)]
    evaluator = burnish.EvalEngine(rows, metric, burnish.EngineConfig(concurrency=SLOTS))
    index = evaluator.register(burnish.Candidate())
    began = time.perf_counter()
    await evaluator.evaluate(program, index)
    return time.perf_counter() - began


async def main() -> None:
    """Run both, alternating, and print the ratio of the medians."""
    floors, engines = [], []
    for _ in range(ROUNDS):
        floors.append(await floor())
        engines.append(await engine())
    bare, ours = statistics.median(floors), statistics.median(engines)
    work = f"{ROWS} x {SECONDS * 1000:.0f} ms at {SLOTS}"
    print(f"{work}: bare tasks {bare:.4f} s, engine {ours:.4f} s, ratio {ours / bare:.3f}")


if __name__ == "__main__":
    trio.run(main)
