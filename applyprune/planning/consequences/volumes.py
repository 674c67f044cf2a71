"""What happens to the volumes of deleted PersistentVolumeClaims, and so to their data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from applyprune.model.live import LiveObject, text
from applyprune.model.plan import Consequence, ConsequenceKind
from applyprune.model.text import and_more
from applyprune.planning.consequences.facts import CLAIM, VOLUME, Change, Facts
from applyprune.planning.consequences.owners import deleted_with

_SHOWN = 5
_ENDS = {
    "Delete": (ConsequenceKind.VOLUME_DELETED, "is deleted with its data", "are deleted with"),
    "Recycle": (ConsequenceKind.VOLUME_DELETED, "is wiped of its data", "are wiped of"),
    "Retain": (ConsequenceKind.VOLUME_KEPT, "stays with its data", "stay with"),
}


def deleted_claims(change: Change, facts: Facts) -> frozenset[str]:
    """Return the UIDs of the claims that are deleted, themselves or with another object."""
    if change.kind == CLAIM:
        return frozenset({change.uid}) if change.is_deleted and change.uid else frozenset()
    return frozenset(
        live.uid for live in deleted_with(change, facts) if live.ref.group_kind == CLAIM
    )


def volumes(change: Change, facts: Facts) -> Iterator[Consequence]:
    """Yield what happens to the bound volumes of a deleted object; nothing if unknown."""
    claims = deleted_claims(change, facts)
    if not claims or not facts.related.was_read(VOLUME):
        return
    if failure := facts.related.failures.get(VOLUME):
        whose = "its volume" if change.kind == CLAIM else "volumes"
        message = f"{whose} may be deleted with the data: {failure}"
        kind = ConsequenceKind.VOLUME_DELETED
        yield Consequence(kind, change.ref, message, certain=False)
        return
    bound = [facts.volumes[uid] for uid in sorted(claims) if uid in facts.volumes]
    for policy in _ENDS:
        alike = [live for live in bound if _policy(live) == policy]
        if alike:
            yield _consequence(change, policy, alike)


def _policy(volume: LiveObject) -> str:
    return text(volume.body or {}, "spec", "persistentVolumeReclaimPolicy", default="Retain")


def _consequence(change: Change, policy: str, bound: Sequence[LiveObject]) -> Consequence:
    kind, one, many = _ENDS[policy]
    refs = tuple(sorted(live.ref for live in bound))
    names = and_more([ref.name for ref in refs], _SHOWN)
    if change.kind == CLAIM:
        told = f"its volume {names} {one}"
    elif len(refs) == 1:
        told = f"the volume {names} {one}"
    else:
        told = f"{len(refs)} volumes {many} their data: {names}"
    message = f"{told} (reclaim policy {policy})"
    return Consequence(kind, change.ref, message, len(refs), refs)
