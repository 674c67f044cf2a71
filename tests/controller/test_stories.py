"""The life of Bundles: applied, changed, pruned, broken, repaired, suspended, deleted."""

from __future__ import annotations

import base64
import json
import re
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.drifting import AFTER, BEFORE, DRIFTS, deployment, documented
from tests.support.objects import config_map, text
from tests.support.waiting import eventually
from tests.support.workloads import PLAYED, Puppets, ready, workload

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.localplane import Plane
    from tests.support.controller import Controller, Tenant
    from tests.support.plane import Kubectl

FINALIZER = "applyprune.dev/finalizer"


def secret(name: str, **values: str) -> dict[str, Any]:
    """Return the body of a Secret."""
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}


@pytest.mark.parametrize("kind", ["configMapRefs", "secretRefs"])
def test_bundle_reads_a_source_in_the_cluster(
    tenant: Tenant, running: Controller, kind: str
) -> None:
    """Applied, changed by its watch, pruned, broken, mended; no value of a Secret anywhere."""

    def store(**values: str) -> None:
        if kind == "secretRefs":
            tenant.put("secrets", secret("src", **values))
        else:
            tenant.put("configmaps", {**config_map("src"), "data": values})

    canary = "hunter2-canary"
    inside = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s"},
        "stringData": {"p": canary},
    }
    tenant.bundle("web", source={kind: [{"name": "src", "keys": ["one", "two"]}]})
    assert "src does not exist" in tenant.failed("web", "SourceNotFound")
    store(one=text(config_map("a"), inside))
    assert "has no key 'two'" in eventually(
        lambda: "two" in tenant.condition("web")[2] and tenant.condition("web")[2]
    )
    store(one=text(config_map("a"), inside), two=text(config_map("b")), other="[")
    status = tenant.ready("web")
    assert status["objects"] == {"total": 3, "failing": 0, "elsewhere": 0}
    assert status["lastChange"]["created"] == 3
    assert tenant.exists("a", "b") == [True, True]
    # The watch of the source: well before the interval of ten minutes.
    store(one=text(config_map("a", "w"), inside), two="", other="[")
    eventually(lambda: tenant.value("a") == "w")
    eventually(lambda: tenant.get("web")["status"]["objects"]["total"] == 2)
    after = tenant.ready("web")
    assert tenant.exists("a", "b") == [True, False]
    assert after["lastChange"]["removed"] == 1
    assert after["lastAppliedRevision"] != status["lastAppliedRevision"]
    # Even a key of a text in a Secret may be confidential.
    key = canary if kind == "secretRefs" else "key"
    store(one=f"{key}: 1\n{key}: 2\n", two="")
    assert "src[one]" in tenant.failed("web", "InvalidSource")
    assert tenant.condition("web", "Stalled")[0] == "True"
    assert tenant.exists("a", "s")[0]
    store(one=text(config_map("a", "x"), inside), two="")
    tenant.ready("web")
    assert tenant.value("a") == "x"
    told = str(tenant.get("web")["status"]) + str(tenant.events("web")) + running.log.read_text()
    assert canary not in told
    assert base64.b64encode(canary.encode()).decode() not in told


