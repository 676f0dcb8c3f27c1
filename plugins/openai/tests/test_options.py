"""Options, identity, limits, and where secrets do not appear."""

from __future__ import annotations

import json
from typing import Any

import pytest

import burnish
from burnish import Environment, abc
from burnish.errors import ConfigError
from burnish_openai import OpenAIModel, OpenAIOptions, _plugin, open_model

from ._ask import ENV, KEY

SECOND = "sk-body-77"
URL = f"https://ann:pass-{KEY}@Gateway.example:8443/v1/?token=query-{KEY}"


async def model_of(**options: Any) -> OpenAIModel:
    """Open and close a model: its values stay readable."""
    async with open_model(OpenAIOptions(**({"model": "tiny"} | options)), ENV) as model:
        return model


async def test_hook_offers_one_model() -> None:
    """The plugin's hook gives one spec, `openai`, whose `open` makes a `burnish.abc.Model`."""
    (spec,) = _plugin.burnish_models()
    assert ("openai", OpenAIOptions, abc.KINDS["model"]) == (spec.name, spec.options, spec.api)
    async with spec.open(OpenAIOptions(model="tiny"), ENV) as model:
        assert isinstance(model, abc.Model)


async def test_identity_is_what_decides_the_answer() -> None:
    """Endpoint without userinfo and query, model, API, settings that are set, extra fields: and nothing else."""
    model = await model_of(base_url=URL, temperature=0.0, max_tokens=9, stop="X", extra={"cache_prompt": False})
    expected = {
        "provider": "openai",
        "base_url": "https://gateway.example:8443/v1",
        "api": "chat",
        "model": "tiny",
        "settings": {"temperature": 0.0, "max_tokens": 9, "stop": ["X"]},
        "extra": {"cache_prompt": False},
    }
    assert expected == model.identity


async def test_nothing_shown_holds_a_secret() -> None:
    """Neither identity nor limits nor any repr shows the key, a header's value, a password or a query."""
    model = await model_of(base_url=URL, headers={"X-Trace": f"h-{KEY}"}, headers_env={"Api-Key": "GATEWAY_KEY"})
    shown = [repr(model), repr(model.options), repr(ENV), json.dumps(dict(model.identity)), repr(model.limits)]
    shown += [repr(getattr(model, name)) for name in ("_faults", "_client")]
    assert [] == [text for text in shown if KEY in text or "gw-77a1b2" in text]


async def test_limits_tell_credentials_apart() -> None:
    """Models share a limiter exactly when endpoint, model and credential are the same; limits come from the options."""
    others: list[dict[str, Any]] = [{"model": "other"}, {"api_key_env": "GATEWAY_KEY"}, {"api_key_env": None}]
    keys = {(await model_of(**options)).limits.key for options in others}
    limits = (await model_of(timeout=9, retries=1, max_in_flight=3, max_tokens=8)).limits
    assert limits.key == (await model_of(temperature=1.0, headers={"X-Title": "t"})).limits.key
    assert 4 == len(keys | {limits.key})
    assert (9, 1, 3, 8) == (limits.timeout, limits.retries, limits.max_in_flight, limits.max_output_tokens)


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({}, 'OPENAI_API_KEY, which is not set; for an endpoint without a key write api_key_env = ""'),
        ({"OPENAI_API_KEY": "  "}, "not set"),
        ({"OPENAI_API_KEY": f"{KEY}\r\nX-Evil: 1"}, "no HTTP header may hold"),
        ({"OPENAI_API_KEY": f"{KEY}é"}, "no HTTP header may hold"),
    ],
)
async def test_unusable_key_is_refused_before_anything_is_sent(variables: dict[str, str], words: str) -> None:
    """A missing or unusable key is a configuration error that names the variable and never shows the value."""
    with pytest.raises(ConfigError) as caught:
        async with open_model(OpenAIOptions(model="tiny"), Environment(variables=variables)):
            pass
    assert (True, False) == (words in str(caught.value), KEY in str(caught.value))


