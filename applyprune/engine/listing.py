"""Prove that the list of kinds is complete, and find the objects of a set by their label.

A server that has just started gets time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING

from applyprune.engine.context import WorkerPool
from applyprune.errors import ApplypruneError, Forbidden
from applyprune.model.identity import GroupKind
from applyprune.model.inventory import Inventory
from applyprune.model.live import (
    CompleteResourceMap,
    LiveObject,
    Registrations,
    Resource,
    ResourceMap,
)
from applyprune.planning.applyset import PART_OF, ApplySetIdentity
from applyprune.planning.managed_fields import is_applied
from applyprune.planning.served_kinds import MissingKinds, cannot_count, not_served, prove
from applyprune.values import dataclass, field, replace

if TYPE_CHECKING:
    from applyprune.engine.ports import Cluster

_NAMED = 3
_PAUSE = 0.5


@dataclass(slots=True)
class KindProofs:
    """The proofs for one read of the cluster; the CRDs and APIServices are read when needed.

    All waits together take at most ``patience`` seconds.
    """

    cluster: Cluster
    workers: WorkerPool
    resource_map: ResourceMap
    """What the server serves, as last read."""
    patience: float
    known: Registrations | MissingKinds | None = None
    """The CRDs and APIServices, if they were read already, or why they could not be."""
    _gives_up: float | None = None
    _lock: Lock = field(default_factory=Lock)

    @property
    def registered(self) -> Registrations | None:
        """Return the CRDs and APIServices as last read; None if they were not."""
        return self.known if isinstance(self.known, Registrations) else None

    def of(
        self, groups: Collection[str] | None = None, *, leaving: Collection[str] = ()
    ) -> CompleteResourceMap | MissingKinds:
        """Return the proof for some groups, or for all; or what is missing.

        ``leaving`` are APIServices that need not answer.
        """

        def proof(registered: Registrations) -> CompleteResourceMap | MissingKinds:
            return prove(self.resource_map, registered, groups=groups, leaving=leaving)

        with self._lock:
            return self._retried(proof)

    def for_search(self, groups: Collection[str] | None) -> tuple[ResourceMap, tuple[str, ...]]:
        """Return the list of kinds for a search by label, and what the search may miss, in words.

        ``groups`` are those that may not miss any kind; None stands for all groups that answer.
        Without the right to read CRDs and APIServices, two lists of kinds must agree, and the
        server must be ready. Raises Unavailable.
        """

        def proof(registered: Registrations) -> CompleteResourceMap | MissingKinds:
            found = prove(self.resource_map, registered, groups=groups)
            if groups is None and isinstance(found, MissingKinds) and found.only_silent:
                return prove(self.resource_map, registered, but=found.silent)
            return found

        with self._lock:
            found = self._retried(proof)
            self.workers.check()
            if isinstance(found, MissingKinds) and found.is_forbidden:
                return self._agreed(), (found.reason,)
            if isinstance(found, MissingKinds):  # guard: search-needs-kinds
                raise cannot_count(found.reason)
            return self.resource_map, self._unsearched()

    def _retried(
        self,
        proof: Callable[[Registrations], CompleteResourceMap | MissingKinds],
    ) -> CompleteResourceMap | MissingKinds:
        """Read again until there is a proof, or the patience has ended."""
        if self.resource_map.remembered:  # guard: proof-not-remembered
            self.resource_map = self.cluster.resource_map()
        while True:
            registered = self.known = self.known or self._registrations()
            found = registered if isinstance(registered, MissingKinds) else proof(registered)
            if isinstance(found, CompleteResourceMap) or found.is_forbidden or not self._waits():
                return found
            self.resource_map = self.cluster.resource_map()
            self.known = None

    def _unsearched(self) -> tuple[str, ...]:
        """Return what is missing in other groups than those of the proof, in words."""
        if self.registered is None:
            return ()
        found = prove(self.resource_map, self.registered)
        return (found.reason,) if isinstance(found, MissingKinds) else ()

    def _registrations(self) -> Registrations | MissingKinds:
        try:
            return self.cluster.registrations()
        except ApplypruneError as error:
            return MissingKinds(unread=error.message, is_forbidden=isinstance(error, Forbidden))

    def _waits(self) -> bool:
        """Wait a moment; return False if the patience has ended, or the run is cancelled."""
        now = self.workers.now()
        if self._gives_up is None:
            self._gives_up = now + self.patience
        return now < self._gives_up and not self.workers.pause(_PAUSE)

    def _agreed(self) -> ResourceMap:
        """Return a list of kinds that the server, which is ready, gives twice."""
        while True:
            before, self.resource_map = self.resource_map, self.cluster.resource_map()
            agree = before == self.resource_map  # guard: lists-agree
            is_ready = self.cluster.is_ready()  # guard: server-ready
            if agree and is_ready:
                return self.resource_map
            if not self._waits():
                self.workers.check()
                raise cannot_count(
                    "two lists of its kinds differ" if is_ready else "the server is not ready"
                )


@dataclass(frozen=True, slots=True, order=True)
class Unlisted:
    """A kind that could not be listed; ``except_where`` names where it could."""

    plural: str
    reason: str
    kind: GroupKind
    is_refused: bool = False
    """Whether a right is missing."""
    except_where: str = ""


@dataclass(frozen=True, slots=True)
class LabelledObjects:
    """The objects found by their label."""

    objects: tuple[LiveObject, ...] = ()
    unlisted: tuple[Unlisted, ...] = ()
    """The kinds that could not be listed."""
    unproved: tuple[str, ...] = ()
    """Why the list of kinds is not proved complete, in words."""
    elsewhere: tuple[str, ...] = ()
    """What does not answer in other groups than those that were asked for, in words."""

    @property
    def unseen(self) -> tuple[str, ...]:
        """Return what could not be listed, and why, in words."""
        return (*_lines(self.unlisted), *self.unproved, *self.elsewhere)

    def unseen_in(self, groups: Collection[str]) -> tuple[str, ...]:
        """Return the part of ``unseen`` about these groups, which are those of the search.

        Where a right is missing, it may be about any group.
        """
        related = (one for one in self.unlisted if one.is_refused or one.kind.group in groups)
        return (*_lines(related), *self.unproved)

    @property
    def failed(self) -> tuple[str, ...]:
        """Return what could not be listed for another reason than a missing right."""
        return tuple(_lines(one for one in self.unlisted if not one.is_refused))


def all_labelled_objects(
    proofs: KindProofs, applyset: ApplySetIdentity, *, groups: Collection[str] | None = None
) -> tuple[LabelledObjects, ResourceMap]:
    """Return the objects of every kind that have the set's label and field manager.

    Also return the kinds that were searched. ``groups`` may not miss any kind; None stands for all
    groups that answer. Raises Unavailable if they do.
    """
    resource_map, missing = proofs.for_search(groups)
    kinds = resource_map.preferred.values()
    found = labelled_objects(proofs.cluster, proofs.workers, kinds, applyset)
    # What is missing in the groups of the search has ended it, unless a right is missing.
    is_elsewhere = groups is not None and proofs.registered is not None
    if is_elsewhere:
        return replace(found, elsewhere=missing), resource_map
    return replace(found, unproved=missing), resource_map


def labelled_objects(
    cluster: Cluster,
    workers: WorkerPool,
    kinds: Iterable[Resource],
    applyset: ApplySetIdentity,
    *,
    remembered: bool = False,
) -> LabelledObjects:
    """Return the objects of some kinds with the set's label and its manager's Apply entry.

    The label alone proves nothing: controllers copy it to the objects that they create. If
    listing the whole cluster is forbidden, list the namespace of the inventory. An object that is
    served under two groups is returned once, by its UID. With ``remembered``, it may have been
    forbidden some minutes ago.
    """

    def read(resource: Resource) -> tuple[Sequence[LiveObject], Unlisted | None]:
        selector = f"{PART_OF}={applyset.id}"
        try:
            return cluster.list(resource, selector=selector, remembered=remembered), None
        except Forbidden as error:
            refused = _unlisted(resource, error)
            if not resource.namespaced:
                return (), refused
            try:
                objects = cluster.list(resource, namespace=applyset.namespace, selector=selector)
            except Forbidden:
                return (), refused
            except ApplypruneError as second:
                return (), _unlisted(resource, second)
            return objects, replace(
                refused, except_where=f", except in the namespace {applyset.namespace}"
            )
        except ApplypruneError as error:
            return (), _unlisted(resource, error)

    found: dict[str, LiveObject] = {}
    unlisted: list[Unlisted] = []
    for objects, failure in workers.each(read, kinds):
        found |= {live.uid: live for live in objects if is_applied(live, applyset.manager)}
        if failure is not None:
            unlisted.append(failure)
    workers.check()
    return LabelledObjects(
        tuple(sorted(found.values(), key=lambda live: live.ref)), tuple(unlisted)
    )


def list_labelled(
    cluster: Cluster,
    resource: Resource,
    applyset: ApplySetIdentity,
    namespaces: Collection[str],
    *,
    full: bool = False,
) -> Sequence[LiveObject]:
    """Return the objects of a kind with the set's label.

    If listing the whole cluster is forbidden, list these namespaces.
    """
    selector = f"{PART_OF}={applyset.id}"
    try:
        return cluster.list(resource, selector=selector, full=full, remembered=True)
    except Forbidden:
        if not resource.namespaced:
            raise
        return [
            live
            for namespace in sorted(namespaces)
            for live in cluster.list(resource, namespace=namespace, selector=selector, full=full)
        ]


def hidden_namespaces(inventory: Inventory) -> frozenset[str]:
    """Return the namespaces that the inventory's annotation names, and no entry."""
    return inventory.hinted_namespaces - {ref.namespace for ref in inventory.entries}


