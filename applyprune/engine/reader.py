"""Read the cluster before the plan, with as few requests as possible: objects, kinds, cascades.

One metadata-only LIST by label for each kind reads the recorded objects. New objects are read by a
LIST of their namespace if they are more than a few, otherwise by a GET each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field

from applyprune.engine.context import WorkerPool
from applyprune.errors import (
    ApplypruneError,
    Forbidden,
    NotFound,
    NotServed,
    Unavailable,
    Unreachable,
)
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.inventory import Inventory, InventoryEntry
from applyprune.model.kinds import (
    BUNDLE,
    COUNTED_WITH,
    GUARDED_KINDS,
    NAMESPACE,
    SECRET,
    SERVICE_ACCOUNT,
    Trait,
    kinds_with,
)
from applyprune.model.live import (
    API_SERVICES,
    BUNDLES,
    CONFIG_MAPS,
    DEFINITIONS,
    PODS,
    REPLICA_SETS,
    Absent,
    CompleteResourceMap,
    LiveObject,
    NotListed,
    Registrations,
    Resource,
    ResourceMap,
    State,
    Unknown,
)
from applyprune.model.options import Mode, Options, PruneLimit
from applyprune.model.plan import Desired
from applyprune.model.problem import Problem
from applyprune.planning.applyset import PART_OF, SET_ID, ApplySetIdentity, applyset_identity
from applyprune.planning.bundle_set import (
    owner_of_set,
    set_of_bundle,
    taken_objects,
    takes_set,
)
from applyprune.planning.cascade import (
    Deletion,
    ListFailure,
    OwnerChains,
    OwnerReference,
    deletions_of,
    dependants,
    dependent_namespaces,
    owner_references,
)
from applyprune.planning.guards import controller_parts
from applyprune.planning.managed_fields import is_applied
from applyprune.planning.marks import FINALIZER
from applyprune.planning.order import is_built_in
from applyprune.planning.own_namespace import OwnRecords
from applyprune.planning.ownership import (
    OtherSet,
    foreign_label,
    is_marked,
    name_error,
    needs_values,
    other_set_in,
)
from applyprune.planning.prune_waits import NO_PODS, PodUse, pod_use
from applyprune.planning.recovery import is_restored
from applyprune.planning.removals import objects_to_prune
from applyprune.planning.requests import needs_body
from applyprune.planning.served_kinds import (
    MissingKinds,
    cannot_count,
    definition_of,
    deleted_kind,
    prove,
    service_of,
    silent_problem,
    unserved_state,
)
from applyprune.planning.uids import each_once, is_among, uid_of, uids_of
from applyprune.planning.world import BundleUse, CascadeContents, ControllerUse, World
from applyprune.values import replace

if TYPE_CHECKING:
    from typing import Protocol, TypeVar

    from applyprune.engine.ports import Cluster, Readable

    _T = TypeVar("_T")
    _R = TypeVar("_R")

    class _Each(Protocol):
        def __call__(self, call: Callable[[_T], _R], items: Iterable[_T], /) -> Iterable[_R]: ...


States: TypeAlias = "dict[Ref, State]"


_FEW = 4


class SnapshotReader(Struct, frozen=True):
    """Reads the cluster for one run; nothing is cached between calls."""

    cluster: Cluster
    workers: WorkerPool
    applyset: ApplySetIdentity
    store: Readable
    proofs: KindProofs | None = None
    """The proofs about the worlds' list of kinds, if something was proved already."""

    def proofs_for(self, world: World) -> KindProofs:
        """Return the proofs that what is read of this world shares, with one patience."""
        return self.proofs or KindProofs(
            self.cluster, self.workers, world.resource_map, self.cluster.patience
        )

    def read(
        self,
        world: World,
        *,
        proves: bool = True,
        full: bool | Collection[GroupKind] = False,
        searches: bool = False,
        kinds: Collection[GroupKind] = (),
    ) -> World:
        """Return the world with the state of every desired object and of every entry.

        ``proves`` proves with a GET each that missing listed objects are gone. ``full`` reads the
        listed objects with their bodies; those of some kinds only for ``World.shown``. If no
        inventory exists, ``searches`` finds the objects with the set's label and field manager, by
        ``kinds`` and those of the desired objects; if its annotations name namespaces of which it
        lists nothing, those that are there.
        """
        desired, inventory, resource_map = world.desired, world.inventory, world.resource_map
        wanted = {manifest.ref: manifest for manifest in desired}
        resources = {
            kind: resource
            for kind in {ref.group_kind for ref in inventory.entries}
            if (resource := resource_map.find_kind(kind)) is not None
        }
        tasks: list[Callable[[], States]] = []
        at_hand: set[Callable[[], States]] = set()
        states: States = {}
        # The namespaces that the inventory's annotation names, and no entry.
        hidden = inventory.hinted_namespaces - {ref.namespace for ref in inventory.entries}
        proofs = self.proofs_for(world)
        for kind, refs in _by_kind(inventory.entries).items():
            entries = [inventory.entries[ref] for ref in refs]
            if (resource := resources.get(kind)) is not None:
                # Under another plural, it is another kind, or somebody has edited the entry.
                same = [
                    entry.ref
                    for entry in entries
                    if entry.plural == resource.plural  # guard: recorded-plural always
                ]
                whole = kind == SECRET or (full if isinstance(full, bool) else kind in full)
                if world.options.corrects:  # a few objects, whatever their kind
                    read = partial(self._read_each, resource, full=whole)
                    tasks.extend(partial(read, [ref]) for ref in same)
                else:
                    places = {ref.namespace for ref in same}.union(hidden if searches else ())
                    read = partial(self._recorded, resource, proves=proves, full=whole)
                    tasks.append(partial(read, same, places))
                    selector = f"{PART_OF}={self.applyset.id}"
                    if self.cluster.is_read(resource, selector, full=whole):
                        at_hand.add(tasks[-1])
                recorded = set(same)
                entries = [entry for entry in entries if entry.ref not in recorded]
            if entries:
                tasks.append(partial(self._unserved, entries, wanted, proofs))
        for kind, refs in _by_kind(set(wanted) - set(inventory.entries)).items():
            if (resource := resource_map.find_kind(kind)) is None:
                states.update(dict.fromkeys(refs, NotListed()))  # its CRD is in the input
            else:
                tasks.extend(
                    partial(self._unrecorded, resource, part) for part in _by_namespace(refs)
                )
        states.update(self._all(tasks, at_hand))
        shown = {} if isinstance(full, bool) else _take_bodies(states, full)
        states.update(_other_names(states))
        self._values(world, states)
        no_record = searches and not inventory.exists
        kinds = {*kinds, *(member.ref.group_kind for member in desired)}
        marked = _LabelledObjects()
        if no_record:
            marked = self._marked(kinds, states, proofs, world.options)
        found = {live.ref.group_kind for live in marked.objects}
        preferred = proofs.resource_map.preferred
        has_jobs = any(entry.job is not None for entry in inventory.entries.values())
        return replace(
            world,
            states=states,
            schemas=self._schemas(desired),
            resources={**resources, **{kind: preferred[kind] for kind in found}},
            marked=tuple(live for live in marked.objects if live.ref not in inventory.entries),
            unseen=marked.unseen,
            now=self.cluster.server_time if has_jobs else None,
            others=self.other_sets(states.values()),
            registered=proofs.registered,
            shown=shown,
        )

    def other_sets(self, states: Iterable[State]) -> Mapping[str, OtherSet]:
        """Return the set of each foreign label that an object has, by the label."""
        objects = [state for state in states if isinstance(state, LiveObject)]
        labels = {foreign_label(live, self.applyset) for live in objects} - {""}
        found = self.store.others(labels) if labels else {}
        return {label: other_set_in(inventory) for label, inventory in found.items()}

    def read_again(self, world: World, resource: Resource, ref: Ref) -> World:
        """Return the world with one object as it is now."""
        state = self.read_object(resource, ref)
        others = {**world.others, **self.other_sets([state])}
        return replace(world, others=others, states={**world.states, ref: state})

    def read_object(self, resource: Resource, ref: Ref, *, full: bool = False) -> State:
        """Return the state of one object, proven by a GET."""
        try:
            return _once_served(
                self.cluster,
                self.workers,
                resource,
                lambda: self.cluster.read(resource, ref, full=full),
            )
        except ApplypruneError as error:
            return _unread(error, resource)

    def look_up(self, refs: Iterable[Ref], resource_map: ResourceMap) -> States:
        """Return the states of objects outside the set.

        A kind that the server does not serve has no objects. A ref without its namespace, or in a
        group that does not answer, is left out.
        """
        states: States = {}
        tasks: list[Callable[[], States]] = []
        for kind, found in _by_kind(refs).items():
            resource = resource_map.find_kind(kind)
            if resource is None and kind.group not in resource_map.stale:
                states.update(dict.fromkeys(found, NotListed()))
            elif resource is not None:
                scoped = [ref for ref in found if bool(ref.namespace) == resource.namespaced]
                tasks.extend(
                    partial(self._unrecorded, resource, part) for part in _by_namespace(scoped)
                )
        return {**states, **self._all(tasks)}

    def _all(
        self,
        tasks: Iterable[Callable[[], States]],
        at_hand: Collection[Callable[[], States]] = (),
    ) -> States:
        """Return the states that tasks find; those ``at_hand`` are not worth a thread."""
        states: States = {}
        for part in self.workers.each(lambda task: task(), tasks, here=at_hand.__contains__):
            states.update(part)
        self.workers.check()
        return states

    def _marked(
        self,
        kinds: Collection[GroupKind],
        states: States,
        proofs: KindProofs,
        options: Options,
    ) -> _LabelledObjects:
        """Find what a lost inventory listed; search all kinds only if the input's have any.

        A set is not new only because a list has failed: raises Unavailable. If a list is
        forbidden, the objects of the input, which were read one by one, show what they can.
        """
        served = proofs.resource_map.preferred
        own = [served[kind] for kind in kinds if kind in served]
        if own and not any(
            isinstance(state, LiveObject) and is_marked(state, self.applyset)
            for state in states.values()
        ):
            found = _labelled_objects(
                self.cluster, self.workers, own, self.applyset, remembered=True
            )
            self._refuse_failed(found, options)
            if not found.objects:
                return _LabelledObjects()
        found = all_labelled_objects(proofs, self.applyset)[0]
        self._refuse_failed(found, options)
        return found

    def _refuse_failed(self, found: _LabelledObjects, options: Options) -> None:
        """Refuse a search in which a list has failed for another reason than a missing right."""
        # Only the deletion of a set that perhaps does not exist may go on without what failed.
        may_end = options.mode is Mode.DELETE and not (options.is_part or found.objects)
        if found.failed and not (may_end and options.allow_partial):  # guard: failed-search never
            hint = "Run again."
            if may_end:
                hint += " If no object of the set is of a kind that cannot be listed: "
                hint += f"applyprune delete {self.applyset.arguments} --allow-partial"
            if found.objects:
                hint += " To rebuild the inventory without what cannot be listed: applyprune "
                hint += f"inventory repair {self.applyset.arguments} --allow-partial"
            raise Unavailable(
                f"the set {self.applyset.name} has no inventory, and it is unknown which objects "
                "have its label",
                code=503,
                reason=f"not everything could be listed: {'; '.join(found.failed[:3])}",
                hint=hint,
            )

    def _recorded(
        self,
        resource: Resource,
        refs: Sequence[Ref],
        places: Collection[str],
        *,
        proves: bool,
        full: bool,
    ) -> States:
        """Read the listed objects of one kind: by label, and the missing ones one by one."""
        found: dict[Ref, LiveObject] = {}
        listed = partial(_list_labelled, self.cluster, resource, self.applyset, places, full=full)
        try:
            labelled = _once_served(self.cluster, self.workers, resource, listed)
            found = {live.ref: live for live in labelled}
        except Forbidden:
            pass
        except ApplypruneError as error:
            return dict.fromkeys(refs, _unread(error, resource))
        states: States = {
            ref: live for ref, live in found.items() if is_applied(live, self.applyset.manager)
        }
        states.update((ref, found[ref]) for ref in refs if ref in found)
        missing = [ref for ref in refs if ref not in found]
        if proves:
            states |= self._read_each(resource, missing, full=full)
        else:
            for part in _by_namespace(missing):
                states.update(self._unrecorded(resource, part))
        return states

    def _unrecorded(self, resource: Resource, refs: Sequence[Ref]) -> States:
        """Read objects of one kind and namespace: many by a LIST, a few by a GET each."""
        if len(refs) > _FEW:
            try:
                listed = partial(self.cluster.list, resource, namespace=refs[0].namespace)
                objects = _once_served(self.cluster, self.workers, resource, listed)
            except Forbidden:
                pass
            except ApplypruneError as error:
                return dict.fromkeys(refs, _unread(error, resource))
            else:
                found = {live.ref: live for live in objects}
                return {ref: found.get(ref, NotListed()) for ref in refs}
        return self._read_each(resource, refs)

    def _read_each(self, resource: Resource, refs: Iterable[Ref], *, full: bool = False) -> States:
        return {ref: self.read_object(resource, ref, full=full) for ref in refs}

    def _unserved(
        self,
        entries: Iterable[InventoryEntry],
        wanted: Collection[Ref],
        proofs: KindProofs,
    ) -> States:
        """Return the states of entries whose kind the server does not serve as recorded."""
        states: States = {}
        state = cache(self.read_object)  # many entries have one CRD
        for entry in entries:
            ref, group = entry.ref, entry.ref.group
            if group in proofs.resource_map.stale:
                problem = silent_problem(group, f"{entry.plural}.{group}")
                states[ref] = Unknown(problem)
                continue
            definition = state(DEFINITIONS, definition_of(entry))
            service = state(API_SERVICES, service_of(entry), full=True)
            states[ref] = unserved_state(
                entry, definition, service, proofs.of({group}), wanted=ref in wanted
            )
        return states

    def _values(self, world: World, states: States) -> None:
        """Read in full the objects of which the plan needs the values."""
        wants: list[tuple[Resource, Ref]] = []
        for desired in world.desired:
            ref = desired.ref
            live, entry = states[ref], world.inventory.entries.get(ref)
            if not isinstance(live, LiveObject) or live.body is not None:
                continue
            # In the version of the manifest: another one may have other fields.
            is_compared = entry is not None and needs_values(desired, entry, live)
            if is_compared or needs_body(desired, live, self.applyset, entry):
                wants.append((desired.resource, ref))

        def read(want: tuple[Resource, Ref]) -> tuple[Ref, State]:
            return want[1], self.read_object(*want, full=True)

        states.update(dict(self.workers.each(read, wants)))

    def _schemas(self, wanted: Iterable[Desired]) -> Mapping[GroupKind, int | None]:
        """Return the CRD generation behind each custom resource; None if it cannot be read.

        A kind without a CRD (of an aggregated API) is left out.
        """
        names = {
            desired.resource.full_plural: desired.ref.group_kind
            for desired in wanted
            if not is_built_in(desired.ref.group)
        }
        if not names:
            return {}
        try:
            definitions = self.cluster.list(DEFINITIONS)
        except ApplypruneError:
            return dict.fromkeys(names.values())
        return {
            names[live.ref.name]: live.generation for live in definitions if live.ref.name in names
        }

    def occupied(self, removed: Iterable[Ref]) -> Mapping[str, Problem | None]:
        """Return which Namespaces that have left the set contain an inventory but its own.

        One that cannot be read may contain one: it comes with the problem, the others with None.
        """
        own = self.applyset.inventory

        def holds(name: str) -> tuple[bool, Problem | None]:
            try:
                roots = self.cluster.list(CONFIG_MAPS, namespace=name, selector=SET_ID)
            except ApplypruneError as error:
                return True, error.problem
            # guard: own-namespace-of-others -> False, None
            return any(live.ref != own for live in roots), None

        names = [ref.name for ref in removed if ref.group_kind == NAMESPACE]
        found = zip(names, self.workers.each(holds, names), strict=True)
        return {name: unread for name, (may_hold, unread) in found if may_hold}


