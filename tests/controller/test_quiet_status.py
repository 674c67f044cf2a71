"""A Bundle that keeps failing for one reason says it once: in its status, an Event, the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from tests.support.api import status_writes
from tests.support.objects import DEPLOYMENT, SERVICE, config_map, of_kind
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.api import AuditTrail
    from tests.support.controller import Controller, Tenant

AGAIN: dict[str, Any] = {"retryInterval": "1s", "interval": "1s"}
SHORT = 60


def conflict(tenant: Tenant) -> None:
    """Let another manager own a field, since a time that grows."""
    tenant.put("configmaps", config_map("a", "theirs"))


def quota(tenant: Tenant) -> None:
    """Let no Service be created."""
    tenant.put("resourcequotas", of_kind("ResourceQuota", "none", spec={"hard": NO_SERVICE}))
    path = tenant.path("resourcequotas", "none")
    eventually(lambda: "used" in tenant.api.get(path)["status"], lambda: "the quota is counted")


def refused_prune(tenant: Tenant) -> None:
    """Apply what no limit lets go."""
    tenant.bundle("web", *(config_map(f"a{number}") for number in range(8)), **AGAIN)
    tenant.ready("web")


def warned(tenant: Tenant) -> None:
    """Let the server warn in each dry run."""
    labels = {"pod-security.kubernetes.io/warn": "restricted"}
    path = f"/api/v1/namespaces/{tenant.namespace}"
    tenant.api.patch(path, {"metadata": {"labels": labels}})


NO_SERVICE = {"count/services": "0"}
A = config_map("a")
Prepare = Callable[["Tenant"], None]
QUICK: dict[str, tuple[Prepare | None, Sequence[dict[str, Any]], dict[str, Any], str]] = {
    "no change": (None, [A], {}, "Applied"),
    "a conflict": (conflict, [A, config_map("b")], {}, "Conflicts"),
    "a quota": (quota, [A, SERVICE], {}, "ApplyFailed"),
    "no node for its Pods": (None, [DEPLOYMENT], {"wait": True, "timeout": "3s"}, "NotReady"),
    "no source": (None, [], {"source": {"configMapRefs": [{"name": "src"}]}}, "SourceNotFound"),
    "a refused prune": (refused_prune, [config_map("a0")], {}, "PruneRefused"),
    "an approval": (warned, [DEPLOYMENT], {"approval": "Always"}, "PendingApproval"),
}
"""What is prepared, the manifests, the spec, and the reason."""


def settle(running: Controller, tenant: Tenant, reason: str, *, retries: int) -> None:
    """Wait until a Bundle has a state for a reason, and was retried that often since."""
    eventually(
        lambda: running.reconciles(tenant).count(reason) > retries,
        lambda: f"{reason}: {tenant.get('web').get('status')}",
    )
    assert tenant.condition("web")[1] == reason


def faults(audit: AuditTrail, tenant: Tenant) -> dict[str, object]:
    """Return what a Bundle has written too often, and the messages that it has twice."""
    generations = tenant.get("web")["metadata"]["generation"]
    found: dict[str, object] = {}
    # Each generation is said to be applied, perhaps to wait, and then its result.
    waits = "wait" in tenant.get("web")["spec"]
    if (statuses := status_writes(audit, tenant.namespace)) > (3 if waits else 2) * generations:
        found["statuses"] = statuses
    events = [
        (event["reason"], event["count"], event["message"])
        for event in tenant.api.get(tenant.path("events"))["items"]
        if event["involvedObject"]["kind"] == "Bundle"
    ]
    often = Counter(reason for reason, _, _ in events)
    if any(number > generations for number in often.values()) or any(one[1] > 1 for one in events):
        found["events"] = events
    status = tenant.get("web")["status"]
    messages = [one["message"] for one in (*status["conditions"], *status.get("failing", ()))]
    long = [message for message in messages if len(message) > SHORT]
    if any(one in other or other in one for one, other in combinations(long, 2)):
        found["messages"] = messages
    if any(len(message) > SHORT for message in messages[1:3]):
        found["long"] = messages[1:3]
    return found


def test_failing_bundle_writes_its_status_once(
    running: Controller, site_audit: AuditTrail, new_tenant: Callable[[], Tenant]
) -> None:
    """Whatever fails, however often it is retried.

    Slow: each of seven Bundles is tried three times, with growing pauses.
    """
    tenants = {case: new_tenant() for case in QUICK}
    for case, (prepare, manifests, spec, _) in QUICK.items():
        if prepare is not None:
            prepare(tenants[case])
        tenants[case].bundle("web", *manifests, **{**AGAIN, **spec})
    found = {}
    for case, (*_, reason) in QUICK.items():
        settle(running, tenants[case], reason, retries=2)
        found[case] = faults(site_audit, tenants[case])
        # It leaves the workers to the others.
        tenants[case].patch("web", suspend=True)
    assert found == {case: {} for case in tenants}


def faulty(name: str, value: object) -> dict[str, Any]:
    """Return a ConfigMap that the server refuses."""
    return {**config_map(name), "metadata": {"name": name, "labels": {"a": f"not {value} valid"}}}


def lines_of(running: Controller, tenant: Tenant) -> list[str]:
    """Return what the log says about a tenant from the level info up."""
    told = [one for one in running.lines if one["level"] != "debug"]
    return [str(one["message"]) for one in told if one.get("namespace") == tenant.namespace]


def failures(running: Controller, tenant: Tenant) -> list[str]:
    """Return the objects that were logged as failed, in order."""
    lines = [line for line in running.lines if line["message"] == "object failed"]
    found = [line for line in lines if line["namespace"] == tenant.namespace]
    assert {line["level"] for line in found} <= {"warning"}
    return [str(line["object"]) for line in found]


def test_retries_of_a_failing_bundle_log_nothing(running: Controller, tenant: Tenant) -> None:
    """Whatever fails: its objects, its account or its source. A new message is news.

    The first ten objects that fail are logged; the status has their number.
    """
    annotated = {"argocd.argoproj.io/sync-wave": "5"}  # it is warned about
    names = [f"a-{number:02}" for number in range(15)]
    objects = [*(faulty(name, 1) for name in names), config_map("warned", annotations=annotated)]
    tenant.bundle("web", *objects)
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
    for number in range(2):
        for name in reasons:
            tenant.reconciled(name, str(number))
    assert lines_of(running, tenant) == before
    assert before.count("warning of a run") == 1
    logged = [f"configmap/{name}" for name in names[:10]]
    assert failures(running, tenant) == logged
    assert tenant.get("web")["status"]["objects"]["failing"] == 15
    tenant.bundle("web", faulty(names[0], 2), *objects[1:])
    again = [*logged, logged[0]]
    eventually(lambda: failures(running, tenant) == again, lambda: f"{failures(running, tenant)}")