@pytest.mark.holds("held-before-run")
def test_bundle_lives_from_start_to_end(tenant: Tenant, running: Controller) -> None:
    """Inline: created, changed, refused, suspended, drifted, asked to look, deleted."""
    applied = 'applyprune_reconciles_total{reason="Applied"}'
    before = running.metric(applied)
    tenant.bundle("web", config_map("a"), config_map("b"), interval="2s")
    status = tenant.ready("web")
    assert status["inventory"]["name"] == "applyprune-web"
    assert tenant.get("web")["metadata"].get("finalizers") == [FINALIZER]
    assert tenant.condition("web", "PruneBlocked")[:2] == ("False", "NothingToDo")
    eventually(lambda: ("Normal", "Applied", "2 created") in tenant.events("web"))
    # The Event names the run by the ID that the inventory has.
    header = json.loads(tenant.get_map("applyprune-web")["data"]["header"])
    assert header["last"]["run"] in tenant.runs("web")
    # The metrics come after the status.
    eventually(lambda: running.metric(applied) > before)
    # What somebody changes is put back by the periodic pass.
    tenant.put("configmaps", config_map("a", "drifted"))
    eventually(lambda: tenant.condition("web")[1] == "Conflicts")
    assert "tenant" in tenant.failures("web")["configmap/a"]
    tenant.patch("web", conflicts="force")
    tenant.ready("web")
    assert tenant.value("a") == "v"
    # One object that the server would refuse stops all, and is named; nothing is pruned.
    bad = {**config_map("b"), "data": {"not a key": ""}}
    tenant.bundle("web", config_map("c"), bad, conflicts="force")
    assert "configmap/b" in tenant.failed("web", "ApplyFailed")
    assert tenant.get("web")["status"]["failing"][0]["object"] == "configmap/b"
    assert tenant.exists("a", "b", "c") == [True, True, False]
    eventually(lambda: any(one[:2] == ("Warning", "ApplyFailed") for one in tenant.events("web")))
    # So does one with a wrong field.
    wrong = {**config_map("b"), "data": {"key": 5}}
    tenant.bundle("web", config_map("c"), config_map("d"), wrong, conflicts="force")
    eventually(lambda: "data.key" in tenant.get("web")["status"]["failing"][0]["message"])
    assert tenant.exists("c", "d") == [False, False]
    # Suspended: not a finger is moved, whatever is asked.
    more = {"conflicts": "force", "prune": {"maxPrune": 2}}
    tenant.bundle("web", config_map("c", "w"), suspend=True, **more)
    eventually(lambda: tenant.condition("web", "Reconciling")[1] == "Suspended")
    tenant.annotate("web", reconcile_now="1")
    eventually(lambda: tenant.get("web")["status"].get("lastHandledReconcileAt") == "1")
    assert tenant.exists("a", "c") == [True, False]
    tenant.patch("web", suspend=False)
    tenant.ready("web")
    assert (tenant.value("c"), *tenant.exists("a", "b")) == ("w", False, False)
    tenant.delete("web")
    tenant.gone("web")
    assert tenant.exists("c", "applyprune-web") == [False, False]


def test_reconcile_can_be_requested(tenant: Tenant) -> None:
    """The annotation asks for one, each of its values once."""
    tenant.bundle("web", config_map("a"))
    tenant.ready("web")
    assert tenant.api("DELETE", tenant.path("configmaps", "a"))[0] == 200
    tenant.annotate("web", reconcile_now="2026-01-01")
    eventually(lambda: tenant.exists("a") == [True])
    eventually(lambda: tenant.get("web")["status"].get("lastHandledReconcileAt") == "2026-01-01")


def test_blocked_prune_can_be_approved(tenant: Tenant, running: Controller) -> None:
    """PruneBlocked shows the digest; the annotation lets exactly that prune go ahead."""
    names = [f"a{number}" for number in range(8)]
    refused = running.metric("applyprune_refused_prunes_total")
    tenant.bundle("web", *map(config_map, names))
    tenant.ready("web")
    tenant.bundle("web", config_map("a0", "new"))
    tenant.failed("web", "PruneRefused")
    assert tenant.value("a0") == "new"
    assert all(tenant.exists(*names))
    blocked = tenant.condition("web", "PruneBlocked")
    pending = tenant.get("web")["status"]["pendingPlan"]
    assert blocked[:2] == ("True", "PruneRefused")
    assert f"applyprune.dev/approve={pending['digest']}" in blocked[2]
    assert (pending["scope"], pending["counts"]) == ("Deletions", {"prune": 7})
    last = {"fate": "prune", "object": "configmap/a7", "namespace": tenant.namespace}
    assert pending["objects"][-1] == last
    eventually(lambda: running.metric("applyprune_refused_prunes_total") > refused)
    # The approval of another prune approves nothing.
    tenant.annotate("web", approve="sha256:" + "0" * 64, reconcile_now="x")
    eventually(lambda: tenant.get("web")["status"].get("lastHandledReconcileAt") == "x")
    long = "x" * 200_000
    tenant.annotate("web", reconcile_now=long)
    marked = f"sha256:{sha256(long.encode()).hexdigest()}"
    eventually(lambda: tenant.get("web")["status"].get("lastHandledReconcileAt") == marked)
    assert all(tenant.exists(*names))
    tenant.annotate("web", approve=pending["digest"])
    status = tenant.ready("web")
    assert tenant.exists(*names) == [True] + [False] * 7
    assert "pendingPlan" not in status
    assert tenant.condition("web", "PruneBlocked")[0] == "False"


