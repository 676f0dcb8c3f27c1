"""Splits: stable, stratified, without leaks, and refused where they cannot be."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish import Budget
from burnish_cli.config import Component, Config, DataConfig, ProgramConfig
from burnish_cli.data import DataFileError
from burnish_cli.split import Splits, largest_remainder, load_splits


def rows(n: int, kinds: str = "abc") -> list[dict[str, Any]]:
    return [{"id": i, "q": f"question {i}", "a": kinds[i % len(kinds)]} for i in range(n)]


def write(directory: Path, content: list[dict[str, Any]], name: str = "rows.jsonl") -> None:
    (directory / name).write_text("\n".join(json.dumps(r) for r in content), encoding="utf-8")


def split(directory: Path, **data: Any) -> Splits:
    fields: dict[str, Any] = {"path": "rows.jsonl", "inputs": {"q": "q"}, "labels": {"a": "a"}, **data}
    return load_splits(
        Config(
            data=DataConfig(**fields),
            program=ProgramConfig(signature="q -> a"),
            metric=Component(use="m"),
            strategy=(Component(use="s"),),
            budget=Budget(),
            base_dir=directory,
        )
    )


def questions(splits: Splits, name: Any) -> list[Any]:
    return [row["q"] for row in splits.values(name)]


def test_the_order_of_the_file_plays_no_part(tmp_path: Path) -> None:
    """The same rows in another order split the same, row for row; another seed splits otherwise."""
    content = rows(90)
    found = []
    for seed in (None, 1, 2):
        if seed is not None:
            random.Random(seed).shuffle(content)
        write(tmp_path, content)
        parts = split(tmp_path, train=20, val=30, test=40, stratify="a")
        found.append([questions(parts, name) for name in ("train", "val", "test")])
    assert found[0] == found[1] == found[2]
    other = split(tmp_path, train=20, val=30, test=40, stratify="a", split_seed=1)
    assert set(found[0][2]) != set(questions(other, "test"))


def test_strata_are_spread_evenly(tmp_path: Path) -> None:
    """Each split holds each stratum in proportion, to within one row, and no row stands in two splits."""
    write(tmp_path, rows(300, "aaab"))
    parts = split(tmp_path, train=0.3, val=0.3, test=0.4, stratify="a")
    shares = [Counter(r["a"] for r in parts.values(n)) for n in ("train", "val", "test")]
    assert [Counter(a=68, b=22), Counter(a=67, b=23), Counter(a=90, b=30)] == shares
    assert 300 == len({q for n in ("train", "val", "test") for q in questions(parts, n)})


def test_test_rows_stay_where_they_are(tmp_path: Path) -> None:
    """Another train count moves no test row, and more rows move few of them."""
    write(tmp_path, rows(90))
    before = set(questions(split(tmp_path, train=10, val=10, test=30, stratify="a"), "test"))
    assert before == set(questions(split(tmp_path, train=40, val=20, test=30, stratify="a"), "test"))
    write(tmp_path, rows(96))
    after = set(questions(split(tmp_path, train=10, val=10, test=30, stratify="a"), "test"))
    assert len(before & after) >= 24


def test_equal_rows_are_left_out_and_named(tmp_path: Path) -> None:
    """A row that repeats another would leak; one stays, whatever the id says. Uncertain labels stay and are named."""
    content = [*rows(10), {"id": 90, "q": "question 3", "a": "a"}, {"id": 91, "q": "question 4", "a": "c"}]
    write(tmp_path, content)
    parts = split(tmp_path, train=5, val=3, test=3, id="id")
    assert 11 == len(parts.train) + len(parts.val) + len(parts.test)
    file = tmp_path / "rows.jsonl"
    assert [
        f"1 row of {file} (line 11) left out that repeat another row of the file",
        f"2 rows of {file} (lines 5, 12) have the inputs of another row and another label; they stay",
    ] == list(parts.notes)
    with pytest.raises(DataFileError, match=r"rows\.jsonl:11: repeats line 4, and `data\.duplicates` refuses that"):
        split(tmp_path, train=5, val=3, test=3, duplicates="refuse")


def test_files_of_their_own(tmp_path: Path) -> None:
    """A split may be a file of its own; what stands in the test file is left out everywhere else (no leak)."""
    content = rows(20)
    write(tmp_path, content[:8], "train.jsonl")
    write(tmp_path, content[6:12], "test.jsonl")
    write(tmp_path, content)
    parts = split(tmp_path, train="train.jsonl", path=None, test="test.jsonl")
    assert (6, 0, 6) == (len(parts.train), len(parts.val), len(parts.test))
    assert ["left out of train that stand in test too" in note for note in parts.notes] == [True]
    mixed = split(tmp_path, train=8, val=6, test="test.jsonl")
    assert (8, 6, 6) == (len(mixed.train), len(mixed.val), len(mixed.test))
    assert not set(questions(mixed, "test")) & set(questions(mixed, "train") + questions(mixed, "val"))
    with pytest.raises(DataFileError, match="stands in test too"):
        split(tmp_path, train="train.jsonl", path=None, test="test.jsonl", duplicates="refuse")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"train": 10, "val": 10, "test": 10}, "has 20 different rows; train 10 + val 10 + test 10 need 30"),
        ({"train": 0.5, "val": 15}, "has 20 different rows; train 0.5 + val 15 need 25"),
        ({"train": 0.01, "val": 5}, "train would get none"),
        ({"train": 5, "id": "a"}, "rows.jsonl:4: the id 'a' (`a`) stands in line 1 too"),
        ({"train": 5, "inputs": {"q": "Q"}}, "has no column `Q`; did you mean `q`? It has: `id`, `q`, `a`, `extra`"),
        ({"train": 5, "stratify": "kind"}, "has no column `kind`"),
        ({"train": 5, "labels": {"a": "extra"}}, "rows.jsonl:1: has no field `extra`; this row has: `id`, `q`, `a`"),
        ({"train": 5, "labels": {"a": "extras"}}, "did you mean `extra`?"),
        ({"train": 5, "test": "none.jsonl"}, "none.jsonl: not found"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, data: dict[str, Any], expected: str) -> None:
    """Counts beyond the rows, ids that repeat and columns that are not there name file, line and the way out."""
    write(tmp_path, [*rows(19), {"id": 19, "q": "question 19", "a": "z", "extra": 1}])
    with pytest.raises(DataFileError) as caught:
        split(tmp_path, **data)
    assert expected in str(caught.value)


def test_empty_labels_and_ids(tmp_path: Path) -> None:
    """A row without a label is used and named; a row without its id is refused."""
    write(tmp_path, [*rows(4), {"id": "", "q": "x", "a": None}])
    assert f"1 row of {tmp_path / 'rows.jsonl'} (line 5) with an empty label `a`" in split(tmp_path, train=5).notes
    with pytest.raises(DataFileError, match=r":5: the id \(`id`\) is empty"):
        split(tmp_path, train=5, id="id")


@given(
    sizes=st.dictionaries(st.text(max_size=2), st.integers(0, 40), min_size=1, max_size=6),
    share=st.floats(0, 1),
)
def test_shares_are_whole_fit_and_add_up(sizes: dict[str, int], share: float) -> None:
    """The largest-remainder method gives whole parts within one of the exact share, never above what there is."""
    total = round(share * sum(sizes.values()))
    parts = largest_remainder(sizes, total, dict.fromkeys(sizes, ""))
    assert total == sum(parts.values())
    whole = sum(sizes.values()) or 1
    assert all(0 <= parts[n] <= sizes[n] and abs(parts[n] - total * sizes[n] / whole) < 1 for n in sizes)
