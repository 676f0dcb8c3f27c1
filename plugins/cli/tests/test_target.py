"""Programs from a configuration: targets by name, someone else's too, and the short forms of `burnish_programs`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from burnish_cli import main

PLUGIN = '''
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import burnish

OPENED = []


@attrs.frozen(kw_only=True)
class Options:
    reply: str
    times: int = 1


class Echo:
    metering, injection, inputs = "opaque", "ambient", None

    def __init__(self, options):
        self.options, self.fingerprint = options, 32 * "e"

    def parameters(self):
        return {"leaf": burnish.Parameter(name="leaf", instruction="Echo.")}

    async def run(self, inputs, candidate):
        burnish.current_injection().rendered.update(candidate.overlays)
        return {"a": self.options.times * self.options.reply}

    def install(self, candidate):
        pass


@asynccontextmanager
async def open_echo(options, env):
    if options.times < 1:
        raise burnish.errors.UsageError("times: must be at least 1")
    OPENED.append(("open", env.base_dir))
    yield Echo(options)
    OPENED.append(("close", env.run_dir))


@burnish.hookimpl
def burnish_targets():
    return [burnish.Spec(name="echo", open=open_echo, options=Options)]


class Looks:
    async def compile(self, engine, problem):
        assert list(problem.parameters) == ["leaf"]
        await engine.evaluate_many([(engine.register(problem.start), problem.val)])
        return burnish.Report(strategy="looks", best=problem.start)

    def plan(self, problem):
        return burnish.Plan(rollouts=len(problem.val), note=", ".join(problem.parameters))


looks = Looks()


@burnish.exposed
def same(example, prediction):
    return example["a"] == prediction["a"]
'''

CONFIG = """
[data]
path = "rows.jsonl"
inputs = ["q"]
labels = ["a"]
train = 1
val = 2
test = 3
[program]
use = "echo"
reply = "x"
times = 2
[metric]
use = "their_echo:same"
[[strategy]]
use = "their_echo:looks"
[budget]
max_metric_calls = 8
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with rows, a configuration and a distribution that offers the target `echo`."""
    rows = [json.dumps({"q": str(i), "a": "xx" if i % 2 else "xy"}) for i in range(6)]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows), encoding="utf-8")
    (tmp_path / "burnish.toml").write_text(CONFIG, encoding="utf-8")
    (tmp_path / "their_echo.py").write_text(PLUGIN, encoding="utf-8")
    metadata = tmp_path / "their_echo-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: their-echo\nVersion: 1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text("[burnish]\ntarget.echo = their_echo\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    sys.modules.pop("their_echo", None)


def change(place: Path, *pairs: tuple[str, str]) -> None:
    text = CONFIG
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    (place / "burnish.toml").write_text(text, encoding="utf-8")


@pytest.mark.slow
def test_a_run_of_a_target_by_name(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Someone's target is looked at, opened by the run with its directory, and closed again, both times."""
    assert 0 == main(["run", "--json"])
    form = json.loads(capsys.readouterr().out)
    assert (3, 5) == (form["test"]["rows"], form["spend"]["rollouts"])
    opened = sys.modules["their_echo"].OPENED
    assert [("open", Path()), ("close", None), ("open", Path()), ("close", place / "runs" / "burnish")] == [
        (what, path if path in (None, Path()) else path.resolve()) for what, path in opened
    ]


