"""``deploy/``: applied by kubectl and by ``applyprune install``, and what it gives and asks."""

from __future__ import annotations

import json
import re
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
from applyprune.controller.process import ControllerSettings
from applyprune.controller.worker import MIB, WorkerLimits
from applyprune.errors import UsageError
from applyprune.planning.marks import FINALIZER
from applyprune.sources import read
from tests.support.command import Ended, applyprune
from tests.support.controller import CONTROLLER, SYSTEM_NAMESPACE, Tenant, controller
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.objects import config_map
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from applyprune.localplane import Plane
    from applyprune.model.problem import Manifest
    from tests.support.api import Api
    from tests.support.controller import Controller
    from tests.support.fault_proxy.exchange import Exchange
    from tests.support.plane import Kubectl

DEPLOY = Path(__file__).parents[2] / "deploy"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{SYSTEM_NAMESPACE}/deployments/{CONTROLLER}"
BUNDLES = "bundles.applyprune.dev"
CRD = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{BUNDLES}"


BUNDLE_OBJECTS = "/apis/applyprune.dev/v1alpha1/bundles"


@pytest.fixture
def unneeded(ground_api: Api) -> None:
    """No Bundle that another test has left needs the controller."""
    kind = "application/merge-patch+json"

    def is_clear() -> bool:
        code, found = ground_api("GET", BUNDLE_OBJECTS)
        for one in found["items"] if code == 200 else ():
            place = one["metadata"]
            path = BUNDLE_OBJECTS.replace("/bundles", f"/namespaces/{place['namespace']}/bundles")
            bare = {"metadata": {"finalizers": None}}
            ground_api("PATCH", f"{path}/{place['name']}", bare, content_type=kind)
            ground_api("DELETE", f"{path}/{place['name']}")
        return code != 200 or not found["items"]

    eventually(is_clear, lambda: "no Bundle")


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


PRINT = ("install", "--dry-run=client", "-o", "yaml")


def test_printed_manifests_are_the_folder(kubectl: Kubectl, ground: Plane) -> None:
    """All of it, as kubectl's kustomize has it; with this version's image, and without a server."""
    folder = manifests(kubectl("kustomize", DEPLOY, plane=ground))
    reply = applyprune(*PRINT, kubeconfig="/nowhere")
    assert (reply.code, reply.err) == (0, "")
    assert bodies(manifests(reply.out)) == bodies(folder)
    assert container(folder)["image"] == f"applyprune:{__version__}"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="it takes a device that is always full")
def test_unprintable_options_are_an_error() -> None:
    """Half a manifest must not pass for one."""
    command = [sys.executable, "-m", "applyprune", *PRINT]
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
        cli.main([*PRINT, "--image", ""], standalone_mode=False)


@pytest.mark.parametrize("verb", [" ".join(PRINT), "controller"])
@pytest.mark.parametrize("wrong", ["", ",", "shop,", "a.b", "shop blog"])
def test_invalid_namespaces_are_refused(verb: str, wrong: str) -> None:
    """Least of all does an empty list, an unset variable perhaps, mean all of them."""
    arguments = [*verb.split(), "--watch-namespaces", wrong]
    with pytest.raises((click.BadParameter, UsageError), match="namespace"):
        cli.main(arguments, standalone_mode=False)


@pytest.mark.usefixtures("unneeded")
def test_install_takes_over_from_kubectl(ground: Plane, ground_api: Api, kubectl: Kubectl) -> None:
    """The set takes over what kubectl has applied, changes it when told, and goes when told.

    Slow: each of its commands is a process.
    """
    install(ground)
    removed = remove(ground, "--prune-also=adopted")
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
    assert after["spec"] == before["spec"]
    assert set(install(ground, "-v").lines.values()) == {"unchanged"}
    # Another version is the same command: looked at first, then carried out.
    look = install(ground, "--image", "applyprune:2", "--dry-run")
    assert f"deployment.apps/{CONTROLLER} updated (server dry run)" in look.out
    assert ground_api.get(DEPLOYMENT)["metadata"]["generation"] == after["metadata"]["generation"]
    install(ground, "--image", "applyprune:2")
    template = ground_api.get(DEPLOYMENT)["spec"]["template"]["spec"]
    assert template["containers"][0]["image"] == "applyprune:2"
    # The set owns what kubectl had made; only the CRD, the namespace and its inventory stay.
    lines = remove(ground).lines
    assert lines.pop("customresourcedefinition.apiextensions.k8s.io/bundles.applyprune.dev")
    assert lines.pop(f"namespace/{SYSTEM_NAMESPACE}")
    assert set(lines.values()) == {"deleted"}, lines
    assert not ground_api.exists(DEPLOYMENT)


