"""A Bundle that keeps failing logs what fails once, and again if its message changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.objects import config_map
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.controller import Controller, Tenant


WARNED = config_map("warned")
WARNED["metadata"]["annotations"] = {"argocd.argoproj.io/sync-wave": "5"}
"""A warning says that no run follows it."""


def failures(running: Controller, tenant: Tenant) -> list[str]:
    """Return the objects that were logged as failed, in order."""
    lines = [line for line in running.lines if line["message"] == "object failed"]
    found = [line for line in lines if line["namespace"] == tenant.namespace]
    assert {line["level"] for line in found} <= {"warning"}
    return [str(line["object"]) for line in found]


def warned(running: Controller, tenant: Tenant) -> int:
    """Return how many warnings say that the Bundle was reconciled."""
    return sum(
        line["message"] == "bundle reconciled" and line["level"] == "warning"
        for line in running.lines
        if line.get("namespace") == tenant.namespace
    )


def faulty(name: str, value: object) -> dict[str, Any]:
    """Return a ConfigMap that the server refuses."""
    return {**config_map(name), "metadata": {"name": name, "labels": {"a": f"not {value} valid"}}}


def test_failed_object_is_logged_once(running: Controller, tenant: Tenant) -> None:
    """Whatever the retries; a new message is news."""
    names = [f"configmap/{name}" for name in ("a", "b")]
    tenant.bundle("web", faulty("a", 1), faulty("b", 1), config_map("c"))
    tenant.failed("web", "ApplyFailed")
    for number in range(3):
        tenant.reconciled("web", str(number))
    assert failures(running, tenant) == names
    before = warned(running, tenant)
    tenant.reconciled("web", "again")
    assert warned(running, tenant) == before
    tenant.bundle("web", faulty("a", 2), faulty("b", 1), config_map("c"))
    eventually(
        lambda: failures(running, tenant) == [*names, "configmap/a"],
        lambda: f"logged: {failures(running, tenant)}",
    )


def test_many_failed_objects_are_not_all_logged(running: Controller, tenant: Tenant) -> None:
    """The status has more of them, and the number of all."""
    tenant.bundle("web", *(faulty(f"a-{number:02}", 1) for number in range(15)))
    tenant.failed("web", "ApplyFailed")
    tenant.reconciled("web", "again")
    assert len(failures(running, tenant)) == 10
    assert tenant.get("web")["status"]["objects"]["failing"] == 15


def lines_of(running: Controller, tenant: Tenant) -> list[str]:
    """Return what the log says about a tenant from the level info up."""
    told = [one for one in running.lines if one["level"] != "debug"]
    return [str(one["message"]) for one in told if one.get("namespace") == tenant.namespace]


def test_retries_of_a_failing_bundle_log_nothing(running: Controller, tenant: Tenant) -> None:
    """Whatever fails: its objects, one of which has a warning, its account or its source."""
    tenant.bundle("web", *(faulty(f"a-{number}", 1) for number in range(10)), WARNED)
    tenant.bundle("account", config_map("b"), serviceAccountName="missing")
    tenant.bundle("source", source={"configMapRefs": [{"name": "missing"}]})
    tenant.bundle("after", config_map("c"), dependsOn=[{"name": "web"}])
    reasons = {
        "web": "ApplyFailed",
        "account": "ServiceAccountNotFound",
        "source": "SourceNotFound",
        "after": "DependencyNotReady",
    }
    for name, reason in reasons.items():
        tenant.failed(name, reason)
        tenant.reconciled(name, "once")
    before = lines_of(running, tenant)
    for number in range(3):
        for name in reasons:
            tenant.reconciled(name, str(number))
    assert lines_of(running, tenant) == before
    assert before.count("object failed") == 10
    assert before.count("warning of a run") == 1
