"""A loopback HTTP server that answers as told, badly too. Standard library and attrs only: any test may load it.

It runs in threads of its own: sync and async tests use it alike. `Server` is a context manager; leaving it closes every
connection and joins every thread.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeAlias

import attrs


@attrs.frozen(kw_only=True)
class Received:
    """One request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def json(self) -> Any:
        """The body, as JSON."""
        return json.loads(self.body)


@attrs.frozen(kw_only=True)
class Answer:
    """What to answer, and how to misbehave while doing so."""

    status: int = 200
    body: Any = b""
    """Bytes as they are, text as UTF-8, anything else as JSON."""
    headers: Mapping[str, str] = attrs.field(factory=dict)
    raw: bytes | None = None
    """Send these bytes instead of an HTTP answer, then close."""
    keep: int | None = None
    """Send only so many bytes of the body that Content-Length promises, then close."""
    pause: float = 0.0
    """Seconds to wait before each byte of the body."""
    endless: bytes = b""
    """Send this, without a Content-Length, until the client hangs up."""
    hang: bool = False
    """Send nothing and wait until the client hangs up."""
    reset: bool = False
    """Break the connection off with a TCP reset."""

    @property
    def content(self) -> bytes:
        """The body as bytes."""
        if isinstance(self.body, bytes):
            return self.body
        return (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode()


Script: TypeAlias = "Answer | Sequence[Answer] | Callable[[Received], Answer]"


class Server:
    """Answers on 127.0.0.1 at a free port: one answer, a list in order (the last repeats), or a function's."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._open: set[socket.socket] = set()
        self.received: list[Received] = []
        """All requests, in order of arrival."""
        self.connections = 0
        """Connections ever accepted."""
        self.hung_up = threading.Event()
        """Set when a client closed a connection on which an answer was still due."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        """A `base_url`."""
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Server:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        with self._lock:
            for connection in self._open:
                _shut(connection)
        for thread in self._threads[1:]:
            thread.join()

    def _start(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, name="loopback server", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self.connections += 1
                self._open.add(connection)
            self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        try:
            while (request := _read(connection)) is not None and self._reply(connection, self._next(request)):
                pass
        except OSError:
            self.hung_up.set()
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _next(self, request: Received) -> Answer:
        with self._lock:
            self.received.append(request)
            count = len(self.received)
        if isinstance(self._script, Answer):
            return self._script
        if isinstance(self._script, Sequence):
            return self._script[min(count, len(self._script)) - 1]
        return self._script(request)

    def _reply(self, connection: socket.socket, answer: Answer) -> bool:
        """Answer one request; say whether the connection may serve another."""
        if answer.hang:
            if not connection.recv(1):
                self.hung_up.set()
            return False
        if answer.reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        if answer.raw is not None:
            connection.sendall(answer.raw)
            return False
        _send(connection, answer)
        return answer.keep is None and not answer.endless


def _send(connection: socket.socket, answer: Answer) -> None:
    content = answer.content
    length = {} if answer.endless else {"Content-Length": str(len(content))}
    headers = {"Content-Type": "application/json", **length, **answer.headers}
    head = f"HTTP/1.1 {answer.status} Said\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items())
    content = content if answer.keep is None else content[: answer.keep]
    if not answer.pause:
        connection.sendall(head.encode("latin-1") + b"\r\n" + content)
    else:
        connection.sendall(head.encode("latin-1") + b"\r\n")
        for byte in content:
            time.sleep(answer.pause)
            connection.sendall(bytes([byte]))
    while answer.endless:
        connection.sendall(answer.endless)


def _read(connection: socket.socket) -> Received | None:
    """Read one request; None where the client closed instead."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    missing = int(headers.get("content-length", "0")) - len(body)
    while missing > 0 and (more := connection.recv(missing)):
        body += more
        missing -= len(more)
    return Received(method=method, path=path, headers=headers, body=body)


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


def chat(text: str | None = "Paris", **fields: Any) -> Answer:
    """Make a good answer of the chat API; `fields` replace fields of the body."""
    message = {"role": "assistant", "content": text}
    body = {
        "id": "1",
        "object": "chat.completion",
        "model": "tiny-2026",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 2, "total_tokens": 13},
    }
    return Answer(body=body | fields)


def completion(text: str = " Paris", **fields: Any) -> Answer:
    """Make a good answer of the completions API."""
    return chat(None, object="text_completion", choices=[{"index": 0, "text": text, "finish_reason": "stop"}], **fields)


def failure(
    code: int, message: str = "it failed", /, *, headers: Mapping[str, str] | None = None, **error: Any
) -> Answer:
    """Make an error answer in OpenAI's form."""
    return Answer(status=code, headers=headers or {}, body={"error": {"message": message} | error})
