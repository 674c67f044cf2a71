"""Addresses: which source and path each names, and that no message repeats a credential."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from applyprune.errors import UsageError
from applyprune.sources.address import (
    Address,
    GitAddress,
    GitRef,
    OciAddress,
    OciRef,
    is_address,
    parse_address,
    shown_address,
)

COMMIT = "0123456789abcdef0123456789abcdef01234567"
DIGEST = f"sha256:{'ab' * 32}"
REPO = "https://git.example.com/shop/deploy.git"
ADDRESSES: dict[str, Address] = {
    f"git+{REPO}": GitAddress(REPO),
    f"git+{REPO}/": GitAddress(f"{REPO}/"),
    f"git+{REPO}//clusters/prod/web?ref=main": GitAddress(REPO, "clusters/prod/web", name="main"),
    f"git+{REPO}//clusters/prod/web/": GitAddress(REPO, "clusters/prod/web"),
    f"git+{REPO}//?ref=main": GitAddress(REPO, name="main"),
    f"git+{REPO}//a/b.yaml?branch=feature/x": GitAddress(REPO, "a/b.yaml", GitRef("feature/x")),
    f"git+{REPO}?tag=v1.2.3": GitAddress(REPO, ref=GitRef(tag="v1.2.3")),
    f"git+{REPO}?semver=%3E%3D1.2%20%3C2": GitAddress(REPO, ref=GitRef(semver=">=1.2 <2")),
    f"git+{REPO}?commit={COMMIT.upper()}": GitAddress(REPO, ref=GitRef(commit=COMMIT)),
    f"git+{REPO}?commit={COMMIT}&branch=main": GitAddress(
        REPO, ref=GitRef(branch="main", commit=COMMIT)
    ),
    f"git+{REPO}//a%20b/%23c": GitAddress(REPO, "a b/#c"),
    "GIT+HTTPS://git.example.com/x.git": GitAddress("https://git.example.com/x.git"),
    "git+https://me:hunter2@git.example.com:8443/x.git": GitAddress(
        "https://me:hunter2@git.example.com:8443/x.git"
    ),
    "git+ssh://git@git.example.com:2222/x.git//a?branch=b": GitAddress(
        "ssh://git@git.example.com:2222/x.git", "a", GitRef("b")
    ),
    "git+ssh://git.example.com/~me/x.git": GitAddress("ssh://git.example.com/~me/x.git"),
    "git+https://[::1]:8443/x.git": GitAddress("https://[::1]:8443/x.git"),
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
    "oci://registry.example.com/web//prod?semver=%5E1": OciAddress(
        "registry.example.com", "web", OciRef(semver="^1"), "prod"
    ),
}


@pytest.mark.parametrize(("text", "expected"), ADDRESSES.items())
def test_address_names_a_source_and_a_path(text: str, expected: Address) -> None:
    assert is_address(text)
    found = parse_address(text)
    assert (type(found), found and astuple(found)) == (type(expected), astuple(expected))


@pytest.mark.parametrize(
    "text",
    [
        "-",
        "manifests/",
        "oci:/registry/web:1",
        "./git+https://host/x.git",
        "web.tar.gz",
        "git@git.example.com:shop/deploy.git",
        "https://example.com/web.yaml",
        "https://example.com/web.yaml?ref=x.tar.gz",
        "https://example.com/web.tar.gz/web.yaml",
        "https://example.com/web.yaml#L12",
        "http://example.com/web.tar.gz",
        "git://git.example.com/x.git",
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
        ("git+https://", "invalid address git+https://…: it has no host"),
        ("git+https:///x.git", "it has no host"),
        ("git+https://git.example.com", "the URL of the repository has no path"),
        ("git+https://git.example.com//web", "the URL of the repository has no path"),
        ("git+https://git.example.com:port/x.git", "its port is not a number from 1 to 65535"),
        ("git+https://-oProxyCommand=x/x.git", "its host is not a name or an address"),
        ("git+ssh://-oProxyCommand=x@h/x.git", "the URL of the repository has an unsupported user"),
        ("git+ssh://git:hunter2@h/x.git", "a password in it would be shown to every process"),
        ("git+https://h/x.git//../y", "its path is not inside the source"),
        ("git+https://h/x.git//a/%2e%2e/y", "its path is not inside the source"),
        ("git+https://h/x.git//a//b", "its path is not inside the source"),
        ("git+https://h/x.git//%00", "its path is not inside the source"),
        ("git+https://h/x.git//a%2", "a % is not followed by two hexadecimal digits"),
        ("git+https://h/x.git//a b", "it has a space"),
        ("git+https://h/x.git\n", "it has a space"),
        ("git+https://h/x.git#main", "it has a fragment"),
        ("git+https://h/x.git?ref=", "its ref is empty"),
        ("git+https://h/x.git?ref=a&ref=b", "its query has ref twice"),
        ("git+https://h/x.git?tags=a", "Did you mean tag?"),
        ("git+https://h/x.git?token=hunter2", "its query has an unknown key"),
        ("git+https://h/x.git?hunter2", "its query has an unknown key"),
        ("git+https://h/x.git?branch=a&tag=b", "branch and tag exclude each other"),
        (f"git+https://h/x.git?tag=a&commit={COMMIT}", "exclude each other"),
        ("git+https://h/x.git?commit=0123456", "invalid commit of the source"),
        ("git+https://h/x.git?ref=--upload-pack=x", "invalid ref of the source"),
        ("git+https://h/x.git?branch=a..b", "invalid branch of the source"),
        ("git+https://h/x.git?tag=a%20b", "invalid tag of the source"),
        ("git+https://h/x.git?ref=a:b", "invalid ref of the source"),
        ("oci://registry.example.com", "it names no repository"),
        ("oci://registry.example.com/Web:1", "its repository is invalid"),
        ("oci://registry.example.com/web:", "its tag is empty\n  Check for an unset variable"),
        ("oci://registry.example.com/web:-1", "its tag is invalid\n  A tag has up to 128 letters"),
        ("oci://registry.example.com/web@sha256:abc", "its digest is invalid"),
        ("oci://registry.example.com/web@md5:abc", "its digest is invalid"),
        ("oci://me:hunter2@registry.example.com/web:1", "it has a user"),
        ("oci://me:hunt/er2@registry.example.com/web:1", "invalid address oci://…: its port"),
        ("oci://registry.example.com/web:1?semver=1", "semver and a tag or digest exclude"),
        ("oci://registry.example.com/web:1//../x", "its path is not inside the source"),
        ("oci://registry.example.com/web?tag=1", "its query has an unknown key"),
        ("https://h/x.tar.gz", "invalid address https://h/x.tar.gz: an archive by URL is not read"),
        ("HTTPS://me:hunter2@h/x.TGZ?t=hunter2#path=a", "Unpack it and name the folder, or push"),
        ("https://h/x.tar", "`applyprune push oci://HOST/REPO:TAG -f FOLDER`"),
        ("https://h/x.git", "a repository is not a document"),
        ("https://h/x.git//web?ref=main", "Write git+https://"),
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
    ("text", "expected"),
    [
        ("git+https://me:hunter2@h/x.git//a?ref=main", "git+https://h/x.git"),
        ("git+ssh://git@h:22/x.git//a", "git+ssh://h:22/x.git"),
        (f"oci://h/x:1@{DIGEST}//a", "oci://h/x:1"),
        (f"oci://h/x@{DIGEST}", f"oci://h/x@{DIGEST}"),
        ("oci://h/x?semver=1", "oci://h/x"),
    ],
)
def test_shown_form_has_no_credential_and_no_path(text: str, expected: str) -> None:
    address = parse_address(text)
    assert address is not None
    assert address.shown == expected
    assert shown_address(text).startswith(expected.partition("@")[0])
    assert "hunter2" not in f"{shown_address(text)} {address!r}"
