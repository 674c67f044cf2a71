"""Changes of a plan, and the volumes that were read, for the tables of the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject, Resource
from applyprune.model.options import Propagation
from applyprune.planning.consequences import Change, consequences
from tests.support.planning import TARGET, desired, managed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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


def resource(kind: str) -> Resource:
    """Return the endpoint of a kind."""
    group = _GROUPS.get(kind, "")
    return Resource(group, "v1", kind, f"{kind.lower()}s", namespaced=kind not in _CLUSTER)


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
    taken: frozenset[str] = frozenset(),
    cascade: Sequence[LiveObject] = (),
    uncounted: str = "",
    **metadata: Any,
) -> Change:
    """Return a change; without ``after`` the server has not checked it.

    ``taken`` are the managers whose fields the set takes.
    """
    place = ref(kind, name)
    there: LiveObject | None = None
    if fate is not Fate.CREATE:
        entries = [managed(fields="x", fieldsV1={})]
        known = {"name": name, "uid": name, "managedFields": entries, **metadata}
        body = None if before is None else {"metadata": known, **before}
        there = LiveObject.of(place, name, "5", known, body)
    wanted = None
    if fate is not Fate.PRUNE:
        endpoint = resource(kind)
        raw = {"apiVersion": endpoint.gvk.api_version, "kind": kind, "metadata": {"name": name}}
        wanted = desired({**raw, **(manifest or after or {})}, endpoint)
    managers = taken | {TARGET.manager}
    return Change(place, fate, wanted, there, after, managers, taken, cascade, uncounted)


def found(
    *changes: Change,
    volumes: Sequence[LiveObject] | str | None = None,
    propagation: Propagation = Propagation.BACKGROUND,
) -> list[Consequence]:
    """Return the consequences of some changes; those with the fate LEAVE are only in the input."""
    wanted = [change.desired for change in changes if change.desired is not None]
    changed = [change for change in changes if change.fate is not Fate.LEAVE]
    return list(consequences(changed, wanted, propagation, volumes))


def told(consequences: Iterable[Consequence]) -> list[str]:
    """Return each consequence as its kind and its message."""
    return [f"{caused.kind}: {caused.message}" for caused in consequences]
