"""Every way in which an endpoint says no, as the error it stands for."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import pytest

from burnish import errors

from ._ask import KEY, QUESTION, failing, opened
from ._server import Answer, Script, Server, chat, failure

Serve = Callable[[Script], Server]

CASES = [
    (failure(401, "Incorrect API key", code="invalid_api_key"), errors.ModelAuthError),
    (failure(403, "no access to this project"), errors.ModelAuthError),
    (failure(407, "proxy wants a login"), errors.ModelAuthError),
    (failure(402, "Insufficient Balance"), errors.ModelAuthError),
    (failure(429, "You exceeded your current quota", code="insufficient_quota"), errors.ModelAuthError),
    (failure(429, "You exceeded your current quota", status="RESOURCE_EXHAUSTED"), errors.ModelRateLimitError),
    (failure(404, "model 'tiny' not found"), errors.ModelNotFoundError),
    (failure(403, "no access", code="model_not_found"), errors.ModelNotFoundError),
    (failure(400, "tiny is not a valid model ID", code=400), errors.ModelNotFoundError),
    (failure(408, "too slow"), errors.ModelTimeoutError),
    (failure(429, "Rate limit reached", code="rate_limit_exceeded"), errors.ModelRateLimitError),
    (failure(500, "oops"), errors.ModelServerError),
    (failure(503, "Loading model", type="unavailable_error"), errors.ModelServerError),
    (Answer(status=529, body="<html>overloaded</html>"), errors.ModelServerError),
    (failure(400, "`temperature` must be at most 2"), errors.ModelRequestError),
    (failure(413, "payload too large"), errors.ModelRequestError),
    (failure(413, "Request too large: tokens per minute (TPM): Limit 6000, reduce the length of the messages"),
     errors.ModelRequestError),
    (Answer(status=422, body={"detail": [{"loc": ["body", "top_p"], "msg": "bad"}]}), errors.ModelRequestError),
    (Answer(status=405, body=b""), errors.ModelRequestError),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "kind"), CASES, ids=lambda value: getattr(value, "__name__", None))
async def test_status_becomes_its_error(serve: Serve, answer: Answer, kind: type[errors.ModelError]) -> None:
    """A status, with the code or the words beside it, is one typed error that names the endpoint and the model."""
    server = serve(answer)
    error = await failing(server)
    assert (kind, answer.status) == (type(error), error.status)
    assert f"POST {server.url}/chat/completions (model `tiny`): answered {answer.status}" in str(error)


CONTEXT = [
    (400, "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001.", "OpenAI"),
    (400, "Your input exceeds the context window of this model. Please adjust your input.", "OpenAI, newer"),
    (400, "The decoder prompt (length 5951) is longer than the maximum model length of 4096.", "vLLM"),
    (400, "The input (7000 tokens) is longer than the model's context length (4096 tokens).", "SGLang"),
    (400, "request (412 tokens) exceeds the available context size (256 tokens), try increasing it", "llama.cpp"),
    (500, "Context size has been exceeded.", "llama.cpp, while it writes"),
    (400, "prompt too long; exceeded max context length by 17 tokens", "Ollama"),
    (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048.", "TGI"),
    (400, "prompt is too long: 210000 tokens > 200000 maximum", "Anthropic"),
    (400, "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).", "Gemini"),
    (413, "Please reduce the length of the messages or completion.", "Groq"),
]


@pytest.mark.parametrize(("status", "words"), [case[:2] for case in CONTEXT], ids=[case[2] for case in CONTEXT])
async def test_context_overflow_is_known_by_its_words(serve: Serve, status: int, words: str) -> None:
    """A prompt that does not fit is the candidate's fault, whichever server says it, and is never retried."""
    error = await failing(serve(failure(status, words)))
    assert (errors.ContextLengthError, False, False) == (type(error), error.retryable, error.fatal)


async def test_context_overflow_is_known_by_its_code(serve: Serve) -> None:
    """A code is enough: as `code`, as `type`, in the flat form of older vLLM, in a gateway's 200."""
    for answer in (
        failure(400, "no", code="context_length_exceeded"),
        failure(400, "no", code=400, type="exceed_context_size_error"),
        Answer(status=400, body={"object": "error", "message": "maximum context length is 8", "code": 400}),
        Answer(body={"error": {"message": "no", "code": "context_length_exceeded"}}),
    ):
        assert errors.ContextLengthError is type(await failing(serve(answer)))


