"""Ask a server one thing, with the options of a test."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

import attrs

from burnish import Environment
from burnish.abc import LMRequest, LMResponse, Message
from burnish.errors import ModelError
from burnish_openai import OpenAIModel, OpenAIOptions, open_model

from ._server import Server

KEY = "sk-test-4f9d21c7"
ENV = Environment(variables={"OPENAI_API_KEY": KEY, "GATEWAY_KEY": "gw-77a1b2"})
QUESTION = LMRequest(messages=(Message("system", "Answer."), Message("user", "Capital of France?")))


def opened(server: Server, **options: Any) -> AbstractAsyncContextManager[OpenAIModel]:
    """Open the model of a test on a server."""
    settings: dict[str, Any] = {"model": "tiny", "base_url": server.url, "timeout": 5.0}
    return open_model(OpenAIOptions(**(settings | options)), ENV)


async def ask(server: Server, request: LMRequest = QUESTION, **options: Any) -> LMResponse:
    """Ask once and close."""
    async with opened(server, **options) as model:
        return await model.complete(request)


async def failing(server: Server, **options: Any) -> ModelError:
    """Ask once and give the error that came."""
    try:
        reply = await ask(server, **options)
    except ModelError as error:
        return error
    raise AssertionError(f"no error, but {attrs.asdict(reply)}")
