"""Sources that Bundles share or wait for: a silent host holds up nobody, and the status is true."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.support import tls_site
from tests.support.archives import packed
from tests.support.artifacts import digest_of, served_artifact
from tests.support.controller import controller
from tests.support.fights import written
from tests.support.listening import silent_host
from tests.support.objects import config_map, text
from tests.support.processes import family, is_running, name_of
from tests.support.remote_bundles import (
    CREDENTIALS,
    LOOPBACK,
    file_of,
    git_credentials,
    git_source,
    open_registry_source,
    set_value,
    stays,
)
from tests.support.waiting import HANG, eventually
from tests.support.workloads import Puppets, ready, workload

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import AuditTrail
    from tests.support.controller import Controller, Tenant
    from tests.support.git_servers import HttpsSite


def test_restart_of_the_controller_changes_no_status(
    site: Plane, git: HttpsSite, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """A Bundle that is ready stays so while its source is fetched again.

    Slow: two controllers are started, one after the other.
    """
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

    Slow: a source is checked each second.
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
    """They share the look: the same URL, credentials and branch.

    Slow: a repository of 69 MiB is fetched.
    """
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
    """What it waits for wakes it: its own retry and its interval are an hour away.

    Slow: a source is checked each second.
    """
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


def served(tenant: Tenant, git: HttpsSite) -> None:
    """Apply a repository of a tenant, and then a second commit to it."""
    repository = git.repository("victim")
    git_credentials(tenant, git)
    for value in ("0", "1"):
        commit = repository.commit({"a.yaml": file_of("a", value=value)})
        tenant.bundle("web", source=git_source(git, "victim"), interval="1h")
        tenant.applied("web", f"main@sha1:{commit}")


def test_silent_host_holds_up_no_other_tenant(
    running: Controller, new_tenant: Callable[[], Tenant], git: HttpsSite
) -> None:
    """Nor forty repositories in ten namespaces; nor does a long timeout. The metrics tell.

    Slow: a silent host has its whole patience.
    """
    with silent_host() as silent:
        for _ in range(10):
            other = new_tenant()
            for number in range(4):
                url = f"https://127.0.0.1:{silent.port}/r{number}.git"
                given = {"url": url, "interval": "1s", "timeout": "10m"}
                other.bundle(f"r{number}", source={"git": given})
        eventually(lambda: silent.held >= 4, lambda: f"{silent.held} connections")
        served(new_tenant(), git)
        assert silent.held > 0
        labels = f'{{bundle="r0",namespace="{other.namespace}"}}'
        assert running.metric(f"applyprune_source_age_seconds{labels}") > 0
        assert running.metric(f"applyprune_source_interval_seconds{labels}") == 1
        assert running.ask("/healthz")[0] == 200


def test_server_that_drips_holds_up_no_other_tenant(
    running: Controller, new_tenant: Callable[[], Tenant], git: HttpsSite
) -> None:
    """It answers each check at once, and a fetch from it would take for ever.

    Slow: a server that drips has its whole patience.
    """

    def drip(call: tls_site.Call) -> tls_site.Answer:
        if call.method == "HEAD":
            return tls_site.Answer(200, headers={"Docker-Content-Digest": digest_of(b"")})
        return tls_site.Answer(200, bytes(2 << 20), pause=1.0)

    with tls_site.site(drip) as web:
        for _ in range(2):
            other = new_tenant()
            for number in range(3):
                url = f"oci://{web.host}/{other.namespace}/{number}"
                source = open_registry_source(other, web, url=url, timeout="10m")
                other.bundle(f"b{number}", source=source)
        # Each is checked, and then at least one is fetched: none of the checks reads so much.
        eventually(lambda: len(web.calls) > 6, lambda: f"{len(web.calls)} requests")
        assert running.process.poll() is None
        served(new_tenant(), git)


def test_host_that_goes_away_changes_nothing(running: Controller, tenant: Tenant) -> None:
    """Drift is still reverted; what is new there when it is back is applied."""
    with tls_site.site(lambda _: tls_site.Answer(404)) as web:
        web.answers |= served_artifact("shop/web", packed({"a.yaml": file_of("a").encode()}))
        tenant.bundle("web", source=open_registry_source(tenant, web), interval="1h")
        tenant.ready("web")
        web.kill()
        failed = f'"namespace": "{tenant.namespace}", "error"'
        eventually(lambda: failed in running.log.read_text(), lambda: "a check that has failed")
        stays(tenant, "a")
        web.answers |= served_artifact("shop/web", packed({"a.yaml": file_of("b").encode()}))
        web.restart()
        eventually(lambda: tenant.exists("a", "b") == [False, True], lambda: "the new artifact")


@pytest.mark.holds("unfollowed-fetch")
def test_fetch_of_a_deleted_bundle_ends_at_once(
    running: Controller, tenant: Tenant, git: HttpsSite
) -> None:
    """Its process dies, long before the time of the fetch is over; others go on."""
    git.repository("slow").commit({"a.yaml": file_of("a")})
    git_credentials(tenant, git)
    # The first two replies are those of the check.
    git.hold, git.hold_at = threading.Event(), 3
    tenant.bundle("slow", source=git_source(git, "slow", timeout="10m"), interval="1h")
    assert git.held.wait(HANG)
    (worker,) = eventually(lambda: asking(running, git), lambda: "a fetch")
    tenant.delete("slow")
    tenant.gone("slow")
    eventually(lambda: not is_running(worker), lambda: "the end of the fetch")


def asking(running: Controller, git: HttpsSite) -> list[int]:
    """Return the workers of which a git asks this server."""
    return [
        worker
        for worker in running.workers()
        if any(git.base in name_of(one) for one in family(worker))
    ]


@pytest.mark.holds("handled-by-a-check")
def test_reconcile_now_is_handled_by_a_check_that_began_after_it(
    tenant: Tenant, git: HttpsSite
) -> None:
    """What the status says then is the commit that was there before, or its failure.

    Slow: each of five requests is a check and a fetch.
    """
    repository = git.repository()
    git_credentials(tenant, git)
    first = repository.commit({"a.yaml": file_of("a", value="0")})
    source = git_source(git, interval="1h")
    tenant.bundle("web", source=source, interval="1h")
    tenant.applied("web", f"main@sha1:{first}")

    def handled(request: str) -> str:
        tenant.annotate("web", reconcile_now=request)
        status = eventually(
            lambda: (
                found
                if (found := tenant.get("web")["status"]).get("lastHandledReconcileAt") == request
                else None
            ),
            lambda: f"{request} handled",
        )
        condition = next(one for one in status["conditions"] if one["type"] == "Ready")
        return f"{condition['status']} {condition['reason']} {status.get('lastAppliedRevision')}"

    for number in range(2):
        commit = repository.commit({"a.yaml": file_of("a", value=f"of {number}")})
        assert handled(f"commit {number}") == f"True Applied main@sha1:{commit}"
    repository.commit({"a.yaml": "a: [1"})
    assert handled("broken") == f"False InvalidSource main@sha1:{commit}"
    commit = repository.commit({"a.yaml": file_of("a", value="good")})
    assert handled("mended") == f"True Applied main@sha1:{commit}"
    git.login = "me:changed"
    assert handled("refused") == f"False AuthenticationFailed main@sha1:{commit}"


@pytest.mark.holds("dependency-of-a-commit")
def test_dependency_is_ready_when_it_has_applied_the_commit(tenant: Tenant, git: HttpsSite) -> None:
    """A commit changes both: the dependent one waits, though the other is still ready.

    Slow: a source is checked each second, and here three times.
    """
    repository = git.repository()
    git_credentials(tenant, git)
    roll = workload("Deployment", "roll")
    first = repository.commit(
        {"db/a.yaml": text(config_map("db", "1")), "web/a.yaml": file_of("web", value="1")}
    )
    db, web = (git_source(git, path=path) for path in ("db", "web"))
    tenant.bundle("db", source=db, interval="1h", timeout="1h")
    tenant.bundle("web", source=web, interval="1h", dependsOn=[{"name": "db"}])
    tenant.applied("web", f"main@sha1:{first}")
    second = repository.commit(
        {"db/a.yaml": text(config_map("db", "2"), roll), "web/a.yaml": file_of("web", value="2")}
    )
    eventually(lambda: tenant.value("db") == "2", lambda: "the commit of the dependency")
    eventually(
        lambda: tenant.condition("web")[1] == "DependencyNotReady",
        lambda: f"{tenant.condition('web')}",
    )
    assert tenant.value("web") == "1"
    Puppets(tenant.api, tenant.namespace).pods_of("roll", ready())
    tenant.applied("web", f"main@sha1:{second}")
    # A commit that the dependency does not have anything of needs no wait for it.
    third = repository.commit({"web/a.yaml": file_of("web", value="3")})
    tenant.applied("web", f"main@sha1:{third}")
    assert tenant.get("db")["status"]["source"]["revision"] == f"main@sha1:{second}"


def test_forged_source_in_the_status_changes_nothing(
    tenant: Tenant, new_tenant: Callable[[], Tenant], git: HttpsSite
) -> None:
    """Neither another tenant's content, nor one that is found in a time to come."""
    victim = new_tenant()
    git_credentials(victim, git)
    git.repository("vault").commit({"a.yaml": file_of("vault")})
    victim.bundle("web", source=git_source(git, "vault"), interval="1h")
    victim.ready("web")
    commit = git.repository().commit({"a.yaml": file_of("a")})
    git_credentials(tenant, git)
    tenant.bundle("web", source=git_source(git), interval="1h")
    tenant.applied("web", f"main@sha1:{commit}")
    live = tenant.get("web")
    own, far = live["status"]["source"], "9999-12-31T23:59:59Z"
    theirs = {**victim.get("web")["status"]["source"], "generation": own["generation"]}
    for forged in (theirs, {**theirs, "checkedAt": far}, {**own, "content": "x", "checkedAt": far}):
        status = {"status": {"replica": "another-1", "source": forged}}
        path, kind = f"{tenant.bundle_path('web')}/status", "application/merge-patch+json"
        assert tenant.api("PATCH", path, status, content_type=kind)[0] == 200
        set_value(tenant, "a", "changed")
        eventually(lambda: tenant.value("a") == "1", lambda: "the drift is reverted")
        eventually(
            lambda: tenant.get("web")["status"]["source"]["content"] == own["content"],
            lambda: "what was found is told again",
        )
    assert tenant.exists("vault") == [False]