def test_installation_can_do_what_its_messages_say() -> None:
    """Such as --take-over: whatever option the message of an apply may name, it has."""
    of_input = {
        "filename",
        "kustomize",
        "at",
        "all-in",
        "changed-since",
        "config",
        "selector",
        "only",
    }
    of_apply = {"plan", "check", "no-check", "yes", "fail-fast"}
    assert options("apply") - options("install") == of_input | of_apply


@pytest.mark.usefixtures("unneeded")
def test_update_keeps_replicas_and_resources(
    ground: Plane, ground_api: Api, kubectl: Kubectl
) -> None:
    """What admins have set by kubectl is no conflict, no drift and not set back.

    Slow: each of its commands is a process.
    """
    install(ground)
    only = (f"deployment/{CONTROLLER}", "-n", SYSTEM_NAMESPACE)
    made = ground_api.get(DEPLOYMENT)["spec"]
    assert made["replicas"] == 2
    kubectl("scale", *only, "--replicas=3", plane=ground)
    kubectl("set", "resources", *only, "--limits=memory=4Gi", plane=ground)
    before = ground_api.get(DEPLOYMENT)["metadata"]["generation"]
    # The first one gives the fields up; it changes no value.
    install(ground)
    assert set(install(ground, "-v").lines.values()) == {"unchanged"}
    assert ground_api.get(DEPLOYMENT)["metadata"]["generation"] == before
    updated = install(ground, "--image", "applyprune:2")
    assert f"deployment.apps/{CONTROLLER} updated" in updated.out
    found = ground_api.get(DEPLOYMENT)["spec"]
    (one,) = found["template"]["spec"]["containers"]
    assert (found["replicas"], one["image"]) == (3, "applyprune:2")
    (own,) = made["template"]["spec"]["containers"]
    limits = {**own["resources"]["limits"], "memory": "4Gi"}
    assert one["resources"] == {**own["resources"], "limits": limits}
    install(ground, "--image", "applyprune:2", "--wait")
    status = ("status", "applyprune", "-n", SYSTEM_NAMESPACE, "--drift", "--exit-code")
    reply = applyprune(*status, kubeconfig=ground.kubeconfig)
    assert reply.code == 0, reply
    kubectl("scale", *only, "--replicas=1", plane=ground)
    install(ground)
    assert ground_api.get(DEPLOYMENT)["spec"]["replicas"] == 1
    remove(ground)
    install(ground)
    assert ground_api.get(DEPLOYMENT)["spec"]["replicas"] == 2


def options(verb: str) -> set[str]:
    """Return the long options of a verb."""
    command = cli.get_command(click.Context(cli), verb)
    assert command is not None
    names = [name for one in command.params for name in (*one.opts, *one.secondary_opts)]
    return {name.removeprefix("--") for name in names if name.startswith("--")}


def held(tenant: Tenant, name: str, *finalizers: str) -> None:
    """Give a Bundle these finalizers, as its controller would."""
    patch = {"metadata": {"finalizers": list(finalizers)}}
    kind = "application/merge-patch+json"
    assert tenant.api("PATCH", tenant.bundle_path(name), patch, content_type=kind)[0] == 200


def of_bundles(exchange: Exchange) -> bool:
    """Return whether it lists all Bundles."""
    return exchange.path == "/apis/applyprune.dev/v1alpha1/bundles"