def _once_served(
    cluster: Cluster,
    workers: WorkerPool,
    resource: Resource,
    read: Callable[[], _R],
    patience: float | None = None,
) -> _R:
    """Return what a read returns, repeated while its CRD defines a kind that is not served yet.

    One API server of several may serve a new kind, or a new version, later than the others. This
    takes at most ``patience`` seconds, by default those of the cluster.
    """
    gives_up = workers.now() + (cluster.patience if patience is None else patience)
    while True:
        try:
            return read()
        except NotServed:
            is_late = workers.now() >= gives_up
            if is_late or not cluster.defines(resource) or workers.pause(_PAUSE):
                raise


def _by_kind(refs: Iterable[Ref]) -> Mapping[GroupKind, Sequence[Ref]]:
    kinds: defaultdict[GroupKind, list[Ref]] = defaultdict(list)
    for ref in refs:
        kinds[ref.group_kind].append(ref)
    return kinds


def _by_namespace(refs: Iterable[Ref]) -> Iterable[Sequence[Ref]]:
    namespaces: defaultdict[str, list[Ref]] = defaultdict(list)
    for ref in refs:
        namespaces[ref.namespace].append(ref)
    return namespaces.values()


def _take_bodies(states: States, kinds: Collection[GroupKind]) -> Mapping[Ref, LiveObject]:
    """Return the objects of some kinds, and leave only their metadata in ``states``."""
    found = {
        ref: state
        for ref, state in states.items()
        if ref.group_kind in kinds and isinstance(state, LiveObject)
    }
    states.update((ref, replace(live, packed_body=None)) for ref, live in found.items())
    return found


