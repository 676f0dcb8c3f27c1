"""Program files as targets: read when opened, loaded when used, with the run's models by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import burnish
from burnish.abc import Environment, LMRequest
from burnish.errors import ConfigError, UsageError
from burnish.testing import ScriptedModel
from burnish_programs import ir
from burnish_programs._plugin import ProgramOptions, make_program
from burnish_programs._program_file import ProgramFileTarget

PROGRAM = """
signature = "q -> a: Literal['x', 'y']"
models = ["small", "big"]
{more}
[[nodes]]
kind = "hole"
name = "look"
signature = "q -> hint"
impl = "my_holes:look"
inputs = {{q = "$.q"}}
{hole}
[[nodes]]
kind = "predict"
name = "guess"
signature = "hint -> first"
model = "small"
inputs = {{hint = "look.hint"}}
[[nodes]]
kind = "predict"
name = "say"
signature = "first -> a: Literal['x', 'y']"
model = "big"
inputs = {{first = "guess.first"}}
[out]
a = "say.a"
"""

HOLES = """
import burnish

@burnish.exposed
@burnish.inline
def look(q):
    return q.upper()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with a program file and its holes; what is imported from it is forgotten afterwards."""
    write(tmp_path)
    (tmp_path / "my_holes.py").write_text(HOLES, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("my_holes", None)


def write(directory: Path, more: str = "", hole: str = "") -> None:
    (directory / "p.toml").write_text(PROGRAM.format(more=more, hole=hole), encoding="utf-8")


def opened(place: Path, **options: Any) -> ProgramFileTarget:
    target = make_program(ProgramOptions(program="p.toml", **options), Environment(base_dir=place))
    assert isinstance(target, ProgramFileTarget)
    return target


def test_opening_imports_nothing(place: Path) -> None:
    """Inputs, parameters and the choice of models are the file's own; a copy, and the fingerprint, are of the code."""
    target = opened(place)
    assert ["q"] == [field.name for field in target.inputs]
    assert {"guess": ("small", "big"), "say": ("small", "big")} == {
        name: parameter.values["model"] for name, parameter in target.parameters().items()
    }
    assert "my_holes" not in sys.modules
    assert isinstance(target.copy(), ir.InterpreterTarget)
    assert "my_holes" in sys.modules
    assert target.fingerprint == target.copy().fingerprint == opened(place).fingerprint
    write(place, more='name = "other"')
    assert target.fingerprint != opened(place).fingerprint


class Tries:
    """Scores the program as it is and with another instruction."""

    def plan(self, problem: Any) -> burnish.Plan:
        return burnish.Plan(rollouts=2 * len(problem.train))

    async def compile(self, engine: burnish.Engine, problem: Any) -> burnish.Report:
        best = problem.start.set_instruction("say", "Shout.")
        numbers = [engine.register(candidate) for candidate in (problem.start, best)]
        await engine.evaluate_many([(number, problem.train) for number in numbers])
        before, after = (engine.matrix.mean(number, problem.train) for number in numbers)
        return burnish.Report(strategy="tries", best=best, baseline_score=before, best_score=after)


async def test_a_run_binds_models_by_name(place: Path) -> None:
    """Each leaf asks the model of the run's role that it names; what is found is baked into the result's program."""
    small = ScriptedModel(lambda request: "first: " + request.messages[-1].content[-1].lower())

    def shouts(request: LMRequest) -> str:
        return "a: y" if "Shout" in request.messages[0].content else "a: x"

    big = ScriptedModel(shouts)
    result = await burnish.aoptimize(
        burnish.Use("programs", program="p.toml"),
        trainset=[{"q": "p", "a": "y"}, {"q": "q", "a": "y"}],
        metric=burnish.inline(lambda example, prediction: prediction.a == example["a"]),
        strategy=Tries(),
        budget=burnish.Budget(max_metric_calls=4),
        models={"small": small, "big": big},
        env=Environment(base_dir=place),
    )
    assert (0.0, 1.0) == (result.baseline, result.best)
    assert (4, 4, 8) == (small.calls, big.calls, result.spend.requests)
    assert "Shout." == burnish.as_target(result.program).parameters()["say"].instruction


@pytest.mark.parametrize("unmarked", [True, False])
def test_what_cannot_be_imported_is_told_by_the_copy(place: Path, unmarked: bool) -> None:
    """Before anything is spent: a function that nobody meant for it, or none at all."""
    text = HOLES.replace("@burnish.exposed", "") if unmarked else ""
    (place / "my_holes.py").write_text(text, encoding="utf-8")
    target = opened(place)
    with pytest.raises(UsageError, match="no function marked with" if unmarked else "names `look`, which is not there"):
        target.copy()


def test_a_pinned_code_is_no_bar_to_looking(place: Path) -> None:
    """The hash that a file asks for is compared with the function's when it is loaded."""
    write(place, hole='code = {hash = "00000000000000000000000000000000"}')
    target = opened(place)
    assert ["guess", "say"] == list(target.parameters())
    with pytest.raises(UsageError, match="the function of the hole `look` is"):
        target.copy()


def test_capabilities_are_granted_by_name(place: Path) -> None:
    """A file that asks for more than was allowed is refused when it is opened, with the line that would allow it."""
    write(place, more='caps = ["net"]', hole='caps = ["net"]')
    with pytest.raises(ConfigError, match=r'asks for "net"; where that is meant, write `grant = \["net"\]`'):
        opened(place)
    assert opened(place, grant=("net",)).copy().parameters()


def test_what_is_no_program_is_refused(place: Path) -> None:
    """With the file, and the place in it."""
    (place / "p.toml").write_text("signature = 3", encoding="utf-8")
    with pytest.raises(UsageError, match=r"p\.toml: "):
        opened(place)
    with pytest.raises(ConfigError, match="`output` does not belong to a program with `program`"):
        make_program(ProgramOptions(program="p.toml", output="a"), Environment(base_dir=place))
