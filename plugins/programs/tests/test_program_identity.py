"""A program's identity follows what is changed on it, and what its code refers to."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest

import burnish
from burnish import Candidate, Complete, EvalEngine, abc
from burnish.testing import ScriptedModel
from burnish_programs import Module, ModuleTarget, Predict, PromptProgram, Signature, models
from burnish_programs._leaf import Settings

ROWS = [{"q": "x"}, {"q": "y"}]


def is_x(example: Any, prediction: Any, trace: Any = None) -> float:
    """Score 1 where the answer is x."""
    return float(str(prediction.a) == "x")


async def score(engine: EvalEngine, program: Any) -> float | None:
    """Evaluate the unchanged program on all rows."""
    outcome = await engine.evaluate(program, engine.register(Candidate()))
    assert isinstance(outcome, Complete)
    return outcome.evaluation.mean()


async def test_a_changed_model_is_asked_at_the_next_evaluation() -> None:
    """E33, E34: a predictor pinned to another model is another program; pinned to the old one again, it is known."""
    one, two = ScriptedModel(lambda _: "a: x", name="one"), ScriptedModel(lambda _: "a: no", name="two")
    program, engine = Predict("q -> a", model=one), EvalEngine(ROWS, is_x)
    assert 1.0 == await score(engine, program)
    program.model = two
    assert (0.0, 2) == (await score(engine, program), two.calls)
    program.model = one
    assert (1.0, 2, 2) == (await score(engine, program), one.calls, two.calls)


async def test_a_changed_callable_model_is_asked_too() -> None:
    """A callable is looked at once for each object: one that counts its calls stays the same, another one is seen."""

    class Counting:
        def __init__(self, answer: str) -> None:
            self.answer, self.calls = answer, 0

        def __call__(self, request: abc.LMRequest) -> str:
            self.calls += 1
            return self.answer

    one, two = Counting("x"), Counting("no")
    program, engine = Predict("q -> a", model=one), EvalEngine(ROWS, is_x)
    assert (1.0, 1.0, 2) == (await score(engine, program), await score(engine, program), one.calls)
    program.model = two
    assert (0.0, 2) == (await score(engine, program), two.calls)
    program.model = one
    assert (1.0, 2) == (await score(engine, program), one.calls)


CHANGES: list[tuple[str, Callable[[Any], None]]] = [
    ("settings", lambda p: setattr(p, "settings", Settings(temperature=1.0))),
    ("signature", lambda p: setattr(p, "signature", Signature.parse("q -> b"))),
    ("model", lambda p: setattr(p, "model", ScriptedModel([], name="other"))),
    ("model in place", lambda p: setattr(p.model, "identity", {"provider": "scripted", "model": "changed"})),
]


@pytest.mark.parametrize(("what", "change"), CHANGES, ids=[what for what, _ in CHANGES])
def test_every_public_attribute_of_a_predictor_counts(what: str, change: Callable[[Any], None]) -> None:
    """A target sees the change at its next fingerprint, as a fresh target of a changed program would."""

    class Named:
        limits = abc.ModelLimits(key="one")

        def __init__(self) -> None:
            self.identity = {"provider": "scripted", "model": "one"}

        async def complete(self, request: abc.LMRequest) -> abc.LMResponse:
            raise NotImplementedError

    program = Predict("q -> a", model=Named())
    target = ModuleTarget(program)
    before = target.fingerprint
    assert before == target.fingerprint
    change(program)
    assert before != target.fingerprint == ModuleTarget(program).fingerprint


async def test_a_changed_signature_is_what_is_asked() -> None:
    """Instruction, inputs and prompt follow the new signature: nothing that was made of the old one is left."""
    program = Predict("q -> a")
    target = ModuleTarget(program)
    model = ScriptedModel(lambda _: "b: 1")
    with models(task=ScriptedModel(lambda _: "a: 1")):
        await program(q="x")
    program.signature = Signature.parse("text -> b: int")
    with models(task=model):
        assert 1 == (await program(text="x")).b
    assert ["text"] == [field.name for field in target.inputs or ()]
    assert "Given the field `text`, produce the field `b`." == program.instruction


def test_a_changed_prompt_has_its_own_placeholders() -> None:
    """A prompt's text may be exchanged: its placeholders and inputs are those of the new text."""
    prompt = PromptProgram("Say {{q}}", output="a")
    target = ModuleTarget(prompt)
    before = target.fingerprint
    prompt.text = "Repeat {{word}}"
    assert (("word",), "word") == (prompt.placeholders, (target.inputs or ())[0].name)
    assert before != target.fingerprint


