"""Count cascaded deletions: contents of a Namespace, custom resources of a CRD, owned objects.

The API server deletes them without asking, so they are counted before the delete. Contents that
this prune does not delete itself forbid the delete, unless the user allows exactly that by name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from applyprune.errors import PruneRefused, as_problem
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.live import GUARDED_KINDS, IN_EACH_NAMESPACE, LiveObject, items, text
from applyprune.model.plan import Cascaded, Fate, RemoveStep
from applyprune.model.problem import Problem
from applyprune.model.text import and_more
from applyprune.planning.prune.dependants import owners_of
from applyprune.planning.snapshot import CascadeContents
from applyprune.values import dataclass, field

NOTHING = CascadeContents(())
"""No contents."""
_SHOWN = 5
_CASCADES = "cascade-deletes"
_SERVICE_ACCOUNT = GroupKind("", "ServiceAccount")
_SLICE = GroupKind("discovery.k8s.io", "EndpointSlice")
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_SLICE_MAKERS = frozenset(
    {"endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"}
)
_CONTROL_PLANE = "kube-controller-manager"
_PARTS = ("annotations", "finalizers", "labels", "ownerReferences")
_ACCOUNT_FIELDS = ("automountServiceAccountToken", "imagePullSecrets")
IN_FULL = frozenset({_SERVICE_ACCOUNT})
"""The kinds of which only the body shows whether the system makes an object itself."""
PASSING = frozenset(
    {GroupKind("", "Endpoints"), GroupKind("", "Event"), GroupKind("events.k8s.io", "Event")}
)
"""The kinds that nobody counts."""


@dataclass(frozen=True, slots=True)
class Cascade:
    """The cascaded deletions of one delete."""

    total: int
    """How many objects are deleted, without those that do not matter."""
    foreign: tuple[Ref, ...]
    """Those that this prune does not delete itself.

    What an object in this prune owns is left out, except for the guarded kinds, and for what the
    set lists.
    """
    uncounted: str = ""
    """What could not be read, and why; empty if all was read."""
    roots: tuple[Cascaded, ...] = ()
    """Those of ``foreign`` that no other one of them owns, and all of the guarded kinds."""


@dataclass(frozen=True, slots=True)
class Cascades:
    """The cascaded deletions of every Namespace, CRD and owner that has left the set."""

    found: Mapping[Ref, Cascade] = field(hash=False)
    """The cascade of each object that has any."""
    listed: Collection[Ref]
    """All refs in the set's inventory."""
    coming: Mapping[Ref, frozenset[Ref]] = field(default_factory=dict, hash=False)
    """The desired objects in each such Namespace, of each such CRD, or of each such owner."""

    def foreign(self, ref: Ref) -> tuple[Ref, ...]:
        """Return the objects that only the delete of ``ref`` would delete."""
        cascade = self.found.get(ref)
        there = cascade.foreign if cascade is not None else ()
        return tuple(sorted({*there, *self.coming.get(ref, ())}))

    def roots(self, step: RemoveStep) -> tuple[Cascaded, ...]:
        """Return the existing objects that only the deletion of a step's object would delete."""
        cascade = self.found.get(step.entry.ref) if step.fate is Fate.PRUNE else None
        return cascade.roots if cascade is not None else ()

    def described(self, ref: Ref) -> str:
        """Return the cascaded deletions of an object in words; empty if there are none."""
        cascade = self.found.get(ref)
        if cascade is None or not cascade.total:
            return ""
        text = f"{_CASCADES} {cascade.total} object{'' if cascade.total == 1 else 's'}"
        if not cascade.foreign:
            return text
        strangers = [other for other in cascade.foreign if other not in self.listed]
        parts = []
        if strangers:
            do = "does" if len(strangers) == 1 else "do"
            parts.append(f"{len(strangers)} of which {do} not belong to this set")
        if stay := len(cascade.foreign) - len(strangers):
            parts.append(f"{stay} of which must stay")
        names = and_more([_named(other) for other in cascade.foreign], _SHOWN)
        return f"{text}, {' and '.join(parts)}: {names}"

    def is_counted(self, ref: Ref) -> bool:
        """Return whether an object has a cascade that could be read in full."""
        cascade = self.found.get(ref)
        return cascade is not None and not cascade.uncounted

    def harms(self, ref: Ref) -> bool:
        """Return whether objects that must stay would be deleted with this one, or may be."""
        cascade = self.found.get(ref)
        return cascade is not None and bool(cascade.foreign or cascade.uncounted)

    def refusal(self, ref: Ref, allowed: Collection[str]) -> Problem | None:
        """Return why an object may not be deleted because of its contents; None if it may.

        ``allowed`` names those that may, as ``Ref.is_among`` takes them.
        """
        cascade = self.found.get(ref)
        if wanted := self.coming.get(ref):
            names = ", ".join(_named(other) for other in sorted(wanted)[:_SHOWN])
            return as_problem(
                PruneRefused(
                    f"{ref.short} was not deleted",
                    reason=f"it would cascade-delete objects of the input: {names}",
                    hint=f"Add it to the input again, or orphan it: --orphan {ref.short}",
                )
            )
        if cascade is None or ref.is_among(allowed):
            return None
        if cascade.foreign:
            told = self.described(ref).removeprefix(_CASCADES)
            reason = f"it would cascade-delete{told}"
        elif cascade.uncounted:
            reason = f"its cascaded deletions cannot be counted: {cascade.uncounted}"
        else:
            return None
        return as_problem(PruneRefused(f"{ref.short} was not deleted", reason=reason))


