"""What other tools have recorded, read from a server: few requests, no value, clear refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from applyprune.engine.tool_records import recorded_members
from applyprune.errors import Forbidden, InventoryError, UsageError
from applyprune.localplane import Plane
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject
from applyprune.planning.tool_records import Members, parsed_record
from applyprune.sources.documents import stored_documents
from tests.support.accounts import kubeconfig_as, rule
from tests.support.api import Api, AuditTrail
from tests.support.canaries import TOKEN, secret, traces
from tests.support.objects import config_map, crd, of_kind, text
from tests.support.stage import Stage
from tests.support.tool_records import (
    application,
    applyset_parent,
    cli_utils_inventory,
    kapp_app,
    kapp_identity,
    kustomization,
    release,
)
from tests.support.waiting import eventually

Body = dict[str, Any]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def _members(stage: Stage, written: str, namespace: str = "") -> Members:
    with stage.connection() as cluster:
        client = cluster.client
        where, record = namespace or stage.namespace, parsed_record(written)
        return recorded_members(client, client.resource_map(), record, where, stored_documents)


def _refs(stage: Stage, written: str) -> list[str]:
    return sorted(map(str, _members(stage, written).refs))


def _found(stage: Stage, members: Members) -> list[str]:
    """Return the objects that a caller finds by what a record says, one list for each resource."""
    with stage.connection() as cluster:
        found: list[LiveObject] = []
        for resource in members.resources:
            found += cluster.client.list(resource, selector=members.selector)
    return sorted(str(live.ref) for live in found if members.has(live))


def _create(stage: Stage, crds: Api, *bodies: Body) -> None:
    plurals = {"Secret": "secrets", "ConfigMap": "configmaps"}
    for body in bodies:
        crds.create(stage.path(plural=plurals[body["kind"]]), body)


def test_release_is_read_from_its_last_deployed_revision(
    crd_stage: Stage, crds: Api, running: Plane
) -> None:
    """By two requests; nothing but the metadata of its other revisions, or of other releases."""
    new = text(config_map("a"), secret("key"), of_kind("Namespace", "other"))
    old = text(config_map("gone"))
    _create(
        crd_stage,
        crds,
        release("web", old, revision=1, status="superseded"),
        release("web", new, revision=2),
        release("web", old, revision=3, status="failed"),
        release("api", old),
    )
    audit = AuditTrail(running, crds)
    members = _members(crd_stage, "helm:web")
    home = f"in namespace {crd_stage.namespace}"
    assert sorted(map(str, members.refs)) == [
        f"configmap/a {home}",
        "namespace/other",
        f"secret/key {home}",
    ]
    assert [one.reason for one in members.warnings] == ["revision 3 is failed"]
    asked = [one for one in audit.ours() if "/secrets" in one["requestURI"]]
    assert [(one["verb"], one["objectRef"].get("name")) for one in asked] == [
        ("list", None),
        ("get", "sh.helm.release.v1.web.v2"),
    ]
    _create(crd_stage, crds, release("old", old, in_config_map=True))
    assert _refs(crd_stage, "helm:old") == [f"configmap/gone {home}"]


def test_missing_release_names_those_that_are_there(crd_stage: Stage, crds: Api) -> None:
    """In its namespace, or the namespace that has it."""
    _create(crd_stage, crds, release("ingress"), release("api", in_config_map=True))
    with pytest.raises(UsageError) as refused:
        _members(crd_stage, "helm:Ingress")
    assert str(refused.value) == (
        f"there is no Helm release Ingress in namespace {crd_stage.namespace}: there are: api, "
        "ingress\n  Did you mean ingress?"
    )
    for name in ("ingress", "api"):
        with pytest.raises(UsageError, match=f"there is no Helm release {name} in name") as no:
            _members(crd_stage, f"helm:{name}", "default")
        assert crd_stage.namespace in no.value.hint
    with pytest.raises(UsageError, match="there is no kapp app web in namespace"):
        _members(crd_stage, "kapp:web")


def test_value_in_a_release_is_not_shown(crd_stage: Stage, crds: Api) -> None:
    """Neither by an error nor by a warning, whatever is wrong with the release."""
    manifest = text(secret("key"), {"apiVersion": "v1", "kind": f"{TOKEN} x", "metadata": {}})
    whole = release("web", manifest, hooks=[{"manifest": TOKEN}])
    told = repr(_refused_or_read(crd_stage, crds, whole))
    for data in (TOKEN.encode(), b"%", b"", manifest.encode()):
        told += repr(_refused_or_read(crd_stage, crds, release("web", data=data)))
    broken = release("web", f"{manifest}\n---\nkind: [{TOKEN}\n---\n{TOKEN}: {{{{ . }}}}\n")
    told += repr(_refused_or_read(crd_stage, crds, broken))
    assert "3 entries are left out" in told
    assert [trace for trace in traces(TOKEN) if trace in told] == []


def _refused_or_read(stage: Stage, crds: Api, body: Body) -> object:
    path = stage.path(body["metadata"]["name"], "secrets")
    crds("DELETE", path)
    _create(stage, crds, body)
    try:
        return _members(stage, "helm:web")
    except InventoryError as error:
        return error.problem, str(error)


def test_missing_right_is_named(
    crd_stage: Stage, crds: Api, running: Plane, tmp_path: Path
) -> None:
    """It takes the right to list the records, and that to read one."""
    _create(crd_stage, crds, release("web", text(config_map("a"))))
    maps = rule("", ["configmaps"], ["get", "list"])

    def refusal(name: str, *verbs: str) -> str:
        rules = (maps, rule("", ["secrets"], list(verbs)))
        account = f"{crd_stage.namespace}-{name}"
        path = kubeconfig_as(account, running, crds, crd_stage.namespace, tmp_path, *rules)
        with pytest.raises(Forbidden) as refused:
            _members(Stage(path, crd_stage.namespace), "helm:web")
        return str(refused.value)

    rights = f"Ask for the rights to list and get secrets in namespace {crd_stage.namespace}."
    for told in (refusal("a", "get"), refusal("b", "list")):
        assert told.startswith("the record of the Helm release web cannot be read: ")
        assert rights in told


def test_label_selects_the_objects_of_an_app(crd_stage: Stage, crds: Api) -> None:
    """Those of kapp, and of an ApplySet: of their kinds, with exactly that label."""
    space = crd_stage.namespace
    parent = Ref("", "ConfigMap", space, "parent")
    applyset = applyset_parent(parent, "ConfigMap")
    part_of = applyset["metadata"]["labels"]["applyset.kubernetes.io/id"]
    change = {"successful": True, "namespaces": [space]}
    _create(
        crd_stage,
        crds,
        kapp_app("web.apps.k14s.io", f"17-{space}", ["ConfigMap"], lastChange=change),
        applyset,
        config_map(
            "mine",
            labels={"kapp.k14s.io/app": f"17-{space}"},
            annotations=kapp_identity(space, "", "ConfigMap", "mine"),
        ),
        config_map("by-template", labels={"kapp.k14s.io/app": f"17-{space}"}),
        config_map("theirs", labels={"kapp.k14s.io/app": f"18-{space}"}),
        config_map("part", labels={"applyset.kubernetes.io/part-of": part_of}),
        {**secret("key"), "metadata": {"name": "x", "labels": {"kapp.k14s.io/app": f"17-{space}"}}},
    )
    assert _found(crd_stage, _members(crd_stage, "kapp:web")) == [
        f"configmap/mine in namespace {space}"
    ]
    for written in ("applyset:parent", "applyset:configmap/parent"):
        assert _found(crd_stage, _members(crd_stage, written)) == [
            f"configmap/part in namespace {space}"
        ]
    crd_stage.run(config_map("own"))
    with pytest.raises(UsageError, match="is the inventory of a set of applyprune"):
        _members(crd_stage, "applyset:applyprune-web")


def test_inventory_of_cli_utils_is_read(crd_stage: Stage, crds: Api) -> None:
    """A ConfigMap without its label is none."""
    ids = ("shop_a__ConfigMap", "_web__read_rbac.authorization.k8s.io_ClusterRole")
    _create(crd_stage, crds, cli_utils_inventory("inventory-1", *ids), config_map("plain"))
    assert _refs(crd_stage, "cli-utils:inventory-1") == [
        "clusterrole.rbac.authorization.k8s.io/web:read",
        "configmap/a in namespace shop",
    ]
    with pytest.raises(UsageError, match="there are: inventory-1"):
        _members(crd_stage, "cli-utils:plain")


def _define(crds: Api, body: Body, plural: str) -> str:
    """Define the kind of a custom resource; return the path of its objects in a namespace."""
    group, _, version = body["apiVersion"].partition("/")
    kind = body["kind"]
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"kind": kind, "plural": plural}
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    definition = crd(kind, group=group, names=names, versions=[served])
    definition["metadata"]["name"] = f"{plural}.{group}"
    crds.apply(f"{CRDS}/{plural}.{group}", definition, by="test")
    path = f"/apis/{group}/{version}/namespaces/{{}}/{plural}"
    eventually(lambda: crds("GET", path.format("default"))[0] == 200)
    return path


LISTS: dict[str, tuple[str, Body]] = {
    "flux": ("kustomizations", kustomization("shop", "shop_a__ConfigMap", "_b__Namespace")),
    "argo": (
        "applications",
        application(
            "shop",
            {"kind": "ConfigMap", "version": "v1", "name": "a"},
            {"kind": "Namespace", "version": "v1", "name": "b"},
            destination={"namespace": "shop"},
        ),
    ),
    "cli-utils": (
        "resourcegroups",
        {
            "apiVersion": "kpt.dev/v1alpha1",
            "kind": "ResourceGroup",
            "metadata": {
                "name": "shop",
                "labels": {"cli-utils.sigs.k8s.io/inventory-id": "7"},
            },
            "spec": {
                "resources": [
                    {"group": "", "kind": "ConfigMap", "namespace": "shop", "name": "a"},
                    {"group": "", "kind": "Namespace", "namespace": "", "name": "b"},
                ]
            },
        },
    ),
}


@pytest.mark.parametrize("tool", LISTS)
def test_custom_resource_lists_objects(crd_stage: Stage, crds: Api, tool: str) -> None:
    """In its status, which a controller writes, or in its spec."""
    plural, body = LISTS[tool]
    path = _define(crds, body, plural).format(crd_stage.namespace)
    crds.create(path, body)
    if "status" in body:
        with pytest.raises(InventoryError, match="its status"):
            _members(crd_stage, f"{tool}:shop")
        crds.patch(f"{path}/shop/status", {"status": body["status"]})
    assert _refs(crd_stage, f"{tool}:shop") == ["configmap/a in namespace shop", "namespace/b"]
