"""The one place where this model's errors get their text: named, bounded, without secrets."""

from __future__ import annotations

from typing import TypeVar

import attrs

from burnish.errors import ModelError
from burnish_openai._credentials import Credentials

QUOTED = 300
"""Characters of an endpoint's own words that a message holds at most."""

E = TypeVar("E", bound=ModelError)


@attrs.frozen(kw_only=True)
class Faults:
    """Makes the errors of one model."""

    address: str
    """Where requests go, without userinfo and query."""
    model: str
    credentials: Credentials

    def make(
        self, kind: type[E], what: str, *, quote: str = "", status: int | None = None, retry_after: float | None = None
    ) -> E:
        """Make an error: what happened where, and the endpoint's own words, where it had some."""
        said = self.quote(quote)
        text = f"POST {self.address} (model `{self.model}`): {what}" + (f": {said}" if said else "")
        return kind(text, status=status, retry_after=retry_after)

    def quote(self, text: str) -> str:
        """Give the start of a foreign text on one line, with the secrets out before it is cut."""
        line = " ".join(self.credentials.redact(text).split())
        # Control characters could drive the terminal that shows the message.
        line = "".join(c if c.isprintable() else "\ufffd" for c in line[:QUOTED + 1])
        return line if len(line) <= QUOTED else line[: QUOTED - 1] + "…"
