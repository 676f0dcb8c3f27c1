"""`Module`: finding predictors, calling, copying."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import pytest
from structlog.testing import capture_logs

import burnish
from burnish import Candidate
from burnish.errors import UsageError
from burnish.testing import ScriptedModel
from burnish_programs import ChainOfThought, Module, ModuleTarget, Predict, PromptProgram, models


class QA(Module):
    """Two steps, async."""

    def __init__(self) -> None:
        self.draft = Predict("question -> draft")
        self.answer = Predict("question, draft -> answer: float", instruction="Answer with a number.")

    async def forward(self, *, question: str) -> Any:
        draft = await self.draft(question=question)
        return await self.answer(question=question, draft=draft.draft)


class SyncQA(QA):
    """The same, sync."""

    def forward(self, *, question: str) -> Any:
        return self.answer.sync(question=question, draft=self.draft.sync(question=question).draft)


class Pair(NamedTuple):
    """A tuple with names."""

    left: Any
    right: Any


class Everything(Module):
    """Predictors in every place where they are found."""

    shared = Predict("a -> b")

    def __init__(self) -> None:
        self.qa = QA()
        self.steps = [Predict("a -> b"), (ChainOfThought("a -> b"), "text")]
        self.by_name = {"x": Predict("a -> b"), "note": 1}
        self.again = self.qa.answer
        self.ask = PromptProgram("{{a}}?")
        self.pair = Pair(Predict("a -> b"), 2)
        self.me = self
        self.words = ["plain"]


def scripted() -> ScriptedModel:
    """A model that answers both steps of QA."""
    return ScriptedModel(lambda request: "42" if "draft: " in request.messages[-1].content else "a draft")


def test_predictors_are_found_by_attribute() -> None:
    """Attributes, modules, containers and class attributes are walked; what is found twice has its first name."""
    found = Everything().predictors()
    assert ["qa.draft", "qa.answer", "steps.0", "steps.1.0", "by_name.x", "ask", "pair.left", "shared"] == list(found)


def test_declared_predictors_win() -> None:
    """A module that overrides `predictors` has those and no others, also inside another module."""

    class Declared(QA):
        def predictors(self) -> dict[str, Any]:
            return {"main": self.answer}

    class Outer(Module):
        def __init__(self) -> None:
            self.inner = Declared()

    assert ["main"] == list(Declared().predictors())
    assert ["inner.main"] == list(Outer().predictors())


def test_two_predictors_of_one_name_are_refused() -> None:
    """Names are addresses: keys that read the same are an error."""
    module = Module()
    module.steps = {1: Predict("a -> b"), "1": Predict("a -> b")}  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match=r"both called `steps\.1`"):
        module.predictors()


async def test_async_and_sync_forward() -> None:
    """`await module(...)` runs either kind of `forward`, and `sync` runs both from sync code; spans have the names."""
    for module in (QA(), SyncQA()):
        with models(task=scripted()), burnish.capture() as captured:
            assert 42.0 == (await module(question="6*7")).answer
        assert ["draft", "answer"] == [span.component for span in captured.trace.spans]


def test_sync_call_of_either_kind() -> None:
    """Without an event loop, `sync` runs the program; sync code and async code inside find their names."""

    class Outer(Module):
        def __init__(self) -> None:
            self.one, self.two = QA(), SyncQA()

        def forward(self, *, question: str) -> Any:
            return [self.one.sync(question=question).answer, self.two.sync(question=question).answer]

    with models(task=scripted()), burnish.capture() as captured:
        assert [42.0, 42.0] == Outer().sync(question="6*7")
    assert ("one.draft", "one.answer", "two.draft", "two.answer") == captured.trace.components


async def test_nested_sync_modules_do_not_deadlock() -> None:
    """A sync module in an async one in a sync one, many at once: each level has a thread of its own."""

    class Middle(Module):
        def __init__(self) -> None:
            self.inner = SyncQA()

        async def forward(self, *, question: str) -> Any:
            return await self.inner(question=question)

    class Outer(Module):
        def __init__(self) -> None:
            self.middle = Middle()

        def forward(self, *, question: str) -> Any:
            return self.middle.sync(question=question)

    rows = [{"question": str(i)} for i in range(8)]
    with models(task=scripted()):
        results = await burnish.forward_all(Outer(), rows, concurrency=8)
    assert [42.0] * 8 == [result.output.answer for result in results]


async def test_module_without_forward_says_so() -> None:
    """A module without `forward` is named."""
    with pytest.raises(NotImplementedError, match="Everything has no `forward`"):
        await Everything()()


# --- copy ------------------------------------------------------------------------------------------------------


def test_copy_is_structural() -> None:
    """Modules, predictors and their containers are new, all else is shared, and what is one object stays one."""
    module = Everything()
    twin = module.copy()
    assert list(module.predictors()) == list(twin.predictors())
    assert not {id(p) for p in module.predictors().values()} & {id(p) for p in twin.predictors().values()}
    assert twin.again is twin.qa.answer
    assert twin.me is twin
    assert twin.words is module.words
    assert isinstance(twin.pair, Pair)
    assert twin.shared is not module.shared
    burnish.apply_candidate(twin, Candidate().with_instruction("qa.answer", "new").with_instruction("shared", "new"))
    assert "Answer with a number." == module.qa.answer.instruction
    assert "new" == twin.again.instruction
    assert "new" != Everything.shared.instruction


def test_shared_predictor_stays_shared() -> None:
    """Two attributes that hold one predictor hold one predictor in the copy."""
    module = Module()
    module.a = module.b = Predict("q -> a")  # type: ignore[attr-defined]
    twin: Any = module.copy()
    assert twin.a is twin.b is not module.a  # type: ignore[attr-defined]
    assert ["a"] == list(twin.predictors())


def test_copy_of_a_module_with_slots() -> None:
    """A class with `__slots__` is copied too."""

    class Slim(Module):
        __slots__ = ("answer", "size")

        def __init__(self) -> None:
            self.answer, self.size = Predict("q -> a"), 3

    module = Slim()
    twin = module.copy()
    assert ["answer"] == list(twin.predictors())
    assert twin.answer is not module.answer
    assert 3 == twin.size


# --- warnings --------------------------------------------------------------------------------------------------


def test_undeclared_and_unnamed_predictors_are_named() -> None:
    """Making the target warns of predictors that nobody will tune: undeclared, in a set, in a plain object."""

    class Helper:
        def __init__(self) -> None:
            self.ask = Predict("a -> b")

    class Leaky(QA):
        def __init__(self) -> None:
            super().__init__()
            self.helper, self.bag = Helper(), {Predict("a -> b")}

        def predictors(self) -> dict[str, Any]:
            return {"answer": self.answer}

    with capture_logs() as logs:
        ModuleTarget(Leaky())
    assert [("predictor", "draft"), ("inside", "Leaky.helper.ask"), ("inside", "Leaky.bag{...}")] == [
        (key, entry[key]) for entry in logs for key in ("predictor", "inside") if key in entry
    ]
    with capture_logs() as logs:
        ModuleTarget(Everything())
    assert [] == logs


async def test_stranger_in_a_rollout_is_named_once_and_reads_no_candidate() -> None:
    """A predictor made inside `forward` is not tuned: it is named once, and a candidate's texts do not reach it."""
    seen: list[str] = []

    class Judge(Module):
        def __init__(self) -> None:
            self.answer = Predict("q -> a", "judge's")

        def forward(self, q: str) -> Any:
            return self.answer.sync(q=q)

    class Odd(Module):
        def __init__(self) -> None:
            self.answer = Predict("q -> a")

        async def forward(self, *, q: str) -> Any:
            await Predict("q -> a", "mine", name="answer")(q=q)
            await Judge()(q=q)
            return await self.answer(q=q)

    def reply(request: Any) -> str:
        seen.append(request.messages[0].content.partition("\n")[0])
        return "a"

    engine = burnish.EvalEngine([{"q": "1"}, {"q": "2"}], lambda *_: 1.0, burnish.EngineConfig(concurrency=1))
    tuned = engine.register(Candidate().with_instruction("answer", "tuned"))
    with models(task=ScriptedModel(reply)), capture_logs() as logs:
        await engine.evaluate(Odd(), tuned)
    assert ["mine", "judge's", "tuned"] * 2 == seen
    assert {"answer"} == {entry["predictor"] for entry in logs if "not one of its predictors" in entry["event"]}


