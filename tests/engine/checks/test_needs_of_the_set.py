"""What the server refuses only because an earlier object of the same set is not applied yet."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from applyprune.model.fate import Outcome
from tests.support.accounts import RBAC, WRITE, kubeconfig_as, rule
from tests.support.command import applyprune
from tests.support.input_files import write_input
from tests.support.objects import crd, crd_name, custom_resource
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.stage import Stage, Story

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "c"}]},
}
SERVICE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "s"},
    "spec": {"ports": [{"port": 80}]},
}


def _not_checked(story: Story) -> dict[str, str]:
    steps = story.plan.applies
    return {step.desired.ref.short: step.not_checked for step in steps if step.not_checked}


def _needs(name: str) -> str:
    return f"not checked: it needs {name}, which is about to change"


def _namespace(name: str, level: str) -> dict[str, Any]:
    labels = {"pod-security.kubernetes.io/enforce": level}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def test_pod_that_the_present_namespace_forbids_is_not_checked(stage: Stage) -> None:
    """The set loosens Pod Security; if it does not, the Pod is refused before any write."""
    inside = f"{stage.namespace}-inside"
    pod = {**POD, "metadata": {"name": "p", "namespace": inside}}
    assert stage.run(_namespace(inside, "restricted")).exit_code == 0
    refused = stage.run(_namespace(inside, "restricted"), pod, check=True, reapply_all=True)
    assert refused.exit_code == 3
    assert "violates PodSecurity" in refused.problem("pod/p")
    story = stage.run(_namespace(inside, "privileged"), pod, check=True)
    assert _not_checked(story) == {"pod/p": _needs(f"namespace/{inside}")}
    assert (story.exit_code, story.outcomes["pod/p"]) == (0, Outcome.CREATED)


def test_object_beyond_the_present_quota_is_not_checked(stage: Stage, api: Api) -> None:
    """The set raises the quota."""

    def quota(services: int) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "q"},
            "spec": {"hard": {"count/services": services}},
        }

    assert stage.run(quota(0)).exit_code == 0
    path = f"/api/v1/namespaces/{stage.namespace}/resourcequotas/q"
    eventually(lambda: api.get(path)["status"].get("used"), lambda: "the quota is counted")
    refused = stage.run(quota(0), SERVICE, check=True, reapply_all=True)
    assert (refused.exit_code, refused.outcomes) == (3, {"service/s": Outcome.FAILED})
    story = stage.run(quota(5), SERVICE, check=True)
    assert _not_checked(story) == {"service/s": _needs("resourcequota/q")}


def test_claim_that_the_present_storage_class_cannot_grow_is_not_checked(
    stage: Stage, api: Api
) -> None:
    """The set allows the expansion."""
    name = f"{stage.namespace}-class"
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "none.example.com",
    }
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "2Mi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": name,
            "hostPath": {"path": "/none"},
        },
    }

    def claim(size: str) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "c"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": name,
                "resources": {"requests": {"storage": size}},
            },
        }

    assert stage.run(storage_class, volume, claim("1Mi")).exit_code == 0
    path = f"/api/v1/namespaces/{stage.namespace}/persistentvolumeclaims/c"
    eventually(lambda: api.get(path)["status"]["phase"] == "Bound", lambda: "the claim is bound")
    refused = stage.run(storage_class, volume, claim("2Mi"), check=True)
    assert refused.exit_code == 3
    grows = {**storage_class, "allowVolumeExpansion": True}
    story = stage.run(grows, volume, claim("2Mi"), check=True)
    needed = f"storageclass.storage.k8s.io/{name}"
    assert _not_checked(story) == {"persistentvolumeclaim/c": _needs(needed)}


def test_custom_resource_moves_to_a_version_that_its_crd_gets_in_the_same_set(
    crd_stage: Stage,
) -> None:
    """It exists already; the server does not serve the new version yet."""
    old, new = crd("Moving"), crd("Moving")
    later = copy.deepcopy(new["spec"]["versions"][0])
    new["spec"]["versions"].append({**later, "name": "v2", "storage": False})
    one = custom_resource("one", "Moving")
    assert crd_stage.run(old, one).exit_code == 0
    moved = {**one, "apiVersion": one["apiVersion"].replace("/v1", "/v2")}
    story = crd_stage.run(new, moved, check=True)
    assert story.exit_code == 0, story.problem("moving.x.example.com/one")
    assert story.outcomes[crd_name("Moving")] is Outcome.UPDATED


def test_token_of_an_account_of_the_same_set_is_kept(stage: Stage, api: Api) -> None:
    """The token controller deletes a token Secret whose ServiceAccount does not exist."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    token = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "a-token",
            "annotations": {"kubernetes.io/service-account.name": "robot"},
        },
        "type": "kubernetes.io/service-account-token",
    }
    story = stage.run(token, account, check=True)
    assert (story.exit_code, set(story.outcomes.values())) == (0, {Outcome.CREATED})
    waves = {step.desired.ref.kind: step.desired.wave for step in story.plan.applies}
    assert waves["ServiceAccount"] < waves["Secret"]
    path = f"/api/v1/namespaces/{stage.namespace}/secrets/a-token"
    eventually(lambda: "token" in api.get(path).get("data", {}), lambda: "the token is there")


