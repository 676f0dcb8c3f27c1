"""Composition: components by name, by `Use` or as objects; opened in order, closed in reverse."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

import burnish
from burnish import Engine, Plan, PluginManager, Report, Spec, Use, abc
from burnish._edges.compose import Composition, label_of
from burnish._runtime.given import MEMBERS
from burnish._runtime.target import FunctionTarget
from burnish.errors import NotAModelError, PluginBrokenError, PluginNotFoundError, UsageError
from burnish.testing import ScriptedModel


@attrs.frozen(kw_only=True)
class PartOptions:
    name: str = ""
    broken: bool = False


@attrs.define(eq=False)
class Part:
    options: PartOptions
    env: abc.Environment

    async def get_many(self, request: abc.CacheGet) -> dict[str, abc.CacheRecord]:
        return {}

    async def put_many(self, request: abc.CachePut) -> None:
        pass


class Parts:
    """A plugin whose caches and models are written down when they open and close."""

    def __init__(self) -> None:
        self.log: list[str] = []

    @asynccontextmanager
    async def open(self, options: PartOptions, env: abc.Environment) -> AsyncIterator[Part]:
        if options.broken:
            raise ConnectionError("no such server")
        self.log.append(f"open {options.name}")
        try:
            yield Part(options, env)
        finally:
            self.log.append(f"close {options.name}")

    @burnish.hookimpl
    def burnish_caches(self) -> Iterable[Spec[Any]]:
        return [Spec(name="part", open=self.open, options=PartOptions)]

    @burnish.hookimpl
    def burnish_models(self) -> Iterable[Spec[Any]]:
        return [Spec(name="part", open=self.open, options=PartOptions)]

    @burnish.hookimpl
    def burnish_meters(self) -> Iterable[Spec[Any]]:
        return [Spec(name="part", open=self.open, options=PartOptions)]


@asynccontextmanager
async def composed(parts: Parts, file: str | None = None) -> AsyncIterator[Composition]:
    manager = PluginManager(discover=False)
    manager.register(parts)
    async with AsyncExitStack() as stack:
        yield Composition(stack, manager, abc.Environment(base_dir=Path("base")), file)


async def test_components_open_in_order_and_close_in_reverse() -> None:
    """By name, by `Use` with options; each gets the run's environment."""
    parts = Parts()
    async with composed(parts) as composition:
        first = await composition.open("cache", "part")
        second = await composition.open("cache", Use("part", name="b"))
        assert [PartOptions(), PartOptions(name="b")] == [first.options, second.options]
        assert Path("base") == first.env.base_dir
        assert ["open ", "open b"] == parts.log
    assert ["open ", "open b", "close b", "close "] == parts.log


async def test_an_object_is_used_as_it_is_and_not_closed() -> None:
    """What the caller made stays the caller's; None stays None."""
    parts, mine = Parts(), burnish.RolloutCache()
    async with composed(parts) as composition:
        assert mine is await composition.open("cache", mine)
        assert await composition.open("cache", None) is None
    assert [] == parts.log


async def test_a_part_that_does_not_open_closes_those_before_it() -> None:
    """Its own error arrives as it is."""
    parts = Parts()

    async def compose() -> None:
        async with composed(parts) as composition:
            await composition.open("cache", Use("part", name="a"))
            await composition.open("cache", Use("part", broken=True))

    with pytest.raises(ConnectionError, match="no such server"):
        await compose()
    assert ["open a", "close a"] == parts.log


async def test_a_wrong_option_names_the_configuration_file() -> None:
    """File, kind, name, key and the expected type."""
    async with composed(Parts(), "burnish.toml") as composition:
        with pytest.raises(UsageError, match=r"burnish\.toml: cache `part`\.name: expected text, got a whole number 3"):
            await composition.open("cache", Use("part", name=3))
        with pytest.raises(PluginNotFoundError, match="no cache named `redis`"):
            await composition.open("cache", "redis")


async def test_a_plugin_that_opens_something_else_is_named() -> None:
    """What it opened lacks methods of its kind: said before anything is spent, and it is closed."""
    parts = Parts()

    async def compose() -> None:
        async with composed(parts) as composition:
            await composition.open("meter", "part")

    with pytest.raises(PluginBrokenError, match=r"meter\.part opened a Part, which .* lacks `lease`, `release`\. Tell"):
        await compose()
    assert ["open ", "close "] == parts.log