def test_code_that_a_program_refers_to_counts() -> None:
    """E34: a helper, a constant and a predictor under global names are part of the program that uses them."""
    source = (
        "from burnish_programs import Module, Predict\n"
        "answer = Predict('q -> a', {instruction!r})\n"
        "def helper(q): return q + {word!r}\n"
        "async def function(q): return await answer(q=helper(q))\n"
        "class Program(Module):\n"
        "    async def forward(self, *, q): return await answer(q=helper(q))\n"
        "program = Program()\n"
    )

    def prints(**changes: str) -> list[str]:
        module = types.ModuleType("users")
        exec(source.format(**{"instruction": "do", "word": "!", **changes}), module.__dict__)
        targets = [burnish.as_target(module.function), burnish.as_target(module.program)]
        assert [(), ()] == [getattr(target, "opaque", ()) for target in targets]
        return [target.fingerprint for target in targets]

    plain, helped, told = prints(), prints(word="?"), prints(instruction="do it")
    assert plain == prints()
    assert 6 == len({*plain, *helped, *told})


@pytest.mark.parametrize("use", ["Leaf()", "Program()", "function"])
def test_what_a_user_s_predictor_adds_counts(use: str) -> None:
    """What a class of predictors of the user's keeps beside what all do is part of every program that uses it."""
    source = (
        "from burnish_programs import Module, Predict\n"
        "class Leaf(Predict):\n"
        "    def __init__(self):\n"
        "        super().__init__('q -> a')\n"
        "        self.prefix = {prefix!r}\n"
        "answer = Leaf()\n"
        "async def function(q): return await answer(q=answer.prefix + q)\n"
        "class Program(Module):\n"
        "    def __init__(self): self.leaves = [Leaf()]\n"
        f"program = {use}\n"
    )

    def prints(prefix: str) -> str:
        module = types.ModuleType("users")
        exec(source.format(prefix=prefix), module.__dict__)
        target = burnish.as_target(module.program)
        assert () == getattr(target, "opaque", ())
        return target.fingerprint

    assert prints("a") == prints("a") != prints("b")


@pytest.mark.parametrize("name", ["least", "_least"])
def test_what_a_user_s_predictor_adds_counts_in_a_metric(name: str) -> None:
    """E34: private names too; what was made of the predictor meanwhile does not."""
    source = (
        "from burnish_programs import Predict\n"
        "class Judge(Predict):\n"
        "    def __init__(self, least):\n"
        "        super().__init__('answer -> grade')\n"
        f"        self.{name} = least\n"
        f"    def good(self, grade): return float(grade > self.{name})\n"
        "judge = Judge({least})\n"
        "def metric(e, p, trace=None): return judge.good(p['a'])\n"
    )

    def prints(least: int, used: bool = False) -> str:
        module = types.ModuleType("users")
        exec(source.format(least=least), module.__dict__)
        if used:
            with models(task=ScriptedModel(lambda _: "grade: 1")):
                module.judge.sync(answer="x")
        printed = burnish.code_print(module.metric)
        assert () == printed.opaque
        return printed.fingerprint

    assert prints(1) == prints(1, used=True) != prints(9)


def branches(good: bool) -> Module:
    """Two programs of one qualified name."""
    if good:

        class Program(Module):
            async def forward(self, *, q: str) -> dict[str, str]:
                return {"a": "x"}
    else:

        class Program(Module):  # type: ignore[no-redef]
            async def forward(self, *, q: str) -> dict[str, str]:
                return {"a": "no"}

    return Program()


async def test_two_classes_of_one_name_are_two_programs() -> None:
    """The branches of a factory: each gets its own score, from one engine."""
    engine = EvalEngine(ROWS, is_x)
    assert (1.0, 0.0) == (await score(engine, branches(True)), await score(engine, branches(False)))
