"""What the records of other tools say: which objects they list, and what cannot be read."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from applyprune.errors import ApplypruneError, InventoryError, UsageError
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject, Resource, ResourceMap
from applyprune.model.problem import ProblemKind
from applyprune.planning import tool_records
from applyprune.planning.applyset import ADDITIONAL_NAMESPACES, GROUP_KINDS, SET_ID, TOOLING
from applyprune.planning.built_in_kinds import built_in_kinds
from applyprune.planning.tool_records import (
    Members,
    RecordName,
    chosen,
    members_of,
    no_record,
    parsed_record,
    resources_of,
)
from applyprune.sources.documents import stored_documents
from tests.support.canaries import TOKEN, traces
from tests.support.objects import config_map, text
from tests.support.tool_records import (
    application,
    applyset_parent,
    cli_utils_inventory,
    encoded_release,
    kapp_app,
    kapp_identity,
    kustomization,
    release,
)

RBAC = "rbac.authorization.k8s.io"
KUSTOMIZATIONS = Resource(
    "kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations", namespaced=True
)
GROUPS = Resource("kpt.dev", "v1alpha1", "ResourceGroup", "resourcegroups", namespaced=True)
SITES = Resource("x.example.com", "v1", "Site", "sites", namespaced=True, short_names=("st",))
KINDS = {
    **built_in_kinds().preferred,
    **{one.group_kind: one for one in (KUSTOMIZATIONS, GROUPS, SITES)},
}
SERVED = ResourceMap({one.gvk: one for one in KINDS.values()}, KINDS)


def live(body: dict[str, Any], namespace: str = "shop", **labels: str) -> LiveObject:
    """Return an object as it was read in full."""
    metadata = body["metadata"]
    metadata = {**metadata, "labels": {**metadata.get("labels", {}), **labels}}
    group = body["apiVersion"].rpartition("/")[0]
    ref = Ref(group, body["kind"], namespace, metadata["name"])
    return LiveObject.of(ref, "u", "1", metadata, {**body, "metadata": metadata})


def members(tool: str, body: dict[str, Any], namespace: str = "shop") -> Members:
    """Return the members that a record names."""
    one = live(body, namespace)
    record = RecordName(tool, "web")
    return members_of(record, one, SERVED, stored_documents)


def listed(tool: str, body: dict[str, Any]) -> list[str]:
    return sorted(map(str, members(tool, body).refs))


def warned(found: Members) -> list[str]:
    return [str(one) for one in found.warnings]


@pytest.mark.parametrize(
    ("written", "record"),
    [
        ("helm:web", RecordName("helm", "web")),
        ("cli-utils:inventory-7", RecordName("cli-utils", "inventory-7")),
        ("kapp:web.apps.k14s.io", RecordName("kapp", "web")),
        # The search says which one is meant.
        ("helm:Ingress", RecordName("helm", "Ingress")),
        ("applyset:web", RecordName("applyset", "web")),
        ("applyset:configmap/web", RecordName("applyset", "web", "configmap")),
    ],
)
def test_record_is_named_by_its_tool(written: str, record: RecordName) -> None:
    """The parent of an ApplySet may have its kind."""
    assert parsed_record(written) == record


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("", ["it does not begin with a tool", "the tools are helm, kapp, flux"]),
        (":web", ["it does not begin with a tool"]),
        ("web", ["there is no tool 'web'", "Write TOOL:NAME"]),
        ("hlem:web", ["there is no tool 'hlem'", "Did you mean helm?"]),
        ("HELM:web", ["Did you mean helm?"]),
        ("cli_utils:web", ["Did you mean cli-utils?"]),
        ("helm", ["it has no name", "Write helm:NAME."]),
        ("helm:", ["it has no name"]),
        ("helm:a b", ["'a b' cannot be a name"]),
        ("helm:a:b", ["'a:b' cannot be a name"]),
        ("helm:shop/web", ["'shop/web' cannot be a name"]),
        ("helm:../web", ["cannot be a name"]),
        ("applyset:/web", ["'/web' cannot be a name", "or applyset:KIND/NAME"]),
        ("applyset:a/b/c", ["'a/b/c' cannot be a name"]),
        ("applyset:configmap/", ["cannot be a name"]),
        ("helm:\x1b[31m", ["cannot be a name"]),
    ],
)
def test_name_of_no_record_is_refused(written: str, told: list[str]) -> None:
    """It says what is wrong, and what may be meant."""
    with pytest.raises(UsageError) as refused:
        parsed_record(written)
    assert [part for part in told if part not in str(refused.value)] == []
    assert "\x1b" not in str(refused.value)


def test_resources_are_those_that_the_server_has() -> None:
    """The kind of an ApplySet's parent may have any of its names."""

    def plurals(written: str) -> list[str]:
        return [one.plural for one in resources_of(parsed_record(written), SERVED)]

    assert plurals("helm:web") == ["secrets", "configmaps"]
    assert plurals("cli-utils:web") == ["configmaps", "resourcegroups"]
    assert plurals("applyset:web") == ["secrets", "configmaps"]
    assert plurals("applyset:st/web") == plurals("applyset:sites.x.example.com/web") == ["sites"]
    with pytest.raises(UsageError, match=r"no Argo CD application: .* Application.argoproj.io"):
        plurals("argo:web")
    with pytest.raises(UsageError, match="unknown kind: no matches for kind sitess"):
        plurals("applyset:sitess/web")


