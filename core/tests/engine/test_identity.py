"""What makes two rollouts the same, and what must tell them apart."""

from __future__ import annotations

import functools
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import burnish as b
from burnish import EngineConfig, EvalEngine, RolloutCache, abc
from burnish._runtime.codeprint import code_print
from burnish._runtime.identity import Identities
from burnish._runtime.invoke import Invoker
from burnish._runtime.metric import MetricRunner
from burnish.testing import ScriptedModel

from ._kit import Ambient, Module, always, as_said, ask, echo, evaluated, rows, tenth, told


async def ran(engine: EvalEngine, program: Any, *, candidate: b.Candidate = b.Candidate()) -> int:  # noqa: B008
    """Evaluate all rows and give how many of them were not served."""
    evaluation = evaluated(await engine.evaluate(program, engine.register(candidate)))
    return sum(not r.cached for r in evaluation.rollouts)


class Scored:
    """A metric with a setting."""

    __burnish_inline__ = True

    def __init__(self, weight: float) -> None:
        self.weight = weight

    def evaluate(self, example: Any, prediction: Any, trace: Any = None) -> float:
        return self.weight


async def test_everything_that_decides_the_score_is_in_the_key() -> None:
    """E34, WE: metric, its settings, salt, model settings and program code miss; the same again hits."""
    cache = RolloutCache()

    async def fresh(metric: Any = always, salt: int = 0, model: str = "m", code: str = "p") -> int:
        with b.models(task=ScriptedModel([], name=model)):
            engine = EvalEngine(rows(2), metric, EngineConfig(cache_salt=salt), cache=cache)
            return await ran(engine, Ambient(echo, fingerprint=code))

    assert (2, 0) == (await fresh(), await fresh())
    assert (2, 2, 2, 2) == (await fresh(tenth), await fresh(salt=1), await fresh(model="n"), await fresh(code="q"))
    assert (2, 2, 0) == (await fresh(Scored(0.1)), await fresh(Scored(0.2)), await fresh(Scored(0.1)))
    assert 0 == await fresh()


async def test_the_failure_score_is_in_the_key() -> None:
    """E34: a failed program's score is the engine's to set, so that another engine's is no answer; the default is."""
    cache = RolloutCache()

    async def fails(q: Any, instruction: str) -> None:
        raise ValueError("no answer")

    async def score(**config: Any) -> tuple[float | None, int]:
        engine = EvalEngine(rows(2), always, EngineConfig(**config), cache=cache)
        evaluation = evaluated(await engine.evaluate(Ambient(fails), engine.register(b.Candidate())))
        return evaluation.mean(), engine.spend.cache_hits

    assert [(0.0, 0), (-1.0, 0)] == [await score(), await score(failure_score=-1.0)]
    assert [(0.0, 2), (-1.0, 2)] == [await score(failure_score=0), await score(failure_score=-1)]


async def test_samples_are_rollouts_of_their_own() -> None:
    """The sample index is part of the identity; sample 0 is the plain evaluation."""
    program, engine = Ambient(echo), EvalEngine(rows(2), tenth)
    index = engine.register(b.Candidate())
    await engine.evaluate(program, index)
    outcome = await engine._evaluator.evaluate_many(program, [(index, [0, 1])], samples=3)
    assert isinstance(outcome, b.Complete)
    assert ([0.0] * 3 + [0.1] * 3, 6) == (outcome.evaluation.scores(), len(program.ran))
    cell = engine.matrix.cell(index, 1)
    assert cell is not None
    assert 3 == cell.count


async def test_an_installed_winner_changes_the_baseline() -> None:
    """E18, E32, E33: the program's live state is hashed at each evaluation; putting it back finds the old results."""
    module, engine = Module(), EvalEngine(rows(2), tenth)
    assert (2, 0) == (await ran(engine, module), await ran(engine, module))
    undo = b.apply_candidate(module, told("answer", "winner"))
    assert (2, 0) == (await ran(engine, module), await ran(engine, module))
    b.restore_candidate(module, undo)
    assert 0 == await ran(engine, module)


