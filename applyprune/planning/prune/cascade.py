"""What goes along: the contents of a Namespace, the custom resources of a CRD, and whose they are.

The API server asks nobody before it takes them along, so they are counted before the delete, and
what would not go by itself forbids it unless the user allows exactly that by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from applyprune.errors import PruneRefused, as_problem
from applyprune.model.display import and_more
from applyprune.model.identity import GroupKind, Ref
from applyprune.planning.snapshot import CascadeContents

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from applyprune.model.live import LiveObject
    from applyprune.model.options import Options
    from applyprune.model.problem import Problem

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
class Cascade:
    """What a delete takes along.

    ``total`` counts everything that matters; ``foreign`` is what would not go by itself: neither
    an object that this prune deletes anyway, nor what such an object has made. ``uncounted`` says
    what could not be read.
    """

    total: int
    foreign: tuple[Ref, ...]
    uncounted: str = ""


@dataclass(frozen=True, slots=True)
class Cascades:
    """What each Namespace and CRD that is leaving would take along; ``listed`` is the set's own.

    ``coming`` is what of the input would be in a Namespace, or of a CRD, that is leaving.
    """

    found: Mapping[Ref, Cascade] = field(hash=False)
    listed: Collection[Ref]
    coming: Mapping[Ref, frozenset[Ref]] = field(default_factory=dict, hash=False)

    def foreign(self, ref: Ref) -> tuple[Ref, ...]:
        """Return what would go along with an object and not by itself."""
        cascade = self.found.get(ref)
        there = cascade.foreign if cascade is not None else ()
        return tuple(sorted({*there, *self.coming.get(ref, ())}))

    def described(self, ref: Ref) -> str:
        """Return in words what would go along with an object; empty when nothing would."""
        cascade = self.found.get(ref)
        if cascade is None or not cascade.total:
            return ""
        text = f"takes along {cascade.total} objects"
        if not cascade.foreign:
            return text
        strangers = [one for one in cascade.foreign if one not in self.listed]
        parts = []
        if strangers:
            parts.append(f"{len(strangers)} of which are not of this set")
        if stay := len(cascade.foreign) - len(strangers):
            parts.append(f"{stay} of which are to stay")
        names = and_more([_named(one) for one in cascade.foreign], _SHOWN)
        return f"{text}, {' and '.join(parts)}: {names}"

    def refusal(self, ref: Ref, options: Options) -> Problem | None:
        """Return why an object may not be deleted for what it holds; None when it may."""
        cascade = self.found.get(ref)
        if wanted := self.coming.get(ref):
            names = ", ".join(_named(one) for one in sorted(wanted)[:_SHOWN])
            return as_problem(
                PruneRefused(
                    f"{ref.short} was not deleted",
                    reason=f"it would take along what the input wants: {names}",
                    hint=f"Put it back into the input, or orphan it: --orphan {ref.short}",
                )
            )
        if cascade is None or ref.is_among(options.prune.allow_cascade):
            return None
        if cascade.foreign:
            why = f"it {self.described(ref)}"
        elif cascade.uncounted:
            why = f"what it would take along cannot be counted: {cascade.uncounted}"
        else:
            return None
        return as_problem(PruneRefused(f"{ref.short} was not deleted", reason=why))


def cascade_of(contents: CascadeContents, going: Collection[str]) -> Cascade:
    """Return whose the contents are; an object served under two groups counts once, by its UID.

    ``going`` holds the UIDs of what this prune deletes. What the set leaves, orphans or still
    wants is not among them: it would die with its namespace all the same.
    """
    unique = {live.uid: live for live in contents.lives if not _is_passing(live)}
    ours = set(going)
    left = {uid: live for uid, live in unique.items() if uid not in ours}
    # What an object of ours has made is ours, and so is what that has made.
    while made := {uid for uid, live in left.items() if _owners(live) & ours}:
        ours |= made
        left = {uid: live for uid, live in left.items() if uid not in made}
    foreign = tuple(sorted(live.ref for live in left.values()))
    return Cascade(len(unique), foreign, contents.uncounted)


def _is_passing(live: LiveObject) -> bool:
    kind = live.ref.group_kind
    return kind in _PASSING or (not kind.group and (kind.kind, live.ref.name) in _SYSTEMS_OWN)


def _owners(live: LiveObject) -> set[str]:
    return {str(owner.get("uid")) for owner in live.metadata.get("ownerReferences") or ()}


def _named(ref: Ref) -> str:
    return f"{ref.namespace}/{ref.short}" if ref.namespace else ref.short
