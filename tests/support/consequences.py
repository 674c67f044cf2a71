"""Changes of a plan, and what was read beside it, for the tables of the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.model.fate import Fate
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.live import LiveObject, Resource
from applyprune.planning.consequences import Change, ConsequenceReads, Facts, consequences
from tests.support.planning import TARGET, desired, managed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from applyprune.model.plan import Consequence

Body = dict[str, Any]

_GROUPS = {
    "CronJob": "batch",
    "CustomResourceDefinition": "apiextensions.k8s.io",
    "DaemonSet": "apps",
    "Database": "x.example.com",
    "Deployment": "apps",
    "Job": "batch",
    "ReplicaSet": "apps",
    "StatefulSet": "apps",
}
_CLUSTER = {"CustomResourceDefinition", "Namespace", "PersistentVolume"}
_KINDS = (
    *_GROUPS,
    *_CLUSTER,
    "ConfigMap",
    "Event",
    "PersistentVolumeClaim",
    "Pod",
    "ReplicationController",
    "Secret",
    "Service",
)


def resource(kind: str) -> Resource:
    """Return the endpoint of a kind."""
    group = _GROUPS.get(kind, "")
    return Resource(group, "v1", kind, f"{kind.lower()}s", namespaced=kind not in _CLUSTER)


KINDS: Mapping[GroupKind, Resource] = {resource(kind).group_kind: resource(kind) for kind in _KINDS}


def ref(kind: str, name: str, namespace: str = "home") -> Ref:
    """Return a ref, in namespace ``home`` unless the kind has none."""
    place = "" if kind in _CLUSTER else namespace
    return Ref(_GROUPS.get(kind, ""), kind, place, name)


def live(kind: str, name: str, *owners: str, uid: str = "", **parts: Any) -> LiveObject:
    """Return a live object whose UID is its name by default, with owners by their UID."""
    namespace = parts.pop("namespace", "home")
    metadata = {
        "name": name,
        "ownerReferences": [{"uid": owner} for owner in owners],
        **parts.pop("metadata", {}),
    }
    full = {"metadata": metadata, **parts} if parts else None
    return LiveObject.of(ref(kind, name, namespace), uid or name, "5", metadata, full)


def change(
    kind: str,
    name: str = "web",
    fate: Fate = Fate.CHANGE,
    *,
    before: Body | None = None,
    manifest: Body | None = None,
    after: Body | None = None,
    owned: Body | None = None,
    taken: frozenset[str] = frozenset(),
    **metadata: Any,
) -> Change:
    """Return a change; without ``after`` the server has not checked it.

    ``owned`` are the fields that the set's manager owns, and ``taken`` whose it takes.
    """
    place = ref(kind, name)
    there: LiveObject | None = None
    if fate is not Fate.CREATE:
        entries = [managed(fields="x", fieldsV1=owned or {})]
        known = {"name": name, "uid": name, "managedFields": entries, **metadata}
        body = None if before is None else {"metadata": known, **before}
        there = LiveObject.of(place, name, "5", known, body)
    wanted = None
    if fate is not Fate.PRUNE:
        endpoint = resource(kind)
        raw = {"apiVersion": endpoint.gvk.api_version, "kind": kind, "metadata": {"name": name}}
        wanted = desired({**raw, **(manifest or after or {})}, endpoint)
    return Change(place, fate, wanted, there, after, taken | {TARGET.manager}, taken)


def found(
    *changes: Change,
    read: Iterable[LiveObject] | None = None,
    failed: Mapping[str, str] | None = None,
    **facts: Any,
) -> list[Consequence]:
    """Return the consequences of some changes; without ``read`` nothing else was read."""
    objects: dict[GroupKind, list[LiveObject]] = {}
    if read is not None:
        objects = {kind: [] for kind in KINDS}
        for each in read:
            objects[each.ref.group_kind].append(each)
    failures = {resource(kind).group_kind: why for kind, why in (failed or {}).items()}
    for kind in failures:
        objects.pop(kind, None)
    related = ConsequenceReads(objects, failures)
    return list(consequences(Facts(changes, kinds=KINDS, related=related, **facts)))


def told(consequences: Iterable[Consequence]) -> list[str]:
    """Return each consequence as its kind and its message."""
    return [f"{caused.kind}: {caused.message}" for caused in consequences]