# Helm.


def test_release_is_that_of_its_last_deployed_revision() -> None:
    """By their labels: no content is read for that."""
    found = [
        live(release(name, revision=revision, status=status))
        for name, revision, status in (
            ("web", 9, "superseded"),
            ("web", 10, "deployed"),
            ("web", 2, "deployed"),
            ("api", 11, "deployed"),
        )
    ]
    one, warnings = chosen(RecordName("helm", "web"), found)
    assert one is found[1]
    assert warnings == ()
    assert chosen(RecordName("helm", "shop"), found) == (None, ())


@pytest.mark.parametrize("status", ["pending-upgrade", "pending-rollback", "failed"])
def test_release_that_is_not_deployed_is_named(status: str) -> None:
    """What the last revision has added may be there, but nobody says so."""
    found = [live(release("web", revision=one)) for one in (1, 2)]
    found.append(live(release("web", revision=3, status=status)))
    one, warnings = chosen(RecordName("helm", "web"), found)
    assert one is found[1]
    (told,) = map(str, warnings)
    assert told.startswith("the Helm release web: the objects are those of revision 2, the last")
    assert f"revision 3 is {status}" in told


@pytest.mark.parametrize("status", ["pending-install", "uninstalling", "uninstalled", "failed"])
def test_release_without_a_deployed_revision_is_refused(status: str) -> None:
    """Its state is in the error."""
    found = [live(release("web", revision=1, status=status))]
    with pytest.raises(InventoryError, match="the Helm release web has no deployed revision") as no:
        chosen(RecordName("helm", "web"), found)
    assert no.value.reason == f"revision 1 is {status}"
    assert no.value.location == "secret/sh.helm.release.v1.web.v1 in namespace shop"


MANIFEST = f"""---
# Source: web/templates/web.yaml
apiVersion: v1
kind: Secret
metadata: {{name: key}}
data: {{key: {TOKEN}}}
---
# Source: web/templates/empty.yaml
---
# Source: web/templates/roles.yaml
apiVersion: {RBAC}/v1
kind: ClusterRole
metadata:
  name: web:read
  namespace: ignored
---
apiVersion: {RBAC}/v1
kind: Role
metadata: {{name: leader_x, namespace: kube-system}}
---
apiVersion: v1
kind: List
items:
- {{apiVersion: v1, kind: Service, metadata: {{name: a}}}}
- {{apiVersion: extensions/v1beta1, kind: Ingress, metadata: {{name: b}}}}
---
# Helm accepts a key that is there twice.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {{app: a, app: b}}
"""
OF_MANIFEST = [
    f"clusterrole.{RBAC}/web:read",
    "deployment.apps/web in namespace shop",
    "ingress.networking.k8s.io/b in namespace shop",
    f"role.{RBAC}/leader_x in namespace kube-system",
    "secret/key in namespace shop",
    "service/a in namespace shop",
]


