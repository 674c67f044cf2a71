"""What else a deletion deletes, and why a deleted object still exists.

The API server deletes contents and dependents without asking, so they are counted first. What this
prune does not delete itself forbids the delete, unless the user allows exactly that by name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from applyprune.errors import PruneRefused
from applyprune.model.fate import Fate
from applyprune.model.fieldset import Path, SetMember
from applyprune.model.identity import GVK, Ref
from applyprune.model.kinds import (
    ENDPOINT_SLICE,
    GUARDED_KINDS,
    IN_EACH_NAMESPACE,
    NAMESPACE,
    POD,
    SERVICE_ACCOUNT,
    Trait,
    kinds_with,
)
from applyprune.model.live import LiveObject, items, mapping, text
from applyprune.model.options import Options, Propagation
from applyprune.model.plan import ApplyStep, Cascaded, Plan
from applyprune.model.problem import Problem, ProblemKind
from applyprune.model.text import and_more, counted
from applyprune.planning.applyset import MANAGERS, ApplySetIdentity
from applyprune.planning.order import is_built_in
from applyprune.planning.pods import grace_of
from applyprune.planning.uids import (
    each_once,
    is_among,
    known_as,
    owners_of,
    uid_in,
    uid_of,
    uids_of,
)
from applyprune.planning.world import CascadeContents
from applyprune.values import replace

NOTHING = CascadeContents(())
"""No contents."""
_GENERATED = kinds_with(Trait.GENERATED)
"""The kinds that nobody counts."""
_SHOWN = 5
_LINES = 10
"""How many objects that must stay have a line."""
_LINE = "\n    "
_CASCADES = "cascade-deletes"
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_SLICE_MAKERS = frozenset(
    {"endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"}
)
_CONTROL_PLANE = "kube-controller-manager"
_PARTS = ("annotations", "finalizers", "labels", "ownerReferences")
_ACCOUNT_FIELDS = ("automountServiceAccountToken", "imagePullSecrets")


class Cascade(Struct, frozen=True):
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
    lacks_rights: bool = False
    """Whether only missing rights keep it from being counted."""
    unlisted: tuple[str, ...] = ()
    """The kinds that the account may not list, where that refuses nothing."""
    is_passing: bool = False
    """Whether only kinds that come or go keep it from being counted."""
    is_set: bool = False
    """Whether ``foreign`` are the objects of a Bundle's set: it is there to take them along."""

    @property
    def harms(self) -> bool:
        """Return whether objects that must stay would be deleted, or may be."""
        return bool(self.uncounted or (self.foreign and not self.is_set))


_NO_CASCADE = Cascade(0, ())