def objects_of_hidden_kinds(
    proofs: KindProofs, inventory: Inventory, applyset: ApplySetIdentity
) -> LabelledObjects:
    """Return the set's objects of the kinds that the inventory's annotation names, and no entry.

    Somebody may have removed the entries by hand. A run never leaves such a kind. One that is not
    served could not be listed.
    """
    places = {ref.namespace for ref in inventory.entries} | inventory.hinted_namespaces
    places = (places | {applyset.namespace}) - {""}

    def read(kind: GroupKind) -> tuple[Sequence[LiveObject], Unlisted | None]:
        if (resource := proofs.resource_map.find_kind(kind)) is None:
            proof = proofs.of({kind.group})  # it gets time, and may be served then
            if (resource := proofs.resource_map.find_kind(kind)) is None:
                return (), Unlisted(str(kind), not_served(proof), kind)  # guard: hidden-not-served
        try:
            return list_labelled(proofs.cluster, resource, applyset, places), None
        except ApplypruneError as error:
            return (), _unlisted(resource, error)

    parts = list(proofs.workers.each(read, sorted(inventory.hidden_kinds)))
    proofs.workers.check()
    found = (live for objects, _ in parts for live in objects)
    marked = (live for live in found if is_applied(live, applyset.manager))
    return LabelledObjects(tuple(marked), tuple(failure for _, failure in parts if failure))


def _unlisted(resource: Resource, error: ApplypruneError) -> Unlisted:
    return Unlisted(
        resource.full_plural,
        error.message,
        resource.group_kind,
        is_refused=isinstance(error, Forbidden),
    )


def _lines(unseen: Iterable[Unlisted]) -> Iterator[str]:
    """Yield a line for each kind; join many kinds for which the same right is missing."""
    by_rights: dict[str, list[Unlisted]] = {}
    for failure in sorted(unseen):
        if failure.is_refused:
            by_rights.setdefault(failure.except_where, []).append(failure)
        else:
            yield f"{failure.plural}: {failure.reason}"
    for except_where, alike in by_rights.items():
        named, more = alike[:_NAMED], len(alike) - _NAMED
        if more < _NAMED:
            yield from (f"{failure.plural}: {failure.reason}{except_where}" for failure in alike)
        else:
            names = ", ".join(failure.plural for failure in named)
            yield f"{names} and {more} more kinds: {named[0].reason}{except_where}"
