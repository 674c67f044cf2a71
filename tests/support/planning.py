"""Values for the tables of the planning tests, with defaults for irrelevant fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from applyprune.model.identity import Ref
from applyprune.model.inventory import ApplyFingerprint, Inventory, InventoryEntry
from applyprune.model.live import LiveObject, Resource, ResourceMap, State
from applyprune.model.options import Options
from applyprune.model.plan import Desired
from applyprune.model.problem import Origin
from applyprune.planning.applyset import OWNED_BY, PART_OF, applyset_identity, set_of
from applyprune.planning.normalize import manifest_digest, normalize
from applyprune.planning.order import wave_of
from applyprune.planning.ownership import fingerprint_of
from applyprune.planning.world import World
from applyprune.values import packed

TARGET = applyset_identity("web", "home")
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)
SECRETS = Resource("", "v1", "Secret", "secrets", namespaced=True)
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", namespaced=True)
JOBS = Resource("batch", "v1", "Job", "jobs", namespaced=True)
CLUSTER_ROLES = Resource(
    "rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False
)
DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
)
ALL = (CONFIG_MAPS, SECRETS, NAMESPACES, DEPLOYMENTS, JOBS, CLUSTER_ROLES, DEFINITIONS)
CATALOGUE = ResourceMap(
    {one.gvk: one for one in ALL},
    {one.group_kind: one for one in ALL},
    frozenset({"metrics.k8s.io"}),
)
TIME = "2026-11-21T10:00:00Z"


def body(kind: str = "ConfigMap", name: str = "a", **parts: Any) -> dict[str, Any]:
    """Return a manifest's body; ``metadata`` is merged."""
    resource = next((one for one in ALL if one.kind == kind), CONFIG_MAPS)
    metadata = {"name": name, **parts.pop("metadata", {})}
    return {"apiVersion": resource.gvk.api_version, "kind": kind, "metadata": metadata, **parts}


def desired(raw: dict[str, Any] | None = None, resource: Resource = CONFIG_MAPS) -> Desired:
    """Return a settled manifest in namespace ``home``."""
    raw = raw or body()
    namespace = "home" if resource.namespaced else ""
    sent = normalize(raw, namespace=namespace, set_id=TARGET.id)
    return Desired(
        ref=Ref(resource.group, resource.kind, namespace, raw["metadata"]["name"]),
        resource=resource,
        packed=packed(sent),
        digest=manifest_digest(sent),
        wave=wave_of(resource.group_kind),
        orphan_reason="",
        has_ttl=resource is JOBS,
        origin=Origin("set.yaml", 1, 1),
    )


def managed(manager: str = TARGET.manager, fields: object = "f", **parts: Any) -> dict[str, Any]:
    """Return an entry of managedFields; that of a set owns the annotation of ownership too."""
    entry = {"manager": manager, "operation": "Apply", "apiVersion": "v1", "time": TIME}
    owned: dict[str, Any] = {str(fields): {}}
    if set_of(manager) and not manager.endswith("-yielded"):
        owned["f:metadata"] = {"f:annotations": {f"f:{OWNED_BY}": {}}}
    return {**entry, "fieldsV1": owned, **parts}


def live(  # one keyword for each property that a test may change
    ref: Ref,
    *,
    uid: str = "u1",
    version: str = "5",
    label: str = TARGET.id,
    entries: list[dict[str, Any]] | None = None,
    full: dict[str, Any] | None = None,
    **metadata: Any,
) -> LiveObject:
    """Return a live object, by default with our label and field manager."""
    everything = {
        "name": ref.name,
        "namespace": ref.namespace,
        "uid": uid,
        "resourceVersion": version,
        "labels": {PART_OF: label} if label else {},
        "annotations": {OWNED_BY: TARGET.id},
        "managedFields": [managed()] if entries is None else entries,
        **metadata,
    }
    return LiveObject.of(ref, uid, version, everything, full)


def recorded(one: Desired, state: LiveObject, **changes: Any) -> InventoryEntry:
    """Return the entry that a confirmed apply of ``one`` left, as ``state`` showed it."""
    facts: dict[str, Any] = {
        "ref": one.ref,
        "plural": one.resource.plural,
        "version": one.resource.version,
        "uid_before_apply": None,
        "uid": state.uid,
        "digest": one.digest,
        "fingerprint": fingerprint_of(state, TARGET.manager, None),
        "wave": one.wave,
    }
    return InventoryEntry(**{**facts, **changes})


def inventory(*entries: InventoryEntry, **changes: Any) -> Inventory:
    """Return a stored inventory of these entries."""
    facts: dict[str, Any] = {"uid": "i1", "resource_version": "9", "generation": 3}
    listed = {entry.ref: entry for entry in entries}
    return Inventory("web", "home", entries=listed, **{**facts, **changes})


EVIDENCE = ApplyFingerprint("5", None, "digest", TIME)


def cluster(states: Mapping[Ref, State], **parts: Any) -> dict[str, Any]:
    """Return what was read of the cluster: the fields of a World, with every kind served."""
    return {"states": states, "resources": CATALOGUE.preferred, **parts}


def world(
    members: Sequence[Desired],
    listed: Inventory,
    read: Mapping[str, Any],
    options: Options | None = None,
    **parts: Any,
) -> World:
    """Return what a plan for these objects of the input is made from."""
    return World(TARGET, listed, options or Options(), tuple(members), **{**read, **parts})
