"""Count what a cascading delete would remove.

The contents of Namespaces and CRDs, which needs the proof that the list of kinds is complete. What
the garbage collector would delete: when something would be deleted, one metadata-only LIST for each
guarded kind and namespace, and one metadata-only GET for each distinct owner of what these contain.
Of the set's own objects, what they name as their owners is known already.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from applyprune.engine.context import WorkerPool
from applyprune.engine.listing import KindProofs
from applyprune.errors import ApplypruneError, NotFound, Unreachable
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.live import (
    API_SERVICES,
    CRD,
    GUARDED_KINDS,
    NAMESPACE,
    CompleteResourceMap,
    LiveObject,
    Resource,
    ResourceMap,
)
from applyprune.model.options import Mode
from applyprune.planning.cascade import (
    IN_FULL,
    Deletion,
    OwnerChains,
    OwnerReference,
    deletions_of,
    dependants,
    owner_references,
    places_of,
)
from applyprune.planning.leave import left_entries, objects_to_prune
from applyprune.planning.recovery import CascadeContents, ClusterSnapshot, is_restored
from applyprune.planning.served_kinds import MissingKinds
from applyprune.values import dataclass, field, replace

if TYPE_CHECKING:
    from typing import Protocol, TypeVar

    from applyprune.engine.context import RunContext
    from applyprune.engine.ports import Cluster
    from applyprune.model.inventory import Inventory
    from applyprune.planning.desired import Resolved

    _T = TypeVar("_T")
    _R = TypeVar("_R")

    class _Each(Protocol):
        def __call__(self, call: Callable[[_T], _R], items: Iterable[_T], /) -> Iterable[_R]: ...


_CLUSTER_SCOPED = frozenset({"namespace", "persistentvolume", "customresourcedefinition"})


@dataclass(slots=True)
class DependantCounter:
    """Counts the dependants of one plan's deletions; reads nothing twice; thread-safe."""

    cluster: Cluster
    workers: WorkerPool
    resource_map: ResourceMap
    known: Sequence[LiveObject] = ()
    """The live objects of the plan."""
    found: Mapping[Ref, CascadeContents] = field(default_factory=dict)
    """The dependants of everything that was counted so far."""
    _deletions: dict[tuple[Ref, str], Deletion] = field(default_factory=dict)
    _chains: OwnerChains = field(default_factory=OwnerChains)
    _listed: set[str] = field(default_factory=set)
    _owners: dict[Ref, LiveObject | str | None] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(
        self, deletions: Iterable[Deletion], *, in_worker: bool = False
    ) -> Mapping[Ref, CascadeContents]:
        """Return what is deleted with these deletions, and with all that were counted before.

        A worker thread must say so.
        """
        each = map if in_worker else self.workers.each
        with self._lock:
            self._deletions |= {(one.cause, one.live.uid): one for one in deletions}
            if not self._deletions:
                return {}
            everything = tuple(self._deletions.values())
            objects = self._chains.objects
            for live in (*self.known, *(one.live for one in everything)):
                objects.setdefault(live.uid, live)
            self._list(places_of(everything), each)
            collecting = {one.live.uid for one in everything if one.collects}
            self._chains.count_owned(self.known, collecting)
            while wanted := self._chains.to_read():
                self._read(wanted, each)
            if not in_worker:
                self.workers.check()
            self.found = dependants(everything, self._chains)
            return self.found

    def _list(self, places: Iterable[str], each: _Each) -> None:
        """List the guarded kinds in each namespace; all namespaces at once for an empty name."""
        wanted = set(places) - self._listed
        if "" in wanted:
            self._list_in([""], each)
        left = wanted - {""}
        # Who may not list all namespaces may perhaps list some.
        if "" not in self._listed or self._chains.failures.get(""):
            self._list_in(sorted(left), each)
        self._listed |= wanted

    def _list_in(self, namespaces: Sequence[str], each: _Each) -> None:
        self._listed |= {*namespaces}
        calls = [
            (kind, namespace)
            for namespace in namespaces
            for kind, word in GUARDED_KINDS.items()
            if not (namespace and word in _CLUSTER_SCOPED)
        ]
        for (kind, namespace), found, failure in each(self._listing, calls):
            if failure:
                self._chains.failures[namespace][_plural(kind, self.resource_map)] = failure
            for live in found:
                self._chains.objects[live.uid] = live
                if not live.terminating and any(owner_references(live)):
                    self._chains.counted[live.uid] = live

    def _listing(
        self, call: tuple[GroupKind, str]
    ) -> tuple[tuple[GroupKind, str], Sequence[LiveObject], str]:
        kind, namespace = call
        resource = self.resource_map.find_kind(kind)
        if resource is None:
            return call, (), "its kind is not served"
        try:
            return call, self.cluster.list(resource, namespace=namespace), ""
        except Unreachable:
            raise
        except ApplypruneError as error:
            return call, (), error.message

    def _read(self, wanted: Sequence[OwnerReference], each: _Each) -> None:
        """Read owners, one request for each name."""
        chains = self._chains
        targets: list[tuple[OwnerReference, Ref]] = []
        to_get: dict[Ref, Resource] = {}
        for owner in wanted:
            kind = owner.gvk.group_kind
            resource = self.resource_map.find(owner.gvk) or self.resource_map.find_kind(kind)
            if resource is None:
                chains.unknown[owner.uid] = f"its owner {_named(owner)}: its kind is not served"
                continue
            if resource.namespaced and not owner.namespace:
                chains.lasting.add(owner.uid)
                continue
            namespace = owner.namespace if resource.namespaced else ""
            ref = Ref(resource.group, resource.kind, namespace, owner.name)
            targets.append((owner, ref))
            if ref not in self._owners:
                to_get[ref] = resource
        for ref, state in each(self._owner, to_get.items()):
            self._owners[ref] = state
        for owner, ref in targets:
            found = self._owners.get(ref, "it was not read")
            if isinstance(found, str):
                chains.unknown[owner.uid] = f"its owner {_named(owner)}: {found}"
            elif found is None or found.uid != owner.uid:
                chains.absent.add(owner.uid)
            else:
                chains.objects[owner.uid] = found

    def _owner(self, call: tuple[Ref, Resource]) -> tuple[Ref, LiveObject | str | None]:
        ref, resource = call
        try:
            return ref, self.cluster.get(resource, ref)
        except Unreachable:
            raise
        except NotFound:
            return ref, None
        except ApplypruneError as error:
            return ref, error.message


