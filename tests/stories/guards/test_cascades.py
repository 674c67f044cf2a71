"""What else a deletion deletes is counted before the first write: contents, and owned objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from applyprune.localplane import Plane
from applyprune.model.fate import Outcome
from applyprune.model.options import DryRun, Mode, Propagation
from tests.support.accounts import WRITE, kubeconfig_as, rule
from tests.support.api import Api, AuditTrail, writes
from tests.support.fault_proxy import FaultProxy
from tests.support.objects import (
    CLAIM,
    GUARDED,
    SERVICE,
    config_map,
    of_kind,
)
from tests.support.stage import Stage
from tests.support.waiting import eventually

Body = dict[str, Any]
NAMESPACE = frozenset({"namespace"})
MERGE = "application/merge-patch+json"


SLICE: Body = of_kind(
    "EndpointSlice",
    "by-hand",
    {"labels": {"kubernetes.io/service-name": "web"}},
    api="discovery.k8s.io/v1",
    addressType="IPv4",
    endpoints=[{"addresses": ["10.1.2.3"]}],
)
ACCOUNT = {"imagePullSecrets": [{"name": "registry"}]}
CONTENTS: dict[str, tuple[str, str, Body]] = {
    "serviceaccount/default": ("PATCH", "/api/v1/{}/serviceaccounts/default", ACCOUNT),
    "endpointslice.discovery.k8s.io/by-hand": (
        "POST",
        "/apis/discovery.k8s.io/v1/{}/endpointslices",
        SLICE,
    ),
}


@pytest.mark.holds("default-account", row="serviceaccount/default")
@pytest.mark.holds("endpoint-slices", row="endpointslice.discovery.k8s.io/by-hand")
@pytest.mark.parametrize("name", CONTENTS)
def test_contents_made_by_hand_save_a_namespace(
    stage: Stage, api: Api, home: str, name: str
) -> None:
    """Each alone, in kinds of which the control plane makes objects itself."""
    bodies = (config_map("a"), config_map("b"))
    assert stage.run(of_kind("Namespace", home), *bodies).exit_code == 0
    method, path, body = CONTENTS[name]
    path = path.format(f"namespaces/{home}")
    if method == "PATCH":
        eventually(lambda: api.exists(path), lambda: "the default ServiceAccount")
    status, reply = api(
        method, path, body, content_type=MERGE if method == "PATCH" else "application/json"
    )
    assert status in {200, 201}, reply
    story = stage.run(*bodies, allow_kinds=NAMESPACE)
    assert story.exit_code == 6, story.events
    told = story.problem(f"namespace/{home}")
    assert f"cascade-delete 1 object that must stay\n    {home}/{name}: it is not" in told


def test_contents_made_by_the_control_plane_save_nothing(stage: Stage, api: Api, home: str) -> None:
    """The ServiceAccount of every namespace, and the EndpointSlice of a Service of the set.

    Slow: the controllers of the plane make both, and empty the Namespace.
    """
    bodies = (config_map("a"), config_map("b"))
    service = {**SERVICE, "metadata": {"name": "web", "namespace": home}}
    assert stage.run(of_kind("Namespace", home), service, *bodies).exit_code == 0
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{home}/endpointslices"
    eventually(lambda: bool(api.get(slices)["items"]), lambda: "the slice of the Service")
    eventually(
        lambda: api.exists(f"/api/v1/namespaces/{home}/serviceaccounts/default"),
        lambda: "the account",
    )
    story = stage.run(*bodies, allow_kinds=NAMESPACE)
    assert story.exit_code == 0, story.events
    assert story.outcomes[f"namespace/{home}"] is Outcome.PRUNED


STATEFUL: Body = {**GUARDED["statefulset"], "metadata": {"name": "db"}}
PATHS = {
    "ConfigMap": "api/v1/{}configmaps",
    "ClusterRole": "apis/rbac.authorization.k8s.io/v1/{}clusterroles",
    "PersistentVolume": "api/v1/{}persistentvolumes",
    "PersistentVolumeClaim": "api/v1/{}persistentvolumeclaims",
    "StatefulSet": "apis/apps/v1/{}statefulsets",
}


def _path(body: Body, namespace: str) -> str:
    scoped = body["kind"] not in {"ClusterRole", "PersistentVolume"}
    return "/" + PATHS[body["kind"]].format(f"namespaces/{namespace}/" if scoped else "")


def _live(api: Api, body: Body, namespace: str) -> Body | None:
    status, reply = api("GET", f"{_path(body, namespace)}/{body['metadata']['name']}")
    return reply if status == 200 else None


def _named(owner: Body) -> Body:
    """Return an ownerReference that names an object."""
    named = {key: owner["metadata"][key] for key in ("name", "uid")}
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], **named}


def _make(api: Api, namespace: str, body: Body, *owners: Body) -> Body:
    """Create an object of another team, owned by these objects, and return it as stored."""
    metadata = {**body["metadata"], "ownerReferences": [*map(_named, owners)]}
    return dict(api.create(_path(body, namespace), {**body, "metadata": metadata}))


def _applied(stage: Stage, api: Api, *bodies: Body) -> Body:
    """Apply the objects, and return the first one as stored."""
    assert stage.run(*bodies).exit_code == 0
    owner = _live(api, bodies[0], stage.namespace)
    assert owner is not None
    return owner


STAY = (config_map("stay-1"), config_map("stay-2"))
OWNER = config_map("owner")


@pytest.mark.holds("owned-by-ours")
def test_data_that_names_a_pruned_owner_saves_it(stage: Stage, api: Api, audit: AuditTrail) -> None:
    """Another team's StatefulSet and claim; with the printed options all of them go."""
    owner = _applied(stage, api, OWNER, *STAY)
    _make(api, stage.namespace, CLAIM, owner)
    _make(api, stage.namespace, STATEFUL, owner)
    audit.restart()
    story = stage.run(*STAY)
    assert writes(audit) == []
    assert story.exit_code == 6, story.events
    told = story.problem("configmap/owner")
    place = stage.namespace
    assert (
        "it would cascade-delete 2 objects that must stay\n"
        f"    {place}/persistentvolumeclaim/data: it is not in this set\n"
        f"    {place}/statefulset.apps/db: it is not in this set\n" in told
    )
    assert story.refusal.endswith("To allow this: --allow-cascade configmap/owner")
    assert "including 2 cascaded deletions" in story.refusal
    assert _live(api, CLAIM, place) is not None
    allowed = frozenset({"configmap/owner"})
    story = stage.run(*STAY, allow_cascade=allowed)
    assert story.exit_code == 0, story.events
    eventually(
        lambda: _live(api, CLAIM, place) is None, lambda: "the garbage collection of the claim"
    )
    eventually(lambda: _live(api, STATEFUL, place) is None, lambda: "that of the StatefulSet")