def test_refused_prune_of_a_small_set_does_not_hold_up_the_apply(tenant: Tenant) -> None:
    """The wrong source: its objects are applied, no object goes, and PruneBlocked says why."""
    tenant.bundle("web", *map(config_map, "abc"))
    tenant.ready("web")
    tenant.bundle("web", config_map("wrong"))
    tenant.failed("web", "PruneRefused")
    message = tenant.condition("web", "PruneBlocked")[2]
    assert "the input has no object in common with the inventory" in message
    assert "3 deletions are more than half of the set's 3 live objects" in message
    assert tenant.exists("wrong", *"abc") == [True] * 4
    assert tenant.condition("web", "PruneBlocked")[:2] == ("True", "PruneRefused")
    assert tenant.get("web")["status"]["pendingPlan"]["counts"] == {"prune": 3}
    # The right source again, with a hotfix: the object of the wrong one is pruned.
    tenant.bundle("web", config_map("a", "fixed"), config_map("b"), config_map("c"))
    tenant.ready("web")
    assert (tenant.value("a"), tenant.exists("wrong")) == ("fixed", [False])
    assert tenant.condition("web", "PruneBlocked")[0] == "False"
    # More than half of it, as often as the spec says so.
    tenant.bundle("web", config_map("a"), prune={"maxPrune": "70%"})
    tenant.ready("web")
    assert tenant.exists(*"abc") == [True, False, False]


def test_bundle_waits_for_its_dependencies(tenant: Tenant) -> None:
    """They wait for the Ready condition, or for what the expression says, and are woken by it."""
    tenant.bundle("app", config_map("app"), dependsOn=[{"name": "db"}], retryInterval="10m")
    assert "db does not exist" in tenant.failed("app", "DependencyNotReady")
    rule = "self.status.objects.total == 2"
    after = [{"name": "db", "readyWhen": rule}]
    tenant.bundle("late", config_map("late"), dependsOn=after, retryInterval="10m")
    tenant.failed("late", "DependencyNotReady")
    tenant.bundle("db", config_map("db"))
    tenant.ready("app")
    assert tenant.exists("app", "late") == [True, False]
    tenant.bundle("db", config_map("db"), config_map("more"))
    tenant.ready("late")


def test_circular_dependencies_are_reported(tenant: Tenant) -> None:
    """Neither will ever be ready, and both say why."""
    tenant.bundle("a", config_map("a"), dependsOn=[{"name": "b"}])
    tenant.bundle("b", config_map("b"), dependsOn=[{"name": "c"}])
    tenant.bundle("c", config_map("c"), dependsOn=[{"name": "a"}])
    eventually(lambda: "a → b → c → a" in tenant.condition("a")[2])
    tenant.bundle("c", config_map("c"), dependsOn=[])
    tenant.ready("a")


def test_change_ends_a_hopeless_wait(tenant: Tenant) -> None:
    """What was mended does not wait until the broken thing has had its time."""
    container = {"name": "c", "image": "c"}
    labels = {"matchLabels": {"a": "b"}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    never = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "never"},
        # No node exists.
        "spec": {"selector": labels, "template": template},
    }
    tenant.bundle("web", config_map("a"), never, wait=True, timeout="1h")
    eventually(lambda: tenant.exists("a") == [True])
    eventually(lambda: tenant.condition("web")[1] == "Progressing", lambda: "the wait")
    tenant.bundle("web", config_map("a", "mended"), wait=True, timeout="1h")
    tenant.ready("web")
    assert tenant.value("a") == "mended"
    tenant.bundle("web", config_map("a"), never, wait=True, timeout="2s")
    assert "deployment.apps/never" in tenant.failed("web", "NotReady")
    tenant.delete("web")
    tenant.gone("web")