def test_the_key_has_the_seeds_shape() -> None:
    """E31: `baseline:candidate:example:salt`, 16 hex digits each; the check covers what the key stands for."""
    identities = Identities(MetricRunner(tenth, Invoker(1)), salt=255)
    evaluator = EvalEngine(rows(1), tenth)._evaluator
    target = Ambient(echo)
    from burnish._runtime.identity import Identity

    candidate = told("answer", "x")
    identity = Identity(identities.baseline(target, target.fingerprint, {}, 0), candidate, evaluator.examples[0])
    baseline, overlay, example, salt = identity.key.split(":")
    assert (f"{candidate.stable_hash:016x}", f"{evaluator.examples[0].uid:016x}", "00000000000000ff") == (
        overlay,
        example,
        salt,
    )
    assert {16} == {len(part) for part in (baseline, overlay, example, salt)}
    assert (32, True) == (len(identity.check()), identity.check() != identity.check(output=True))


# --- code --------------------------------------------------------------------------------------------------------


def wrapping(times: int) -> Callable[[Any], Any]:
    def loud(function: Any) -> Any:
        @functools.wraps(function)
        async def wrapper(q: Any) -> Any:
            return await function(q) * 2

        return wrapper

    def quiet(function: Any) -> Any:
        @functools.wraps(function)
        async def wrapper(q: Any) -> Any:
            return await function(q) / 2

        return wrapper

    return loud if times else quiet


async def plain(q: Any) -> Any:
    return q


class Base:
    def step(self, q: Any) -> Any:
        return q


class Changed:
    def step(self, q: Any) -> Any:
        return q + 1


def heirs() -> list[Any]:
    def make(base: type) -> Any:
        class Program(base):  # type: ignore[misc]
            def __call__(self, q: Any) -> Any:
                return self.step(q)

        return Program()

    return [make(Base), make(Changed)]


PAIRS: list[tuple[str, list[Any]]] = [
    ("two lambdas on one line", [lambda q: 1, lambda q: 2]),
    ("lambdas that name their input differently", [lambda q: q, lambda p: p]),
    ("nested lambdas", [lambda q: (lambda: 1)(), lambda q: (lambda: 2)()]),
    ("wrappers of one function", [wrapping(0)(plain), wrapping(1)(plain)]),
    ("partials", [functools.partial(pow, 2), functools.partial(pow, 3)]),
    ("bound built-ins", [{"a": 1}.get, {"a": 2}.get]),
    ("one method of two objects", [Scored(0.1).evaluate, Scored(0.2).evaluate]),
    ("inherited code", heirs()),
    ("numbers of two types", [Scored(1), Scored(1.0)]),
]


def tokens(thing: Any, identities: Identities) -> Any:
    printed = code_print(thing)
    return printed.fingerprint, identities._tokens(list(printed.opaque))


@pytest.mark.parametrize(("what", "things"), PAIRS, ids=[what for what, _ in PAIRS])
def test_different_code_is_told_apart(what: str, things: list[Any]) -> None:
    """Code is its name, source, closure and defaults; where that is not enough, what else tells it apart."""
    identities = Identities(MetricRunner(tenth, Invoker(1)), salt=0)
    one, other = things
    assert tokens(one, identities) != tokens(other, identities)
    assert tokens(one, identities) == tokens(one, identities)


def test_closures_over_mutable_objects_are_told_apart_by_object() -> None:
    """A list may change while it is held: equal contents are not the same thing, and nothing is shared with others."""

    def closing(over: Any) -> Any:
        return lambda q: over

    identities, other = (Identities(MetricRunner(tenth, Invoker(1)), salt=0) for _ in range(2))
    one, two = closing([1]), closing([1])
    assert code_print(one).fingerprint == code_print(two).fingerprint
    assert tokens(one, identities) != tokens(two, identities)
    assert tokens(one, identities) != tokens(one, other)
    assert tokens(closing((1, "a")), identities) == tokens(closing((1, "a")), identities)
    assert tokens(closing(1), identities) != tokens(closing(True), identities)


