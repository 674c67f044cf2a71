"""Sources that wait: a silent host holds up nobody else, and what is told of a source is true."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tests.support import tls_site
from tests.support.archives import packed
from tests.support.artifacts import digest_of, served_artifact
from tests.support.listening import silent_host
from tests.support.objects import config_map, text
from tests.support.processes import family, is_running, name_of
from tests.support.remote_bundles import (
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

    from tests.support.controller import Controller, Tenant
    from tests.support.git_servers import HttpsSite


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
    """Nor forty repositories in ten namespaces; nor does a long timeout. The metrics tell."""
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
    """It answers each check at once, and a fetch from it would take for ever."""

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
    """What the status says then is the commit that was there before, or its failure."""
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
    """A commit changes both: the dependent one waits, though the other is still ready."""
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
