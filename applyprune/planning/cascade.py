"""What goes along: the contents of a Namespace, the custom resources of a CRD, and whose they are.

The API server asks nobody before it takes them along, so they are counted before the delete, and
what would not go by itself forbids it unless the user allows exactly that by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from applyprune.errors import PruneRefused, as_problem
from applyprune.model.refs import GroupKind, Ref

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from applyprune.model.live import Live
    from applyprune.model.options import Options
    from applyprune.model.problems import Problem

_SHOWN = 5
# What the system keeps in every namespace, or what is worth nothing without what it is about.
_SYSTEMS_OWN = frozenset({("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt")})
_PASSING = frozenset(
    {
        GroupKind("", "Endpoints"),
        GroupKind("", "Event"),
        GroupKind("coordination.k8s.io", "Lease"),
        GroupKind("discovery.k8s.io", "EndpointSlice"),
        GroupKind("events.k8s.io", "Event"),
    }
)


@dataclass(frozen=True, slots=True)
class Contents:
    """What a Namespace or a CRD holds; ``uncounted`` says what could not be read, and why."""

    lives: tuple[Live, ...]
    uncounted: str = ""


@dataclass(frozen=True, slots=True)
class Cascade:
    """What a delete takes along.

    ``total`` counts everything; ``foreign`` is what would not go by itself: neither an object that
    this prune deletes anyway, nor what such an object has made.
    """

    total: int
    foreign: tuple[Ref, ...]


def cascade_of(contents: Contents, going: Collection[str]) -> Cascade:
    """Return whose the contents are; an object served under two groups counts once, by its UID.

    ``going`` holds the UIDs of what this prune deletes. What the set keeps, abandons or still
    wants is not among them: it would die with its namespace all the same.
    """
    unique = {live.uid: live for live in contents.lives}
    ours = set(going)
    left = {uid: live for uid, live in unique.items() if uid not in ours and not _is_passing(live)}
    # What an object of ours has made is ours, and so is what that has made.
    while made := {uid for uid, live in left.items() if _owners(live) & ours}:
        ours |= made
        left = {uid: live for uid, live in left.items() if uid not in made}
    return Cascade(len(unique), tuple(sorted(live.ref for live in left.values())))


def refusal(
    ref: Ref, contents: Contents | None, going: Collection[str], options: Options
) -> Problem | None:
    """Return why an object may not be deleted for what it holds; None when it may."""
    if contents is None or allowed(ref, options.allow_cascade):
        return None
    cascade = cascade_of(contents, going)
    hint = (
        f"Allow exactly that with --allow-cascade {ref.short}, or leave it standing with "
        f"--keep {ref.short}."
    )
    if cascade.foreign:
        names = ", ".join(_named(one) for one in cascade.foreign[:_SHOWN])
        more = len(cascade.foreign) - _SHOWN
        why = (
            f"it would take along {cascade.total} objects, {len(cascade.foreign)} of which are "
            f"not to be deleted: {names}{f' and {more} more' if more > 0 else ''}"
        )
    elif contents.uncounted:
        why = f"what it would take along cannot be counted: {contents.uncounted}"
    else:
        return None
    return as_problem(PruneRefused(f"{ref.short} was not deleted", why=why, hint=hint))


def allowed(ref: Ref, names: Iterable[str]) -> bool:
    """Return whether a ref is among names given as ``kind/name`` or ``kind.group/name``."""
    return bool({ref.short, f"{ref.kind.lower()}/{ref.name}"} & {name.lower() for name in names})


def _is_passing(live: Live) -> bool:
    kind = live.ref.group_kind
    return kind in _PASSING or (not kind.group and (kind.kind, live.ref.name) in _SYSTEMS_OWN)


def _owners(live: Live) -> set[str]:
    return {str(owner.get("uid")) for owner in live.metadata.get("ownerReferences") or ()}


def _named(ref: Ref) -> str:
    return f"{ref.namespace}/{ref.short}" if ref.namespace else ref.short
