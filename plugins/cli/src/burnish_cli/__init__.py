"""The command `burnish`: tune a prompt or a program from a shell."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (None: the process's own) and give its exit code."""
    from burnish_cli.app import run_command

    return run_command(arguments)