@pytest.mark.usefixtures("unneeded")
def test_installation_stays_until_no_bundle_needs_it(
    ground: Plane, ground_api: Api, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """All of it or a part: it would leave Bundles that nobody can delete.

    Slow: a controller starts, and ends each Bundle before its own objects go.
    """
    install(ground)
    tenant = new_tenant()
    tenant.bundle("web", config_map("a"))
    held(tenant, "web", FINALIZER)
    whole = ("delete", "applyprune", "-n", SYSTEM_NAMESPACE, "--yes")
    account = f"serviceaccount/{CONTROLLER}"
    for part in ((), ("--only", account), ("--orphan", f"deployment/{CONTROLLER}")):
        reply = applyprune(*whole, *part, kubeconfig=ground.kubeconfig)
        assert reply.code == 6, reply
        assert f"{account}, and only it can end 1 Bundle: {tenant.namespace}/web" in reply.err
        assert "kubectl delete bundles.applyprune.dev --all -A" in reply.err
        assert "deleted" not in reply.lines.values()
    assert set(install(ground, "-v").lines.values()) == {"unchanged"}
    held(tenant, "web")
    with FaultProxy(ground) as proxy:
        for code, reason in ((403, "Forbidden"), (404, "NotFound")):
            # The CRD is there: that the list is not served proves nothing.
            proxy.rule = always(faults.status(code, reason, "no"), where=of_bundles)
            reply = applyprune(*whole, kubeconfig=proxy.kubeconfig(tmp_path))
            assert reply.code == 6, reply
            assert "the Bundles cannot be read" in reply.err
    assert ground_api.exists(DEPLOYMENT)
    # A Bundle without the finalizer has never applied anything.
    remove(ground)
    assert not ground_api.exists(DEPLOYMENT)


@pytest.mark.usefixtures("unneeded")
def test_controller_in_another_set_stays_too(
    ground: Plane, ground_api: Api, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """Also in a Namespace that would be deleted; another one of its kind may take its place.

    Slow: each of its commands is a process.
    """
    install(ground)  # the CRD
    tenant = new_tenant()
    tenant.bundle("web", config_map("a"))
    held(tenant, "web", FINALIZER)
    place = f"{tenant.namespace}-system"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}}
    (found,) = [one.body for one in chosen() if one.gvk.kind == "ServiceAccount"]
    labels = found["metadata"]["labels"]

    def account(name: str, where: str) -> dict[str, Any]:
        metadata = {"name": name, "namespace": where, "labels": labels}
        return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}

    def apply(*objects: dict[str, Any], options: tuple[str, ...] = ()) -> Ended:
        path = tmp_path / "input.json"
        path.write_text("\n---\n".join(map(json.dumps, objects)))
        where = ("-n", tenant.namespace, "-f", str(path), "--no-wait", *options)
        return applyprune("apply", "platform", *where, kubeconfig=ground.kubeconfig)

    parts = [config_map(name) for name in "bcd"]
    old, new = account("old", tenant.namespace), account("new", tenant.namespace)
    assert apply(*parts, old).code == 0
    refused = apply(*parts)
    assert refused.code == 6
    assert "the Bundle controller needs serviceaccount/old, and only it" in refused.err
    assert apply(*parts, new).code == 0
    # Somebody has made the controller in a Namespace of the set.
    assert apply(*parts, new, namespace).code == 0
    path = f"/api/v1/namespaces/{place}/serviceaccounts"
    assert ground_api("POST", path, account("inside", place))[0] == 201
    allowed = ("--allow-kind", "namespace")
    refused = apply(*parts, options=("--allow-cascade", "serviceaccount/new", *allowed))
    assert refused.code == 6
    assert f"the Bundle controller needs namespace/{place}, serviceaccount/new" in refused.err
    held(tenant, "web")
    assert apply(*parts, options=("--allow-cascade", f"namespace/{place}")).code == 0


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
        # Else the Pods of a rollout avoid those that it replaces, and share a node.
        assert one["matchLabelKeys"] == ["pod-template-hash"]
    ports = [one["name"] for one in container(chosen())["ports"]]
    assert ports == [one["targetPort"] for one in found["Service"]["ports"]]
    assert ports == [one["port"] for one in found["NetworkPolicy"]["ingress"][0]["ports"]]
    budget = found["PodDisruptionBudget"]
    assert found["Deployment"]["replicas"] > budget["maxUnavailable"] >= 1
    assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_slow_start_is_not_ended() -> None:
    """With a tenth of a CPU, as such programs often get, it takes half a minute and more."""
    seconds_of_cpu, limit = 3, 0.1
    probe = container(chosen())["startupProbe"]
    assert probe["httpGet"] == container(chosen())["livenessProbe"]["httpGet"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 4 * seconds_of_cpu / limit


def test_memory_limit_covers_all_processes() -> None:
    """With cgroup v2, reaching it ends all of them at once; the guide has the same sum."""
    command = cli.get_command(click.Context(cli), "controller")
    assert command is not None
    with command.make_context("controller", []) as defaults:
        given = defaults.params
    assert not any("worker" in one or "memory" in one for one in container(chosen())["args"])
    memory = given["reconcile_memory"]
    assert memory == WorkerLimits().memory
    checks, idle, programs = 1, 256 * MIB, 256 * MIB
    names, values = ControllerSettings.__struct_fields__, ControllerSettings.__struct_defaults__
    settings = dict(zip(reversed(names), reversed(values), strict=False))
    processes = given["workers"] + settings["fetch_workers"] + checks
    limit = container(chosen())["resources"]["limits"]["memory"]
    assert limit == f"{(processes * memory + idle + programs) // MIB}Mi"
    guide = (DEPLOY.parent / "docs/guides/controller.md").read_text(encoding="utf-8")
    section = guide.partition("## Workers and limits\n")[2].partition("\n## ")[0]
    assert f"The limit in `deploy/deployment.yaml` is {limit}" in section
    sizes = re.findall(r"^\| [^|]+ \| ([\d,]+) \|$", section, re.MULTILINE)
    assert f"{sum(int(one.replace(',', '')) for one in sizes)}Mi" == limit


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
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
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


@pytest.mark.usefixtures("unneeded")
def test_controller_can_be_limited_to_namespaces(
    ground: Plane, as_itself: Path, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """The controller has its rights there, and nowhere else.

    Slow: two controllers are started, and the installation is changed twice.
    """
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
    elsewhere = ("lease=0", "--watch-namespaces", other.namespace)
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
