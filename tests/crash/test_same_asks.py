"""Each strategy here asks the same again: resumed at every ask, at other concurrencies, under another hash seed."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from burnish.events import Asked, read_events

from ._sweep import CALLS, RESULT, Nursery

pytestmark = pytest.mark.slow
CHAINS: dict[str, Any] = {
    "bootstrap": {"strategies": [("bootstrap", {})]},
    "bootstrap-random": {"strategies": [("bootstrap-random", {"num_candidates": 3})]},
    "sequence": {"strategies": [("bootstrap", {}), ("bootstrap-random", {"num_candidates": 2}), ("bootstrap", {})]},
    "out of budget": {"strategies": [("bootstrap-random", {"num_candidates": 6})], "most": 75},
}


@pytest.fixture(scope="module")
def nurseries() -> Iterator[tuple[Nursery, Nursery]]:
    with Nursery(hash_seed=1) as one, Nursery(hash_seed=77) as other:
        yield one, other


@pytest.mark.parametrize("name", CHAINS)
def test_the_same_asks_from_every_ask_on(nurseries: tuple[Nursery, Nursery], name: str, tmp_path: Path) -> None:
    """R1, R4, R6, R9, R10, R11: cut at each ask and resumed, one by one and sixteen at once, replies in any order."""
    options = {"rows": 9, **CHAINS[name]}
    whole = tmp_path / "whole"
    nurseries[0].start(whole, concurrency=1, pace=0.0, **options)
    assert 0 == nurseries[0].wait()
    expected, result = asks(whole), json.loads((whole / RESULT).read_text(encoding="utf-8"))
    assert len(expected) > 2
    for number, (at, *_) in enumerate(expected):
        nursery, place = nurseries[number % 2], tmp_path / str(number)
        shutil.copytree(whole, place, ignore=shutil.ignore_patterns(CALLS, RESULT))
        cut(place / "run" / "run.db", at)
        nursery.start(place, concurrency=(16, 1, 16, 5)[number % 4], pace=0.001, **options)
        assert 0 == nursery.wait()
        assert [ask[1:] for ask in expected] == [ask[1:] for ask in asks(place)]
        assert result == json.loads((place / RESULT).read_text(encoding="utf-8"))


def asks(place: Path) -> list[tuple[int, str, str]]:
    """Give number, step and digest of what a run has asked, in order."""
    events = enumerate(read_events(place / "run" / "run.db"), start=1)
    return [(number, event.step, event.digest) for number, event in events if isinstance(event, Asked)]


def cut(store: Path, after: int) -> None:
    """Leave the events up to one of them."""
    with sqlite3.connect(store) as connection:
        for table in ("events", "traces"):
            connection.execute(f"DELETE FROM {table} WHERE n > ?", (after,))
    connection.close()
