"""``deploy/``: applied by kubectl and by ``applyprune install``, and what it gives and asks."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from applyprune import __version__
from applyprune.cli.controller import installation
from applyprune.cli.main import cli
from applyprune.errors import UsageError
from applyprune.sources import read
from tests.support.command import Ended, applyprune
from tests.support.controller import CONTROLLER, SYSTEM_NAMESPACE, Tenant, controller
from tests.support.objects import config_map
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from applyprune.localplane import Plane
    from applyprune.model.problem import Manifest
    from tests.support.api import Api
    from tests.support.controller import Controller
    from tests.support.plane import Kubectl

DEPLOY = Path(__file__).parents[2] / "deploy"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{SYSTEM_NAMESPACE}/deployments/{CONTROLLER}"
BUNDLES = "bundles.applyprune.dev"
CRD = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{BUNDLES}"


def manifests(text: str) -> tuple[Manifest, ...]:
    """Return the objects of a text."""
    return tuple(read(("-",), stdin=BytesIO(text.encode())))


def chosen(**choices: Any) -> tuple[Manifest, ...]:
    """Return what an installation consists of."""
    return manifests(installation(DEPLOY, **choices))


def bodies(found: Iterable[Manifest]) -> list[str]:
    """Return manifests so that they can be compared whatever their order."""
    return sorted(json.dumps(one.body, sort_keys=True) for one in found)


def container(found: Iterable[Manifest]) -> dict[str, Any]:
    """Return the controller's container."""
    (body,) = [one.body for one in found if one.gvk.kind == "Deployment"]
    (only,) = body["spec"]["template"]["spec"]["containers"]
    return dict(only)


def install(plane: Plane, *arguments: str) -> Ended:
    """Run ``applyprune install``; it must go well."""
    reply = applyprune("install", *arguments, kubeconfig=plane.kubeconfig)
    assert reply.code == 0, reply
    return reply


def remove(plane: Plane, *options: str) -> Ended:
    """Delete the set that an installation is."""
    arguments = ("delete", "applyprune", "-n", SYSTEM_NAMESPACE, "--yes", *options)
    reply = applyprune(*arguments, kubeconfig=plane.kubeconfig)
    assert reply.code == 0, reply
    return reply


def well(running: Controller, path: str) -> bool:
    """Return whether a controller says at a path that it is well."""
    return running.ask(path)[0] == 200


def test_printed_manifests_are_the_folder(kubectl: Kubectl, ground: Plane) -> None:
    """All of it, as kubectl's kustomize has it; with this version's image, and without a server."""
    folder = manifests(kubectl("kustomize", DEPLOY, plane=ground))
    reply = applyprune("install", "--print", kubeconfig="/nowhere")
    assert (reply.code, reply.err) == (0, "")
    assert bodies(manifests(reply.out)) == bodies(folder)
    assert container(folder)["image"] == f"applyprune:{__version__}"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="it takes a device that is always full")
def test_unprintable_options_are_an_error() -> None:
    """Half a manifest must not pass for one."""
    command = [sys.executable, "-m", "applyprune", "install", "--print"]
    with Path("/dev/full").open("w") as full:
        reply = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert reply.returncode == 3
    assert "standard output is not complete" in reply.stderr


def test_namespace_and_image_can_be_chosen() -> None:
    """The namespace wherever it is named; one of the user's own keeps its labels."""
    image = "registry.example.com:5000/tools/applyprune@sha256:" + "0" * 64
    found = chosen(namespace="tools", image=image)
    assert container(found)["image"] == image
    assert SYSTEM_NAMESPACE not in str(bodies(found))
    kinds = sorted(one.gvk.kind for one in found)
    assert "Namespace" not in kinds
    assert sorted(["Namespace", *kinds]) == sorted(one.gvk.kind for one in chosen())


CRD_ROLE = f"{CONTROLLER}-crd"


def test_bundle_namespaces_can_be_chosen() -> None:
    """The controller looks after no others, and has no rights in others."""
    found = chosen(watched_namespaces=["shop", "blog"])
    arguments = container(chosen())["args"]
    assert container(found)["args"] == [*arguments, "--watch-namespaces=shop,blog"]
    everywhere = [one.name for one in found if one.gvk.kind == "ClusterRoleBinding"]
    assert everywhere == [f"{CONTROLLER}-crd"]
    bound = [(one.namespace, one.body) for one in found if one.gvk.kind == "RoleBinding"]
    assert [namespace for namespace, _ in bound] == ["shop", "blog", SYSTEM_NAMESPACE]
    assert [body["roleRef"]["kind"] for _, body in bound] == ["ClusterRole", "ClusterRole", "Role"]
    before, role = (
        next(one.body["rules"] for one in each if one.name == CRD_ROLE and "rules" in one.body)
        for each in (chosen(), found)
    )
    home = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}
    assert role == [*before, {**home, "resourceNames": ["kube-system"]}]