def _other_names(states: States) -> States:
    """Return the names by which lists show objects that have another name; nothing is there.

    If an object were created there, a deletion of the other one would hide it from lists.
    """
    return {
        replace(live.ref, name=live.other_name): Unknown(error.problem)
        for live in states.values()
        if isinstance(live, LiveObject) and (error := name_error(live.ref, live)) is not None
    }


def _unread(error: ApplypruneError, resource: Resource) -> Unknown:
    problem = error.problem
    return Unknown(
        replace(problem, message=f"{resource.full_plural} cannot be read: {problem.message}")
    )


# Find the objects of a set by their label; prove that no kind is missing in that search.


def all_labelled_objects(
    proofs: KindProofs, applyset: ApplySetIdentity, *, groups: Collection[str] | None = None
) -> tuple[_LabelledObjects, ResourceMap]:
    """Return the objects of every kind that have the set's label and field manager.

    Also return the kinds that were searched. ``groups`` may not miss any kind; None stands for all
    groups that answer. Raises Unavailable if they do.
    """
    resource_map, missing = proofs.for_search(groups)
    kinds = resource_map.preferred.values()
    found = _labelled_objects(proofs.cluster, proofs.workers, kinds, applyset)
    # What is missing in the groups of the search has ended it, unless a right is missing.
    is_elsewhere = groups is not None and proofs.registered is not None
    if is_elsewhere:
        return replace(found, elsewhere=missing), resource_map
    return replace(found, unproved=missing), resource_map


