"""Data files: what is read, and what is refused at which line."""

from __future__ import annotations

from pathlib import Path

import pytest

from burnish_cli.data import DataFileError, Table, read_table


def table(directory: Path, content: str | bytes, name: str = "rows.csv", delimiter: str | None = None) -> Table:
    path = directory / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path, delimiter=delimiter)


def values(directory: Path, content: str | bytes, name: str = "rows.csv") -> list[dict[str, object]]:
    return [dict(r.values) for r in table(directory, content, name).records]


def test_csv_values_are_text(tmp_path: Path) -> None:
    """Numbers, empty cells and quoted delimiters, quotes and line breaks stay the text that they are."""
    content = 'q,a\r\n"one, ""two""\nthree",1.0\r\n,NA\r\n'
    assert [{"q": 'one, "two"\nthree', "a": "1.0"}, {"q": "", "a": "NA"}] == values(tmp_path, content)
    assert [2, 4] == [r.line for r in table(tmp_path, content).records]


def test_csv_of_spreadsheets_and_data_frames(tmp_path: Path) -> None:
    """A byte order mark, semicolons, tabs, blank lines, spaces in the header and an unnamed index column are fine."""
    expected = [{"q": "x", "a": "1"}]
    assert expected == values(tmp_path, b"\xef\xbb\xbfq;a\nx;1\n\n")
    assert expected == values(tmp_path, "q\ta\nx\t1", "rows.tsv")
    assert expected == values(tmp_path, "\n, q ,a\n0,x,1\n")


def test_the_delimiter_is_one_that_stands_between_names(tmp_path: Path) -> None:
    """What stands in a quoted name is none; an error of a row's length names the delimiter, and how to set another."""
    assert [{"q, long": "x", "q": "y", "answer": "1"}] == values(tmp_path, '"q, long";q;answer\nx;y;1\n')
    assert [{"a,\nb": "x", "c": "1"}] == values(tmp_path, '"a,\nb"\tc\nx\t1\n')
    assert [{'the "q", b': "x", "c": "1"}] == values(tmp_path, '"the ""q"", b";c\nx;1\n')
    with pytest.raises(DataFileError, match=r"has 1 values .* read with the delimiter ','; .*`data\.delimiter` sets"):
        table(tmp_path, "q, long;a\nx;1\n")


def test_jsonl_keeps_types(tmp_path: Path) -> None:
    """Values keep their JSON types; U+2028 inside a text does not end the line; blank lines are passed over."""
    content = '{"q": "a\u2028b", "n": 1}\r\n\n{"q": null, "n": 1.5, "l": [true]}\n'
    found = table(tmp_path, content, "rows.jsonl")
    assert [{"q": "a\u2028b", "n": 1}, {"q": None, "n": 1.5, "l": [True]}] == [dict(r.values) for r in found.records]
    assert ([1, 3], ("q", "n", "l")) == ([r.line for r in found.records], found.columns)


@pytest.mark.parametrize(
    ("content", "line", "expected"),
    [
        ("", None, "is empty"),
        (" \n\n", None, "is empty"),
        ("q,a\n", None, "has a header and no rows"),
        ("q,a\nx,1\ny\n", 3, "has 1 values where the header has 2 columns"),
        ("q,a\n\nx,1,2\n", 3, "has 3 values where the header has 2 columns"),
        ('q,a\n"x\ny",1\n"z,2\nw,3\n', 4, "a quote opens here and never closes"),
        ('q,a\n"x"y,1\n', 2, "is not valid CSV"),
        ("q,q\nx,1\n", 1, "the column `q` stands twice"),
        (b"q,a\nx,1\ncaf\xe9,2\n", 3, "byte 11 (0xe9) is not UTF-8"),
        (b"\xef\xbb\xbfq,a\nx,\xff\n", 2, "byte 9 (0xff) is not UTF-8"),
        ("q,a\n".encode("utf-16"), 1, "is UTF-16"),
        (b"q,a\nx,\0\n", 2, "holds a NUL character"),
        ("q,a\nx," + "y" * 140_000, 2, "put rows this long into JSONL"),
    ],
)
def test_csv_refusals_name_the_line(tmp_path: Path, content: str | bytes, line: int | None, expected: str) -> None:
    """Empty, ragged, torn and foreign files are refused at the line where the fault is."""
    with pytest.raises(DataFileError) as caught:
        table(tmp_path, content)
    assert expected in str(caught.value)
    assert line == caught.value.line
    assert str(tmp_path / "rows.csv") == caught.value.file


@pytest.mark.parametrize(
    ("content", "line", "expected"),
    [
        ('{"a": 1}\n{"a": }\n', 2, "is not valid JSON: Expecting value (column 7)"),
        ('{"a": 1} {"a": 2}\n', 1, "is not valid JSON"),
        ('{"a": NaN}', 1, "holds NaN"),
        ('\n{"a": -Infinity}', 2, "holds -Infinity"),
        ('{"a": 1e999}', 1, "holds 1e999, too large"),
        ('{"a": ' + "9" * 5000 + "}", 1, "cannot be read"),
        ('{"a": 1, "a": 2}', 1, "holds the field `a` twice"),
        ('{"a": "\\ud800"}', 1, "half of a surrogate pair"),
        ("[1]", 1, "is not an object but a list"),
        ("null", 1, "is not an object but null"),
        ('{"a": ' + "[" * 100_000, 1, "is nested too deeply"),
    ],
)
def test_jsonl_refusals_name_the_line(tmp_path: Path, content: str, line: int, expected: str) -> None:
    """What is no object of finite, printable JSON is refused at its line."""
    with pytest.raises(DataFileError) as caught:
        table(tmp_path, content, "rows.jsonl")
    assert expected in str(caught.value)
    assert line == caught.value.line


def test_a_whole_surrogate_pair_is_a_character(tmp_path: Path) -> None:
    """Escaped characters beyond the basic plane are read."""
    assert [{"a": "\U0001f600"}] == values(tmp_path, '{"a": "\\ud83d\\ude00"}', "rows.jsonl")


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    """A misspelt name, a directory, a missing directory and an unknown ending each say what to do."""
    (tmp_path / "rows.csv").write_text("q\nx\n", encoding="utf-8")
    (tmp_path / "folder.csv").mkdir()
    cases = {
        "row.csv": "not found; did you mean `rows.csv`?",
        "folder.csv": "cannot be read: Is a directory",
        "no/rows.csv": "there is no directory",
        "rows.xlsx": "set `data.format`",
    }
    for name, expected in cases.items():
        with pytest.raises(DataFileError) as caught:
            read_table(tmp_path / name)
        assert expected in str(caught.value)
