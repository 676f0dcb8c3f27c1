"""module:attribute and logs: what a configuration may name, and where warnings go."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from burnish_cli.logs import logs_told
from burnish_cli.references import BadReferenceError, find_reference, load_reference

MODULE = '''
import burnish
from burnish.testing import ScriptedModel

class Holder:
    model = ScriptedModel(["a"])

@burnish.exposed
class Exposed:
    pass

class Metric:
    def evaluate(self, example, prediction, trace=None):
        return 1.0

metric = Metric()

@burnish.exposed
def marked(example, prediction):
    return 1.0

def plain(example, prediction):
    return 1.0
'''


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "mod_a.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "mod_b.py").write_text("import no_such_thing", encoding="utf-8")
    (tmp_path / "mod_c.py").write_text("1 / 0", encoding="utf-8")
    (tmp_path / "mod_e.py").write_text("raise SystemExit(1)", encoding="utf-8")
    yield tmp_path
    for name in ("mod_a", "mod_b", "mod_c", "mod_e"):
        sys.modules.pop(name, None)


def test_objects_of_burnish_and_marked_functions_are_loaded(place: Path) -> None:
    """Modules beside the configuration are found; a nested attribute, an object and a marked function are taken."""
    for name in ("Holder.model", "metric", "marked"):
        assert load_reference(f"mod_a:{name}", place, where="metric") is not None


def test_a_marked_class_stands_for_its_object(place: Path) -> None:
    """Components are made of it without arguments; what a reference names is the class itself."""
    made = load_reference("mod_a:Exposed", place, where="metric")
    assert find_reference("mod_a:Exposed", place, where="metric") is type(made)


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("mod_a:plain", "metric: `mod_a:plain` is neither an object of burnish nor a marked function"),
        ("mod_a:Metric", "is neither an object of burnish nor a marked function"),
        ("os:system", "is neither an object of burnish nor a marked function"),
        ("subprocess:Popen", "is neither an object of burnish nor a marked function"),
        ("builtins:exec", "is neither an object of burnish nor a marked function"),
        ("mod_a:metrik", "names `metrik`, which is not there; did you mean `metric`?"),
        ("mod_d:metric", "cannot be imported: the module `mod_d` is not there"),
        ("mod_b:metric", "cannot be imported: the module `no_such_thing` is not there"),
        ("mod_c:metric", "cannot be imported: ZeroDivisionError: division by zero"),
        ("mod_e:metric", "cannot be imported: SystemExit: 1"),
        ("mod_a:", "`mod_a:` is not of the form `module:attribute`"),
    ],
)
def test_anything_else_is_refused(place: Path, reference: str, expected: str) -> None:
    """A configuration is data: it may not call whatever can be imported (trust)."""
    with pytest.raises(BadReferenceError) as caught:
        load_reference(reference, place, where="metric")
    assert expected in str(caught.value)
    assert ("metric", reference) == (caught.value.where, caught.value.reference)


def test_warnings_are_told_and_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Inside the block warnings become lines and the rest is dropped; afterwards structlog is as it was."""
    before, configured = structlog.get_config(), structlog.is_configured()
    log = structlog.get_logger("burnish")
    told: list[str] = []
    with logs_told(told.append):
        log.warning("the cache failed", error="disk full", kind="cache")
        log.info("opened")
    assert ["the cache failed (error=disk full)"] == told
    assert ("", "") == capsys.readouterr()
    assert before == structlog.get_config()
    assert configured == structlog.is_configured()
