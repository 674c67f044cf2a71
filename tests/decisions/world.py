"""Worlds as runs would have read them: what a set has applied, and what others have done since.

An actor's change is told once, and done twice: to a world in memory, for a row, and to a server,
for the proof that such a server shows what the row says (``test_on_a_server.py``).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from applyprune.cluster.requests import object_path
from applyprune.model.fieldset import ObjectWriter
from applyprune.model.identity import GVK, GroupKind, Ref
from applyprune.model.inventory import Inventory, InventoryEntry, Ownership
from applyprune.model.kinds import NAMESPACE
from applyprune.model.live import Absent, LiveObject, Resource, ResourceMap, State, Unknown
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.applyset import OWNED_BY, PART_OF, ApplySetIdentity, applyset_identity
from applyprune.planning.built_in_kinds import built_in_kinds
from applyprune.planning.normalize import manifest_digest, normalize
from applyprune.planning.ownership import (
    OtherSet,
    fingerprint_of,
    is_marked,
    owned_fields_of,
)
from applyprune.values import replace as changed_value
from tests.support.forged import forge

if TYPE_CHECKING:
    from tests.support.api import Api
    from tests.support.stage import Stage

Body: TypeAlias = dict[str, Any]
HOME = "home"
"""The namespace of the set; on a server, another name takes the place of this word."""
SET = applyset_identity("web", HOME)
OTHER = applyset_identity("other", HOME)
EARLIER, LATER = "2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z"
UNREADABLE = Unknown(Problem(ProblemKind.FORBIDDEN, "no", exit_code=7))
THEM = "them"
"""The field manager of somebody else."""


# What an apply of a set leaves.


def writer(manager: str, operation: str, fields: Mapping[str, Any], **parts: Any) -> Body:
    """Return an entry of managedFields."""
    entry = {"manager": manager, "operation": operation, "apiVersion": "v1", "time": EARLIER}
    return {**entry, "fieldsType": "FieldsV1", **parts, "fieldsV1": dict(fields)}


def fields_of(value: Any) -> dict[str, Any]:
    """Return the FieldsV1 of everything in a body; a list is owned as a whole."""
    if not isinstance(value, Mapping):
        return {}
    return {f"f:{key}": fields_of(part) for key, part in value.items()}


def owned_part(body: Mapping[str, Any]) -> Body:
    """Return what an apply of a body owns: all but what names the object."""
    part = {key: value for key, value in body.items() if key not in ("apiVersion", "kind")}
    named = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation")
    hidden = (*named, "managedFields")
    metadata = {key: value for key, value in body["metadata"].items() if key not in hidden}
    return {**part, "metadata": metadata}


def entry_of(
    ref: Ref, resource: Resource, sent: Mapping[str, Any], live: LiveObject, **facts: Any
) -> InventoryEntry:
    """Return the entry that a confirmed apply of a manifest leaves."""
    known: dict[str, Any] = {
        "uid_before_apply": None,
        "uid": live.uid,
        "digest": manifest_digest(sent),
        "fingerprint": fingerprint_of(live, SET.manager, None),
        "owned_fields": owned_fields_of(live, SET.manager),
    }
    return InventoryEntry(ref, resource.plural, resource.version, **{**known, **facts})


# What others do.


@dataclass(frozen=True)
class Change:
    """Something that somebody else does: in a world in memory, and on a server."""

    name: str
    """The object, as ``kind/name``, or ``namespace/kind/name``."""
    here: Callable[[Cluster, Ref], None]
    there: Callable[[Site], object] | None = None
    """What does it on a server; None where none shows it."""


@dataclass(frozen=True)
class Site:
    """An object on a server, and the set's namespace there."""

    api: Api
    stage: Stage
    path: str

    def body(self, body: Body) -> Body:
        """Return a body with the name of the set's namespace on this server."""
        found: Body = renamed(self.stage.namespace, body)
        return found

    @property
    def collection(self) -> str:
        """Return the path of all objects of the kind."""
        return self.path.rpartition("/")[0]


def renamed(namespace: str, data: Any) -> Any:
    """Return plain data with the set's namespace on a server, and the ids of sets there."""
    if isinstance(data, set | frozenset):
        return frozenset(renamed(namespace, one) for one in data)
    if isinstance(data, ObjectWriter):
        return changed_value(data, namespace=data.namespace.replace(HOME, namespace))
    text = json.dumps(data)
    for one in (SET, OTHER):
        text = text.replace(one.id, applyset_identity(one.name, namespace).id)
    return json.loads(text.replace(HOME, namespace))