def test_invalid_image_is_refused() -> None:
    """A text goes into YAML only when it is a name."""
    with pytest.raises(UsageError, match="invalid image name"):
        installation(DEPLOY, image="a b")
    with pytest.raises(UsageError, match="empty value for --image"):
        cli.main(["install", "--print", "--image", ""], standalone_mode=False)


@pytest.mark.parametrize("verb", ["install --print", "controller"])
@pytest.mark.parametrize("wrong", ["", ",", "shop,", "a.b", "shop blog"])
def test_invalid_namespaces_are_refused(verb: str, wrong: str) -> None:
    """Least of all does an empty list, an unset variable perhaps, mean all of them."""
    arguments = [*verb.split(), "--watch-namespaces", wrong]
    with pytest.raises((click.BadParameter, UsageError), match="namespace"):
        cli.main(arguments, standalone_mode=False)


def test_install_takes_over_from_kubectl(ground: Plane, ground_api: Api, kubectl: Kubectl) -> None:
    """The set takes over what kubectl has applied, changes it when told, and goes when told."""
    install(ground)
    removed = remove(ground, "--prune-adopted")
    assert f"deployment.apps/{CONTROLLER} deleted" in removed.out
    assert not ground_api.exists(DEPLOYMENT)
    # It would cascade-delete every Bundle.
    assert ground_api.exists(CRD)
    assert ground_api.exists(f"/api/v1/namespaces/{SYSTEM_NAMESPACE}")
    kubectl("apply", "-k", DEPLOY, plane=ground)
    kubectl(
        "wait",
        "--for=condition=Available",
        f"deployment/{CONTROLLER}",
        "-n",
        SYSTEM_NAMESPACE,
        plane=ground,
    )
    before = ground_api.get(DEPLOYMENT)
    assert before["status"]["readyReplicas"] == 2
    assert f"deployment.apps/{CONTROLLER} ready" in install(ground, "--wait").out
    after = ground_api.get(DEPLOYMENT)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert set(install(ground, "--show-unchanged").lines.values()) == {"unchanged"}
    # Another version is the same command: looked at first, then carried out.
    look = install(ground, "--image", "applyprune:2", "--dry-run")
    assert f"deployment.apps/{CONTROLLER} configured (server dry run)" in look.out
    assert ground_api.get(DEPLOYMENT)["metadata"]["generation"] == after["metadata"]["generation"]
    install(ground, "--image", "applyprune:2")
    template = ground_api.get(DEPLOYMENT)["spec"]["template"]["spec"]
    assert template["containers"][0]["image"] == "applyprune:2"
    # What kubectl had made was adopted: it stays, unless the user says otherwise.
    assert "orphaned" in remove(ground).lines[f"deployment.apps/{CONTROLLER}"]
    assert ground_api.exists(DEPLOYMENT)
    install(ground)
    remove(ground, "--prune-adopted")
    assert not ground_api.exists(DEPLOYMENT)


def test_all_manifests_select_the_same_pods() -> None:
    """What selects Pods selects the controller's, and what names a port names one that it has."""
    found = {one.gvk.kind: one.body["spec"] for one in chosen() if "spec" in one.body}
    wanted = found["Deployment"]["selector"]
    labels = found["Deployment"]["template"]["metadata"]["labels"]
    assert wanted["matchLabels"] == labels == found["Service"]["selector"]
    assert wanted == found["PodDisruptionBudget"]["selector"]
    assert wanted == found["NetworkPolicy"]["podSelector"]
    spread = found["Deployment"]["template"]["spec"]["topologySpreadConstraints"]
    assert {one["topologyKey"] for one in spread} == {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    }
    for one in spread:
        assert one["labelSelector"] == wanted
        # One node, or one zone, must be enough to run it.
        assert one["whenUnsatisfiable"] == "ScheduleAnyway"
    ports = [one["name"] for one in container(chosen())["ports"]]
    assert ports == [one["targetPort"] for one in found["Service"]["ports"]]
    assert ports == [one["port"] for one in found["NetworkPolicy"]["ingress"][0]["ports"]]
    budget = found["PodDisruptionBudget"]
    assert found["Deployment"]["replicas"] > budget["maxUnavailable"] >= 1
    assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_pods_meet_the_namespaces_pod_security(ground: Plane, ground_api: Api) -> None:
    """They ask no more than the level ``restricted`` allows, and write nowhere but in /tmp."""
    install(ground)
    namespace = ground_api.get(f"/api/v1/namespaces/{SYSTEM_NAMESPACE}")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    spec = ground_api.get(DEPLOYMENT)["spec"]["template"]["spec"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}}
    parts = {key: spec[key] for key in ("containers", "volumes", "securityContext")}
    path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods?dryRun=All"
    status, reply = ground_api("POST", path, {**pod, "spec": parts})
    assert status == 201, reply
    for one in ("runAsNonRoot", "runAsUser"):
        assert spec["securityContext"].get(one)
    (only,) = spec["containers"]
    assert only["securityContext"]["readOnlyRootFilesystem"] is True
    assert [one["mountPath"] for one in only["volumeMounts"]] == ["/tmp"]
    assert only["resources"].keys() == {"requests", "limits"}
    assert spec["terminationGracePeriodSeconds"] > 25
    # The same without them is refused: the level is in force.
    del parts["securityContext"]
    assert ground_api("POST", path, {**pod, "spec": parts})[0] == 403