def test_dry_run_counts_what_names_a_pruned_owner(stage: Stage, api: Api) -> None:
    """The plan, its consequences and the digest of its deletions have the claim."""
    owner = _applied(stage, api, OWNER, *STAY)
    before = stage.run(*STAY, dry_run=DryRun.SERVER).deletions
    _make(api, stage.namespace, CLAIM, owner)
    story = stage.run(*STAY, dry_run=DryRun.SERVER)
    (step,) = story.plan.removals
    assert [str(also.ref) for also in step.cascade] == [
        f"persistentvolumeclaim/data in namespace {stage.namespace}"
    ]
    assert story.deletions != before
    allowed = stage.run(*STAY, dry_run=DryRun.SERVER, allow_cascade=frozenset({"configmap/owner"}))
    assert allowed.deletions == story.deletions
    said = [f"{one.ref.short}: {one.message}" for one in allowed.plan.consequences]
    assert "configmap/owner: deleted with it: 1 PersistentVolumeClaim" in said
    assert stage.run(*STAY, approved=story.deletions).exit_code == 0
    eventually(lambda: _live(api, CLAIM, stage.namespace) is None, lambda: "the end of the claim")


def test_chain_of_owners_is_followed(stage: Stage, api: Api) -> None:
    """The claim names a ConfigMap that names the pruned one; the set's own object is between."""
    owner = _applied(stage, api, OWNER, *STAY)
    between = _make(api, stage.namespace, config_map("between"), owner)
    middle = _make(api, stage.namespace, config_map("middle"), between)
    _make(api, stage.namespace, CLAIM, middle)
    story = stage.run(*STAY)
    assert story.exit_code == 6, story.events
    assert "persistentvolumeclaim/data" in story.problem("configmap/owner")