REFUSALS = [
    failure(400, "filtered", code="content_filter"),
    failure(400, "no", innererror={"code": "ResponsibleAIPolicyViolation"}),
    failure(400, "Invalid prompt: flagged as potentially violating our usage policy", code="invalid_prompt"),
    failure(403, "Your input was flagged", code=403),
    failure(400, "Content Exists Risk"),
    chat(choices=[{"message": {"content": "Once"}, "finish_reason": "content_filter"}]),
    chat(choices=[{"message": {"content": None, "refusal": "I cannot help with that."}, "finish_reason": "stop"}]),
]


@pytest.mark.parametrize("answer", REFUSALS)
async def test_refusals_are_the_contents_fault(serve: Serve, answer: Answer) -> None:
    """A content filter before or after, and a model's own refusal, are refusals: not retried, not fatal."""
    error = await failing(serve(answer))
    assert (errors.ModelRefusedError, False, False) == (type(error), error.retryable, error.fatal)


PAID = {"prompt_tokens": 9000, "completion_tokens": 500, "cost": 0.3}
COSTLY = [
    (chat(choices=[{"message": {"content": "On"}, "finish_reason": "content_filter"}], usage=PAID), 9500, "0.3"),
    (chat(choices=[{"message": {"content": None, "refusal": "No."}}], usage=PAID), 9500, "0.3"),
    (chat(choices=[], usage=PAID), 9500, "0.3"),
    (chat(choices=[{"message": {"content": 5}}], usage=PAID), 9500, "0.3"),
    (chat(error={"message": "upstream", "code": 502}, choices=None, usage=PAID), 9500, "0.3"),
    (chat(usage={"prompt_tokens": "many", "cost": 0.3}), None, "0.3"),
    (chat(choices=[], usage=None), None, None),
    (Answer(body=b"<html>", headers={"x-litellm-response-cost": "0.02"}), None, "0.02"),
]


@pytest.mark.parametrize(("answer", "tokens", "cost"), COSTLY)
async def test_an_unusable_reply_says_what_it_cost(
    serve: Serve, answer: Answer, tokens: int | None, cost: str | None
) -> None:
    """A 200 that is filtered, refused or malformed is charged: its error holds the tokens and the cost it names."""
    error = await failing(serve(answer))
    assert tokens == (None if error.usage is None else error.usage.total)
    assert cost == (None if error.cost is None else str(error.cost))


BOMB = gzip.compress(bytes(20 * 2**20), 1)
MALFORMED = [
    (Answer(body=b"<html>hello</html>"), "not JSON"),
    (Answer(body=b'{"choices": ['), "not JSON"),
    (Answer(body=b"\xff\xfe\xfa"), "not JSON"),
    (Answer(body=b""), "not JSON"),
    (Answer(body=b"[" * 100_000), "not JSON"),
    (Answer(status=204), "not JSON"),
    (Answer(body=[1]), "not a JSON object"),
    (Answer(body={"model": "tiny"}), "no `choices`"),
    (chat(choices=[]), "no `choices`"),
    (chat(choices={"0": 1}), "no `choices`"),
    (chat(choices=["Paris"]), "no `choices`"),
    (chat(choices=[{"finish_reason": "stop"}]), "no `message`"),
    (chat(choices=[{"message": "Paris"}]), "no `message`"),
    (chat(choices=[{"message": {"content": 7}}]), "`content` is a int"),
    (chat(choices=[{"text": {"a": 1}}]), "`content` is a dict"),
    (chat(usage=[11, 2]), "`usage` is not an object"),
    (chat(usage={"prompt_tokens": "11"}), "`usage` holds a count"),
    (chat(usage={"prompt_tokens": -1}), "`usage` holds a count"),
    (chat(usage={"prompt_tokens": 1.5}), "`usage` holds a count"),
    (chat(usage={"prompt_tokens": True}), "`usage` holds a count"),
    (Answer(body=b"not gzip", headers={"Content-Encoding": "gzip"}), "cannot be decoded"),
    (Answer(body=gzip.compress(b"{}")[:-9], headers={"Content-Encoding": "gzip"}), "cannot be decoded: it is cut off"),
    (Answer(body=b"\x0b\x02", headers={"Content-Encoding": "br"}), "unknown content encoding"),
    (Answer(body=BOMB, headers={"Content-Encoding": "gzip"}), "larger than 16 MiB"),
]


