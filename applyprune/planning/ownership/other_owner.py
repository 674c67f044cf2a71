"""Find out whether another tool runs an object of the set by now.

People migrate from one tool to another: the new tool applies the object, then it leaves the input
of the old one. A prune must not delete it then. Marks alone prove nothing, because they outlive
their tools, and rendered charts carry Helm's. So a mark counts only if it was not there at the
set's last confirmed apply, or if its manager has written the object since. An Apply entry counts if
it has a field of the set outside ``metadata``: who only decorates an object does not run it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from applyprune.planning.fields.fieldsv1 import leaves, owns
from applyprune.planning.fields.path import Path, to_server
from applyprune.planning.ownership.managed_fields import own_apply_entry

if TYPE_CHECKING:
    from applyprune.model.inventory import InventoryEntry
    from applyprune.model.live import LiveObject
    from applyprune.planning.applyset import ApplySetIdentity

TOOL_MARKS: Mapping[tuple[str, str], str] = {
    ("annotations", "meta.helm.sh/release-name"): "Helm",
    ("labels", "kustomize.toolkit.fluxcd.io/name"): "Flux",
    ("labels", "helm.toolkit.fluxcd.io/name"): "Flux",
    ("annotations", "argocd.argoproj.io/tracking-id"): "Argo CD",
    ("labels", "argocd.argoproj.io/instance"): "Argo CD",
    ("labels", "kapp.k14s.io/app"): "kapp",
    ("annotations", "config.k8s.io/owning-inventory"): "cli-utils",
    ("annotations", "configsync.gke.io/resource-id"): "Config Sync",
    ("annotations", "objectset.rio.cattle.io/id"): "Fleet",
    ("labels", "olm.owner"): "OLM",
}
"""The labels and annotations by which other tools own an object, and the tools."""


def marks_of(live: LiveObject) -> tuple[str, ...]:
    """Return the marks of other tools on an object, each as ``KEY=VALUE``."""
    return tuple(f"{key}={text}" for _, key, text in _marks(live))


def other_owner(entry: InventoryEntry, live: LiveObject, applyset: ApplySetIdentity) -> str:
    """Return which other tool runs an object, and what shows that; empty if none does."""
    recorded = entry.fingerprint.time if entry.fingerprint is not None else ""
    for part, key, text in _marks(live):
        tool = TOOL_MARKS[part, key]
        if f"{key}={text}" not in entry.marks:
            return f"{tool} has marked it since the last apply ({key}: {text})"
        if recorded and any(
            time > recorded for time in _times(live, ("metadata", part, key), applyset)
        ):
            return f"{tool} has written it since the last apply ({key}: {text})"
    return other_applier(live, applyset)


def marking_tool(live: LiveObject, applyset: ApplySetIdentity) -> str:
    """Return which other tool has marked an object, and how; empty if none has.

    A mark in the set's own Apply entry comes from the manifest.
    """
    ours = (own_apply_entry(live, applyset.manager) or {}).get("fieldsV1") or {}
    for part, key, text in _marks(live):
        if not owns(ours, ("metadata", part, key)):
            return f"{TOOL_MARKS[part, key]} has marked it ({key}: {text})"
    return ""


def _marks(live: LiveObject) -> Iterator[tuple[str, str, str]]:
    for part, key in TOOL_MARKS:
        there = live.labels if part == "labels" else live.annotations
        if text := there.get(key):
            yield part, key, text


def _times(live: LiveObject, path: Path, applyset: ApplySetIdentity) -> Iterator[str]:
    """Yield when each other manager of a field has last written the object, RFC 3339 in UTC."""
    for entry in _others(live, applyset):
        if owns(entry.get("fieldsV1") or {}, path):
            yield str(entry.get("time", ""))


def other_applier(
    live: LiveObject, applyset: ApplySetIdentity, *, but: Collection[str] = ()
) -> str:
    """Return which other manager applies fields of the set; empty if none does.

    Of an object that the set has not applied yet, every field counts. ``but`` are managers that do
    not count.
    """
    own = own_apply_entry(live, applyset.manager)
    for entry in _others(live, applyset):
        if entry.get("operation") != "Apply" or entry.get("manager") in but:
            continue
        theirs = _substance(entry)
        if shared := theirs if own is None else theirs & _substance(own):
            first = min(to_server(path) for path in shared)
            return f"{entry.get('manager')} applies it too ({first})"
    return ""


def _others(live: LiveObject, applyset: ApplySetIdentity) -> Iterator[Mapping[str, Any]]:
    ours = {applyset.manager, applyset.yielded}
    for entry in live.managed_fields:
        if entry.get("manager") not in ours and not entry.get("subresource"):
            yield entry


def _substance(entry: Mapping[str, Any]) -> set[Path]:
    """Return the fields of an entry outside ``metadata`` and ``status``."""
    return {
        path
        for path in leaves(entry.get("fieldsV1") or {})
        if path[0] not in {"metadata", "status"}
    }
