"""One request as the JSON body that an endpoint takes."""

from __future__ import annotations

import attrs

from burnish.abc import Json, JsonMap, LMRequest, lay_out
from burnish_openai._options import OpenAIOptions

MOST_STOPS = 4
"""What OpenAI's API takes at most."""


@attrs.frozen(kw_only=True)
class Call:
    """What is sent, and what stands before the reply."""

    body: JsonMap
    prefix: str = ""
    """The label that the prompt ended with: it belongs to the reply, so that the program finds its field."""


def make_call(options: OpenAIOptions, request: LMRequest) -> Call:
    """Lay out a request for the options' API. `extra` is merged last and wins."""
    body: JsonMap = {"model": options.model}
    stop = request.stop or options.stop
    prefix = ""
    if options.api == "chat":
        body["messages"] = [{"role": m.role, "content": m.content} for m in request.messages]
    else:
        prompt = lay_out(request)
        body["prompt"], prefix = prompt.text, prompt.prefill
        stop = stop or prompt.stop[:MOST_STOPS]
    body.update(_settings(options, request, stop))
    body.update(options.extra)
    return Call(body=body, prefix=prefix)


def _settings(options: OpenAIOptions, request: LMRequest, stop: tuple[str, ...]) -> JsonMap:
    seed = options.seed if request.seed is None else request.seed
    settings: dict[str, Json] = {
        "temperature": options.temperature if request.temperature is None else request.temperature,
        "top_p": options.top_p,
        _bound_name(options): options.max_tokens if request.max_tokens is None else request.max_tokens,
        "seed": None if seed is None else seed + request.sample,
        "stop": list(stop) or None,
    }
    return {k: v for k, v in settings.items() if v is not None}


def _bound_name(options: OpenAIOptions) -> str:
    if options.max_tokens_field is not None:
        return options.max_tokens_field
    # OpenAI's reasoning models refuse the old name; most other servers know nothing but the old name.
    newer = options.api == "chat" and options.endpoint.startswith("https://api.openai.com/")
    return "max_completion_tokens" if newer else "max_tokens"
