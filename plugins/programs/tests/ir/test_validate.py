"""What every program holds to, checked when it is made: errors name place and field (section 4, validation)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from burnish_programs import Signature, ir
from burnish_programs._annotation import parse_annotation
from burnish_programs.ir._fit import widens

P = ir.Predict
H = ir.Hole


def refused(place: str, *nodes: ir.Node, out: Any = None, **options: Any) -> str:
    """Make a program of nodes that is refused at a place; gives why."""
    root = ir.Seq(nodes, {"a": "x.a"} if out is None else out)
    with pytest.raises(ir.ProgramError) as caught:
        ir.Program(**{"sig": "q -> a", "root": root, **options})
    assert place == caught.value.place
    return caught.value.why


def leaf(name: str = "x", sig: str = "q -> a", **bindings: Any) -> ir.Predict:
    """A leaf; its input is the program's unless said."""
    return P(name, sig, bindings or {"q": "$.q"})


def test_every_input_is_bound_once() -> None:
    """A missing and an unknown binding name leaf and field."""
    assert "nothing is bound to this input of `x`" == refused("nodes[0].inputs.q", P("x", "q -> a"))
    assert "`x` has no such input; it has `q`" == refused("nodes[0].inputs.p", leaf(q="$.q", p="$.q"))
    assert "nothing is" in refused("nodes[1].child.inputs.q", leaf("y"), ir.Retry(P("x", "q -> a")))


def test_ports_read_what_is_there() -> None:
    """Inputs, earlier nodes and their fields; the error lists what could be read."""
    assert "the program has no input `p`; it takes `q`" == refused("nodes[0].inputs.q", leaf(q="$.p"))
    assert "`y` is no node of the program; to be read here: `$`" == refused("nodes[0].inputs.q", leaf(q="y.a"))
    why = refused("nodes[0].inputs.q", leaf(q="y.a"), leaf("y"))
    assert "`y` stands later, or where this cannot see it; to be read here: `$`" == why
    assert "`y` has no output `b`; it gives `a`" == refused("nodes[1].inputs.q", leaf("y"), leaf(q="y.b"))
    assert "stands later" in refused("nodes[0].inputs.q", leaf(q="x.a"))


def test_branches_do_not_read_each_other() -> None:
    """They run at once; what comes after the fork reads all of them."""
    fork = ir.ForkJoin([leaf("y"), leaf("z", q="y.a")])
    assert "where this cannot see it" in refused("nodes[0].branches[1].inputs.q", fork)
    ir.Program(sig="q -> a", root=ir.Seq([ir.ForkJoin([leaf("y"), leaf("z")]), leaf(q="z.a")], {"a": "y.a"}))


def test_what_stands_in_a_seq_is_read_through_its_outputs() -> None:
    """Inner names stay inside; the name of the `Seq` is the address of its `out`, constants included."""
    inner = ir.Seq([leaf("y")], {"b": "y.a", "c": ir.Lit(3)}, name="s")
    assert "where this cannot see it" in refused("nodes[1].inputs.q", inner, leaf(q="y.a"))
    wants = P("x", "b: str, c: int -> a", {"b": "s.b", "c": "s.c"})
    ir.Program(sig="q -> a", root=ir.Seq([inner, wants], {"a": "x.a"}))
    assert "is a text, a number" in refused("nodes[0].out.c", ir.Seq([leaf("y")], {"c": ir.Lit([1])}, name="s"))
    assert "there is no node" == refused("nodes[0].body", ir.Seq([]))
    assert "there is no node" == refused("nodes")


def test_types_fit() -> None:
    """Equal or wider, said with both fields; a bare name on the left takes anything; constants are checked too."""
    number = leaf("n", "q -> n: float")
    why = refused("nodes[1].inputs.i", number, P("x", "i: int -> a", {"i": "n.n"}))
    assert "`i: int` does not take `n: float`" == why
    assert "expected a whole number, got str 'one'" == refused(
        "nodes[0].inputs.i", P("x", "i: int -> a", {"i": ir.Lit("one")})
    )
    ir.Program(sig="q -> a", root=ir.Seq([number, P("x", "n -> a", {"n": "n.n"})], {"a": "x.a"}))
    ir.Program(sig="q -> a", root=ir.Seq([P("x", "n: float -> a", {"n": ir.Lit(1)})], {"a": "x.a"}))