def test_a_module_shows_its_predictors_and_what_is_set() -> None:
    """One line a predictor: its signature, whether an instruction is set, how many demos; never their texts."""
    qa = QA()
    qa.answer.set_state(burnish.PredictState(instruction="Be brief.", demos=(burnish.Demo({"question": "1"}),)))
    lines = repr(qa).splitlines()
    assert ("<QA", f"  draft = {qa.draft!r}", f"  answer = {qa.answer!r}>") == tuple(lines)
    assert repr(qa.answer).endswith(", instruction set, 1 demo)")
    assert "Be brief" not in repr(qa)
    assert "<Module>" == repr(Module())


def test_asyncio_is_told_which_loop_it_is() -> None:
    """Awaited under asyncio, programs, evaluations and runs name trio and the ways out; in a thread they work."""

    async def sync_in_thread() -> Any:
        with models(task=scripted()):
            return await asyncio.to_thread(QA().sync, question="6*7")

    async def awaited(make: Any) -> None:
        with models(task=scripted()):
            await make()

    rows, engine = [{"question": "6*7"}], burnish.EvalEngine([{"question": "6*7"}], lambda row, said: 1.0)
    for make in (
        lambda: QA()(question="6*7"),
        lambda: SyncQA()(question="6*7"),
        lambda: Predict("a -> b")(a="x"),
        lambda: engine.evaluate(QA(), engine.register(burnish.Candidate())),
        lambda: burnish.evaluate_trainset(QA(), rows, lambda row, said: 1.0),
        lambda: burnish.aoptimize(
            QA(), trainset=rows, metric=lambda row, said: 1.0, strategy="never", budget=burnish.Budget()
        ),
    ):
        with pytest.raises(UsageError, match=r"burnish runs on trio.*`trio\.run`.*asyncio\.to_thread"):
            asyncio.run(awaited(make))
    assert 42.0 == asyncio.run(sync_in_thread()).answer
