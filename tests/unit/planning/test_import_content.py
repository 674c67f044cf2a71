"""What an import writes of a live object, and which objects it leaves out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from applyprune.model.identity import GVK, Ref
from applyprune.model.live import LiveObject
from applyprune.planning.applyset import LAST_APPLIED, PART_OF
from applyprune.planning.import_content import LeftOut, content_of, left_out, owner_and_source
from applyprune.planning.secrets import HIDDEN
from tests.support.objects import config_map, of_kind

PERSON = "kubectl-client-side-apply"
SYSTEM = "kube-controller-manager"
NAMESPACE = "home"
PORT = {"port": 80, "protocol": "TCP", "targetPort": 80, "nodePort": 30080}
ADDRESS = {"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"]}


def writer(manager: str, fields: Any = None, **more: Any) -> dict[str, Any]:
    """Return an entry of managedFields; by default, that of an update of the data."""
    owned = {"f:data": {}} if fields is None else fields
    return {"manager": manager, "operation": "Update", "fieldsV1": owned, **more}


def live(body: dict[str, Any], *writers: dict[str, Any], namespace: str = NAMESPACE) -> LiveObject:
    gvk = GVK.parse(body["apiVersion"], body["kind"])
    named = {**body["metadata"], "namespace": namespace, "managedFields": list(writers)}
    metadata = {"uid": "u", "resourceVersion": "7", "creationTimestamp": "then", **named}
    ref = Ref(gvk.group, gvk.kind, namespace, body["metadata"]["name"])
    return LiveObject.of(ref, "u", "7", metadata, {**body, "metadata": metadata})


def secret(kind: str, **metadata: Any) -> dict[str, Any]:
    return of_kind("Secret", "s", metadata, type=kind, data={"k": "dg=="})


@pytest.mark.parametrize(
    ("body", "manager", "reason"),
    [
        (config_map("a"), PERSON, None),
        (config_map("a"), SYSTEM, LeftOut.MADE),
        (config_map("kube-root-ca.crt"), PERSON, LeftOut.MADE),
        (config_map("a", ownerReferences=[{"kind": "X", "name": "x"}]), PERSON, LeftOut.OWNED),
        (config_map("a", labels={"kapp.k14s.io/is-app": ""}), PERSON, LeftOut.RECORD),
        (config_map("a", labels={"applyset.kubernetes.io/id": "x"}), PERSON, LeftOut.RECORD),
        (config_map("a", annotations={"helm.sh/hook": "test"}), PERSON, LeftOut.HOOK),
        (config_map("a", deletionTimestamp="now"), PERSON, LeftOut.GOING),
        (secret("kubernetes.io/service-account-token"), PERSON, LeftOut.CREDENTIAL),
        (secret("helm.sh/release.v1"), PERSON, LeftOut.RECORD),
        (
            secret("Opaque", annotations={"cert-manager.io/certificate-name": "c"}),
            PERSON,
            LeftOut.MADE,
        ),
    ],
)
def test_import_leaves_out_what_no_person_has_written(
    body: dict[str, Any], manager: str, reason: LeftOut | None
) -> None:
    """Owners, controllers and tools have made it."""
    assert left_out(live(body, writer(manager)), secrets=False) is reason


@pytest.mark.holds("import-without-secrets")
@pytest.mark.parametrize(
    "body",
    [
        secret("Opaque"),
        # Its kind is mistyped, or that of a custom resource which holds values.
        of_kind("Secrets", "s", api="example.com/v1", stringData={"k": "v"}),
    ],
    ids=["Secret", "another kind"],
)
def test_secret_of_a_person_is_written_on_request(body: dict[str, Any]) -> None:
    mine = live(body, writer(PERSON))
    assert left_out(mine, secrets=True) is None
    assert left_out(mine, secrets=False) is LeftOut.UNASKED


@pytest.mark.holds("import-of-another-set")
def test_object_of_a_set_is_written_if_the_set_is_asked_for() -> None:
    """An ApplySet of kubectl, by its label."""
    mine = live(config_map("a", labels={PART_OF: "x"}), writer(PERSON))
    assert left_out(mine, secrets=False, applyset="x") is None
    assert left_out(mine, secrets=False) is LeftOut.OF_SET


@pytest.mark.parametrize(("namespace", "reason"), [("kube-system", LeftOut.MADE), ("home", None)])
def test_object_without_any_writer_is_made_by_the_system_in_its_namespaces(
    namespace: str, reason: LeftOut | None
) -> None:
    """The accounts of controllers have no managedFields; those of a person may have been lost."""
    account = live(of_kind("ServiceAccount", "a"), namespace=namespace)
    assert left_out(account, secrets=False) is reason


def content(body: dict[str, Any], *writers: dict[str, Any], **options: Any) -> dict[str, Any]:
    found = live(body, *writers)
    marks = options.pop("marks", ())
    return content_of(found, body["apiVersion"], marks, autoscaled=options.get("autoscaled", False))


def test_content_has_no_field_of_the_server_or_of_kubectl() -> None:
    """Only name, namespace, and the labels and annotations that a person has written."""
    noise = {
        LAST_APPLIED: "{}",
        "deployment.kubernetes.io/revision": "3",
        "pv.kubernetes.io/bind-completed": "yes",
        "note": "mine",
    }
    body = {**config_map("a", annotations=noise, labels={"app": "a"}), "status": {"x": 1}}
    body["metadata"]["finalizers"] = ["example.com/keep"]
    body["metadata"]["generation"] = 3
    assert content(body, writer(PERSON))["metadata"] == {
        "name": "a",
        "namespace": NAMESPACE,
        "labels": {"app": "a"},
        "annotations": {"note": "mine"},
    }
    assert "status" not in content(body, writer(PERSON))


def test_mark_of_another_tool_goes_at_the_top_only() -> None:
    """Selectors and Pod templates keep theirs: they cannot change, or Pods would restart."""
    labels = {"kapp.k14s.io/app": "1", "app": "a"}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}
    body = of_kind("Deployment", "a", {"labels": labels}, spec=spec)
    found = content(body, writer(PERSON), marks=[("labels", "kapp.k14s.io/app")])
    assert found["metadata"]["labels"] == {"app": "a"}
    assert found["spec"] == spec


def test_field_that_only_a_controller_owns_goes() -> None:
    """A caBundle that an injector has filled, and what Kubernetes itself has written."""
    hook = {"name": "h", "clientConfig": {"caBundle": "eA==", "url": "https://x"}}
    body = of_kind("MutatingWebhookConfiguration", "a", api="admissionregistration.k8s.io/v1")
    named = 'k:{"name":"h"}'
    injected: dict[str, Any] = {"f:webhooks": {named: {"f:clientConfig": {"f:caBundle": {}}}}}
    written: dict[str, Any] = {
        "f:webhooks": {named: {".": {}, "f:name": {}, "f:clientConfig": {"f:url": {}}}}
    }
    found = content(
        {**body, "webhooks": [hook]}, writer(PERSON, written), writer("cainjector", injected)
    )
    assert found["webhooks"] == [{"name": "h", "clientConfig": {"url": "https://x"}}]
    # Whoever has written it too means it.
    both: dict[str, Any] = {
        "f:webhooks": {named: {"f:clientConfig": {"f:caBundle": {}, "f:url": {}}}}
    }
    found = content(
        {**body, "webhooks": [hook]}, writer(PERSON, both), writer("cainjector", injected)
    )
    assert found["webhooks"] == [hook]


CHOSEN = {"port": 80, "protocol": "TCP", "nodePort": 30080}


@pytest.mark.parametrize(
    ("spec", "left"),
    [
        ({"type": "ClusterIP", **ADDRESS}, {"type": "ClusterIP"}),
        ({"clusterIP": "None", "clusterIPs": ["None"]}, {"clusterIP": "None"}),
        ({"ports": [PORT]}, {"ports": [{"port": 80, "protocol": "TCP"}]}),
        # People choose the ports of nodes.
        ({"type": "NodePort", "ports": [PORT]}, {"type": "NodePort", "ports": [CHOSEN]}),
    ],
)
def test_address_that_the_server_has_chosen_goes(
    spec: dict[str, Any], left: dict[str, Any]
) -> None:
    """Also without a record of who has declared what, and with one that is no JSON."""
    assert content(of_kind("Service", "a", spec=spec))["spec"] == left
    broken = {"annotations": {LAST_APPLIED: "{"}}
    assert content(of_kind("Service", "a", broken, spec=spec))["spec"] == left


@pytest.mark.holds("declared-address")
@pytest.mark.parametrize(
    ("live_spec", "declared", "left"),
    [
        (ADDRESS, {"clusterIP": "10.0.0.7"}, {"clusterIP": "10.0.0.7"}),
        ({"ports": [PORT]}, {"ports": [CHOSEN]}, {"ports": [CHOSEN]}),
    ],
    ids=["address", "port of nodes"],
)
def test_address_that_somebody_has_declared_stays(
    live_spec: dict[str, Any], declared: dict[str, Any], left: dict[str, Any]
) -> None:
    """By kubectl's annotation, or by the fields of an apply."""
    kubectls = {"annotations": {LAST_APPLIED: json.dumps({"spec": declared})}}
    assert content(of_kind("Service", "a", kubectls, spec=live_spec)).get("spec") == left
    named = 'k:{"port":80,"protocol":"TCP"}'
    fields: dict[str, Any] = {"f:spec": {"f:clusterIP": {}, "f:ports": {named: {"f:nodePort": {}}}}}
    flux = writer("flux", fields, operation="Apply")
    assert content(of_kind("Service", "a", spec=live_spec), flux).get("spec") == left


