"""The real thing: 270M weights in this process."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import attrs
import pytest
import trio

from burnish import Environment, abc, errors
from burnish.abc import Layout, LMRequest, LMResponse, Message, Usage
from burnish_llamacpp import LlamaModel, LlamaOptions, open_model
from burnish_llamacpp._model import around
from burnish_llamacpp._server import Loaded, load

pytestmark = [pytest.mark.slow, pytest.mark.weights]

CAPITALS = (
    Message("system", "Name the capital."),
    Message("user", "Country: Italy"),
    Message("assistant", "City: Rome"),
    Message("user", "Country: Spain"),
    Message("assistant", "City: Madrid"),
)
LAYOUT = Layout(inputs=("Country",), outputs=("City",))


def ask_capital(country: str, **settings: Any) -> LMRequest:
    """Make a request with two demos."""
    return LMRequest(messages=(*CAPITALS, Message("user", f"Country: {country}")), layout=LAYOUT, **settings)


def model_of(loaded: Loaded, **options: Any) -> LlamaModel:
    """Make a model around the session's weights, in the current run of trio."""
    return around(loaded, attrs.evolve(loaded.options, **options))


async def test_base_model_goes_on_from_the_demos(loaded: Loaded) -> None:
    """It answers as the demos do, with its label in front, stops by itself, and says what it used."""
    model = model_of(loaded, exact=True)
    assert isinstance(model, abc.Model)
    reply = await model.complete(ask_capital("France"))
    usage = Usage(input_tokens=reply.usage.input_tokens, output_tokens=2)
    assert LMResponse(text="City: Paris", usage=usage, model="gemma3-270m", cost=Decimal(0)) == reply
    assert 20 < reply.usage.input_tokens < 40


async def test_the_bound_cuts_a_reply_off(loaded: Loaded) -> None:
    """A reply that reaches the bound says `length`; a request's own bound goes before the model's."""
    replies = [
        await model_of(loaded, max_tokens=3).complete(LMRequest(messages=(Message("user", "Hi"),), max_tokens=bound))
        for bound in (None, 2)
    ]
    assert [("length", 3), ("length", 2)] == [(r.finish_reason, r.usage.output_tokens) for r in replies]


async def test_a_shared_start_is_computed_once(loaded: Loaded) -> None:
    """The second prompt with the same demos reuses their tokens; in exact mode nothing is reused."""
    await model_of(loaded).complete(ask_capital("France"))
    reused = (await model_of(loaded).complete(ask_capital("Japan"))).usage
    exact = (await model_of(loaded, exact=True).complete(ask_capital("Japan"))).usage
    assert reused.input_tokens - reused.cached_tokens <= 6
    assert (0, reused.input_tokens) == (exact.cached_tokens, exact.input_tokens)


async def test_candidates_in_turn_keep_their_prefixes(loaded: Loaded) -> None:
    """Prompts that share nothing do not push each other out: coming back to the first costs its last tokens only."""
    other = LMRequest(messages=(Message("user", "Once upon a time there was a king who had three daughters."),))
    for request in (ask_capital("France"), other):
        await model_of(loaded).complete(request)
    usage = (await model_of(loaded).complete(ask_capital("Japan"))).usage
    assert usage.input_tokens - usage.cached_tokens <= 6


async def test_exact_answers_do_not_depend_on_history(loaded: Loaded) -> None:
    """In exact mode a sampled answer is the same whatever was asked before, and another sample is another."""
    model = model_of(loaded, exact=True, temperature=1.5, max_tokens=8)
    request = LMRequest(messages=(Message("user", "Tell me a story."),))
    first = await model.complete(request)
    await model_of(loaded).complete(ask_capital("France"))
    assert first == await model.complete(request)
    assert first.text != (await model.complete(attrs.evolve(request, sample=1))).text


async def test_long_prompt_is_a_context_error(loaded: Loaded) -> None:
    """A prompt that does not fit is known as such, with the numbers."""
    with pytest.raises(errors.ContextLengthError, match=r"\d+ tokens and the context 512"):
        await model_of(loaded).complete(LMRequest(messages=(Message("user", "word " * 600),)))


async def test_wrong_setting_is_a_request_error(loaded: Loaded) -> None:
    """What llama.cpp does not accept is the request's fault."""
    many: Any = "many"
    request = ask_capital("France", max_tokens=many)
    with pytest.raises(errors.ModelRequestError, match="max_tokens"):
        await model_of(loaded).complete(request)


async def test_cancellation_is_prompt(loaded: Loaded) -> None:
    """A call on the CPU lets its caller go at once; its prompt of 400 tokens is not computed to the end."""
    model = model_of(loaded, exact=True)
    with trio.move_on_after(0.02) as scope:
        start = trio.current_time()
        await model.complete(LMRequest(messages=(Message("user", "word " * 400),)))
    assert (True, True) == (scope.cancelled_caught, trio.current_time() - start < 1.0)
    assert "City: Paris" == (await model.complete(ask_capital("France"))).text


async def test_open_and_close_around_a_call(environment: Environment, loaded: Loaded) -> None:
    """`open_model` gives a model whose identity holds the digest of its weights; closed, it refuses."""
    options = LlamaOptions(model=str(loaded.weights.path), context=64)
    async with open_model(options, environment) as model:
        reply = await model.complete(LMRequest(messages=(Message("user", "Hi"),), max_tokens=1))
    assert (f"sha256:{loaded.weights.sha256}", loaded.weights.path.stem) == (model.identity["weights"], reply.model)
    with pytest.raises(errors.UsageError, match="closed"):
        await model.complete(ask_capital("France"))


async def test_closing_at_once_returns(environment: Environment) -> None:
    """A model that is closed as soon as it is open does not hang."""
    with trio.fail_after(30):
        async with open_model(LlamaOptions(context=64), environment):
            pass


def test_a_file_that_is_no_model_is_refused(environment: Environment) -> None:
    """What llama.cpp cannot load is a wrong option that names the file."""
    (environment.base_dir / "bad.gguf").write_bytes(b"GGUF nonsense")
    with pytest.raises(errors.ConfigError, match=r"cannot load .*bad\.gguf"):
        load(LlamaOptions(model="bad.gguf"), environment)


def test_nothing_is_printed(environment: Environment, capfd: pytest.CaptureFixture[str]) -> None:
    """Loading, answering and closing leave stdout and stderr alone."""
    load(LlamaOptions(context=64), environment)
    assert ("", "") == tuple(capfd.readouterr())
