"""What docs and READMEs show runs, and what they quote is so."""

from __future__ import annotations

import ast
import contextlib
import inspect
import re
import sys
import threading
import types
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trio

from burnish import hookspecs
from burnish.abc import KINDS

ROOT = Path(__file__).resolve().parents[1]
READMES = [ROOT / "README.md", ROOT / "core" / "README.md", *ROOT.glob("*/*/README.md")]
SHOWN_ENDPOINT = "127.0.0.1:8080"


def code_of(page: Path) -> str:
    """Join a page's Python blocks."""
    return "\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.S | re.M))


def parameter(page: Path) -> Any:
    """Name a page, and mark one that needs the embedded model."""
    needs = [pytest.mark.slow, pytest.mark.weights] if "llamacpp" in page.parts else []
    return pytest.param(page, id=str(page.relative_to(ROOT)), marks=needs)


PAGES = [parameter(p) for p in sorted([*(ROOT / "docs").glob("*.md"), *READMES]) if code_of(p)]


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python blocks of a page run, in order, as one module, to their last line; those that await run under trio."""
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType(f"page_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with endpoint() as address:
        source = f"{code_of(page).replace(SHOWN_ENDPOINT, address)}\nran_to_the_end = __name__\n"
        code = compile(source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        pending = eval(code, module.__dict__)
        if inspect.iscoroutine(pending):
            trio.run(lambda: pending)
    assert module.__name__ == module.__dict__["ran_to_the_end"]


@pytest.mark.slow
def test_the_first_example_can_be_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing stands in its own way the second time, and each time it shows a gain."""
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        exec(compile(code_of(ROOT / "README.md"), "README.md", "exec"), {"__name__": "first_example"})
        assert "validation 0.273 → 1.000; test 0.500 -> 1.000" in capsys.readouterr().out
    assert 2 == len(list((tmp_path / "runs").iterdir()))


@contextlib.contextmanager
def endpoint() -> Iterator[str]:
    """Answer chat requests on loopback, in place of the server that a page assumes."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = b'{"model": "gemma", "choices": [{"message": {"content": "Hello."}, "finish_reason": "stop"}]}'
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_every_hook_has_a_chapter_with_its_signature() -> None:
    """docs/plugins.md has a chapter a kind, with the signature that `burnish.hookspecs` has."""
    text = (ROOT / "docs" / "plugins.md").read_text("utf-8")
    hooks = {n: f for n, f in vars(hookspecs).items() if n.startswith("burnish_") and inspect.isfunction(f)}
    assert len(KINDS) == len(hooks)
    for kind in KINDS:
        assert f"\n### {kind}\n" in text
    for name, function in hooks.items():
        signature = str(inspect.signature(function)).replace("'", "")
        assert f"{name}{signature}" in text