def test_data_in_a_pruned_namespace_counts_though_an_object_of_the_set_owns_it(
    stage: Stage, api: Api, home: str
) -> None:
    """An ownerReference makes nobody's claim ours."""
    inside = config_map("inside", namespace=home)
    assert stage.run(of_kind("Namespace", home), inside, *STAY).exit_code == 0
    owner = api.get(f"/api/v1/namespaces/{home}/configmaps/inside")
    _make(api, home, CLAIM, {**owner, "apiVersion": "v1", "kind": "ConfigMap"})
    story = stage.run(*STAY, allow_kinds=NAMESPACE)
    assert story.exit_code == 6, story.events
    assert f"{home}/persistentvolumeclaim/data" in story.problem(f"namespace/{home}")


def test_data_with_another_living_owner_is_not_counted(stage: Stage, api: Api) -> None:
    """Nor with an owner of the set that stays, nor if the propagation orphans what is owned."""
    owner = _applied(stage, api, OWNER, *STAY, config_map("orphaning"))
    orphaning = api.get(stage.path("orphaning"))
    _make(api, stage.namespace, {**CLAIM, "metadata": {"name": "kept"}}, {**OWNER, **orphaning})
    story = stage.run(OWNER, *STAY, propagation=Propagation.ORPHAN)
    assert story.outcomes["configmap/orphaning"] is Outcome.PRUNED, story.events
    assert api.exists(stage.path("kept", "persistentvolumeclaims"))
    other = _make(api, stage.namespace, config_map("other"))
    _make(api, stage.namespace, CLAIM, owner, other)
    stays = _live(api, STAY[0], stage.namespace)
    assert stays is not None
    _make(api, stage.namespace, STATEFUL, owner, stays)
    story = stage.run(*STAY)
    assert story.exit_code == 0, story.events
    assert story.outcomes["configmap/owner"] is Outcome.PRUNED


def test_owner_without_a_namespace_owns_everywhere(stage: Stage, api: Api, home: str) -> None:
    """A ClusterRole, and data in another namespace and in none."""
    role = of_kind("ClusterRole", f"role-{home}", rules=[])
    volume = {**GUARDED["persistentvolume"], "metadata": {"name": f"pv-{home}"}}
    owner = _applied(stage, api, role, *STAY)
    api.create("/api/v1/namespaces", of_kind("Namespace", home))
    try:
        _make(api, home, CLAIM, owner)
        _make(api, "", volume, owner)
        story = stage.run(*STAY)
        assert story.exit_code == 6, story.events
        told = story.problem(f"clusterrole.rbac.authorization.k8s.io/role-{home}")
        assert f"persistentvolume/pv-{home}" in told
        assert f"{home}/persistentvolumeclaim/data" in told
    finally:
        api("DELETE", f"{_path(volume, '')}/pv-{home}")
        stage.run(mode=Mode.DELETE, allow_cascade=frozenset({f"clusterrole/role-{home}"}))


