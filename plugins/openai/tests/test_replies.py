"""What a good answer becomes, and what is sent for it."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from decimal import Decimal

import attrs
import pytest

from burnish.abc import LMResponse, Usage

from ._ask import KEY, QUESTION, ask, opened
from ._server import Answer, Script, Server, chat

Serve = Callable[[Script], Server]


async def test_reply_holds_text_usage_reason_and_model(serve: Serve) -> None:
    """A reply carries the text, the tokens, why it ended and the id of the model that answered; no cost is unknown."""
    reply = await ask(serve(chat("Paris")))
    expected = LMResponse(
        text="Paris", usage=Usage(input_tokens=11, output_tokens=2), finish_reason="stop", model="tiny-2026", cost=None
    )
    assert expected == reply


async def test_request_is_one_post_with_turns_and_settings(serve: Serve) -> None:
    """One POST goes to `/chat/completions` with the key as bearer; settings that nobody set are not sent."""
    server = serve(chat())
    await ask(server, temperature=0.5, top_p=0.9, max_tokens=20, seed=7, stop=["END"], extra={"cache_prompt": False})
    (sent,) = server.received
    assert ("POST", "/v1/chat/completions") == (sent.method, sent.path)
    assert f"Bearer {KEY}" == sent.headers["authorization"]
    turns = [{"role": "system", "content": "Answer."}, {"role": "user", "content": "Capital of France?"}]
    expected = {
        "model": "tiny",
        "messages": turns,
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 20,
        "seed": 7,
        "stop": ["END"],
        "cache_prompt": False,
    }
    assert expected == sent.json
    await ask(server)
    assert {"model": "tiny", "messages": turns} == server.received[1].json


async def test_request_settings_go_before_options(serve: Serve) -> None:
    """A request's own settings win over the options'; sample k is asked with seed + k, so that n samples differ."""
    server = serve(chat())
    request = attrs.evolve(QUESTION, temperature=0.0, max_tokens=5, stop=("\n",), sample=2)
    await ask(server, request, temperature=1.0, max_tokens=50, stop="X", seed=40)
    sent = server.received[0].json
    assert (0.0, 5, ["\n"], 42) == (sent["temperature"], sent["max_tokens"], sent["stop"], sent["seed"])


async def test_bound_of_the_reply_can_have_the_newer_name(serve: Serve) -> None:
    """`max_tokens_field` names the bound in the body."""
    server = serve(chat())
    await ask(server, max_tokens=9, max_tokens_field="max_completion_tokens")
    sent = server.received[0].json
    assert (9, None) == (sent.get("max_completion_tokens"), sent.get("max_tokens"))


async def test_headers_come_from_options_and_environment(serve: Serve) -> None:
    """Plain headers are sent, secret ones are read from the named variable, and no key means no authorization."""
    server = serve(chat())
    await ask(server, api_key_env=None, headers={"X-Title": "burnish"}, headers_env={"Api-Key": "GATEWAY_KEY"})
    headers = server.received[0].headers
    assert ("burnish", "gw-77a1b2", None) == (headers["x-title"], headers["api-key"], headers.get("authorization"))


async def test_query_and_userinfo_of_base_url_are_used(serve: Serve) -> None:
    """A query stays behind the path; userinfo becomes basic authentication."""
    server = serve(chat())
    url = server.url.replace("//", "//ann:p%40ss@") + "?api-version=2"
    await ask(server, base_url=url, api_key_env=None)
    (sent,) = server.received
    assert ("/v1/chat/completions?api-version=2", "Basic YW5uOnBAc3M=") == (sent.path, sent.headers["authorization"])


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("", ""),
        ([{"type": "text", "text": "Par"}, {"type": "image"}, {"type": "text", "text": "is"}], "Paris"),
        ("half \ud83d pair", "half \ufffd pair"),
        ("\U0001f600", "\U0001f600"),
    ],
)
async def test_content_becomes_text(serve: Serve, content: object, text: str) -> None:
    """No content is empty text, parts are joined, and half a surrogate pair becomes a replacement character."""
    message = {"role": "assistant", "content": content, "refusal": None, "tool_calls": [{"id": "1"}]}
    reply = await ask(serve(chat(choices=[{"message": message, "finish_reason": None}])))
    assert (text, "stop") == (reply.text, reply.finish_reason)


async def test_packed_reply_is_unpacked(serve: Serve) -> None:
    """A proxy that compresses without being asked does no harm."""
    good = chat()
    packed = attrs.evolve(good, body=gzip.compress(good.content), headers={"Content-Encoding": "gzip"})
    assert "Paris" == (await ask(serve(packed))).text


async def test_other_finish_reasons_pass(serve: Serve) -> None:
    """`length` says that the text is cut off; a provider's own word passes as it is."""
    for reason in ("length", "tool_calls"):
        choice = {"message": {"content": "Par"}, "finish_reason": reason}
        assert reason == (await ask(serve(chat(choices=[choice])))).finish_reason


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, Usage()),
        ({"prompt_tokens": 5, "completion_tokens": None}, Usage(input_tokens=5)),
        ({"prompt_tokens": 5.0, "completion_tokens": 1}, Usage(input_tokens=5, output_tokens=1)),
        (
            {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 8}},
            Usage(input_tokens=9, output_tokens=1, cached_tokens=8),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 4},
            Usage(input_tokens=9, output_tokens=1, cached_tokens=4),
        ),
    ],
)
async def test_usage_is_read(serve: Serve, usage: object, expected: Usage) -> None:
    """Tokens are read in the forms that servers use, those from the prompt cache among them."""
    assert expected == (await ask(serve(chat(usage=usage)))).usage


@pytest.mark.parametrize(
    ("usage", "header", "expected"),
    [
        ({"cost": 0.000123}, None, Decimal("0.000123")),
        ({"cost": 0}, None, Decimal(0)),
        ({"cost": 0.1, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.2}}, None, Decimal("0.3")),
        ({"cost": 0.1, "is_byok": True}, None, None),
        ({}, "1.5e-05", Decimal("0.000015")),
        ({"cost": "NaN"}, None, None),
        ({"cost": -1}, None, None),
        ({"cost": True}, "nonsense", None),
    ],
)
async def test_cost_is_exact_or_unknown(
    serve: Serve, usage: dict[str, object], header: str | None, expected: Decimal | None
) -> None:
    """A cost is the decimal that the endpoint wrote; what is not a sum of money is unknown, never 0."""
    answer = attrs.evolve(chat(usage=usage), headers={"x-litellm-response-cost": header} if header else {})
    assert expected == (await ask(serve(answer))).cost


async def test_cookies_are_not_kept(serve: Serve) -> None:
    """A cookie is not sent back: calls share nothing, and one that no header may hold breaks no later call."""
    server = serve(attrs.evolve(chat(), headers={"Set-Cookie": "\xff=1"}))
    async with opened(server) as model:
        for _ in range(2):
            await model.complete(QUESTION)
    assert [None, None] == [sent.headers.get("cookie") for sent in server.received]


async def test_connection_is_used_again(serve: Serve) -> None:
    """Calls one after the other share a connection, an error's answer included."""
    server = serve([chat(), Answer(status=500, body=b"no"), chat()])
    async with opened(server) as model:
        await model.complete(QUESTION)
        with pytest.raises(Exception, match="answered 500"):
            await model.complete(QUESTION)
        await model.complete(QUESTION)
    assert (3, 1) == (len(server.received), server.connections)
