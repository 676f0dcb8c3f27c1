"""The command line: what may be given; each command's work is imported when it runs, so that `--help` is quick."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter

from burnish_cli.exits import Exit, report_error, usage_error

Json = Annotated[bool, Parameter(name="--json")]

app = App(
    name="burnish",
    help="Tune the texts of an LM program against a metric.",
    help_format="plaintext",
    version_flags=["--version"],
    version=lambda: _version(),
    default_parameter=Parameter(negative=()),
)


def run_command(arguments: Sequence[str] | None = None) -> int:
    """Parse and run one command line; errors go to stderr, and the exit code says whose they are."""
    try:
        tokens = sys.argv[1:] if arguments is None else list(arguments)
        code = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError as error:
        return usage_error(f"{error} See `burnish --help`.")
    except BrokenPipeError:
        # The reader has gone (`burnish plugins | head`): no traceback at the interpreter's last flush either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FINISHED
    except Exception as error:
        return report_error(error)
    return Exit.FINISHED if code is None else int(code)


def _version() -> str:
    from importlib.metadata import version

    return version("burnish-cli")


@app.command
def show(run: Path, *, json_: Json = False) -> int:
    """Show what a run came to.

    Parameters
    ----------
    run
        The run's directory, or its `result.json`.
    json_
        Print the result as one JSON object.
    """
    from burnish_cli.commands import show_run

    return show_run(run, as_json=json_)


@app.command
def plugins(*, json_: Json = False) -> int:
    """List the components that are installed; nothing is imported for it.

    Parameters
    ----------
    json_
        Print the list as one JSON object.
    """
    from burnish_cli.commands import list_plugins

    return list_plugins(as_json=json_)


@app.command
def doctor(*, json_: Json = False) -> int:
    """Import every installed component and say which are broken, clash or speak another API.

    Parameters
    ----------
    json_
        Print the findings as one JSON object.
    """
    from burnish_cli.commands import check_plugins

    return check_plugins(as_json=json_)
