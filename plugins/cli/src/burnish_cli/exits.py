"""Exit codes, and errors as one plain text on stderr."""

from __future__ import annotations

import enum
import sys
import traceback

from burnish_cli import text


class Exit(enum.IntEnum):
    """What the exit code says."""

    FINISHED = 0
    NO_IMPROVEMENT = 1
    """Only with `--require-improvement`."""
    WRONG_INPUT = 2
    """Nothing was spent."""
    STOPPED = 3
    """What was paid for is kept; `burnish resume` goes on."""
    BUDGET_REFUSED = 4
    """The budget does not cover what was asked; nothing was spent."""
    INTERNAL = 70
    """A fault of burnish itself."""
    INTERRUPTED = 130
    """Before the run began."""


def report_error(error: BaseException) -> Exit:
    """Write an error to stderr and give the exit code that it means."""
    code = _code(error)
    if code is Exit.INTERNAL:
        traceback.print_exception(error, file=sys.stderr)
        _say("internal error; please report it with the lines above")
    else:
        _say(str(error))
    return code


def _code(error: BaseException) -> Exit:
    from burnish import errors

    if isinstance(error, (errors.BudgetRefusedError, errors.BudgetExceededError)):
        return Exit.BUDGET_REFUSED
    if isinstance(error, (errors.UsageError, errors.PluginError, errors.StoreError)):
        return Exit.WRONG_INPUT
    return Exit.STOPPED if isinstance(error, errors.EvaluationError) else Exit.INTERNAL


def usage_error(message: str) -> Exit:
    """Write what is wrong with the command line."""
    _say(message)
    return Exit.WRONG_INPUT


def _say(message: str) -> None:
    first, *rest = text.safe(message, lines=True).splitlines() or [""]
    text.write_line(sys.stderr, f"burnish: error: {first}")
    for line in rest:
        text.write_line(sys.stderr, f"  {line}")
