"""Find what the garbage collector deletes with the deleted objects: guarded kinds, and the set.

An ownerReference may name any object, also one of another team. The server deletes an object once
none of its owners is left, at any depth.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from applyprune.model.identity import GVK, Ref
from applyprune.model.live import LiveObject, items, text
from applyprune.model.options import Propagation
from applyprune.planning.snapshot import CascadeContents
from applyprune.values import dataclass, field

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Deletion:
    """An object that a plan deletes, itself or with a Namespace or CRD."""

    cause: Ref
    """The object of the plan."""
    live: LiveObject
    """The object that is deleted: that one, or one of its contents."""
    collects: bool = True
    """Whether what it owns is deleted with it; with the propagation Orphan it stays."""


@dataclass(frozen=True, slots=True)
class OwnerReference:
    """An owner as an object names it; ``namespace`` is that of the object."""

    gvk: GVK
    namespace: str
    name: str
    uid: str


@dataclass(slots=True)
class OwnerChains:
    """What was read: the objects that count, and their owners at any depth, by UID."""

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
    failures: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    """Why a guarded kind could not be listed, by namespace and kind; an empty name is for all."""

    def count_owned(self, own: Iterable[LiveObject], deleted: Collection[str]) -> None:
        """Count those of the set's ``own`` objects that deleted ones own, at any depth."""
        children = children_of(own)
        left, seen = list(deleted), set(deleted)
        while left:
            for live in children.get(left.pop(), ()):
                if live.uid not in seen and not live.terminating:
                    seen.add(live.uid)
                    left.append(live.uid)
                    self.counted[live.uid] = live  # guard: owned-and-listed

    def to_read(self) -> Sequence[OwnerReference]:
        """Return the owners that must be read next, each once."""
        known = self.objects.keys() | self.absent | self.lasting | self.unknown.keys()
        found: dict[str, OwnerReference] = {}
        todo = list(self.counted.values())
        seen: set[str] = set()
        while todo:
            live = todo.pop()
            for owner in owner_references(live):
                if owner.uid not in known:
                    found.setdefault(owner.uid, owner)
                elif owner.uid in self.objects and owner.uid not in seen:
                    seen.add(owner.uid)
                    todo.append(self.objects[owner.uid])
        return tuple(found.values())


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


def places_of(deletions: Iterable[Deletion]) -> frozenset[str]:
    """Return the namespaces in which dependants may be; an empty name for all, and none at all.

    The owner of an object in a namespace is in that namespace, or in none.
    """
    return frozenset(deletion.live.ref.namespace for deletion in deletions if deletion.collects)


def dependants(deletions: Sequence[Deletion], chains: OwnerChains) -> Mapping[Ref, CascadeContents]:
    """Return the objects that count and are deleted with each object of the plan.

    An object that neither has such objects, nor may have, is left out.
    """
    deleted = {deletion.live.uid for deletion in deletions}
    children = children_of(chains.objects.values())
    going = {uid for uid, live in chains.objects.items() if live.terminating}
    gone = deleted | chains.absent | going
    start = [deletion.live.uid for deletion in deletions if deletion.collects]
    certain = collected(children, start, gone)
    # guard: unread-owners
    possible = collected(children, [*start, *chains.unknown], gone | chains.unknown.keys())
    causes: defaultdict[str, set[Ref]] = defaultdict(set)
    for deletion in deletions:
        if deletion.collects:
            causes[deletion.live.uid].add(deletion.cause)
    found: defaultdict[Ref, dict[str, LiveObject]] = defaultdict(dict)
    doubts: defaultdict[Ref, dict[str, None]] = defaultdict(dict)
    for uid, live in sorted(chains.counted.items(), key=lambda one: one[1].ref):
        if uid in certain:
            for cause in _causes_of(live, causes, certain):
                found[cause][uid] = live
        elif uid in possible:
            reason = f"{live.ref}: {_doubt(live, chains, possible)}"
            for deletion in deletions:
                if deletion.collects and deletion.live.ref.namespace in {"", live.ref.namespace}:
                    doubts[deletion.cause][reason] = None
    for deletion in deletions:
        failures = chains.failures.get(deletion.live.ref.namespace) if deletion.collects else None
        if failures:
            doubts[deletion.cause].update(
                dict.fromkeys(f"{kind}: {reason}" for kind, reason in failures.items())
            )
    return {
        cause: CascadeContents(tuple(found[cause].values()), "; ".join([*doubts[cause]][:_SHOWN]))
        for cause in sorted({*found, *doubts})
    }


def collected(
    children: Mapping[str, Sequence[LiveObject]], roots: Iterable[str], gone: Iterable[str]
) -> Mapping[str, LiveObject]:
    """Return by UID what is deleted with ``roots``: nothing else owns it, at any depth.

    ``gone`` are all objects that do not count as owners; they are not in the result.
    """
    found: dict[str, LiveObject] = {}
    left = list(roots)
    ends = {*left, *gone}
    while left:
        for live in children.get(left.pop(), ()):
            if live.uid not in ends and owners_of(live) <= ends:
                ends.add(live.uid)
                found[live.uid] = live
                left.append(live.uid)
    return found


def children_of(objects: Iterable[LiveObject]) -> Mapping[str, Sequence[LiveObject]]:
    """Return objects by the UID of each of their owners."""
    found: defaultdict[str, list[LiveObject]] = defaultdict(list)
    for live in objects:
        for owner in owners_of(live):
            found[owner].append(live)
    return found


def owners_of(live: LiveObject) -> frozenset[str]:
    """Return the UIDs of an object's owners."""
    return frozenset(text(owner, "uid") for owner in items(live.metadata, "ownerReferences"))


def owner_references(live: LiveObject) -> Iterator[OwnerReference]:
    """Yield the owners that an object names."""
    for owner in items(live.metadata, "ownerReferences"):
        gvk = GVK.parse(text(owner, "apiVersion"), text(owner, "kind"))
        yield OwnerReference(gvk, live.ref.namespace, text(owner, "name"), text(owner, "uid"))


def _causes_of(
    live: LiveObject, causes: Mapping[str, set[Ref]], certain: Mapping[str, LiveObject]
) -> set[Ref]:
    """Return the objects of the plan among the owners of an object, at any depth."""
    found: set[Ref] = set()
    seen: set[str] = set()
    todo = [live]
    while todo:
        for uid in owners_of(todo.pop()) - seen:
            seen.add(uid)
            found |= causes.get(uid, set())
            if uid in certain:
                todo.append(certain[uid])
    return found


def _doubt(live: LiveObject, chains: OwnerChains, possible: Mapping[str, LiveObject]) -> str:
    """Return why it is not known whether an object would be deleted."""
    todo, seen = [live], {live.uid}
    while todo:
        for owner in owner_references(todo.pop()):
            if owner.uid in chains.unknown:
                return chains.unknown[owner.uid]
            if owner.uid in possible and owner.uid not in seen:
                seen.add(owner.uid)
                todo.append(possible[owner.uid])
    return "its owners could not be read"
