"""A loopback endpoint that answers by the number of the call, in threads of its own."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, TypeAlias

Answer: TypeAlias = tuple[int, Any, Mapping[str, str]] | None
"""Status, body and headers; None breaks the connection off."""
Script: TypeAlias = Callable[[int, Mapping[str, Any], BaseHTTPRequestHandler], Answer]
"""Gives the answer to the n-th call, from 1 on; called by one thread at a time."""


class Endpoint:
    """Answers on 127.0.0.1 and counts; leaving the block closes it."""

    def __init__(self, script: Script, delay: float = 0.002) -> None:
        self.calls = 0
        self.statuses: list[int] = []
        lock = threading.Lock()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                """Stay silent."""

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                with lock:
                    endpoint.calls += 1
                    answer = script(endpoint.calls, body, self)
                    endpoint.statuses.append(answer[0] if answer else 0)
                time.sleep(delay)
                with suppress(OSError):
                    self._send(answer)

            def _send(self, answer: Answer) -> None:
                if answer is None:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                status, body, headers = answer
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for name, value in {"content-length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

        class Quiet(ThreadingHTTPServer):
            request_queue_size = 128

            def handle_error(self, *_: Any) -> None:
                """A client that hangs up is no news."""

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Endpoint:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def good(body: Mapping[str, Any]) -> Answer:
    """Answer with the last word; without demos a third of the words are answered wrongly."""
    word = body["messages"][-1]["content"].split()[-1]
    alone = all(message["role"] != "assistant" for message in body["messages"])
    wrong = alone and int(hashlib.sha256(word.encode()).hexdigest(), 16) % 3 == 0
    message = {"role": "assistant", "content": "a: wrong" if wrong else f"a: {word}"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 11, "completion_tokens": 2, "total_tokens": 13}
    return 200, {"id": "1", "model": "tiny-1", "choices": [choice], "usage": usage}, {}


def bad(status: int, message: str = "it failed", headers: Mapping[str, str] | None = None, **error: Any) -> Answer:
    """Answer with an error in OpenAI's form."""
    return status, {"error": {"message": message, **error}}, headers or {}
