"""Pairs of metrics that differ in one place: which are two, which are one, and which nobody can tell apart."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import types
from pathlib import Path

import pytest

from burnish import CodePrint
from burnish._runtime.codeprint import code_print

Pair = tuple[str, str, str]
"""A source with `<>` in it, and what stands there in the one metric and in the other."""

USES = "def metric(e, p, trace=None):\n    return {}\n"
LOUD = "import functools\ndef loud(f):\n    @functools.wraps(f)\n    def w(*a):\n        return f(*a)\n    return w\n"

DECORATED: dict[str, Pair] = {
    "a context manager": (
        "import contextlib\n@contextlib.contextmanager\ndef f(x):\n    yield <>\n" + USES.format("f(p)"), "x", "-x"),
    "an async context manager": (
        "import contextlib\n@contextlib.asynccontextmanager\nasync def f(x):\n    yield <>\n" + USES.format("f(p)"),
        "x", "-x"),
    "what a context manager refers to": (
        "import contextlib\nK = <>\n@contextlib.contextmanager\ndef f(x):\n    yield K\n" + USES.format("f(p)"),
        "1", "2"),
    "the default of singledispatch": (
        "import functools\n@functools.singledispatch\ndef f(x):\n    return <>\n" + USES.format("f(p)"), "x", "-x"),
    "a registered type of singledispatch": (
        "import functools\n@functools.singledispatch\ndef f(x):\n    return x\n"
        "@f.register\ndef _(x: int):\n    return <>\n" + USES.format("f(p)"), "x", "-x"),
    "which type singledispatch has": (
        "import functools\n@functools.singledispatch\ndef f(x):\n    return x\n"
        "@f.register(<>)\ndef _(x):\n    return 1\n" + USES.format("f(p)"), "int", "str"),
    "a method under singledispatch": (
        "import functools\nclass M:\n    @functools.singledispatchmethod\n    def f(self, x):\n        return x\n"
        "    @f.register\n    def _(self, x: int):\n        return <>\n    def evaluate(self, e, p): return self.f(p)\n"
        "metric = M()\n", "x", "-x"),
    "a cached function": (
        "import functools\n@functools.cache\ndef f(x):\n    return <>\n" + USES.format("f(p)"), "x", "-x"),
    "a wrapper of the user's": (LOUD + "@loud\ndef f(x):\n    return <>\n" + USES.format("f(p)"), "x", "-x"),
    "a wrapper's own code": (
        LOUD.replace("return f(*a)", "return <>f(*a)") + "@loud\ndef f(x): return x\n" + USES.format("f(p)"), "", "-"),
    "a static method as a value": ("f = staticmethod(lambda x: <>)\n" + USES.format("f(p)"), "1", "2"),
    "a partial": ("import functools\nf = functools.partial(pow, <>)\n" + USES.format("f(p)"), "2", "3"),
    "the order of a partial's keywords": (
        "import functools\nf = functools.partial(dict, <>)\n" + USES.format("f()"), "a=1, b=2", "b=2, a=1"),
    "a partial method": (
        "import functools\nclass M:\n    def f(self, k): return k\n    evaluate = functools.partialmethod(f, <>)\n"
        "metric = M()\n", "1", "2"),
    "total ordering": (
        "import functools\n@functools.total_ordering\nclass C:\n    def __eq__(self, o): return True\n"
        "    def __lt__(self, o): return <>\n" + USES.format("C() >= C()"), "True", "False"),
    "a recursive repr": (
        "import reprlib\nclass C:\n    @reprlib.recursive_repr()\n    def __repr__(self): return <>\n"
        + USES.format("repr(C())"), "'a'", "'b'"),
}  # fmt: skip

FUNCTIONS: dict[str, Pair] = {
    "an attribute of the metric": (USES.format("metric.least") + "metric.least = <>\n", "1", "9"),
    "an attribute of a helper": ("def f(): return f.k\nf.k = <>\n" + USES.format("f()"), "1", "2"),
    "a default": ("def metric(e, p, trace=None, k=<>):\n    return k\n", "1", "2"),
    "a default of a keyword": ("def metric(e, p, trace=None, *, k=<>):\n    return k\n", "1", "2"),
    "which argument a default is of": ("def metric(e, p, *, <>):\n    return 1\n", "a=1, b=2", "a=2, b=1"),
    "a cell": ("def make(k):\n    def metric(e, p): return k\n    return metric\nmetric = make(<>)\n", "1", "2"),
    "a function in a cell": (
        "def make(k):\n    def metric(e, p): return k(p)\n    return metric\nmetric = make(lambda p: <>)\n", "1", "2"),
    "an annotation": ("def metric(e: <>, p):\n    return metric.__annotations__\n", "int", "str"),
    "the name of a function inside": ("def metric(e, p):\n    def <>(): pass\n    return metric\n", "a", "b"),
    "a wrapped function's fingerprint": (
        "def m(e, p): return 1.0\nm.fingerprint = 'v1'\n" + LOUD.replace("return f(*a)", "return <>f(*a)")
        + "metric = loud(m)\n", "", "1 - "),
    "a fingerprint of one's own": (USES.format("1") + "metric.fingerprint = <>\n", "'v1'", "'v2'"),
    "a global of two underscores": ("__k = <>\n" + USES.format("__k"), "1", "2"),
    "a large integer": ("K = 10 ** 5000 + <>\n" + USES.format("K"), "0", "1"),
    "a negative zero": ("K = <>\n" + USES.format("K"), "0.0", "-0.0"),
    "a large literal": (USES.format("p == 0x<>" + "0" * 4500), "1", "2"),
}  # fmt: skip

BUILTINS: dict[str, Pair] = {
    "functions of one name": ("from <> import exp as f\n" + USES.format("f(p)"), "math", "cmath"),
    "methods of two types": ("f = <>.index\n" + USES.format("f(p, 1)"), "list", "tuple"),
    "bound built-ins": ("f = <>.get\n" + USES.format("f(p)"), "{'a': 1}", "{'a': 2}"),
    "a method as a class's attribute": (
        "class M:\n    f = str.<>\n    def evaluate(self, e, p): return M.f(p)\nmetric = M()\n", "lower", "upper"),
    "a getter of items": ("import operator\nf = operator.itemgetter(<>)\n" + USES.format("f(p)"), "1", "2"),
    "a getter as a class's attribute": (
        "import operator\nclass M:\n    f = operator.attrgetter(<>)\n    def evaluate(self, e, p): return 1\n"
        "metric = M()\n", "'a'", "'b'"),
    "a caller of methods": (
        "import operator\nf = operator.methodcaller('split', sep=<>)\n" + USES.format("f(p)"), "'a'", "'b'"),
    "library modules": ("import <> as m\n" + USES.format("m.exp(p)"), "math", "cmath"),
    "library functions": ("from os.path import <> as f\n" + USES.format("f(p)"), "dirname", "basename"),
    "library classes": ("from collections import <> as f\n" + USES.format("f(p)"), "Counter", "OrderedDict"),
    "a class that a library makes": (
        "import dataclasses\nC = dataclasses.make_dataclass('C', [], namespace={'f': lambda self: <>})\n"
        + USES.format("C().f()"), "1", "2"),
    "a class that `types` makes": (
        "import types\nC = types.new_class('C', (), {}, lambda space: space.update(f=lambda self: <>))\n"
        + USES.format("C().f()"), "1", "2"),
}  # fmt: skip

VALUES: dict[str, Pair] = {
    "the order of a mapping": ("K = <>\n" + USES.format("next(iter(K))"), "{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}"),
    "the order of a mapping inside": ("K = [<>]\n" + USES.format("K"), "{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}"),
    "the order of a mapping of other keys": ("K = <>\n" + USES.format("K"), "{1: 1, 2: 2}", "{2: 2, 1: 1}"),
    "the default of a defaultdict": (
        "import collections\nK = collections.defaultdict(lambda: <>)\n" + USES.format("K"), "1", "2"),
    "the type of a mapping": (
        "import collections\nK = collections.<>()\n" + USES.format("K"), "Counter", "OrderedDict"),
    "__missing__": (
        "class D(dict):\n    def __missing__(self, k): return <>\nK = D()\n" + USES.format("K['a']"), "1", "2"),
    "an attribute of a mapping": (
        "class D(dict): pass\nK = D()\nK.least = <>\n" + USES.format("K.least"), "1", "2"),
    "an attribute of a list": ("class L(list): pass\nK = L()\nK.least = <>\n" + USES.format("K.least"), "1", "2"),
    "a method of a set": (
        "class S(set):\n    def n(self): return <>\nK = S({1})\n" + USES.format("K.n()"), "1", "2"),
    "the longest of a deque": ("import collections\nK = collections.deque([1], <>)\n" + USES.format("K"), "1", "2"),
    "a method of a text": ("class T(str):\n    def n(self): return <>\nK = T('a')\n" + USES.format("K.n()"), "1", "2"),
    "an attribute of a number": ("class F(float): pass\nK = F(1)\nK.n = <>\n" + USES.format("K.n"), "1", "2"),
    "a method of a date": (
        "import datetime\nclass D(datetime.date):\n    def n(self): return <>\nK = D(2020, 1, 1)\n"
        + USES.format("K.n()"), "1", "2"),
    "a method of a path": (
        "import pathlib\nclass P(type(pathlib.Path())):\n    def n(self): return <>\nK = P('a')\n"
        + USES.format("K.n()"), "1", "2"),
    "a method of a named tuple": (
        "import collections\nclass T(collections.namedtuple('B', 'x')):\n    def n(self): return <>\nK = T(1)\n"
        + USES.format("K.n()"), "1", "2"),
    "a time zone": (
        "import datetime\nK = datetime.timezone(datetime.timedelta(hours=<>))\n" + USES.format("K"), "1", "2"),
    "flags of a pattern": ("import re\nK = re.compile('a', <>)\n" + USES.format("K"), "re.I", "re.S"),
    "a simple namespace": ("import types\nK = types.SimpleNamespace(k=<>)\n" + USES.format("K.k"), "1", "2"),
    "a member's value": ("import enum\nclass E(enum.Enum):\n    A = <>\n" + USES.format("E.A.value"), "1", "2"),
    "a member that is a partial": (
        "import enum, functools\nclass E(enum.Enum):\n    A = functools.partial(pow, <>)\n" + USES.format("E.A"),
        "1", "2"),
    "an attribute of a member": (
        "import enum\nclass E(enum.Enum):\n    A = 1\nE.A.least = <>\n" + USES.format("E.A.least"), "1", "2"),
    "a method of a member": (
        "import enum\nclass E(str, enum.Enum):\n    A = 'a'\n    def n(self): return <>\n" + USES.format("E.A.n()"),
        "1", "2"),
    "the order of members": (
        "import enum\nclass E(enum.Enum):\n    <>\n" + USES.format("list(E)"), "A = 1; B = 2", "B = 2; A = 1"),
    "a method of members in a set": (
        "import enum\nclass E(enum.Enum):\n    A = 1\n    def n(self): return <>\nK = {E.A}\n" + USES.format("K"),
        "1", "2"),
    "a class in a set": ("class C:\n    k = <>\nK = {C, int}\n" + USES.format("K"), "1", "2"),
    "the bound of a type variable": (
        "import typing\nclass C:\n    k = <>\nK = typing.TypeVar('K', bound=C)\n" + USES.format("K"), "1", "2"),
    "what a new type is of": (
        "import typing\nclass C:\n    k = <>\nK = typing.NewType('K', C)\n" + USES.format("K"), "1", "2"),
    "metadata of an annotation": (
        "import typing\nclass C:\n    def __init__(self, k): self.k = k\n"
        "K = typing.Annotated[int, C(<>)]\n" + USES.format("K"), "1", "2"),
    "a mapping that lies about itself": (
        "class D(dict):\n    def __len__(self): raise ValueError\n    def items(self): return []\nK = D(a=<>)\n"
        + USES.format("K"), "1", "2"),
    "an argument of a generic": ("class C:\n    k = <>\nK = list[C]\n" + USES.format("K"), "1", "2"),
    "a member of an optional": (
        "import typing\nclass C:\n    k = <>\nK = typing.Optional[C]\n" + USES.format("K"), "1", "2"),
}  # fmt: skip

MADE = "metric = M()\n"
CLASSES: dict[str, Pair] = {
    "the code of a metaclass": (
        "class T(type):\n    def s(c): return <>\nclass M(metaclass=T):\n    def evaluate(self, e, p): return M.s()\n"
        + MADE, "1", "2"),
    "an attribute of a static method": (
        "class M:\n    @staticmethod\n    def f(): return 1\n    f.k = <>\n"
        "    def evaluate(self, e, p): return vars(M)['f'].k\n" + MADE, "1", "2"),
    "an argument of a class's making": (
        "class B:\n    def __init_subclass__(cls, k): cls.k = k\nclass M(B, k=<>):\n"
        "    def evaluate(self, e, p): return self.k\n" + MADE, "1", "2"),
    "an object as __call__": (
        "class C:\n    def __init__(s, w): s.w = w\n    def __call__(s, e, p): return s.w\n"
        "class M:\n    __call__ = C(<>)\n" + MADE, "1", "2"),
    "data under two underscores": (
        "class M:\n    __weights__ = {'a': <>}\n    def evaluate(self, e, p): return self.__weights__\n" + MADE,
        "1", "2"),
    "a slot under two underscores": (
        "class M:\n    __slots__ = ('__k',)\n    def __init__(self): self.__k = <>\n"
        "    def evaluate(self, e, p): return self.__k\n" + MADE, "1", "2"),
    "an inherited attribute": (
        "class B:\n    k = <>\nclass M(B):\n    def evaluate(self, e, p): return self.k\n" + MADE, "1", "2"),
    "an inherited property": (
        "class B:\n    @property\n    def k(self): return <>\n"
        "class M(B):\n    def evaluate(self, e, p): return self.k\n" + MADE, "1", "2"),
    "a cached property": (
        "import functools\nclass M:\n    @functools.cached_property\n    def k(self): return <>\n"
        "    def evaluate(self, e, p): return self.k\n" + MADE, "1", "2"),
    "a descriptor": (
        "class D:\n    def __init__(self, k): self.k = k\n    def __get__(self, one, kind): return self.k\n"
        "class M:\n    k = D(<>)\n    def evaluate(self, e, p): return self.k\n" + MADE, "1", "2"),
    "a doc text, which may be a prompt": (
        "class M:\n    '''<>'''\n    def evaluate(self, e, p): return self.__doc__\n" + MADE, "a", "b"),
    "a class that an annotation names": (
        "from __future__ import annotations\nimport enum\nclass E(enum.Enum):\n    A = <>\n"
        "class M:\n    answer: list[E]\n    def evaluate(self, e, p): return 1\n" + MADE, "'a'", "'b'"),
    "metadata of a dataclass": (
        "import dataclasses\n@dataclasses.dataclass\nclass M:\n"
        "    k: int = dataclasses.field(default=1, metadata={'desc': <>})\n    def evaluate(self, e, p): return 1\n"
        + MADE, "'a'", "'b'"),
    "metadata of an attrs class": (
        "import attrs\n@attrs.frozen\nclass M:\n    k: int = attrs.field(default=1, metadata={'desc': <>})\n"
        "    def evaluate(self, e, p): return 1\n" + MADE, "'a'", "'b'"),
    "a validator of an attrs class": (
        "import attrs\n@attrs.frozen\nclass M:\n    k: int = attrs.field(default=1, validator=lambda s, a, v: <>)\n"
        "    def evaluate(self, e, p): return 1\n" + MADE, "1", "2"),
    "what a generic base is given": (
        "import typing\nT = typing.TypeVar('T')\nclass B(typing.Generic[T]): pass\nclass C:\n    k = <>\n"
        "class M(B[C]):\n    def evaluate(self, e, p): return self.__orig_bases__\n" + MADE, "1", "2"),
    "a bound method with a fingerprint": (
        "class M:\n    def __init__(self, k): self.k = k\n    def f(self, e, p): return self.k\n"
        "    f.fingerprint = 'v1'\nmetric = M(<>).f\n", "1", "2"),
    "an heir of a class with a fingerprint": (
        "class B:\n    fingerprint = 'v1'\nclass M(B):\n    def evaluate(self, e, p): return <>\n" + MADE, "1", "2"),
    "an heir of a class that makes its fingerprint": (
        "class B:\n    @property\n    def fingerprint(self): return 'v1'\n"
        "class M(B):\n    def evaluate(self, e, p): return <>\n" + MADE, "1", "2"),
    "one that passes attributes on": (
        "class N:\n    fingerprint = 'v1'\n    def evaluate(self, e, p): return 1.0\n"
        "class M:\n    def __init__(self): self.n = N()\n"
        "    def __getattr__(self, name): return getattr(self.n, name)\n"
        "    def evaluate(self, e, p): return <>\n" + MADE, "1", "2"),
    "a module that makes its attributes": (
        "def __getattr__(name): return <>\nimport users\ndef metric(e, p): return users.anything\n", "1", "2"),
    "a formatter of the logging library": (
        "import logging\nf = logging.Formatter('%(message)s<>')\n" + USES.format("f.format(p)"), "a", "b"),
    "what a logger's adapter adds": (
        "import logging\nf = logging.LoggerAdapter(logging.getLogger('a'), {'k': <>})\n" + USES.format("f.extra['k']"),
        "1", "2"),
    "a class that only inherits": ("class B:\n    k = <>\nclass M(B): pass\nK = M()\n" + USES.format("K"), "1", "2"),
    "one that has methods like a predictor": (
        "class M:\n    def describe(self): raise ValueError\n    get_state = describe\n    k = <>\n"
        "    def evaluate(self, e, p): return self.k\n" + MADE, "1", "2"),
    "one that raises when it is looked at": (
        "class M:\n    def __init__(self): self.k = <>\n    def __getattribute__(self, name):\n"
        "        if name == '__dict__': raise ValueError(name)\n        return object.__getattribute__(self, name)\n"
        "    def evaluate(self, e, p): return self.k\n" + MADE, "1", "2"),
    "a class made without a module": (
        "space = {}\nexec('class M:\\n def evaluate(self, e, p): return <>', space)\nM = space['M']\n" + MADE,
        "1", "2"),
    "a function made without a module": (
        "space = {'k': <>}\nexec('def metric(e, p): return k', space)\nmetric = space['metric']\n", "1", "2"),
    "an object with a state that is no predictor": (
        "class M:\n    k = <>\n    def describe(self): return 'a'\n    def get_state(self): return {}\n"
        "    def evaluate(self, e, p): return self.k\n" + MADE, "1", "2"),
}  # fmt: skip

DIFFERENT = {**DECORATED, **FUNCTIONS, **BUILTINS, **VALUES, **CLASSES}

SAME: dict[str, Pair] = {
    "comments and lines": ("<>" + USES.format("1"), "", "# a comment\n\n"),
    "what nobody refers to": ("K = <>\n" + USES.format("1"), "1", "2"),
    "the order of a set": ("K = <>\n" + USES.format("K"), "{'a', 'b', 'c'}", "{'c', 'b', 'a'}"),
    "a count that the metric keeps": (
        "n = <>\ndef metric(e, p):\n    global n\n    n += 1\n    return 1.0\n", "0", "7"),
    "what was called before": (
        "import functools\n@functools.cache\ndef f(x): return x\n<>\n" + USES.format("f(p)"), "", "f(1)"),
    "what was dispatched before": (
        "import functools, collections.abc\n@functools.singledispatch\ndef f(x): return x\n"
        "@f.register\ndef _(x: collections.abc.Sized): return 1\n<>\n" + USES.format("f(p)"), "", "f(1); f([])"),
    "what was made on demand": (
        "import functools\nclass M:\n    @functools.cached_property\n    def k(self): return 1\n"
        "    def evaluate(self, e, p): return self.k\nmetric = M()\n<>\n", "", "metric.k"),
    "flags that were put together before": (
        "import enum\nclass F(enum.Flag):\n    A = 1\n    B = 2\n<>\n" + USES.format("F.A"), "", "F.A | F.B; ~F.A"),
    "a logger": ("import logging\nlog = logging.getLogger(<>)\n" + USES.format("log.name"), "'a'", "'b'"),
    "one fingerprint": (USES.format("<>") + "metric.fingerprint = 'v1'\n", "1", "2"),
    "a class with one fingerprint": (
        "class M:\n    fingerprint = 'v1'\n    def evaluate(self, e, p): return <>\nmetric = M()\n", "1", "2"),
}  # fmt: skip

OPAQUE: dict[str, str] = {
    "an array": "import array\nK = array.array('i', [1])\n" + USES.format("K"),
    "a context variable": "import contextvars\nK = contextvars.ContextVar('k', default=1)\n" + USES.format("K"),
    "a generator": "K = (n for n in [1])\n" + USES.format("K"),
    "a random generator": "import random\nK = random.Random(1)\n" + USES.format("K"),
    "an exception": "K = ValueError('a')\n" + USES.format("K"),
    "a weak reference": "import weakref\nclass C: pass\nc = C()\nK = weakref.ref(c)\n" + USES.format("K"),
    "a proxy": (
        "class P:\n    @property\n    def __class__(self): return int\nK = P()\n" + USES.format("K")),
    "a list in a cell": "def make(k):\n    def metric(e, p): return k\n    return metric\nmetric = make([1])\n",
    "a module of the user's in a list": "import users\nK = [users]\n" + USES.format("K"),
    "a module that is not imported yet": "def metric(e, p):\n    import later_on\n    return later_on.f(p)\n",
    "a part of a module that is not imported": "def metric(e, p):\n    from users import sub\n    return sub.f(p)\n",
    "a time zone of the user's": (
        "import datetime\nclass Z(datetime.tzinfo): pass\nK = datetime.datetime(2020, 1, 1, tzinfo=Z())\n"
        + USES.format("K")),
    "globals by a computed name": "K = 1\ndef metric(e, p): return globals()['K']\n",
    "a module by a computed name": "import importlib\ndef metric(e, p): return importlib.import_module(p)\n",
    "a C structure": "import struct\nK = struct.Struct('i')\n" + USES.format("K"),
    "a model whose identity is none": (
        "class M:\n    complete = None\n    identity = {'a': object()}\nK = M()\n" + USES.format("K")),
    "deep values": "K = [object]\nfor _ in range(5000): K = [K]\n" + USES.format("K"),
}  # fmt: skip


def printed(source: str, part: str = "", *, call: bool = False) -> CodePrint:
    """Print the metric of a source, as a module of the user's that is thrown away after it; call it before that."""
    module = types.ModuleType("users")
    before, sys.modules["users"] = sys.modules.get("users"), module
    try:
        exec(compile(source.replace("<>", part), "users.py", "exec"), module.__dict__)
        if call:
            with contextlib.suppress(Exception):
                getattr(module.metric, "evaluate", module.metric)("a", "b")
        return code_print(module.metric)
    finally:
        del sys.modules["users"]
        if before is not None:
            sys.modules["users"] = before