def test_a_plan_asks_the_target(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Strategies get its parameters, and a cap that it cannot keep is refused."""
    assert 0 == main(["plan"])
    expected = "strategy  Looks: at most 2 rollouts for 0 new candidates beside the baseline; leaf"
    assert expected in capsys.readouterr().out
    change(place, ("max_metric_calls = 8", "max_tokens = 8"))
    assert 0 < main(["plan"])
    assert "max_tokens cannot be kept: this program's model calls cannot be seen" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "plan"])
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("times = 2", 'times = "2"', "burnish.toml:12: program.times: expected a whole number, got text '2'"),
        ("times = 2", "time = 2", "burnish.toml:12: program.time: is not a known option; did you mean `times`?"),
        ('reply = "x"', "", "burnish.toml:9: program.reply: is missing"),
        ("times = 2", "times = 0", "times: must be at least 1"),
        ('use = "echo"', 'use = "ecko"', "no target named `ecko` is installed; did you mean `echo`?"),
        ('use = "echo"', 'use = "programs"', "burnish.toml:11: program.reply: is not a known option"),
    ],
)
def test_wrong_options_of_a_target(
    place: Path, capsys: pytest.CaptureFixture[str], command: str, old: str, new: str, expected: str
) -> None:
    """Path, expected type and file, exit code 2, and no run directory."""
    change(place, (old, new))
    assert 2 == main([command])
    assert expected in capsys.readouterr().err
    assert not list(place.glob("runs/*"))


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ('signature = "q -> a: strr"', "unknown type `strr`"),
        ('prompt = "none.md"', "none.md: not found"),
        ('prompt = "p.md"', "p.md: the prompt has no placeholder"),
        ('use = "their_echo:Echo"', "program.use: `their_echo:Echo` is neither an object of burnish nor"),
        ('use = "their_echo:looks"', "program.use: `their_echo:looks` is no burnish program but of the type `Looks`"),
        ('use = "programs"\ncot = 1\nsignature = "q -> a"', "program.cot: expected true or false"),
    ],
)
def test_what_is_wrong_with_a_short_form_is_told_where_it_stands(
    place: Path, capsys: pytest.CaptureFixture[str], program: str, expected: str
) -> None:
    """The prompt's file, or the key that names an object; not that there is a plugin behind it."""
    (place / "p.md").write_text("no place", encoding="utf-8")
    change(place, ('use = "echo"\nreply = "x"\ntimes = 2', program))
    assert 2 == main(["plan"])
    assert expected in capsys.readouterr().err


PROGRAM = """
signature = "q -> a: Literal['xx', 'z']"
models = ["small"]
[[nodes]]
kind = "hole"
name = "look"
signature = "q -> seen"
impl = "my_holes:look"
inputs = {q = "$.q"}
[[nodes]]
kind = "predict"
name = "leaf"
signature = "seen -> a: Literal['xx', 'z']"
inputs = {seen = "look.seen"}
[out]
a = "leaf.a"
"""

HOLES = """
import burnish
from burnish.testing import ScriptedModel

@burnish.exposed
def look(q):
    return q

model = ScriptedModel(lambda request: "a: xx")
"""


@pytest.fixture
def program(place: Path) -> Iterator[Path]:
    """A program file beside the configuration, with its holes and a model."""
    (place / "program.toml").write_text(PROGRAM, encoding="utf-8")
    (place / "my_holes.py").write_text(HOLES, encoding="utf-8")
    (place / "my_models.py").write_text(HOLES, encoding="utf-8")
    change(place, *FILE)
    yield place
    for name in ("my_holes", "my_models"):
        sys.modules.pop(name, None)


FILE = (
    ('use = "echo"\nreply = "x"\ntimes = 2', 'program = "program.toml"\n[models.small]\nuse = "my_models:model"'),
)


def test_a_plan_of_a_program_file_imports_none_of_its_functions(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its leaves are what can be tuned, its outputs' choices are compared with the labels."""
    assert 0 == main(["plan"])
    out = capsys.readouterr().out
    assert "beside the baseline; leaf" in out
    assert "note: the label `a` is 'xy' (rows.jsonl:1), which the program's Literal['xx', 'z'] does not have" in out
    assert "my_holes" not in sys.modules


@pytest.mark.slow
@pytest.mark.parametrize("command", ["run", "evaluate"])
def test_a_run_of_a_program_file(program: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    """Its functions are found beside the configuration, from any directory; its models are those of `[models]`."""
    assert 0 == main([command, "--json"])
    form = json.loads(capsys.readouterr().out)
    assert form["spend"]["rollouts"] == form["spend"]["requests"] > 0
    assert sys.modules["my_models"].model.calls == form["spend"]["requests"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"program.toml"', '"progam.toml"', "progam.toml: not found; did you mean `program.toml`?"),
        ('"program.toml"', '"rows.jsonl"', "rows.jsonl: JSON"),
        ("[models.small]", "[models.task]", "models: program.toml names `small`; say with `[models.small]` which"),
        ("[models.small]", 'output = "a"\n[models.small]', "program.output: belongs to a `prompt`"),
    ],
)
def test_a_program_file_that_cannot_be_used(
    program: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, expected: str
) -> None:
    """File and key, before anything is spent."""
    (pair,) = FILE
    change(program, (pair[0], pair[1].replace(old, new)))
    assert 2 == main(["plan"])
    assert expected in capsys.readouterr().err


def test_a_run_whose_functions_are_not_there(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run says it before it spends anything, and leaves no directory."""
    (program / "my_holes.py").write_text("", encoding="utf-8")
    assert 2 == main(["run"])
    assert "`my_holes:look` names `look`, which is not there" in capsys.readouterr().err
    assert not list(program.glob("runs/burnish*"))
