"""The commands that go on from a run: `resume` in its own directory, `fork` in a new one on its answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from burnish import STORE_FILE, Resume
from burnish.errors import UsageError
from burnish_cli import plan as plans
from burnish_cli.exits import Exit
from burnish_cli.job import prepare
from burnish_cli.kept import read_kept
from burnish_cli.structure import load_config
from burnish_cli.text import safe
from burnish_cli.winner import directory_of
from burnish_cli.work import Given, Output, carry_out, directory_for


def resume_run(
    run: Path, output: Output, how: Resume, *, caps: Mapping[str, Any], concurrency: int | None = None
) -> Exit:
    """Go on with a run; caps and concurrency that are given take the place of its own, for later resumes too.

    Raises `UsageError` where there is nothing to go on with, `ResumeRefusedError` where it is another run by now.
    """
    run_dir = directory_of(run)
    kept = read_kept(run_dir)
    config = attrs.evolve(kept.config, budget=attrs.evolve(kept.config.budget, **caps))
    if concurrency is not None:
        if concurrency < 1:
            raise UsageError(f"--concurrency {concurrency}: at least one rollout runs at once")
        config = attrs.evolve(config, concurrency=concurrency)
    with output.kept_clean():
        strategies = None if kept.given is None else (Given(kept.given),)
        job = prepare(config, file=kept.file, run_dir=run_dir, strategies=strategies)
        job = attrs.evolve(job, command=kept.command, given=kept.given, resume=how)
        return carry_out(job, output, told=[f"going on with {safe(str(run_dir))}"])


def fork_run(run: Path, output: Output, *, name: str | None, config: Path | None, seed: int | None) -> Exit:
    """Begin a new run on the answers of an old one, under its configuration or another.

    Raises `UsageError` where the old one holds no answers.
    """
    old = directory_of(run)
    if not (old / STORE_FILE).is_file():
        raise UsageError(f"{old} holds no answers: there is no {STORE_FILE} in it; name a directory in `runs`")
    if config is None:
        kept = read_kept(old)
        if kept.given is not None or kept.command == "evaluate":
            raise UsageError(f"{old} is an evaluation, whose rows are always scored fresh; `burnish evaluate` again")
        new, file = kept.config, kept.file
    else:
        new, file = load_config(config), str(config)
    if seed is not None:
        new = attrs.evolve(new, seed=seed)
    with output.kept_clean(), directory_for(new, output, name) as run_dir:
        job = prepare(new, file=file, run_dir=run_dir)
        job = attrs.evolve(job, answers=old)
        return carry_out(job, output, told=[*plans.in_words(job, plans.make_plan(job)), f"answers   {safe(str(old))}"])
