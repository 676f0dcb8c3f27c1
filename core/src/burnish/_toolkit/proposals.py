"""Proposals: many at once, each read and checked alone, asked again where it is no use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from burnish._model.parameter import Parameter
from burnish._runtime.calls import CallRequest, Reply
from burnish._runtime.engine import Engine
from burnish.errors import BurnishError

ATTEMPTS = 3
"""How often one proposal is asked for before it is given up."""

Check = Callable[[str], str | None]
"""Says why a text is no use; None where it is."""


@attrs.frozen(kw_only=True)
class Rejected:
    """A reply that was not taken, and why."""

    reason: str
    text: str = ""


@attrs.frozen(kw_only=True)
class Proposal:
    """What came of asking for one text."""

    text: str | None = None
    """None where no attempt brought one that is of use."""
    rejected: tuple[Rejected, ...] = ()
    cap: str | None = None
    """The cap that ended the asking."""


@attrs.define
class _Wish:
    request: CallRequest
    check: Check
    text: str | None = None
    rejected: list[Rejected] = attrs.field(factory=list)
    cap: str | None = None

    @property
    def open(self) -> bool:
        return self.text is None and self.cap is None


async def propose(
    engine: Engine,
    requests: Sequence[CallRequest],
    read: Callable[[Any], str],
    checks: Sequence[Check],
    *,
    known: Iterable[str] = (),
    attempts: int = ATTEMPTS,
    distinct: bool = True,
) -> list[Proposal]:
    """Ask for a text with each request, all at once; gives one proposal each, in order.

    `read` takes the text out of a prediction. A reply that failed, is malformed, cut off, empty, known already, or that
    its check refuses is asked for again, up to `attempts` times in all; the others are kept. Of equal texts the first
    in order counts. Without `distinct`, equal and known texts are given as they come: for those who rather do without
    than ask again.
    """
    wishes = [_Wish(request, check) for request, check in zip(requests, checks, strict=True)]
    taken = {_plain(text) for text in known}
    for attempt in range(attempts):
        asked = [wish for wish in wishes if wish.open]
        if not asked:
            break
        with engine.step("ask", attempt):
            replies = await engine.propose_many([_again(wish.request, attempt) for wish in asked])
        for wish, reply in zip(asked, replies, strict=True):
            _take(wish, reply, read, taken if distinct else set())
    return [Proposal(text=w.text, rejected=tuple(w.rejected), cap=w.cap) for w in wishes]


def _again(request: CallRequest, attempt: int) -> CallRequest:
    """Give the request for a further attempt: another sample, so that the reply may be another one."""
    if not attempt:
        return request
    return attrs.evolve(request, sample=1000 * attempt + (request.sample or 0))


def _take(wish: _Wish, reply: Reply, read: Callable[[Any], str], taken: set[str]) -> None:
    if reply.cap is not None:
        wish.cap = reply.cap
        return
    if reply.fault is not None:
        wish.rejected.append(Rejected(reason=str(reply.fault)))
        return
    try:
        text = read(reply.prediction)
    except (BurnishError, LookupError, AttributeError, TypeError, ValueError) as error:
        wish.rejected.append(Rejected(reason=f"it cannot be read: {error}"))
        return
    why = "it is empty" if not text.strip() else "it is known already" if _plain(text) in taken else wish.check(text)
    if why is not None:
        wish.rejected.append(Rejected(reason=why, text=text))
        return
    taken.add(_plain(text))
    wish.text = text


def _plain(text: str) -> str:
    """Two texts that differ in blanks alone are one proposal."""
    return " ".join(text.split())


def text_check(
    parameter: Parameter, *, most_chars: int = 20_000, protected: Iterable[str] = (), leaks: Iterable[str] = ()
) -> Check:
    """Make the check of a new text for a parameter.

    It is no use where it is too long, has lost a placeholder of the old one or has one that the program does not know,
    has lost a `protected` part, or holds one of `leaks`: texts of training rows that nobody may learn by heart.
    """
    kept, secrets = tuple(protected), tuple(leak for leak in leaks if leak.strip())

    def check(text: str) -> str | None:
        if len(text) > most_chars:
            return f"it has {len(text)} characters, more than {most_chars}"
        lost = parameter.lost(text)
        if lost:
            return f"it has lost {', '.join(lost)}"
        if parameter.kind == "text":
            unknown = sorted(placeholders(text) - set(parameter.placeholders))
            if unknown:
                return f"it has {', '.join(f'{{{{{name}}}}}' for name in unknown)}, which the program does not fill in"
        gone = [part for part in kept if part not in text]
        if gone:
            return f"it has lost the protected part {gone[0]!r:.80}"
        leaked = next((leak for leak in secrets if leak in text), None)
        return None if leaked is None else f"it holds the training row {leaked!r:.80}"

    return check


def placeholders(text: str) -> set[str]:
    """Give the names that a text holds as `{{name}}`."""
    return set(re.findall(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}", text))
