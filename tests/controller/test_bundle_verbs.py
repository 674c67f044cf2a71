"""``applyprune bundle``: each verb beside a running controller, as a process and in Python."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from applyprune import Bundle, connect
from applyprune.errors import RunFailed
from tests.support.command import Ended, applyprune
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.objects import config_map
from tests.support.output.schemas import complaints
from tests.support.pseudo_terminal import ANSWER, on_terminal
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.controller import Tenant


@pytest.fixture
def verb(site: Plane, tenant: Tenant) -> Callable[..., Ended]:
    """Call a verb about a Bundle of the tenant."""

    def call(name: str, *arguments: str, kubeconfig: Path | None = None) -> Ended:
        where = ("-n", tenant.namespace)
        config = kubeconfig or site.kubeconfig
        return applyprune("bundle", name, *arguments, *where, kubeconfig=config)

    return call


@pytest.fixture
def web(site: Plane, tenant: Tenant) -> Iterator[Bundle]:
    """The Bundle ``web`` of the tenant, in Python."""
    with connect(kubeconfig=site.kubeconfig, namespace=tenant.namespace) as cluster:
        yield Bundle("web", cluster=cluster)


def test_suspended_bundle_is_left_alone_until_it_is_resumed(
    tenant: Tenant, verb: Callable[..., Ended], web: Bundle
) -> None:
    """A later apply of the Bundle does not stumble over either; one that is missing is an error."""
    missing = verb("suspend", "nobody")
    assert (missing.code, missing.out) == (2, "")
    assert f"there is no Bundle nobody in namespace {tenant.namespace}" in missing.err
    assert "kubectl get bundles -A" in missing.err
    tenant.bundle("web", config_map("a", "one"))
    tenant.ready("web")
    first = verb("suspend", "web")
    assert first.out == f"bundle.applyprune.dev/web -n {tenant.namespace} updated (suspended)\n"
    assert verb("suspend", "web", "-o", "name").out == "bundle.applyprune.dev/web\n"
    assert tenant.get("web")["spec"]["suspend"] is True
    tenant.bundle("web", config_map("a", "two"))
    eventually(
        lambda: tenant.condition("web", "Reconciling")[1] == "Suspended", lambda: "it is seen"
    )
    assert tenant.value("a") == "one"
    refused = verb("reconcile", "web", "--wait")
    assert refused.code == 2
    assert "the Bundle web is suspended" in refused.err
    again = json.loads(verb("resume", "web", "-o", "json").out)
    assert complaints("document", again) == []
    assert [one["outcome"] for one in again["objects"]] == ["updated"]
    eventually(lambda: tenant.value("a") == "two", lambda: "the new source")
    # By server-side apply without force of the same manifest, with and without the field.
    spec = tenant.get("web")["spec"]
    body = {"apiVersion": "applyprune.dev/v1alpha1", "kind": "Bundle", "metadata": {"name": "web"}}
    mine = {"source": spec["source"], "retryInterval": spec["retryInterval"]}
    for fields in ({}, {"suspend": False}):
        given = {**body, "spec": {**mine, **fields}}
        tenant.api.apply(tenant.bundle_path("web"), given, by="tenant")
        assert (web.suspend(), web.suspend(), web.resume(), web.resume()) == (
            *(True, False), *(True, False),
        )  # fmt: skip


def test_reconcile_waits_for_the_controller(tenant: Tenant, verb: Callable[..., Ended]) -> None:
    """It is done, and all is ready; or it says why not, with the exit code of `apply`."""
    tenant.bundle("web", config_map("a"))
    tenant.ready("web")
    tenant.api("DELETE", tenant.path("configmaps", "a"))
    asked = verb("reconcile", "web", "--wait", "-o", "jsonl")
    assert asked.code == 0, asked
    events = [json.loads(line) for line in asked.out.splitlines()]
    assert [found for one in events for found in complaints("events", one)] == []
    assert [one["event"] for one in events if one["event"] != "waiting"] == [
        "output",
        "object",
        "readiness",
        "finished",
    ]
    assert tenant.exists("a") == [True]
    found = tenant.get("web")
    stamp = found["metadata"]["annotations"]["applyprune.dev/reconcile-now"]
    assert found["status"]["lastHandledReconcileAt"] == stamp
    at_once = verb("reconcile", "web")
    assert (at_once.code, "updated (a reconcile was requested)" in at_once.out) == (0, True)


@pytest.mark.holds("approve-shown-digest")
def test_approval_is_for_exactly_what_was_shown(
    site: Plane, tenant: Tenant, verb: Callable[..., Ended]
) -> None:
    """On a terminal after a question; in a script by the digest that was reviewed."""
    tenant.bundle("web", config_map("a"), config_map("b"), approval="Prune")
    tenant.ready("web")
    nothing = verb("approve", "web", "--yes")
    assert nothing.code == 2
    assert "nothing of the Bundle web waits for an approval" in nothing.err
    tenant.bundle("web", config_map("a"), approval="Prune")
    tenant.failed("web", "PendingApproval")
    digest = tenant.get("web")["status"]["pendingPlan"]["digest"]
    script = verb("approve", "web")
    assert script.code == 2
    assert f"Add the digest of the plan: {digest}" in script.err
    other = verb("approve", "web", f"sha256:{'0' * 64}")
    assert other.code == 8
    assert f"the digest of its pending plan is {digest}" in other.err
    assert verb("approve", "web", "sha256:1").code == 2
    arguments = ("bundle", "approve", "web", "-n", tenant.namespace)
    with on_terminal(*arguments, kubeconfig=site.kubeconfig) as terminal:
        asked = terminal.read_until(ANSWER)
        assert "configmap/b: prune" in asked
        assert digest in asked
        assert f"approve it: applyprune bundle approve web -n {tenant.namespace}" in asked
        terminal.type("n\n")
        assert terminal.ended() == 1
    assert "annotations" not in tenant.get("web")["metadata"]
    assert tenant.exists("b") == [True]
    with on_terminal(*arguments, kubeconfig=site.kubeconfig) as terminal:
        terminal.read_until(ANSWER)
        # Another plan comes while the user reads: it is not approved.
        tenant.bundle("web", config_map("c"), approval="Prune", prune={"maxPrune": "100%"})
        eventually(
            lambda: tenant.get("web")["status"].get("pendingPlan", {}).get("digest") != digest,
            lambda: "another plan",
        )
        terminal.type("y\n")
        assert terminal.ended() == 8
        assert "waits for the approval of another plan" in terminal.shown
    assert tenant.exists("a", "b") == [True, True]
    assert verb("approve", "web", "--yes").code == 0
    tenant.ready("web")
    assert tenant.exists("a", "b", "c") == [False, False, True]


@pytest.mark.holds("verb-is-stored")
def test_verb_whose_patch_is_not_stored_fails(site: Plane, tenant: Tenant, tmp_path: Path) -> None:
    """A gateway in a read-only mode answers with the reply of a dry run."""
    tenant.bundle("web", config_map("a"))
    tenant.ready("web")
    with FaultProxy(site) as proxy:
        config = proxy.kubeconfig(tmp_path)
        with connect(kubeconfig=config, namespace=tenant.namespace) as cluster:
            web = Bundle("web", cluster=cluster)
            proxy.rule = always(faults.dry_run(), where=lambda seen: seen.method == "PATCH")
            for call in (web.suspend, web.reconcile):
                with pytest.raises(RunFailed, match="it was not written"):
                    call()
            assert not web.status().suspended
            lacks = faults.without_metadata("resourceVersion")
            proxy.rule = always(lacks, where=lambda seen: seen.method == "PATCH")
            assert web.suspend()
            assert web.status().suspended
