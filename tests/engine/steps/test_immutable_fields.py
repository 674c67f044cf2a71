"""Fields that the server refuses to change in place: named in one line, recreated where allowed."""

from __future__ import annotations

import copy
from typing import Any

from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import DryRun
from tests.support.api import Api
from tests.support.clocks import AGES
from tests.support.objects import DEPLOYMENT, config_map, of_kind
from tests.support.stage import Stage, Story

Body = dict[str, Any]
RBAC = "rbac.authorization.k8s.io"


def _job(name: str, image: str, *env: str, **container: Any) -> Body:
    made: Body = {"name": "c", "image": image, **container}
    if env:
        made["env"] = [{"name": one, "value": "1"} for one in env]
    pod = {"restartPolicy": "Never", "containers": [made]}
    return of_kind("Job", name, spec={"template": {"spec": pod}})


def _stateful(name: str, service: str, storage: str = "1Mi", **spec: Any) -> Body:
    resources = {"requests": {"storage": storage}}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": resources}
    return of_kind("StatefulSet", name, spec={
        "replicas": 1,
        "serviceName": service,
        "selector": {"matchLabels": {"app": "web"}},
        "template": DEPLOYMENT["spec"]["template"],
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
        **spec,
    })  # fmt: skip


def _claim(mode: str) -> Body:
    resources = {"requests": {"storage": "1Mi"}}
    spec = {"accessModes": [mode], "storageClassName": "none", "resources": resources}
    return of_kind("PersistentVolumeClaim", "data", spec=spec)


def _service(name: str, address: str | None, **spec: Any) -> Body:
    given = {} if address is None else {"clusterIP": address}
    return of_kind("Service", name, spec={"ports": [{"port": 80}], **given, **spec})


def _binding(role: str) -> Body:
    of = {"apiGroup": RBAC, "kind": "Role", "name": role}
    subjects = [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}]
    return of_kind("RoleBinding", "b", roleRef=of, subjects=subjects)


def _secret(name: str, value: str, kind: str = "Opaque", **parts: Any) -> Body:
    return of_kind(
        "Secret", name, type=kind, stringData={"username": "u", "password": value}, **parts
    )


def _deployment(app: str, replicas: int = 1) -> Body:
    body = copy.deepcopy(DEPLOYMENT)
    body["spec"]["selector"]["matchLabels"] = {"app": app}
    body["spec"]["template"]["metadata"]["labels"] = {"app": app}
    body["spec"]["replicas"] = replicas
    return body


def _pod(image: str, node: str) -> Body:
    return of_kind(
        "Pod", "p", spec={"nodeName": node, "containers": [{"name": "c", "image": image}]}
    )


QUANTITIES: Body = {
    "resources": {"limits": {"cpu": "1000m"}, "requests": {"cpu": "0.5"}}, "command": [],
}  # fmt: skip
STORAGE = "spec.volumeClaimTemplates[0].spec.resources.requests.storage: 1Mi → 2Mi"
FIXED: Body = {"immutable": True}
CASES: dict[str, tuple[Body, Body, tuple[str, ...]]] = {
    "job.batch/image": (
        _job("image", "m:1"), _job("image", "m:2"),
        ("spec.template.spec.containers[0].image: m:1 → m:2",),
    ),
    "job.batch/variable": (
        _job("variable", "m:1", "A", "B"), _job("variable", "m:1", "A"),
        ('spec.template.spec.containers[0].env[1]: {"name": "B", "value": "1"} → none',),
    ),
    # The server has stored another form of the same quantity: only the image differs.
    "job.batch/quantities": (
        _job("quantities", "m:1", **QUANTITIES), _job("quantities", "m:2", **QUANTITIES),
        ("image: m:1 → m:2",),
    ),
    "deployment.apps/web": (
        DEPLOYMENT, _deployment("other", 2), ("spec.selector.matchLabels.app: web → other",),
    ),
    "statefulset.apps/service": (
        _stateful("service", "one"), _stateful("service", "two", replicas=2),
        ("spec.serviceName: one → two",),
    ),
    "statefulset.apps/claim": (
        _stateful("claim", "one"), _stateful("claim", "one", "2Mi"), (STORAGE,),
    ),
    # Each with both values, and only what cannot be changed: not the number of replicas.
    "statefulset.apps/many": (
        _stateful("many", "one"),
        _stateful("many", "two", "2Mi", replicas=2, podManagementPolicy="Parallel"),
        ("spec.serviceName: one → two", STORAGE,
            "spec.podManagementPolicy: OrderedReady → Parallel"),
    ),
    "persistentvolumeclaim/data": (
        _claim("ReadWriteOnce"), _claim("ReadWriteMany"),
        ("spec.accessModes[0]: ReadWriteOnce → ReadWriteMany",),
    ),
    "service/web": (_service("web", ""), _service("web", "None"), ("spec.clusterIP: 10.",)),
    # The server names the ipFamilyPolicy of a headless Service, which nobody has written.
    "service/headless": (
        _service("headless", "None"), _service("headless", None, selector={"app": "web"}),
        ('spec.selector: none → {"app": "web"}', "spec.clusterIP: None → none"),
    ),
    "storageclass.storage.k8s.io/NAMESPACE": (
        of_kind("StorageClass", "NAMESPACE", api="storage.k8s.io/v1", provisioner="x.io/one"),
        of_kind("StorageClass", "NAMESPACE", api="storage.k8s.io/v1", provisioner="x.io/two"),
        ("provisioner: x.io/one → x.io/two",),
    ),
    "secret/type": (
        _secret("type", "geheim-4711"),
        _secret("type", "geheim-4711", "kubernetes.io/basic-auth"),
        ("type: Opaque → kubernetes.io/basic-auth",),
    ),
    f"rolebinding.{RBAC}/b": (
        _binding("reader"), _binding("writer"), ("roleRef.name: reader → writer",),
    ),
    "secret/value": (
        _secret("value", "geheim-4711", **FIXED), _secret("value", "geheim-4712", **FIXED),
        ("data.password: *** (before) → *** (after)",),
    ),
    "configmap/c": (
        config_map("c", "one") | FIXED, config_map("c", "two") | FIXED,
        ("data.key: one → two",),
    ),
    "pod/p": (_pod("web:1", "a"), _pod("web:2", "b"), ("spec.nodeName: a → b",)),
}  # fmt: skip
NEVER = "persistentvolumeclaim/data"


