"""burnish.toml: what it may say, and how it is refused."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from burnish.errors import ConfigError
from burnish_cli.config import Component, ProgramConfig
from burnish_cli.structure import ConfigFileError, line_of, load_config

WHOLE = """
name = "wordnet"
seed = 3

[data]
path = "six.jsonl"
id = "id"
inputs = ["gloss"]
labels = { category = "supersense" }
train = 60
val = 0.2
test = "test.jsonl"
stratify = "supersense"

[program]
signature = "gloss -> category"

[models.task]
use = "llamacpp"
threads = 1

[metric]
use = "exact_match"

[[strategy]]
use = "bootstrap"
num_candidates = 8

[[strategy]]
use = "gepa"

[budget]
max_metric_calls = 900
max_cost = 1.50

[cache]
use = "sqlite"

[[sink]]
use = "jsonl"
"""

SMALL = """
[data]
path = "rows.csv"
inputs = ["q"]
train = 1
[program]
signature = "q -> a"
[metric]
use = "m"
[[strategy]]
use = "s"
[budget]
unlimited = true
"""


def write(directory: Path, text: str, name: str = "burnish.toml") -> Path:
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return path


def refusal(directory: Path, text: str) -> ConfigFileError:
    with pytest.raises(ConfigFileError) as caught:
        load_config(write(directory, text))
    return caught.value


def test_a_whole_file_becomes_values(tmp_path: Path) -> None:
    """Tables become frozen values; a plugin's options stay as they are; money is exact."""
    config = load_config(write(tmp_path, WHOLE))
    assert ("wordnet", 3, 16) == (config.name, config.seed, config.concurrency)
    assert {"gloss": "gloss"} == config.data.inputs
    assert {"category": "supersense"} == config.data.labels
    assert (60, 0.2, "test.jsonl") == (config.data.train, config.data.val, config.data.test)
    assert {"task": Component(use="llamacpp", options={"threads": 1})} == config.models
    assert ("bootstrap", "gepa") == tuple(s.use for s in config.strategy)
    assert {"num_candidates": 8} == config.strategy[0].options
    assert (900, Decimal("1.5")) == (config.budget.max_metric_calls, config.budget.max_cost)
    assert (Component(use="jsonl"),) == config.sink
    assert tmp_path / "six.jsonl" == config.resolve("six.jsonl")


def test_short_forms(tmp_path: Path) -> None:
    """A plugin without options is its name; one strategy needs no list; the file's name names the run."""
    text = SMALL.replace('[[strategy]]\nuse = "s"', "").replace('[metric]\nuse = "m"', "")
    config = load_config(write(tmp_path, 'strategy = "s"\nmetric = "pkg.metrics:f1"\n' + text, "my run.toml"))
    assert (Component(use="s"),) == config.strategy
    assert config.metric.is_reference
    assert "my-run" == config.name
    assert config.budget.is_unlimited