@pytest.mark.parametrize(
    ("kind", "spec", "left"),
    [
        ("PersistentVolumeClaim", {"volumeName": "pv", "accessModes": []}, {"accessModes": []}),
        ("Namespace", {"finalizers": ["kubernetes"]}, None),
        (
            "Job",
            {"selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}},
             "template": {"metadata": {"labels": {"controller-uid": "u", "job-name": "a"}},
                          "spec": {"serviceAccount": "x", "serviceAccountName": "x"}}},
            {"template": {"spec": {"serviceAccountName": "x"}}},
        ),
        (
            "StatefulSet",
            {"volumeClaimTemplates": [{"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                                       "metadata": {"name": "d"}, "status": {"phase": "Pending"}}]},
            {"volumeClaimTemplates": [{"metadata": {"name": "d"}}]},
        ),
        (
            "Deployment",
            {"template": {"metadata": {"creationTimestamp": None, "annotations":
                                       {"kubectl.kubernetes.io/restartedAt": "now"}}, "x": 1}},
            {"template": {"x": 1}},
        ),
        (
            "Pod",
            {"nodeName": "n", "volumes": [{"name": "kube-api-access-x"}, {"name": "v"}],
             "containers": [{"name": "c", "volumeMounts": [{"name": "kube-api-access-x"}]}]},
            {"volumes": [{"name": "v"}], "containers": [{"name": "c", "volumeMounts": []}]},
        ),
    ],
)  # fmt: skip
def test_field_that_the_server_adds_to_a_kind_goes(
    kind: str, spec: dict[str, Any], left: dict[str, Any] | None
) -> None:
    """By the kind: what binds it, what selects its Pods, what restarts them, its token."""
    assert content(of_kind(kind, "a", spec=spec), writer(PERSON)).get("spec") == left


def test_replicas_of_an_autoscaler_go() -> None:
    body = of_kind("Deployment", "a", spec={"replicas": 3, "paused": True})
    assert content(body, writer(PERSON))["spec"] == {"replicas": 3, "paused": True}
    assert content(body, writer(PERSON), autoscaled=True)["spec"] == {"paused": True}


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        (
            {"annotations": {"meta.helm.sh/release-name": "web"}},
            ("the Helm release web", "helm:web"),
        ),
        (
            {"annotations": {"argocd.argoproj.io/tracking-id": "web:apps/Deployment:x/y"}},
            ("the Argo CD application web", "argo:web"),
        ),
        ({"labels": {"kapp.k14s.io/app": "17"}}, ("the kapp app 17", "")),
        # Anybody may write a mark: no command has a name that none can be.
        (
            {"annotations": {"meta.helm.sh/release-name": "$(x)"}},
            ("the Helm release $(x)", ""),
        ),
        ({"annotations": {LAST_APPLIED: "{}"}}, ("kubectl apply", "")),
        ({}, ("", "")),
    ],
)
def test_owner_is_named_with_what_imports_its_objects(
    metadata: dict[str, Any], found: tuple[str, str]
) -> None:
    """By the marks of the tool; without any, by the annotation of kubectl."""
    assert owner_and_source(live(config_map("a", **metadata), writer(PERSON)), ()) == found


@pytest.mark.parametrize(
    ("known", "found"),
    [
        (["web"], ("the Helm release web", "helm:web")),
        ([], (f"the Helm release {HIDDEN}", "")),
    ],
)
def test_owner_of_a_secret_is_named_if_another_object_names_it(
    known: list[str], found: tuple[str, str]
) -> None:
    """Anybody may have copied a value into an annotation."""
    one = live(secret("Opaque", annotations={"meta.helm.sh/release-name": "web"}), writer(PERSON))
    assert owner_and_source(one, known) == found
