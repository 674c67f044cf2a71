"""Archives at a URL: every byte checked, and a version that is asked for without reading them."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import replace
from email.utils import formatdate
from typing import TYPE_CHECKING

import pytest

from applyprune.errors import InputError, UsageError
from applyprune.sources.archive import (
    ArchiveSource,
    ArchiveVersion,
    Unchanged,
    check_archive,
    fetch_archive,
)
from applyprune.sources.tree import (
    AuthenticationFailed,
    FetchFailed,
    PathNotFound,
    SourceCredentials,
    SourceTooLarge,
    TreeLimits,
    VerificationFailed,
)
from tests.support.archives import packed, tar
from tests.support.tls_site import Answer
from tests.support.waiting import HANG

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.tls_site import Call, Site

FILES = {"web/a.yaml": b"a: 1\n", "web/b/c.yaml": b"c: 1\n", "other/d.yaml": b"d: 1\n"}
DIGEST = f"sha256:{hashlib.sha256(packed(FILES)).hexdigest()}"
SECRET = "hunter2"
ETAG = f'"{DIGEST.removeprefix("sha256:")[:16]}"'


@pytest.fixture
def source(web_site: Site) -> ArchiveSource:
    return ArchiveSource(
        f"{web_site.url}/web.tar.gz?signature={SECRET}",
        credentials=SourceCredentials(username="me", password=SECRET, ca=web_site.ca),
        timeout=HANG,
    )


def failure(source: ArchiveSource) -> InputError:
    with pytest.raises(InputError) as caught:
        fetch_archive(source)
    assert SECRET not in str(caught.value)
    return caught.value


def test_archive_is_fetched_with_one_request(source: ArchiveSource, web_site: Site) -> None:
    """Its revision is its own digest; a given digest is checked."""
    tree = fetch_archive(replace(source, digest=DIGEST))
    assert (tree.files, tree.revision) == (FILES, DIGEST)
    assert [call.path for call in web_site.calls] == [f"/web.tar.gz?signature={SECRET}"]


def test_plain_archive_is_read(source: ArchiveSource, web_site: Site, folder: Path) -> None:
    (folder / "web.tar").write_bytes(tar(FILES))
    tree = fetch_archive(replace(source, url=f"{web_site.url}/web.tar"))
    assert tree.files == FILES


@pytest.mark.holds("checked-digest")
def test_other_digest_is_refused(source: ArchiveSource) -> None:
    """Before anything of the archive is unpacked: it is not one."""
    error = failure(replace(source, digest=f"sha256:{'0' * 64}"))
    assert isinstance(error, VerificationFailed)
    assert error.message == "the archive has another digest"
    assert DIGEST in error.reason


def test_digest_is_checked_before_the_archive_is_read(
    source: ArchiveSource, web_site: Site
) -> None:
    web_site.answers["/web.tar.gz"] = lambda _: Answer(body=b"not an archive")
    assert isinstance(failure(replace(source, digest=DIGEST)), VerificationFailed)
    assert isinstance(failure(source), FetchFailed)


def test_archive_without_files_is_refused(source: ArchiveSource, web_site: Site) -> None:
    """It would prune everything."""
    web_site.answers["/web.tar.gz"] = lambda _: Answer(body=packed({}))
    error = failure(source)
    assert isinstance(error, PathNotFound)
    assert error.message == "the source has no files"


@pytest.mark.parametrize(
    ("answer", "kind", "expected"),
    {
        "not found": (Answer(404), FetchFailed, "the server answered 404 Not Found"),
        "broken": (Answer(500), FetchFailed, "the server answered 500 Internal Server Error"),
        "partial": (Answer(206), FetchFailed, "the server answered 206 Partial Content"),
        "strange": (Answer(799), FetchFailed, "the server answered 799"),
        "who are you": (Answer(401), AuthenticationFailed, "the server answered 401 Unauthorized"),
        "not you": (Answer(403), AuthenticationFailed, "the server answered 403 Forbidden"),
        "not changed": (Answer(304), FetchFailed, "the server answered 304"),
        "compressed": (
            Answer(body=gzip.compress(b"x"), headers={"Content-Encoding": "gzip"}),
            FetchFailed,
            "the reply is compressed",
        ),
        "no length": (Answer(body=b"x", length=""), FetchFailed, "does not send the length"),
        "two numbers": (Answer(body=b"x", length="1, 1"), FetchFailed, "does not send the length"),
        "a word": (Answer(body=b"x", length="one"), FetchFailed, "does not send the length"),
        "a coding of two": (
            Answer(body=b"x", headers={"Transfer-Encoding": "gzip, chunked"}),
            FetchFailed,
            "does not send the length",
        ),
        "short": (Answer(body=b"x", length="2"), FetchFailed, "was cut off"),
        "chunks cut": (
            Answer(body=b"1\r\nx\r\n", headers={"Transfer-Encoding": "chunked"}, length=""),
            FetchFailed,
            "was cut off",
        ),
        "to http": (
            Answer(302, headers={"Location": f"http://x/y?{SECRET}"}),
            FetchFailed,
            "redirected to http://x/y?…: only redirects to https:// are followed",
        ),
        "to a file": (
            Answer(302, headers={"Location": "file:///etc/passwd"}),
            FetchFailed,
            "only redirects to https:// are followed",
        ),
        "to nothing": (
            Answer(302, headers={"Location": "https://["}),
            FetchFailed,
            "only redirects to https:// are followed",
        ),
        "to no port": (
            Answer(302, headers={"Location": "https://x:99999/"}),
            FetchFailed,
            "only redirects to https:// are followed",
        ),
        "to itself": (Answer(302), FetchFailed, "redirect loop"),
        "a page": (
            Answer(body=b"<!doctype html>" + bytes(2000)),
            FetchFailed,
            "not a tar archive, or a damaged one",
        ),
        "too large": (Answer(body=bytes(2**16 + 1)), SourceTooLarge, "larger than 64 KiB"),
        "endless chunks": (
            Answer(
                body=b"10000\r\n%s\r\n" % bytes(2**16) * 3,
                headers={"Transfer-Encoding": "chunked"},
                length="",
            ),
            SourceTooLarge,
            "larger than 64 KiB",
        ),
        "a bomb": (
            Answer(body=packed({"a": bytes(2**17)})),
            SourceTooLarge,
            "the files are larger than 64 KiB together",
        ),
    }.values(),
)
def test_bad_reply_is_refused(
    source: ArchiveSource,
    web_site: Site,
    answer: Answer,
    kind: type[InputError],
    expected: str,
) -> None:
    """Each with the URL and its own reason; none as an empty or smaller set."""
    web_site.answers["/web.tar.gz"] = lambda _: answer
    error = failure(replace(source, limits=TreeLimits(size=2**16)))
    assert type(error).kind == kind.kind
    assert str(error).startswith(f"{web_site.url}/web.tar.gz?…: ")
    assert expected in str(error)


def test_connection_cut_at_every_tenth_is_an_error(source: ArchiveSource, web_site: Site) -> None:
    data = packed(FILES)
    cuts = [len(data) * tenth // 10 for tenth in range(10)]
    web_site.answers["/web.tar.gz"] = lambda _: Answer(body=data, cut=cuts.pop())
    for _ in range(10):
        assert "was cut off" in str(failure(source))
    assert cuts == []


@pytest.mark.parametrize(
    ("credentials", "expected"),
    [
        (SourceCredentials(username="me", password="x:y"), "Basic bWU6eDp5"),
        (SourceCredentials(bearer_token=" token\n"), "Bearer token"),
        (SourceCredentials(), ""),
    ],
    ids=["password", "token", "none"],
)
def test_credentials_are_sent(
    source: ArchiveSource, web_site: Site, credentials: SourceCredentials, expected: str
) -> None:
    fetch_archive(replace(source, credentials=replace(credentials, ca=web_site.ca)))
    assert web_site.calls[0].headers.get("Authorization", "") == expected


def test_credentials_in_the_url_are_sent_and_never_shown(
    source: ArchiveSource, web_site: Site
) -> None:
    url = source.url.replace("https://", f"https://me:{SECRET}@")
    own = replace(source, url=url, credentials=SourceCredentials(ca=web_site.ca))
    fetch_archive(own)
    assert web_site.calls[0].headers["Authorization"].startswith("Basic ")
    assert SECRET not in repr(own)
    assert "me@" not in str(failure(replace(own, digest=f"sha256:{64 * '0'}")))


def test_token_that_no_header_can_have_is_refused(source: ArchiveSource, web_site: Site) -> None:
    odd = SourceCredentials(bearer_token=f"{SECRET}\r\nX-Other: 1", ca=web_site.ca)
    assert isinstance(failure(replace(source, credentials=odd)), AuthenticationFailed)
    assert web_site.calls == []


def test_other_schemes_are_refused(source: ArchiveSource) -> None:
    for url in ("http://x/y.tar", "file:///etc/passwd", "https://", "https://x:port/"):
        with pytest.raises(UsageError, match="an archive is at https://"):
            fetch_archive(replace(source, url=url))


def test_version_is_asked_without_reading(source: ArchiveSource, web_site: Site) -> None:
    version = check_archive(source)
    assert version == ArchiveVersion(ETAG)
    assert check_archive(source, ArchiveVersion(ETAG)) == Unchanged()
    assert web_site.calls[-1].headers["If-None-Match"] == ETAG
    assert check_archive(source, ArchiveVersion('"other"')) == version


def changed(seconds: int, *, time: str = "Sun, 09 Sep 2001 01:46:40 GMT") -> Answer:
    """Return a reply of a server whose archive was changed at a time, so many seconds ago."""
    now = formatdate(1_000_000_000 + seconds, usegmt=True)
    return Answer(headers={"Last-Modified": time, "Date": now})


@pytest.mark.parametrize(
    ("answer", "known", "expected"),
    [
        (lambda _: Answer(304), ArchiveVersion("", "Sun, 09 Sep 2001"), Unchanged()),
        (lambda _: Answer(headers={"ETag": '"a"'}), ArchiveVersion('"a"'), Unchanged()),
        (lambda _: Answer(body=b"x" * 100), ArchiveVersion('"a"'), ArchiveVersion()),
        (lambda _: Answer(headers={"ETag": "x" * 2000}), None, ArchiveVersion()),
        (lambda _: changed(61), None, ArchiveVersion("", "Sun, 09 Sep 2001 01:46:40 GMT")),
        pytest.param(
            lambda _: changed(59),
            None,
            ArchiveVersion(),
            marks=pytest.mark.holds("version-by-time"),
        ),
        (lambda _: changed(61, time="yesterday"), None, ArchiveVersion()),
    ],
    ids=[
        "by time",
        "ignored question",
        "no version",
        "long version",
        "settled time",
        "recent time",
        "invalid time",
    ],
)
def test_version_depends_on_the_server(
    source: ArchiveSource,
    web_site: Site,
    answer: Callable[[Call], Answer],
    known: ArchiveVersion | None,
    expected: ArchiveVersion | Unchanged,
) -> None:
    """A server that does not say its version leaves only the archive itself to compare."""
    web_site.answers["/web.tar.gz"] = answer
    assert check_archive(source, known) == expected


@pytest.mark.parametrize("status", [304, 401, 404])
def test_failed_check_is_no_version(source: ArchiveSource, web_site: Site, status: int) -> None:
    """Not even a 304 to a question that was not asked."""
    web_site.answers["/web.tar.gz"] = lambda _: Answer(status)
    with pytest.raises(InputError):
        check_archive(source)
