"""Kinds and names come from metadata: nothing is imported for them, and nothing vanishes silently."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from burnish import PluginManager
from burnish.errors import PluginClashError, PluginNotFoundError, UsageError

from .conftest import Site

CACHES = """
from contextlib import asynccontextmanager

import burnish


@asynccontextmanager
async def open_cache(options, env):
    yield NAME


@burnish.hookimpl
def burnish_caches():
    return [burnish.Spec(name=NAME, open=open_cache)]
"""
EXPLODES = "raise RuntimeError('imported, although nobody asked')"


def cache(name: str) -> str:
    return f"NAME = {name!r}\n{CACHES}"


def mine(manager: PluginManager) -> list[tuple[str, str]]:
    """Give what is there beside the repository's own distributions."""
    return [(i.id, i.distribution) for i in manager.available() if i.distribution.startswith("t-")]


def test_what_is_there_is_known_without_importing_it(site: Site) -> None:
    """Kind, name, distribution, version and module are read from metadata (rule 13); blocked ones are listed too."""
    site.install("t-red", {"cache.red": "t_red", "strategy.x.y": "t_red"}, t_red=EXPLODES)
    manager = PluginManager(blocked=["cache.red"])
    assert [("cache.red", "t-red"), ("strategy.x.y", "t-red")] == mine(manager)
    (red,) = (info for info in manager.available("cache") if info.name == "red")
    assert ("cache", "red", "t-red", "1.0", "t_red", True) == (
        red.kind,
        red.name,
        red.distribution,
        red.version,
        red.module,
        red.blocked,
    )
    assert set() == site.imported()


def test_only_what_is_asked_for_is_imported(site: Site) -> None:
    """Installing never activates: one plugin is imported, its neighbours in metadata and on disk are not."""
    site.install("t-red", {"cache.red": "t_red"}, t_red=cache("red"))
    site.install("t-blue", {"cache.blue": "t_blue", "sink.blue": "t_blue"}, t_blue=EXPLODES)
    assert "red" == PluginManager().spec("cache", "red").name
    assert {"t_red"} == site.imported()