@pytest.mark.holds("older-check")
def test_older_check_replaces_no_newer_one(tenant: Tenant, git: HttpsSite) -> None:
    """Another replica has seen another content later: this one checks again before it applies."""
    repository = git.repository()
    git_credentials(tenant, git)
    first = repository.commit({"a.yaml": file_of("a", value="1")})
    tenant.bundle("web", source=git_source(git, interval="1h"), interval="1h")
    tenant.applied("web", f"main@sha1:{first}")
    live = tenant.get("web")
    newer = {**live["status"]["source"], "content": "other"}
    status = {"status": {**live["status"], "replica": "another-1", "source": newer}}
    path = f"{tenant.bundle_path('web')}/status"
    git.hold, git.hold_at, git.replies = threading.Event(), 1, 0
    git.held.clear()
    kind = "application/merge-patch+json"
    assert tenant.api("PATCH", path, status, content_type=kind)[0] == 200
    set_value(tenant, "a", "theirs")
    eventually(git.held.is_set, lambda: "another check")
    assert tenant.value("a") == "theirs"
    git.hold.set()
    eventually(lambda: tenant.value("a") == "1", lambda: "the drift is reverted")
    own = live["status"]["source"]["content"]
    found = eventually(
        lambda: one if (one := tenant.get("web")["status"]["source"])["content"] == own else None
    )
    assert found["checkedAt"] > newer["checkedAt"]
