"""What of code is its identity: what it runs, what it refers to, and what it leaves out."""

from __future__ import annotations

import importlib.util
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest

import burnish as b
from burnish import EvalEngine, RolloutCache
from burnish._runtime.codeowner import distribution
from burnish._runtime.codeprint import code_print
from burnish.testing import ScriptedModel

from ._kit import Ambient, echo, evaluated, rows


def module_of(source: str, name: str = "users") -> Any:
    """Make a module of a user's, without a file."""
    module = types.ModuleType(name)
    exec(compile(source, f"{name}.py", "exec"), module.__dict__)
    return module


def print_of(source: str, thing: str = "metric") -> str:
    printed = code_print(getattr(module_of(source), thing))
    assert () == printed.opaque
    return printed.fingerprint


def branches(good: bool) -> Any:
    """Two classes of one qualified name."""
    if good:

        class Program:
            weight = 1

            def __call__(self, q: Any) -> Any:
                return q

    else:

        class Program:  # type: ignore[no-redef]
            weight = 1

            def __call__(self, q: Any) -> Any:
                return q + 1

    return Program()


async def test_two_classes_of_one_name_are_two_programs() -> None:
    """A class is its own members, not the text that is found under its name: the worse one gets its own score."""
    good, bad, cache = branches(True), branches(False), RolloutCache()
    assert type(good).__qualname__ == type(bad).__qualname__
    assert code_print(good).fingerprint == code_print(branches(True)).fingerprint

    def same(example: Any, prediction: Any) -> float:
        return float(prediction == example["q"])

    engine = EvalEngine(rows(2), same, cache=cache)
    index = engine.register(b.Candidate())
    assert (1.0, 0.0) == tuple([evaluated(await engine.evaluate(each, index)).mean() for each in (good, bad)])


MEMBERS = [
    ("class attribute", "weight = 1", "weight = 2"),
    ("property", "@property\n    def p(self): return 1", "@property\n    def p(self): return 2"),
    ("static method", "@staticmethod\n    def p(): return 1", "@staticmethod\n    def p(): return 2"),
    ("class method", "@classmethod\n    def p(cls): return 1", "@classmethod\n    def p(cls): return 2"),
    ("class inside", "class In:\n        x = 1", "class In:\n        x = 2"),
    ("annotation", "x: int", "x: float"),
    ("try block", "def p(self):\n        try: return f()\n        except ValueError: return 1\n        return 0",
     "def p(self):\n        try: return f()\n        except ValueError: return 2\n        return 0"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "one", "other"), MEMBERS, ids=[what for what, *_ in MEMBERS])
def test_every_member_of_a_class_counts(what: str, one: str, other: str) -> None:
    """What a class defines is its code, whatever the form."""
    source = "class Metric:\n    def evaluate(self, e, p, t=None): return 1.0\n    {}\nmetric = Metric()\n"
    assert print_of(source.format(one)) != print_of(source.format(other))
    assert print_of(source.format(one)) == print_of(source.format(one))


REFERRED = [
    ("function", "def norm(s): return s.lower()", "def norm(s): return 'x'"),
    ("function behind a function", "def low(s): return s\ndef norm(s): return low(s)",
     "def low(s): return 'x'\ndef norm(s): return low(s)"),
    ("class", "class norm:\n    def of(self): return 1", "class norm:\n    def of(self): return 2"),
    ("object", "class N:\n    def __init__(self, k): self.k = k\n    def __call__(self, s): return self.k\nnorm = N(1)",
     "class N:\n    def __init__(self, k): self.k = k\n    def __call__(self, s): return self.k\nnorm = N(2)"),
    ("number", "norm = 1", "norm = 2"),
    ("list", "norm = [1, {'a': 2}]", "norm = [1, {'a': 3}]"),
    ("list of functions", "norm = [lambda s: 1]", "norm = [lambda s: 2]"),
    ("set", "norm = {'a', 'b', 'c'}", "norm = {'a', 'b', 'd'}"),
    ("pattern", "import re\nnorm = re.compile('a')", "import re\nnorm = re.compile('b')"),
    ("member", "import enum\nclass E(enum.Enum):\n    A = 1\n    B = 2\nnorm = E.A",
     "import enum\nclass E(enum.Enum):\n    A = 1\n    B = 2\nnorm = E.B"),
    ("cached function", "import functools\n@functools.lru_cache\ndef norm(s): return 1",
     "import functools\n@functools.lru_cache\ndef norm(s): return 2"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "one", "other"), REFERRED, ids=[what for what, *_ in REFERRED])
