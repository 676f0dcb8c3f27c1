"""A broken plugin is named with the way out, harmless to the rest, and fatal only when it is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from burnish import PluginManager, Spec
from burnish.errors import PluginApiError, PluginBrokenError, PluginError, UsageError

from .conftest import Site

GOOD = """
from contextlib import asynccontextmanager

import burnish


@asynccontextmanager
async def open_cache(options, env):
    yield "an instance"


@burnish.hookimpl
def burnish_caches():
    return [burnish.Spec(name="good", open=open_cache)]
"""

HEAD = "import burnish\n\ndef spec(name='bad', **facts):\n    return burnish.Spec(name=name, open=None, **facts)\n\n"


def hook(body: str, signature: str = "def burnish_caches()") -> str:
    """Write a plugin with one hook."""
    return f"{HEAD}@burnish.hookimpl\n{signature}:\n    {body}\n"


BROKEN = {
    "cannot import": (
        "import a_module_that_is_not_there",
        "the plugin cache.bad of t-bad cannot be imported: ModuleNotFoundError: No module named "
        "'a_module_that_is_not_there'. Reinstall or uninstall t-bad, or choose another cache",
    ),
    "syntax": ("def f(:", "the plugin cache.bad of t-bad cannot be imported: SyntaxError: invalid syntax"),
    "leaves the process": (
        "import sys\nsys.exit('this platform will not do')",
        "the plugin cache.bad of t-bad cannot be imported: SystemExit: this platform will not do",
    ),
    "misspelt hook": (
        hook("return []", "def burnish_cachs()"),
        "the plugin of t-bad is no plugin of burnish: unknown hook 'burnish_cachs' in plugin",
    ),
    "misspelt hook, the way out": (hook("return []", "def burnish_cachs()"), "; did you mean `burnish_caches`?"),
    "hook with an argument": (
        hook("return []", "def burnish_caches(options)"),
        "Argument(s) {'options'} are declared in the hookimpl but can not be found in the hookspec",
    ),
    "raises": (
        hook("return [1 / 0]"),
        "the plugin of t-bad failed in its hook burnish_caches: ZeroDivisionError: division by zero. Tell its authors",
    ),
    "exits": (hook("raise SystemExit(3)"), "failed in its hook burnish_caches: SystemExit: 3"),
    "nothing": (
        hook("return None"),
        "the plugin cache.bad of t-bad offers nothing (is it marked with @burnish.hookimpl?) in its hook",
    ),
    "not marked": (f"{HEAD}def burnish_caches():\n    return [spec()]\n", "offers nothing (is it marked with"),
    "a spec, not a list": (hook("return spec()"), "TypeError: 'Spec' object is not iterable"),
    "a number": (hook("return 3"), "TypeError: 'int' object is not iterable"),
    "a text": (hook("return 'bad'"), "gave 'b' in its hook burnish_caches; a hook gives burnish.Spec objects"),
    "the class of a cache": (hook("return [dict]"), "gave <class 'dict'> in its hook burnish_caches"),
    "async": (
        hook("return [spec()]", "async def burnish_caches()"),
        "failed in its hook burnish_caches: TypeError: it is async; a hook is a plain function",
    ),
    "another name": (
        hook("return [spec('worse'), spec('worst')]"),
        "offers worse, worst in its hook burnish_caches, not `bad`",
    ),
    "one name twice": (hook("return [spec(), spec()]"), "offers two specs named `bad` in its hook burnish_caches"),
    "options of no attrs class": (
        hook("return [spec(options=dict)]"),
        "has options of `bad` that are no attrs class: <class 'dict'>",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_plugin_is_named_and_only_fatal_when_asked_for(site: Site, case: str) -> None:
    """Whatever is wrong with it: listing works, a neighbour works before and after, and asking for it says what."""
    source, message = BROKEN[case]
    site.install("t-bad", {"cache.bad": "t_bad"}, t_bad=source)
    site.install("t-good", {"cache.good": "t_good"}, t_good=GOOD)
    manager = PluginManager()
    assert {"bad", "good"} <= {info.name for info in manager.available("cache")}
    assert {"t_good", "t_bad"}.isdisjoint(site.imported())
    assert "good" == manager.spec("cache", "good").name
    for _ in range(2):
        with pytest.raises(PluginBrokenError) as caught:
            manager.spec("cache", "bad")
        assert message in str(caught.value)
        assert "t-bad" in str(caught.value)
        assert isinstance(caught.value, PluginError)
        assert isinstance(caught.value, ImportError)
    assert "good" == manager.spec("cache", "good").name


def test_check_names_what_is_broken_and_goes_on(site: Site) -> None:
    """`check` imports everything that is not blocked and gives each fault with its component, clashes too."""
    site.install("t-bad", {"cache.bad": "t_bad", "cache.barred": "t_bad"}, t_bad=BROKEN["cannot import"][0])
    site.install("t-good", {"cache.good": "t_good", "cache.same": "t_good"}, t_good=GOOD)
    site.install("t-also", {"cache.same": "t_good"})
    faults = [(i.id, i.distribution, type(e).__name__) for i, e in PluginManager(blocked=["cache.barred"]).check()]
    assert [
        ("cache.bad", "t-bad", "PluginBrokenError"),
        ("cache.same", "t-also", "PluginClashError"),
        ("cache.same", "t-good", "PluginClashError"),
    ] == [fault for fault in faults if fault[1].startswith("t-")]


def test_a_misspelt_hook_in_one_plugin_does_not_haunt_the_next(site: Site) -> None:
    """Each plugin is alone with pluggy: what one misspelt is not held against another."""
    site.install("t-bad", {"cache.bad": "t_bad"}, t_bad=hook("return []", "def burnish_cachs()"))
    site.install("t-good", {"cache.good": "t_good"}, t_good=GOOD)
    manager = PluginManager()
    with pytest.raises(PluginBrokenError, match="burnish_cachs"):
        manager.spec("cache", "bad")
    assert "good" == manager.spec("cache", "good").name


def test_a_hook_of_the_future_that_says_it_is_optional_is_let_through(site: Site) -> None:
    """`optionalhook=True` is how a plugin supports two versions of burnish."""
    future = GOOD + "\n@burnish.hookimpl(optionalhook=True)\ndef burnish_oracles():\n    return []\n"
    site.install("t-good", {"cache.good": "t_good"}, t_good=future)
    assert "good" == PluginManager().spec("cache", "good").name


@pytest.mark.parametrize("number", [0, 2])
def test_a_spec_for_another_api_number_is_refused(site: Site, number: int) -> None:
    """The message names both numbers; a spec without one is for API 1."""
    site.install("t-bad", {"cache.bad": "t_bad"}, t_bad=hook(f"return [spec(api={number})]"))
    with pytest.raises(PluginApiError) as caught:
        PluginManager().spec("cache", "bad")
    assert (
        f"cache.bad of t-bad was written for API {number} of the kind cache; this burnish has API 1: install a version "
        "of t-bad made for it"
    ) == str(caught.value)
    assert 1 == Spec(name="x", open=lambda options, env: None).api  # type: ignore[arg-type, return-value]


OPENERS = {
    "a plain function": ("def open_bad(options, env):\n    return 'an instance'", "gave str from `Spec.open`"),
    "an async function": ("async def open_bad(options, env):\n    return 1", "gave coroutine from `Spec.open`"),
    "an async generator": ("async def open_bad(options, env):\n    yield 1", "gave async_generator from"),
}


@pytest.mark.parametrize("case", OPENERS)
async def test_what_is_no_async_context_manager_is_named(site: Site, case: str) -> None:
    """A factory without its decorator is the plugin's fault, said so, and no coroutine is left behind."""
    source, message = OPENERS[case]
    site.install(
        "t-bad",
        {"cache.bad": "t_bad"},
        t_bad=f"import burnish\n{source}\n@burnish.hookimpl\ndef burnish_caches():\n"
        "    return [burnish.Spec(name='bad', open=open_bad)]\n",
    )
    with pytest.raises(PluginBrokenError, match=message):
        async with PluginManager().open("cache", "bad"):
            raise AssertionError("it opened")


async def test_wrong_options_are_refused_before_anything_opens(site: Site) -> None:
    """The usage error names file, component and key; the factory was not called."""
    site.install("t-good", {"cache.good": "t_good"}, t_good=GOOD.replace("yield", "raise AssertionError\n    yield"))
    manager = PluginManager()
    with pytest.raises(UsageError, match=r"burnish\.toml: cache `good`\.ttl: this plugin takes no options"):
        async with manager.open("cache", "good", {"ttl": 1}, file="burnish.toml"):
            raise AssertionError("it opened")


@pytest.mark.parametrize("table", ["text", ["a"], 3])
async def test_a_table_that_is_none_is_refused(table: Any) -> None:
    """`[cache]` written as a text one level too high is a usage error, not a traceback."""
    with pytest.raises(UsageError, match="cache `sqlite`: expected a table, got"):
        async with PluginManager().open("cache", "sqlite", table):
            raise AssertionError("it opened")