@pytest.mark.parametrize("what", DIFFERENT)
def test_what_decides_a_score_is_in_the_print(what: str) -> None:
    """E34: two metrics that differ in one place have two prints, and each has one, with nothing opaque in it."""
    source, one, other = DIFFERENT[what]
    prints = [printed(source, part) for part in (one, other, one)]
    assert [(), (), ()] == [each.opaque for each in prints]
    assert prints[0].fingerprint == prints[2].fingerprint != prints[1].fingerprint


@pytest.mark.parametrize("what", SAME)
def test_what_decides_no_score_is_not_in_the_print(what: str) -> None:
    """Text that does not run, and caches of what ran before, make no other metric."""
    source, one, other = SAME[what]
    assert printed(source, one) == printed(source, other)


@pytest.mark.parametrize("what", OPAQUE)
def test_what_cannot_be_seen_is_opaque(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has no content to go by is named, so that nothing is shared because two of them look alike."""
    (tmp_path / "later_on.py").write_text("def f(p): return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert 1 == len(printed(OPAQUE[what]).opaque)


@pytest.mark.slow
def test_prints_are_the_same_in_every_process() -> None:
    """Neither the hash seed, nor what was printed before, nor a call of the metric makes another print of it."""
    script = (
        "import sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from test_codeprint_pairs import DIFFERENT, printed\n"
        "order, call = {'1': (1, False), '2': (-1, False), '3': (1, True)}[sys.argv[1]]\n"
        "found = {name: printed(source, one, call=call).fingerprint\n"
        "         for name, (source, one, _) in list(DIFFERENT.items())[::order]}\n"
        "print('\\n'.join(f'{name}: {text}' for name, text in sorted(found.items())))\n"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", script, seed],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout.splitlines()
        for seed in ("1", "2", "3")
    ]
    assert len(DIFFERENT) == len(outputs[0])
    assert outputs[0] == outputs[1] == outputs[2]