def _labelled_objects(
    cluster: Cluster,
    workers: WorkerPool,
    kinds: Iterable[Resource],
    applyset: ApplySetIdentity,
    *,
    remembered: bool = False,
) -> _LabelledObjects:
    """Return the objects of some kinds with the set's label and its manager's Apply entry.

    The label alone proves nothing: controllers copy it to the objects that they create. If
    listing the whole cluster is forbidden, list the namespace of the inventory. An object that is
    served under two groups is returned once. With ``remembered``, it may have been
    forbidden some minutes ago.
    """

    def read(resource: Resource) -> tuple[Sequence[LiveObject], _Unlisted | None]:
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

    found: list[LiveObject] = []
    unlisted: list[_Unlisted] = []
    for objects, failure in workers.each(read, kinds):
        found += (live for live in objects if is_applied(live, applyset.manager))
        if failure is not None:
            unlisted.append(failure)
    workers.check()
    return _LabelledObjects(
        tuple(sorted(each_once(found).values(), key=lambda live: live.ref)), tuple(unlisted)
    )


class _LabelledObjects(Struct, frozen=True):
    """The objects found by their label."""

    objects: tuple[LiveObject, ...] = ()
    unlisted: tuple[_Unlisted, ...] = ()
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


class _Unlisted(Struct, frozen=True, order=True):
    """A kind that could not be listed; ``except_where`` names where it could."""

    plural: str
    reason: str
    kind: GroupKind
    is_refused: bool = False
    """Whether a right is missing."""
    except_where: str = ""