def _plural(kind: GroupKind, resource_map: ResourceMap) -> str:
    resource = resource_map.find_kind(kind)
    return resource.full_plural if resource is not None else str(kind)


def _named(owner: OwnerReference) -> str:
    return Ref(owner.gvk.group, owner.gvk.kind, "", owner.name).short


@dataclass(frozen=True, slots=True)
class ContentCounter:
    """Counts the contents of Namespaces and CRDs; ``deleted`` is what the same prune deletes."""

    proofs: KindProofs
    deleted: frozenset[Ref]

    def contents_of_deleted(self) -> Mapping[Ref, CascadeContents]:
        """Return the contents of each Namespace and CRD that is deleted."""
        return {
            ref: self.contents(ref)
            for ref in sorted(self.deleted)
            if ref.group_kind in {NAMESPACE, CRD}
        }

    def contents(self, ref: Ref) -> CascadeContents:
        """Return the contents of one Namespace or CRD."""
        return self._namespace(ref) if ref.group_kind == NAMESPACE else self._definition(ref)

    def _namespace(self, ref: Ref) -> CascadeContents:
        # An APIService that this run deletes need not answer.
        services = {
            gone.name for gone in self.deleted if gone.group_kind == API_SERVICES.group_kind
        }
        proof = self.proofs.of(leaving=services)
        kinds = [kind for kind in self.proofs.resource_map.preferred.values() if kind.namespaced]
        return self._counted(proof, kinds, ref.name)

    def _definition(self, ref: Ref) -> CascadeContents:
        plural, _, group = ref.name.partition(".")
        proof = self.proofs.of({group})
        kinds = [
            kind
            for kind in self.proofs.resource_map.preferred.values()
            if (kind.plural, kind.group) == (plural, group)
        ]
        counted = self._counted(proof, kinds)
        if kinds or counted.uncounted:
            return counted
        # Objects may still exist: a version that is not served hides them.
        return replace(counted, uncounted="its kind is not served")

    def _counted(
        self,
        proof: CompleteResourceMap | MissingKinds,
        kinds: Iterable[Resource],
        namespace: str = "",
    ) -> CascadeContents:
        cluster, workers = self.proofs.cluster, self.proofs.workers
        contents, failures = list_kinds(
            cluster, workers, kinds, namespace=namespace, in_full=IN_FULL if namespace else ()
        )
        if isinstance(proof, MissingKinds):  # guard: count-needs-kinds
            failures.insert(0, proof.reason)
        return CascadeContents(tuple(contents), "; ".join(failures[:3]))


def list_kinds(
    cluster: Cluster,
    workers: WorkerPool,
    kinds: Iterable[Resource],
    *,
    namespace: str = "",
    selector: str = "",
    full: bool = False,
    in_full: Collection[GroupKind] = (),
) -> tuple[list[LiveObject], list[str]]:
    """Return every object of some kinds, and the reason for each kind that cannot be read.

    ``full`` reads the bodies too; ``in_full`` has the kinds of which the bodies are always read.
    """
    contents: list[LiveObject] = []
    failures: list[str] = []

    def read(resource: Resource) -> tuple[Sequence[LiveObject], str]:
        bodies = full or resource.group_kind in in_full
        try:
            return cluster.list(resource, namespace=namespace, selector=selector, full=bodies), ""
        except ApplypruneError as error:
            return (), f"{resource.full_plural}: {error.message}"

    for found, failure in workers.each(read, kinds):
        contents += found
        if failure:
            failures.append(failure)
    return contents, failures


def with_cascades(
    snapshot: ClusterSnapshot,
    counted: DependantCounter,
    resolved: Resolved,
    inventory: Inventory,
    context: RunContext,
    kept: Collection[Ref],
) -> ClusterSnapshot:
    """Return the snapshot with what would be deleted with the objects to prune; not with ``kept``.

    That is the contents of Namespaces and CRDs, and what the garbage collector would delete.
    """
    options, cluster, workers = context.options, context.cluster, context.workers
    if options.mode is Mode.ORPHAN:
        return snapshot
    to_prune = objects_to_prune(
        left_entries(resolved.desired, inventory, snapshot, options),
        snapshot,
        context.applyset,
        options,
        desired=resolved.desired,
        left_out=kept,
    )
    if not to_prune or is_restored(inventory, snapshot):
        return snapshot
    known = snapshot.registered
    resource_map = counted.resource_map
    proofs = KindProofs(cluster, workers, resource_map, cluster.patience, known=known)
    counter = ContentCounter(proofs, frozenset(live.ref for live in to_prune))
    contents = counter.contents_of_deleted()
    deletions = deletions_of(to_prune, contents, options.prune.propagation)
    return replace(
        snapshot,
        contents=contents,
        dependants=counted.count(deletions),
        registered=proofs.registered,
    )
