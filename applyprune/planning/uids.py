"""Which UIDs say that two objects are the same one, or that one owns the other.

kube-apiserver gives each object that it stores a UID of its own. The server of an aggregated API
says itself which UID its objects have, and may say any: OpenShift serves the roles of RBAC a second
time with their UIDs; another server might claim the UID of a stranger. So what it says is never
compared with an object of another group, while its own objects may be looked up among those of
kube-apiserver: whoever runs it can hide objects of its own only.

Every group that is not built in counts as such a server's. For a CRD that loses nothing: no object
of another group has the UID of a custom resource.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from applyprune.model.live import LiveObject, items, text
from applyprune.planning.order import is_built_in


def uid_of(live: LiveObject) -> str:
    """Return what an object is known by: its UID, with its group where another server may say it.

    A UID of kube-apiserver has no slash, so the two forms never meet.
    """
    return uid_in(live.ref.group, live.uid)


def uid_in(group: str, uid: str) -> str:
    """Return what an object of a group is known by; empty without a UID."""
    # guard: uid-of-a-server -> uid
    return uid if not uid or is_built_in(group) else f"{group}/{uid}"


def uids_of(objects: Iterable[LiveObject]) -> frozenset[str]:
    return frozenset(map(uid_of, objects))


def is_among(live: LiveObject, uids: Collection[str]) -> bool:
    """Return whether an object is one of those that are known by ``uids``."""
    return known_as(live, uids) in uids


def known_as(live: LiveObject, uids: Collection[str]) -> str:
    """Return by which of ``uids`` an object is known; if by none, what it is known by itself."""
    return live.uid if live.uid in uids else uid_of(live)  # guard: served-twice -> uid_of(live)


def each_once(objects: Iterable[LiveObject]) -> dict[str, LiveObject]:
    """Return objects by what they are known by; what two groups serve once, as built in."""
    found = {uid_of(live): live for live in objects}
    return {uid: live for uid, live in found.items() if known_as(live, found) == uid}


def owners_of(live: LiveObject) -> frozenset[str]:
    """Return what the owners of an object are known by; their group is that of their apiVersion."""
    return frozenset(
        uid_in(text(owner, "apiVersion").rpartition("/")[0], text(owner, "uid"))
        for owner in items(live.metadata, "ownerReferences")
    )