def _unlisted(resource: Resource, error: ApplypruneError) -> _Unlisted:
    return _Unlisted(
        resource.full_plural,
        error.message,
        resource.group_kind,
        is_refused=isinstance(error, Forbidden),
    )


_MOST_NAMED = 3


def _lines(unseen: Iterable[_Unlisted]) -> Iterator[str]:
    """Yield a line for each kind; join many kinds for which the same right is missing."""
    by_rights: dict[str, list[_Unlisted]] = {}
    for failure in sorted(unseen):
        if failure.is_refused:
            by_rights.setdefault(failure.except_where, []).append(failure)
        else:
            yield f"{failure.plural}: {failure.reason}"
    for except_where, alike in by_rights.items():
        named, more = alike[:_MOST_NAMED], len(alike) - _MOST_NAMED
        if more < _MOST_NAMED:
            yield from (f"{failure.plural}: {failure.reason}{except_where}" for failure in alike)
        else:
            names = ", ".join(failure.plural for failure in named)
            yield f"{names} and {more} more kinds: {named[0].reason}{except_where}"


def _list_labelled(
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


_PAUSE = 0.5


class KindProofs(Struct):
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
        self, groups: Collection[str] | None = None, *, removed: Collection[str] = ()
    ) -> CompleteResourceMap | MissingKinds:
        """Return the proof for some groups, or for all; or what is missing.

        ``removed`` are APIServices that need not answer.
        """

        def proof(registered: Registrations) -> CompleteResourceMap | MissingKinds:
            return prove(self.resource_map, registered, groups=groups, removed=removed)

        with self._lock:
            return self._retried(proof)

    def is_deleted(self, resource: Resource) -> bool:
        """Return whether a kind of this list that is not served has no objects any more.

        Its CRD was there when the list was read, and GETs prove that it is gone.
        """
        registered = self.registered
        if registered is None or is_built_in(resource.group):
            return False
        try:
            definition = self.cluster.read(DEFINITIONS, definition_of(resource))
            service = self.cluster.read(API_SERVICES, service_of(resource), full=True)
        except ApplypruneError:
            return False
        proof = prove(self.resource_map, registered, groups={resource.group})
        return deleted_kind(resource, registered, definition, service, proof) is not None

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
            if isinstance(found, MissingKinds):  # guard: search-needs-kinds never
                raise cannot_count(found.reason)
            return self.resource_map, self._unsearched()

    def _retried(
        self,
        proof: Callable[[Registrations], CompleteResourceMap | MissingKinds],
    ) -> CompleteResourceMap | MissingKinds:
        """Read again until there is a proof, or the patience has ended."""
        if self.resource_map.remembered:  # guard: proof-not-remembered never
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
            agree = before == self.resource_map  # guard: lists-agree -> 1
            is_ready = self.cluster.is_ready()  # guard: server-ready -> 1
            if agree and is_ready:
                return self.resource_map
            if not self._waits():
                self.workers.check()
                raise cannot_count(
                    "two lists of its kinds differ" if is_ready else "the server is not ready"
                )


# Count what a cascading delete would remove.
#
# The contents of Namespaces and CRDs need the proof that no kind is missing. What the garbage
# collector would delete needs one metadata-only LIST for each guarded kind and namespace, and one
# GET for each distinct owner of what these contain.


