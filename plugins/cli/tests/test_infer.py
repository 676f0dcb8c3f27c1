"""burnish tune: what is inferred from a prompt and a table, and what is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from burnish import Budget
from burnish_cli.config import Component, Config, problems
from burnish_cli.data import DataFileError
from burnish_cli.infer import Wishes, field_name, infer, placeholders
from burnish_cli.split import load_splits


def tune(directory: Path, prompt: str, csv: str, **wishes: Any) -> Config:
    (directory / "prompt.md").write_text(prompt, encoding="utf-8")
    (directory / "rows.csv").write_text(csv, encoding="utf-8")
    fields: dict[str, Any] = {
        "metric": Component(use="exact_match"),
        "strategy": (Component(use="bootstrap"),),
        "models": {"task": Component(use="llamacpp")},
        "budget": Budget(max_metric_calls=100),
        **wishes,
    }
    return infer(Wishes(prompt=directory / "prompt.md", data=directory / "rows.csv", **fields))


def csv(rows: int) -> str:
    return "id,Question Text,kind\n" + "".join(f"{i},question {i},{'ab'[i % 2]}\n" for i in range(rows))


def test_a_prompt_and_a_table_are_enough(tmp_path: Path) -> None:
    """Placeholders find their columns, the rest is id and label, classes are stratified, and it can be split."""
    config = tune(tmp_path, "Classify: {{question_text}}\nAgain: {{question_text}}", csv(40))
    data = config.data
    assert ({"question_text": "Question Text"}, {"kind": "kind"}) == (data.inputs, data.labels)
    assert ("id", "kind", 0.3, 0.3, 0.4) == (data.id, data.stratify, data.train, data.val, data.test)
    assert ("prompt", "kind") == (config.name, getattr(config.program, "output", None))
    assert [] == list(problems(config))
    parts = load_splits(config)
    assert (12, 12, 16) == (len(parts.train), len(parts.val), len(parts.test))


def test_large_tables_are_not_used_whole(tmp_path: Path) -> None:
    """Splits have upper counts unless the command line says otherwise."""
    data = tune(tmp_path, "{{question_text}}", csv(900), val=50).data
    assert (200, 50, 300) == (data.train, data.val, data.test)


@pytest.mark.parametrize(
    ("prompt", "table", "wishes", "expected"),
    [
        ("{{q}}", "q,answer,note\nx,1,n\n", {}, "answer"),
        ("{{q}}", "q,a,b\nx,1,n\n", {"label": "b"}, "b"),
        ("{{q}}", "id,q,a\n7,x,1\n7,y,2\n", {}, "a"),
    ],
)
def test_the_label(tmp_path: Path, prompt: str, table: str, wishes: dict[str, Any], expected: str) -> None:
    """The one column left, else the one with a usual name, else the one named; an id that repeats is not used."""
    data = tune(tmp_path, prompt, table, **wishes).data
    assert ([expected], None) == (list(data.labels.values()), data.id)


@pytest.mark.parametrize(
    ("prompt", "table", "wishes", "expected"),
    [
        ("Classify.", "q,a\nx,1\n", {}, "has no place for a row's values; where a value goes, write `{{q}}`"),
        ("{{ q }}", "q,a\nx,1\n", {}, "has `{{ q }}`, which is no placeholder; where a value goes, write `{{q}}`"),
        ("{{p}}", "q,a\nx,1\n", {}, "prompt.md: holds `{{p}}`, but "),
        ("{{q_x}}", "q x,Q X,a\nx,y,1\n", {}, "could be the columns `q x` and `Q X`"),
        ("{{q}}", "q,a,b\nx,1,n\n", {}, "which of `a`, `b` is the label? Say it with `--label`"),
        ("{{q}}", "q\nx\n", {}, "has no column besides those that the prompt reads"),
        ("{{q}}", "q,a\nx,1\n", {"label": "c"}, "has no column `c`; it has: `q`, `a`"),
        ("{{q}} {{a}}", "q,a\nx,1\n", {"label": "a"}, "reads the column `a`, which is the label"),
        ("{{q}}", "", {}, "rows.csv: is empty"),
    ],
)
def test_what_cannot_be_inferred_is_asked(
    tmp_path: Path, prompt: str, table: str, wishes: dict[str, Any], expected: str
) -> None:
    """Each refusal names the file and the option that decides."""
    with pytest.raises(DataFileError) as caught:
        tune(tmp_path, prompt, table, **wishes)
    assert expected in str(caught.value)


def test_names() -> None:
    """Placeholders are plain names; other braces are text; any column has a field name."""
    assert ["a", "b_1"] == placeholders("{{a}} {{b_1}} {{ d }} {{a}} {c} {{1}} {{x y}} {{}}")
    assert ["a_b", "field_1_x", "field", "größe"] == [field_name(c) for c in ("A b!", "1 x", "?", "Größe")]
