"""Addresses: which source and path each names, and that no message repeats a credential."""

from __future__ import annotations

import pytest

from applyprune.errors import UsageError
from applyprune.sources.address import (
    OciAddress,
    OciRef,
    is_address,
    parse_address,
    shown_address,
)

DIGEST = f"sha256:{'ab' * 32}"
ADDRESSES: dict[str, OciAddress] = {
    "oci://registry.example.com/shop/web": OciAddress("registry.example.com", "shop/web"),
    "oci://registry.example.com:5000/web:1.4.0": OciAddress(
        "registry.example.com:5000", "web", OciRef("1.4.0")
    ),
    f"oci://registry.example.com/web@{DIGEST}": OciAddress(
        "registry.example.com", "web", OciRef(digest=DIGEST)
    ),
    f"oci://registry.example.com/shop/web:1.4.0@{DIGEST}//prod": OciAddress(
        "registry.example.com", "shop/web", OciRef("1.4.0", digest=DIGEST), "prod"
    ),
}


@pytest.mark.parametrize(("text", "expected"), ADDRESSES.items())
def test_address_names_a_source_and_a_path(text: str, expected: OciAddress) -> None:
    assert is_address(text)
    found = parse_address(text)
    assert found == expected


@pytest.mark.parametrize(
    "text",
    [
        "-",
        "manifests/",
        "oci:/registry/web:1",
        "./git+https://host/x.git",
        "./git@git.example.com:shop/deploy.git",
        "me@example.com:web.yaml",
        "web.git",
        "https://example.com/x.gitlab/web.yaml",
        "https://example.com/web.yaml?ref=x.git",
        "web.tar.gz",
        "https://example.com/web.yaml",
        "https://example.com/web.yaml?ref=x.tar.gz",
        "https://example.com/web.tar.gz/web.yaml",
        "https://example.com/web.yaml#L12",
        "http://example.com/web.tar.gz",
        "file:///x.tar.gz",
        "overlays/https://x.tar.gz",
    ],
)
def test_other_texts_stay_paths_and_urls(text: str) -> None:
    assert not is_address(text)
    assert parse_address(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("oci://", "invalid address oci://…: it has no host"),
        ("oci:///x", "it has no host"),
        ("oci://h:port/x", "its port is not a number from 1 to 65535"),
        ("oci://-oProxyCommand=x/x", "its host is not a name or an address"),
        ("oci://h/x:1//a/%2e%2e/y", "its path is not inside the source"),
        ("oci://h/x:1//a//b", "its path is not inside the source"),
        ("oci://h/x:1//%00", "its path is not inside the source"),
        ("oci://h/x:1//a%2", "a % is not followed by two hexadecimal digits"),
        ("oci://h/x:1//a b", "it has a space"),
        ("oci://h/x:1\n", "it has a space"),
        ("oci://h/x:1#main", "it has a fragment"),
        ("oci://h/x:1?token=hunter2", "it has a query"),
        ("oci://registry.example.com", "it names no repository"),
        ("oci://registry.example.com/Web:1", "its repository is invalid"),
        ("oci://registry.example.com/web:", "its tag is empty\n  Check for an unset variable"),
        ("oci://registry.example.com/web:-1", "its tag is invalid\n  A tag has up to 128 letters"),
        ("oci://registry.example.com/web@sha256:abc", "its digest is invalid"),
        ("oci://registry.example.com/web@md5:abc", "its digest is invalid"),
        ("oci://me:hunter2@registry.example.com/web:1", "it has a user"),
        ("oci://me:hunt/er2@registry.example.com/web:1", "invalid address oci://…: its port"),
        ("oci://registry.example.com/web?semver=1", "a range of versions is not read"),
        ("oci://h/web:1?semver=%5E1", "Name a tag or a digest, or follow the range with a Bundle."),
        ("oci://registry.example.com/web:1//../x", "its path is not inside the source"),
        ("https://h/x.tar.gz", "invalid address https://h/x.tar.gz: an archive by URL is not read"),
        ("HTTPS://me:hunter2@h/x.TGZ?t=hunter2#path=a", "Unpack it and name the folder, or push"),
        ("https://h/x.tar", "`applyprune push oci://HOST/REPO:TAG -f FOLDER`"),
    ],
)
def test_invalid_address_is_an_error_with_a_hint(text: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_address(text)
    assert expected in str(caught.value)
    assert caught.value.hint
    assert "hunter2" not in str(caught.value)
    assert "er2" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("git+https://me:hunter2@h/x.git//a?ref=main", "git+https://h/x.git//a"),
        ("GIT+SSH://git@h:22/x.git", "git+ssh://h:22/x.git"),
        ("git+http://h/x", "git+http://h/x"),
        ("git+file:///x", "git+file://…"),
        ("git://h/x", "git://h/x"),
        ("ssh://git@h/x", "ssh://h/x"),
        ("https://h/x.git", "https://h/x.git"),
        ("https://me:hunter2@h/x.git//web?ref=main", "https://h/x.git//web"),
        ("https://h/x.git?token=hunter2", "https://h/x.git"),
        ("git@git.example.com:shop/deploy", "git.example.com:shop/deploy"),
        ("me@h:shop/deploy.git//web?ref=hunter2", "h:shop/deploy.git//web"),
    ],
)
def test_repository_is_an_error_that_says_what_to_do(text: str, shown: str) -> None:
    """A checkout is read instead, or a Bundle follows it."""
    with pytest.raises(UsageError) as caught:
        parse_address(text)
    error = caught.value
    assert error.message == f"invalid address {shown}"
    assert error.reason == "a Git repository by URL is not read"
    assert error.hint == "Clone it and name the folder, or follow the repository with a Bundle."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"oci://h/x:1@{DIGEST}//a", "oci://h/x:1"),
        (f"oci://h/x@{DIGEST}", f"oci://h/x@{DIGEST}"),
        ("oci://h/x", "oci://h/x"),
    ],
)
def test_shown_form_has_no_credential_and_no_path(text: str, expected: str) -> None:
    address = parse_address(text)
    assert address is not None
    assert address.shown == expected
    assert shown_address(text).startswith(expected.partition("@")[0])
    assert "hunter2" not in f"{shown_address(text)} {address!r}"
