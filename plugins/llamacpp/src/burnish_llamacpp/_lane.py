"""The one lane to the CPU: calls wait here, and one at a time runs in a thread."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

import attrs
import trio

from burnish.errors import UsageError
from burnish_llamacpp._queue import AffinityQueue

CLOSING_SECONDS = 5.0
"""How long closing waits for a call whose caller has gone; after that its thread closes the server."""

Chunk = Mapping[str, Any]


class Completer(Protocol):
    """What the lane needs of llama.cpp's server."""

    def handle_completions(self, request: dict[str, Any], chunk: Callable[[Chunk], bool], /) -> Any: ...


@attrs.define(eq=False)
class _Turn:
    """One call's place: waiting, on the CPU, or dropped."""

    up: trio.Event = attrs.field(factory=trio.Event)
    dropped: bool = False
    """Set by the trio thread, read by the thread on the CPU, which stops at the next token."""
    started: bool = False


@attrs.define(eq=False)
class Lane:
    """Runs the calls of one server, one at a time; the waiting one that shares most with the last goes first."""

    _server: Completer | None
    _queue: AffinityQueue[_Turn] = attrs.field(factory=AffinityQueue, init=False)
    _running: _Turn | None = attrs.field(default=None, init=False)
    _limiter: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(1), init=False)
    _token: trio.lowlevel.TrioToken = attrs.field(factory=trio.lowlevel.current_trio_token, init=False)

    @property
    def waiting(self) -> int:
        """Calls that wait for the CPU."""
        return len(self._queue)

    async def run(self, prompt: str, body: Mapping[str, Any]) -> list[Chunk]:
        """Run one streamed completion and give its chunks.

        Cancelled while it waits, the call leaves the queue. Cancelled on the CPU, it returns at once; its thread stops
        at the next token, or after the batch of prompt tokens that it is in, and only then the next call starts.
        """
        turn = _Turn()
        self._queue.add(turn, prompt)
        self._next()
        try:
            await turn.up.wait()
            if self._server is None:
                raise UsageError("model.llamacpp is closed: ask it inside its `async with open_model()` block")
            call = partial(self._on_cpu, self._server, turn, dict(body))
            return await trio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=self._limiter)
        except BaseException:
            turn.dropped = True
            self._queue.discard(turn)
            if not turn.started:
                self._free(turn)
            raise

    def _on_cpu(self, server: Completer, turn: _Turn, body: dict[str, Any]) -> list[Chunk]:
        chunks: list[Chunk] = []

        def take(chunk: Chunk) -> bool:
            chunks.append(chunk)
            return turn.dropped

        turn.started = True
        try:
            if not turn.dropped:
                server.handle_completions(body, take)
            return chunks
        finally:
            with contextlib.suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._free, turn)

    def _free(self, turn: _Turn) -> None:
        if self._running is turn:
            self._running = None
            self._next()

    def _next(self) -> None:
        if self._running is None:
            self._running = self._queue.take()
            if self._running is not None:
                self._running.up.set()

    async def aclose(self) -> None:
        """Close the server, after the call on the CPU has stopped; calls that still wait raise `UsageError`.

        Shielded from cancellation, for at most five seconds; a thread that is not done by then closes it at its end.
        """
        server, self._server = self._server, None
        if self._running is not None:
            self._running.dropped = True
        with trio.move_on_after(CLOSING_SECONDS, shield=True):
            holder = [server]
            del server
            # Closing joins the server's threads, which takes a tenth of a second: not on the trio thread.
            await trio.to_thread.run_sync(holder.clear, abandon_on_cancel=True, limiter=self._limiter)