def test_claim_of_the_input_is_not_collected(stage: Stage, api: Api) -> None:
    """The input still wants the claim, and no option lets its owner go."""
    owner = _applied(stage, api, OWNER, *STAY, CLAIM)
    path = f"{_path(CLAIM, stage.namespace)}/data"
    api.patch(path, {"metadata": {"ownerReferences": [_named({**OWNER, **owner})]}})
    story = stage.run(*STAY, CLAIM, allow_cascade=frozenset({"configmap/owner"}))
    assert story.exit_code == 6, story.events
    assert "configmap/owner owns objects of the input" in story.refusal
    assert _live(api, CLAIM, stage.namespace) is not None


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(True, marks=pytest.mark.holds("recreation-cascade")),
        pytest.param(False, marks=pytest.mark.holds("late-recreation-cascade")),
    ],
)
def test_recreation_counts_what_its_object_owns(stage: Stage, api: Api, check: bool) -> None:
    """A recreation deletes the object first: found by the check, or only at the apply."""
    fixed = {**OWNER, "immutable": True}
    owner = _applied(stage, api, fixed, *STAY)
    _make(api, stage.namespace, CLAIM, owner)
    new = {**fixed, "data": {"key": "new"}}
    story = stage.run(new, *STAY, recreate=True, check=check)
    assert story.exit_code == 6, story.events
    told = story.problem("configmap/owner")
    assert "it would cascade-delete 1 object" in told
    assert "persistentvolumeclaim/data" in told
    assert "--allow-cascade configmap/owner" in told
    kept = _live(api, OWNER, stage.namespace)
    assert kept is not None
    assert kept["metadata"]["uid"] == owner["metadata"]["uid"]
    allowed = frozenset({"configmap/owner"})
    story = stage.run(new, *STAY, recreate=True, check=check, allow_cascade=allowed)
    assert story.exit_code == 0, story.events
    assert story.outcomes["configmap/owner"] is Outcome.RECREATED
    if check:
        (step,) = (one for one in story.plan.applies if one.desired.ref.name == "owner")
        assert [also.ref.name for also in step.cascade] == ["data"]


def _few(stage: Stage, plane: Plane, api: Api, folder: Path, group: str, plural: str) -> Stage:
    """Return the set as an account with every right on two kinds only."""
    rights = [rule("", ["configmaps"], WRITE), rule(group, [plural], WRITE)]
    return Stage(
        kubeconfig_as("few", plane, api, stage.namespace, folder, *rights), stage.namespace
    )


def test_kind_that_owns_no_data_goes_with_least_rights(
    stage: Stage, plane: Plane, api: Api, tmp_path: Path
) -> None:
    """Claims may not be listed: a warning says that they are not counted, in the plan too."""
    account = _few(stage, plane, api, tmp_path, "", "services")
    assert account.run(SERVICE, *STAY).exit_code == 0
    planned = account.run(*STAY, dry_run=DryRun.SERVER, check=True)
    story = account.run(*STAY)
    for one in (planned, story):
        assert one.exit_code == 0, one.events
        (warning,) = [text for text in one.warnings if "not counted" in text]
        assert "the persistentvolumeclaims and statefulsets.apps that the server deletes" in warning
        assert "service/web" in warning
        assert "this account may not list them" in warning
        assert "applyprune rbac web" in warning
    assert story.outcomes["service/web"] is Outcome.PRUNED
    said = [str(one) for one in planned.plan.guards if one.guard == "cascade"]
    assert ["as far as is known" in one for one in said] == [True]


