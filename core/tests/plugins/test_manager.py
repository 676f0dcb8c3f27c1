"""The plugin manager: hooks give frozen specs, once, one plugin at a time; composition by hand needs no entry point."""

from __future__ import annotations

import inspect
import os
import types
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pluggy
import pytest

import burnish
from burnish import PluginManager, Spec, abc, hookspecs
from burnish.errors import PluginBrokenError, PluginClashError, PluginNotFoundError

from .conftest import Site


@attrs.frozen(kw_only=True)
class ShelfOptions:
    size: int = 1


@attrs.define
class Shelf:
    """What the plugins of these tests open; it knows whether it is open."""

    options: ShelfOptions
    env: abc.Environment
    is_open: bool = True


@asynccontextmanager
async def open_shelf(options: ShelfOptions, env: abc.Environment) -> AsyncIterator[Shelf]:
    shelf = Shelf(options, env)
    try:
        yield shelf
    finally:
        shelf.is_open = False


def spec(name: str, **facts: Any) -> Spec[Any]:
    return Spec(name=name, open=open_shelf, options=ShelfOptions, **facts)


@attrs.define
class Plugin:
    """A plugin object: not a module, not even hashable. Counts the calls of its hooks."""

    name: str
    calls: list[str] = attrs.field(factory=list)

    @burnish.hookimpl
    def burnish_caches(self) -> Iterable[Spec[abc.Cache]]:
        self.calls.append("caches")
        return [spec(self.name)]

    @burnish.hookimpl
    def burnish_sinks(self) -> Iterable[Spec[abc.Sink]]:
        self.calls.append("sinks")
        return iter((spec(self.name), spec(f"{self.name}-too")))


# --- the hooks -------------------------------------------------------------------------------------------------------


def hooks() -> dict[str, Callable[[], Any]]:
    """Give the functions of `hookspecs` that are marked as specifications."""
    marked: dict[str, Callable[[], Any]]
    marked = {name: f for name, f in vars(hookspecs).items() if inspect.isfunction(f) and hasattr(f, "burnish_spec")}
    assert all(f.__module__ == "burnish.hookspecs" for f in marked.values())
    return marked


def test_there_is_one_hook_a_kind() -> None:
    """`hookspecs` has exactly one hook for each of `abc.KINDS`, prefixed, and nothing else that is marked (rule 10)."""
    assert list(abc.KINDS) == list(hookspecs.HOOKS)
    assert set(hookspecs.HOOKS.values()) == set(hooks())
    assert len(hookspecs.HOOKS) == len(hooks())
    assert all(name.startswith("burnish_") for name in hooks())


@pytest.mark.parametrize("kind", abc.KINDS)
def test_each_hook_has_the_signature_and_the_words_that_it_documents(kind: str) -> None:
    """It takes nothing, is sync and gives specs of its kind; its docstring says when it is called; the example runs."""
    function = hooks()[hookspecs.HOOKS[kind]]
    signature = inspect.signature(function)
    assert {} == dict(signature.parameters)
    assert f"Iterable[abc.Spec[abc.{kind.capitalize()}]]" == signature.return_annotation
    assert not inspect.iscoroutinefunction(function)
    doc = inspect.getdoc(function) or ""
    assert doc.splitlines()[0].startswith("Offer ")
    assert f"only when a configuration names `{kind}.<name>`" in doc
    example = inspect.cleandoc("\n".join(line for line in doc.splitlines() if line.startswith("    ")))
    scope: dict[str, Any] = {"burnish": burnish, **dict.fromkeys(_names_in(example))}
    exec(example, scope)
    manager = PluginManager(discover=False)
    plugin = types.SimpleNamespace(**{function.__name__: scope[function.__name__]})
    manager.register(plugin)
    (info,) = manager.available(kind)
    assert f'name="{info.name}"' in example


def _names_in(example: str) -> list[str]:
    code = compile(example, "example", "exec")
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return [name for part in inner for name in part.co_names if name not in ("burnish", "Spec")]


