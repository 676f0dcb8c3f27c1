"""The plugin: programs from a description."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pytest

import burnish
import burnish_programs
from burnish.abc import Environment, Target
from burnish.errors import ConfigError, UsageError
from burnish.testing import ScriptedModel
from burnish_programs import ChainOfThought, ModuleTarget, Predict, PromptFile
from burnish_programs._plugin import ProgramOptions, burnish_targets


async def opened(tmp_path: Path, **options: Any) -> Target:
    """Open a program as a composition does."""
    (spec,) = burnish_targets()
    assert spec.options is ProgramOptions
    async with spec.open(ProgramOptions(**options), Environment(base_dir=tmp_path)) as target:
        return target


async def test_signature_and_prompt(tmp_path: Path) -> None:
    """A signature gives a predictor, with or without reasoning; a prompt's path starts at the configuration."""
    (tmp_path / "p.md").write_text("{{gloss}}?")
    plain = await opened(tmp_path, signature="q -> a: int", instruction="Do.", name="main", max_tokens=9)
    assert isinstance(plain, ModuleTarget)
    assert type(plain.program) is Predict
    assert {"main": "Do."} == {name: p.instruction for name, p in plain.parameters().items()}
    assert 9 == plain.program.settings.max_tokens
    reasoning = await opened(tmp_path, signature="q -> a", cot=True)
    assert isinstance(reasoning, ModuleTarget)
    assert type(reasoning.program) is ChainOfThought
    prompt = await opened(tmp_path, prompt="p.md", output="category")
    assert isinstance(prompt, ModuleTarget)
    assert type(prompt.program) is PromptFile
    assert ["category"] == [f.name for f in prompt.parameters()["prompt"].outputs]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, "exactly one of `signature`, `prompt`, `program`, `use`; here is none"),
        ({"signature": "q -> a", "prompt": "p"}, "here is `signature` and `prompt`"),
        ({"signature": "q -> a", "output": "x"}, "`output` does not belong to a program with `signature`"),
        ({"prompt": "p.md", "cot": True}, "`cot` does not belong"),
        ({"prompt": "none.md"}, "cannot be read"),
        ({"signature": "q -> a: flot"}, "unknown type"),
        ({"use": "nonsense"}, "not of the form"),
        ({"use": "no_such_module_here:x"}, "the module `no_such_module_here` is not there"),
        ({"use": "json:nothing"}, "names `nothing`, which is not there"),
        ({"use": "json:dumps"}, r"mark it with `@burnish\.exposed`"),
    ],
)
async def test_wrong_options_are_usage_errors(tmp_path: Path, options: dict[str, Any], error: str) -> None:
    """What does not fit together is said before anything runs."""
    with pytest.raises(UsageError, match=error):
        await opened(tmp_path, **options)


async def test_use_takes_burnish_objects_and_marked_functions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`module:attribute` is a module, predictor, target or marked function; a class or other callable is refused."""

    @burnish.exposed
    def marked(q: str) -> dict[str, str]:
        return {"a": q}

    module = types.ModuleType("users_module")
    contents = {"predict": Predict("q -> a"), "marked": marked, "Predict": Predict, "number": 5}
    contents["target"] = ModuleTarget(Predict("q -> a"))
    for name, value in contents.items():
        setattr(module, name, value)
    monkeypatch.setitem(sys.modules, "users_module", module)
    for name in ("predict", "target", "marked"):
        assert isinstance(await opened(tmp_path, use=f"users_module:{name}"), Target)
    with pytest.raises(ConfigError, match="is a class: name an instance"):
        await opened(tmp_path, use="users_module:Predict")
    with pytest.raises(ConfigError, match="is no burnish program but of the type `int`"):
        await opened(tmp_path, use="users_module:number")
    target = await opened(tmp_path, use="users_module:marked")
    assert {"a": "x"} == await target.run({"q": "x"}, burnish.Candidate())


class Looks:
    """Scores the program as it is, once."""

    def plan(self, problem: Any) -> burnish.Plan:
        return burnish.Plan(rollouts=len(problem.train))

    async def compile(self, engine: burnish.Engine, problem: Any) -> burnish.Report:
        outcome = await engine.evaluate_many([(engine.register(problem.start), problem.train)])
        return burnish.Report(strategy="looks", best=problem.start, best_score=outcome.completed()[0].mean())


@pytest.mark.parametrize(
    ("options", "parameter"), [({"signature": "q -> a"}, "predict"), ({"prompt": "p.md", "output": "a"}, "prompt")]
)
async def test_a_run_opens_the_target_by_name(tmp_path: Path, options: dict[str, Any], parameter: str) -> None:
    """`Use("programs", ...)` is a program, found through its entry point; paths start where the environment says."""
    (tmp_path / "p.md").write_text("Say {{q}}.")
    result = await burnish.aoptimize(
        burnish.Use("programs", **options),
        trainset=[{"q": "x", "a": "y"}],
        metric=burnish.inline(lambda example, prediction: prediction.a == example["a"]),
        strategy=Looks(),
        budget=burnish.Budget(max_metric_calls=1),
        models=ScriptedModel(lambda request: "y"),
        env=Environment(base_dir=tmp_path),
    )
    assert (1.0, [parameter]) == (result.best, list(burnish.as_target(result.program).parameters()))


def test_public_names() -> None:
    """What the page on programs names is there."""
    wanted = "Module Predict ChainOfThought Prediction Signature PromptFile PromptProgram ModuleTarget models"
    assert burnish.models is burnish_programs.models
    assert [] == [name for name in wanted.split() if not hasattr(burnish_programs, name)]
