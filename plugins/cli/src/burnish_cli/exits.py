"""Exit codes, and errors as one plain text on stderr."""

from __future__ import annotations

import enum
import sys
import traceback
from collections.abc import Iterator

from burnish_cli import text


class Exit(enum.IntEnum):
    """What the exit code says."""

    FINISHED = 0
    NO_IMPROVEMENT = 1
    """Only with `--require-improvement`."""
    WRONG_INPUT = 2
    """Nothing was spent."""
    STOPPED = 3
    """Or every rollout failed, or the output is lost.

    What was paid for is kept: `burnish resume` goes on without paying it twice.
    """
    BUDGET_REFUSED = 4
    """The budget does not cover what was asked; nothing was spent."""
    INTERNAL = 70
    """A fault of burnish itself, or an exception that a plugin should not raise."""
    INTERRUPTED = 130
    """Before the run began."""


def report_error(error: BaseException) -> Exit:
    """Write an error to stderr and give the exit code that it means."""
    code = _code(error)
    if code is Exit.INTERNAL:
        for line in "".join(traceback.format_exception(error)).splitlines():
            text.write_line(sys.stderr, text.safe(line))
        _say("internal error; please report it with the lines above")
    else:
        _say("\n".join([str(error), *_kept(error)]))
    return code


def _spent(error: BaseException) -> bool:
    """Whether a run was under way that had paid for something, whoever's fault its end is."""
    spend = getattr(getattr(error, "result", None), "spend", None)
    return spend is not None and (spend.metric_calls > 0 or spend.requests > 0)


def _kept(error: BaseException) -> Iterator[str]:
    """Say where the best is that a run under way had found."""
    run_dir = getattr(getattr(error, "result", None), "run_dir", None)
    if run_dir is not None and _spent(error):
        from burnish.errors import MetricError
        from burnish_cli.words import AGAIN, next_step

        # another metric makes another run, to which the cache gives the outputs that this one left unscored
        step = f"mend the metric and {AGAIN}" if isinstance(error, MetricError) else next_step(run_dir)
        yield f"what was found is in {run_dir}; {step}"


def _code(error: BaseException) -> Exit:
    from burnish import errors

    if _spent(error):
        return Exit.STOPPED
    if isinstance(error, (errors.BudgetRefusedError, errors.BudgetExceededError)):
        return Exit.BUDGET_REFUSED
    if isinstance(error, (errors.UsageError, errors.PluginError, errors.StoreError)):
        return Exit.WRONG_INPUT
    return Exit.STOPPED if isinstance(error, (errors.EvaluationError, errors.ReplayDivergedError)) else Exit.INTERNAL


def report_lost(why: str, code: int) -> Exit:
    """Say that the output did not get out, and give the exit code in place of that of a command that went well."""
    _say(f"{why}; `burnish show` with the run's directory prints a result again")
    return Exit(code or Exit.STOPPED)


def usage_error(message: str) -> Exit:
    """Write what is wrong with the command line."""
    _say(message)
    return Exit.WRONG_INPUT


def _say(message: str) -> None:
    first, *rest = text.safe(message, lines=True).splitlines() or [""]
    text.write_line(sys.stderr, f"burnish: error: {first}")
    for line in rest:
        text.write_line(sys.stderr, f"  {line}")
