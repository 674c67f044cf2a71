"""Bundles that follow an archive: changed, gone, back, and none but the one with a digest."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from tests.support.archives import packed
from tests.support.remote_bundles import archive_source, file_of, secret, stays
from tests.support.tls_site import Answer, Call, Site, files_of, site
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.controller import Tenant


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Site]:
    """A site with the files of a folder."""
    with site(files_of(tmp_path)) as one:
        yield one


def publish(folder: Path, *names: str, value: str = "1") -> str:
    """Write the archive, and return its digest."""
    data = packed({"web/a.yaml": file_of(*names, value=value).encode(), "notes.txt": b"none"})
    (folder / "web.tar.gz").write_bytes(data)
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def test_bundle_follows_an_archive(tenant: Tenant, web: Site, tmp_path: Path) -> None:
    """Changed, gone, and back; what left it is pruned, and its absence prunes nothing."""
    first = publish(tmp_path, "a", "b")
    tenant.bundle("web", source=archive_source(tenant, web, path="web"), interval="1h")
    tenant.applied("web", first)
    second = publish(tmp_path, "a")
    tenant.applied("web", second)
    assert tenant.exists("a", "b") == [True, False]
    (tmp_path / "web.tar.gz").unlink()
    message = tenant.failed("web", "FetchFailed")
    assert "404" in message
    assert second in message
    stays(tenant, "a")
    third = publish(tmp_path, "a", value="3")
    tenant.applied("web", third)
    assert tenant.value("a") == "3"


def test_unchanged_archive_is_not_read_again(tenant: Tenant, web: Site, tmp_path: Path) -> None:
    """The server is asked by its ETag, and no Bundle is reconciled."""
    publish(tmp_path, "a")
    tenant.bundle("web", source=archive_source(tenant, web), interval="1h")
    before = tenant.ready("web")
    web.calls.clear()
    eventually(lambda: len(web.calls) >= 2, lambda: "two looks")
    assert all("If-None-Match" in call.headers for call in web.calls)
    assert tenant.get("web")["status"] == before


def test_only_the_archive_with_the_digest_is_applied(
    tenant: Tenant, web: Site, tmp_path: Path
) -> None:
    """Another one is refused from the beginning, and later; the one before stays."""
    first = publish(tmp_path, "a")
    wrong = archive_source(tenant, web, digest=f"sha256:{'0' * 64}")
    tenant.bundle("web", source=wrong, interval="1h")
    assert "another digest" in tenant.failed("web", "VerificationFailed")
    assert tenant.exists("a") == [False]
    tenant.bundle("web", source=archive_source(tenant, web, digest=first), interval="1h")
    tenant.ready("web")
    publish(tmp_path, "b")
    tenant.failed("web", "VerificationFailed")
    assert tenant.exists("b") == [False]
    stays(tenant, "a")


def test_password_and_query_are_shown_nowhere(tenant: Tenant, web: Site, tmp_path: Path) -> None:
    """They are in the Secret and the URL, and the server gets both."""
    publish(tmp_path, "a")
    answer = files_of(tmp_path)
    web.answers["/web.tar.gz"] = lambda call: answer(call) if may(call) else Answer(401)
    source = archive_source(tenant, web, url=f"{web.url}/web.tar.gz?sig=hunter3")
    tenant.bundle("web", source=source, interval="1h")
    message = tenant.failed("web", "AuthenticationFailed")
    assert "hunter" not in message
    secret(tenant, "login", {"username": "me", "password": "hunter2"})
    source = archive_source(
        tenant, web, url=f"{web.url}/web.tar.gz?sig=hunter3", secretRef={"name": "login"}
    )
    tenant.bundle("web", source=source, interval="1h")
    tenant.ready("web")


def may(call: Call) -> bool:
    """Return whether a request has the password and the signature."""
    return "sig=hunter3" in call.path and call.headers.get("Authorization", "").startswith("Basic")
