"""The commands that run a program: `run`, `plan`, `tune`, `evaluate`."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

import attrs

from burnish import BEST_FILE, Budget, Candidate, Engine, Plan, Report, check_overlay, load
from burnish.abc import Problem
from burnish.errors import UnknownParameterError, UsageError
from burnish_cli import plan as plans
from burnish_cli import words
from burnish_cli.config import Config
from burnish_cli.exits import Exit
from burnish_cli.infer import Wishes, infer
from burnish_cli.job import Job, named_dir, new_dir, next_dir, prepare
from burnish_cli.logs import logs_told
from burnish_cli.output import print_json, print_lines
from burnish_cli.result import ResultFile, to_json
from burnish_cli.runner import UnsavedError, execute
from burnish_cli.sample import take_sample
from burnish_cli.structure import load_config
from burnish_cli.text import safe, write_line
from burnish_cli.winner import candidate_in_words


@attrs.frozen(kw_only=True)
class Output:
    """What the command line says of the output and of the exit code."""

    as_json: bool = False
    require_improvement: bool = False
    plan_only: bool = False
    sample: int = 0
    """Rollouts of the program as it is that a plan may make to measure what they take."""
    stream: TextIO = attrs.field(factory=lambda: sys.stdout)
    """Where the result goes; progress goes to stderr."""

    @contextlib.contextmanager
    def kept_clean(self) -> Iterator[None]:
        """Send logged warnings to stderr, and with `--json` also what a program or a plugin prints."""
        with (
            logs_told(lambda line: write_line(sys.stderr, f"warning: {safe(line)}")),
            contextlib.redirect_stdout(sys.stderr) if self.as_json else contextlib.nullcontext(),
        ):
            yield


def run_file(path: Path, output: Output, *, seed: int | None = None, name: str | None = None) -> Exit:
    """Run a configuration file, or say what that would do."""
    config = load_config(path)
    config = attrs.evolve(config, seed=config.seed if seed is None else seed)
    with output.kept_clean(), directory_for(config, output, name) as run_dir:
        job = prepare(config, file=str(path), run_dir=run_dir)
        return carry_out(job, output)


def tune(wishes: Wishes, output: Output) -> Exit:
    """Infer a configuration, give it the budget that its plan needs where none is set, and run it."""
    config = infer(wishes)
    with output.kept_clean(), directory_for(config, output) as run_dir:
        job = prepare(config, file=None, run_dir=run_dir)
        if config.budget.is_unlimited:
            budget = Budget(max_metric_calls=plans.make_plan(job).rollouts)
            job = attrs.evolve(job, config=attrs.evolve(config, budget=budget))
        return carry_out(job, output)


def evaluate(path: Path, candidate: Path | None, output: Output) -> Exit:
    """Score the program as it is on the test rows, and a candidate beside it where one is given."""
    config = load_config(path)
    given = Candidate() if candidate is None else load(candidate).candidate
    if candidate is not None and not given.is_empty:
        found = os.path.relpath(candidate.resolve(), config.base_dir.resolve())
        config = attrs.evolve(config, data=attrs.evolve(config.data, unseen_by=found))
    name = f"{config.name}-evaluation"
    with output.kept_clean():
        run_dir = next_dir(config.base_dir, name)
        job = prepare(config, file=str(path), run_dir=run_dir, strategies=(Given(given),))
        if not job.splits.test:
            raise UsageError(f"{path}: `data.test` gives no rows, and an evaluation is one of the test rows")
        _check_given(candidate, given, job)
        with new_dir(config.base_dir, name) as run_dir:
            job = attrs.evolve(job, command="evaluate", given=given, run_dir=run_dir)
            return _execute(job, output, 2 * len(job.splits.test))


def _check_given(file: Path | None, given: Candidate, job: Job) -> None:
    """Refuse a candidate of another program before anything is made for it."""
    try:
        for name, overlay in given.overlays.items():
            if name not in job.parameters:
                raise UnknownParameterError(name, tuple(job.parameters))
            check_overlay(job.parameters[name], overlay)
    except UsageError as error:
        raise UsageError(f"{file} is of another program: {error}") from None


@contextlib.contextmanager
def directory_for(config: Config, output: Output, name: str | None = None) -> Iterator[Path]:
    """Give the run directory: the named one, else a new one; a plan makes none."""
    if name is not None:
        yield named_dir(config.base_dir, name)
    elif output.plan_only:
        yield next_dir(config.base_dir, str(config.name))
    else:
        with new_dir(config.base_dir, str(config.name)) as made:
            yield made


@attrs.frozen
class Given:
    """A strategy that searches nothing: its best is the candidate that it was given."""

    candidate: Candidate
    replay_version = 1

    async def compile(self, engine: Engine, problem: Problem) -> Report:
        """Check that the program can take the candidate. Raises usage errors where it cannot."""
        engine.register(self.candidate)
        return Report(strategy="given", best=self.candidate, seed=problem.seed)

    def plan(self, problem: Problem) -> Plan:
        """Say that it asks for nothing."""
        return Plan(rollouts=0)


def carry_out(job: Job, output: Output, *, told: Iterable[str] | None = None) -> Exit:
    """Run a job, or say what that would do; `told` comes first, in place of the plan."""
    plan = plans.make_plan(job)
    if output.plan_only and output.sample:
        plans.check(job, plan)  # what would be refused is not measured
    sample = take_sample(job, output.sample) if output.plan_only and output.sample else None
    lines = plans.in_words(job, plan, sample) if told is None else told
    if output.plan_only:
        if output.as_json:
            print_json(plans.to_json(job, plan, sample), output.stream)
        else:
            print_lines(lines, output.stream)
        plans.check(job, plan)
        return Exit.FINISHED
    print_lines(lines, sys.stderr)
    return _execute(job, output, plan.rollouts)


def _execute(job: Job, output: Output, rollouts: int | None) -> Exit:
    try:
        result = execute(job, stream=sys.stderr, rollouts=rollouts)
    except UnsavedError as error:
        _tell(error.summary, output)
        if not (job.run_dir / BEST_FILE).is_file():
            print_lines(candidate_in_words(error.candidate), sys.stderr)
        raise
    _tell(result, output)
    if not result.finished or result.all_failed:
        return Exit.STOPPED
    missed = output.require_improvement and result.outcome != "improved"
    return Exit.NO_IMPROVEMENT if missed else Exit.FINISHED


def _tell(result: ResultFile, output: Output) -> None:
    if output.as_json:
        print_json(to_json(result), output.stream)
    else:
        print_lines(words.in_words(result), output.stream)
