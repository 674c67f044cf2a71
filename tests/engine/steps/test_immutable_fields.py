"""Fields that the server refuses to change in place: each is named in one line, of any kind."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

import pytest

from applyprune.model.fate import Outcome
from applyprune.model.options import Conflicts, DryRun, Mode
from tests.support.objects import DEPLOYMENT, SERVICE, config_map
from tests.support.plane import Kubectl
from tests.support.stage import Stage

Body = dict[str, Any]
RBAC = "rbac.authorization.k8s.io"


def _object(kind: str, name: str, api_version: str = "v1", **parts: Any) -> Body:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **parts}


def _job(image: str, *env: str) -> Body:
    container: Body = {"name": "c", "image": image}
    if env:
        container["env"] = [{"name": name, "value": "1"} for name in env]
    pod = {"restartPolicy": "Never", "containers": [container]}
    return _object("Job", "migrate", "batch/v1", spec={"template": {"spec": pod}})


def _stateful(service: str, replicas: int, storage: str = "1Mi") -> Body:
    template = DEPLOYMENT["spec"]["template"]
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}},
    }
    return _object(
        "StatefulSet",
        "db",
        "apps/v1",
        spec={
            "replicas": replicas,
            "serviceName": service,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template,
            "volumeClaimTemplates": [claim],
        },
    )


def _claim(mode: str, size: str = "1Mi") -> Body:
    return _object(
        "PersistentVolumeClaim",
        "data",
        spec={
            "accessModes": [mode],
            "storageClassName": "none",
            "resources": {"requests": {"storage": size}},
        },
    )


def _service(address: str) -> Body:
    return _object("Service", "web", spec={"clusterIP": address, "ports": [{"port": 80}]})


def _binding(role: str) -> Body:
    return _object(
        "RoleBinding",
        "b",
        f"{RBAC}/v1",
        roleRef={"apiGroup": RBAC, "kind": "Role", "name": role},
        subjects=[{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    )


def _secret(value: str, kind: str = "Opaque") -> Body:
    return _object("Secret", "s", type=kind, immutable=True, stringData={"password": value})


def _deployment(app: str) -> Body:
    body = copy.deepcopy(DEPLOYMENT)
    body["spec"]["selector"]["matchLabels"] = {"app": app}
    body["spec"]["template"]["metadata"]["labels"] = {"app": app}
    body["spec"]["replicas"] = 2
    return body


def _pod(image: str, node: str) -> Body:
    return _object(
        "Pod", "p", spec={"nodeName": node, "containers": [{"name": "c", "image": image}]}
    )


CASES: Mapping[str, tuple[Body, Body, str, tuple[str, ...]]] = {
    "Job image": (
        _job("migrate:1"),
        _job("migrate:2"),
        "job.batch/migrate",
        ("spec.template.spec.containers[0].image: migrate:1 → migrate:2",),
    ),
    "Job variable": (
        _job("migrate:1", "A", "B"),
        _job("migrate:1", "A"),
        "job.batch/migrate",
        ('spec.template.spec.containers[0].env[1]: {"name": "B", "value": "1"} → none',),
    ),
    "Deployment selector": (
        DEPLOYMENT,
        _deployment("other"),
        "deployment.apps/web",
        ("spec.selector.matchLabels.app: web → other",),
    ),
    "StatefulSet service": (
        _stateful("one", 1),
        _stateful("two", 2),
        "statefulset.apps/db",
        ("spec.serviceName: one → two",),
    ),
    "StatefulSet claim": (
        _stateful("one", 1),
        _stateful("one", 1, "2Mi"),
        "statefulset.apps/db",
        ("spec.volumeClaimTemplates[0].spec.resources.requests.storage: 1Mi → 2Mi",),
    ),
    "claim": (
        _claim("ReadWriteOnce"),
        _claim("ReadWriteMany"),
        "persistentvolumeclaim/data",
        ("spec.accessModes[0]: ReadWriteOnce → ReadWriteMany",),
    ),
    "Service address": (
        _service(""),
        _service("None"),
        "service/web",
        ("spec.clusterIP: 10.", " → None"),
    ),
    "StorageClass provisioner": (
        _object("StorageClass", "NAMESPACE", "storage.k8s.io/v1", provisioner="x.io/one"),
        _object("StorageClass", "NAMESPACE", "storage.k8s.io/v1", provisioner="x.io/two"),
        "storageclass.storage.k8s.io/NAMESPACE",
        ("provisioner: x.io/one → x.io/two",),
    ),
    "Secret type": (
        _secret("geheim-4711") | {"immutable": False},
        _secret("geheim-4711", "kubernetes.io/basic-auth") | {"immutable": False},
        "secret/s",
        ("type: Opaque → kubernetes.io/basic-auth",),
    ),
    "RoleBinding role": (
        _binding("reader"),
        _binding("writer"),
        f"rolebinding.{RBAC}/b",
        ("roleRef.name: reader → writer",),
    ),
    "Secret value": (
        _secret("geheim-4711"),
        _secret("geheim-4712"),
        "secret/s",
        ("data.password: *** (before) → *** (after)",),
    ),
    "ConfigMap value": (
        {**config_map("c", "one"), "immutable": True},
        {**config_map("c", "two"), "immutable": True},
        "configmap/c",
        ("data.key: one → two",),
    ),
    "Pod": (_pod("web:1", "a"), _pod("web:2", "b"), "pod/p", ("spec.nodeName: a → b",)),
}


NEVER = {"persistentvolumeclaim/data": "It cannot be recreated: a PersistentVolumeClaim is never"}


@pytest.mark.parametrize("name", CASES)
def test_immutable_field_is_named_in_one_line(stage: Stage, name: str) -> None:
    """With both values, by an apply and by each check: no struct of the server, nothing cut off."""
    before, after, ref, lines = CASES[name]
    ref = ref.replace("NAMESPACE", stage.namespace)
    before, after = (_renamed(body, stage) for body in (before, after))
    assert stage.run(before, wait=False).exit_code == 0
    options: dict[str, Any]
    for options in ({}, {"dry_run": DryRun.SERVER}, {"check": True}):
        story = stage.run(after, wait=False, **options)
        assert (story.exit_code, story.outcomes) == (3, {ref: Outcome.FAILED})
        problem = story.problem(ref)
        first, hint = problem.split("\n")
        assert all(line in first for line in lines), problem
        assert first.count("→") == 1
        if ref in NEVER:
            assert first.endswith(" cannot be changed in place")
            assert NEVER[ref] in hint
        else:
            why = ", as it has immutable: true" if before.get("immutable") else ""
            assert first.endswith(f" cannot be changed in place{why}"), problem
            assert hint.startswith("  --recreate deletes and creates it."), problem
        assert not [
            word for word in ("Invalid value", "geheim", "…", "@@", "null") if word in problem
        ]
    if before["kind"] == "StorageClass":
        stage.run(mode=Mode.DELETE)


def _renamed(body: Body, stage: Stage) -> Body:
    text = json.dumps(body).replace("NAMESPACE", stage.namespace)
    found: Body = json.loads(text)
    return found


def test_refused_default_names_the_fields_that_change_beside_it(stage: Stage) -> None:
    """The server names the ipFamilyPolicy of a headless Service, which nobody has written."""
    stage.run(_service("None"), wait=False)
    told = stage.run(SERVICE, wait=False).problem("service/web")
    change = 'spec.selector: none → {"app": "web"}, spec.clusterIP: None → none'
    assert f"{change} cannot be changed in place\n  --recreate" in told
    story = stage.run(SERVICE, wait=False, recreate=True)
    assert (story.exit_code, story.outcomes) == (0, {"service/web": Outcome.RECREATED})


def test_several_immutable_fields_are_named_together(stage: Stage) -> None:
    """Each with both values, and only what cannot be changed: not the number of replicas."""
    stage.run(_stateful("one", 1), wait=False)
    after = _stateful("two", 2, "2Mi")
    after["spec"]["podManagementPolicy"] = "Parallel"
    problem = stage.run(after, wait=False).problem("statefulset.apps/db")
    assert "spec.serviceName: one → two" in problem
    assert "spec.volumeClaimTemplates[0].spec.resources.requests.storage: 1Mi → 2Mi" in problem
    assert "spec.podManagementPolicy: OrderedReady → Parallel" in problem
    assert "replicas" not in problem


def test_rewritten_value_is_no_change(stage: Stage) -> None:
    """The server has stored another form of the same quantity: only the image differs."""
    before, after = _job("migrate:1"), _job("migrate:2")
    for body in (before, after):
        (container,) = body["spec"]["template"]["spec"]["containers"]
        container["resources"] = {"limits": {"cpu": "1000m"}, "requests": {"cpu": "0.5"}}
        container["command"] = []
    stage.run(before, wait=False)
    problem = stage.run(after, wait=False).problem("job.batch/migrate")
    assert problem.count("→") == 1
    assert "image: migrate:1 → migrate:2" in problem


def test_adopted_object_is_explained_too(stage: Stage, kubectl: Kubectl) -> None:
    """It is not recreated; what to do instead is said."""
    kubectl("create", "-n", stage.namespace, "-f", "-", stdin=json.dumps(_job("migrate:1")))
    # What is forced is the version that was evaluated: the Job's controller must be done with it.
    kubectl("wait", "-n", stage.namespace, "job/migrate", "--for=condition=Complete")
    story = stage.run(_job("migrate:2"), wait=False, conflicts=Conflicts.FORCE)
    problem = story.problem("job.batch/migrate")
    assert "containers[0].image: migrate:1 → migrate:2 cannot be changed in place" in problem
    assert "It cannot be recreated: it was adopted, not created, by this set" in problem