class Cascades(Struct, frozen=True):
    """The cascaded deletions of every Namespace, CRD and owner that has left the set."""

    found: Mapping[Ref, Cascade]
    """The cascade of each object that has any."""
    listed: Collection[Ref]
    """All refs in the set's inventory."""
    desired: Mapping[Ref, frozenset[Ref]] = field(default_factory=dict)
    """The desired objects in each such Namespace, of each such CRD, or of each such owner."""
    stays: Mapping[Ref, str] = field(default_factory=dict)
    """Why this prune does not delete an object that is listed."""

    def of(self, ref: Ref) -> Cascade:
        """Return the cascade of an object; an empty one if it has none."""
        return self.found.get(ref, _NO_CASCADE)

    def foreign(self, ref: Ref) -> tuple[Ref, ...]:
        """Return the objects that only the delete of ``ref`` would delete."""
        return tuple(sorted({*self.of(ref).foreign, *self.desired.get(ref, ())}))

    def described(self, ref: Ref) -> str:
        """Return the cascaded deletions of an object in words; empty if there are none."""
        cascade = self.of(ref)
        if not cascade.total:
            return ""
        if cascade.is_set:
            count, names = counted(len(cascade.foreign), "object"), named(cascade.foreign)
            return f"its controller deletes the {count} of its set: {names}" if names else ""
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
        return f"{text}, {' and '.join(parts)}: {named(cascade.foreign)}"

    def harm(self, refs: Sequence[Ref]) -> str:
        """Return in short what speaks against the deletion of objects that harm, or may."""
        harmed = [ref for ref in refs if self.foreign(ref) and not self.of(ref).is_set]
        known = ", ".join(ref.short for ref in harmed)
        unknown = ", ".join(ref.short for ref in refs if ref not in harmed)
        parts = (
            f"{known} would cascade-delete objects that must stay" if known else "",
            f"it is unknown what {unknown} would cascade-delete" if unknown else "",
        )
        return "; ".join(filter(None, parts))

    def loss(self, ref: Ref) -> str:
        """Return what only the delete of ``ref`` would delete, with the first names."""
        return f"{ref.short} would {loss_of(self.foreign(ref))}"

    def lacks_rights(self, ref: Ref) -> bool:
        """Return whether an object is refused only because a right to count is missing."""
        cascade = self.of(ref)
        return cascade.lacks_rights and not (cascade.foreign or self.desired.get(ref))

    def refusal(self, ref: Ref, allowed: Collection[str]) -> Problem | None:
        """Return why an object may not be deleted because of its contents; None if it may.

        ``allowed`` names those that may, as ``Ref.is_among`` takes them.
        """
        cascade = self.of(ref)
        if wanted := self.desired.get(ref):
            names = ", ".join(_named(other) for other in sorted(wanted)[:_SHOWN])
            return PruneRefused(
                f"{ref.short} was not deleted",
                reason=f"it would cascade-delete objects of the input: {names}",
                hint=f"Add it to the input again, or orphan it: --orphan {ref.short}",
            ).problem
        if ref.is_among(allowed):
            return None
        if cascade.foreign and not cascade.is_set:
            reason = self._stays(cascade)
        elif cascade.uncounted:
            reason = f"its cascaded deletions cannot be counted: {cascade.uncounted}"
        else:
            return None
        return PruneRefused(f"{ref.short} was not deleted", reason=reason).problem

    def _stays(self, cascade: Cascade) -> str:
        """Return how many objects must stay, and below it a line for each of the first."""
        roots = {root.ref for root in cascade.roots}
        # What others of them own says nothing new.
        refs = sorted(cascade.foreign, key=lambda other: (other not in roots, other))
        why = {
            other: self.stays.get(other)
            or ("it stays in this set" if other in self.listed else "it is not in this set")
            for other in refs
        }
        lines = and_more([f"{_named(other)}: {why[other]}" for other in refs], _LINES, _LINE)
        count = counted(len(refs), "object")
        return f"it would cascade-delete {count} that must stay{_LINE}{lines}"


def loss_of(refs: Collection[Ref]) -> str:
    """Return in words that the deletion of an object deletes others."""
    return f"cascade-delete {counted(len(refs), 'object')}: {named(refs)}"


def named(refs: Iterable[Ref]) -> str:
    """Return the names of the first of some objects, those of the guarded kinds before others."""
    shown = sorted(refs, key=lambda ref: (ref.group_kind not in GUARDED_KINDS, ref))
    return and_more([_named(ref) for ref in shown], _SHOWN)


def _named(ref: Ref) -> str:
    return f"{ref.namespace}/{ref.short}" if ref.namespace else ref.short