def place_on(stage: Stage, name: str, served: Sequence[Resource] = ()) -> str:
    """Return the path of an object on a server."""
    ref, resource = Cluster(tuple(served)).find(name)
    namespace, own = renamed(stage.namespace, [ref.namespace, ref.name])
    return object_path(resource, Ref(ref.group, ref.kind, namespace, own))


def deleted(name: str) -> Change:
    """Return the deletion of an object."""
    return Change(
        name, lambda world, ref: world.drop(ref), lambda site: site.api("DELETE", site.path)
    )


def deleting(name: str) -> Change:
    """Return the deletion of an object that a finalizer holds."""
    going = {"metadata": {"deletionTimestamp": LATER}}
    return Change(
        name,
        lambda world, ref: world.patch(ref, going, THEM),
        lambda site: site.api("DELETE", site.path),
    )


def changed(name: str, patch: Body, by: str = THEM) -> Change:
    """Return a merge patch of an object by a field manager."""
    return Change(
        name,
        lambda world, ref: world.patch(ref, patch, by),
        lambda site: site.api.patch(site.path, site.body(patch), by=by),
    )


def applied_by(manager: str, body: Body, *, force: bool = False) -> Change:
    """Return a server-side apply by another field manager."""
    return Change(
        short(body),
        lambda world, ref: world.apply(ref, body, manager),
        lambda site: site.api.apply(site.path, site.body(body), by=manager, force=force),
    )


def created(body: Body, by: str = THEM) -> Change:
    """Return the creation of an object by somebody else."""
    return Change(
        short(body),
        lambda world, ref: world.create(ref, body, by),
        lambda site: site.api.create(site.collection, site.body(body), by=by),
    )


def scaled(name: str, replicas: int, by: str = "kube-controller-manager") -> Change:
    """Return an update of the scale of an object, as an autoscaler's controller does it."""
    patch = {"spec": {"replicas": replicas}}
    return Change(
        name,
        lambda world, ref: world.patch(ref, patch, by, "scale"),
        lambda site: site.api.patch(f"{site.path}/scale", patch, by=by),
    )


def annotated(name: str, marks: Mapping[str, str | None]) -> Change:
    """Return annotations by hand."""
    return changed(name, {"metadata": {"annotations": dict(marks)}})


def relabelled(name: str, label: str | None) -> Change:
    """Return another label of a set, or none."""
    return changed(name, {"metadata": {"labels": {PART_OF: label}}})


def owned_by(name: str, owner: str, by: str = "operator") -> Change:
    """Return another object of the world as the owner of one."""

    def reference(metadata: Mapping[str, Any], resource: Resource) -> Body:
        named = {"name": metadata["name"], "uid": metadata["uid"]}
        owners = [{"apiVersion": resource.gvk.api_version, "kind": resource.kind, **named}]
        return {"metadata": {"ownerReferences": owners}}

    def here(world: Cluster, ref: Ref) -> None:
        of, resource = world.find(owner)
        world.patch(ref, reference(world.objects[of]["metadata"], resource), by)

    def there(site: Site) -> None:
        resource = Cluster().find(owner)[1]
        metadata = site.api.get(place_on(site.stage, owner))["metadata"]
        site.api.patch(site.path, reference(metadata, resource), by=by)

    return Change(name, here, there)


def recorded(name: str, **facts: Any) -> Change:
    """Return an edit of what the inventory says of an object."""

    def here(world: Cluster, ref: Ref) -> None:
        world.entries[ref] = changed_value(world.entries[ref], **facts)

    return Change(name, here, lambda site: forge(site.stage, name.rpartition("/")[2], **facts))


def forgotten(name: str) -> Change:
    """Return the loss of an entry of the inventory."""

    def there(site: Site) -> None:
        entries = site.stage.inventory().entries
        site.stage.rewrite(entries={ref: one for ref, one in entries.items() if ref.short != name})

    return Change(name, lambda world, ref: world.forget(ref), there)


def unreadable(name: str) -> Change:
    """Return the loss of the right to read an object."""
    return Change(name, lambda world, ref: world.hide(ref))


def other_set(*bodies: Body) -> Change:
    """Return what another set of the namespace has created."""

    def here(world: Cluster, _: Ref) -> None:
        for body in bodies:
            world.add(body, OTHER)

    def there(site: Site) -> object:
        stage = changed_value(site.stage, name=OTHER.name)
        return stage.run(*map(site.body, bodies))

    return Change(short(bodies[0]), here, there)


