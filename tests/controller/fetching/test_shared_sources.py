"""Bundles that share a source, wait for it, are suspended or deleted, or outlive the controller."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.support.controller import controller
from tests.support.fights import written
from tests.support.remote_bundles import (
    CREDENTIALS,
    LOOPBACK,
    file_of,
    git_credentials,
    git_source,
    set_value,
)
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import AuditTrail
    from tests.support.controller import Tenant
    from tests.support.git_servers import HttpsSite


def test_restart_of_the_controller_changes_no_status(
    site: Plane, git: HttpsSite, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """A Bundle that is ready stays so while its source is fetched again."""
    git.repository().commit({"web/a.yaml": file_of("a")})
    tenant = new_tenant()
    git_credentials(tenant, git)
    seen = []
    for log in ("first", "second"):
        with controller(site.kubeconfig, tmp_path / log, "lease=0", *LOOPBACK):
            if log == "first":
                tenant.bundle("web", source=git_source(git, path="web"), interval="1h")
                tenant.ready("web")
            # The second one is after a look at the source, which the first one has asked for.
            for number in range(2):
                git.requests.clear()
                tenant.reconciled("web", f"{log} {number}")
                eventually(lambda: git.requests, lambda: "a look")
            assert tenant.condition("web")[0] == "True"
            seen.append(tenant.get("web")["status"]["conditions"])
    assert seen[0] == seen[1]


def test_second_bundle_of_a_known_source_is_applied_at_once(
    tenant: Tenant, git: HttpsSite, new_tenant: Callable[[], Tenant]
) -> None:
    """Also one of another tenant with the same credentials: no other look tells it anything.

    A source that is no good says so to the second one, too.
    """
    git.repository().commit({"web/a.yaml": file_of("a")})
    other = new_tenant()
    for one in (tenant, other):
        git_credentials(one, git)
        one.bundle("web", source=git_source(git, path="web", interval="1h"), interval="1h")
        assert one.ready("web")
    assert other.exists("a") == [True]
    tenant.patch("web", source={"git": {"path": "."}})
    tenant.ready("web")
    assert other.get("web")["status"]["observedGeneration"] == 1
    gone = git_source(git, path="web", interval="1h", ref={"branch": "gone"})
    for name in ("first", "second"):
        tenant.bundle(name, source=gone, interval="1h", retryInterval="1h")
        assert "no branch gone" in tenant.failed(name, "PathNotFound")


def test_tenant_whose_path_is_too_large_harms_no_other(
    tenant: Tenant, git: HttpsSite, new_tenant: Callable[[], Tenant]
) -> None:
    """They share the look: the same URL, credentials and branch."""
    large = {f"large/{number}.bin": bytes(23 * 2**20) + bytes([number]) for number in range(3)}
    repository = git.repository()
    repository.commit({"web/a.yaml": file_of("a"), **large})
    other = new_tenant()
    for one, path in ((other, "."), (tenant, "web")):
        git_credentials(one, git)
        one.bundle("web", source=git_source(git, path=path), interval="1h")
    other.failed("web", "SourceTooLarge")
    tenant.ready("web")
    second = repository.commit({"web/a.yaml": file_of("a", value="2")})
    tenant.applied("web", f"main@sha1:{second}")
    assert tenant.value("a") == "2"
    assert other.condition("web")[1] == "SourceTooLarge"


@pytest.mark.holds("checked-after-resume")
def test_resumed_bundle_applies_what_its_source_has_now(
    tenant: Tenant, git: HttpsSite, site_audit: AuditTrail
) -> None:
    """Not first what it has applied before, although the next check is not due for an hour."""
    git_credentials(tenant, git)
    repository = git.repository()
    repository.commit({"a.yaml": file_of("a")})
    tenant.bundle("web", source=git_source(git, interval="1h"), interval="1h")
    tenant.ready("web")
    tenant.patch("web", suspend=True)
    for request in ("suspended", "again"):
        tenant.reconciled("web", request)
    set_value(tenant, "a", "by hand")
    second = repository.commit({"a.yaml": file_of("a", value="2")})
    site_audit.restart()
    tenant.patch("web", suspend=False)
    tenant.applied("web", f"main@sha1:{second}")
    assert tenant.value("a") == "2"
    assert written(site_audit, tenant, "a") == 1


def test_deleted_bundle_needs_no_source(tenant: Tenant, git: HttpsSite) -> None:
    """Its objects go though its Secret and its repository are gone."""
    repository = git.repository()
    repository.commit({"web/a.yaml": file_of("a")})
    git_credentials(tenant, git)
    source = git_source(git, path="web")
    tenant.bundle("web", source=source, interval="1h", deletionPolicy="Delete")
    tenant.ready("web")
    repository.delete_branch("main")
    assert tenant.api("DELETE", tenant.path("secrets", CREDENTIALS))[0] == 200
    tenant.failed("web", "SourceNotFound")
    assert tenant.exists("a") == [True]
    tenant.delete("web")
    tenant.gone("web")
    assert tenant.exists("a") == [False]


def test_dependent_follows_without_a_retry(tenant: Tenant, git: HttpsSite) -> None:
    """What it waits for wakes it: its own retry and its interval are an hour away."""
    git_credentials(tenant, git)
    first, second = git.repository("web"), git.repository("other")
    hours = {"interval": "1h", "retryInterval": "1h"}
    for number in range(2):
        value = str(number)
        first.commit({"a/a.yaml": file_of("of-a", value=value)})
        second.commit({"b/b.yaml": file_of("of-b", value=value)})
        if not number:
            tenant.bundle("a", source=git_source(git, path="a"), **hours)
            after = [{"name": "a"}]
            tenant.bundle("b", source=git_source(git, "other", path="b"), dependsOn=after, **hours)
        for name in ("a", "b"):
            has = partial(has_value, tenant, f"of-{name}", value)
            eventually(has, partial("{} at {}".format, name, value))
            tenant.ready(name)


def has_value(tenant: Tenant, name: str, value: str) -> bool:
    """Return whether a ConfigMap exists with a value."""
    return tenant.exists(name) == [True] and tenant.value(name) == value
