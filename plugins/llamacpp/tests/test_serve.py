"""The endpoint, asked by burnish's own HTTP client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import httpx2
import pytest

from burnish import Environment
from burnish.abc import Layout, LMRequest, Message, Role, lay_out
from burnish_llamacpp import Endpoint, LlamaOptions, serve
from burnish_llamacpp._model import around
from burnish_llamacpp._server import Loaded

pytestmark = [pytest.mark.slow, pytest.mark.weights]

ROWS = Path(__file__).parents[3] / "examples" / "wordnet" / "six.jsonl"
LAYOUT = Layout(inputs=("gloss",), outputs=("category",))
OPTIONS = LlamaOptions(context=512, max_tokens=4, exact=True)


def requests(count: int) -> list[LMRequest]:
    """Make requests of the example's rows, with two demos."""
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()]
    turns = [Message("system", "Say which category the gloss belongs to: animal, plant or food. \n")]
    for row in rows[-2:]:
        turns += [Message("user", f"gloss: {row['gloss']}"), Message("assistant", f"category: {row['category']}")]
    glosses = [Message("user", f"gloss: {row['gloss']}") for row in rows[:count]]
    return [LMRequest(messages=(*turns, gloss), layout=LAYOUT) for gloss in glosses]


async def post(endpoint: Endpoint, path: str, body: dict[str, Any]) -> Any:
    """Post to the endpoint as any client would, and give the JSON."""
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        reply = await client.post(endpoint.base_url.removesuffix("/v1") + path, json=body)
    assert 200 == reply.status_code, reply.text
    return reply.json()


def turns_of(request: LMRequest) -> dict[str, Any]:
    """Give the turns as a chat client sends them, and nothing else."""
    return {"messages": [attrs.asdict(message) for message in request.messages]}


async def test_chat_turns_get_the_same_answers(environment: Environment, loaded: Loaded) -> None:
    """A chat client that sends turns only, and a completions client, get what the process itself answers."""
    asked = requests(3)
    model = around(loaded, attrs.evolve(loaded.options, exact=True))
    expected = [(await model.complete(request)).text for request in asked]
    async with serve(OPTIONS, environment, layout=LAYOUT) as endpoint:
        chat = [await post(endpoint, "/v1/chat/completions", turns_of(request)) for request in asked]
        prompts = [{"prompt": lay_out(request).text} for request in asked]
        completions = [await post(endpoint, "/v1/completions", body) for body in prompts]
        laid_out = [(await post(endpoint, "/apply-template", turns_of(request)))["prompt"] for request in asked]
    assert [lay_out(request).text for request in asked] == laid_out
    assert expected == ["category:" + reply["choices"][0]["message"]["content"] for reply in chat]
    assert expected == ["category:" + reply["choices"][0]["text"] for reply in completions]
    assert {"gemma3-270m"} == {reply["model"] for reply in chat}


async def test_dialogue_is_laid_out_the_same(environment: Environment) -> None:
    """Without a layout the template writes the dialogue that the process writes."""
    turns: tuple[tuple[Role, str], ...]
    turns = (("system", ' Be "brief".'), ("user", "Hi\n"), ("assistant", "Hm"), ("user", "{{ x }}"))
    request = LMRequest(messages=tuple(Message(role, content) for role, content in turns))
    async with serve(OPTIONS, environment) as endpoint:
        prompt = (await post(endpoint, "/apply-template", turns_of(request)))["prompt"]
    assert lay_out(request).text == prompt


async def test_own_template_goes_first(environment: Environment) -> None:
    """A template that is given is used instead."""
    async with serve(OPTIONS, environment, layout=LAYOUT, chat_template="<{{ messages[-1].content }}>") as endpoint:
        prompt = (await post(endpoint, "/apply-template", turns_of(requests(1)[0])))["prompt"]
    assert f"<{requests(1)[0].messages[-1].content}>" == prompt
