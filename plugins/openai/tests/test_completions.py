"""The completions API: one text in, for base models."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from burnish.abc import Layout, LMRequest, Message

from ._ask import ask
from ._server import Script, Server, completion

Serve = Callable[[Script], Server]

REQUEST = LMRequest(
    messages=(
        Message("system", "Name the capital."),
        Message("user", "Country: Italy"),
        Message("assistant", "City: Rome"),
        Message("user", "Country: France"),
    ),
    layout=Layout(inputs=("Country",), outputs=("City", "Why")),
)


async def test_turns_become_one_prompt_that_ends_with_the_label(serve: Serve) -> None:
    """Blocks stand with blank lines between them, a reply on the line after its input, then the first output label."""
    server = serve(completion(" Paris\nWhy: so it is"))
    reply = await ask(server, REQUEST, api="completions", max_tokens=8)
    (sent,) = server.received
    assert "/v1/completions" == sent.path
    prompt = "Name the capital.\n\nCountry: Italy\nCity: Rome\n\nCountry: France\nCity:"
    stop = ["\n\n", "\nCountry:", "\nCity:"]
    assert {"model": "tiny", "prompt": prompt, "max_tokens": 8, "stop": stop} == sent.json
    assert "City: Paris\nWhy: so it is" == reply.text


@pytest.mark.parametrize(("text", "expected"), [("Paris", "City: Paris"), ("\nParis", "City:\nParis"), ("", "City: ")])
async def test_reply_gets_the_label_back(serve: Serve, text: str, expected: str) -> None:
    """The label that the prompt ended with stands before the reply, so that the program finds its field."""
    assert expected == (await ask(serve(completion(text)), REQUEST, api="completions")).text


async def test_without_a_layout_the_text_is_the_reply(serve: Serve) -> None:
    """Without a layout the turns are a dialogue and the reply has no label; a given stop is kept."""
    server = serve(completion(" Paris"))
    request = attrs.evolve(REQUEST, layout=None, messages=(Message("user", "The capital of France is"),))
    reply = await ask(server, request, api="completions", stop=("\n\n",))
    prompt = "User: The capital of France is\n\nAssistant:"
    assert {"model": "tiny", "prompt": prompt, "stop": ["\n\n"]} == server.received[0].json
    assert " Paris" == reply.text