def with_cascades(world: World, counted: DependantCounter, reader: SnapshotReader) -> World:
    """Return the world with what would be deleted with the objects to prune.

    That is the contents of Namespaces and CRDs, and what the garbage collector would delete.
    """
    if world.options.mode is Mode.ORPHAN:
        return world
    to_prune = objects_to_prune(world)
    if not to_prune or is_restored(world):
        return world
    proofs = reader.proofs_for(world)
    # What somebody has deleted already cascade-deletes the same, whatever this run decides.
    staying = [live for live in to_prune if not live.terminating]
    records = OwnRecords(world.applyset, world.inventory.uid)
    deleted = frozenset(live.ref for live in to_prune)
    counter = ContentCounter(proofs, deleted, records, reader.store)
    holders = sorted(live.ref for live in staying if live.ref.group_kind in COUNTED_WITH)
    contents: Mapping[Ref, CascadeContents] = {ref: counter.contents(ref) for ref in holders}
    if any(ref.group_kind == BUNDLE for ref in holders):
        contents = _without_desired(contents, world)
        taken = sum(len(contents[ref].objects) for ref in holders if ref.group_kind == BUNDLE)
        is_limited = world.options.mode in {Mode.APPLY, Mode.PRUNE}
        if is_limited and len(staying) + taken > PruneLimit().count:
            world = replace(world, bundles=counter.use_of(world))
    deletions = deletions_of(staying, contents, world.options.prune.propagation)
    parts = controller_parts(staying, contents, world.desired)
    return replace(
        world,
        contents=contents,
        controller=_controller_use(parts, reader) if parts else ControllerUse(),
        dependants=counted.count(deletions),
        registered=proofs.registered,
    )


def _without_desired(
    contents: Mapping[Ref, CascadeContents], world: World
) -> Mapping[Ref, CascadeContents]:
    """Return contents in which no object of the input goes with a Bundle: this set takes it.

    If it does not, the count before the deletion finds it.
    """
    lives = (world.live(member.ref) for member in world.desired)
    wanted = uids_of(live for live in lives if live is not None)
    return {
        ref: replace(
            found, objects=tuple(live for live in found.objects if not is_among(live, wanted))
        )
        if ref.group_kind == BUNDLE
        else found
        for ref, found in contents.items()
    }


def _controller_use(parts: frozenset[Ref], reader: SnapshotReader) -> ControllerUse:
    """Return which Bundles need the controller that would be deleted."""
    crd = Ref(DEFINITIONS.group, DEFINITIONS.kind, "", BUNDLES.full_plural)
    try:
        found = reader.cluster.list(BUNDLES)
    except NotServed as error:
        # Only the missing CRD proves that there is no Bundle.
        is_absent = isinstance(reader.read_object(DEFINITIONS, crd), Absent)
        unread = "" if is_absent else error.message
        return ControllerUse(parts, unread=unread)
    except ApplypruneError as error:
        return ControllerUse(parts, unread=error.message)
    held = sorted(live.ref for live in found if FINALIZER in live.finalizers)
    return ControllerUse(parts, tuple(held))