def test_renamed_deployment_is_pruned_when_the_new_one_is_ready(
    tenant: Tenant, running: Controller
) -> None:
    """Without ``wait``: not ready in time, by name; other Bundles go on; then pruned."""
    puppets = Puppets(tenant.api, tenant.namespace)
    old, new = (tenant.path("deployments", name, "apps/v1") for name in ("old", "new"))
    quick = {"timeout": "2s", "retryInterval": "1s"}
    tenant.bundle("web", workload("Deployment", "old"), **quick)
    tenant.ready("web")
    before = tenant.api.get(old)["metadata"]["uid"]
    tenant.bundle("web", workload("Deployment", "new"), **quick)
    assert "deployment.apps/new" in tenant.failed("web", "NotReady")
    tenant.bundle("other", config_map("a"))
    tenant.ready("other")
    assert tenant.api.get(old)["metadata"]["uid"] == before
    assert tenant.condition("web", "PruneBlocked")[0] == "False"
    puppets.pods_of("new", ready())
    status = tenant.ready("web")
    assert status["objects"] == {"total": 1, "failing": 0, "elsewhere": 0}
    assert not tenant.api.exists(old)
    assert tenant.api.exists(new)
    assert running.process.poll() is None


def test_bundle_names_the_exit_code_of_a_failed_job(tenant: Tenant, running: Controller) -> None:
    """In its status, as a wait, status and explain do."""
    puppets = Puppets(tenant.api, tenant.namespace)
    ended = {"name": "main", "image": "a", "imageID": "", "ready": False, "restartCount": 0}
    ended["state"] = {"terminated": {"exitCode": 3, "containerID": "containerd://1"}}
    job = workload("Job", "once", pods=PLAYED, spec={"backoffLimit": 0})
    tenant.bundle("web", job, wait=True, timeout="1h")
    puppets.pods_of("once", {"phase": "Failed", "containerStatuses": [ended]})
    assert "job.batch/once" in tenant.failed("web", "NotReady")
    (told,), (pod,) = tenant.failures("web").values(), puppets.told
    assert "the Job has failed: BackoffLimitExceeded: " in told
    assert f"; pod/{pod}: container main exited with code 3" in told
    tenant.delete("web")
    tenant.gone("web")


POLICIES: dict[str, tuple[bool, bool]] = {
    "Delete": (False, True),
    "WaitForTermination": (False, False),
    "Orphan": (True, True),
}


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_deletion_policies_are_followed(tenant: Tenant, policy: str) -> None:
    """An object that somebody's finalizer holds keeps a Bundle only where that is asked for."""
    stays, let_go = POLICIES[policy]
    held = config_map("held", finalizers=["example.com/slow"])
    tenant.bundle(
        "web", config_map("a"), held, deletionPolicy=policy, timeout="2s", retryInterval="1s"
    )
    tenant.ready("web")
    tenant.delete("web")
    if not let_go:
        eventually(lambda: tenant.condition("web")[1] == "RemovalFailed")
        assert "example.com/slow" in tenant.condition("web")[2]
        tenant.strip("held")
    tenant.gone("web")
    assert tenant.exists("a") == [stays]
    if stays:
        tenant.strip("held")
        metadata = tenant.api.get(tenant.path("configmaps", "a"))["metadata"]
        assert "labels" not in metadata
        assert not any("applyprune/" in one["manager"] for one in metadata.get("managedFields", ()))
        assert tenant.exists("applyprune-web") == [False]
    elif let_go:
        # It is deleted, but still listed: nothing was lost.
        assert tenant.exists("held", "applyprune-web") == [True, True]
        assert any(one[1] == "RemovalIncomplete" for one in tenant.events("web"))
        tenant.strip("held")