def test_no_hook_is_called_on_more_than_the_plugin_that_is_asked(site: Site) -> None:
    """Two plugins, one manager: asking for the first calls its one hook once, however often it is asked (rule 11)."""
    source = """
from contextlib import nullcontext
import burnish
calls = []

@burnish.hookimpl
def burnish_caches():
    calls.append("caches")
    return [burnish.Spec(name=NAME, open=nullcontext)]

@burnish.hookimpl
def burnish_sinks():
    raise AssertionError("nobody asked for a sink")
"""
    site.install("t-a", {"cache.a": "t_a", "sink.a": "t_a"}, t_a=f"NAME = 'a'\n{source}")
    site.install("t-b", {"cache.b": "t_b"}, t_b=f"NAME = 'b'\n{source}")
    manager = PluginManager()
    assert manager.spec("cache", "a") is manager.spec("cache", "a")
    import t_a  # type: ignore[import-not-found]

    assert ["caches"] == t_a.calls
    assert {"t_a"} == site.imported()
    manager.spec("cache", "b")
    assert ["caches"] == t_a.calls


def test_what_a_hook_gives_is_frozen() -> None:
    """A spec cannot be changed after the fact; its capabilities are a frozen set whatever they were given as."""
    made = spec("x", capabilities=["shared", "shared"])
    assert frozenset({"shared"}) == made.capabilities
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        made.name = "y"  # type: ignore[misc]


def test_an_entry_point_may_name_an_object_of_a_module(site: Site) -> None:
    """`module:object`: hooks as methods of an object, as pluggy has it."""
    source = """
from contextlib import nullcontext
import burnish

class Plugin:
    @burnish.hookimpl
    def burnish_caches(self):
        return [burnish.Spec(name="a", open=nullcontext)]

plugin = Plugin()
"""
    site.install("t-a", {"cache.a": "t_a:plugin", "cache.b": "t_a:missing"}, t_a=source)
    manager = PluginManager()
    assert "a" == manager.spec("cache", "a").name
    with pytest.raises(PluginBrokenError, match=r"cache\.b of t-a cannot be imported: AttributeError"):
        manager.spec("cache", "b")


def test_two_distributions_may_share_a_module(site: Site) -> None:
    """One plugin module behind the entry points of two distributions serves both names."""
    source = "import burnish\n@burnish.hookimpl\ndef burnish_caches():\n    return [" + ", ".join(
        f"burnish.Spec(name='{name}', open=None)" for name in "ab"
    )
    site.install("t-a", {"cache.a": "t_shared"}, t_shared=f"{source}]\n")
    site.install("t-b", {"cache.b": "t_shared"})
    manager = PluginManager()
    assert ["a", "b"] == [manager.spec("cache", name).name for name in "ab"]


def test_the_built_ins_come_through_the_hooks() -> None:
    """Rule 15: each entry point of `burnish` leads to a spec of its name; nothing else makes a built-in available."""
    manager = PluginManager()
    infos = [info for info in manager.available() if info.distribution == "burnish"]
    assert {"cache.memory", "cache.sqlite", "meter.standard", "sink.jsonl"} <= {info.id for info in infos}
    assert [info.name for info in infos] == [manager.spec(info.kind, info.name).name for info in infos]
    assert [] == PluginManager(discover=False).available()


# --- by hand ---------------------------------------------------------------------------------------------------------


async def test_a_composition_by_hand_needs_no_entry_point() -> None:
    """`discover=False` and `register`: the plugin's names are there, nothing else is, and they open like any other."""
    plugin = Plugin("x")
    manager = PluginManager(discover=False)
    manager.register(plugin, distribution="mine")
    assert [("cache", "x", "mine"), ("sink", "x", "mine"), ("sink", "x-too", "mine")] == [
        (i.kind, i.name, i.distribution) for i in manager.available()
    ]
    env = abc.Environment(base_dir=Path("here"))
    async with manager.open("sink", "x-too", {"size": 3}, env) as shelf:
        assert Shelf(ShelfOptions(size=3), env) == shelf
    assert not shelf.is_open
    assert ["caches", "sinks"] == plugin.calls
    with pytest.raises(PluginNotFoundError, match=r"there is: x\. A.* by custom it is called burnish-sqlite"):
        manager.spec("cache", "sqlite")