class ContentCounter(Struct, frozen=True):
    """Counts what goes with Namespaces, CRDs and Bundles; ``deleted`` is what the prune deletes.

    ``records`` are the set's own inventory, which goes with its Namespace; None to count it too.
    ``store`` reads the inventories of Bundles; without one, what goes with these is not counted.
    """

    proofs: KindProofs
    deleted: frozenset[Ref]
    records: OwnRecords | None = None
    store: Readable | None = None

    def contents(self, ref: Ref) -> CascadeContents:
        """Return the contents of one Namespace, CRD or Bundle."""
        if ref.group_kind == BUNDLE:
            return self._bundles([ref])
        if ref.group_kind != NAMESPACE:
            return self._definition(ref)
        found = self._namespace(ref)
        if self.store is None:
            return found
        # Bundles in it are deleted too, and delete their sets, wherever these are.
        bundles = [live.ref for live in found.objects if live.ref.group_kind == BUNDLE]
        also = self._bundles([one for one in bundles if one not in self.deleted])
        return _joined(found, also)

    def _bundles(self, bundles: Iterable[Ref]) -> CascadeContents:
        """Return what goes with Bundles, and with the Bundles in their sets, each read once."""
        left, seen = list(bundles), set(bundles)
        found = CascadeContents(())
        while left:
            inside = self._set_of(left.pop())
            found = _joined(found, inside)
            inner = {live.ref for live in inside.objects if live.ref.group_kind == BUNDLE} - seen
            left += sorted(inner)
            seen |= inner
        return found

    def _set_of(self, ref: Ref) -> CascadeContents:
        """Return the objects of one Bundle's set that its deletion deletes."""
        try:
            bundle = self.proofs.cluster.read(self._bundle_kind, ref, full=True)
            if isinstance(bundle, Absent) or not takes_set(bundle):
                return CascadeContents(())
            found = self._listed_by(bundle)
        except ApplypruneError as error:
            reason = error.message if not error.reason else f"{error.message}: {error.reason}"
            return CascadeContents((), f"{ref.short}: {reason}", isinstance(error, Forbidden))
        if isinstance(found, str):
            return CascadeContents((), f"{ref.short}: {found}")
        return CascadeContents(() if found is None else self._taken(found))

    @property
    def _bundle_kind(self) -> Resource:
        return self.proofs.resource_map.find_kind(BUNDLE) or BUNDLES

    def _listed_by(self, bundle: LiveObject) -> Inventory | str | None:
        """Return the inventory of a Bundle's set; why it is out of reach; None if it has none.

        Raises what the server answers, and InventoryError.
        """
        applyset = set_of_bundle(bundle)
        if isinstance(applyset, str) or self.store is None:
            return str(applyset)
        inventory = self.store.of(applyset)
        # Otherwise nothing was applied, or it belongs to somebody else.
        is_own = inventory.owner == owner_of_set(bundle.ref.namespace, bundle.ref.name)
        return inventory if is_own else None  # guard: bundle-owns -> inventory

    def _taken(self, inventory: Inventory) -> tuple[LiveObject, ...]:
        """Return what the deletion of a set deletes, by one LIST for each of its kinds."""
        applyset = applyset_identity(inventory.name, inventory.namespace)
        cluster, kinds = self.proofs.cluster, _by_kind(inventory.entries)

        def read(kind: GroupKind) -> tuple[GroupKind, Sequence[LiveObject] | None]:
            places = {ref.namespace for ref in kinds[kind]}
            resource = self.proofs.resource_map.find_kind(kind)
            try:
                if resource is not None:
                    found = _list_labelled(cluster, resource, applyset, places, full=False)
                    return kind, tuple(found)
            except ApplypruneError:
                pass
            return kind, None

        read_all = dict(self.proofs.workers.each(read, kinds))
        self.proofs.workers.check()
        states: States = {one.ref: one for found in read_all.values() for one in found or ()}
        world = World(
            applyset,
            inventory,
            Options(mode=Mode.DELETE),
            resource_map=self.proofs.resource_map,
            resources=self.proofs.resource_map.preferred,
            states=states,
        )
        unread = [
            entry
            for ref, entry in inventory.entries.items()
            if read_all[ref.group_kind] is None  # guard: unread-goes never
        ]
        return tuple(taken_objects(world, unread))

    def use_of(self, world: World) -> BundleUse:
        """Return which Bundles of the set stay, and how much is in their sets.

        What cannot be read is not there: that makes a limit stricter.
        """
        entries, cluster = world.inventory.entries, self.proofs.cluster

        def read(ref: Ref) -> State | None:
            with suppress(ApplypruneError):
                return cluster.read(self._bundle_kind, ref, full=True)
            return None

        def listed_by(bundle: LiveObject) -> Inventory | None:
            with suppress(ApplypruneError):
                found = self._listed_by(bundle)
                return found if isinstance(found, Inventory) else None
            return None

        places = {ref.namespace for ref in entries if ref.group_kind == BUNDLE}
        try:
            listed = _list_labelled(cluster, self._bundle_kind, world.applyset, places, full=True)
        except ApplypruneError:
            return BundleUse()
        staying = [one for one in listed if one.ref in entries and one.ref not in self.deleted]
        workers, seen, objects = self.proofs.workers, {one.ref for one in staying}, 0
        level: Sequence[LiveObject] = staying
        while level:
            sets = [found for found in workers.each(listed_by, level) if found is not None]
            objects += sum(len(found.entries) for found in sets)
            inner = {ref for found in sets for ref in found.entries if ref.group_kind == BUNDLE}
            inner -= seen
            seen |= inner
            states = workers.each(read, sorted(inner))
            level = [state for state in states if isinstance(state, LiveObject)]
        workers.check()
        return BundleUse(len(staying), objects)

    def _namespace(self, ref: Ref) -> CascadeContents:
        # An APIService that this run deletes need not answer.
        services = {
            gone.name for gone in self.deleted if gone.group_kind == API_SERVICES.group_kind
        }
        proof = self.proofs.of(removed=services)
        kinds = [kind for kind in self.proofs.resource_map.preferred.values() if kind.namespaced]
        counted = self._counted(proof, kinds, ref.name)
        if self.records is None:
            return counted
        others = tuple(live for live in counted.objects if not self.records.has(live))
        return replace(counted, objects=others)

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
        contents: list[LiveObject] = []
        failures: list[ListFailure] = []

        def read(resource: Resource) -> tuple[Sequence[LiveObject], ListFailure | None]:
            # Only its body shows whether the system makes a ServiceAccount itself.
            full = bool(namespace) and resource.group_kind == SERVICE_ACCOUNT
            listed = partial(cluster.list, resource, namespace=namespace, full=full)
            try:
                return _once_served(cluster, workers, resource, listed, self.proofs.patience), None
            except ApplypruneError as error:
                is_unserved = isinstance(error, NotServed)
                # guard: counted-kind-deleted -> is_unserved
                if is_unserved and self.proofs.is_deleted(resource):
                    return (), None
                reason = f"{resource.full_plural}: {error.message}"
                return (), ListFailure(reason, isinstance(error, Forbidden), is_unserved)

        for found, failure in workers.each(read, kinds):
            contents += found
            if failure is not None:
                failures.append(failure)
        if isinstance(proof, MissingKinds):  # guard: count-needs-kinds never
            failures.insert(0, ListFailure(proof.reason, proof.is_forbidden, proof.is_passing))
        return CascadeContents(
            tuple(contents),
            "; ".join(failure.reason for failure in failures[:3]),
            bool(failures) and all(failure.is_forbidden for failure in failures),
            is_passing=bool(failures) and all(failure.is_passing for failure in failures),
        )


