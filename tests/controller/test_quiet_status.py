"""A Bundle that keeps failing for one reason writes its status once, and one Event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from itertools import combinations, count
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.values import replace
from tests.support.api import status_writes
from tests.support.objects import DEPLOYMENT, SERVICE, config_map, of_kind
from tests.support.other_run import ELSEWHERE, take_from_elsewhere
from tests.support.stage import Stage
from tests.support.waiting import eventually
from tests.support.webhook import CONFIGURATIONS, Webhook

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api, AuditTrail
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


def forbidden(tenant: Tenant) -> None:
    """Let an account write ConfigMaps only."""
    tenant.account("some", {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]})


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
    "no right": (forbidden, [A, SERVICE], {"serviceAccountName": "some"}, "ApplyFailed"),
    "no source": (None, [], {"source": {"configMapRefs": [{"name": "src"}]}}, "SourceNotFound"),
    "no YAML": (None, [], {"source": {"inline": "["}}, "InvalidSource"),
    "no account": (None, [A], {"serviceAccountName": "nobody"}, "ServiceAccountNotFound"),
    "a dependency": (None, [A], {"dependsOn": [{"name": "db"}]}, "DependencyNotReady"),
    "a refused prune": (refused_prune, [config_map("a0")], {}, "PruneRefused"),
    "an approval": (warned, [DEPLOYMENT], {"approval": "Always"}, "PendingApproval"),
}
"""What is prepared, the manifests, the spec, and the reason."""


@contextmanager
def locked(tenant: Tenant, kubeconfig: Path) -> Iterator[None]:
    """Hold the inventory lock of a Bundle's set, as a run on another machine that works on it."""
    stage = Stage(kubeconfig, tenant.namespace, "held")
    stage.run(config_map("a"))
    over = Event()

    def renew() -> None:
        for renewals in count():
            take_from_elsewhere(stage, replace(ELSEWHERE, renewals=renewals))
            if over.wait(3):
                return

    take_from_elsewhere(stage)
    thread = Thread(target=renew, daemon=True)
    thread.start()
    try:
        tenant.bundle("web", config_map("a"), inventoryName="held", **AGAIN)
        yield
    finally:
        over.set()
        thread.join()


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
    """Whatever fails, however often it is retried."""
    tenants = {case: new_tenant() for case in QUICK}
    for case, (prepare, manifests, spec, _) in QUICK.items():
        if prepare is not None:
            prepare(tenants[case])
        tenants[case].bundle("web", *manifests, **{**AGAIN, **spec})
    found = {}
    for case, (*_, reason) in QUICK.items():
        settle(running, tenants[case], reason, retries=3)
        found[case] = faults(site_audit, tenants[case])
        # It leaves the workers to the others.
        tenants[case].patch("web", suspend=True)
    assert found == {case: {} for case in tenants}


# The same rule as above, by reconciles that each last for seconds.
@pytest.mark.sweep
def test_bundle_that_is_refused_slowly_writes_its_status_once(
    running: Controller,
    site: Plane,
    site_api: Api,
    site_audit: AuditTrail,
    new_tenant: Callable[[], Tenant],
) -> None:
    """The lock is waited for, and a dead webhook is called again and again, in each reconcile."""
    denied, dead, held = (new_tenant() for _ in range(3))
    denial = {"code": 403, "message": "no"}
    webhook = CONFIGURATIONS.format(kind="validating")
    home = {"matchLabels": {"kubernetes.io/metadata.name": dead.namespace}}
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["*"],
        "resources": ["services"],
    }
    called = {
        "name": "dead.example.com",
        # Nobody listens there.
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [rule],
        "namespaceSelector": home,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": f"dead-{dead.namespace}"},
        "webhooks": [called],
    }

    def reply(request: dict[str, Any]) -> dict[str, Any] | None:
        return denial if request["kind"]["kind"] == "Service" else None

    def calls() -> bool:
        status, answer = site_api("POST", f"{dead.path('services')}?dryRun=All", SERVICE)
        return status == 500 and "dead.example.com" in answer["message"]

    assert site_api("POST", webhook, body)[0] == 201
    try:
        with (
            Webhook(site, site_api, denied.namespace, ("CREATE",), reply, resources=("*",)),
            locked(held, site.kubeconfig),
        ):
            eventually(calls, lambda: "the dead webhook is called")
            for tenant in (denied, dead):
                tenant.bundle("web", config_map("a"), SERVICE, **AGAIN)
            settle(running, denied, "ApplyFailed", retries=3)
            settle(running, dead, "ApplyFailed", retries=2)
            settle(running, held, "InventoryLocked", retries=2)
            found = [faults(site_audit, tenant) for tenant in (denied, dead, held)]
            assert found == [{}, {}, {}]
    finally:
        site_api("DELETE", f"{webhook}/dead-{dead.namespace}")
