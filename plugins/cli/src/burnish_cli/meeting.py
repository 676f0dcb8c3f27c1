"""Whether the parts of a configuration meet: the metric its label and output, the program its models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from burnish import Parameter
from burnish.errors import UsageError
from burnish_cli.config import Component, Config, ProgramConfig
from burnish_cli.config import Problem as Fault
from burnish_cli.faults import near
from burnish_cli.split import Splits

ROLES = ("task", "proposer", "judge")


def compares_a_field(metric: Any) -> bool:
    """Whether a metric's options are the metric itself, and what it does is to compare one field, at no cost."""
    return hasattr(metric, "field") and hasattr(metric, "evaluate") and getattr(metric, "__burnish_inline__", False)


def metric_faults(
    config: Config, metric: Any, outputs: Sequence[str] | None, splits: Splits | None
) -> Iterator[Fault]:
    """Say why a metric that compares a field cannot score the rows; of other metrics nobody knows it beforehand.

    `outputs` are the names of what the program gives, None where it does not say.
    """
    data, use = config.data, config.metric.use
    labels, fields = list(data.labels), {*data.inputs, *data.labels}
    listed = ", ".join(f"`{name}`" for name in labels) or "none"
    if metric.field is not None and metric.field not in fields:
        hint = near(metric.field, labels) or "; there is:"
        yield ("metric", "field"), f"there is no label `{metric.field}`{hint} `data.labels`: {listed}"
    elif metric.field is None and not labels:
        yield ("data", "labels"), f"is missing: `{use}` compares the program's output with a label; name its column"
    elif metric.field is None and outputs and not fields.intersection(outputs):
        given = ", ".join(f"`{name}`" for name in outputs)
        ways = " or ".join(f'`field = "{name}"`' for name in labels)
        what = f"{given} is no label (`data.labels`: {listed}), so `{use}` has nothing to compare"
        yield _output_key(config), f"{what}; give both one name, or say {ways} in `[metric]`"
    elif splits is not None:
        prediction = _stand_in(metric, labels, outputs)
        if prediction is not None:
            yield from _unscored(metric, prediction, splits)


def _output_key(config: Config) -> tuple[str, ...]:
    program = config.program
    if not isinstance(program, ProgramConfig):
        return ("program", "use")
    return ("program", "output" if program.prompt is not None else "signature" if program.signature else "program")


def _stand_in(metric: Any, labels: Sequence[str], outputs: Sequence[str] | None) -> dict[str, str] | None:
    """Make a prediction that has what the program's will have."""
    names = list(outputs) if outputs else [metric.field] if metric.field else labels
    return dict.fromkeys(names, "") if outputs or len(names) == 1 else None


def _unscored(metric: Any, prediction: Mapping[str, str], splits: Splits) -> Iterator[Fault]:
    """Have the metric look at each row: the first that it cannot score is told."""
    for row in (*splits.train, *splits.val, *splits.test):
        try:
            metric.evaluate(dict(row.values), dict(prediction))
        except UsageError as error:
            yield ("metric", "use"), f"{error} ({row.where})"
            return


def model_faults(
    config: Config, program: Component, parameters: Mapping[str, Parameter], metric: Any
) -> Iterator[Fault]:
    """Name models that the program lacks, and tables that nothing asks for: the task's would answer without a word.

    Only of burnish's own programs is known which models they ask.
    """
    if program.use != "programs" or "use" in program.options:
        return
    file = program.options.get("program")
    named = dict.fromkeys(name for parameter in parameters.values() for name in parameter.values.get("model", ()))
    needed = [str(name) for name in named] if file is not None else ["task"]
    missing = [name for name in needed if name not in config.models]
    known = {*ROLES, *needed}
    strange = [role for role in config.models if role not in known]
    if not compares_a_field(metric) or any(part.is_reference for part in config.strategy):
        strange = [role for role in strange if near(role, missing)]  # code of somebody's own may ask for any role
    for role in strange:
        hint = near(role, missing or sorted(known))
        yield ("models", role), f"nothing asks for a model of this name{hint}"
        missing = [name for name in missing if f"`{name}`" not in hint]
    if missing and file is not None:
        listed, tables = ", ".join(f"`{n}`" for n in missing), ", ".join(f"`[models.{n}]`" for n in missing)
        yield ("models",), f"{file} names {listed}; say with {tables} which that is"
    elif missing:
        yield ("models",), 'the program asks a model, and none is named; add a table `[models.task]` with `use`'