@pytest.mark.holds("may-own-data")
def test_kind_that_may_own_data_is_refused_with_least_rights(
    stage: Stage, plane: Plane, api: Api, tmp_path: Path
) -> None:
    """Its Pods get claims of their own: refused, until the option names the object."""
    account, name = _few(stage, plane, api, tmp_path, "apps", "statefulsets"), "statefulset.apps/db"
    assert account.run(STATEFUL, *STAY).exit_code == 0
    kinds = frozenset({"statefulset"})
    story = account.run(*STAY, allow_kinds=kinds)
    assert story.exit_code == 6, story.events
    told = story.problem(name)
    assert "its cascaded deletions cannot be counted: " in told
    assert "persistentvolumeclaims: " in told
    assert f"it is unknown what {name} would cascade-delete" in story.refusal
    assert not [one for one in story.warnings if "not counted" in one]
    approved = account.run(*STAY, allow_kinds=kinds, approved=story.deletions)
    assert approved.exit_code == 6
    allowed = frozenset({name})
    assert account.run(*STAY, allow_kinds=kinds, allow_cascade=allowed).exit_code == 0


@pytest.mark.holds("unread-owners")
def test_owner_that_cannot_be_read_is_refused(
    stage: Stage, plane: Plane, api: Api, tmp_path: Path
) -> None:
    """Nobody knows whether it is itself owned by what is pruned."""
    rights = [
        rule("", ["configmaps"], WRITE),
        rule("apps", ["statefulsets"], ["list"]),
        rule("", ["persistentvolumeclaims"], ["list"]),
    ]
    path = kubeconfig_as("few", plane, api, stage.namespace, tmp_path, *rights)
    few = Stage(path, stage.namespace)
    assert few.run(OWNER, *STAY).exit_code == 0
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "theirs"}}
    secrets = f"/api/v1/namespaces/{stage.namespace}/secrets"
    owner = api.create(secrets, secret)
    _make(api, stage.namespace, CLAIM, {**secret, "metadata": owner["metadata"]})
    story = few.run(*STAY)
    assert story.exit_code == 6, story.events
    told = story.problem("configmap/owner")
    assert "its owner secret/theirs: " in told
    assert stage.run(*STAY).exit_code == 0


def test_owner_of_a_kind_that_is_not_served_is_refused(stage: Stage, api: Api) -> None:
    """The garbage collector waits for the kind, and may find then that the owner is gone."""
    _applied(stage, api, OWNER, *STAY)
    owner: Body = {"apiVersion": "x.example.com/v1", "kind": "Never", "metadata": {"name": "one"}}
    owner["metadata"]["uid"] = "11111111-2222-3333-4444-555555555555"
    _make(api, stage.namespace, CLAIM, owner)
    story = stage.run(*STAY)
    assert story.exit_code == 6, story.events
    told = story.problem("configmap/owner")
    assert "its owner never.x.example.com/one: its kind is not served" in told


def test_each_owner_is_read_once(spoiled: Stage, stage: Stage, api: Api, proxy: FaultProxy) -> None:
    """One list for each guarded kind, one GET for each owner, and nothing if nothing is pruned."""
    owner = _applied(stage, api, OWNER, *STAY)
    team = _make(api, stage.namespace, config_map("team"))
    middle = _make(api, stage.namespace, config_map("middle"), team)
    for number in range(5):
        claim = {**CLAIM, "metadata": {"name": f"data-{number}"}}
        _make(api, stage.namespace, claim, middle, owner)
    before = len(proxy.exchanges)
    assert spoiled.run(OWNER, *STAY).exit_code == 0
    sent = [one.path for one in proxy.exchanges[before:]]
    assert not [path for path in sent if "claims" in path or "statefulsets" in path]
    before = len(proxy.exchanges)
    assert spoiled.run(*STAY).exit_code == 0
    sent = [one.path for one in proxy.exchanges[before:] if one.method == "GET"]
    core = f"/api/v1/namespaces/{stage.namespace}"
    assert sent.count(f"{core}/persistentvolumeclaims") == 1
    assert sent.count(f"/apis/apps/v1/namespaces/{stage.namespace}/statefulsets") == 1
    for name in ("team", "middle"):
        assert sent.count(f"{core}/configmaps/{name}") == 1
    # That of the pruned one only shows that it is gone.
    assert [sent.count(f"{core}/configmaps/{name}") for name in ("owner", "stay-1")] == [1, 0]
