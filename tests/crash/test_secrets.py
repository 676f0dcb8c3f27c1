"""Secrets of a configuration and of the environment: in no file, no output, no error (62)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from burnish import Use
from burnish_cli import main

from ._place import Place
from ._server import Endpoint, bad, good

pytestmark = pytest.mark.slow
SECRETS = ("sk-of-the-key", "of-a-header", "of-a-named-header", "of-the-address", "of-the-query")
OPTIONS = """
api_key_env = "CRASH_KEY"
headers = { "X-Api-Key" = "of-a-header" }
headers_env = { "X-Other" = "CRASH_HEADER" }
retries = 0
"""


def holding(directory: Path) -> list[str]:
    """Give the files below a directory that hold a secret, but for the configuration itself."""
    files = [path for path in directory.rglob("*") if path.is_file() and path.name != "burnish.toml"]
    assert {"run.db", "burnish.lock", "cache.db", "events.jsonl"} <= {path.name for path in files}
    return [path.name for path in files if any(secret.encode() in path.read_bytes() for secret in SECRETS)]


@pytest.mark.parametrize("how", ["fine", "401", "500", "no JSON"])
def test_no_secret_is_written_or_shown(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """An endpoint that quotes all that it got, in every sort of answer, learns what nobody else is told."""
    monkeypatch.setenv("CRASH_KEY", "sk-of-the-key")
    monkeypatch.setenv("CRASH_HEADER", "Bearer of-a-named-header")
    heard: list[str] = []

    def script(n: int, body: Any, handler: Any) -> Any:
        quoted = f"you sent {dict(handler.headers)} to {handler.path}"
        heard.append(quoted)
        if n < 20 or how == "fine":
            return good(body)
        return (200, quoted.encode(), {}) if how == "no JSON" else bad(int(how), quoted)

    with Endpoint(script) as endpoint:
        url = f"http://user:of-the-address@127.0.0.1:{endpoint.port}/v1?api-key=of-the-query"
        model = f'use = "openai"\nmodel = "tiny"\nbase_url = "{url}"{OPTIONS}'
        place.configure(model=model, test=4, candidates=1, more='[[sink]]\nuse = "jsonl"\n')
        codes = [main(["run"]), main(["run", "--name", "second", "--json"])]
    assert ([0, 0] if how == "fine" else [3, 3]) == codes
    assert all(secret in heard[0] for secret in ("sk-of-the-key", "of-a-header", "of-a-named-header", "of-the-query"))
    out, err = capsys.readouterr()
    assert [] == [secret for secret in SECRETS if secret in out + err]
    assert [] == holding(place.path)


def test_a_key_in_place_of_its_name_is_not_shown(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever writes the key where the name of its variable belongs is told so without a copy of it in the log."""
    for option in ("api_key = {}", "api_key_env = {}", "headers_env.A = {}"):
        place.configure(model='use = "openai"\nmodel = "tiny"\n' + option.format('"sk-of-the-key"'))
        assert 2 == main(["run"])
        out, err = capsys.readouterr()
        assert "api_key" in err or "headers_env" in err
        assert "sk-of-the-key" not in out + err


@pytest.mark.parametrize(
    "model",
    [
        'use = "openai"\nmodel = "tiny"\nheaders = "Authorization: sk-of-the-key"',
        'use = "openai"\nmodel = "tiny"\nheaders = ["sk-of-the-key"]',
        'use = "openai"\nmodel = "tiny"\nheaders.Authorization = ["sk-of-the-key"]',
        'use = "openai"\nmodel = "tiny"\nauthorization = "sk-of-the-key"',
        'use = "openai"\nmodel = "tiny"\napi_key_env = ["sk-of-the-key"]',
        'use = ["sk-of-the-key"]',
        'use = { api_key = "sk-of-the-key" }',
        '[models]\nuse = "openai"\napi_key = "sk-of-the-key"',
        '[[models.judge]]\napi_key = "sk-of-the-key"',
        'models = [{ use = "openai", api_key = "sk-of-the-key" }]',
    ],
)
def test_a_wrong_type_is_told_without_the_value(
    place: Place, capsys: pytest.CaptureFixture[str], model: str
) -> None:
    """Whatever stands in a model's table in the wrong form: its type is said, and no secret (62)."""
    place.configure(model=model)
    path = place.path / "burnish.toml"
    text = path.read_text(encoding="utf-8")
    if model.startswith(("[models]", "models")):  # in place of the table that the configuration has
        text = text.replace("[models.task]\n", "")
    if model.startswith("models"):
        text = f"{model}\n" + text.replace(model, "")
    path.write_text(text, encoding="utf-8")
    assert 2 == main(["run"])
    out, err = capsys.readouterr()
    assert "burnish: error: " in err
    assert "TOML" not in err
    assert "sk-of-the-key" not in out + err


def test_a_named_component_shows_no_option() -> None:
    """`Use` stands in messages of sinks and models that fail: the names of its options are enough there."""
    use = Use("otel", endpoint="http://user:sk-of-the-key@host", headers={"Authorization": "sk-of-the-key"})
    assert "Use(name='otel', options=['endpoint', 'headers'])" == repr(use) == str(use)