def test_bundle_works_with_exactly_these_permissions(
    ground: Plane, as_itself: Path, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """Applied, changed, pruned, refused, approved, orphaned and deleted; nobody lacks a right."""
    tenant = new_tenant()
    only = container(chosen())
    assert only["args"][0] == "controller"
    with controller(as_itself, tmp_path / "log", *only["args"][1:]) as running:
        for probe in ("livenessProbe", "readinessProbe"):
            path = str(only[probe]["httpGet"]["path"])
            eventually(partial(well, running, path), partial(str, path))
        parts = [config_map(f"part-{number}") for number in range(8)]
        tenant.bundle("web", config_map("a"), *parts)
        tenant.ready("web")
        tenant.bundle("web", config_map("a", "w"), *parts[1:])
        eventually(lambda: tenant.exists("part-0") == [False], lambda: "the prune")
        assert tenant.value("a") == "w"
        tenant.bundle("web", config_map("a", "w"))
        tenant.failed("web", "PruneRefused")
        pending = tenant.get("web")["status"]["pendingPlan"]
        assert pending["counts"] == {"prune": 7}
        tenant.annotate("web", approve=pending["digest"])
        tenant.ready("web")
        assert tenant.exists("part-1", "a") == [False, True]
        tenant.put(
            "configmaps", {**config_map("src"), "data": {"one": json.dumps(config_map("b"))}}
        )
        tenant.bundle("two", source={"configMapRefs": [{"name": "src"}]}, deletionPolicy="Orphan")
        tenant.ready("two")
        for name in ("web", "two"):
            tenant.delete(name)
            tenant.gone(name)
        assert tenant.exists("a", "b") == [False, True]
        assert ("Normal", "Applied", "9 created") in tenant.events("web")
        assert f"{SYSTEM_NAMESPACE}:{CONTROLLER}" not in running.log.read_text()
        assert running.stop() == 0


def test_controller_can_be_limited_to_namespaces(
    ground: Plane, as_itself: Path, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """The controller has its rights there, and nowhere else."""
    tenant, other = new_tenant(), new_tenant()
    only = ("--watch-namespaces", tenant.namespace)
    changed = install(ground, *only)
    assert f"clusterrolebinding.rbac.authorization.k8s.io/{CONTROLLER} pruned" in changed.out
    with controller(as_itself, tmp_path / "log", *only) as running:
        tenant.bundle("web", config_map("a"))
        tenant.ready("web")
        # It knows the name of its own cluster.
        tenant.bundle("eu", config_map("a"), kubeConfig={"secretRef": {"name": "eu"}})
        tenant.failed("eu", "KubeConfigNotFound")
        for name in ("web", "eu"):
            tenant.delete(name)
            tenant.gone(name)
        assert tenant.exists("a") == [False]
        assert f"{SYSTEM_NAMESPACE}:{CONTROLLER}" not in running.log.read_text()
    elsewhere = ("--no-lease", "--watch-namespaces", other.namespace)
    with controller(as_itself, tmp_path / "other", *elsewhere) as running:
        assert running.process.wait(HANG) == 7
    assert 'cannot list resource "bundles"' in (tmp_path / "other").read_text()
    assert (
        f"clusterrolebinding.rbac.authorization.k8s.io/{CONTROLLER} created" in install(ground).out
    )


def test_editor_of_a_namespace_can_use_bundles(ground: Plane, kubectl: Kubectl) -> None:
    """Who may run Pods as its accounts already; and a viewer may not even look."""
    install(ground)

    def may(role: str, verb: str) -> bool:
        who = f"system:serviceaccount:default:{role}"
        asked = ("auth", "can-i", verb, BUNDLES, "-n", "default", f"--as={who}")
        try:
            return kubectl(*asked, plane=ground).strip() == "yes"
        except AssertionError:
            return False

    for role in ("edit", "view"):
        account = f"--serviceaccount=default:{role}"
        binding = ("create", "rolebinding", role, f"--clusterrole={role}", account)
        kubectl(*binding, "-n", "default", plane=ground)
    eventually(lambda: may("edit", "create"), lambda: "the aggregated role")
    assert [may("view", verb) for verb in ("create", "get")] == [False, False]


@pytest.mark.parametrize("name", ["kustomization.yaml", "README.md"])
def test_every_file_is_used(name: str) -> None:
    """A file that nothing names would be applied by nobody, or explained nowhere."""
    text = (DEPLOY / name).read_text(encoding="utf-8")
    files = {path.name for path in DEPLOY.glob("*.yaml")} - {"kustomization.yaml"}
    assert {one for one in files if one not in text} == set()
