"""A provider that misbehaves, over HTTP: what is asked, what is scored, what the user sees."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from typing import Any

import pytest

from burnish_cli import main

from ._place import Place
from ._server import Answer, Endpoint, Script, bad, good

pytestmark = pytest.mark.slow
SOON = {"retry-after-ms": "1"}


def configure(place: Place, url: str, options: str = "", **more: Any) -> None:
    model = f'use = "openai"\nmodel = "tiny"\nbase_url = "{url}"\napi_key_env = ""\n{options}'
    place.configure(model=model, **{"concurrency": 16, "train": 10, "val": 10, "test": 10, "candidates": 2, **more})


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (bad(401, "no such key"), "the credentials were refused"),
        (bad(404, "no such model"), "check `model`"),
        (bad(429, "You exceeded your current quota", code="insufficient_quota"), "no quota or credit left"),
        ((302, b"", {"location": "http://127.0.0.1:1/"}), "a redirect, not followed"),
    ],
    ids=["credentials", "model", "quota", "redirect"],
)
def test_what_cannot_pass_is_asked_once(
    place: Place, capsys: pytest.CaptureFixture[str], answer: Answer, said: str
) -> None:
    """Credentials, model, money or address that are wrong from the start cost one call, whatever the concurrency."""
    with Endpoint(lambda n, body, handler: answer) as endpoint:
        configure(place, endpoint.url)
        assert 3 == main(["run"])
        assert 1 == endpoint.calls
    out, err = capsys.readouterr()
    assert said in err
    assert "improve" not in out + err


def test_credentials_that_end_stop_what_has_not_started(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """A key that is revoked after 30 calls costs what was in flight; the next run pays for none of the 30 again."""
    with Endpoint(lambda n, body, handler: good(body) if n <= 30 else bad(401)) as endpoint:
        configure(place, endpoint.url, test=0)
        assert 3 == main(["run"])
        # A slot is free before its rollout is recorded, so twice the slots are the bound.
        assert 30 < endpoint.calls <= 30 + 2 * 16
        assert "the credentials were refused" in capsys.readouterr().err
        assert 30 == place.cached()


@pytest.mark.parametrize(
    ("fault", "concurrency"), [("none", 1), ("503", 1), ("none", 16), ("503", 16), ("429", 16), ("hangs up", 16)]
)
def test_a_cap_on_requests_is_never_passed(place: Place, fault: str, concurrency: int) -> None:
    """Counted where they arrive, retries are requests too: not one more than `max_requests`, at any concurrency."""
    faults = {"none": None, "503": bad(503, headers=SOON), "429": bad(429, headers=SOON), "hangs up": None}

    def script(n: int, body: Mapping[str, Any], handler: Any) -> Answer:
        return faults[fault] if fault != "none" and n % 10 in (2, 5, 9) else good(body)

    with Endpoint(script) as endpoint:
        configure(place, endpoint.url, "retries = 1", concurrency=concurrency, budget="max_requests = 50")
        main(["run"])
        assert 20 < endpoint.calls <= 50
        assert endpoint.calls == place.result()["spend"]["requests"]


@pytest.mark.parametrize("headers", [{"retry-after": "0.3"}, {}], ids=["says when", "does not say"])
def test_a_burst_of_429_costs_time_and_no_score(place: Place, headers: dict[str, str]) -> None:
    """Too many requests for a while: every row is scored in the end, and few calls are made meanwhile."""
    began: list[float] = []

    def script(n: int, body: Mapping[str, Any], handler: Any) -> Answer:
        if n > 20:
            began.append(time.monotonic())
        burst = bool(began) and began[-1] - began[0] < 0.3
        return bad(429, headers=headers) if burst else good(body)

    with Endpoint(script) as endpoint:
        configure(place, endpoint.url)
        assert 0 == main(["run"])
        assert 0 < endpoint.statuses.count(429) <= 3 * 16
        form = place.result()
        assert (10, 10) == (form["test"]["rows"], form["test"]["compared"])
        assert [] == [note for note in form["notes"] if "stop_at_score" not in note]


def test_a_wait_that_the_provider_asks_for_is_said(place: Place) -> None:
    """While a run waits for `Retry-After` it says so once, with the seconds and the provider's words."""
    wait = bad(429, "slow down", {"retry-after": "6"})
    with Endpoint(lambda n, body, handler: wait if n == 5 else good(body)) as endpoint:
        configure(place, endpoint.url, test=0)
        code, _, err = place.run()
    (line,) = [line for line in err.splitlines() if "slow down" in line]
    assert "warning: the endpoint asks to wait 6 s (POST " in line
    assert 0 == code, err


def test_prompts_that_are_too_long_are_the_rows_fault(place: Place) -> None:
    """Rows that do not fit the context get the failure score, are asked once each, and are counted for the user."""

    def script(n: int, body: Mapping[str, Any], handler: Any) -> Answer:
        long = int(body["messages"][-1]["content"].split("x")[-1]) % 5 == 0
        return bad(400, "it is too much", code="context_length_exceeded") if long else good(body)

    with Endpoint(script) as endpoint:
        configure(place, endpoint.url, train=20, val=20, test=20)
        assert 0 == main(["run"])
    form = place.result()
    assert endpoint.calls == form["spend"]["requests"] == form["spend"]["rollouts"]
    assert 20 == form["test"]["compared"]
    assert endpoint.statuses.count(400) == form["failures"]["search"]["failed"] + form["failures"]["test"]["failed"]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (lambda n, body, handler: (200, b'{"choices": [\x1b[2J', {}), "the reply is not JSON"),
        (lambda n, body, handler: bad(503, "overloaded \x1b[2J"), "answered 503: overloaded"),
        (lambda n, body, handler: None, "the connection broke"),
    ],
    ids=["no JSON", "down", "hangs up"],
)
def test_a_broken_endpoint_is_no_verdict(
    place: Place, capsys: pytest.CaptureFixture[str], script: Script, said: str
) -> None:
    """Sixteen failures in a row stop the run with the grouped cause; nothing is scored, nothing is cached."""
    with Endpoint(script) as endpoint:
        configure(place, endpoint.url, "retries = 0", val=60)
        assert 3 == main(["run"])
        # Judged in the order of their start, sixteen in a row may be three full sets of slots.
        assert 16 <= endpoint.calls <= 4 * 16
    out, err = capsys.readouterr()
    assert said in err
    assert "\x1b" not in out + err
    assert 0 == place.cached()


def test_nobody_listens(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """A refused connection says where and what to check."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    configure(place, f"http://127.0.0.1:{port}/v1", "retries = 0")
    assert 3 == main(["run"])
    assert f"POST http://127.0.0.1:{port}/v1/chat/completions (model `tiny`): cannot connect" in capsys.readouterr().err
    assert 0 == place.cached()
