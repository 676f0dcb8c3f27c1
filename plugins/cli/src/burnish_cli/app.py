"""The command line: what may be given; each command's work is imported when it runs, so that `--help` is quick."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter

from burnish_cli.again import Json, fork, resume
from burnish_cli.caps import UNSAID, Caps
from burnish_cli.exits import Exit, report_error, report_lost, usage_error
from burnish_cli.streams import steady_streams, unprinted

app = App(
    name="burnish",
    help="Tune the texts of an LM program against a metric.",
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
    version_flags=["--version"],
    version=lambda: _version(),
    default_parameter=Parameter(negative=()),
)


def run_command(arguments: Sequence[str] | None = None) -> int:
    """Parse and run one command line; errors go to stderr, and the exit code says whose they are."""
    with steady_streams() as out:
        code = _run_command(sys.argv[1:] if arguments is None else list(arguments))
        out.flush()
        lost = unprinted(out)
        return code if lost is None else report_lost(lost, code)


def _run_command(tokens: list[str]) -> int:
    try:
        code = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        command = next((f"{token} " for token in tokens[:1] if not token.startswith("-") and token in app), "")
        return usage_error(f"{error} See `burnish {command}--help`.")
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BaseException as error:  # what a plugin raises, SystemExit too: exit code 1 would say `no improvement`
        return report_error(error)
    return Exit.FINISHED if code is None else int(code)


def _version() -> str:
    from importlib.metadata import version

    return version("burnish-cli")


@app.command
def run(
    config: Path = Path("burnish.toml"),
    *,
    seed: int | None = None,
    name: str | None = None,
    require_improvement: bool = False,
    json_: Json = False,
) -> int:
    """Search for better texts as a configuration file describes it.

    Parameters
    ----------
    config
        The file; relative paths in it start at its directory.
    seed
        In place of the file's.
    name
        Of the run directory `runs/<name>`, in place of the file's.
    require_improvement
        Give exit code 1 where the test rows show no improvement.
    json_
        Print the result as one JSON object.
    """
    from burnish_cli.work import Output, run_file

    return run_file(config, Output(as_json=json_, require_improvement=require_improvement), seed=seed, name=name)


@app.command
def plan(config: Path = Path("burnish.toml"), *, sample: int = 0, json_: Json = False) -> int:
    """Say what a run would do and cost at most; nothing is spent, but for a `--sample`.

    Parameters
    ----------
    config
        The file; relative paths in it start at its directory.
    sample
        Rollouts of the program as it is, to measure the model calls, tokens and money that a run takes. They are kept:
        the run does not pay for them again.
    json_
        Print the plan as one JSON object.
    """
    from burnish_cli.work import Output, run_file

    return run_file(config, Output(as_json=json_, plan_only=True, sample=sample))


@app.command
def tune(
    prompt: Path,
    *,
    data: Path,
    metric: str = "exact_match",
    model: Annotated[str | None, Parameter(env_var="BURNISH_MODEL")] = None,
    label: str | None = None,
    id_: Annotated[str | None, Parameter(name="--id")] = None,
    strategy: Annotated[tuple[str, ...], Parameter(consume_multiple=False)] = ("bootstrap-random",),
    caps: Caps = UNSAID,
    train: str | None = None,
    val: str | None = None,
    test: str | None = None,
    seed: int = 0,
    concurrency: int = 16,
    name: str | None = None,
    plan_only: bool = False,
    require_improvement: bool = False,
    json_: Json = False,
) -> int:
    """Tune a prompt file on rows of data; no configuration file is needed.

    Without any cap, what the plan needs is the cap on rollouts.

    Parameters
    ----------
    prompt
        A text with `{{name}}` where a row's value goes.
    data
        The rows: JSONL or CSV.
    metric
        Name of a metric, or `module:attribute`: a function `(row, prediction)` marked with `@burnish.exposed`, in a
        module that is installed or stands in the working directory.
    model
        Name of a model plugin, with the model's id behind a slash: `openai/gpt-5-mini`. None: the only one installed,
        or the only one that needs no options.
    label
        Column that replies are compared with. None: the one that the prompt does not read.
    id_
        Column that names a row. None: `id`, where its values differ.
    strategy
        Name of a strategy; given again, the next starts from its best.
    train
        Count, fraction or file of the rows to learn from.
    val
        Count, fraction or file of the rows that candidates are compared on.
    test
        Count, fraction or file of the rows that only baseline and winner see.
    seed
        Of the search.
    concurrency
        Rollouts at once.
    name
        Of the run directory `runs/<name>`.
    plan_only
        Say what would be done, and stop.
    require_improvement
        Give exit code 1 where the test rows show no improvement.
    json_
        Print the result as one JSON object.
    """
    from burnish_cli.wishes import make_wishes
    from burnish_cli.work import Output
    from burnish_cli.work import tune as tune_prompt

    wishes = make_wishes(
        prompt=prompt,
        data=data,
        metric=metric,
        model=model,
        strategy=strategy,
        caps=caps.said(),
        sizes={"train": train, "val": val, "test": test},
        label=label,
        id=id_,
        seed=seed,
        concurrency=concurrency,
        name=name,
    )
    output = Output(as_json=json_, plan_only=plan_only, require_improvement=require_improvement)
    return tune_prompt(wishes, output)


@app.command
def evaluate(
    config: Path = Path("burnish.toml"),
    *,
    candidate: Path | None = None,
    require_improvement: bool = False,
    json_: Json = False,
) -> int:
    """Score the program on the test rows, and a saved candidate beside it.

    Parameters
    ----------
    config
        The file; relative paths in it start at its directory.
    candidate
        A `best.json`. None: the program as it is, alone.
    require_improvement
        Give exit code 1 where the test rows show no improvement of the candidate over the program as it is.
    json_
        Print the result as one JSON object.
    """
    from burnish_cli.work import Output
    from burnish_cli.work import evaluate as evaluate_file

    return evaluate_file(config, candidate, Output(as_json=json_, require_improvement=require_improvement))


app.command(resume)
app.command(fork)


@app.command
def show(run: Path, *, prompt: bool = False, json_: Json = False) -> int:
    """Show what a run came to.

    Parameters
    ----------
    run
        The run's directory, or its `result.json`; of a directory of runs (`runs`) each is told in a line.
    prompt
        Print the winner's texts and demos instead.
    json_
        Print the result as one JSON object.
    """
    from burnish_cli.commands import show_run

    return show_run(run, prompt=prompt, as_json=json_)


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