def _named(stage: Stage) -> dict[str, tuple[Body, Body, tuple[str, ...]]]:
    """Return the cases with a name for what is in cluster scope."""
    found = {}
    for name, (before, after, lines) in CASES.items():
        pair = copy.deepcopy((before, after))
        for body in pair:
            body["metadata"]["name"] = body["metadata"]["name"].replace(
                "NAMESPACE", stage.namespace
            )
        found[name.replace("NAMESPACE", stage.namespace)] = (*pair, lines)
    return found


def _uids(stage: Stage) -> dict[str, str]:
    return {ref.short: entry.uid for ref, entry in stage.inventory().entries.items()}


def test_immutable_field_is_named_in_one_line(stage: Stage, api: Api) -> None:
    """With both values, by an apply and by each check: no struct of the server, nothing cut off."""
    cases = _named(stage)
    befores, afters, lines = zip(*cases.values(), strict=True)
    assert stage.run(*befores, config_map("a"), wait=False).exit_code == 0
    uids = _uids(stage)
    options: dict[str, Any]
    for options in ({}, {"dry_run": DryRun.SERVER}, {"check": True}):
        story = stage.run(*afters, config_map("a", "changed"), wait=False, **options)
        assert story.exit_code == 3
        failed = {name for name, one in story.outcomes.items() if one is Outcome.FAILED}
        assert failed == cases.keys()
        # The rest is applied, unless the server has checked the plan.
        assert options or story.outcomes["configmap/a"] is Outcome.UPDATED
        for name, before, said in zip(cases, befores, lines, strict=True):
            _is_told(story, name, before, said)
        assert _uids(stage) == uids
    api("DELETE", f"/apis/storage.k8s.io/v1/storageclasses/{stage.namespace}")


def _is_told(story: Story, name: str, before: Body, lines: tuple[str, ...]) -> None:
    problem = story.problem(name)
    first, hint = problem.split("\n")
    assert all(line in first for line in lines), problem
    assert first.count("→") == len(lines), problem
    assert "replicas" not in first
    why = ", as it has immutable: true" if before.get("immutable") else ""
    assert first.endswith(f" cannot be changed in place{why}"), problem
    if name == NEVER:
        assert "It cannot be recreated: a PersistentVolumeClaim is never" in hint
    else:
        assert hint.startswith("  --recreate deletes and creates it."), problem
    for word in ("Invalid value", "geheim", "…", "@@", "null"):
        assert word not in problem


RECREATED = (
    "deployment.apps/web", "service/web", "service/headless", "job.batch/image", "secret/type",
    "configmap/c", "secret/value",
)  # fmt: skip


def test_object_is_recreated_where_that_is_allowed(stage: Stage) -> None:
    """By the option, and by the annotation; the objects are ours as before. A claim never is."""
    befores = [CASES[name][0] for name in RECREATED]
    afters = [CASES[name][1] for name in RECREATED]
    claim = CASES[NEVER]
    stage.run(*befores, claim[0], wait=False)
    uids = _uids(stage)
    outcomes = {**dict.fromkeys(RECREATED, Outcome.RECREATED), NEVER: Outcome.FAILED}
    refused = copy.deepcopy(claim[1])
    refused["metadata"]["annotations"] = {"applyprune.dev/recreate": "allowed"}
    for dry_run in (DryRun.SERVER, DryRun.OFF):
        assert _uids(stage) == uids
        story = stage.run(
            *afters, refused, recreate=True, dry_run=dry_run, wait=False, timeout=AGES
        )
        assert (story.exit_code, story.outcomes) == (3, outcomes), story.events
    now = _uids(stage)
    assert {name for name, uid in now.items() if uid == uids[name]} == {NEVER}
    again = stage.run(*afters, claim[0], wait=False)
    assert {again.outcomes[name] for name in RECREATED} == {Outcome.UNCHANGED}
    assert {entry.ownership for entry in stage.inventory().entries.values()} == {Ownership.OWNED}

    marked = copy.deepcopy(befores)
    for body in marked:
        body["metadata"]["annotations"] = {"applyprune.dev/recreate": "allowed"}
    story = stage.run(*marked, claim[0], wait=False, timeout=AGES)
    # Letting the server choose the address again is not a change.
    expected = outcomes | {"service/web": Outcome.UPDATED, NEVER: Outcome.UNCHANGED}
    assert (story.exit_code, story.outcomes) == (0, expected), story.events