@pytest.mark.slow
def test_listing_imports_no_plugin_in_a_fresh_process() -> None:
    """Not even the built-ins: they are listed from the metadata of `burnish` like everyone's."""
    script = (
        "import sys, burnish\n"
        "infos = burnish.PluginManager().available()\n"
        "assert any(i.id == 'cache.sqlite' and i.distribution == 'burnish' for i in infos), infos\n"
        "print(sorted(m for m in sys.modules if m.startswith(('burnish_', 'burnish._builtin'))))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ("[]", "") == (done.stdout.strip(), done.stderr)


def test_a_clash_names_both_distributions_and_the_way_out(site: Site) -> None:
    """Two distributions with one name are an error, and neither is imported; blocking one, as it says, mends it."""
    site.install("t-one", {"cache.red": "t_one"}, t_one=EXPLODES)
    site.install("t-two", {"cache.red": "t_two"}, t_two=cache("red"))
    assert [("cache.red", "t-one"), ("cache.red", "t-two")] == mine(PluginManager())
    with pytest.raises(PluginClashError) as caught:
        PluginManager().spec("cache", "red")
    assert (
        "cache.red is offered by t-one and t-two; uninstall one of them, or block it: "
        "BURNISH_BLOCK_PLUGINS=cache.red@t-one"
    ) == str(caught.value)
    assert set() == site.imported()
    mended = PluginManager(variables={"BURNISH_BLOCK_PLUGINS": "cache.red@t-one"})
    assert "red" == mended.spec("cache", "red").name
    assert {"t_two"} == site.imported()


def test_a_third_party_cannot_take_a_built_in_name_silently(site: Site) -> None:
    """A distribution that offers `cache.sqlite` clashes with `burnish` itself, whatever stands first on the path."""
    site.install("t-taker", {"cache.sqlite": "t_taker"}, t_taker=cache("sqlite"))
    with pytest.raises(PluginClashError, match="offered by burnish and t-taker"):
        PluginManager().spec("cache", "sqlite")


def test_one_distribution_that_offers_a_name_twice_is_named_once(site: Site) -> None:
    """Its entry points hold the same line twice: still an error, and the message does not invent a second one."""
    site.install("t-twice", "cache.red = t_twice\ncache.red = t_twice", t_twice=cache("red"))
    with pytest.raises(PluginClashError, match="offered by t-twice, 2 times"):
        PluginManager().spec("cache", "red")


def test_a_distribution_found_twice_counts_once(site: Site) -> None:
    """The same name (as installers compare it) further back on the path is shadowed, not a clash."""
    site.install("T_Red", {"cache.red": "t_old"}, t_old=EXPLODES)
    site.install("t-red", {"cache.red": "t_new"}, t_new=cache("red"))
    assert "red" == PluginManager().spec("cache", "red").name
    assert {"t_new"} == site.imported()


BLOCKING: list[tuple[dict[str, Any], list[str]]] = [
    ({"blocked": ["cache.red"]}, ["cache.red", "cache.red"]),
    ({"blocked": "cache.red"}, ["cache.red", "cache.red"]),
    ({"blocked": ["cache.*"]}, ["cache.blue", "cache.red", "cache.red"]),
    ({"blocked": ["*.red"]}, ["cache.red", "cache.red", "sink.red"]),
    ({"blocked": ["*@t-one"]}, ["cache.blue", "cache.red"]),
    ({"blocked": ["cache.red@t-two"]}, ["cache.red"]),
    ({"blocked": ["cache.red@T_Two"]}, ["cache.red"]),
    ({"blocked": ["cache.re"]}, []),
    ({"variables": {"BURNISH_BLOCK_PLUGINS": " cache.blue , sink.* ,"}}, ["cache.blue", "sink.red"]),
    ({"variables": {"BURNISH_BLOCK_PLUGINS": ""}}, []),
    ({"blocked": ["cache.blue"], "variables": {"BURNISH_BLOCK_PLUGINS": "sink.red"}}, ["cache.blue", "sink.red"]),
]


@pytest.mark.parametrize(("how", "expected"), BLOCKING)
def test_components_are_blocked_by_argument_and_by_environment(
    site: Site, how: dict[str, Any], expected: list[str]
) -> None:
    """By `kind.name`, with `*`, and by `kind.name@distribution` in any spelling of it; both ways add up."""
    site.install("t-one", {"cache.red": "t_one", "cache.blue": "t_one"})
    site.install("t-two", {"cache.red": "t_two", "sink.red": "t_two"})
    infos = PluginManager(**({"variables": {}} | how)).available()
    assert expected == [i.id for i in infos if i.blocked and i.distribution.startswith("t-")]


def test_the_process_environment_is_heeded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manager made without `variables` reads `BURNISH_BLOCK_PLUGINS` of its process, as the clash error advises."""
    site.install("t-one", {"cache.red": "t_one"}, t_one=EXPLODES)
    monkeypatch.setenv("BURNISH_BLOCK_PLUGINS", "cache.red")
    with pytest.raises(PluginNotFoundError, match=r"cache\.red is blocked; take it out of BURNISH_BLOCK_PLUGINS"):
        PluginManager().spec("cache", "red")


def test_what_is_not_there_is_named_with_what_is(site: Site) -> None:
    """The nearest name, the names of the kind, and how one would be offered; a blocked one is not among them."""
    site.install("t-one", {"executor.dask": "t_one", "executor.gone": "t_one"})
    with pytest.raises(PluginNotFoundError) as caught:
        PluginManager(blocked=["executor.gone"]).spec("executor", "dusk")
    assert (
        "no executor named `dusk` is installed; did you mean `dask`? there is: dask. A distribution offers one through "
        "the entry point `executor.dusk` in the group `burnish`"
    ) == str(caught.value)


@pytest.mark.parametrize("ask", [PluginManager().available, lambda kind: PluginManager().spec(kind, "x")])
def test_an_unknown_kind_is_a_usage_error(ask: Any) -> None:
    """It is the caller's typing error, with the kinds that there are, and not an empty list."""
    with pytest.raises(UsageError, match="there is no kind `cach`; the kinds are metric, strategy, cache"):
        ask("cach")


def test_entry_points_of_no_kind_are_listed_and_harmless(site: Site) -> None:
    """A name without a dot and a kind of the future: listed as they are, named by `check`, in nobody's way."""
    site.install("t-odd", {"gepa": "t_odd", "oracle.delphi": "t_odd", "cache.red": "t_good"}, t_good=cache("red"))
    manager = PluginManager()
    assert [("cache.red", "t-odd"), ("gepa", "t-odd"), ("oracle.delphi", "t-odd")] == mine(manager)
    assert "red" == manager.spec("cache", "red").name
    assert [
        ("gepa", "t-odd offers `gepa`, but there is no such kind"),
        ("oracle.delphi", "t-odd offers `oracle.delphi`, but there is no such kind"),
    ] == [(info.id, str(error)) for info, error in manager.check() if info.distribution == "t-odd"]


def test_a_distribution_with_unreadable_entry_points_costs_only_itself(site: Site) -> None:
    """A file that the standard library cannot parse: the others are found, and `check` names it with its place."""
    damaged = site.install("t-damaged", "cache.blue: this is no entry point")
    site.install("t-red", {"cache.red": "t_red"}, t_red=cache("red"))
    manager = PluginManager()
    assert [("cache.red", "t-red")] == mine(manager)
    assert "red" == manager.spec("cache", "red").name
    ((info, error),) = ((i, e) for i, e in manager.check() if i.distribution == "t-damaged")
    assert "*.*" == info.id
    assert str(error).startswith(f"the entry points of t-damaged in {damaged}")
    assert str(error).endswith("Reinstall or uninstall t-damaged")


def test_a_distribution_without_a_name_is_named_by_its_place(site: Site) -> None:
    """What an interrupted uninstall leaves behind: found, usable, and two of them are not taken for one."""
    first = site.install("left-one", {"cache.red": "t_red"}, metadata="", t_red=cache("red"))
    second = site.install("left-two", {"cache.blue": "t_blue"}, metadata="", t_blue=cache("blue"))
    found = {i.id: i.distribution for i in PluginManager().available("cache")}
    assert found["cache.red"].startswith(str(first))
    assert found["cache.blue"].startswith(str(second))
    assert "red" == PluginManager().spec("cache", "red").name
