"""burnish resume and fork: what a run directory keeps, and how a run goes on from it."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pytest

from burnish import Budget, Candidate
from burnish.errors import StoreError, UsageError
from burnish.events import read_events
from burnish_cli import main
from burnish_cli.config import Component, Config
from burnish_cli.kept import keep, read_kept
from burnish_cli.structure import load_config

CONFIG = """
seed = 1
[data]
path = "rows.jsonl"
inputs = ["q"]
labels = ["a"]
train = 4
val = 12
test = 20
[program]
use = "toy_parts:Program"
[models.task]
use = "toy_parts:model"
[metric]
use = "toy_parts:metric"
[[strategy]]
use = "toy_parts:{strategy}"
[budget]
max_metric_calls = {cap}
"""


class Place:
    """A directory with rows, parts and a configuration."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def configure(self, strategy: str = "good", cap: int = 100) -> None:
        (self.path / "burnish.toml").write_text(CONFIG.format(strategy=strategy, cap=cap), encoding="utf-8")

    def result(self, run: str = "burnish") -> dict[str, Any]:
        form: dict[str, Any] = json.loads((self.path / "runs" / run / "result.json").read_text(encoding="utf-8"))
        return form

    def forget(self) -> None:
        """Have the next command import everything anew, as another process would."""
        sys.modules.pop("toy_parts", None)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    rows = [{"q": f"{i}: say {'ab'[i % 2]}", "a": "ab"[i % 2]} for i in range(40)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    shutil.copy(Path(__file__).with_name("toy_parts.py"), tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    made = Place(tmp_path)
    made.configure()
    yield made
    made.forget()


def told(form: dict[str, Any]) -> dict[str, Any]:
    """Give what two results have in common that tell of the same run."""
    spend = {key: value for key, value in form["spend"].items() if key != "seconds"}
    test = None if form["test"] is None else {key: value for key, value in form["test"].items() if key != "looks"}
    return {**form, "spend": spend, "test": test, "name": "", "run_dir": ""}


@pytest.mark.slow
def test_a_finished_run_tells_its_result_again(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Resumed after its end a run asks no model, and from any directory, whatever became of the configuration file."""
    assert 0 == main(["run"])
    expected, lines = place.result(), capsys.readouterr().out
    place.forget()
    (place.path / "burnish.toml").unlink()
    (place.path / "elsewhere").mkdir()
    assert 0 == main(["resume", "runs/burnish", "--json"])
    assert told(expected) == told(json.loads(capsys.readouterr().out)) == told(place.result())
    assert 0 == sys.modules["toy_parts"].model.calls
    assert "improved" in lines


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["interrupted", "impatient"])
def test_an_interrupted_run_goes_on(
    place: Place, capsys: pytest.CaptureFixture[str], strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hint after an interrupt is the command that goes on; the end is that of a run that nobody interrupted."""
    place.configure(strategy)
    assert 3 == main(["run"])
    out, err = capsys.readouterr()
    assert "`burnish resume runs/burnish` goes on with it" in out + err
    paid = sys.modules["toy_parts"].model.calls
    monkeypatch.setattr(sys.modules["toy_parts"], strategy, sys.modules["toy_parts"].good)
    assert 0 == main(["resume", "runs/burnish"])
    assert 64 == sys.modules["toy_parts"].model.calls == place.result()["spend"]["requests"]
    assert 0 < paid < 64
    resumed = told(place.result())
    place.configure()
    assert 0 == main(["run"])
    fresh = told(place.result("burnish-2"))
    ours, unbroken = resumed.pop("spend"), fresh.pop("spend")
    assert resumed == fresh
    assert 64 == ours["rollouts"] == unbroken["rollouts"] + unbroken["cached"]


@pytest.mark.slow
def test_a_new_budget_stays(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """A cap given to `resume` takes the place of the run's, for later resumes too; too low a one is refused: 4."""
    place.configure(cap=64)
    assert 0 == main(["run", "--name", "x"])
    assert 4 == main(["resume", "runs/x", "--max-metric-calls", "10"])
    assert 0 == main(["resume", "runs/x", "--max-requests", "200", "--concurrency", "3"])
    config = read_kept(Path("runs/x")).config
    assert (Budget(max_metric_calls=64, max_requests=200), 3) == (config.budget, config.concurrency)
    assert 2 == main(["resume", "runs/x", "--concurrency", "0"])
    assert "--concurrency 0" in capsys.readouterr().err


@pytest.mark.slow
def test_what_is_another_run_is_refused(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Changed rows are named, with exit code 2, and nothing is written (R14)."""
    assert 0 == main(["run"])
    run = place.path / "runs" / "burnish"

    def held() -> list[Any]:
        files = [(run / name).read_bytes() for name in ("burnish.lock", "best.json", "result.json")]
        return [*files, *read_events(run / "run.db")]

    before = held()
    rows = (place.path / "rows.jsonl").read_text(encoding="utf-8").replace("say a", "tell a")
    (place.path / "rows.jsonl").write_text(rows, encoding="utf-8")
    capsys.readouterr()
    assert 2 == main(["resume", "runs/burnish"])
    assert "the run cannot go on: the rows changed since it began" in capsys.readouterr().err
    assert before == held()


@pytest.mark.slow
def test_a_fork_pays_for_what_is_new(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """A new run under another configuration, the cache gone: what the old one scored is served, the test is fresh."""
    assert 0 == main(["run"])
    old = told(place.result())
    for path in (place.path / "runs").glob("cache.db*"):
        path.unlink()
    place.configure("coloured")
    place.forget()
    assert 0 == main(["fork", "runs/burnish", "--name", "other", "--config", "burnish.toml"])
    assert 12 + 40 == sys.modules["toy_parts"].model.calls
    assert 12 == place.result("other")["spend"]["cached"]
    place.forget()
    assert 0 == main(["fork", "runs/burnish"])
    assert 40 == sys.modules["toy_parts"].model.calls
    assert old["test"] == told(place.result("burnish-2"))["test"]
    assert "answers   runs/burnish" in capsys.readouterr().err


@pytest.mark.slow
def test_an_evaluation_goes_on_too(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """The candidate that an evaluation was given is kept with it."""
    assert 0 == main(["run"])
    assert 0 == main(["evaluate", "--candidate", "runs/burnish/best.json"])
    assert 0 == main(["resume", "runs/burnish-evaluation", "--json"])
    assert told(place.result("burnish-evaluation"))["changes"] == place.result()["changes"]
    assert "evaluate" == place.result("burnish-evaluation")["command"]
    assert 2 == main(["fork", "runs/burnish-evaluation"])
    assert "is an evaluation" in capsys.readouterr().err


def test_nothing_to_go_on_with_is_said(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """No directory, no run in it, one that was begun from Python, and a damaged file: exit code 2 and what to do."""
    run = place.path / "runs" / "x"
    run.mkdir(parents=True)
    for content, said in (
        (None, "runs/x holds no run: there is no burnish.lock in it"),
        ("", "was not begun by a command"),
        ('{"format": "burnish.run"}', "was not begun by a command"),
        ("{", "runs/x/burnish.lock is damaged"),
        ("[1]", "runs/x/burnish.lock is damaged"),
        ('{"configuration": 1}', "runs/x/burnish.lock is damaged"),
        ('{"configuration": {"version": 1}}', "runs/x/burnish.lock is damaged"),
        ('{"configuration": {"version": 9}}', "this burnish reads version 1"),
    ):
        if content is not None:
            (run / "burnish.lock").write_text(content, encoding="utf-8")
        assert 2 == main(["resume", "runs/x"])
        assert said in capsys.readouterr().err
    assert 2 == main(["resume", "runs/y"])
    assert 2 == main(["fork", "runs/x"])
    assert "holds no answers" in capsys.readouterr().err


SECRET = {
    "use": "openai",
    "model": "tiny",
    "api_key_env": "MY_KEY",
    "headers_env": {"X-A": "MY_HEADER"},
    "headers": {"X-B": "of-a-header"},
    "base_url": "https://user:of-the-address@host/v1",
}


def write(place: Place, more: str) -> Config:
    (place.path / "burnish.toml").write_text(CONFIG.format(strategy="good", cap=9) + more, encoding="utf-8")
    return load_config(place.path / "burnish.toml")


def test_a_configuration_comes_back_as_it_was(place: Place) -> None:
    """Each table, the order of columns, money as it was written, and the directory that paths count from."""
    more = 'max_cost = 0.1\n[cache]\nuse = "none"\n[[sink]]\nuse = "jsonl"\npath = "x"\n[engine]\ncache_salt = 3\n'
    config = write(place, more)
    config = attrs.evolve(config, data=attrs.evolve(config.data, inputs={"z": "a", "b": "q"}, val=0.5, labels={}))
    for file in ("burnish.toml", None):
        for given in (None, Candidate().set_instruction("p", "half \ud800")):
            form = keep(config, place.path / "runs" / "x", command="run", file=file, given=given)
            kept = read_back(place, form)
            shown = attrs.evolve(config, base_dir=kept.config.base_dir)
            assert (shown, given) == (kept.config, kept.given)
            assert list(config.data.inputs) == list(kept.config.data.inputs)
            assert Decimal("0.1") == kept.config.budget.max_cost
            assert place.path == kept.config.base_dir.resolve()
            assert (None if file is None else "burnish.toml") == kept.file


def read_back(place: Place, form: dict[str, Any]) -> Any:
    run = place.path / "runs" / "x"
    run.mkdir(parents=True, exist_ok=True)
    (run / "burnish.lock").write_text(json.dumps({"configuration": form}), encoding="utf-8")
    return read_kept(run)


def test_what_may_be_a_secret_is_kept_out(place: Place) -> None:
    """Values under names of secrets and addresses with users stay in the configuration file, and come from there."""
    table = "".join(f"{key} = {json.dumps(value)}\n" for key, value in SECRET.items() if not isinstance(value, dict))
    more = f'[models.judge]\n{table}headers_env = {{ "X-A" = "MY_HEADER" }}\nheaders = {{ "X-B" = "of-a-header" }}\n'
    config = write(place, more)
    assert Component(use="openai", options={k: v for k, v in SECRET.items() if k != "use"}) == config.models["judge"]
    form = keep(config, place.path / "runs" / "x", command="run", file="burnish.toml")
    assert "of-a" not in json.dumps(form)
    assert "of-the" not in json.dumps(form)
    assert [["models", "judge", "base_url"], ["models", "judge", "headers"]] == sorted(form["hidden"])
    assert config.models == read_back(place, form).config.models
    write(place, "")
    with pytest.raises(UsageError, match=r"`models\.judge\.\w+` may be a secret.*burnish\.toml does not say it now"):
        read_back(place, form)
    (place.path / "burnish.toml").unlink()
    with pytest.raises(UsageError, match="does not say it now"):
        read_back(place, form)
    with pytest.raises(StoreError, match="is damaged"):
        read_back(place, {**form, "hidden": 3})


def test_names_that_only_resemble_a_secret_s_are_kept(place: Place) -> None:
    """A signature is none, nor are an author and keywords: edits of the file in the meantime change nothing."""
    ours = {"signature": "q -> a", "author": "ada", "keywords": ["x"]}
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in ours.items())
    config = write(place, f'[models.judge]\nuse = "echo"\n{lines}')
    form = keep(config, place.path / "runs" / "x", command="run", file="burnish.toml")
    assert [] == form["hidden"]
    assert {"use": "echo", **ours} == form["tables"]["models"]["judge"]
    write(place, '[models.judge]\nuse = "echo"\nsignature = "q -> other"\n')
    assert config.models == read_back(place, form).config.models


@pytest.mark.slow
def test_show_imports_nothing(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """`show` of a run reads files alone; `resume` imports what the configuration names, like `run`."""
    assert 0 == main(["run"])
    place.forget()
    assert 0 == main(["show", "runs/burnish"])
    assert "toy_parts" not in sys.modules
    assert 0 == main(["resume", "runs/burnish"])
    assert "toy_parts" in sys.modules
    capsys.readouterr()
