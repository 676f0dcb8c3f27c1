"""Whether a model keeps its word: one request, its own answer, errors that say whose fault it was, and no secrets."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from pathlib import Path
from typing import ClassVar

import trio

from burnish import abc
from burnish._model.canonical import to_json
from burnish.errors import ModelError, ModelRateLimitError
from burnish.testing._conformance_base import (
    Conformance,
    check_loop_is_free,
    check_nothing_is_left,
    expect,
    fail,
    needs,
)


class ModelConformance(
    Conformance[abc.Model], kind=frozenset({"echoes", "deterministic", "fails", "stalls", "counted"})
):
    """What every `burnish.abc.Model` owes. `open(self, tmp_path)` gives a model that answers `request(n)`.

    Capabilities, each of which says what the set-up of the test can do: `echoes` (the answer of `request(n)` holds
    `token(n)`), `deterministic` (the same request has the same answer), `fails` (`open_failing` makes each of
    `failures` happen), `stalls` (`open_stalled` gives a model whose provider never answers), `counted` (`requests_seen`
    says how many requests the provider got).
    """

    secrets: ClassVar[Collection[str]] = ()
    """Credentials that the opened models hold: they must show up nowhere."""
    failures: ClassVar[Collection[type[ModelError]]] = ()
    """The errors that `open_failing` can provoke."""
    promptly: ClassVar[float] = 2.0
    """Seconds within which a cancelled call must be over."""

    def token(self, n: int) -> str:
        """Give the word that tells request `n` from the others."""
        return f"burnish{n:03}"

    def request(self, n: int) -> abc.LMRequest:
        """Make request `n`: small, and unlike the others."""
        return abc.LMRequest(messages=(abc.Message("user", f"Repeat this word: {self.token(n)}"),), max_tokens=16)

    def open_failing(self, tmp_path: Path, error: type[ModelError]) -> AbstractAsyncContextManager[abc.Model]:
        """Open a model whose next call fails in this way: only for the capability `fails`."""
        raise NotImplementedError(f"{type(self).__name__} claims `fails`; it must define `open_failing`")

    def open_stalled(self, tmp_path: Path) -> AbstractAsyncContextManager[abc.Model]:
        """Open a model whose provider takes the request and never answers: only for the capability `stalls`."""
        raise NotImplementedError(f"{type(self).__name__} claims `stalls`; it must define `open_stalled`")

    def requests_seen(self) -> int:
        """Give how many requests the provider got so far: only for the capability `counted`."""
        raise NotImplementedError(f"{type(self).__name__} claims `counted`; it must define `requests_seen`")

    def _expect_no_secret(self, text: str, where: str) -> None:
        for secret in self.secrets:
            if secret in text:
                fail(f"a credential shows up in {where}, and from there in logs, reports and run directories")

    async def test_is_a_model(self, tmp_path: Path) -> None:
        """What `open` gives has the methods of the kind."""
        async with self.open(tmp_path) as model:
            expect(True, isinstance(model, abc.Model), f"{type(model).__name__} lacks a member of burnish.abc.Model")

    async def test_answers_a_request(self, tmp_path: Path) -> None:
        """An answer has text, a finish reason, usage that adds up, and a cost that is known or None."""
        async with self.open(tmp_path) as model:
            answer = await model.complete(self.request(1))
            expect(abc.LMResponse, type(answer), "the answer is not an LMResponse")
            expect((str, str, str), tuple(map(type, (answer.text, answer.finish_reason, answer.model))), "not text")
            expect(True, bool(answer.finish_reason), "the finish reason is empty: a cut answer could not be told")
            counts = (answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.cached_tokens)
            expect(True, all(type(n) is int and n >= 0 for n in counts), f"usage is not counts of tokens: {counts}")
            if answer.cost is not None:
                expect(True, isinstance(answer.cost, Decimal) and answer.cost >= 0, f"no amount: {answer.cost!r}")

    async def test_identity_is_stable(self, tmp_path: Path) -> None:
        """The identity is plain JSON, the same before and after calls, and in another instance."""
        async with self.open(tmp_path) as model:
            before = to_json(model.identity)
            await model.complete(self.request(1))
            expect(before, to_json(model.identity), "the identity changes by use: no stored answer is ever found again")
        async with self.open(tmp_path) as model:
            expect(before, to_json(model.identity), "another instance has another identity: nothing is found again")

    async def test_shows_no_secret(self, tmp_path: Path) -> None:
        """Credentials are in neither identity, limits nor repr."""
        async with self.open(tmp_path) as model:
            self._expect_no_secret(json.dumps(to_json(model.identity)), "the identity")
            self._expect_no_secret(repr(model.limits), "the limits")
            self._expect_no_secret(repr(model) + str(model), "the repr")

    async def test_limits_make_sense(self, tmp_path: Path) -> None:
        """The limits name a shared limiter and hold usable numbers."""
        async with self.open(tmp_path) as model:
            limits = model.limits
            expect(True, isinstance(limits.key, str) and bool(limits.key), "without a key all models share one limiter")
            expect(True, limits.max_in_flight is None or limits.max_in_flight >= 1, "no call may be in flight")
            expect(True, limits.timeout is None or limits.timeout > 0, "every call times out")
            expect(True, limits.retries >= 0, "the number of retries is below 0")

    async def test_keeps_within_its_bounds(self, tmp_path: Path) -> None:
        """What a budget reserves for a call is enough: of a model with a bound neither prompt nor reply is longer."""
        async with self.open(tmp_path) as model:
            limits, request = model.limits, self.request(1)
            usage = (await model.complete(request)).usage
            if limits.max_output_tokens is None:
                return
            reply = limits.max_output_tokens if request.max_tokens is None else request.max_tokens
            prompt = request.most_input_tokens + limits.extra_input_tokens
            expect(True, usage.output_tokens <= reply, f"a reply of {usage.output_tokens} tokens, bound {reply}")
            expect(True, usage.input_tokens <= prompt, f"{usage.input_tokens} tokens of prompt, reserved are {prompt}")

    async def test_answers_many_at_once(self, tmp_path: Path) -> None:
        """Concurrent calls all come back with an answer."""
        expect(8, len(await self._at_once(tmp_path, 8)), "a concurrent call has no answer")

    async def _at_once(self, tmp_path: Path, count: int) -> dict[int, str]:
        texts: dict[int, str] = {}

        async def call(model: abc.Model, n: int) -> None:
            texts[n] = (await model.complete(self.request(n))).text

        async with self.open(tmp_path) as model, trio.open_nursery() as nursery:
            for n in range(count):
                nursery.start_soon(call, model, n)
        return texts

    async def test_takes_any_text(self, tmp_path: Path) -> None:
        """Any prompt has an answer or a typed error: unicode, controls, half a surrogate pair, a very long one."""
        prompts = ("grüße 日本語 🦀 \u2028", "nul \x00 and \x1b[31m", "half a pair \ud83d", "long " * 40_000)
        async with self.open(tmp_path) as model:
            for prompt in prompts:
                request = abc.LMRequest(messages=(abc.Message("user", prompt),), max_tokens=4)
                try:
                    await model.complete(request)
                except ModelError as error:
                    expect(False, error.fatal, f"one odd prompt ends the run: {prompt[:20]!r}")
            await model.complete(self.request(1))

    async def test_calls_reach_a_checkpoint(self, tmp_path: Path) -> None:
        """A cancelled scope ends at a call."""
        async with self.open(tmp_path) as model:
            with trio.CancelScope() as scope:
                scope.cancel()
                await model.complete(self.request(1))
            expect(True, scope.cancelled_caught, "a call in a cancelled scope is not ended")

    async def test_cancelled_calls_leave_it_usable(self, tmp_path: Path) -> None:
        """Cancelling a call, early or late, harms neither those beside it nor those after it."""
        async with self.open(tmp_path) as model:
            for seconds in (0.0001, 0.001, 0.01):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(model.complete, self.request(1))
                    with trio.move_on_after(seconds):
                        await model.complete(self.request(2))
            await model.complete(self.request(3))

    async def test_never_holds_the_event_loop(self, tmp_path: Path) -> None:
        """Calls make no other task wait."""
        async with self.open(tmp_path) as model:
            await model.complete(self.request(0))

            async def work() -> None:
                async with trio.open_nursery() as nursery:
                    for n in range(4):
                        nursery.start_soon(model.complete, self.request(n))

            await check_loop_is_free(work)

    async def test_leaves_nothing_running(self, tmp_path: Path) -> None:
        """After closing there are no tasks, threads or files of it, cancelled or not."""
        async with self.open(tmp_path) as model:
            await model.complete(self.request(0))
        async with check_nothing_is_left():
            async with self.open(tmp_path) as model:
                await model.complete(self.request(1))
            with trio.move_on_after(0.01):
                async with self.open(tmp_path) as model:
                    await model.complete(self.request(2))
                    await trio.sleep_forever()

    @needs("echoes")
    async def test_each_call_gets_its_own_answer(self, tmp_path: Path) -> None:
        """No answer goes to another request, however many are under way."""
        for n, text in (await self._at_once(tmp_path, 12)).items():
            expect(True, self.token(n) in text, f"request {n} got another one's answer: {text[:80]!r}")

    @needs("deterministic")
    async def test_same_request_has_the_same_answer(self, tmp_path: Path) -> None:
        """Answers do not depend on what else was asked, before or at the same time."""
        together = await self._at_once(tmp_path, 4)
        async with self.open(tmp_path) as model:
            for n in (3, 1, 0, 2):
                answer = await model.complete(self.request(n))
                expect(together[n], answer.text, "a repeated request has another answer")

    @needs("fails")
    async def test_failures_are_typed(self, tmp_path: Path) -> None:
        """Each failure arrives as its own error, says what happened, and holds no credential."""
        for kind in self.failures:
            async with self.open_failing(tmp_path, kind) as model:
                try:
                    answer = await model.complete(self.request(1))
                except ModelError as error:
                    expect(kind, type(error), f"the failure arrives as another error, with other consequences: {error}")
                    expect(True, len(str(error)) > 10, f"the error says nothing: {error}")
                    self._expect_no_secret(f"{error} {error!r} {error.__cause__!r}", f"the message of {kind.__name__}")
                    if isinstance(error, ModelRateLimitError) and error.retry_after is not None:
                        expect(True, error.retry_after >= 0, "the wait before a retry is below 0")
                else:
                    fail(f"a call that should fail with {kind.__name__} was answered: {answer!r:.80}")

    @needs("fails", "counted")
    async def test_failed_call_is_not_repeated(self, tmp_path: Path) -> None:
        """A model does not retry: a hidden request is one that no budget counts."""
        for kind in self.failures:
            async with self.open_failing(tmp_path, kind) as model:
                before = self.requests_seen()
                with contextlib.suppress(ModelError):
                    await model.complete(self.request(1))
                expect(True, self.requests_seen() - before <= 1, f"after {kind.__name__} the model asked again")

    @needs("counted")
    async def test_call_is_one_request(self, tmp_path: Path) -> None:
        """One call is one request to the provider: what a budget counts is what is paid."""
        async with self.open(tmp_path) as model:
            before = self.requests_seen()
            for n in range(3):
                await model.complete(self.request(n))
            expect(3, self.requests_seen() - before, "calls and requests are not the same number")

    @needs("stalls")
    async def test_cancelled_call_ends_promptly(self, tmp_path: Path) -> None:
        """A call that a provider leaves hanging ends at once when it is cancelled."""
        async with self.open_stalled(tmp_path) as model:
            started = trio.current_time()
            with trio.move_on_after(0.05):
                await model.complete(self.request(1))
            took = trio.current_time() - started
            expect(True, took < 0.05 + self.promptly, f"a cancelled call went on for {took:.1f} s")