def test_bundle_without_its_account_does_nothing(tenant: Tenant) -> None:
    """Neither an apply nor a removal: the finalizer stays, and the condition says why."""
    tenant.bundle("web", config_map("a"), serviceAccountName="deployer")
    assert "deployer does not exist" in tenant.failed("web", "ServiceAccountNotFound")
    assert tenant.exists("a") == [False]
    tenant.account("deployer")
    tenant.ready("web")
    assert tenant.api("DELETE", tenant.path("serviceaccounts", "deployer"))[0] == 200
    tenant.delete("web")
    tenant.failed("web", "ServiceAccountNotFound")
    assert tenant.get("web")["metadata"]["finalizers"] == [FINALIZER]
    assert tenant.exists("a") == [True]
    tenant.account("deployer")
    tenant.gone("web")
    assert tenant.exists("a") == [False]


def test_bundle_acts_as_its_account(tenant: Tenant, new_tenant: Callable[[], Tenant]) -> None:
    """What the account may not do is not done, in another tenant's namespace above all."""
    other = new_tenant()
    there = config_map("stolen", namespace=other.namespace)
    tenant.bundle("web", config_map("a"), there)
    tenant.failed("web", "ApplyFailed")
    message = tenant.failures("web")["configmap/stolen"]
    assert "patch" in message or "get" in message
    assert (tenant.exists("a"), other.exists("stolen")) == ([False], [False])


def test_invalid_spec_that_passes_the_crd_is_reported(tenant: Tenant) -> None:
    """The controller reports it, and continues when it is repaired."""
    wrong = [{"name": "db", "readyWhen": "self.("}]
    tenant.bundle("web", config_map("a"), dependsOn=wrong)
    assert "self.(" in tenant.failed("web", "InvalidSpec")
    assert tenant.condition("web", "Stalled")[0] == "True"
    tenant.bundle("web", config_map("a"), dependsOn=[])
    tenant.ready("web")