async def test_a_component_is_closed_however_its_block_ends() -> None:
    """An error in the block closes it too, and arrives as it is."""
    manager = PluginManager(discover=False)
    manager.register(Plugin("x"))
    shelves = []

    async def use() -> None:
        async with manager.open("cache", "x") as shelf:
            shelves.append(shelf)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await use()
    assert [False] == [shelf.is_open for shelf in shelves]


async def test_an_environment_that_is_not_given_has_the_variables_of_the_process() -> None:
    """A model's key variable is found without further ado; a manager with variables of its own passes those on."""
    for manager, expected in (
        (PluginManager(discover=False), os.environ),
        (PluginManager(discover=False, variables={"KEY": "value"}), {"KEY": "value"}),
    ):
        manager.register(Plugin("x"))
        async with manager.open("cache", "x") as shelf:
            assert expected == shelf.env.variables


def test_by_hand_and_installed_clash_like_any_two(site: Site) -> None:
    """What is registered by hand takes no precedence; blocking decides."""
    site.install("t-x", {"cache.x": "t_x"}, t_x="raise AssertionError")
    manager = PluginManager(blocked=["cache.x@t-x", "sink.x"])
    manager.register(Plugin("x"))
    assert "x" == manager.spec("cache", "x").name
    with pytest.raises(PluginNotFoundError, match=r"sink\.x is blocked"):
        manager.spec("sink", "x")
    manager.register(Plugin("x"), distribution="another")
    with pytest.raises(PluginClashError, match=r"cache\.x is offered by another and registered by hand"):
        manager.spec("cache", "x")
    plain = PluginManager()
    plain.register(Plugin("x"))
    with pytest.raises(PluginClashError, match=r"cache\.x is offered by registered by hand and t-x"):
        plain.spec("cache", "x")
    assert set() == site.imported()


@pytest.mark.parametrize("broken", [object(), None, "burnish_redis", {}, types.SimpleNamespace(burnish_caches=dict)])
def test_what_offers_nothing_cannot_be_registered(broken: Any) -> None:
    """An instance instead of a plugin, a name, an unmarked hook: said at once, and the manager is as it was."""
    manager = PluginManager(discover=False)
    with pytest.raises(PluginBrokenError, match=r"offers nothing; is each hook marked with @burnish\.hookimpl\?"):
        manager.register(broken)
    assert [] == manager.available()


def test_a_registration_that_fails_leaves_nothing_behind() -> None:
    """One kind's hook gives specs, a later one's is broken: none of its names is there, and a second try works."""

    class Half:
        broken = True

        @burnish.hookimpl
        def burnish_caches(self) -> Iterable[Spec[abc.Cache]]:
            return [spec("x")]

        @burnish.hookimpl
        def burnish_sinks(self) -> Iterable[Spec[abc.Sink]]:
            return [1] if self.broken else []  # type: ignore[list-item]

    manager, half = PluginManager(discover=False), Half()
    with pytest.raises(PluginBrokenError, match="gave 1 in its hook burnish_sinks"):
        manager.register(half)
    assert [] == manager.available()
    half.broken = False
    manager.register(half)
    assert ["cache.x"] == [info.id for info in manager.available()]


def test_managers_know_nothing_of_each_other() -> None:
    """There is no global one: what is registered with one is not there in the next (rule 12)."""
    PluginManager(discover=False).register(Plugin("x"))
    assert [] == PluginManager(discover=False).available()
    managers = (PluginManager, pluggy.PluginManager)
    assert [] == [name for name in dir(burnish) if isinstance(getattr(burnish, name), managers)]
