"""References on a real server: what is missing is a warning, and each lookup is cheap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from applyprune.localplane import Plane
from applyprune.model.events import WarningRaised
from applyprune.model.fate import Outcome
from applyprune.model.problem import ProblemKind
from tests.support.accounts import kubeconfig_as, rule
from tests.support.api import Api, AuditTrail, writes
from tests.support.fault_proxy import FaultProxy
from tests.support.objects import config_map, of_kind
from tests.support.stage import Stage, Story
from tests.support.waiting import eventually


def _deployment(name: str = "web", **pod: Any) -> dict[str, Any]:
    labels = {"app": name}
    spec = {"containers": [{"name": "web", "image": "web"}], **pod}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return of_kind(
        "Deployment",
        name,
        spec={"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    )


def _from(*sources: dict[str, Any]) -> dict[str, Any]:
    return {"containers": [{"name": "web", "image": "web", "envFrom": list(sources)}]}


def _secret(name: str, **more: Any) -> dict[str, Any]:
    return {"secretRef": {"name": name, **more}}


def _map(name: str) -> dict[str, Any]:
    return {"configMapRef": {"name": name}}


def _told(story: Story) -> list[str]:
    told = [one.problem for one in story.of(WarningRaised)]
    kinds = [problem for problem in told if problem.kind is ProblemKind.MISSING_REFERENCE]
    # Each is raised once, and the plan has it too.
    assert [problem for problem in story.plan.warnings if problem in kinds] == kinds
    return [problem.message for problem in kinds]


def _lookups(proxy: FaultProxy, since: int) -> list[str]:
    """Return the reads of kinds that these sets do not contain."""
    kinds = {"secrets", "serviceaccounts", "priorityclasses"}
    return sorted(
        f"{one.method} {one.path.partition('/namespaces/')[2].partition('/')[2] or one.path}"
        for one in proxy.exchanges[since:]
        if kinds & set(one.path.split("/"))
    )


WEB = _deployment(
    serviceAccountName="runner",
    priorityClassName="urgent",
    imagePullSecrets=[{"name": "registry"}],
    **_from(_secret("db"), _secret("extra", optional=True), _map("config"), _map("settings")),
)


def test_missing_references_are_warnings_and_the_apply_goes_on(
    spoiled: Stage, api: Api, proxy: FaultProxy
) -> None:
    """What is in the set, optional or in the cluster is none; each lookup is one request."""
    api.create(spoiled.path(), config_map("settings"))
    # Not for the accounts and certificates that every namespace has.
    plain = _deployment("a", serviceAccountName="default", **_from(_map("kube-root-ca.crt")))
    story = spoiled.run(WEB, plain, config_map("config"), check=True)
    nowhere = ", which is neither in the set nor in the cluster"
    here = f"in namespace {spoiled.namespace}{nowhere}"
    made = ", unless something in the set makes it when it runs"
    assert _told(story) == [
        f"deployment.apps/web refers to serviceaccount/runner {here}",
        f"deployment.apps/web refers to secret/registry {here}{made}",
        f"deployment.apps/web refers to secret/db {here}{made}",
        f"deployment.apps/web refers to priorityclass.scheduling.k8s.io/urgent{nowhere}",
    ]
    assert (story.exit_code, story.outcomes["deployment.apps/web"]) == (0, Outcome.CREATED)
    before = len(proxy.exchanges)
    assert _told(spoiled.run(WEB, plain, config_map("config"), check=True)) == []
    changed = _deployment(**_from(_secret("db"), _map("config"), _map("settings")))
    assert _told(spoiled.run(changed, plain, config_map("config"))) == []
    assert _lookups(proxy, before) == [], "it is not sent again, or not checked"
    changed = _deployment(**_from(_secret("db"), _map("config")))
    assert len(_told(spoiled.run(changed, plain, config_map("config"), check=True))) == 1
    assert _lookups(proxy, before) == ["GET secrets/db"]
    assert all(
        "PartialObjectMetadata" in one.header("Accept")
        for one in proxy.exchanges[before:]
        if one.path.endswith("/secrets/db")
    )


def test_many_references_of_a_kind_cost_one_list(spoiled: Stage, proxy: FaultProxy) -> None:
    """For each kind and namespace, however many objects refer to it."""
    webs = [
        _deployment(f"web-{number}", **_from(_secret(f"db-{number}"), _secret("shared")))
        for number in range(9)
    ]
    told = _told(spoiled.run(*webs, check=True))
    assert len(told) == 10
    assert _lookups(proxy, 0) == ["GET secrets"]


def test_account_that_may_not_read_is_not_warned(
    plane: Plane, api: Api, namespace: str, tmp_path: Path
) -> None:
    """It reads neither Secrets nor classes; that an owner exists is unknown, so that is said."""
    rights = (rule("", ["configmaps", "namespaces"], ["*"]), rule("apps", ["deployments"], ["*"]))
    writer = Stage(kubeconfig_as("writer", plane, api, namespace, tmp_path, *rights), namespace)
    owner = {"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "1-2-3"}
    child = config_map("child", ownerReferences=[owner])
    story = writer.run(WEB, config_map("config"), child, check=True)
    assert story.exit_code == 0
    unknown, told = sorted(_told(story))
    assert unknown == "configmap/child: it is not known whether its owner secret/s exists"
    assert told.startswith("deployment.apps/web refers to configmap/settings in namespace ")


def _child(uid: str, name: str = "owner") -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid}
    return config_map("child", ownerReferences=[owner])


def test_object_whose_owner_is_gone_is_not_created(
    spoiled: Stage, api: Api, audit: AuditTrail, proxy: FaultProxy
) -> None:
    """The garbage collector would delete it, and each run would create it again."""
    path = spoiled.path("owner")
    owner = api.create(spoiled.path(), config_map("owner"))["metadata"]["uid"]
    assert spoiled.run(_child(owner)).exit_code == 0
    since = len(proxy.exchanges)
    assert spoiled.run(_child(owner)).outcomes == {"configmap/child": Outcome.UNCHANGED}
    assert not [one for one in proxy.exchanges[since:] if one.path == path]
    api("DELETE", path)
    eventually(lambda: not api.exists(spoiled.path("child")), lambda: "the child is collected")
    audit.restart()
    told = spoiled.run(_child(owner)).problem("configmap/child")
    assert "no object has the UID of its owner configmap/owner" in told
    assert f"there is no configmap/owner in namespace {spoiled.namespace}" in told
    assert writes(audit) == []
    # The same name is another owner, and so is one of the same input.
    api.create(spoiled.path(), config_map("owner"))
    assert "has another UID" in spoiled.run(_child(owner)).problem("configmap/child")
    story = spoiled.run(_child(owner, "made"), config_map("made"))
    assert "gets its UID when it is created" in story.problem("configmap/child")