@pytest.mark.parametrize("options", [{"api_key_env": KEY}, {"headers_env": {"Api-Key": KEY}}])
async def test_a_key_in_place_of_its_variables_name_is_not_shown(options: dict[str, Any]) -> None:
    """What is no variable's name may be the key itself: neither the error nor a repr quotes it."""
    given = OpenAIOptions(model="tiny", **options)
    with pytest.raises(ConfigError, match="must be the name of an environment variable") as caught:
        async with open_model(given, ENV):
            pass
    assert (False, False) == (KEY in str(caught.value), KEY in repr(given))
    assert "'OPENAI_API_KEY'" in repr(OpenAIOptions(model="tiny"))


async def test_secrets_in_extra_are_digests() -> None:
    """`identity` goes into traces and stores: texts under names of secrets are digests in it, which still differ."""
    extra = {"user": "ann", "min_tokens": 5, "metadata": {"api_key": KEY, "tokens": [SECOND, {"a": KEY}]}}
    model, other = await model_of(extra=extra), await model_of(extra={"metadata": {"api_key": f"{KEY}2"}})
    shown, further = (dict[str, Any](one.identity)["extra"] for one in (model, other))
    assert ("ann", 5) == (shown["user"], shown["min_tokens"])
    texts = [json.dumps(dict(model.identity)), repr(model), repr(model.options)]
    assert [] == [text for text in texts if "sk-" in text]
    hidden = {shown["metadata"]["api_key"], shown["metadata"]["tokens"][0], further["metadata"]["api_key"]}
    assert 3 == len(hidden)
    assert shown == (await model_of(extra=extra)).identity["extra"]
    assert "[redacted] is wrong" == model._faults.quote(f"{SECOND} is wrong")
    assert model.limits.key == (await model_of()).limits.key


async def test_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an `Environment` the key comes from the process; a newline at its end does no harm."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY + "\n")
    async with open_model(OpenAIOptions(model="tiny")) as model:
        assert (await model_of()).limits.key == model.limits.key


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model", " "),
        ("base_url", "api.openai.com/v1"),
        ("base_url", "ftp://host/v1"),
        ("base_url", "http://host:99999/v1"),
        ("base_url", "http://host/v1\n"),
        ("base_url", "http://ho st/v1"),
        ("base_url", "http://a..b/v1"),
        ("base_url", f"http://{'x' * 64}.example/v1"),
        ("base_url", "https://api.openai.com/v1/chat/completions"),
        ("api", "responses"),
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("top_p", 0),
        ("top_p", 1.1),
        ("max_tokens", 0),
        ("timeout", 0),
        ("timeout", float("inf")),
        ("retries", -1),
        ("max_in_flight", 0),
        ("extra", {"stream": True}),
        ("extra", {"max_completion_tokens": 9}),
        ("extra", {"when": object()}),
        ("extra", {"x": float("nan")}),
    ],
)
def test_wrong_options_are_refused_by_name(key: str, value: object) -> None:
    """A value that cannot work is a `ConfigError` that names the option."""
    with pytest.raises(ConfigError, match=f"`{key}`"):
        OpenAIOptions(**({"model": "tiny"} | {key: value}))  # type: ignore[arg-type]


def test_password_is_not_quoted_when_base_url_is_refused() -> None:
    """The message about a wrong `base_url` does not repeat it, for it may hold a password."""
    with pytest.raises(ConfigError) as caught:
        OpenAIOptions(model="tiny", base_url=f"ftp://ann:{KEY}@host/v1")
    assert KEY not in str(caught.value)


def test_one_stop_and_an_empty_variable_name_are_understood() -> None:
    """A single stop may be written as text; "" for `api_key_env` means no key, as TOML has no null."""
    options = OpenAIOptions(model="tiny", stop="X", api_key_env="")
    assert (("X",), None) == (options.stop, options.api_key_env)


def test_spec_is_burnishs() -> None:
    """The hook returns the kind of spec that the core composes."""
    assert all(isinstance(spec, burnish.Spec) for spec in _plugin.burnish_models())


@pytest.mark.parametrize("option", ["headers", "headers_env"])
@pytest.mark.parametrize("value", [f"X-Key: {KEY}", [KEY], {"X-Key": [KEY]}, {"X-Key": None}])
def test_wrong_headers_are_told_by_their_type(option: str, value: Any) -> None:
    """What is no table of texts is refused when the options are made, and not quoted (62)."""
    with pytest.raises(ConfigError, match=r"model\.openai: ") as caught:
        OpenAIOptions(model="tiny", **{option: value})
    assert KEY not in str(caught.value)