def cascade_of(
    contents: CascadeContents,
    deleting: Collection[str],
    manager: str,
    dependants: CascadeContents = NOTHING,
    staying: Collection[str] = (),
) -> Cascade:
    """Return the cascade of a delete; an object that two groups serve counts once, by its UID.

    ``deleting`` has the UIDs of the objects that this prune deletes. Objects that the set leaves,
    orphans or still wants are not in it: their namespace would delete them too. ``manager`` is the
    set's field manager. ``dependants`` is what the garbage collector deletes with the object.
    ``staying`` has the UIDs of the set's objects that must stay, whatever owns them.
    """
    unique = {live.uid: live for live in contents.objects if not is_passing(live, manager)}
    ours = set(deleting)
    left = {uid: live for uid, live in unique.items() if uid not in ours}
    # An object that is owned by an object of ours is ours too, at any depth.
    while made := {
        uid for uid, live in left.items() if uid not in staying and _is_made_by(live, ours)
    }:
        ours |= made
        left = {uid: live for uid, live in left.items() if uid not in made}
    inside = set(left)
    roots = {uid: live for uid, live in left.items() if not owners_of(live) & inside}
    # guard: owned-by-ours
    owned = {live.uid: live for live in dependants.objects if live.uid not in deleting}
    return Cascade(
        len(unique | owned),
        tuple(sorted(live.ref for live in (left | owned).values())),
        "; ".join(reason for reason in (contents.uncounted, dependants.uncounted) if reason),
        tuple(sorted(Cascaded(live.ref, uid) for uid, live in (roots | owned).items())),
    )


def _is_made_by(live: LiveObject, ours: Collection[str]) -> bool:
    """Return whether an object comes and goes with some; anybody may name an owner for data."""
    return not owners_of(live).isdisjoint(ours) and live.ref.group_kind not in GUARDED_KINDS


def is_passing(live: LiveObject, manager: str = "") -> bool:
    """Return whether the system makes an object itself, with nothing of its own to lose.

    What the field manager ``manager`` has set counts as nothing.
    """
    kind, name = live.ref.group_kind, live.ref.name
    if (kind, name) in IN_EACH_NAMESPACE:
        # guard: default-account
        return kind != _SERVICE_ACCOUNT or not _has_content(live, manager)
    if kind == _SLICE:
        # guard: endpoint-slices
        return live.labels.get(_MANAGED_BY) in _SLICE_MAKERS and bool(owners_of(live))
    return kind in PASSING


def _has_content(live: LiveObject, manager: str) -> bool:
    """Return whether somebody has given content to a ServiceAccount that the system makes empty.

    The system's own has no managedFields, and then the server records no later writer either.
    """
    if live.managed_fields:
        return any(
            entry.get("manager") not in {_CONTROL_PLANE, manager} for entry in live.managed_fields
        )
    body = live.body or {}
    # Before 1.24, the system made a token for it.
    tokens = [name for one in items(body, "secrets") if (name := text(one, "name"))]
    return (
        any(live.metadata.get(part) for part in _PARTS)
        or any(body.get(name) is not None for name in _ACCOUNT_FIELDS)
        or not all(name.startswith("default-token-") for name in tokens)
    )


def _named(ref: Ref) -> str:
    return f"{ref.namespace}/{ref.short}" if ref.namespace else ref.short