@pytest.mark.parametrize(
    ("given", "wanted", "fits"),
    [
        ("int", "float", True),
        ("float", "int", False),
        ("bool", "int", False),
        ("str", "str | None", True),
        ("str | None", "str", False),
        ("int | None", "float | None", True),
        ("Literal['a']", "str", True),
        ("Literal['a']", "Literal['a', 'b']", True),
        ("Literal['a', 'b']", "Literal['a']", False),
        ("Literal[1]", "Literal[True]", False),
        ("Literal[1, 2]", "float", True),
        ("Literal['a', 1]", "str", False),
        ("str", "Literal['a']", False),
        ("list[int]", "list[float | None]", True),
        ("list[int]", "dict[str, int]", False),
        ("dict[str, int]", "dict[str, float]", True),
    ],
)
def test_widening(given: str, wanted: str, fits: bool) -> None:
    """Every value of the one type is one of the other: int to float, T to optional, fewer choices, item by item."""
    assert fits == widens(parse_annotation(given), parse_annotation(wanted))


def test_names() -> None:
    """Unique over leaves and named containers, and writable in a path."""
    assert "`x` is the name of nodes[0] too" == refused("nodes[1].name", leaf(), leaf())
    assert "`x` is the name of nodes[0].child too" == refused(
        "nodes[1].name", ir.Retry(leaf()), ir.Seq([leaf("y")], name="x")
    )
    with pytest.raises(ir.ProgramError, match="the root of a program has no name"):
        ir.Program(sig="q -> a", root=ir.Seq([leaf()], {"a": "x.a"}, name="main"))
    for name in ("", "$", "a.b", "1", "a b", 3):
        assert "is no name" in refused("nodes[0].name", leaf(name))  # type: ignore[arg-type]


def test_outputs_are_exported() -> None:
    """The root's `out` gives what the signature promises, all of it and nothing else, of its types."""
    assert "missing: the signature promises it, and nothing gives it" == refused("out.a", leaf(), out={})
    assert "the signature has no such output; it has `a`" == refused("out.b", leaf(), out={"a": "x.a", "b": "x.a"})
    assert "`a: str` does not take `a: int`" == refused("out.a", leaf(sig="q -> a: int"))
    assert "expected text, got int 1" == refused("out.a", leaf(), out={"a": ir.Lit(1)})


def route(arms: dict[str, ir.Node], default: ir.Node | None = None, on: Any = "k.k") -> ir.Route:
    """A route by `k`."""
    return ir.Route("x", on=on, arms=arms, default=default)


def test_routes() -> None:
    """By a text; arms of one interface; the choices are covered, or there is a default (section 4)."""
    kind = leaf("k", "q -> k: Literal['m', 'n'], i: int, t")
    arms: dict[str, ir.Node] = {"m": leaf("m"), "n": ir.Retry(leaf("n"))}
    ir.Program(sig="q -> a", root=ir.Seq([kind, route(arms)], {"a": "x.a"}))
    why = refused("nodes[1].arms", kind, route({"m": leaf("m")}))
    assert "no arm for `n`, and no `default`" == why
    ir.Program(sig="q -> a", root=ir.Seq([kind, route({"m": leaf("m")}, leaf("d"))], {"a": "x.a"}))
    assert "`k` is never that; it is one of: m, n" == refused("nodes[1].arms.o", kind, route({**arms, "o": leaf("o")}))
    assert "missing: `t` can be any text" == refused("nodes[1].default", kind, route(arms, on="k.t"))
    assert "`i` is int; a route goes by" in refused("nodes[1].on", kind, route(arms, on="k.i"))
    assert "there is no arm" == refused("nodes[1].arms", kind, route({}, leaf("d")))
    why = refused("nodes[1].arms.n", kind, route({"m": leaf("m"), "n": leaf("n", "q -> a: int")}))
    assert "gives `a: int`, the first arm `a: str`; all arms give the same" == why
    fork = ir.ForkJoin([leaf("f"), leaf("g")])
    assert "the outputs of one node" in refused("nodes[1].arms.n", kind, route({"m": leaf("m"), "n": fork}))
    assert "where this cannot see it" in refused("out.a", kind, route(arms), out={"a": "m.a"})


