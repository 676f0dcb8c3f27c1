"""What is taken for a secret, and what is shown in its place."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from burnish.abc import Json

HIDDEN = "[redacted]"
SECRET_NAME = re.compile(r"auth|cookie|key|secret|sig|token", re.IGNORECASE)
"""Names of headers, query fields and fields of the body whose values are taken for secrets."""
VARIABLE_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
"""What a variable's name looks like: a key that was pasted in its place mostly does not."""


def digest(text: str) -> str:
    """Tell secrets apart without showing them: 16 hex digits of SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def veiled(value: Json, secret: bool = False) -> Json:
    """Give a JSON value with a digest in place of each text under a name of a secret; numbers are none."""
    if isinstance(value, dict):
        return {name: veiled(below, secret or bool(SECRET_NAME.search(name))) for name, below in value.items()}
    if isinstance(value, list):
        return [veiled(below, secret) for below in value]
    return f"{HIDDEN} sha256:{digest(value)}" if secret and isinstance(value, str) else value


def secret_texts(value: Json, secret: bool = False) -> Iterator[str]:
    """Give the texts that `veiled` hides."""
    if isinstance(value, dict):
        for name, below in value.items():
            yield from secret_texts(below, secret or bool(SECRET_NAME.search(name)))
    elif isinstance(value, list):
        for below in value:
            yield from secret_texts(below, secret)
    elif secret and isinstance(value, str):
        yield value


def variable_shown(name: str | None) -> str:
    """Give the repr of a variable's name, or that it is hidden: it may be the secret itself."""
    return repr(name) if name is None or VARIABLE_NAME.fullmatch(name) else HIDDEN