def short(body: Body) -> str:
    """Return the name of an object as kubectl prints it; before it a namespace that it names."""
    group = GVK.parse(body["apiVersion"], body["kind"]).group
    metadata = body["metadata"]
    place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{place}{body['kind'].lower()}{'.' if group else ''}{group}/{metadata['name']}"


# The world in memory.


@dataclass
class Cluster:
    """Live objects in full, and what the set has recorded of them."""

    served: tuple[Resource, ...] = ()
    """Custom kinds that are served."""
    objects: dict[Ref, Body] = field(default_factory=dict)
    entries: dict[Ref, InventoryEntry] = field(default_factory=dict)
    hidden: set[Ref] = field(default_factory=set)
    owned_by: dict[str, set[str]] = field(default_factory=dict)
    """The UIDs that each other set lists, by its label."""
    _number: int = 0

    @property
    def resource_map(self) -> ResourceMap:
        """Return what the server serves."""
        known = built_in_kinds()
        return ResourceMap(
            {**known.served, **{one.gvk: one for one in self.served}},
            {**known.preferred, **{one.group_kind: one for one in self.served}},
            known.stale,
        )

    def place(self, body: Body) -> tuple[Ref, Resource]:
        """Return the reference and the endpoint of an object."""
        gvk = GVK.parse(body["apiVersion"], body["kind"])
        resource = self.resource_map.find_kind(GroupKind(gvk.group, gvk.kind))
        assert resource is not None, gvk
        namespace = body["metadata"].get("namespace", HOME) if resource.namespaced else ""
        return Ref(gvk.group, gvk.kind, namespace, body["metadata"]["name"]), resource

    def find(self, name: str) -> tuple[Ref, Resource]:
        """Return the object of a name, as ``short`` has it: of the set's namespace, if of none."""
        *place, kind, own = name.split("/")
        (resource,) = (one for one in self.resource_map.preferred.values() if _kind(one) == kind)
        namespace = (place or [HOME])[0] if resource.namespaced else ""
        return Ref(resource.group, resource.kind, namespace, own), resource

    def add(self, body: Body, applyset: ApplySetIdentity = SET, **entry: Any) -> None:
        """Let a set apply an object, which it creates, or adopts if it exists."""
        ref, resource = self.place(body)
        before = self.objects.get(ref)
        sent = dict(normalize(body, namespace=ref.namespace, set_id=applyset.id))
        made = copy.deepcopy(sent)
        if before is None:
            made["metadata"].setdefault("annotations", {})[OWNED_BY] = applyset.id
        else:
            entry = {
                "ownership": Ownership.ADOPTED, "uid_before_apply": before["metadata"]["uid"],
                **entry,
            }  # fmt: skip
        self.apply(ref, made, applyset.manager)
        live = self.live(ref)
        if applyset == SET:
            self.entries[ref] = entry_of(ref, resource, sent, live, **entry)
        else:
            self.owned_by.setdefault(applyset.id, set()).add(live.uid)

    def create(self, ref: Ref, body: Body, manager: str) -> None:
        """Create an object by a plain request, in place of one with its name."""
        made = self._new(ref, body)
        fields = fields_of(owned_part(made))
        made["metadata"]["managedFields"] = [
            writer(manager, "Update", fields, apiVersion=body["apiVersion"], time=LATER)
        ]
        self.objects[ref] = made

    def apply(self, ref: Ref, body: Body, manager: str) -> None:
        """Apply a body by force: what it sets to another value nobody else owns any more."""
        live = self.objects.get(ref) or self._new(ref, {**body, "metadata": {"name": ref.name}})
        part = owned_part(body)
        managers = live["metadata"].setdefault("managedFields", [])
        ours = (manager, "Apply", "")
        for one in managers:
            if _who(one) != ours:
                _lose(one["fieldsV1"], part, live)
        kept = [one for one in managers if _who(one) != ours and one["fieldsV1"]]
        entry = writer(manager, "Apply", fields_of(part), apiVersion=body["apiVersion"])
        _merge(live, part)
        live["metadata"]["managedFields"] = [*kept, entry]
        self._touch(ref, live)

    def patch(self, ref: Ref, change: Body, manager: str, subresource: str = "") -> None:
        """Patch an object: the values that change are the manager's alone."""
        live = self.objects[ref]
        managers = live["metadata"].setdefault("managedFields", [])
        for one in managers:
            _lose(one["fieldsV1"], change, live)
        mine = {_who(one): one for one in managers}.get((manager, "Update", subresource))
        fields = fields_of(_different(change, live))
        if mine is None and fields:
            named = {"subresource": subresource} if subresource else {}
            version = {"apiVersion": live["apiVersion"], "time": LATER, **named}
            managers.append(writer(manager, "Update", fields, **version))
        elif mine is not None:
            _merge(mine["fieldsV1"], fields)
        _merge(live, change)
        live["metadata"]["managedFields"] = [one for one in managers if one["fieldsV1"]]
        self._touch(ref, live)

    def drop(self, ref: Ref) -> None:
        """Delete an object, and with a Namespace what is in it."""
        del self.objects[ref]
        if ref.group_kind == NAMESPACE:
            for inside in [one for one in self.objects if one.namespace == ref.name]:
                del self.objects[inside]

    def forget(self, ref: Ref) -> None:
        """Take an object off the inventory."""
        del self.entries[ref]

    def hide(self, ref: Ref) -> None:
        """Let nobody read an object."""
        self.hidden.add(ref)

    def live(self, ref: Ref) -> LiveObject:
        """Return an object that exists, read in full."""
        body = self.objects[ref]
        metadata = body["metadata"]
        return LiveObject.of(ref, metadata["uid"], metadata["resourceVersion"], metadata, body)

    def state(self, ref: Ref) -> State:
        """Return what a run reads of an object."""
        if ref in self.hidden:
            return UNREADABLE
        return self.live(ref) if ref in self.objects else Absent()

    def inside(self, namespace: str) -> Iterator[LiveObject]:
        """Return the objects of a namespace."""
        return (self.live(ref) for ref in self.objects if ref.namespace == namespace)

    def marked(self) -> tuple[LiveObject, ...]:
        """Return the objects with the set's label and field manager."""
        return tuple(one for one in map(self.live, self.objects) if is_marked(one, SET))

    def inventory(self) -> Inventory:
        """Return the inventory of the set; one that does not exist if nothing was applied."""
        if not self.entries:
            return Inventory(SET.name, SET.namespace)
        facts: dict[str, Any] = {"uid": "i1", "resource_version": "9", "generation": 3}
        return Inventory(SET.name, SET.namespace, entries=dict(self.entries), **facts)

    def others(self) -> dict[str, OtherSet]:
        """Return the other sets whose labels objects have, as a run reads them."""
        labels = {
            label
            for ref in self.objects
            if (label := self.live(ref).labels.get(PART_OF)) not in (None, SET.id)
        }
        known = {OTHER.id: OTHER}
        return {
            str(label): OtherSet(
                known[str(label)], frozenset(self.owned_by[str(label)]),
                frozenset(self.owned_by[str(label)]),
            )
            if label in self.owned_by
            else OtherSet()
            for label in labels
        }  # fmt: skip

    def _new(self, ref: Ref, body: Body) -> Body:
        self._number += 1
        made = copy.deepcopy(body)
        made["metadata"] = {
            **made["metadata"],
            **({"namespace": ref.namespace} if ref.namespace else {}),
            "uid": f"u{self._number}",
            "creationTimestamp": EARLIER,
        }
        self._touch(ref, made)
        return made

    def _touch(self, ref: Ref, body: Body) -> None:
        self._number += 1
        body["metadata"]["resourceVersion"] = str(self._number)
        self.objects[ref] = body