def test_what_code_refers_to_is_its_identity(what: str, one: str, other: str) -> None:
    """E34: functions, classes and constants of the user's own, under global names and in nested functions, count."""
    source = "{}\ndef metric(e, p, trace=None): return [norm(x) for x in p]\n"
    assert print_of(source.format(one)) != print_of(source.format(other))
    assert print_of(source.format(one)) == print_of("# another text\n\n" + source.format(one))


def test_helpers_of_another_module_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """`helpers.norm` and what `from helpers import norm` gave are followed; what nobody refers to is not."""
    prints = []
    for body, other in (("s.lower()", "1"), ("'x'", "1"), ("s.lower()", "2")):
        helpers = module_of(f"def low(s): return {body}\ndef norm(s): return low(s)\ndef far(): return {other}", "help")
        monkeypatch.setitem(sys.modules, "helpers", helpers)
        prints.append(print_of("import helpers\ndef metric(e, p, trace=None): return helpers.norm(p)"))
        assert prints[-1] != print_of("from helpers import norm\ndef metric(e, p, trace=None): return norm(p)")
    assert prints[0] == prints[2] != prints[1]


def install(directory: Path, package: str, source: str, **metadata: str) -> Any:
    """Write a module into a directory, with the metadata of a distribution, and import it afresh."""
    file = directory / f"{package}.py"
    file.parent.mkdir(parents=True)
    file.write_text(source)
    for name, text in metadata.items():
        info = directory / f"{package}-1.dist-info" / name.replace("_json", ".json")
        info.parent.mkdir(exist_ok=True)
        info.write_text(text)
    spec = importlib.util.spec_from_file_location(package, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[package] = module
    spec.loader.exec_module(module)
    return module


VERSION = {"METADATA": "Metadata-Version: 2.1\nName: {}\nVersion: {}\n"}
INSTALLED = [
    ("its version counts, not its code", "site-packages", "1", "1", {}, "by name"),
    ("another version is other code", "site-packages", "1", "2", {}, "told apart"),
    ("a user's own file", "src", "1", "1", {}, "told apart"),
    ("without a version", "site-packages", None, None, {}, "told apart"),
    ("from a directory", "site-packages", "1", "1", {"direct_url_json": '{"dir_info": {}}'}, "told apart"),
]


@pytest.mark.parametrize(
    ("what", "where", "one", "other", "more", "expected"), INSTALLED, ids=[what for what, *_ in INSTALLED]
)
def test_installed_code_counts_by_name_and_version(
    what: str, where: str, one: str | None, other: str | None, more: dict[str, str], expected: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Of an installed package nothing is looked into, unless it has no version, or the thing itself comes from it."""
    prints = []
    package = f"helpers{INSTALLED.index((what, where, one, other, more, expected))}"
    monkeypatch.setitem(sys.modules, package, types.ModuleType(package))
    for number, (body, version) in enumerate((("1", one), ("2", other))):
        directory = tmp_path / str(number) / where
        metadata = {} if version is None else {"METADATA": VERSION["METADATA"].format(package, version), **more}
        source = f"def norm(s): return {body}\ndef metric(e, p, trace=None): return norm(p)\n"
        helpers = install(directory, package, source, **metadata)
        monkeypatch.syspath_prepend(directory)
        distribution.cache_clear()
        using = module_of(f"from {package} import norm\ndef metric(e, p, trace=None): return norm(p)")
        prints.append((code_print(using.metric), code_print(helpers.metric)))
    assert {()} == {each.opaque for pair in prints for each in pair}
    assert (expected == "by name") == (prints[0][0] == prints[1][0])
    assert prints[0][1] != prints[1][1]


def test_a_library_decorator_does_not_hide_what_it_wraps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an installed decorator has made of the user's function counts by that function, and by the version."""
    source = (
        "import functools\ndef retry(f):\n    @functools.wraps(f)\n    def w(*a): return f(*a)\n    return w\n"
        "def quiet(f):\n    def w(*a): return f(*a)\n    return w\n"
    )
    monkeypatch.setitem(sys.modules, "retrying", types.ModuleType("retrying"))
    install(tmp_path / "site-packages", "retrying", source, METADATA=VERSION["METADATA"].format("retrying", "1"))
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    for decorator in ("retry", "quiet"):
        text = f"import retrying\n@retrying.{decorator}\ndef f(x): return <>\ndef metric(e, p, trace=None): return f(p)"
        assert print_of(text.replace("<>", "1")) != print_of(text.replace("<>", "2"))
        assert print_of(text.replace("<>", "1")) == print_of(text.replace("<>", "1"))


@pytest.mark.parametrize("name", ["chunk", "burnish_mine"])
def test_a_file_named_like_a_library_s_is_the_user_s(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a module lies decides whose it is: a `chunk.py`, or a plugin that is being written, is looked into."""
    prints = []
    for body in ("1", "2"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
        install(tmp_path / body, name, f"def norm(s): return {body}\n")
        prints.append(print_of(f"import {name}\ndef metric(e, p, trace=None): return {name}.norm(p)"))
    assert prints[0] != prints[1]


def test_modules_inside_functions_and_packages_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """E34: `import pkg.sub` in a function, a module in a closure, and constants deep in packages, around a circle."""
    readings = [
        "def metric(e, p):\n    from pkg.a.b.c import K\n    return K",
        "def metric(e, p):\n    import pkg.a.b.c as c\n    return c.K",
        "import pkg\ndef metric(e, p): return pkg.a.b.c.K",
        "import pkg\ndef make(m):\n    def metric(e, p): return m.K\n    return metric\nmetric = make(pkg.a.b.c)",
        "def metric(e, p):\n    def inner():\n        import pkg.a.b.c\n        return pkg.a.b.c.K\n    return inner()",
    ]
    names = ["pkg", "pkg.a", "pkg.a.b", "pkg.a.b.c"]
    for reading in readings:
        prints = []
        for value in (1, 2, 1):
            modules = [module_of(f"K = {value if name == names[-1] else 0}", name) for name in names]
            for name, module, inner in zip(names, modules, [*modules[1:], modules[0]], strict=True):
                monkeypatch.setitem(sys.modules, name, module)
                setattr(module, inner.__name__.rpartition(".")[2], inner)
            prints.append(print_of(reading))
        assert prints[0] == prints[2] != prints[1]


def test_objects_without_content_are_opaque_and_state_is_no_constant() -> None:
    """A lock under a global name is told apart by object; a number that the code counts up is no part of it."""
    held = module_of("def metric(e, p, trace=None): return guard")
    held.guard = threading.Lock()
    assert (held.guard,) == code_print(held.metric).opaque
    counts = "n = {}\ndef metric(e, p, trace=None):\n    global n\n    n += 1\n    return 1.0\n"
    assert print_of(counts.format(0)) == print_of(counts.format(7))
    logs = "import logging\nlog = logging.getLogger('{}')\ndef metric(e, p, trace=None): return log.name"
    assert print_of(logs.format("a"))


def test_code_that_refers_to_itself_ends() -> None:
    """Functions that call one another, and an object that holds itself, are written once."""
    assert print_of("def a(n): return metric(n)\ndef metric(n): return a(n)")
    assert print_of("class M:\n    def evaluate(self, e, p): return metric\nmetric = M()\nmetric.me = metric")


def test_tangled_and_large_values_end() -> None:
    """Lists that hold themselves and one another, and tables of many values, are written in bounded time."""
    using = module_of("def metric(e, p, trace=None): return table")
    using.table = [object() if n == 0 else None for n in range(20)]
    using.table.extend([using.table] * 20)
    assert 1 == len(code_print(using.metric).opaque)
    loop: list[Any] = [[]]
    for _ in range(30):
        loop = [loop, loop, (loop, loop, {1: loop})]
    using.table = loop
    assert len(code_print(using.metric).opaque) < 100
    using.table = {f"word {n}": n for n in range(50_000)}
    assert () == code_print(using.metric).opaque
    using.table = set(using.table)
    assert () == code_print(using.metric).opaque


CLASSES = [
    "import attrs\n@attrs.frozen\nclass M:\n    w: float = {}\n    ks: list = attrs.field(factory=list)\n",
    "import attrs\n@attrs.define(kw_only=True)\nclass M:\n    w: float = attrs.field(default={}, converter=float)\n",
    "import dataclasses\n@dataclasses.dataclass\nclass M:\n    w: float = {}\n",
    "import typing\nclass M(typing.NamedTuple):\n    w: float = {}\n",
    "import typing\nT = typing.TypeVar('T')\nclass M(typing.Generic[T]):\n    __slots__ = ('w',)\n"
    "    def __init__(self): self.w = {}\n",
    "import abc, typing\nclass B(abc.ABC):\n    @abc.abstractmethod\n    def a(self): ...\nclass M(B):\n    w = {}\n"
    "    def a(self): return super().a()\n",
    "import typing\nclass P(typing.Protocol):\n    def a(self) -> int: ...\nclass M(P):\n    w = {}\n",
    "import functools\nclass M:\n    @functools.cached_property\n    def w(self): return {}\n",
    "import functools\nclass M:\n    @functools.lru_cache\n    def w(self): return {}\n",
]


@pytest.mark.parametrize("source", CLASSES)
def test_classes_of_all_kinds_have_content(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What decorators and bases make of a class leaves nothing opaque, and hides no setting."""
    monkeypatch.setitem(sys.modules, "users", types.ModuleType("users"))  # dataclasses look for it
    source += "metric = M()\ndef function(e, p, trace=None): return M()\n"
    for thing in ("metric", "function"):
        prints = [print_of(source.format(weight), thing) for weight in (1, 2, 1)]
        assert prints[0] == prints[2] != prints[1]


def test_models_count_by_their_identity() -> None:
    """A judge under a global name is what it says it is, and no object without content."""
    using = module_of("def metric(e, p, trace=None): return judge")
    prints = []
    for name in ("one", "two", "one"):
        using.judge = ScriptedModel([], name=name)
        printed = code_print(using.metric)
        assert () == printed.opaque
        prints.append(printed.fingerprint)
    assert prints[0] == prints[2] != prints[1]


async def test_a_changed_helper_gets_no_old_score() -> None:
    """E34, WE: two processes that share a cache, with a helper changed in between: the second is scored anew."""
    cache, scores = RolloutCache(), []
    for value in (0.25, 0.75, 0.25):
        users = module_of(f"def score(p): return {value}\ndef metric(e, p, trace=None): return score(p)")
        engine = EvalEngine(rows(2), users.metric, cache=cache)
        evaluation = evaluated(await engine.evaluate(Ambient(echo), engine.register(b.Candidate())))
        scores.append((evaluation.mean(), engine.spend.cache_hits))
    assert [(0.25, 0), (0.75, 0), (0.25, 2)] == scores
