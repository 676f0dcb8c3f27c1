"""The command line of what goes on from a run: `resume` and `fork`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from burnish_cli.caps import UNSAID, Caps

Json = Annotated[bool, Parameter(name="--json")]


def resume(
    run: Path,
    *,
    continue_live: bool = False,
    retry_failed: bool = False,
    accept_versions: bool = False,
    caps: Caps = UNSAID,
    concurrency: int | None = None,
    require_improvement: bool = False,
    json_: Json = False,
) -> int:
    """Go on with a run that was stopped or killed; nothing is paid twice. A finished one tells its result again.

    A cap takes the place of the one that the run has, and counts what the run has spent so far.

    Parameters
    ----------
    run
        The run's directory.
    continue_live
        Where the run asks something else than it did, go on from there with the results so far as answers.
    retry_failed
        Ask anew from the first rollout on that the infrastructure left unscored.
    accept_versions
        Take another version of Python or burnish.
    concurrency
        Rollouts at once, in place of the run's.
    require_improvement
        Give exit code 1 where the test rows show no improvement.
    json_
        Print the result as one JSON object.
    """
    from burnish import Resume
    from burnish_cli.going import resume_run
    from burnish_cli.work import Output

    how = Resume(continue_live=continue_live, retry_failed=retry_failed, accept_versions=accept_versions)
    output = Output(as_json=json_, require_improvement=require_improvement)
    return resume_run(run, output, how, caps=caps.said(), concurrency=concurrency)


def fork(
    run: Path,
    *,
    name: str | None = None,
    config: Path | None = None,
    seed: int | None = None,
    require_improvement: bool = False,
    json_: Json = False,
) -> int:
    """Begin a new run on the answers of an old one: what both ask is paid once; the test is scored fresh.

    Parameters
    ----------
    run
        The old run's directory; it stays as it is.
    name
        Of the new run's directory `runs/<name>`. None: the old one's with a number.
    config
        The new run's configuration. None: that of the old one.
    seed
        In place of the configuration's.
    require_improvement
        Give exit code 1 where the test rows show no improvement.
    json_
        Print the result as one JSON object.
    """
    from burnish_cli.going import fork_run
    from burnish_cli.work import Output

    output = Output(as_json=json_, require_improvement=require_improvement)
    return fork_run(run, output, name=name, config=config, seed=seed)
