"""Read the cluster before the plan, with as few requests as possible.

One metadata-only LIST by label for each kind reads the recorded objects. New objects are read by a
LIST of their namespace if they are more than a few, otherwise by a GET each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from applyprune.engine.context import WorkerPool
from applyprune.engine.listing import (
    KindProofs,
    LabelledObjects,
    all_labelled_objects,
    hidden_namespaces,
    labelled_objects,
    list_labelled,
    objects_of_hidden_kinds,
)
from applyprune.errors import ApplypruneError, Forbidden, Unavailable, as_problem
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.inventory import Inventory, InventoryEntry
from applyprune.model.live import (
    API_SERVICES,
    CONFIG_MAPS,
    DEFINITIONS,
    NAMESPACE,
    LiveObject,
    NotListed,
    Resource,
    ResourceMap,
    State,
    Unknown,
)
from applyprune.model.plan import Desired
from applyprune.planning.applyset import SET_ID, ApplySetIdentity
from applyprune.planning.managed_fields import is_applied
from applyprune.planning.order import is_built_in
from applyprune.planning.ownership import (
    SECRET,
    OtherSet,
    foreign_label,
    is_marked,
    name_error,
    needs_values,
    other_set_in,
)
from applyprune.planning.recovery import ClusterSnapshot
from applyprune.planning.requests import needs_body
from applyprune.planning.served_kinds import (
    definition_of,
    service_of,
    silent_problem,
    unserved_state,
)
from applyprune.values import dataclass, replace

if TYPE_CHECKING:
    from applyprune.engine.ports import Cluster, Readable

States: TypeAlias = "dict[Ref, State]"

_FEW = 4


@dataclass(frozen=True, slots=True)
class SnapshotReader:
    """Reads the cluster for one run; nothing is cached between calls."""

    cluster: Cluster
    workers: WorkerPool
    applyset: ApplySetIdentity
    store: Readable
    lists: bool = True
    """Read the listed objects by a LIST of each kind; otherwise by a GET each."""

    def read(
        self,
        desired: Sequence[Desired],
        inventory: Inventory,
        resource_map: ResourceMap,
        *,
        prunes: bool,
        proves: bool = True,
        full: bool = False,
        searches: bool = True,
        kinds: Collection[GroupKind] = (),
    ) -> ClusterSnapshot:
        """Return the state of every desired object and of every entry.

        ``prunes`` finds the inventories in Namespaces that have left the set. ``proves`` proves
        with a GET each that missing listed objects are gone. ``full`` reads the listed objects with
        their bodies. If no inventory exists, ``searches`` finds the objects with the set's label
        and field manager, by ``kinds`` and those of the desired objects; if its annotations name
        kinds or namespaces of which it lists nothing, those that are there.
        """
        wanted = {manifest.ref: manifest for manifest in desired}
        resources = _resources(inventory, resource_map)
        tasks: list[Callable[[], States]] = []
        states: States = {}
        hidden = hidden_namespaces(inventory) if searches else ()
        proofs = KindProofs(self.cluster, self.workers, resource_map, self.cluster.patience)
        for kind, refs in _by_kind(inventory.entries).items():
            entries = [inventory.entries[ref] for ref in refs]
            if (resource := resources.get(kind)) is not None:
                # Under another plural, it is another kind, or somebody has edited the entry.
                same = [
                    entry.ref
                    for entry in entries
                    if entry.plural == resource.plural  # guard: recorded-plural
                ]
                read = partial(self._recorded, resource, proves=proves, full=full)
                parts = [same] if self.lists else [[ref] for ref in same]
                tasks.extend(partial(read, part, hidden) for part in parts)
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
        states.update(self._all(tasks))
        states.update(_other_names(states))
        self._values(wanted, inventory, resources, states)
        leaving = frozenset(set(inventory.entries) - set(wanted) if prunes else ())
        no_record = searches and not inventory.exists
        kinds = {*kinds, *(member.ref.group_kind for member in desired)}
        marked = self._marked(kinds, states, proofs) if no_record else LabelledObjects()
        still_hidden = inventory.hidden_kinds
        if searches and inventory.exists:
            hidden_objects = objects_of_hidden_kinds(proofs, inventory, self.applyset)
            marked = replace(hidden_objects, objects=())
            states = {**{live.ref: live for live in hidden_objects.objects}, **states}
            still_hidden = frozenset(
                [live.ref.group_kind for live in hidden_objects.objects]
                + [one.kind for one in hidden_objects.unlisted]
            )
        found = {live.ref.group_kind for live in marked.objects}
        preferred = proofs.resource_map.preferred
        return ClusterSnapshot(
            states=states,
            schemas=self._schemas(desired),
            resources={**resources, **{kind: preferred[kind] for kind in found}},
            occupied=self._occupied(leaving),
            marked=marked.objects,
            unseen=marked.unseen,
            hidden_kinds=still_hidden,
            now=self.cluster.server_time,
            others=self.other_sets(states[ref] for ref in inventory.entries),
            registered=proofs.registered,
        )

    def other_sets(self, states: Iterable[State]) -> Mapping[str, OtherSet]:
        """Return the set of each foreign label that an object has, by the label."""
        objects = [state for state in states if isinstance(state, LiveObject)]
        labels = {foreign_label(live, self.applyset) for live in objects} - {""}
        found = self.store.others(labels) if labels else {}
        return {label: other_set_in(inventory) for label, inventory in found.items()}

    def read_object(self, resource: Resource, ref: Ref, *, full: bool = False) -> State:
        """Return the state of one object, proven by a GET."""
        try:
            return self.cluster.read(resource, ref, full=full)
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

    def _all(self, tasks: Iterable[Callable[[], States]]) -> States:
        states: States = {}
        for part in self.workers.each(lambda task: task(), tasks):
            states.update(part)
        self.workers.check()
        return states

    def _marked(
        self, kinds: Collection[GroupKind], states: States, proofs: KindProofs
    ) -> LabelledObjects:
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
            found = labelled_objects(
                self.cluster, self.workers, own, self.applyset, remembered=True
            )
            self._refuse_failed(found)
            if not found.objects:
                return LabelledObjects()
        found = all_labelled_objects(proofs, self.applyset)[0]
        self._refuse_failed(found)
        return found

    def _refuse_failed(self, found: LabelledObjects) -> None:
        """Refuse a search in which a list has failed for another reason than a missing right."""
        if found.failed:  # guard: failed-search
            hint = "Run again."
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
        hidden: Collection[str],
        *,
        proves: bool,
        full: bool,
    ) -> States:
        """Read the listed objects of one kind: by label, and the missing ones one by one."""
        full = full or (resource.group, resource.kind) == SECRET
        try:
            places = {ref.namespace for ref in refs}.union(hidden)
            read = partial(list_labelled, self.cluster, resource, self.applyset, places, full=full)
            found = {live.ref: live for live in (read() if self.lists else ())}
        except ApplypruneError as error:
            if not isinstance(error, Forbidden):
                return dict.fromkeys(refs, _unread(error, resource))
            found = {}
        states: States = {
            ref: live for ref, live in found.items() if is_applied(live, self.applyset.manager)
        }
        states.update((ref, found[ref]) for ref in refs if ref in found)
        missing = [ref for ref in refs if ref not in found]
        if proves:
            states.update((ref, self.read_object(resource, ref, full=full)) for ref in missing)
        else:
            for part in _by_namespace(missing):
                states.update(self._unrecorded(resource, part))
        return states

    def _unrecorded(self, resource: Resource, refs: Sequence[Ref]) -> States:
        """Read objects of one kind and namespace: many by a LIST, a few by a GET each."""
        if len(refs) > _FEW:
            try:
                objects = self.cluster.list(resource, namespace=refs[0].namespace)
            except Forbidden:
                pass
            except ApplypruneError as error:
                return dict.fromkeys(refs, _unread(error, resource))
            else:
                found = {live.ref: live for live in objects}
                return {ref: found.get(ref, NotListed()) for ref in refs}
        return {ref: self.read_object(resource, ref) for ref in refs}

    def _unserved(
        self,
        entries: Iterable[InventoryEntry],
        wanted: Collection[Ref],
        proofs: KindProofs,
    ) -> States:
        """Return the states of entries whose kind the server does not serve as recorded."""
        states: States = {}
        read: States = {}

        def state(resource: Resource, ref: Ref, *, full: bool = False) -> State:
            if ref not in read:
                read[ref] = self.read_object(resource, ref, full=full)
            return read[ref]

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

    def _values(
        self,
        wanted: Mapping[Ref, Desired],
        inventory: Inventory,
        resources: Mapping[GroupKind, Resource],
        states: States,
    ) -> None:
        """Read in full the objects of which the plan needs the values."""
        wants: list[tuple[Resource, Ref]] = []
        for ref, desired in wanted.items():
            live, entry = states[ref], inventory.entries.get(ref)
            if not isinstance(live, LiveObject) or live.body is not None:
                continue
            if entry is not None and needs_values(desired, entry, live):
                wants.append((resources[ref.group_kind], ref))
            elif needs_body(desired, live, self.applyset, entry):
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

    def _occupied(self, leaving: Iterable[Ref]) -> frozenset[str]:
        """Return which Namespaces that have left the set contain an inventory.

        A namespace that cannot be read counts as one.
        """

        def holds(name: str) -> tuple[str, bool]:
            try:
                return name, bool(self.cluster.list(CONFIG_MAPS, namespace=name, selector=SET_ID))
            except ApplypruneError:
                return name, True

        names = [ref.name for ref in leaving if ref.group_kind == NAMESPACE]
        return frozenset(name for name, held in self.workers.each(holds, names) if held)


def _other_names(states: States) -> States:
    """Return the names by which lists show objects that have another name; nothing is there.

    If an object were created there, a deletion of the other one would hide it from lists.
    """
    return {
        replace(live.ref, name=live.other_name): Unknown(as_problem(error))
        for live in states.values()
        if isinstance(live, LiveObject) and (error := name_error(live.ref, live)) is not None
    }


def _unread(error: ApplypruneError, resource: Resource) -> Unknown:
    problem = as_problem(error)
    return Unknown(
        replace(problem, message=f"{resource.full_plural} cannot be read: {problem.message}")
    )


def _resources(inventory: Inventory, resource_map: ResourceMap) -> Mapping[GroupKind, Resource]:
    kinds = {ref.group_kind for ref in inventory.entries}
    found = {kind: resource_map.find_kind(kind) for kind in kinds}
    return {kind: resource for kind, resource in found.items() if resource is not None}


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
