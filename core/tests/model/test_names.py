"""What names tell."""

from __future__ import annotations

import pytest

from burnish import did_you_mean, names_secret


@pytest.mark.parametrize(
    "name",
    [
        *("key", "keys", "api_key", "apiKey", "APIKey", "APIkey", "apikey", "OPENAI_API_KEY", "x-api-key"),
        *("accesskey", "key_2"),
        *("auth", "oauth2", "Authorization", "authorisation", "authentication", "auth_header", "authToken"),
        *("token", "access_token", "accesstoken", "bearer", "sig", "cookie", "Set-Cookie", "header", "headers"),
        *("password", "passwd", "passphrase", "db_password", "pwd", "secret", "client_secret", "clientSecret"),
        *("credentials", "aws_credential", "creds"),
    ],
)
def test_names_of_secrets(name: str) -> None:
    """A word that speaks of a secret is found however the name is written (scenario 62)."""
    assert names_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        *("signature", "sigma", "design", "significance", "author", "authors", "authority", "keyword", "keywords"),
        *("keyboard", "monkey", "tokens", "max_tokens", "tokenizer", "secretary", "passage", "compass", "model", ""),
    ],
)
def test_other_names_that_begin_or_end_like_one(name: str) -> None:
    """What only holds the letters of such a word is no secret: a program's `signature` above all."""
    assert not names_secret(name)


def test_the_name_that_may_have_been_meant() -> None:
    """The nearest known name is asked for, whatever its capitals; nothing where none is near."""
    assert "did you mean `max_rounds`?" == did_you_mean("max_round", ["seed", "max_rounds"])
    assert "did you mean `Label`?" == did_you_mean("lable", iter(["Label"]))
    assert "" == did_you_mean("zzz", ["seed"])
    assert "" == did_you_mean("x", [])