def cascade_of(
    contents: CascadeContents,
    deleting: Collection[str],
    manager: str,
    dependants: CascadeContents = NOTHING,
    staying: Collection[str] = (),
) -> Cascade:
    """Return the cascade of a delete; an object that two groups serve counts once.

    What somebody has deleted already does not count.

    ``deleting`` has the UIDs of the objects that this prune deletes. Objects that the set leaves,
    orphans or still wants are not in it: their namespace would delete them too. ``manager`` is the
    set's field manager. ``dependants`` is what the garbage collector deletes with the object.
    ``staying`` has the UIDs of the set's objects that must stay, whatever owns them.
    """
    unique = each_once(
        live for live in contents.objects if not (live.terminating or is_generated(live, manager))
    )
    ours = set(deleting)
    left = {uid: live for uid, live in unique.items() if not is_among(live, ours)}
    # An object that is owned by an object of ours is ours too, at any depth.
    while made := {
        uid
        for uid, live in left.items()
        if not is_among(live, staying) and _is_collected_with(live, ours)
    }:
        ours |= made
        left = {uid: live for uid, live in left.items() if uid not in made}
    inside = set(left)
    roots = {uid: live for uid, live in left.items() if not owners_of(live) & inside}
    # guard: owned-by-ours -> {}
    owned = {uid_of(live): live for live in dependants.objects if not is_among(live, deleting)}
    uncounted = [part for part in (contents, dependants) if part.uncounted]
    return Cascade(
        len(unique | owned),
        tuple(sorted(live.ref for live in (left | owned).values())),
        "; ".join(part.uncounted for part in uncounted),
        tuple(sorted(Cascaded(live.ref, live.uid) for live in (roots | owned).values())),
        bool(uncounted) and all(part.lacks_rights for part in uncounted),
        dependants.unlisted,
        bool(uncounted) and all(part.is_passing for part in uncounted),
    )


def _is_collected_with(live: LiveObject, ours: Collection[str]) -> bool:
    """Return whether an object comes and goes with some; anybody may name an owner for data."""
    return not owners_of(live).isdisjoint(ours) and live.ref.group_kind not in GUARDED_KINDS


def is_generated(live: LiveObject, manager: str = "") -> bool:
    """Return whether the system makes an object itself, with nothing of its own to lose.

    What the field manager ``manager`` has set counts as nothing.
    """
    kind, name = live.ref.group_kind, live.ref.name
    if (kind, name) in IN_EACH_NAMESPACE:
        # guard: default-account -> True
        return kind != SERVICE_ACCOUNT or not _has_content(live, manager)
    if kind == ENDPOINT_SLICE:
        # guard: endpoint-slices -> True
        return live.labels.get(_MANAGED_BY) in _SLICE_MAKERS and bool(owners_of(live))
    return kind in _GENERATED


def _has_content(live: LiveObject, manager: str) -> bool:
    """Return whether somebody has given content to a ServiceAccount that the system makes empty.

    The system's own has no managedFields, and then the server records no later writer either.
    """
    if live.writers:
        return any(one.manager not in {_CONTROL_PLANE, manager} for one in live.writers)
    body = live.body or {}
    # Before 1.24, the system made a token for it.
    tokens = [name for one in items(body, "secrets") if (name := text(one, "name"))]
    return (
        any(live.metadata.get(part) for part in _PARTS)
        or any(body.get(name) is not None for name in _ACCOUNT_FIELDS)
        or not all(name.startswith("default-token-") for name in tokens)
    )


# What the garbage collector deletes with the deleted objects.


_SHOWN_DOUBTS = 3


class Deletion(Struct, frozen=True):
    """An object that a plan deletes, itself or with a Namespace or CRD."""

    cause: Ref
    """The object of the plan."""
    live: LiveObject
    """The object that is deleted: that one, or one of its contents."""
    collects: bool = True
    """Whether what it owns is deleted with it; with the propagation Orphan it stays."""


class OwnerReference(Struct, frozen=True):
    """An owner as an object names it; ``namespace`` is that of the object."""

    gvk: GVK
    namespace: str
    name: str
    uid: str

    @property
    def known_as(self) -> str:
        """Return what the owner is known by."""
        return uid_in(self.gvk.group, self.uid)


class ListFailure(Struct, frozen=True):
    """Why a kind could not be listed."""

    reason: str
    is_forbidden: bool = False
    """Whether a right is missing."""
    is_passing: bool = False
    """Whether the kind comes or goes, so that the next try may succeed."""