async def test_equal_descriptions_of_models_share_one_instance() -> None:
    """A name is the same description as a `Use` of it; other options make another instance."""
    parts = Parts()
    async with composed(parts) as composition:
        other = Use("part", name="b")
        by_role = {"task": "part", "judge": Use("part"), "proposer": other, "rewriter": Use("part", name="b")}
        models = await composition.models(by_role)
        assert list(by_role) == list(models)
        assert models["task"] is models["judge"]
        assert models["proposer"] is models["rewriter"]
        assert ["open ", "open b"] == parts.log


async def test_models_that_are_given_are_never_exchanged() -> None:
    """Two objects that are equal stay two: each role has its own."""

    @attrs.frozen
    class Equal:
        name: str = "model"

        def __call__(self, request: abc.LMRequest) -> str:
            return self.name

    task, judge = Equal(), Equal()
    async with composed(Parts()) as composition:
        models = await composition.models({"task": task, "judge": judge})
    assert task is models["task"]
    assert judge is models["judge"]


def test_a_component_is_named_without_its_options() -> None:
    """A log line shows no option, which may be an address with a password, and nothing of an object but its class."""
    assert ["redis", "redis", "Parts"] == [label_of(what) for what in ("redis", Use("redis", url="r://:pw@h"), Parts())]


@asynccontextmanager
async def open_model() -> AsyncIterator[ScriptedModel]:
    yield ScriptedModel(["hi"])


async def a_model() -> ScriptedModel:
    return ScriptedModel(["hi"])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (open_model, "not open yet: enter it, `async with ... as model:`"),
        (a_model, "a coroutine is no model: `await` what `a_model"),
        (lambda: ScriptedModel, "the class `ScriptedModel` is no model: make one, `ScriptedModel"),
        (lambda: burnish.testing, "the module `burnish.testing` is no model"),
        (lambda: 3, "3 is no model"),
    ],
)
async def test_a_model_that_is_none_yet_is_refused_at_once(make: Callable[[], Any], said: str) -> None:
    """A context manager of `contextlib` can be called, so can a class: neither answers a request."""
    async with composed(Parts()) as composition:
        with pytest.raises(NotAModelError, match=re.escape(said)) as caught:
            await composition.models({"judge": make()})
    assert str(caught.value).startswith("the model of the role `judge`: ")


@pytest.mark.parametrize("kind", ["cache", "meter", "sink", "executor", "strategy", "metric"])
async def test_an_object_of_another_kind_is_refused_at_once(kind: str) -> None:
    """Classes, managers that nobody entered, and objects that lack a method: what is missing is named."""
    async with composed(Parts()) as composition:
        for given, said in (
            (Parts, f"the class `Parts` is no {kind}"),
            (open_model(), f"this {kind} is not open yet"),
            (Parts(), f"a Parts is no {kind}, it lacks `{MEMBERS[kind][0]}`"),
        ):
            with pytest.raises(UsageError, match=re.escape(said)):
                await composition.open(kind, given)


def test_nothing_is_spent_on_a_part_that_is_not_open() -> None:
    """`optimize` refuses it before the first rollout, whichever argument it is."""
    calls: list[str] = []

    def program(q: str) -> str:
        calls.append(q)
        return q

    closed = open_model()
    for wrong in ({"models": closed}, {"cache": closed}, {"sinks": [closed]}, {"strategy": OneLook}):
        options: dict[str, Any] = {"strategy": OneLook(), "metric": lambda row, said: 1.0, "budget": burnish.Budget()}
        with pytest.raises(UsageError, match=r"not open yet|the class `OneLook`"):
            burnish.optimize(program, trainset=[{"q": "a"}], **{**options, **wrong})
    assert [] == calls


def test_the_members_are_those_of_the_protocols() -> None:
    """What is looked for is what `burnish.abc` says, kind by kind."""
    for kind, names in MEMBERS.items():
        protocol = getattr(abc, kind.capitalize())
        assert {name for name in vars(protocol) if not name.startswith("_")} == set(names)
    assert set(abc.KINDS) == set(MEMBERS)


def test_looking_at_a_target_runs_none_of_its_code() -> None:
    """A fingerprint may import a program: it is not evaluated to see whether an object is a target."""

    class Costly(FunctionTarget):
        @property
        def fingerprint(self) -> str:
            raise AssertionError("evaluated")

    target = Costly(len)
    assert target is burnish.as_target(target)
    with pytest.raises(UsageError, match="this program is not open yet"):
        burnish.as_target(open_model())


