"""Damaged checkpoints: an error that says so, or an engine that means the same (E79, E81)."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import burnish as b
from burnish import Complete, Eval, EvalEngine
from burnish._runtime.checkpoint import _digest
from burnish.errors import StoreError, UsageError
from burnish.testing import ScriptedModel

from ._kit import Ambient, always, ask, echo, rows, told
from .test_checkpoint import Scored, cells, comparable

NESTED = "[" * 100_000 + "]" * 100_000
WRONG: list[Any] = [
    None, True, -1, 0, 1.5, 10**400, "", "x", [], {}, [None], {"x": 1}, [[[]]], [{"sample": 1}], "1e9999999999", "NaN",
    1e308, -1e308, 2**64, "\ud800", [[[{"sample": -1, "key": "", "eval": {"score": 1.0}}]]],
]


def signed(data: dict[str, Any]) -> str:
    """Give a text whose digest is right, as one would be that a faulty program wrote."""
    body = {name: value for name, value in data.items() if name != "digest"}
    return json.dumps({**body, "digest": _digest(body)})


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Give the path of everything in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, each in inner for found in places(each, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """Give a copy with something else at a path."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(copy[path[0]], path[1:], new)
    return copy


async def rich() -> str:
    """Make a checkpoint in which every kind of thing occurs."""

    async def act(q: Any, instruction: str) -> Any:
        if q == 2:
            raise ValueError("a bug")
        return (await b.call_model(model, ask("hello"))).text

    model = ScriptedModel(lambda request: "0.5", name="task")
    engine = EvalEngine(rows(3), Scored("half", lambda *_: Eval(0.5, "why", {"brevity": 0.25})))
    for candidate in (b.Candidate(), told("answer", "x").set_demos("answer", [{"q": 1, "a": [2.5]}])):
        await engine.evaluate(Ambient(act), engine.register(candidate))
    return engine.checkpoint()


def resumed(text: str) -> EvalEngine | None:
    """Resume, or give None where that is refused with an error of ours that says what is wrong."""
    try:
        return EvalEngine.resume(rows(3), Scored("half", always), None, text)
    except (StoreError, UsageError) as error:
        refusal = str(error)
    assert refusal.startswith(("invalid engine checkpoint: ", "unsupported engine", "the engine checkpoint does not"))
    assert len(refusal) < 1000
    return None


async def test_a_damaged_text_is_refused() -> None:
    """E79: cut at every fiftieth, or with one character changed anywhere (150 cases), it is refused or means the same;
    never another error, never another score."""
    text = await rich()
    whole = resumed(text)
    assert whole is not None
    for part in range(50):
        assert resumed(text[: len(text) * part // 50]) is None
    draw = random.Random(7)
    for _ in range(150):
        at = draw.randrange(len(text))
        flipped = chr(ord(text[at]) ^ (1 << draw.randrange(7)))
        damaged = resumed(text[:at] + flipped + text[at + 1 :])
        if damaged is not None:  # a digit beyond what a float holds, white space
            assert cells(whole) == cells(damaged)
            assert comparable(whole) == comparable(damaged)


@pytest.mark.slow
async def test_a_wrong_value_anywhere_is_refused_or_harmless() -> None:
    """E79, E81: where a faulty program signed a wrong value (200 cases), it is an error of ours or an engine that works
    and whose spend and scores are numbers that can be compared."""
    data = json.loads(await rich())
    draw, found = random.Random(7), places(data)
    refused = 0
    for _ in range(200):
        path = draw.choice(found)
        wrong = replaced(data, path, draw.choice(WRONG))
        engine = resumed(signed(wrong) if isinstance(wrong, dict) else json.dumps(wrong))
        if engine is None:
            refused += 1
            continue
        scores = [s for c in range(engine.matrix.candidates) for s in engine.matrix.row(c) if s is not None]
        assert all(abs(score) <= 1e150 for score in scores), path
        assert engine.spend.metric_calls >= 0 <= engine.spend.cost, path
        assert isinstance(await engine.evaluate(Ambient(echo), engine.register(b.Candidate())), Complete), path
        assert resumed(engine.checkpoint()) is not None, path
    assert refused > 100


async def test_numbers_and_nesting_without_end_are_refused() -> None:
    """E81: NaN, infinities, integers of 10,000 digits and 100,000 brackets are refused, wherever they stand."""
    text = await rich()
    for wrong in ("NaN", "Infinity", "-Infinity", "1e999", "9" * 10_000, NESTED, "null"):
        for old in ('"score":0.5', '"metric_calls":6', '"instruction":"x"', '"output":"0.5"', '"a":[2.5]'):
            assert old in text
            assert resumed(text.replace(old, f"{old.partition(':')[0]}:{wrong}", 1)) is None
            assert resumed(wrong) is None
    data = json.loads(text)
    for cost in ("-1", "NaN", "Infinity", "1e999999", "1e9999999999", "1e31"):
        assert resumed(signed({**data, "spend": {**data["spend"], "cost": cost}})) is None
        assert resumed(signed({**data, "held": cost})) is None
    assert resumed(signed({**data, "candidates": data["candidates"] * 2})) is None
    for other in (b"{}", None, 1):
        with pytest.raises(UsageError, match="a checkpoint is the text that `checkpoint\\(\\)` gave"):
            EvalEngine.resume(rows(3), always, None, other)  # type: ignore[arg-type]


async def test_what_means_the_same_is_taken() -> None:
    """E79: spaces, indents and the order of keys are nobody's business."""
    text = await rich()
    again = resumed(json.dumps(json.loads(text), indent=2, sort_keys=True))
    first = resumed(text)
    assert again is not None
    assert first is not None
    assert cells(first) == cells(again)
