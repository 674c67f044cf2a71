"""Credentials from an image pull Secret: those of the registry, and of no other."""

from __future__ import annotations

import base64
import json

import pytest

from applyprune.sources.address import parse_reference
from applyprune.sources.oci_registry import Login, login_for
from applyprune.sources.tree import AuthenticationFailed, SourceCredentials

AUTH = {"auth": base64.b64encode(b"me:pa:ss").decode()}
ME = Login("me", "pa:ss")
WEB = "oci://example.com:5000/shop/web"


def login(auths: object, url: str = WEB) -> Login:
    raw = json.dumps({"auths": auths}).encode()
    return login_for(parse_reference(url), SourceCredentials(docker_config=raw))


@pytest.mark.parametrize(
    ("key", "is_for_it"),
    [
        ("example.com:5000", True),
        ("https://example.com:5000", True),
        ("https://example.com:5000/v1/", True),
        ("https://Example.com:5000/v2/", True),
        ("example.com:5000/shop", True),
        ("example.com:5000/shop/web", True),
        ("example.com:5000/shop/we", False),
        ("example.com:5000/other", False),
        ("example.com", False),
        ("example.com:500", False),
        ("http://example.com:5000", False),
        ("*.com:5000", False),
        ("xexample.com:5000", False),
        ("", False),
        ("/", False),
    ],
)
def test_login_is_that_of_the_host(key: str, is_for_it: bool) -> None:
    assert login({key: AUTH}) == (ME if is_for_it else Login())


def test_longest_name_wins() -> None:
    other = {"username": "other", "password": "x"}
    assert login({"example.com:5000": other, "example.com:5000/shop": AUTH}) == ME
    assert login({"example.com:5000/shop/web": AUTH, "example.com:5000": other}) == ME


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"username": "me", "password": "pa:ss"}, ME),
        ({"registrytoken": "t"}, Login(bearer_token="t")),
        ({**AUTH, "identitytoken": "t"}, Login("me", "pa:ss", refresh_token="t")),
        ({"auth": 1, "username": None}, Login()),
        ("text", Login()),
    ],
)
def test_entry_is_read(entry: object, expected: Login) -> None:
    assert login({"example.com:5000": entry}) == expected


def test_given_password_wins() -> None:
    raw = json.dumps({"auths": {"example.com:5000": AUTH}}).encode()
    given = SourceCredentials(username="you", password="x", docker_config=raw)
    assert login_for(parse_reference(WEB), given) == Login("you", "x")


@pytest.mark.parametrize(
    "raw",
    [
        b"hunter2",
        b'{"auths": hunter2}',
        b"[" * 100_000,
        b'{"auths": {"example.com:5000": {"auth": "hunter2!"}}}',
    ],
)
def test_unreadable_file_is_reported_and_not_quoted(raw: bytes) -> None:
    with pytest.raises(AuthenticationFailed) as caught:
        login_for(parse_reference(WEB), SourceCredentials(docker_config=raw))
    assert "hunter2" not in str(caught.value)
    assert ".dockerconfigjson" in caught.value.hint


@pytest.mark.parametrize("raw", [b"[]", b"{}", b'{"auths": 1}', b'{"auths": {}}'])
def test_file_without_logins_has_none(raw: bytes) -> None:
    assert login_for(parse_reference(WEB), SourceCredentials(docker_config=raw)) == Login()
