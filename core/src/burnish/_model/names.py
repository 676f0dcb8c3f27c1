"""What names tell: which one may have been meant, and whether a secret stands under it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_LETTERS, _CAPITALS = re.compile(r"[A-Za-z]+"), re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET = re.compile(
    r"[a-z]*(?:auth|cookies?|credentials?|passphrase|passw[a-z]*|secrets?|token)|authenticat[a-z]*|authori[sz][a-z]*"
    r"|(?:access|api|auth|private|secret|signing)?keys?|bearer|creds?|headers?|pwd|sig"
)


def names_secret(name: str) -> bool:
    """Say whether what stands under a name may be a secret, by the words of the name.

    `x-api-key`, `apiKey`, `auth_header` and `sig` are such names; `author`, `keyword`, `signature` and `max_tokens`,
    which begin or end like one, are not.
    """
    words = {*_CAPITALS.findall(name), *_LETTERS.findall(name)}
    return any(_SECRET.fullmatch(word.lower()) for word in words)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Ask for the name that may have been meant, as a part of an error's text: empty where none is near.

    Capitals play no part.
    """
    folded = {one.casefold(): one for one in known}
    found = difflib.get_close_matches(name.casefold(), folded, n=1)
    return f"did you mean `{folded[found[0]]}`?" if found else ""