def _role(*resources: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "Role",
        "metadata": {"name": "reader"},
        "rules": [rule("", list(resources), ["get"])],
    }


BINDING = {
    "apiVersion": f"{RBAC}/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "app"},
    "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "reader"},
    "subjects": [{"kind": "ServiceAccount", "name": "default"}],
}


def test_binding_of_a_role_that_the_set_makes_smaller_is_not_checked(
    plane: Plane, api: Api, stage: Stage, tmp_path: Path
) -> None:
    """The account may grant what the Role will contain, but not what it contains now."""
    rules = (
        rule("", ["configmaps", "serviceaccounts"], WRITE),
        rule(RBAC, ["roles", "rolebindings"], WRITE),
        rule("", ["namespaces"], ["get"]),
    )
    config = kubeconfig_as("deployer", plane, api, stage.namespace, tmp_path, *rules)
    assert stage.run(_role("configmaps", "secrets")).exit_code == 0

    def apply(*bodies: dict[str, Any]) -> tuple[int, str]:
        path = write_input(tmp_path / "set.json", bodies)
        ended = applyprune(
            "apply", "web", "-n", stage.namespace, "-f", path, "--check", kubeconfig=config
        )
        return ended.code, ended.err

    code, err = apply(_role("configmaps", "secrets"), BINDING)
    assert code == 3
    assert "attempting to grant RBAC permissions not currently held" in err
    code, err = apply(_role("configmaps"), BINDING)
    assert code == 0, err
    assert _needs(f"role.{RBAC}/reader") in err


def test_policy_with_a_parameter_kind_of_the_same_set_is_not_checked(
    running: Plane, crds: Api, crd_stage: Stage, tmp_path: Path
) -> None:
    """As long as the server does not know the kind, it asks for the rights on all kinds."""
    home, admission = crd_stage.namespace, "admissionregistration.k8s.io"
    name = f"{home}.example.com"
    rules = (
        rule("", ["configmaps"], WRITE),
        rule("", ["namespaces"], ["get"]),
        rule("apiextensions.k8s.io", ["customresourcedefinitions"], WRITE),
        rule("apiregistration.k8s.io", ["apiservices"], ["get", "list"]),
        rule(admission, ["validatingadmissionpolicies"], WRITE),
        rule(admission, ["validatingadmissionpolicybindings"], WRITE),
        rule("x.example.com", ["limits"], WRITE),
    )
    config = kubeconfig_as("maker", running, crds, home, tmp_path, *rules)
    rights: dict[str, dict[str, Any]] = {
        "clusterroles": {"kind": "ClusterRole", "rules": list(rules)},
        "clusterrolebindings": {
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "maker"}],
        },
    }
    for plural, body in rights.items():
        named = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": name}, **body}
        assert crds("POST", f"/apis/{RBAC}/v1/{plural}", named)[0] == 201
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": home}}}
    things = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    policy = {
        "apiVersion": f"{admission}/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "paramKind": {"apiVersion": "x.example.com/v1", "kind": "Limit"},
            "matchConstraints": {**here, "resourceRules": [things]},
            "validations": [{"expression": "true"}],
        },
    }
    binding = {
        "apiVersion": f"{admission}/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            "paramRef": {"name": "l", "namespace": home, "parameterNotFoundAction": "Deny"},
            "validationActions": ["Warn"],
            "matchResources": here,
        },
    }
    path = write_input(tmp_path / "set.json", [binding, policy, crd("Limit")])
    where = ("web", "-n", home, "-f", path)
    eventually(
        lambda: crds("GET", f"/apis/{admission}/v1/validatingadmissionpolicies",
                     headers={"Impersonate-User": "maker"})[0] == 200
    )  # fmt: skip
    ended = applyprune("plan", *where, kubeconfig=config)
    assert ended.code == 0, ended.err
    told = ended.out + ended.err
    assert f"it needs {crd_name('Limit')}, which does not exist yet" in told
    needed = f"validatingadmissionpolicy.{admission}/{name}"
    assert f"it needs {needed}, which does not exist yet" in told
    crds("DELETE", f"/apis/{RBAC}/v1/clusterrolebindings/{name}")
    crds("DELETE", f"/apis/{RBAC}/v1/clusterroles/{name}")
