"""The same weights as an OpenAI-compatible endpoint on loopback, for any HTTP client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import trio

from burnish.abc import Environment, Layout, stops
from burnish_llamacpp._layout import chat_template as write_template
from burnish_llamacpp._options import LlamaOptions
from burnish_llamacpp._server import Listening, load


@attrs.frozen(kw_only=True)
class Endpoint:
    """Where an OpenAI-compatible client finds the model."""

    base_url: str
    """`http://127.0.0.1:<port>/v1`."""
    model: str
    """The model's id there."""


@asynccontextmanager
async def serve(
    options: LlamaOptions | None = None,
    env: Environment | None = None,
    *,
    layout: Layout | None = None,
    chat_template: str | None = None,
    port: int = 0,
) -> AsyncIterator[Endpoint]:
    """Listen on loopback with `/v1/chat/completions` and `/v1/completions`; leaving the block stops it.

    With the `layout` of a program the server turns chat turns into the prompt that the in-process model makes of them,
    and ends replies where that does, so with `exact` the answers are the same; a reply of the chat endpoint lacks the
    label that the prompt ended with (`food`, not `category: food`), and where demos of a single output have several
    lines the options must say `multiline`. `chat_template` is a Jinja template to use instead.
    Settings that a client does not send are those of the options; clients are asked for no key. Raises as `open_model`
    does. Cancelled while it starts, it is left behind and stops by itself.
    """
    options, limiter = options or LlamaOptions(), trio.CapacityLimiter(1)
    listening = Listening(
        port=port,
        chat_template=write_template(layout) if chat_template is None else chat_template,
        stop=stops(layout, options.multiline),
    )
    loaded = await trio.to_thread.run_sync(load, options, env, listening, abandon_on_cancel=True, limiter=limiter)
    holder = [loaded.server]
    endpoint = Endpoint(base_url=f"{loaded.server.listening_address}/v1", model=loaded.weights.name)
    del loaded
    try:
        yield endpoint
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(holder.clear, limiter=limiter)