class OwnerChains(Struct):
    """What was read: the objects that count, and their owners at any depth.

    Each is named by what it is known by: see ``uids.py``.
    """

    objects: dict[str, LiveObject] = field(default_factory=dict)
    """All objects that are known to exist."""
    counted: dict[str, LiveObject] = field(default_factory=dict)
    """Those of the guarded kinds that have an owner, and the set's own that may be deleted."""
    absent: set[str] = field(default_factory=set)
    """The owners that do not exist any more."""
    lasting: set[str] = field(default_factory=set)
    """The owners that the server never takes for gone: what has no namespace names one in some."""
    unknown: dict[str, str] = field(default_factory=dict)
    """The owners that could not be read, and why."""
    failures: dict[str, dict[str, ListFailure]] = field(default_factory=lambda: defaultdict(dict))
    """Why a guarded kind could not be listed, by namespace and kind; an empty name is for all."""

    def count_owned(self, own: Iterable[LiveObject], deleted: Collection[str]) -> None:
        """Count those of the set's ``own`` objects that deleted ones own, at any depth."""
        children = children_of(own)
        left, seen = list(deleted), set(deleted)
        while left:
            for live in children.get(left.pop(), ()):
                if (uid := uid_of(live)) not in seen and not live.terminating:
                    seen.add(uid)
                    left.append(uid)
                    self.counted[uid] = live  # guard: owned-and-listed

    def to_read(self) -> Sequence[OwnerReference]:
        """Return the owners that must be read next, each once."""
        known = self.objects.keys() | self.absent | self.lasting | self.unknown.keys()
        owners = owners_above(self.counted.values(), self.objects)
        return [owner for owner in owners if owner.known_as not in known]


def deletions_of(
    deleted: Iterable[LiveObject],
    contents: Mapping[Ref, CascadeContents],
    propagation: Propagation,
) -> Iterator[Deletion]:
    """Yield what is deleted with the objects that a plan deletes: themselves, and contents."""
    for live in deleted:
        yield Deletion(live.ref, live, collects=propagation is not Propagation.ORPHAN)
        inside = contents.get(live.ref)
        # The contents are deleted by controllers, which do not know the propagation.
        yield from (Deletion(live.ref, one) for one in (inside.objects if inside else ()))


def dependent_namespaces(deletions: Iterable[Deletion]) -> frozenset[str]:
    """Return the namespaces in which dependants may be; an empty name for all, and none at all.

    The owner of an object in a namespace is in that namespace, or in none.
    """
    return frozenset(deletion.live.ref.namespace for deletion in deletions if deletion.collects)


def dependants(deletions: Sequence[Deletion], chains: OwnerChains) -> Mapping[Ref, CascadeContents]:
    """Return the objects that count and are deleted with each object of the plan.

    An object that neither has such objects, nor may have, is left out.
    """
    causes = _causes(deletions, chains)
    children = children_of(chains.objects.values())
    going = {uid for uid, live in chains.objects.items() if live.terminating}
    deleted = uids_of(deletion.live for deletion in deletions)
    start = list(causes)
    gone = deleted | chains.absent | going
    certain = collected(children, start, gone)
    # guard: unread-owners -> certain
    possible = collected(children, [*start, *chains.unknown], gone | chains.unknown.keys())
    found: defaultdict[Ref, dict[str, LiveObject]] = defaultdict(dict)
    doubts: defaultdict[Ref, dict[str, bool]] = defaultdict(dict)
    unlisted: defaultdict[Ref, dict[str, None]] = defaultdict(dict)
    for uid, live in sorted(chains.counted.items(), key=lambda one: one[1].ref):
        if uid in certain:
            above = owners_above([live], certain)
            for cause in {cause for owner in above for cause in causes.get(owner.known_as, ())}:
                found[cause][uid] = live
        elif uid in possible:
            whys = (chains.unknown.get(one.known_as) for one in owners_above([live], possible))
            why = next(filter(None, whys), "its owners could not be read")
            reason = f"{live.ref}: {why}"
            for deletion in deletions:
                if deletion.collects and deletion.live.ref.namespace in {"", live.ref.namespace}:
                    doubts[deletion.cause][reason] = False
    for deletion in deletions:
        failures = chains.failures.get(deletion.live.ref.namespace) if deletion.collects else None
        for kind, failure in (failures or {}).items():
            # guard: may-own-data -> failure.is_forbidden
            if failure.is_forbidden and not may_own_data(deletion.live, children):
                unlisted[deletion.cause][kind] = None
            else:
                doubts[deletion.cause][f"{kind}: {failure.reason}"] = failure.is_forbidden
    return {
        cause: CascadeContents(
            tuple(found[cause].values()),
            "; ".join([*doubts[cause]][:_SHOWN_DOUBTS]),
            bool(doubts[cause]) and all(doubts[cause].values()),
            tuple(unlisted[cause]),
        )
        for cause in sorted({*found, *doubts, *unlisted})
    }


