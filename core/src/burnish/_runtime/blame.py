"""Whose fault an error is: what it stands for, behind whatever wraps it."""

from __future__ import annotations

import errno
import math
import socket
import ssl
from collections.abc import Iterator

import trio

from burnish.errors import BudgetExceededError, ContextLengthError, ModelError, ModelRefusedError, unwrap

VERDICTS = (ContextLengthError, ModelRefusedError)
"""Errors of the model that are the candidate's or the row's doing."""

_NETWORK = (ConnectionError, TimeoutError, trio.TooSlowError, socket.gaierror, socket.herror, ssl.SSLError)
_UNREACHABLE = {errno.ENETDOWN, errno.ENETUNREACH, errno.ENETRESET, errno.EHOSTDOWN, errno.EHOSTUNREACH}
_CLIENTS = {
    *("NetworkError", "TimeoutException", "RemoteProtocolError", "ProxyError"),  # httpx, httpcore
    *("ConnectionError", "Timeout", "ChunkedEncodingError", "IncompleteRead"),  # requests; http.client
    *("ClientConnectionError", "APIConnectionError", "HTTPClientError"),  # aiohttp; openai and anthropic; botocore
}


def blame(error: BaseException, handled: BaseException | None = None) -> BaseException:
    """Find the error that says whose fault it was: of what is grouped, given as cause or was being handled.

    A program that lets two calls run at once raises them as a group, and many wrap what their client raised, with
    `from error` or without: neither makes a broken connection the candidate's fault. `raise ... from None` says that
    the error stands alone. What was `handled` before the program began has no part in it.
    """
    inside = list(_inside(error, handled))
    capped = [one for one in inside if isinstance(one, BudgetExceededError)]
    model = [one for one in inside if isinstance(one, ModelError)]
    transport = [one for one in model if not isinstance(one, VERDICTS)]
    network = [one for one in inside if of_network(one)] if not model else []
    return next(iter([*capped, *transport, *model, *network]), unwrap(error))


def of_network(error: BaseException) -> bool:
    """Say whether an error means that a server could not be reached, or could not serve.

    It does where it is of Python's own classes for that (connections, time limits, names, TLS, an `OSError` of an
    unreachable network or host), where it or a base of it bears the name that an HTTP client gives such errors (httpx,
    requests, aiohttp, botocore, the SDKs of OpenAI and Anthropic; nothing is imported for that), or where it holds the
    status 429 or 5xx of a response. A file that is missing or locked is none of these, nor is a full disk. A program
    that means something else by a time limit raises an error of another class, `from None`.
    """
    if isinstance(error, _NETWORK) or any(kind.__name__ in _CLIENTS for kind in type(error).__mro__):
        return True
    if isinstance(error, OSError) and error.errno in _UNREACHABLE:
        return True
    status = _status(error)
    return status == 429 or 500 <= status < 600


def stops(error: BaseException) -> BaseException | None:
    """Give what of an error ends more than the code that raised it; None where that code failed, in whatever way.

    An interrupt and a cancellation of trio's do, bare or in a group, and the end of the event loop itself. An exit,
    a cancellation of asyncio's or a `GeneratorExit` of the code's own do not, nor does a `trio.Cancelled` that was kept
    and raised again where nothing is cancelled: no scope would catch it, and a nursery would take it for its own.
    """
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(_ends)
    ended = isinstance(error, GeneratorExit) and not trio.lowlevel.in_trio_task()  # its coroutine is thrown away
    return error if ended or _ends(error) else None


def _ends(error: BaseException) -> bool:
    if isinstance(error, trio.Cancelled):
        return not trio.lowlevel.in_trio_task() or trio.current_effective_deadline() == -math.inf
    return isinstance(error, KeyboardInterrupt)


def _status(error: BaseException) -> int:
    """Give the HTTP status that an error or its response holds, as clients keep it; 0 for none."""
    try:
        for holder in (error, getattr(error, "response", None)):
            for name in ("status_code", "status"):
                status = getattr(holder, name, None)
                if isinstance(status, int):
                    return status
    except Exception:  # an attribute of somebody's error may do anything
        return 0
    return 0


def _inside(error: BaseException, handled: BaseException | None) -> Iterator[BaseException]:
    """Give an error and those behind it, each once, the nearest first."""
    behind, seen = [error], set() if handled is None else {id(handled)}
    while behind:
        one = behind.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        before = one.__cause__
        if before is None and not one.__suppress_context__:
            before = one.__context__
        behind += [] if before is None else [before]
        behind += reversed(one.exceptions) if isinstance(one, BaseExceptionGroup) else []
