"""A process that measures: a line of JSON in, `{"work": name, **arguments}`; a line out, what was measured.

Nothing but the standard library, since it runs in the peers' environment too.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

Measured = dict[str, float]
Work = Callable[..., Measured]


def serve(works: Mapping[str, Work]) -> None:
    """Measure what is asked for until the input ends. What the measured code prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        arguments = json.loads(line)
        measured = works[arguments.pop("work")](**arguments)
        answers.write(json.dumps(measured) + "\n")
        answers.flush()


def cpu_us(call: Callable[[], Any], times: int, rounds: int = 5) -> float:
    """Give the least CPU time of one call, in microseconds: of `rounds` loops, after one that is not counted."""
    best = float("inf")
    for number in range(rounds + 1):
        began = time.process_time()
        for _ in range(times):
            call()
        best = min(best, time.process_time() - began) if number else best
    return best / times * 1e6


def resident_mb() -> float:
    """Give the process's resident memory in megabytes; 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except OSError:
        return 0.0