@pytest.mark.parametrize(("answer", "words"), MALFORMED, ids=range(len(MALFORMED)))
async def test_nonsense_in_a_200_is_malformed(serve: Serve, answer: Answer, words: str) -> None:
    """An answer that is no reply is malformed, says how, and may be retried; nothing else escapes."""
    error = await failing(serve(answer))
    assert (errors.ModelMalformedError, True) == (type(error), error.retryable)
    assert words in str(error)


async def test_error_inside_a_200_keeps_its_status(serve: Serve) -> None:
    """Gateways put the upstream's error into a 200, in the body or in the choice: it counts as what it says."""
    limited = await failing(serve(Answer(body={"error": {"code": 429, "message": "slow down"}})))
    assert (errors.ModelRateLimitError, 429) == (type(limited), limited.status)
    choice = {"error": {"code": 502, "message": "upstream died"}, "message": {"content": "Par"}}
    broken = await failing(serve(chat(choices=[choice])))
    assert (errors.ModelServerError, 502) == (type(broken), broken.status)


@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [
        (429, {"Retry-After": "7"}, 7.0),
        (429, {"Retry-After": "0.5"}, 0.5),
        (429, {"retry-after-ms": "1500", "Retry-After": "2"}, 1.5),
        (429, {"Date": "Mon, 30 Nov 2026 10:00:00 GMT", "Retry-After": "Mon, 30 Nov 2026 10:00:30 GMT"}, 30.0),
        (429, {"Date": "Mon, 30 Nov 2026 10:00:00 GMT", "Retry-After": "Mon, 30 Nov 2026 09:00:00 GMT"}, 0.0),
        (503, {"Retry-After": "3"}, 3.0),
        (500, {}, None),
        (429, {"Retry-After": "soon"}, None),
        (429, {"Retry-After": "nan"}, None),
        (429, {"Retry-After": "-5"}, 0.0),
        (400, {"Retry-After": "7"}, None),
    ],
)
async def test_retry_after_is_seconds(
    serve: Serve, status: int, headers: dict[str, str], expected: float | None
) -> None:
    """`retry_after` is in seconds, from a number, from milliseconds or from a date; unknown where it cannot be read."""
    assert expected == (await failing(serve(failure(status, headers=headers)))).retry_after


async def test_missing_quota_ends_the_run(serve: Serve) -> None:
    """A 429 for an empty account is fatal, not retried, and says that waiting will not help."""
    answer = failure(429, "quota", code="insufficient_quota", headers={"Retry-After": "1"})
    error = await failing(serve(answer))
    assert (True, False, None) == (error.fatal, error.retryable, error.retry_after)
    assert "no quota or credit left" in str(error)


async def test_message_is_short_one_line_and_without_the_key(serve: Serve) -> None:
    """What an endpoint says is quoted up to 300 characters, on one line, without control characters or secrets."""
    words = f"bad key {KEY}\n\x1b[31m and\tgw-77a1b2 " + "x" * 5000 + KEY
    for answer in (failure(401, words), Answer(status=500, body=words), Answer(body=words)):
        error = await failing(serve(answer), headers_env={"api-key": "GATEWAY_KEY"})
        text = str(error)
        assert "bad key [redacted] \ufffd[31m and [redacted] xxx" in text
        assert (True, True, True) == (KEY not in text, "\n" not in text, len(text) < 600)


async def test_key_at_the_cut_leaves_no_rest(serve: Serve) -> None:
    """A key that lies across the end of the quotation is out before the text is cut."""
    server = serve([failure(500, "x" * before + KEY) for before in range(280, 302)])
    async with opened(server) as model:
        for _ in range(280, 302):
            with pytest.raises(errors.ModelServerError) as caught:
                await model.complete(QUESTION)
            assert KEY[:4] not in str(caught.value)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirects_are_not_followed(serve: Serve, status: int) -> None:
    """A redirect sends nothing to the other host: it ends the run and names where it pointed."""
    other = serve(chat())
    error = await failing(serve(Answer(status=status, headers={"Location": f"{other.url}/chat/completions?k={KEY}"})))
    assert (errors.ModelNotFoundError, True, 0) == (type(error), error.fatal, len(other.received))
    assert f": {other.url}/chat/completions" in str(error)
    assert KEY not in str(error)