def _kind(resource: Resource) -> str:
    group = f".{resource.group}" if resource.group else ""
    return f"{resource.kind.lower()}{group}"


def _who(entry: Mapping[str, Any]) -> tuple[str, str, str]:
    return entry["manager"], entry["operation"], entry.get("subresource", "")


def _merge(into: Body, change: Mapping[str, Any]) -> None:
    """Merge as RFC 7386 does: a null removes."""
    for key, value in change.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = copy.deepcopy(value)


def _different(change: Mapping[str, Any], live: Mapping[str, Any]) -> Body:
    """Return the part of a change that has another value than an object, without removals."""
    found: Body = {}
    for key, value in change.items():
        there = live.get(key)
        if isinstance(value, Mapping):
            inner = _different(value, there if isinstance(there, Mapping) else {})
            found.update({key: inner} if inner else {})
        elif value is not None and value != there:
            found[key] = value
    return found


def _lose(fields: Body, change: Mapping[str, Any], live: Mapping[str, Any]) -> None:
    """Take from a manager's fields what a change sets to another value, or removes."""
    for key, value in change.items():
        own, there = f"f:{key}", live.get(key)
        if own not in fields:
            continue
        if isinstance(value, Mapping) and fields[own]:
            _lose(fields[own], value, there if isinstance(there, Mapping) else {})
            if not fields[own]:
                del fields[own]
        elif value != there and not isinstance(value, Mapping):
            del fields[own]