def _joined(one: CascadeContents, other: CascadeContents) -> CascadeContents:
    """Return two contents as one."""
    parts = [part for part in (one, other) if part.uncounted]
    return CascadeContents(
        (*one.objects, *other.objects),
        "; ".join(part.uncounted for part in parts),
        bool(parts) and all(part.lacks_rights for part in parts),
        (*one.unlisted, *other.unlisted),
        is_passing=bool(parts) and all(part.is_passing for part in parts),
    )


def read_pod_use(
    refs: Collection[Ref], cluster: Cluster, workers: WorkerPool, earlier: PodUse = NO_PODS
) -> PodUse:
    """Return the live Pods around some objects, with the ReplicaSets that show who made them.

    What an ``earlier`` read knows of a ReplicaSet that is gone still says who made its Pods.
    """
    names = {ref.name for ref in refs}

    def read(namespace: str) -> PodUse:
        found: list[Sequence[LiveObject]] = []
        for resource in (PODS, REPLICA_SETS):
            try:
                found.append(cluster.list(resource, namespace=namespace, full=True))
            except NotServed:
                found.append(())
            except ApplypruneError as error:
                return PodUse(unread={namespace: error.message})
        pods, replica_sets = found
        return pod_use(pods, replica_sets, names, earlier)

    read_all = list(workers.each(read, sorted({ref.namespace for ref in refs})))
    return PodUse(
        tuple(user for use in read_all for user in use.users),
        {namespace: why for use in read_all for namespace, why in use.unread.items()},
        {uid: owner for use in read_all for uid, owner in use.controllers.items()},
    )


class DependantCounter(Struct):
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
    _lock: Lock = field(default_factory=Lock)

    def count(
        self, deletions: Iterable[Deletion], *, in_worker: bool = False
    ) -> Mapping[Ref, CascadeContents]:
        """Return what is deleted with these deletions, and with all that were counted before.

        A worker thread must say so.
        """
        each = map if in_worker else self.workers.each
        with self._lock:
            self._deletions |= {(one.cause, uid_of(one.live)): one for one in deletions}
            if not self._deletions:
                return {}
            everything = tuple(self._deletions.values())
            objects = self._chains.objects
            for live in (*self.known, *(one.live for one in everything)):
                objects.setdefault(uid_of(live), live)
            self._list(dependent_namespaces(everything), each)
            collecting = uids_of(one.live for one in everything if one.collects)
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
        self._listed |= wanted
        if "" in wanted:
            self._list_in([""], each)
        # Who may not list all namespaces may perhaps list some.
        if "" not in self._listed or self._chains.failures.get(""):
            self._list_in(sorted(wanted - {""}), each)

    def _list_in(self, namespaces: Sequence[str], each: _Each) -> None:
        calls = [
            (kind, namespace)
            for namespace in namespaces
            for kind, word in GUARDED_KINDS.items()
            if not (namespace and kind in _CLUSTER_SCOPED)
        ]
        for (kind, namespace), found, failure in each(self._listing, calls):
            if failure is not None:
                self._chains.failures[namespace][_plural(kind, self.resource_map)] = failure
            for live in found:
                self._chains.objects[uid_of(live)] = live
                if not live.terminating and any(owner_references(live)):
                    self._chains.counted[uid_of(live)] = live

    def _listing(
        self, call: tuple[GroupKind, str]
    ) -> tuple[tuple[GroupKind, str], Sequence[LiveObject], ListFailure | None]:
        kind, namespace = call
        resource = self.resource_map.find_kind(kind)
        if resource is None:
            return call, (), ListFailure("its kind is not served")
        try:
            return call, self.cluster.list(resource, namespace=namespace), None
        except Unreachable:
            raise
        except ApplypruneError as error:
            return call, (), ListFailure(error.message, isinstance(error, Forbidden))

    def _read(self, wanted: Sequence[OwnerReference], each: _Each) -> None:
        """Read owners, one request for each name."""
        chains = self._chains
        targets: list[tuple[OwnerReference, Ref]] = []
        to_get: dict[Ref, Resource] = {}
        for owner in wanted:
            kind = owner.gvk.group_kind
            resource = self.resource_map.find(owner.gvk) or self.resource_map.find_kind(kind)
            if resource is None:
                chains.unknown[owner.known_as] = (
                    f"its owner {_short_name(owner)}: its kind is not served"
                )
                continue
            if resource.namespaced and not owner.namespace:
                chains.lasting.add(owner.known_as)
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
                chains.unknown[owner.known_as] = f"its owner {_short_name(owner)}: {found}"
            elif found is None or found.uid != owner.uid:
                chains.absent.add(owner.known_as)
            else:
                chains.objects[owner.known_as] = found

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


_CLUSTER_SCOPED = kinds_with(Trait.CLUSTER_SCOPED)


def _plural(kind: GroupKind, resource_map: ResourceMap) -> str:
    resource = resource_map.find_kind(kind)
    return resource.full_plural if resource is not None else str(kind)


def _short_name(owner: OwnerReference) -> str:
    return Ref(owner.gvk.group, owner.gvk.kind, "", owner.name).short
