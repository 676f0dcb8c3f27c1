"""What happens below HTTP: broken, slow, endless and missing servers."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import attrs
import pytest
import trio

from burnish import errors
from burnish.abc import LMRequest, Message
from burnish_openai import OpenAIOptions, open_model

from ._ask import ENV, QUESTION, ask, failing, opened
from ._server import Answer, Script, Server, chat, failure

Serve = Callable[[Script], Server]


async def test_silent_server_times_out(serve: Serve) -> None:
    """A server that never answers is a timeout after `timeout` seconds, and its connection is closed."""
    server = serve(Answer(hang=True))
    error = await failing(server, timeout=0.05)
    assert (errors.ModelTimeoutError, True) == (type(error), error.retryable)
    assert "`timeout` = 0.05 s" in str(error)
    assert await trio.to_thread.run_sync(server.hung_up.wait, 2.0)


async def test_slow_trickle_times_out(serve: Serve) -> None:
    """The time limit is for the whole attempt: one byte now and then does not keep it alive."""
    server = serve(attrs.evolve(chat(), pause=0.01))
    start = time.perf_counter()
    assert errors.ModelTimeoutError is type(await failing(server, timeout=0.1))
    assert time.perf_counter() - start < 1.0


async def test_slow_answer_within_the_limit_is_read(serve: Serve) -> None:
    """A body in many small pieces is put together."""
    body = {"choices": [{"message": {"content": "Paris"}}]}
    assert "Paris" == (await ask(serve(Answer(body=body, pause=0.001)))).text


@pytest.mark.parametrize("keep", [0, 1, 60])
async def test_truncated_body_is_malformed(serve: Serve, keep: int) -> None:
    """Fewer bytes than Content-Length promised are a malformed answer, never a short one."""
    error = await failing(serve(attrs.evolve(chat(), keep=keep)))
    assert (errors.ModelMalformedError, True) == (type(error), error.retryable)


async def test_truncated_error_keeps_its_status(serve: Serve) -> None:
    """The status of an error counts although its body breaks off."""
    error = await failing(serve(attrs.evolve(failure(401, "no such key"), keep=5)))
    assert errors.ModelAuthError is type(error)


@pytest.mark.parametrize("answer", [Answer(reset=True), Answer(raw=b""), Answer(raw=b"SSH-2.0-OpenSSH\r\n")])
async def test_broken_connection_may_be_retried(serve: Serve, answer: Answer) -> None:
    """A reset, a hang-up and another protocol are connection errors."""
    error = await failing(serve(answer))
    assert (errors.ModelConnectionError, True) == (type(error), error.retryable)


async def test_reset_in_the_middle_of_the_body(serve: Serve) -> None:
    """A connection that breaks within the answer is retryable, whatever it is called."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"
    assert (await failing(serve(Answer(raw=head)))).retryable


@pytest.mark.parametrize("status", [200, 500])
async def test_endless_body_is_cut_off(serve: Serve, status: int) -> None:
    """A body without end is read up to a bound, then the connection is closed."""
    server = serve(Answer(status=status, endless=b"x" * 65536))
    error = await failing(server)
    assert (errors.ModelMalformedError if status == 200 else errors.ModelServerError) is type(error)
    assert await trio.to_thread.run_sync(server.hung_up.wait, 2.0)


async def test_declared_huge_body_is_not_read(serve: Serve) -> None:
    """A Content-Length above the bound is refused before a byte of it is read."""
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"
    error = await failing(serve(Answer(raw=raw)))
    assert (errors.ModelMalformedError, True) == (type(error), "larger than 16 MiB" in str(error))


async def test_refused_port_and_unknown_host(serve: Serve) -> None:
    """No server behind the port, or no such host, is a connection error that says where it looked."""
    serve(chat())
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for host in (f"127.0.0.1:{port}", "no-such-host.invalid"):
        async with open_model(OpenAIOptions(model="tiny", base_url=f"http://{host}/v1", timeout=5), ENV) as model:
            with pytest.raises(errors.ModelConnectionError, match="cannot connect") as caught:
                await model.complete(QUESTION)
        assert f"http://{host}/v1/chat/completions" in str(caught.value)


async def test_cancelling_closes_the_connection_at_once(serve: Serve) -> None:
    """Cancellation ends the call without waiting, the server sees it, and the model serves the next call."""
    server = serve([Answer(hang=True), chat()])
    async with opened(server) as model:
        with trio.move_on_after(0.05) as scope:
            await model.complete(QUESTION)
        assert scope.cancelled_caught
        assert await trio.to_thread.run_sync(server.hung_up.wait, 2.0)
        assert "Paris" == (await model.complete(QUESTION)).text


async def test_many_calls_at_once(serve: Serve) -> None:
    """As many calls as `max_in_flight` says run side by side, each with its own reply."""
    server = serve(lambda request: chat(request.json["messages"][0]["content"]))
    texts: dict[int, str] = {}

    async def one(i: int) -> None:
        request = LMRequest(messages=(Message("user", str(i)),))
        texts[i] = (await model.complete(request)).text

    async with opened(server, max_in_flight=16) as model, trio.open_nursery() as nursery:
        for i in range(16):
            nursery.start_soon(one, i)
    assert {i: str(i) for i in range(16)} == texts