@pytest.mark.parametrize("in_config_map", [False, True])
def test_release_lists_the_objects_of_its_manifest(in_config_map: bool) -> None:
    """Those of other namespaces too; a namespace of a cluster-scoped object means nothing."""
    body = release("web", MANIFEST, in_config_map=in_config_map, namespace="shop")
    found = members("helm", body)
    assert sorted(map(str, found.refs)) == OF_MANIFEST
    assert warned(found) == []
    assert found.namespaces == {"shop", "kube-system"}
    assert "ingresses" in [one.plural for one in found.resources]


def test_release_has_its_own_namespace() -> None:
    """The controller of Flux stores a release elsewhere than where it installs it."""
    manifest = text(config_map("a"))
    assert listed("helm", release("web", manifest, namespace="other")) == [
        "configmap/a in namespace other"
    ]
    assert listed("helm", release("web", manifest, namespace="../x")) == [
        "configmap/a in namespace shop"
    ]


def test_release_without_compression_is_read() -> None:
    """Helm reads it too."""
    full = {"name": "web", "manifest": text(config_map("a"))}
    stored = base64.b64encode(json.dumps(full).encode())
    assert listed("helm", release("web", data=stored)) == ["configmap/a in namespace shop"]


def test_release_names_what_is_left_out() -> None:
    """Hooks, the files in crds/, what is not an object, and kinds that the server has not."""
    manifest = text(
        config_map("a"),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}},
        {"apiVersion": "old.example.com/v1", "kind": "Gone", "metadata": {"name": "b"}},
    )
    files = [{"name": "crds/a.yaml", "data": ""}, {"name": "README.md"}, 7]
    hooks = [{"name": "test", "manifest": TOKEN}, {"name": "migrate"}]
    found = members("helm", release("web", manifest, hooks=hooks, chart={"files": files}))
    assert len(found.refs) == 1
    assert [one.kind for one in found.warnings if one.kind is not ProblemKind.TOOL_RECORD] == [
        ProblemKind.CHART_HOOKS
    ]
    told = warned(found)
    for part in (
        "2 hooks are left out",
        "1 file is left out: crds/ of the chart",
        "1 entry is left out: no object can have such an identity",
        "objects of Gone.old.example.com are left out: the server does not serve them now",
    ):
        assert any(part in one for one in told), part
    assert TOKEN not in "".join(told)


def test_release_of_hooks_alone_has_no_objects() -> None:
    """Helm stores no manifest then."""
    found = members("helm", release("web", hooks=[{"name": "test"}]))
    assert (found.refs, len(found.warnings)) == (frozenset(), 1)


CONTENT = json.dumps({"name": "web", "manifest": MANIFEST}).encode()
STREAM = gzip.compress(CONTENT)
UNREADABLE: dict[str, tuple[bytes, str]] = {
    "cut off": (base64.b64encode(STREAM[:-20]), "its gzip data is cut off"),
    "cut off in its base64": (base64.b64encode(STREAM)[:-3], "it is not base64"),
    "not base64": (b"%" + TOKEN.encode(), "it is not base64"),
    "not gzip": (base64.b64encode(TOKEN.encode()), "it is not JSON"),
    "damaged": (
        base64.b64encode(STREAM[:40] + bytes(20) + STREAM[60:]),
        "its gzip data is damaged",
    ),
    "more after its end": (
        base64.b64encode(STREAM + TOKEN.encode()),
        "its gzip data is damaged",
    ),
    "compressed twice": (base64.b64encode(gzip.compress(STREAM)), "it is compressed twice"),
    "encoded twice": (base64.b64encode(base64.b64encode(STREAM)), "it is not JSON"),
    "not JSON": (base64.b64encode(gzip.compress(CONTENT[:-9])), "it is not JSON"),
    "not UTF-8": (base64.b64encode(gzip.compress(b'{"a": "\xff"}')), "it is not JSON"),
    "nested too deep": (base64.b64encode(b"[" * 99999), "it is not JSON"),
    "a list": (encoded_release([TOKEN]), "it is not a mapping"),
    "nothing in it": (encoded_release({}), "it has no manifest"),
    "a manifest that is not text": (encoded_release({"manifest": [TOKEN]}), "it has no manifest"),
    "empty": (b"", "it is not JSON"),
}