REFUSED: dict[str, dict[str, Any]] = {
    "no source": {"source": {}},
    "two sources": {"source": {"inline": "", "secretRefs": [{"name": "a"}]}},
    "an interval of nothing": {"interval": "0s"},
    "no interval": {"interval": "soon"},
    "a maxPrune": {"prune": {"maxPrune": "101%"}},
    "itself": {"dependsOn": [{"name": "web"}]},
    "a policy": {"deletionPolicy": "Keep"},
    "an account elsewhere": {"serviceAccountName": "a/b"},
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_server_rejects_invalid_bundles(tenant: Tenant, name: str) -> None:
    """What the CRD can validate never gets as far as the controller."""
    with pytest.raises(AssertionError, match="Invalid"):
        tenant.bundle("web", config_map("a"), **REFUSED[name])


def test_inventory_name_cannot_be_changed(tenant: Tenant) -> None:
    """The old set would be left behind; an invalid name is refused too."""
    tenant.bundle("web", config_map("a"), inventoryName="one", suspend=True)
    for other in ({"inventoryName": "two"}, {}):
        with pytest.raises(AssertionError, match="inventoryName"):
            tenant.bundle("web", config_map("a"), suspend=True, **other)
    with pytest.raises(AssertionError, match="DNS label"):
        tenant.bundle("web.example", config_map("a"), suspend=True)
    # Naming its current name is not a change, and is consent to take over a set.
    tenant.bundle("same", config_map("a"), suspend=True)
    tenant.bundle("same", config_map("a"), suspend=True, inventoryName="same")


def test_bundle_may_take_the_fields_of_others(tenant: Tenant) -> None:
    """Only if it says so."""
    status, reply = tenant.api(
        "PATCH",
        tenant.path("configmaps", "a") + "?fieldManager=argo",
        config_map("a", "theirs"),
        content_type="application/apply-patch+yaml",
    )
    assert status == 201, reply
    tenant.bundle("web", config_map("a", "ours"))
    tenant.failed("web", "Conflicts")
    told = tenant.failures("web")["configmap/a"]
    assert re.search(r"owned by argo \(Apply, \d{4}-.+Z\)", told), told
    assert tenant.value("a") == "theirs"
    tenant.patch("web", conflicts="force")
    tenant.ready("web")
    assert tenant.value("a") == "ours"
    expected = ("Applied", "1 updated")
    eventually(lambda: expected in {one[1:] for one in tenant.events("web")})


def test_ignored_fields_are_left_to_others(tenant: Tenant) -> None:
    """Sent at creation only."""
    rules = [{"kind": "ConfigMap", "fields": ["/data/key"]}]
    tenant.bundle("web", config_map("a"), ignoreFields=rules)
    tenant.ready("web")
    tenant.put("configmaps", config_map("a", "theirs"))
    tenant.annotate("web", reconcile_now="1")
    eventually(lambda: tenant.get("web")["status"].get("lastHandledReconcileAt") == "1")
    tenant.ready("web")
    assert tenant.value("a") == "theirs"


def _has_handled(tenant: Tenant, request: str) -> bool:
    return bool(tenant.get("web")["status"].get("lastHandledReconcileAt") == request)


def test_bundle_reports_drift_as_the_guide_says(
    running: Controller, site: Plane, new_tenant: Callable[[], Tenant], kubectl: Kubectl
) -> None:
    """At its next reconcile, and at the one after that: the refused apply hides nothing."""
    assert running.process.poll() is None
    tenants = {row: new_tenant() for row in DRIFTS}
    for tenant in tenants.values():
        tenant.bundle("web", deployment(), retryInterval="1h")
    for row, tenant in tenants.items():
        tenant.ready("web")
        _, change = DRIFTS[row]
        change(partial(kubectl, plane=site), tenant.api, tenant.namespace)
    for number, when in enumerate((BEFORE, AFTER), 1):
        for tenant in tenants.values():
            tenant.annotate("web", reconcile_now=str(number))
        for row, tenant in tenants.items():
            eventually(partial(_has_handled, tenant, str(number)))
            reason = documented(row, when)["Bundle"]
            status = "True" if reason == "Applied" else "False"
            assert tenant.condition("web")[:2] == (status, reason)
            live = tenant.api.get(tenant.path("deployments", "web", "apps/v1"))
            assert live["spec"]["replicas"] == (3 if reason == "Applied" else 1)


def test_bundle_of_a_rendered_chart_runs_no_hooks(tenant: Tenant, running: Controller) -> None:
    """An install hook needs ``helmHooks``; a delete hook is left out in any case."""
    hooks = [
        config_map(name, annotations={"helm.sh/hook": event})
        for name, event in (("install", "post-install"), ("delete", "pre-delete"))
    ]
    tenant.bundle("web", config_map("a"), *hooks)
    assert "configmap/install is an install or upgrade hook" in tenant.failed(
        "web", "InvalidSource"
    )
    assert tenant.condition("web", "Stalled")[0] == "True"
    assert tenant.exists("a", "install", "delete") == [False, False, False]
    tenant.patch("web", helmHooks="skip")
    tenant.ready("web")
    assert tenant.exists("a", "install", "delete") == [True, False, False]
    warnings = [line["warning"] for line in running.lines if "warning" in line]
    assert "2 chart hooks are left out: configmap/install (post-install)" in warnings[-1]
    tenant.patch("web", helmHooks="apply")
    tenant.ready("web")
    assert tenant.exists("a", "install", "delete") == [True, True, False]
    # Applied before, and left out again: it stays.
    tenant.patch("web", helmHooks="skip")
    tenant.ready("web")
    assert tenant.exists("a", "install", "delete") == [True, True, False]


EMPTY: dict[str, Any] = {"source": {"inline": ""}}
REFUSED_BY_THE_SERVER: dict[str, tuple[dict[str, Any], str]] = {
    "a timeout": ({**EMPTY, "timeout": "9000h"}, "it must be between 1s and 720h"),
    "an interval": (
        {**EMPTY, "interval": "500ms"},
        "it must be between 1s and 720h",
    ),
    "the interval of a source": (
        {"source": {"git": {"url": "https://git.example.com/a", "interval": "721h"}}},
        "it must be between 1s and 720h",
    ),
    "a URL as of scp": (
        {"source": {"git": {"url": "git@git.example.com:org/repo.git"}}},
        "it must be written as ssh://git@git.example.com/org/repo.git",
    ),
    "a URL of Git with a query": (
        {"source": {"git": {"url": "https://git.example.com/a?b"}}},
        "it must be https://HOST/PATH or ssh://USER@HOST/PATH, without a password",
    ),
    "an artifact without a scheme": (
        {"source": {"oci": {"url": "ghcr.io/org/app"}}},
        "it must be oci://HOST/NAME, without a tag: that is in ref",
    ),
}


def test_server_says_in_words_what_it_refuses(tenant: Tenant) -> None:
    """Not by a regular expression, and before the controller has to."""
    for case, (spec, why) in REFUSED_BY_THE_SERVER.items():
        metadata = {"name": "web", "namespace": tenant.namespace}
        body = {"apiVersion": "applyprune.dev/v1alpha1", "kind": "Bundle", "metadata": metadata}
        status, reply = tenant.api("POST", tenant.bundle_path(), {**body, "spec": spec})
        assert status == 422, (case, reply)
        assert why in reply["message"], case
        assert "should match" not in reply["message"], case


@pytest.mark.parametrize("approval", ["Automatic", "Prune"])
def test_immutable_secret_is_recreated_for_a_new_value(
    tenant: Tenant, running: Controller, approval: str
) -> None:
    """No digest shows it: it is no drift, it is said why nothing is recreated, and no value is."""

    def store(value: str) -> None:
        fixed = {**secret("fixed", password=value), "immutable": True}
        tenant.put("configmaps", {**config_map("src"), "data": {"one": text(fixed)}})

    def value() -> str:
        data = tenant.api.get(tenant.path("secrets", "fixed"))["data"]
        return base64.b64decode(data["password"]).decode()

    def uid() -> str:
        live = tenant.api.find(tenant.path("secrets", "fixed"))
        return live["metadata"]["uid"] if live else ""

    store("canary-one")
    tenant.bundle("web", source={"configMapRefs": [{"name": "src"}]}, approval=approval)
    revision = tenant.ready("web")["lastAppliedRevision"]
    first = uid()
    store("canary-two")
    tenant.failed("web", "ApplyFailed")
    why = tenant.failures("web")["secret/fixed"]
    assert "data.password: *** (before) → *** (after) cannot be changed in place" in why
    assert "It is not recreated, because nothing allows that. To allow it: recreate: true" in why
    assert "--" not in why
    assert (value(), uid()) == ("canary-one", first)
    tenant.patch("web", recreate=True)
    if approval == "Prune":
        plan = eventually(lambda: tenant.get("web")["status"].get("pendingPlan"))
        assert plan["counts"] == {"recreate": 1}
        assert value() == "canary-one"
        tenant.annotate("web", approve=plan["digest"])
    eventually(lambda: uid() not in {"", first}, lambda: "the second Secret")
    status = tenant.ready("web")
    assert value() == "canary-two"
    assert status["lastAppliedRevision"] == revision
    assert tenant.condition("web", "Drifted")[:2] == ("False", "NoDrift")
    told = f"{status} {tenant.events('web')} {tenant.get_map('applyprune-web')}"
    assert "canary" not in f"{told} {running.log.read_text()}"


def test_job_that_is_gone_is_created_again_by_a_request(
    tenant: Tenant, running: Controller
) -> None:
    """Not by itself, and not by a change of the source: it may have finished."""
    job = workload("Job", "once", spec={"ttlSecondsAfterFinished": 0, "suspend": True})
    path = tenant.path("jobs", "once", "batch/v1")
    tenant.bundle("web", job, wait=False)
    tenant.ready("web")
    assert tenant.api("DELETE", f"{path}?propagationPolicy=Background")[0] == 200
    eventually(lambda: not tenant.api.exists(path), lambda: "the end of the Job")
    revision = tenant.get("web")["status"]["lastAppliedRevision"]
    tenant.bundle("web", job, config_map("a"), wait=False)
    eventually(lambda: tenant.get("web")["status"]["lastAppliedRevision"] != revision)
    assert (tenant.exists("a"), tenant.api.exists(path)) == ([True], False)
    tenant.reconciled("web", "again")
    assert tenant.api.exists(path)
