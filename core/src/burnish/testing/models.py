"""Models for tests: no weights, no network, no keys, the same answers every time."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import trio

from burnish._model.canonical import Json, fingerprint, hash64
from burnish._model.lm import Layout, LMRequest, LMResponse, Message, Usage
from burnish.abc import ModelLimits
from burnish.errors import ModelError, UsageError

Reply: TypeAlias = str | LMResponse | Exception


class ScriptEndedError(ModelError):
    """A `ScriptedModel` was asked more often than its script has replies; every further call must fail too."""

    fatal = True


class ScriptedModel:
    """Answer from a script: a `burnish.abc.Model` for tests.

    `reply` is a list, served in order of the calls (a text, an `LMResponse`, or an exception to raise), or a sync
    function of the request that returns a text or an `LMResponse`, or raises. Where calls run at once, which comes
    first is the scheduler's choice: let a function decide by the request then. Past the end of a list every call raises
    `ScriptEndedError`.

    `usage` is what each text costs (None: the words of prompt and reply count as tokens), `delay` the seconds that a
    call takes. Nothing of the script or of what was served is in `identity`: give models that answer differently
    different names where they share a cache. A cancelled call stays counted and its reply is served to a later one.
    """

    def __init__(
        self,
        reply: Iterable[Reply] | Callable[[LMRequest], str | LMResponse],
        *,
        usage: Usage | None = None,
        delay: float = 0.0,
        name: str = "scripted",
        limits: ModelLimits | None = None,
    ) -> None:
        if isinstance(reply, str):
            raise UsageError(f"a script is a list of replies or a function of the request; write [{reply!r:.40}]")
        self.calls = 0
        """How often it was asked."""
        self.requests: list[LMRequest] = []
        """What it was asked, in order."""
        self._function = reply if callable(reply) else None
        self._script = [] if callable(reply) else list(enumerate(reply))
        self._length = len(self._script)
        self._usage, self._delay, self._name = usage, delay, name
        self._limits = limits or ModelLimits(key=f"burnish.testing:{name}", timeout=None)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r}, asked {self.calls} times>"

    @property
    def identity(self) -> Mapping[str, Json]:
        return {"provider": "burnish.testing", "model": self._name}

    @property
    def fingerprint(self) -> str:
        """Identity for programs that hold the model: that of `identity`, so what was asked does not change it."""
        return fingerprint(dict(self.identity))

    @property
    def limits(self) -> ModelLimits:
        return self._limits

    @property
    def left(self) -> int:
        """How many replies of a list are not served yet."""
        return len(self._script)

    async def complete(self, request: LMRequest) -> LMResponse:
        """Give the next reply. Cancelled, it has served nothing."""
        self.calls += 1
        self.requests.append(request)
        turn = heapq.heappop(self._script) if self._script else None
        try:
            await trio.sleep(self._delay)
        except trio.Cancelled:
            if turn is not None:
                heapq.heappush(self._script, turn)
            raise
        return self._response(request, self._function(request) if self._function else self._next(turn))

    def _next(self, turn: tuple[int, Reply] | None) -> Reply:
        if turn is None:
            raise ScriptEndedError(
                f"the model `{self._name}` has a script of {self._length} replies and was asked for one more "
                f"(call {self.calls}); add replies, or pass a function of the request"
            )
        return turn[1]

    def _response(self, request: LMRequest, reply: object) -> LMResponse:
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, LMResponse):
            return reply
        if not isinstance(reply, str):
            raise UsageError(f"the model `{self._name}` replied {reply!r:.80}; a reply is a text or an LMResponse")
        return LMResponse(text=reply, usage=self._usage or _count(request, reply), model=self._name)


def _count(request: LMRequest, reply: str) -> Usage:
    prompt = sum(len(message.content.split()) for message in request.messages)
    return Usage(input_tokens=prompt, output_tokens=len(reply.split()))


class NearestDemoModel(ScriptedModel):
    """Answer like the nearest demo in the prompt: a model for tests whose score depends on the demos.

    It compares the words of the last user turn with those of each demo's user turn and gives the assistant's text of
    the most similar demo, the first of equals. Without demos it picks one of the words that the system turn lists after
    "one of", by the content of the question, and writes it after the name of each output field.

    It looks words up and knows nothing else: a better score with it shows that demos reached the prompt. It is never
    evidence that a strategy gains anything with a language model.
    """

    def __init__(self, *, delay: float = 0.0, name: str = "nearest-demo", limits: ModelLimits | None = None) -> None:
        super().__init__(answer_like_nearest_demo, delay=delay, name=name, limits=limits)


_STOP_WORDS = frozenset(("a", "an", "and", "as", "at", "by", "for", "in", "is", "of", "on", "or", "the", "to", "with"))
_CHOICES = re.compile(r"\bone of(?: the following)?\b[:\s]*((?:(?!\.\s)[^\n;)\]}])+)", re.IGNORECASE)

_PARTS = re.compile(r'"[^"]*"|[^,"]+')
"""Parts of a list: in double quotes, which may hold commas, or up to the next comma."""


def answer_like_nearest_demo(request: LMRequest) -> str:
    """Give the reply of `NearestDemoModel`."""
    demos, question = _demos_and_question(request.messages)
    asked = _words(question)
    best: tuple[float, str] | None = None
    for shown, answer in demos:
        likeness = _likeness(asked, _words(shown))
        if best is None or likeness > best[0]:
            best = (likeness, answer)
    return _without_demos(request, question) if best is None else best[1]


def _demos_and_question(messages: Iterable[Message]) -> tuple[list[tuple[str, str]], str]:
    demos: list[tuple[str, str]] = []
    user = ""
    for message in messages:
        if message.role == "user":
            user = message.content
        elif message.role == "assistant":
            demos.append((user, message.content))
    return demos, user


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower())) - _STOP_WORDS


def _likeness(some: frozenset[str], others: frozenset[str]) -> float:
    return len(some & others) / len(some | others) if some | others else 1.0


def _without_demos(request: LMRequest, question: str) -> str:
    system = "\n".join(message.content for message in request.messages if message.role == "system")
    outputs = (request.layout or Layout()).outputs
    if not outputs:
        return _pick(_choices(system), question)
    return "\n".join(f"{label}: {_pick(_choices(_about(label, system)), question)}" for label in outputs)


def _about(label: str, system: str) -> str:
    """Give the lines of the system turn that list values and name this field, else all of it."""
    lines = [line for line in system.splitlines() if label.lower() in line.lower() and _CHOICES.search(line)]
    return "\n".join(lines) or system


def _choices(text: str) -> list[str]:
    listed = _CHOICES.search(text)
    if listed is None:
        return []
    parts = _PARTS.findall(listed.group(1))
    words = [word for part in parts for word in ([part] if part.startswith('"') else re.split(r"\bor\b", part))]
    return [clean for word in words if (clean := word.strip(" \t.`'\"()[]{}"))]


def _pick(choices: list[str], question: str) -> str:
    return choices[hash64(question) % len(choices)] if choices else "unknown"