def test_every_fault_is_named_at_once_with_its_line(tmp_path: Path) -> None:
    """Misspelt keys get the nearest known one, wrong types what was given and what is expected (scenario 62)."""
    text = (
        WHOLE.replace("seed = 3", 'seed = "3"')
        .replace("max_metric_calls", "max_metric_cals")
        .replace('use = "gepa"', "rounds = 3")
        .replace("train = 60", "train = true")
        .replace('[models.task]\nuse = "llamacpp"', '[models.task]\nmodel = "llamacpp"')
    )
    error = refusal(tmp_path, text)
    file = str(tmp_path / "burnish.toml")
    assert [
        f"{file}:3: seed: expected a whole number, got '3' (text)",
        f"{file}:10: data.train: expected a count, a fraction or a file, got true",
        f"{file}:18: models.task: needs `use`: the name of a plugin, or `module:attribute`",
        f"{file}:29: strategy #2: needs `use`: the name of a plugin, or `module:attribute`",
        f"{file}:33: budget.max_metric_cals: is not a known key; did you mean `max_metric_calls`? Known here: "
        "max_metric_calls, max_lm_calls, max_requests, max_tokens, max_cost, max_seconds, unlimited",
    ] == str(error).splitlines()
    assert isinstance(error, ConfigError)
    assert {("seed",), ("data", "train"), ("budget", "max_metric_cals")} <= {path for path, _ in error.problems}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('path = "rows.csv"', "path = 3", "3: data.path: expected text, got 3 (a whole number)"),
        ('path = "rows.csv"', "", "data: needs `path`, a file to split, or `train`, a file of its own"),
        ("train = 1", "train = 1.5", "data.train: 1.5 is no fraction between 0 and 1"),
        ("train = 1", "train = -1", "data.train: must not be below 0"),
        ("train = 1", "", "data.train: is missing"),
        ("train = 1", "train = 0.5\nval = 0.6", "add up to 1.1, more than 1"),
        ("train = 1", 'train = "a.csv"\nval = "b.csv"\ntest = "c.csv"', "data.path: is of no use"),
        ("train = 1", 'train = 1\nduplicates = "keep"', 'expected "drop" or "refuse", got \'keep\' (text)'),
        ("train = 1", 'train = 1\ndelimiter = ";;"', "data.delimiter: must be one character"),
        ('inputs = ["q"]', "inputs = []", "data.inputs: names no column"),
        ('inputs = ["q"]', 'inputs = ["q", 1]', "a column is a text that is not empty, got 1 (a whole number)"),
        ('inputs = ["q"]', 'inputs = ["q", "q"]', "each once"),
        ('inputs = ["q"]', 'inputs = ["q"]\nlabels = ["q"]', "`q` is an input too"),
        ('inputs = ["q"]', "", "data.inputs: is missing"),
        ('signature = "q -> a"', "", "program: needs exactly one of `signature`, `prompt`, `program` and `use`"),
        ('signature = "q -> a"', 'signature = "q -> a"\nprompt = "p.md"', "here are `signature` and `prompt`"),
        ('signature = "q -> a"', 'use = "module:"', "program.use: 'module:' is not of the form `module:attribute`"),
        ('signature = "q -> a"', "use = 3", "program.use: expected text, got 3 (a whole number)"),
        ('signature = "q -> a"', 'use = ""', "program.use: '' is not of the form"),
        ('signature = "q -> a"', 'prompt = "p.md"\ninstruction = "x"', "program.instruction: belongs to a"),
        ("unlimited = true", "", "budget: has no cap"),
        ("unlimited = true", "unlimited = true\nmax_tokens = 1", "is unlimited and has caps"),
        ("unlimited = true", "unlimited = 1", "budget.unlimited: expected true or false, got 1"),
        ("unlimited = true", "max_tokens = 1.5", "budget.max_tokens: expected a whole number, got 1.5 (a number)"),
        ("unlimited = true", "max_tokens = -1", "budget: max_tokens must be a whole number from 0 on"),
        ("unlimited = true", 'max_cost = "much"', "budget.max_cost: expected an amount in US dollars"),
        ("[budget]\nunlimited = true", "", "budget: is missing"),
        ("[[strategy]]", "[[budget]]\n[[strategy]]", "is not valid TOML"),
        ('[[strategy]]\nuse = "s"', "", "strategy: is missing"),
        ("[data]", "concurrency = 0\n[data]", "concurrency: must be at least 1"),
        ("[data]", 'name = "../x"\n[data]', "name: '../x' names a directory"),
        ("[data]", "budget = 3\n[data]", "is not valid TOML"),
        ("[data]", "models = { task = 1 }\n[data]", "models.task: expected a table with `use`"),
        ("[data]", "metric = 3\n[data]", "is not valid TOML"),
        ("[data]", "[data", "is not valid TOML"),
    ],
)
def test_a_wrong_value_is_refused(tmp_path: Path, old: str, new: str, expected: str) -> None:
    """Each refusal names the key and says what would be right; nothing is coerced."""
    assert expected in str(refusal(tmp_path, SMALL.replace(old, new)))


def test_a_program_can_be_a_target(tmp_path: Path) -> None:
    """`use` without a colon names a plugin, whose options the rest of the table is, whatever it holds."""
    table = 'use = "theirs"\nsignature = 3\ndepth = { a = [1] }'
    config = load_config(write(tmp_path, SMALL.replace('signature = "q -> a"', table)))
    assert Component(use="theirs", options={"signature": 3, "depth": {"a": [1]}}) == config.program
    config = load_config(write(tmp_path, SMALL.replace('signature = "q -> a"', 'use = "module:attribute"')))
    assert ProgramConfig(use="module:attribute") == config.program


def test_a_table_is_a_table(tmp_path: Path) -> None:
    """A plain value where a table belongs is refused by name."""
    text = SMALL.replace("[budget]\nunlimited = true", "").replace('[program]\nsignature = "q -> a"', "")
    error = refusal(tmp_path, 'budget = 3\nprogram = "p.md"\n' + text)
    file = tmp_path / "burnish.toml"
    assert [
        f"{file}:1: budget: expected a table, got 3 (a whole number)",
        f"{file}:2: program: expected a table, got 'p.md' (text)",
    ] == str(error).splitlines()


def test_lines_are_found_behind_multi_line_values() -> None:
    """A multi-line value that looks like tables does not shift or fake a position; it is named where it starts."""
    text = 'a = """\n[b]\nc = 1\n"""\n\n[b]\nc = [\n  1,\n]\nd = 2\n[[s]]\nx = 1\n[[s]]\nx = 2\n'
    paths = (("a",), ("b",), ("b", "c"), ("b", "d"), ("s", 1, "x"), ("s", 0, "y"), ("z",))
    assert [1, 6, 7, 10, 14, 11, None] == [line_of(text, path) for path in paths]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The nearest name in the directory is offered."""
    write(tmp_path, SMALL)
    with pytest.raises(ConfigError, match=r"burnish\.tml: not found; did you mean `burnish\.toml`\?"):
        load_config(tmp_path / "burnish.tml")