def _causes(deletions: Sequence[Deletion], chains: OwnerChains) -> Mapping[str, Collection[Ref]]:
    """Return the objects of the plan that cause the deletion of each owner."""
    causes: defaultdict[str, set[Ref]] = defaultdict(set)
    for deletion in deletions:
        if deletion.collects:
            causes[uid_of(deletion.live)].add(deletion.cause)
    # What names an owner by a second group that serves it is collected with it as well.
    twins = {
        uid: causes[same]
        for uid, live in chains.objects.items()
        if (same := known_as(live, causes)) in causes
    }
    return {**causes, **twins}  # guard: owner-served-twice -> causes


_CLAIMS = frozenset({"ephemeral", "volumeClaimTemplates"})
"""The fields from which controllers make claims that an object, or its Pods, own."""


def may_own_data(live: LiveObject, children: Collection[str]) -> bool:
    """Return whether objects such as this one own claims and StatefulSets in practice.

    These are custom resources, the guarded kinds, what makes claims for its Pods, and what a known
    object names as its owner: ``children`` are what those are known by. Of a ConfigMap, a Secret, a
    Service or a Role, that is unheard of.
    """
    kind = live.ref.group_kind
    return (
        not is_built_in(kind.group)
        or kind in GUARDED_KINDS
        or is_among(live, children)
        or any(_CLAIMS.intersection(path) for one in live.writers for path in one.fields.leaves())
    )


def collected(
    children: Mapping[str, Sequence[LiveObject]], roots: Iterable[str], gone: Iterable[str]
) -> Mapping[str, LiveObject]:
    """Return what is deleted with ``roots``: nothing else owns it, at any depth.

    ``gone`` are all objects that do not count as owners; they are not in the result.
    """
    found: dict[str, LiveObject] = {}
    left = list(roots)
    ends = {*left, *gone}
    while left:
        for live in children.get(left.pop(), ()):
            if (uid := uid_of(live)) not in ends and owners_of(live) <= ends:
                ends.add(uid)
                found[uid] = live
                left.append(uid)
    return found


def children_of(objects: Iterable[LiveObject]) -> Mapping[str, Sequence[LiveObject]]:
    """Return objects by what each of their owners is known by."""
    found: defaultdict[str, list[LiveObject]] = defaultdict(list)
    for live in objects:
        for owner in owners_of(live):
            found[owner].append(live)
    return found


def owners_above(
    start: Iterable[LiveObject], known: Mapping[str, LiveObject]
) -> Iterator[OwnerReference]:
    """Yield the owners of some objects, and the owners of those that are known, each once."""
    todo = list(start)
    seen: set[str] = set()
    while todo:
        for owner in owner_references(todo.pop()):
            if (uid := owner.known_as) not in seen:
                seen.add(uid)
                yield owner
                if uid in known:
                    todo.append(known[uid])


def owner_references(live: LiveObject) -> Iterator[OwnerReference]:
    for owner in items(live.metadata, "ownerReferences"):
        gvk = GVK.parse(text(owner, "apiVersion"), text(owner, "kind"))
        yield OwnerReference(gvk, live.ref.namespace, text(owner, "name"), text(owner, "uid"))


