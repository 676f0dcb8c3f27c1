"""The model: a prompt, the lane, a reply."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import attrs
import trio

from burnish.abc import (
    LAYOUT_VERSION,
    BasePrompt,
    Environment,
    Json,
    LMRequest,
    LMResponse,
    ModelLimits,
    ModelPrice,
    lay_out,
)
from burnish_llamacpp._lane import Lane
from burnish_llamacpp._options import LlamaOptions
from burnish_llamacpp._reply import read_reply
from burnish_llamacpp._server import Loaded, load


@attrs.frozen(kw_only=True, eq=False)
class LlamaModel:
    """A `burnish.abc.Model` inside the process; made by `open_model`, which also closes it."""

    options: LlamaOptions
    identity: Mapping[str, Json] = attrs.field(repr=False)
    """What decides the answer: model and digest of its weights, layout, context, settings."""
    limits: ModelLimits
    _lane: Lane = attrs.field(repr=False)

    @property
    def waiting(self) -> int:
        """Calls that wait for the CPU."""
        return self._lane.waiting

    async def complete(self, request: LMRequest) -> LMResponse:
        """Answer one request, when the CPU is free and no other waiting prompt is closer to the last one.

        Raises `ContextLengthError` for a prompt that does not fit and other subclasses of `ModelError`. Cancellation
        ends the call at once; computing stops at the next token.
        """
        prompt = lay_out(request, multiline=self.options.multiline)
        chunks = await self._lane.run(prompt.text, self._body(request, prompt))
        return read_reply(chunks, prefill=prompt.prefill, model=str(self.identity["model"]))

    def _body(self, request: LMRequest, prompt: BasePrompt) -> dict[str, Json]:
        options = self.options
        seed = options.seed if request.seed is None else request.seed
        return {
            "prompt": prompt.text,
            "stop": list(prompt.stop),
            "temperature": options.temperature if request.temperature is None else request.temperature,
            "max_tokens": options.max_tokens if request.max_tokens is None else request.max_tokens,
            "seed": (seed + request.sample) % 2**31,
            "cache_prompt": not options.exact,
            # A stream can be stopped half way, and with progress also between two batches of the prompt.
            "stream": True,
            "return_progress": True,
        }


@asynccontextmanager
async def open_model(options: LlamaOptions | None = None, env: Environment | None = None) -> AsyncIterator[LlamaModel]:
    """Load a model into this process; leaving the block frees it.

    Without `env` the process's environment variables and the working directory are used. Raises as `load` does. Loading
    runs in a thread; cancelled, it is left behind and what it loads is dropped.
    """
    options = options or LlamaOptions()
    loaded = await trio.to_thread.run_sync(load, options, env, abandon_on_cancel=True, limiter=trio.CapacityLimiter(1))
    model = around(loaded)
    del loaded
    try:
        yield model
    finally:
        await model._lane.aclose()


def around(loaded: Loaded, options: LlamaOptions | None = None) -> LlamaModel:
    """Make a model around weights in memory; `options` other than those it was loaded with may change sampling only."""
    options, weights = options or loaded.options, loaded.weights
    return LlamaModel(
        options=options,
        identity=identity(options, name=weights.name, sha256=weights.sha256),
        limits=ModelLimits(
            key=f"llamacpp:{weights.name}:{secrets.token_hex(4)}",
            # The lane is the queue: only what waits in there can be put in a good order.
            max_in_flight=None,
            timeout=options.timeout,
            retries=0,
            max_output_tokens=options.max_tokens,
            price=ModelPrice(input=0, output=0),
        ),
        lane=Lane(loaded.server),
    )


def identity(options: LlamaOptions, *, name: str, sha256: str) -> dict[str, Json]:
    """Give what decides an answer; where a file lies, how many threads compute and how much is cached does not."""
    return {
        "provider": "llamacpp",
        "model": name,
        "weights": f"sha256:{sha256}",
        "layout": LAYOUT_VERSION,
        "context": options.context,
        "exact": options.exact,
        "settings": {
            "temperature": options.temperature,
            "max_tokens": options.max_tokens,
            "multiline": options.multiline,
            "seed": options.seed,
        },
    }