def load(path: Path, source: str) -> Any:
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.program


async def test_changed_code_misses(tmp_path: Path) -> None:
    """The same name with another body is another program; the same body in another file is the same."""
    cache, source = RolloutCache(), "async def program(q):\n    return q{}\n"
    asked = [("a", ""), ("b", ""), ("c", " + 0")]
    missed = [
        await ran(EvalEngine(rows(2), as_said, cache=cache), load(tmp_path / f"{name}.py", source.format(change)))
        for name, change in asked
    ]
    assert [2, 0, 2] == missed


class Counting:
    """A program and a model that count their calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, request: abc.LMRequest | None = None, *, q: Any = 0) -> Any:
        self.calls += 1
        return q if request is None else "1"

    def method(self, q: Any) -> Any:
        self.calls += 1
        return q


async def answered(q: Any, instruction: str) -> str:
    return (await b.call_model(b.model_for("task"), ask(str(q)))).text


@pytest.mark.parametrize("what", ["program", "method", "model"])
async def test_counting_calls_loses_no_cache(what: str) -> None:
    """Attributes that change while a program or a callable model runs do not make another one of it."""
    counting, engine = Counting(), EvalEngine(rows(2), as_said)
    with b.models(task=counting):
        for expected in (2, 0):
            calling = Ambient(answered, fingerprint="p")
            program = {"program": counting, "method": counting.method, "model": calling}[what]
            assert expected == await ran(engine, program)
    assert 2 == counting.calls


async def test_what_has_no_identity_is_not_shared() -> None:
    """A program that holds a list is served within its engine, and never through a persistent cache."""
    shared, held = RolloutCache(), [1]

    async def program(q: Any) -> Any:
        return q + held[0]

    engine = EvalEngine(rows(2), as_said, cache=shared)
    assert (2, 0, True) == (await ran(engine, program), await ran(engine, program), shared.is_empty)
    assert 2 == await ran(EvalEngine(rows(2), as_said, cache=shared), program)
    program.fingerprint = "mine"  # type: ignore[attr-defined]
    assert 2 == await ran(EvalEngine(rows(2), as_said, cache=shared), program)
    assert (0, 2) == (await ran(EvalEngine(rows(2), as_said, cache=shared), program), len(shared))


async def test_a_record_for_something_else_is_no_answer() -> None:
    """A record whose check does not fit what is asked for is passed over."""
    cache = RolloutCache()
    assert 2 == await ran(EvalEngine(rows(2), tenth, cache=cache), Ambient(echo))
    for key in list(cache):
        record = cache._records[key]
        cache._records[key] = abc.CacheRecord(key=key, check="0" * 32, body=record.body)
    assert 2 == await ran(EvalEngine(rows(2), tenth, cache=cache), Ambient(echo))


@pytest.mark.slow
def test_identities_are_the_same_in_every_process(tmp_path: Path) -> None:
    """Whatever the hash seed: sets of constants, lambdas and objects have one fingerprint everywhere."""
    script = tmp_path / "script.py"
    script.write_text(
        "from burnish import code_print\n"
        "class Thing:\n"
        "    def __init__(self): self.name, self.tags = 'x', frozenset({'a', 'b', 'c'})\n"
        "stops, pairs = {'a', 'b', 'c', 'd'}, frozenset({('a', 1), ('b', 2), ('c', 3)})\n"
        "def refers(q): return q in stops or q in pairs or Thing\n"
        "things = lambda q: q in {'ab', 'cd', 'ef', 'gh', 'ij', 'kl'}, Thing(), lambda q: [lambda: q], refers, Thing\n"
        "for thing in things:\n"
        "    print(code_print(thing).fingerprint)\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, str(script)], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True, text=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert 1 == len(outputs)