def uncounted_problem(plan: Plan, applyset: ApplySetIdentity) -> Problem | None:
    """Return the warning that not all is counted that goes with what a plan deletes; else None."""
    fates = {Fate.RECREATE} if plan.no_prune else {Fate.RECREATE, Fate.PRUNE}
    found = [step for step in plan.steps if step.fate in fates and step.unlisted]
    if not found:
        return None
    kinds = " and ".join(sorted({kind for step in found for kind in step.unlisted}))
    names = and_more([ref.short for ref in sorted(step.entry.ref for step in found)], _SHOWN)
    return Problem(
        ProblemKind.FORBIDDEN,
        f"the {kinds} that the server deletes with {names} are not counted",
        reason="this account may not list them",
        hint=f"To see the rights that this set needs: {applyset.roles_command}",
    )


# Recreations, judged by what the garbage collector would delete with the old object.


def recreations_judged(
    plan: Plan,
    dependants: Mapping[Ref, CascadeContents],
    listed: Collection[Ref],
    options: Options,
) -> tuple[ApplyStep, ...]:
    """Return the applies of a plan with the cascades of recreations; what harms others is refused.

    ``dependants`` is what is deleted with each deleted object, ``listed`` are all refs in the
    inventory.
    """
    deleting = [
        step.live
        for step in plan.steps
        if step.live is not None and step.fate in {Fate.PRUNE, Fate.RECREATE}
    ]
    cascades = cascades_of(dependants, deleting, listed)

    def judged(step: ApplyStep) -> ApplyStep:
        ref = step.desired.ref
        if step.fate is not Fate.RECREATE or ref not in cascades.found:
            return step
        step = replace(step, unlisted=cascades.of(ref).unlisted)
        if problem := refused_recreation_of(ref, cascades, options):
            located = replace(problem, location=str(step.desired.origin))
            return replace(step, fate=Fate.REFUSE, problem=located, request=None, deletion=None)
        words = cascades.described(ref)
        reason = "; ".join(part for part in (step.reason, words) if part)
        return replace(step, reason=reason, cascade=cascades.found[ref].roots)

    return tuple(map(judged, plan.applies))


def cascades_of(
    dependants: Mapping[Ref, CascadeContents],
    deleting: Iterable[LiveObject],
    listed: Collection[Ref],
) -> Cascades:
    """Return the cascades of what is recreated; ``deleting`` is all that is deleted."""
    uids = uids_of(deleting)
    found = {ref: cascade_of(NOTHING, uids, "", owned) for ref, owned in dependants.items()}
    return Cascades(found, listed)


def refused_recreation_of(ref: Ref, cascades: Cascades, options: Options) -> Problem | None:
    """Return why an object may not be recreated because of what it owns; None if it may."""
    # guard: recreation-cascade -> None
    problem = cascades.refusal(ref, options.prune.allow_cascade)
    if problem is None:
        return None
    return replace(
        problem,
        message=f"{ref.short} cannot be changed in place, and was not recreated",
        hint=f"To allow this: --allow-cascade {ref.short}",
    )


# Why a deleted object still exists: its finalizers, and who has set them.
#
# Nothing here decides to remove a finalizer: its owner still has work to do.


# The finalizers of Kubernetes itself, by the names in its source (1.36).
_BUILT_IN: Mapping[str, str] = {
    "foregroundDeletion": "the garbage collector removes it once the object's dependents are gone",
    "orphan": "the garbage collector removes it once the dependents no longer name their owner",
    "kubernetes.io/pvc-protection": (
        "the PVC protection controller removes it once no Pod uses the claim"
    ),
    "kubernetes.io/pv-protection": (
        "the PV protection controller removes it once the volume is bound to no claim"
    ),
    "kubernetes.io/pv-controller": (
        "the volume controller removes it once the storage behind the volume is deleted"
    ),
    "kubernetes.io/vac-protection": (
        "the VAC protection controller removes it once no volume and no claim uses the class"
    ),
    "batch.kubernetes.io/job-tracking": (
        "the Job controller removes it once it has counted the Pod"
    ),
    "service.kubernetes.io/load-balancer-cleanup": (
        "the cloud controller manager removes it once the load balancer is deleted"
    ),
    "resource.kubernetes.io/delete-protection": (
        "the resource claim controller removes it once no Pod uses the claim"
    ),
    "networking.k8s.io/service-cidr-finalizer": (
        "the service CIDR controller removes it once no Service has an address of the range"
    ),
    "customresourcecleanup.apiextensions.k8s.io": (
        "the API server removes it once every custom resource of the kind is gone"
    ),
}


