"""What a user may set for one model on one endpoint."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

import attrs

from burnish.abc import Json, JsonMap, ModelPrice
from burnish.errors import ConfigError
from burnish_openai._secrets import HIDDEN, variable_shown, veiled

OWN_FIELDS = frozenset(
    {"model", "messages", "prompt", "stream", "n", "best_of", "echo", "max_tokens", "max_completion_tokens"}
)
"""Fields of the body that `extra` may not hold: the reply could not be read, would answer something else, or would be
longer than what a budget reserves for it (`max_tokens` and `max_tokens_field` are options of their own)."""


def _prices(value: ModelPrice | Mapping[str, Any] | None) -> ModelPrice | None:
    return ModelPrice(**value) if isinstance(value, Mapping) else value


def _texts(value: str | tuple[str, ...] | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _name_or_none(value: str | None) -> str | None:
    return value or None


def _headers(value: Mapping[str, str]) -> dict[str, str]:
    # No value is quoted: it may be the secret itself.
    if not isinstance(value, Mapping):
        raise ConfigError(f"model.openai: headers must be a table of texts, not of the type `{type(value).__name__}`")
    for name, text in value.items():
        if not isinstance(text, str):
            raise ConfigError(f"model.openai: the header `{name}` must be a text, not `{type(text).__name__}`")
    return dict(value)


def _json_copy(fields: dict[str, Any]) -> dict[str, Any]:
    try:
        return dict(json.loads(json.dumps(fields, allow_nan=False)))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"model.openai: `extra` must hold what JSON can: {error}") from None


def _without_userinfo(url: str) -> str:
    return repr(re.sub(r"//[^/?#]*@", f"//{HIDDEN}@", url.partition("?")[0]))


def _variables_shown(names: dict[str, str]) -> str:
    return "{" + ", ".join(f"{header!r}: {variable_shown(name)}" for header, name in names.items()) + "}"


@attrs.frozen(kw_only=True)
class OpenAIOptions:
    """Options of `model.openai`. Secrets are named here by their environment variable and never written down."""

    model: str
    """The model's id, as the endpoint knows it."""
    base_url: str = attrs.field(default="https://api.openai.com/v1", repr=_without_userinfo)
    """Where the API starts; `/chat/completions` or `/completions` is put behind its path, before its query."""
    api_key_env: str | None = attrs.field(
        default="OPENAI_API_KEY", converter=_name_or_none, repr=variable_shown
    )
    """Name of the environment variable that holds the API key; None or "" sends no key."""
    api: Literal["chat", "completions"] = "chat"
    """`chat` sends turns, `completions` one text: for base models without a chat template."""
    temperature: float | None = None
    """Sampling temperature; None leaves it to the endpoint. A request's own setting goes before this one."""
    top_p: float | None = None
    """Nucleus sampling: the share of probability to sample from, above 0 and up to 1."""
    max_tokens: int | None = None
    """Bound of one reply, in tokens. A budget in tokens or money needs it, to know what to reserve."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    """The bound's name in the body; None: `max_completion_tokens` for chat on api.openai.com, else `max_tokens`."""
    seed: int | None = None
    """Seed of the endpoint's sampling. Sample k of a request is asked with seed + k, so that samples differ."""
    stop: tuple[str, ...] = attrs.field(default=(), converter=_texts)
    """Texts that end the reply, where the request names none."""
    headers: dict[str, str] = attrs.field(factory=dict, converter=_headers, repr=lambda value: repr(sorted(value)))
    """Further headers. For one that holds a secret take `headers_env`: configuration files get about."""
    headers_env: dict[str, str] = attrs.field(factory=dict, converter=_headers, repr=_variables_shown)
    """Further headers whose values are secret: header -> name of the environment variable."""
    extra: dict[str, Any] = attrs.field(factory=dict, converter=_json_copy, repr=lambda value: repr(veiled(value)))
    """Further fields of the JSON body, passed on as they are (`{cache_prompt = false}`); they win over the rest."""
    timeout: float = 120.0
    """Seconds that one attempt may take, from connecting to the last byte."""
    retries: int = 4
    """Further attempts after a failure that may pass. The core makes them, not this model."""
    max_in_flight: int | None = None
    """Calls at once; None leaves it to the run's concurrency."""
    prices: ModelPrice | None = attrs.field(default=None, converter=_prices)
    """What the model's tokens cost, in US dollars per million: `{input = 0.15, cached_input = 0.075, output = 0.6}`.
    None: what genai-prices says of endpoint and model, where it is installed (`burnish-openai[prices]`)."""

    def __attrs_post_init__(self) -> None:
        _require(bool(self.model.strip()), "model", "the id of a model", self.model)
        _require(self.api in ("chat", "completions"), "api", '"chat" or "completions"', self.api)
        _require(_between(self.temperature, 0.0, math.inf), "temperature", "a number from 0", self.temperature)
        _require(_between(self.top_p, 0.0, 1.0) and self.top_p != 0, "top_p", "above 0 and up to 1", self.top_p)
        _require(_between(self.max_tokens, 1, math.inf), "max_tokens", "at least 1", self.max_tokens)
        _require(self.timeout > 0 and math.isfinite(self.timeout), "timeout", "seconds, above 0", self.timeout)
        _require(self.retries >= 0, "retries", "0 or more", self.retries)
        _require(_between(self.max_in_flight, 1, math.inf), "max_in_flight", "at least 1", self.max_in_flight)
        _check_url(self.base_url)
        own = sorted(OWN_FIELDS & set(self.extra))
        _require(not own, "extra", f"fields other than {', '.join(sorted(OWN_FIELDS))}", own)

    @property
    def endpoint(self) -> str:
        """Where the API starts as `scheme://host:port/path`, without userinfo, query and default port."""
        parts = urlsplit(self.base_url)
        host = (parts.hostname or "").lower()
        host = f"[{host}]" if ":" in host else host
        default = {"http": 80, "https": 443}[parts.scheme]
        port = f":{parts.port}" if parts.port not in (None, default) else ""
        return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"

    @property
    def address(self) -> str:
        """The URL that a request goes to, without userinfo and query: what messages may show."""
        return f"{self.endpoint}/{'chat/completions' if self.api == 'chat' else 'completions'}"

    @property
    def identity(self) -> JsonMap:
        """What decides an answer; settings that are not set are left out, secrets in `extra` are digests."""
        settings: dict[str, Json] = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            "stop": list(self.stop) or None,
        }
        return {
            "provider": "openai",
            "base_url": self.endpoint,
            "api": self.api,
            "model": self.model,
            "settings": {k: v for k, v in settings.items() if v is not None},
            "extra": veiled(self.extra),
        }


def _between(value: float | None, low: float, high: float) -> bool:
    return value is None or low <= value <= high


def _require(holds: bool, key: str, expected: str, value: object) -> None:
    if not holds:
        raise ConfigError(f"model.openai: `{key}` must be {expected}, not {value!r:.80}")


def _check_url(url: str) -> None:
    # The value itself is not quoted: it may hold a password.
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        (parts.hostname or "").encode("idna")  # what looking the name up does, which would raise a bare UnicodeError
    except ValueError:
        usable = False
    if not usable or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigError(
            'model.openai: `base_url` must be an http or https URL with a host, such as "http://127.0.0.1:8080/v1"'
        )
    if parts.path.rstrip("/").endswith("/completions"):
        raise ConfigError("model.openai: `base_url` must end before `/chat/completions` or `/completions`")