def test_attempts_are_bounded() -> None:
    """All repetition is."""
    assert "at least 1, not 0" == refused("nodes[0].max_attempts", ir.Retry(leaf(), max_attempts=0))
    for wait in (-1, 10**9, 10**400):
        assert "from 0 to 86400000 (a day)" in refused("nodes[0].backoff_ms", ir.Retry(leaf(), backoff_ms=wait))
    assert "two branches" in refused("nodes[0].branches", ir.ForkJoin([leaf()]))


def test_models_are_declared() -> None:
    """Several models and none chosen is an error, and so is one that is not declared (section 4)."""
    assert "missing: one of `s`, `l`" == refused("nodes[0].model", leaf(), models=["s", "l"])
    chosen = P("x", "q -> a", {"q": "$.q"}, model="m")
    assert "`m` is none of the program's models: `s`" == refused("nodes[0].model", chosen, models=["s"])
    assert "`s` stands there twice" == refused("models[1]", leaf(), models=["s", "s"])


def test_caps_are_within_the_programs() -> None:
    """What a hole needs, the program says."""
    hole = H("x", "q -> a", {"q": "$.q"}, impl="host:f", caps=["net"])
    assert "`net` is none of the program's caps: `read`" == refused("nodes[0].caps", hole, caps=["read"])
    assert "not written like `module:attribute`" in refused("nodes[0].impl", H("x", "q -> a", {"q": "$.q"}, impl="f"))


def test_default_demos_fit_the_signature() -> None:
    """As those of an overlay do."""
    with pytest.raises(ir.DemoFieldError, match=r"nodes\[0\]\.demos\[1\]: a demo has the output `b`"):
        ir.program("q -> a", P("x", "q -> a", demos=[ir.DemoRow({"q": "1"}), ir.DemoRow({}, {"b": "1"})]))


def test_what_is_no_node() -> None:
    """A signature, a class, a native predictor in the place of a node is refused by its type."""
    assert "a node is wanted, not str" == refused("nodes[0]", "x")  # type: ignore[arg-type]
    assert "a port is `Input`, `Out` or `Lit`, not int" == refused("nodes[0].inputs.q", leaf(q=3))


@pytest.mark.parametrize(
    ("make", "values", "why"),
    [
        (P, {"name": "x", "sig": "q -> a", "instruction": 3}, "Predict.instruction is str or None, not int"),
        (P, {"name": "x", "sig": "q -> a", "max_tokens": True}, "Predict.max_tokens is int or None, not bool"),
        (P, {"name": "x", "sig": "q -> a", "temperature": "hot"}, "Predict.temperature is float or None, not str"),
        (H, {"name": "x", "sig": "q -> a", "impl": len}, "Hole.impl is str, not builtin_function_or_method"),
        (ir.Retry, {"child": leaf(), "max_attempts": 2.0}, "Retry.max_attempts is int, not float"),
        (ir.Code, {"hash": 1}, "Code.hash is str, not int"),
        (ir.Program, {"sig": "q -> a", "root": leaf()}, "Program.root is Seq, not Predict"),
        (ir.DemoRow, {"input": {"q": float("nan")}}, "q cannot be part of an identity: nan is not a finite number"),
    ],
)
def test_values_of_other_types_are_refused(make: Callable[..., Any], values: dict[str, Any], why: str) -> None:
    """At once, with class and field: what has no file form could not be hashed or written later."""
    with pytest.raises(ValueError, match=re.escape(why)):
        make(**values)


def test_a_whole_temperature_is_a_number() -> None:
    """0 and 0.0 are one setting, and come back from a file as one."""
    program = ir.program("q -> a", P("x", "q -> a", temperature=0))
    assert program == ir.Program.from_json(program.to_json())
    assert program.program_hash == ir.program("q -> a", P("x", "q -> a", temperature=0.0)).program_hash


def test_the_instruction_is_the_leafs() -> None:
    """One place for it: a native signature that has one is refused."""
    with pytest.raises(ValueError, match="is said as `instruction="):
        P("x", Signature.parse("q -> a", "Do."))