def has_foreign_finalizer(live: LiveObject) -> bool:
    """Return whether a controller from outside Kubernetes must clean up after an object."""
    return any(name not in _BUILT_IN for name in live.finalizers)


def diagnose(live: LiveObject, remains: CascadeContents | None = None) -> str:
    """Return what blocks a deletion, in clauses.

    ``remains`` is the remaining content of a Namespace or CRD.
    """
    clauses = [*_finalizer_clauses(live)]
    if live.ref.group_kind == POD:
        clauses += filter(None, [grace_of(live.body or {"metadata": live.metadata})])
    conditions = map(mapping, items(live.body or {}, "status", "conditions"))
    clauses += [
        str(facts.get("message", ""))
        for facts in conditions
        if facts.get("status") == "True" and str(facts.get("type", "")).startswith("Namespace")
    ]
    if remains is not None:
        # Two groups may serve the same object.
        unique = each_once(remains.objects).values()
        left = sorted(unique, key=lambda member: (not member.finalizers, member.ref))
        clauses += _remaining_clauses(live, left, remains.uncounted)
        for member in left[:_SHOWN]:
            clauses += _finalizer_clauses(member)
    # A finalizer may block many objects of a namespace: explain it only once.
    return "; ".join(dict.fromkeys(clauses)) or "the server has not removed it yet"


def _finalizer_clauses(live: LiveObject) -> Iterator[str]:
    for name in live.finalizers:
        yield from _explained(name, _owners(live, name, "metadata"))
    if live.ref.group_kind == NAMESPACE:
        # A Namespace also has finalizers in its spec.
        for name in items(live.body or {}, "spec", "finalizers"):
            if name == "kubernetes":
                yield f"finalizer {name}: the namespace controller removes it once nothing is left"
            else:
                yield from _explained(name, _owners(live, name, "spec"))


def _explained(name: str, managers: Sequence[str]) -> Iterator[str]:
    if name in _BUILT_IN:
        yield f"finalizer {name}: {_BUILT_IN[name]}"
        return
    if not managers:
        yield f"finalizer {name}, owned by no field manager"
    for manager in managers:
        who = "the manifest" if manager.startswith(MANAGERS) else manager
        yield f"finalizer {name}, set by {who}"


def _owners(live: LiveObject, name: str, part: str) -> Sequence[str]:
    """Return the managers of a finalizer; if there are none, those of the whole list."""
    exact: dict[str, None] = {}
    whole: dict[str, None] = {}
    for one in live.writers:
        path: Path = (part, "finalizers")
        if one.fields.names((*path, SetMember(name))):
            exact[one.manager] = None
        elif path in one.fields and not one.fields.is_split(path):
            whole[one.manager] = None
    return tuple(exact or whole)


def _remaining_clauses(live: LiveObject, left: Sequence[LiveObject], unread: str) -> Iterator[str]:
    if left:
        names = and_more([_named_in(member, live) for member in left], _SHOWN)
        yield f"it still contains {names}"
    elif not unread:
        yield "it is empty"
    if unread:
        yield f"its contents could not be read completely ({unread})"


def _named_in(member: LiveObject, holder: LiveObject) -> str:
    name = member.ref.short if member.ref.namespace == holder.ref.name else str(member.ref)
    if not member.finalizers:
        return name
    plural = "s" if len(member.finalizers) > 1 else ""
    return f"{name} (finalizer{plural} {', '.join(member.finalizers)})"