async def test_one_model_is_the_task_s() -> None:
    """A single description or object is the role `task`; no model at all is an empty mapping; None in a role is not."""
    async with composed(Parts()) as composition:
        assert ["task"] == list(await composition.models("part"))
        assert {"task": len} == await composition.models(len)
        assert {} == await composition.models(None)
        with pytest.raises(UsageError, match="the model of the role `judge` is None; leave the role out"):
            await composition.models({"judge": None})


def test_a_use_takes_any_option_name() -> None:
    """Options called like its own arguments are options; two equal ones are equal."""
    use = Use("part", name="a", self="b", options="c")
    assert ("part", {"name": "a", "self": "b", "options": "c"}) == (use.name, use.options)
    assert Use("part", a=1) == Use("part", a=1)
    assert Use("part", a=1) != Use("part", a=2)


class OneLook:
    """A strategy that scores the program as it is."""

    def plan(self, problem: abc.Problem) -> Plan:
        return Plan(rollouts=len(problem.val), minimum=len(problem.val))

    async def compile(self, engine: Engine, problem: abc.Problem) -> Report:
        await engine.evaluate_many([(engine.register(problem.start), problem.val)])
        return Report(strategy="one look", best=problem.start)


class Listener:
    """A plugin with a sink that keeps its environment and what it hears."""

    def __init__(self) -> None:
        self.env = abc.Environment()
        self.heard: list[str] = []

    @asynccontextmanager
    async def open(self, options: None, env: abc.Environment) -> AsyncIterator[Listener]:
        self.env = env
        yield self

    async def deliver(self, batch: abc.Delivery) -> None:
        self.heard += [type(event).__name__ for _, event in batch.events]

    @burnish.hookimpl
    def burnish_sinks(self) -> Iterable[Spec[abc.Sink]]:
        return [Spec(name="listener", open=self.open)]


async def test_a_run_s_components_find_the_environment_of_the_process(tmp_path: Path) -> None:
    """`optimize` without an environment gives them the process's variables, where keys are, and the run's directory."""
    listener, manager = Listener(), PluginManager(discover=False)
    manager.register(listener)

    async def program(question: str) -> str:
        return question

    await burnish.aoptimize(
        program,
        trainset=[{"question": "a"}],
        valset=[{"question": "b"}],
        metric=lambda example, prediction: 1.0,
        strategy=OneLook(),
        budget=burnish.Budget(max_metric_calls=9),
        sinks=["listener"],
        plugins=manager,
        run_dir=tmp_path / "run",
    )
    assert (os.environ, tmp_path / "run") == (listener.env.variables, listener.env.run_dir)
    assert ("RunStarted", "RunEnded") == (listener.heard[0], listener.heard[-1])


class Echo:
    """A target of another framework: its answer is its option."""

    metering: abc.Metering = "rollout"
    injection: abc.Injection = "ambient"
    inputs = None

    def __init__(self, answer: str) -> None:
        self.answer = self.fingerprint = answer

    def parameters(self) -> dict[str, burnish.Parameter]:
        return {}

    async def run(self, inputs: Any, candidate: burnish.Candidate) -> str:
        return self.answer


class Theirs:
    """A plugin that publishes it as `target.theirs`."""

    def __init__(self) -> None:
        self.log: list[str] = []

    @asynccontextmanager
    async def open(self, options: PartOptions, env: abc.Environment) -> AsyncIterator[Echo]:
        self.log.append(f"open {options.name} in {env.base_dir.name}")
        yield Echo(options.name)
        self.log.append("close")

    @burnish.hookimpl
    def burnish_targets(self) -> Iterable[Spec[Any]]:
        return [Spec(name="theirs", open=self.open, options=PartOptions)]


async def test_a_program_by_name_is_a_target_plugin(tmp_path: Path) -> None:
    """`Use("theirs", ...)` opens another framework's target for the run and closes it after; a wrong name is told."""
    theirs, manager = Theirs(), PluginManager(discover=False)
    manager.register(theirs)
    options: dict[str, Any] = {"trainset": [{"q": "a"}], "valset": [{"q": "b"}], "strategy": OneLook()}
    options |= {"metric": lambda example, prediction: 1.0, "budget": burnish.Budget(), "plugins": manager}
    result = await burnish.aoptimize(
        Use("theirs", name="four"), env=abc.Environment(base_dir=tmp_path / "here"), **options
    )
    assert ["open four in here", "close"] == theirs.log
    assert (1, "four") == (result.spend.metric_calls, result.program.answer)
    with pytest.raises(PluginNotFoundError, match="no target named `ours` is installed; there is: theirs"):
        await burnish.aoptimize("ours", **options)
