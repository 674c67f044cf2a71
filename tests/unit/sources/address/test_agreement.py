"""What may name a source: the same for an address of ``-f``, for a fetch, and for a Bundle.

What one of them accepted and the next one refuses would fail later, with a worse message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from applyprune.controller.spec import InvalidSpec, read_bundle
from applyprune.errors import UsageError
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject
from applyprune.sources.address import GitRef, GitSource, OciRef, parse_address, parse_reference

if TYPE_CHECKING:
    from collections.abc import Callable

DIGEST = f"sha256:{'0a' * 32}"


def words(text: str) -> list[str]:
    return text.split()


# What is valid, and what is not.
REFS = {
    "branch": (
        words("main feature/a-b_c.d a./b a/-b a{b é"),
        [
            *words("-x --upload-pack=x .x x. a/.b a//b /a a/ a..b @ a@{b x.lock/y x.lock a^{} a:b"),
            *("*", "a b", "a\n", "a\x7f", "a\u200bb", "a\u00a0b"),
        ],
    ),
    "tag": (["v1.0.0+x"], ["-x", "a b", "a..b", "x.lock/y", "a:b"]),
    "commit": (["0" * 40], ["0" * 39, "0" * 64, f"{'0' * 40}\n", "-" * 40, "main"]),
    "semver": (["^1", ">=1.0 <2", "1.x || 2"], ["not a range", "1,", "--x"]),
}
NAMES = (["refs/pull/1/head"], ["main", "-x", "refs/", "refs/a/../b", "refs/a.lock"])
GIT = (
    words(
        "https://h/x https://my_host/x https://[::1]/x https://h/a//b ssh://git@h/x"
        " https://[FD00::1]:8443/x ssh://git@[fd00::1]:22/x"
    ),
    [
        *words("https://h https://h/ https://h./x https://h..i/x https://127.1/x https://1/x"),
        *words("https://0x7f.1/x https://h:0/x https://h:99999/x https://é.x/a https://h\\@g/a"),
        *words("ssh://git:hunter2@h/x ssh://-l@h/x ssh://-oProxyCommand=x/x ssh://$(x)@h/a"),
        *words("https://[fe80::1%25eth0]/x https://[fd00::1/x https://fd00::1/x https://[h]/x"),
        "https://h/a b",
    ],
)
OCI = (
    words(f"oci://h/x oci://h/a__b oci://h/{'a' * 255} oci://[::1]/x oci://h:5000/x"),
    [
        *words("oci://my_host/x oci://h..i/x oci://-h/x oci://h-/x oci://h./x oci://h:0/x"),
        *words(f"oci://h:65536/x oci://{'a' * 64}.b/x oci://a{'.b' * 600}/x oci://[zz]/x"),
        *words("oci://[::::]/x oci://[fe80::1%25eth0]/x oci://fd00::1/x oci://[fd00::1]:0/x"),
        *words(f"oci://h/{'a' * 256} oci://h/a___b oci://h/a-.b oci://h/x/ oci://h/../x"),
    ],
)
TAGS = (["1.4.0", "v1_A.b-c", "a" * 128], ["-1", "a/b", "../x", "a" * 129])
DIGESTS = ([DIGEST], ["sha256:00", DIGEST.upper(), f"sha512:{'0' * 128}", f"{DIGEST}\n"])


def rows(table: tuple[list[str], list[str]], *given: str) -> list[tuple[object, ...]]:
    return [(*given, text, index == 0) for index, texts in enumerate(table) for text in texts]


def accepts(read: Callable[[], object]) -> bool:
    try:
        found = read()
    except (UsageError, InvalidSpec):
        return False
    # A text that is no address is a path.
    return found is not None


def bundle(kind: str, **source: object) -> object:
    metadata = {"name": "web", "namespace": "shop"}
    ref = Ref("applyprune.dev", "Bundle", "shop", "web")
    body = {"metadata": metadata, "spec": {"source": {kind: source}}}
    return read_bundle(LiveObject.of(ref, "u", "1", metadata, body))


@pytest.mark.parametrize(
    ("field", "text", "is_valid"), [row for field in REFS for row in rows(REFS[field], field)]
)
def test_versions_of_a_repository(field: str, text: str, is_valid: bool) -> None:
    found = [
        accepts(lambda: GitRef(**{field: text})),
        accepts(lambda: bundle("git", url="https://h/x", ref={field: text})),
    ]
    assert found == [is_valid] * 2


@pytest.mark.parametrize(("text", "is_valid"), rows(NAMES))
def test_whole_names_of_references(text: str, is_valid: bool) -> None:
    found = [
        accepts(lambda: GitRef(name=text)),
        accepts(lambda: bundle("git", url="https://h/x", ref={"name": text})),
    ]
    assert found == [is_valid] * 2


@pytest.mark.parametrize(("url", "is_valid"), rows(GIT))
def test_urls_of_repositories(url: str, is_valid: bool) -> None:
    found = [
        accepts(lambda: GitSource(url)),
        accepts(lambda: bundle("git", url=url)),
    ]
    assert found == [is_valid] * 2


@pytest.mark.parametrize(("url", "is_valid"), rows(OCI))
def test_names_of_artifacts(url: str, is_valid: bool) -> None:
    found = [
        accepts(lambda: parse_address(url)),
        accepts(lambda: parse_reference(url)),
        accepts(lambda: bundle("oci", url=url)),
    ]
    assert found == [is_valid] * 3


@pytest.mark.parametrize(
    ("field", "text", "is_valid"), [*rows(TAGS, "tag"), *rows(DIGESTS, "digest")]
)
def test_versions_of_an_artifact(field: str, text: str, is_valid: bool) -> None:
    url = f"oci://h/x{':' if field == 'tag' else '@'}{text}"
    found = [
        accepts(lambda: parse_address(url)),
        accepts(lambda: parse_reference(url)),
        accepts(lambda: OciRef(**{field: text})),
        accepts(lambda: bundle("oci", url="oci://h/x", ref={field: text})),
    ]
    assert found == [is_valid] * 4


@pytest.mark.parametrize(
    ("kind", "url"),
    [
        ("git", "https://me@h/x"),
        ("git", "https://me:hunter2@h/x"),
        ("git", "ssh://me:hunter2@h/x"),
        ("git", "git@h:x"),
        ("oci", "oci://h/x:1"),
        ("oci", f"oci://h/x@{DIGEST}"),
    ],
)
def test_bundle_says_some_things_elsewhere(kind: str, url: str) -> None:
    """Credentials in its Secret, versions in fields; and a URL has one form."""
    assert not accepts(lambda: bundle(kind, url=url))
