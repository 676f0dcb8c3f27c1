"""The secrets of one endpoint: read once, sent as headers, kept out of everything that is shown."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

import attrs

from burnish.errors import ConfigError
from burnish_openai._options import OpenAIOptions
from burnish_openai._secrets import HIDDEN, SECRET_NAME, VARIABLE_NAME, digest, secret_texts

SHORTEST = 8
"""Characters of a text of `extra` from which on it is taken out of messages."""
SCHEME = re.compile(r"(?:Bearer|Basic|Token|ApiKey) +(.+)", re.IGNORECASE)


@attrs.frozen(kw_only=True)
class Credentials:
    """The headers to send, and the texts that must never be shown."""

    headers: Mapping[str, str] = attrs.field(repr=False)
    """All headers of the user's, secret ones included."""
    secrets: tuple[str, ...] = attrs.field(repr=False)
    """Those that say who asks. Longest first, so that one secret inside another leaves no rest."""
    others: tuple[str, ...] = attrs.field(default=(), repr=False)
    """Further ones, out of `extra`: not shown either."""

    @property
    def digest(self) -> str:
        """Tell credentials apart without showing them: 16 hex digits of SHA-256, or `none`."""
        if not self.secrets:
            return "none"
        return digest("\0".join(self.secrets))

    def redact(self, text: str) -> str:
        """Replace every secret in a text."""
        for secret in (*self.secrets, *self.others):
            text = text.replace(secret, HIDDEN)
        return text


def read_credentials(options: OpenAIOptions, variables: Mapping[str, str]) -> Credentials:
    """Read what the options name; raise `ConfigError`, which never shows a value, where it is missing or unusable."""
    headers, secrets = _of_url(options.base_url)
    if options.api_key_env is not None:
        key = _variable("api_key_env", options.api_key_env, variables)
        headers["authorization"] = f"Bearer {key}"
        secrets.add(key)
    for name, value in options.headers.items():
        headers[name.lower()] = _usable(f"headers.{name}", value.strip())
        if SECRET_NAME.search(name):
            secrets.add(value.strip())
    for name, variable in options.headers_env.items():
        headers[name.lower()] = value = _variable(f"headers_env.{name}", variable, variables)
        secrets.add(value)
    # The token behind a scheme is secret without the scheme too.
    secrets |= {match[1] for match in map(SCHEME.match, secrets) if match}
    # Short texts are left: `extra` is no place for keys, and its other values must not take words out of messages.
    others = {text for text in secret_texts(options.extra) if len(text) >= SHORTEST}
    return Credentials(headers=headers, secrets=_longest_first(secrets - {""}), others=_longest_first(others))


def _longest_first(texts: set[str]) -> tuple[str, ...]:
    return tuple(sorted(texts, key=lambda text: (-len(text), text)))


def _of_url(url: str) -> tuple[dict[str, str], set[str]]:
    parts = urlsplit(url)
    secrets = {value for name, value in parse_qsl(parts.query) if SECRET_NAME.search(name)}
    if parts.username is None and parts.password is None:
        return {}, secrets
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    token = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"authorization": f"Basic {token}"}, secrets | {password, token}


def _variable(key: str, name: str, variables: Mapping[str, str]) -> str:
    value = variables.get(name, "").strip()
    if not value and not VARIABLE_NAME.fullmatch(name):
        raise ConfigError(
            f"model.openai: `{key}` must be the name of an environment variable, such as OPENAI_API_KEY; no variable "
            "has the name that stands there, which is not shown here as it may be the secret itself"
        )
    if not value:
        way_out = '; for an endpoint without a key write api_key_env = ""' if key == "api_key_env" else ""
        raise ConfigError(f"model.openai: `{key}` names the environment variable {name}, which is not set{way_out}")
    return _usable(f"{key} (variable {name})", value)


def _usable(key: str, value: str) -> str:
    # Checked here because the HTTP layer quotes a header that it refuses, key and all.
    if not value.isascii() or not value.isprintable():
        raise ConfigError(f"model.openai: the value of `{key}` has characters that no HTTP header may hold")
    return value
