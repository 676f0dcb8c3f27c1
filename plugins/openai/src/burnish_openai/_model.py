"""The model: one POST a call, on trio."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from urllib.parse import urlsplit

import attrs
import httpx2
import trio

from burnish.abc import Environment, Json, LMRequest, LMResponse, ModelLimits
from burnish.errors import ConfigError, ModelConnectionError, ModelError, ModelMalformedError, ModelTimeoutError
from burnish_openai._body import read_body, unpack
from burnish_openai._credentials import Credentials, read_credentials
from burnish_openai._faults import Faults
from burnish_openai._options import OpenAIOptions
from burnish_openai._prices import price_of
from burnish_openai._reply import read_reply
from burnish_openai._request import make_call
from burnish_openai._status import classify

MOST_REPLY = 16 * 2**20
"""Bytes of a reply that are read at most, and unpacked at most."""
MOST_ERROR = 64 * 2**10
"""Bytes of an error's body that are read at most."""
MOST_CONNECTIONS = 1000
"""Connections where `max_in_flight` is not set: the core's limiter is what bounds the calls."""
CONNECT_SECONDS = 15.0
"""A connection that is not there by now will not come; the reply's own time limit is for thinking."""
KEEPALIVE_SECONDS = 4.0
"""Below the 5 s after which uvicorn (so vLLM) hangs up: an idle connection is dropped here before it breaks there."""


@attrs.frozen(kw_only=True)
class Answer:
    """What came back over HTTP."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@attrs.frozen(kw_only=True, eq=False)
class OpenAIModel:
    """A `burnish.abc.Model` on one OpenAI-compatible endpoint; made by `open_model`, which also closes it."""

    options: OpenAIOptions
    identity: Mapping[str, Json] = attrs.field(repr=False)
    """What decides the answer: provider, endpoint, API, model id, sampling settings, extra fields."""
    limits: ModelLimits
    _client: httpx2.AsyncClient = attrs.field(repr=False)
    _url: str = attrs.field(repr=False)
    _faults: Faults = attrs.field(repr=False)

    async def complete(self, request: LMRequest) -> LMResponse:
        """Answer one request with one attempt.

        Raises a subclass of `burnish.errors.ModelError`. Cancellation closes the connection at once; what the endpoint
        has done by then may still be charged.
        """
        call = make_call(self.options, request)
        content = json.dumps(call.body, allow_nan=False).encode()
        answer: Answer | None = None
        with trio.move_on_after(self.options.timeout):
            answer = await self._exchange(content)
        if answer is None:
            what = f"no whole answer within `timeout` = {self.options.timeout:g} s"
            raise self._faults.make(ModelTimeoutError, what)
        if not 200 <= answer.status < 300:
            raise classify(self._faults, answer.status, answer.headers, answer.body)
        return read_reply(self._faults, answer.headers, answer.body, prefix=call.prefix)

    async def _exchange(self, content: bytes) -> Answer:
        body = bytearray()
        status = 0
        try:
            async with self._client.stream("POST", self._url, content=content) as response:
                status, headers = response.status_code, response.headers
                most = MOST_REPLY if response.is_success else MOST_ERROR
                if not response.is_success or _declared(response) <= most:
                    await read_body(response, body, most)
        except httpx2.TransportError as error:
            # Where the status says that it failed, a body that breaks off changes nothing.
            if status == 0 or response.is_success:
                raise self._broken(error, began=status != 0) from error
        return Answer(status=status, headers=headers, body=self._unpacked(response, bytes(body)))

    def _unpacked(self, response: httpx2.Response, body: bytes) -> bytes:
        encoding = response.headers.get("content-encoding", "").strip().lower()
        try:
            data = unpack(body, encoding, MOST_REPLY)
        except ValueError as error:
            if not response.is_success:
                return b""
            raise self._faults.make(ModelMalformedError, "the reply cannot be decoded", quote=str(error)) from None
        if response.is_success and max(len(data), len(body), _declared(response)) > MOST_REPLY:
            raise self._faults.make(ModelMalformedError, f"the reply is larger than {MOST_REPLY >> 20} MiB")
        return data

    def _broken(self, error: httpx2.TransportError, *, began: bool) -> ModelError:
        """Name what broke: the way there, the connection, or the answer half way."""
        said = str(error)
        if isinstance(error, httpx2.ConnectTimeout):
            return self._faults.make(ModelConnectionError, f"no connection within {CONNECT_SECONDS:g} s")
        if isinstance(error, httpx2.ConnectError):
            what = "cannot connect; is the server running, and `base_url` right"
            return self._faults.make(ModelConnectionError, what, quote=said)
        if began and isinstance(error, httpx2.RemoteProtocolError):
            return self._faults.make(ModelMalformedError, "the answer broke off", quote=said)
        return self._faults.make(ModelConnectionError, "the connection broke", quote=said or type(error).__name__)


def _declared(response: httpx2.Response) -> int:
    length = response.headers.get("content-length", "")
    return int(length) if length.isdecimal() else 0


@asynccontextmanager
async def open_model(options: OpenAIOptions, env: Environment | None = None) -> AsyncIterator[OpenAIModel]:
    """Open a model on an endpoint; leaving the block closes its connections.

    Without `env` the process's environment variables are read. Raises `burnish.errors.ConfigError` where a variable
    that the options name is not set; nothing is sent before the first `complete`.
    """
    credentials = read_credentials(options, os.environ if env is None else env.variables)
    query = urlsplit(options.base_url).query
    url = options.address + (f"?{query}" if query else "")
    # Reading the system's certificates takes tens of milliseconds: not on the trio thread.
    # So do looking up a price, and the module that it takes.
    client = await trio.to_thread.run_sync(partial(_client, options, credentials))
    price = await trio.to_thread.run_sync(price_of, options)
    async with client:
        yield OpenAIModel(
            options=options,
            identity=options.identity,
            limits=ModelLimits(
                key=f"openai:{options.endpoint}:{options.model}:{credentials.digest}",
                max_in_flight=options.max_in_flight,
                timeout=options.timeout,
                retries=options.retries,
                max_output_tokens=options.max_tokens,
                price=price,
                extra_input_tokens=128 + len(json.dumps(options.extra, ensure_ascii=False).encode()),
            ),
            client=client,
            url=url,
            faults=Faults(address=options.address, model=options.model, credentials=credentials),
        )


def _client(options: OpenAIOptions, credentials: Credentials) -> httpx2.AsyncClient:
    # Twice what is in flight: a call whose connection is just being closed must not keep the next one waiting.
    connections = MOST_CONNECTIONS if options.max_in_flight is None else 2 * options.max_in_flight
    own = {
        "user-agent": "burnish-openai",
        "accept": "application/json",
        "accept-encoding": "identity",
        "content-type": "application/json",
    }
    try:
        return httpx2.AsyncClient(
            headers=own | dict(credentials.headers),
            timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
            limits=httpx2.Limits(
                max_connections=connections,
                max_keepalive_connections=connections,
                keepalive_expiry=KEEPALIVE_SECONDS,
            ),
            follow_redirects=False,
            # No cookies: calls have nothing to share, and a malformed one would break every later call.
            cookies=CookieJar(policy=DefaultCookiePolicy(allowed_domains=())),
        )
    except (ValueError, ImportError, OSError) as error:
        # Proxy variables and certificate files of the environment are read here.
        raise ConfigError(f"model.openai: the HTTP client cannot start: {credentials.redact(str(error))}") from None