@pytest.mark.parametrize(("data", "reason"), UNREADABLE.values(), ids=UNREADABLE)
def test_release_that_cannot_be_read_is_refused(data: bytes, reason: str) -> None:
    """The error says why, and quotes nothing, nor does any error before it."""
    with pytest.raises(InventoryError) as refused:
        members("helm", release("web", data=data))
    assert refused.value.reason == reason
    shown = f"{refused.value}{refused.value.__cause__!r}"
    assert [trace for trace in traces(TOKEN) if trace in shown] == []
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


@pytest.mark.holds("unpacked-release")
def test_release_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than that is ever in memory."""
    monkeypatch.setattr(tool_records, "_MOST_UNPACKED", 2**20)
    manifest = text(config_map("a", "x" * 2**20))
    with pytest.raises(InventoryError) as refused:
        members("helm", release("web", manifest))
    assert refused.value.reason == "it unpacks to more than 1 MiB"


FOREIGN_TEXTS = {
    "as a kind": {"apiVersion": "v1", "kind": f"{TOKEN} x", "metadata": {"name": "a"}},
    "as a group": {"apiVersion": f"{TOKEN}_/v1", "kind": "Web", "metadata": {"name": "a"}},
    "as a kind with a group": {"apiVersion": "v1", "kind": f"X.{TOKEN}", "metadata": {"name": "a"}},
    "as a namespace": {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": f"{TOKEN}="},
    },
    "as a name": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{TOKEN}/a"}},
}


@pytest.mark.holds("identities-of-a-record")
@pytest.mark.parametrize("body", FOREIGN_TEXTS.values(), ids=FOREIGN_TEXTS)
def test_text_in_the_place_of_an_identity_is_not_shown(body: dict[str, Any]) -> None:
    """A template that is broken may have the value of a Secret anywhere."""
    found = members("helm", release("web", text(body)))
    assert found.refs == frozenset()
    assert TOKEN not in repr(found)
    assert [one.message for one in found.warnings] == ["1 entry is left out"]


@pytest.mark.parametrize(
    "manifest",
    [f"a: [{TOKEN}\n", f"- {TOKEN}\n", f"{TOKEN}\n", f"? {TOKEN}"],
    ids=["not closed", "a list", "a text", "a key"],
)
def test_document_that_is_not_an_object_is_counted(manifest: str) -> None:
    """The others of the release are read."""
    found = members("helm", release("web", f"{text(config_map('a'))}\n---\n{manifest}"))
    assert sorted(map(str, found.refs)) == ["configmap/a in namespace shop"]
    assert [one.message for one in found.warnings] == ["1 entry is left out"]
    assert TOKEN not in repr(found)


# kapp and kubectl: a label.


def test_app_selects_its_kinds_by_its_label() -> None:
    """In the namespaces of its last change, if that was complete."""
    change = {"successful": True, "namespaces": ["(cluster)", "shop", "db", 7, "../x"]}
    kinds = ["Deployment.apps", "Namespace", "Gone.old.example.com"]
    found = members("kapp", kapp_app("web", "17", kinds, lastChange=change))
    assert found.selector == "kapp.k14s.io/app=17"
    assert [one.plural for one in found.resources] == ["namespaces", "deployments"]
    assert found.namespaces == {"shop", "db"}
    assert "Gone.old.example.com" in warned(found)[0]
    failed = kapp_app("web", "17", kinds, lastChange={**change, "successful": False})
    assert members("kapp", failed).namespaces == frozenset()

    def made(kind: str, space: str, label: str = "17", name: str = "a") -> LiveObject:
        group = "apps" if kind == "Deployment" else ""
        marks = kapp_identity(space, group, kind, "a")
        version = f"{group}/v1" if group else "v1"
        metadata = {"name": name, "annotations": marks}
        body = {"apiVersion": version, "kind": kind, "metadata": metadata}
        return live(body, space, **{"kapp.k14s.io/app": label})

    assert found.has(made("Deployment", "db"))
    assert not found.has(made("Deployment", "db", "18"))
    assert not found.has(made("Deployment", "other"))
    assert not found.has(made("ConfigMap", "db"))
    assert members("kapp", failed).has(made("Deployment", "other"))
    assert found.has(made("Namespace", ""))


@pytest.mark.holds("made-by-kapp")
def test_template_label_alone_makes_no_member_of_an_app() -> None:
    """A StatefulSet gives its claims the labels of its template; an annotation may be copied."""
    found = members("kapp", kapp_app("web", "17", ["ConfigMap"]))
    label = {"kapp.k14s.io/app": "17"}
    assert not found.has(live(config_map("a"), "shop", **label))
    copied = config_map("b", annotations=kapp_identity("shop", "", "ConfigMap", "a"))
    assert not found.has(live(copied, "shop", **label))


def test_app_of_an_old_kapp_selects_all_kinds_of_its_groups() -> None:
    """It has recorded no kinds."""
    used = [{"Group": "apps", "Version": "v1"}, {"Group": "batch", "Version": "v1beta1"}]
    found = members("kapp", kapp_app("web", "17", usedGKs=None, usedGVs=used))
    assert {one.group for one in found.resources} == {"apps", "batch"}
    assert "cronjobs" in [one.plural for one in found.resources]


def test_app_is_found_by_both_of_its_names() -> None:
    """kapp has two forms of the name of its ConfigMap."""
    short, full = live(kapp_app("web", "1")), live(kapp_app("api.apps.k14s.io", "2"))
    assert chosen(RecordName("kapp", "web"), [short, full]) == (short, ())
    assert chosen(RecordName("kapp", "api"), [short, full]) == (full, ())


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (config_map("web"), "it is not JSON"),
        ({**config_map("web"), "data": {"spec": f'["{TOKEN}"]'}}, "it is not a mapping"),
        (kapp_app("web", ""), "its label is invalid"),
        (kapp_app("web", "a,b=c"), "its label is invalid"),
        (kapp_app("web", "a", labelKey="!a"), "its label is invalid"),
        (kapp_app("web", "a", labelKey=None), "its label is invalid"),
        (kapp_app("web", "a", usedGKs=None), "it does not say which kinds it has"),
    ],
)
def test_app_that_cannot_be_read_is_refused(body: dict[str, Any], reason: str) -> None:
    """A label that other objects may have selects nothing."""
    with pytest.raises(InventoryError) as refused:
        members("kapp", body)
    assert refused.value.reason == reason


PARENT = Ref("", "Secret", "shop", "web")


def test_parent_selects_its_kinds_by_its_label() -> None:
    """In its own namespace, and in those that it names."""
    marks = {ADDITIONAL_NAMESPACES: "db,../x,"}
    body = applyset_parent(PARENT, "Deployment.apps,ConfigMap,~x", annotations=marks)
    found = members("applyset", body)
    label = body["metadata"]["labels"][SET_ID]
    assert found.selector == f"applyset.kubernetes.io/part-of={label}"
    assert [one.plural for one in found.resources] == ["configmaps", "deployments"]
    assert found.namespaces == {"shop", "db"}
    assert [one.message for one in found.warnings] == ["1 entry is left out"]
    assert members("applyset", applyset_parent(PARENT, "")).resources == ()


def test_parent_of_another_tool_is_named() -> None:
    """Its members are those of the annotation all the same."""
    body = applyset_parent(PARENT, "ConfigMap", annotations={TOOLING: "kro/v0.4\x1b"})
    found = members("applyset", body)
    assert [one.plural for one in found.resources] == ["configmaps"]
    (told,) = warned(found)
    assert "kubectl does not manage it" in told
    assert "kro/v0.4" in told
    assert "\x1b" not in told


@pytest.mark.holds("applyset-of-its-name")
def test_parent_with_the_label_of_another_set_is_refused() -> None:
    """A copy of a parent would select what belongs to the other one."""
    body = applyset_parent(PARENT, "ConfigMap")
    body["metadata"]["name"] = "copy"
    with pytest.raises(InventoryError, match="is not that of its name and namespace"):
        members("applyset", body)


def test_parent_without_its_kinds_is_refused() -> None:
    """So does kubectl."""
    body = applyset_parent(PARENT, "")
    del body["metadata"]["annotations"][GROUP_KINDS]
    with pytest.raises(InventoryError, match=f"it has no annotation {GROUP_KINDS}"):
        members("applyset", body)


def test_own_set_is_not_imported() -> None:
    """It is a set already."""
    body = applyset_parent(PARENT, "ConfigMap", annotations={TOOLING: "applyprune/v0.1.0"})
    with pytest.raises(UsageError, match="is the inventory of a set of applyprune"):
        members("applyset", body)


# Flux, Argo CD, cli-utils and kpt: a list.


IDS = {
    "shop_web_apps_Deployment": "deployment.apps/web in namespace shop",
    "_shop__Namespace": "namespace/shop",
    "db_settings__ConfigMap": "configmap/settings in namespace db",
    f"_system__web__read_{RBAC}_ClusterRole": f"clusterrole.{RBAC}/system:web:read",
    f"shop_a_b_{RBAC}_Role": f"role.{RBAC}/a_b in namespace shop",
    f"shop_web___{RBAC}_Role": f"role.{RBAC}/web: in namespace shop",
}
NO_IDS = {
    "no parts": "web",
    "two parts": "shop_web",
    "no kind": "shop_web_apps_",
    "no name": "shop__apps_Deployment",
    "no namespace": "_web_apps_Deployment",
    "a path": "shop_../x_apps_Deployment",
    "a namespace that cannot be": "Shop_web_apps_Deployment",
    "a name that is too long": f"shop_{'x' * 300}__ConfigMap",
    "a dot": "shop_..__ConfigMap",
}


@pytest.mark.parametrize("make", [kustomization, cli_utils_inventory])
def test_id_names_an_object(make: Any) -> None:
    """A name of RBAC may have colons, which are written as two underscores, and underscores."""
    found = members("flux" if make is kustomization else "cli-utils", make("web", *IDS, *IDS))
    assert sorted(map(str, found.refs)) == sorted(IDS.values())
    assert warned(found) == []


@pytest.mark.parametrize("written", NO_IDS.values(), ids=NO_IDS)
def test_id_of_no_object_is_left_out(written: str) -> None:
    """The others are read."""
    found = members("cli-utils", cli_utils_inventory("web", "shop_a__ConfigMap", written))
    assert sorted(map(str, found.refs)) == ["configmap/a in namespace shop"]
    assert [one.message for one in found.warnings] == ["1 entry is left out"]


NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,20}[a-z0-9])?", fullmatch=True)
WORDS = st.from_regex(r"[a-z]{1,8}", fullmatch=True)


@given(NAMES, st.lists(WORDS, min_size=1, max_size=4).map(":".join))
def test_id_of_each_name_can_be_read(plain: str, of_rbac: str) -> None:
    """What cli-utils writes for a name is read as that name."""
    ids = [
        f"shop_{plain}__ConfigMap",
        f"shop_{of_rbac.replace(':', '__')}_{RBAC}_Role",
    ]
    found = members("cli-utils", cli_utils_inventory("web", *ids)).refs
    assert {ref.name for ref in found} == {plain, of_rbac}


@given(st.text() | st.from_regex(r"[a-zA-Z_./:]{0,40}", fullmatch=True))
def test_id_of_any_text_is_an_identity_or_left_out(written: str) -> None:
    """Nothing that a path of a request would misread."""
    found = members("cli-utils", cli_utils_inventory("web", written))
    assert len(found.refs) + len(found.warnings) == 1
    for ref in found.refs:
        assert not {"/", "%", "\n", " "} & {*ref.name, *ref.namespace}


@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda some: STREAM[:300] + some))
def test_release_of_any_bytes_is_read_or_refused(data: bytes) -> None:
    """No other error ends the run: that would be a crash."""

    def told(stored: bytes) -> str:
        try:
            return repr(members("helm", release("web", data=stored)))
        except ApplypruneError as error:
            return str(error)

    encoded = (data, base64.b64encode(data), base64.b64encode(gzip.compress(data)))
    assert TOKEN not in "".join(map(told, encoded))


def test_kustomization_without_an_inventory_is_refused() -> None:
    """Flux has not applied it yet."""
    body = {**kustomization("web"), "status": {}}
    with pytest.raises(InventoryError, match="its status has no inventory"):
        members("flux", body)


def test_record_of_another_cluster_is_named() -> None:
    """Objects of the same names here may belong to something else."""
    body = kustomization("web", "shop_a__ConfigMap", kubeConfig={"secretRef": {"name": "prod"}})
    (told,) = warned(members("flux", body))
    assert "in another cluster: that of spec.kubeConfig" in told
    for destination, where in (
        ({"name": "prod"}, "in another cluster: prod"),
        ({"server": "https://prod:6443"}, "in another cluster: https://prod:6443"),
        ({"server": "https://kubernetes.default.svc"}, ""),
        ({"name": "in-cluster"}, ""),
    ):
        told = "".join(warned(members("argo", application("web", destination=destination))))
        assert where in told
        assert bool(where) is bool(told)


def test_application_lists_its_resources() -> None:
    """Its destination has the namespace of those that name none; hooks are left out."""
    role = {"group": RBAC, "version": "v1", "kind": "ClusterRole", "name": "web"}
    service = {"version": "v1", "kind": "Service", "name": "web", "namespace": "db"}
    settings = {"version": "v1", "kind": "ConfigMap", "name": "web"}
    hook = {"group": "batch", "kind": "Job", "name": "migrate", "hook": True}
    body = application(
        "web", role, service, settings, hook, {"kind": 7}, destination={"namespace": "shop"}
    )
    body["status"]["resources"].append("text")
    found = members("argo", body)
    assert sorted(map(str, found.refs)) == [
        f"clusterrole.{RBAC}/web",
        "configmap/web in namespace shop",
        "service/web in namespace db",
    ]
    assert [one.message for one in found.warnings] == [
        "1 hook is left out",
        "2 entries are left out",
    ]
    without = members("argo", application("web", settings))
    assert (without.refs, len(without.warnings)) == (frozenset(), 1)
    with pytest.raises(InventoryError, match="its status lists no resources"):
        members("argo", {**body, "status": {}})


def test_resource_group_lists_its_resources() -> None:
    """A kpt package has a custom resource instead of a ConfigMap."""
    body = {
        "apiVersion": "kpt.dev/v1alpha1",
        "kind": "ResourceGroup",
        "metadata": {"name": "web"},
        "spec": {"resources": [{"group": "", "kind": "Secret", "namespace": "db", "name": "a"}]},
    }
    assert listed("cli-utils", body) == ["secret/a in namespace db"]
    assert listed("cli-utils", {**body, "spec": {}}) == []


def test_missing_record_names_those_that_are_there() -> None:
    """A name in another case, in another namespace, and one that is nowhere."""
    found = [live(release(name)) for name in ("ingress", "api", "api")]
    record = RecordName("helm", "Ingress")
    told = str(no_record(record, "shop", found, ()))
    assert told == (
        "there is no Helm release Ingress in namespace shop: there are: api, ingress\n"
        "  Did you mean ingress?"
    )
    told = str(no_record(RecordName("helm", "db"), "shop", (), {"data", "test"}))
    assert told == (
        "there is no Helm release db in namespace shop\n  It is in namespace data, test."
    )
    found = [live(kapp_app("web.apps.k14s.io", "1"))]
    assert "there are: web" in str(no_record(RecordName("kapp", "x"), "shop", found, ()))
    own = applyset_parent(PARENT, "ConfigMap", annotations={TOOLING: "applyprune/v0.1.0"})
    assert "there are" not in str(no_record(RecordName("applyset", "x"), "shop", [live(own)], ()))
