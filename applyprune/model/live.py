"""An object in the cluster, as a read returned it; its resource; typed reads of its fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from msgspec import Struct

from applyprune.model.fieldset import Writer
from applyprune.model.identity import GVK, GroupKind, Ref
from applyprune.model.kinds import NAMESPACE
from applyprune.model.problem import Problem
from applyprune.model.text import time_of, visible
from applyprune.values import Packed, interned, packed, remembered

if TYPE_CHECKING:
    from datetime import datetime


class LiveObject(Struct, frozen=True):
    """An object that exists."""

    ref: Ref
    uid: str
    resource_version: str
    generation: int | None
    """``metadata.generation``; many kinds have none."""
    terminating: bool
    """Whether it was deleted and only its finalizers keep it."""
    own_name: str
    """The name in its metadata."""
    packed_metadata: Packed
    """Its metadata without ``managedFields``."""
    packed_managers: Packed
    """``managedFields``, which many objects of a kind have in common; a list, perhaps empty."""
    packed_body: Packed | None
    """The whole object; None if only its metadata was read."""

    @classmethod
    def of(
        cls,
        ref: Ref,
        uid: str,
        resource_version: str,
        metadata: Mapping[str, Any],
        body: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return an object by its metadata, as a response has it, and by the whole if it has it."""
        generation = metadata.get("generation")
        return cls(
            ref,
            uid,
            resource_version,
            generation if isinstance(generation, int) else None,
            bool(metadata.get("deletionTimestamp")),
            str(metadata.get("name", ref.name)),
            packed({key: value for key, value in metadata.items() if key != _MANAGERS}),
            interned(packed(metadata.get(_MANAGERS) or [])),
            None if body is None else packed(body),
        )

    @property
    def other_name(self) -> str:
        """Return the name in its metadata if that is not the name by which it was read; else empty.

        A webhook may have changed the name while the object was created by server-side apply. The
        server then finds it by the name that was sent, and lists it under the other one.
        """
        return "" if self.own_name == self.ref.name else self.own_name

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Return its metadata without ``managedFields``."""
        found: Mapping[str, Any] = self.packed_metadata.value
        return found

    @property
    def whole_metadata(self) -> Mapping[str, Any]:
        """Return its metadata as the response had it, with ``managedFields``."""
        managers = self.managed_fields
        return {**self.metadata, _MANAGERS: list(managers)} if managers else self.metadata

    @property
    def body(self) -> Mapping[str, Any] | None:
        """Return the whole object; None if only its metadata was read."""
        return None if self.packed_body is None else self.packed_body.value

    @property
    def labels(self) -> Mapping[str, str]:
        """Return the labels; empty if there are none."""
        return self.metadata.get("labels") or {}

    @property
    def annotations(self) -> Mapping[str, str]:
        """Return the annotations; empty if there are none."""
        return self.metadata.get("annotations") or {}

    @property
    def finalizers(self) -> tuple[str, ...]:
        """Return the finalizers, which a deletion waits for."""
        return tuple(self.metadata.get("finalizers") or ())

    @property
    def managed_fields(self) -> tuple[Mapping[str, Any], ...]:
        """Return the managedFields entries in the server's order."""
        return tuple(self.packed_managers.value)

    @property
    def writers(self) -> tuple[Writer, ...]:
        """Return the managedFields entries as values, in the server's order."""
        return _writers(self.packed_managers)


_MANAGERS = "managedFields"


@remembered
def _writers(managers: Sequence[Mapping[str, Any]]) -> tuple[Writer, ...]:
    return tuple(map(Writer, managers))


def is_after(live: LiveObject, version: str) -> bool:
    """Return whether the reply to a write is a state after the one with a resourceVersion.

    That is empty if the object did not exist. The reply to a dry run has the same one, or none.
    """
    now = live.resource_version
    if now.isdecimal() and version.isdecimal():
        return int(now) > int(version)  # an older one is the reply to an earlier request
    return now not in {"", version}


def deleted_at(live: LiveObject) -> datetime | None:
    """Return when an object was deleted, by the server's clock; None if it was not deleted."""
    return time_of(live.metadata.get("deletionTimestamp"))


class NotListed(Struct, frozen=True):
    """A list did not contain the object, or its kind does not exist yet.

    That is enough for a create-only apply, but never enough to remove an entry from the inventory.
    """


class Absent(Struct, frozen=True):
    """The proof that an object does not exist: a 404 to a GET, whose Status named that object.

    Only the client makes one; a law test keeps it so.
    """


class KindDeleted(Struct, frozen=True):
    """The proof that the CRD of the object's kind was deleted, and all objects of the kind with it.

    Only `planning.served_kinds` makes one; a law test keeps it so.
    """

    @property
    def reason(self) -> str:
        return "its CRD was deleted"


class Unknown(Struct, frozen=True):
    """The read failed, so the state is unknown."""

    problem: Problem
    """Why the read failed."""


Missing: TypeAlias = NotListed | Absent | KindDeleted
"""There is no object, by a proof or only by a list."""


State: TypeAlias = LiveObject | Missing | Unknown


class WatchEvent(Struct, frozen=True):
    """One event of a watch."""

    kind: WatchEventType
    live: LiveObject
    """The object, read in full, or its last state before the deletion.

    For a BOOKMARK, only its resourceVersion is valid: name and UID are empty.
    """


class WatchEventType(StrEnum):
    """The type of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    # Deleted, or no longer selected by the watch: then the object exists, but its labels changed.
    DELETED = "DELETED"
    # The progress of the watch, without an object.
    BOOKMARK = "BOOKMARK"


class Resource(Struct, frozen=True):
    """An endpoint: a kind in one version, its plural and its scope."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    singular: str = ""
    """The singular, as users may write it; empty for the kind in lower case."""
    short_names: tuple[str, ...] = ()
    """The short names, as users may write them: ``deploy``."""
    has_status: bool = False
    """Whether its status is a subresource: then a write of the object itself drops the status."""

    def __eq__(self, other: object) -> bool:
        """Return whether it is the same endpoint; another source may not know its short names."""
        return isinstance(other, Resource) and self._endpoint == other._endpoint

    def __hash__(self) -> int:
        return hash(self._endpoint)

    @property
    def _endpoint(self) -> tuple[str, str, str, str, bool]:
        return self.group, self.version, self.kind, self.plural, self.namespaced

    @property
    def gvk(self) -> GVK:
        return GVK(self.group, self.version, self.kind)

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.kind)

    @property
    def full_plural(self) -> str:
        """Return ``deployments.apps``; for a custom resource this is its CRD's name."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


class ResourceMap(Struct, frozen=True):
    """All resources of the server."""

    served: Mapping[GVK, Resource]
    """Every resource in every version."""
    preferred: Mapping[GroupKind, Resource]
    """The resource of each kind in the server's preferred version."""
    stale: frozenset[str] = frozenset()
    """The groups that discovery could not read, because an aggregated API is down.

    A kind that is missing in such a group may exist.
    """
    versions: frozenset[tuple[str, str]] = frozenset()
    """Every group version that discovery lists, also without a resource that a set may contain."""
    remembered: bool = False
    """Whether an earlier run has read it; then it may be outdated."""

    def find(self, gvk: GVK) -> Resource | None:
        """Return the resource of exactly this version; None if it is not served."""
        return self.served.get(gvk)

    def find_kind(self, group_kind: GroupKind) -> Resource | None:
        """Return the resource of a kind in the server's preferred version."""
        return self.preferred.get(group_kind)


class CompleteResourceMap(Struct, frozen=True):
    """What the server serves, with the proof that no kind is missing in some API groups.

    Only `planning.served_kinds` makes one; a law test keeps it so.
    """

    resources: ResourceMap
    groups: frozenset[str] | None
    """The groups in which no kind is missing; None for all."""


class Registrations(Struct, frozen=True):
    """What the API server should serve: its CRDs and APIServices, read in full."""

    definitions: tuple[LiveObject, ...]
    services: tuple[LiveObject, ...]


def namespace_ref(name: str) -> Ref:
    return Ref(NAMESPACE.group, NAMESPACE.kind, "", name)


NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)
DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
)
API_SERVICES = Resource(
    "apiregistration.k8s.io", "v1", "APIService", "apiservices", namespaced=False
)
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", namespaced=True)
STATEFUL_SETS = Resource("apps", "v1", "StatefulSet", "statefulsets", namespaced=True)
JOBS = Resource("batch", "v1", "Job", "jobs", namespaced=True)
DAEMON_SETS = Resource("apps", "v1", "DaemonSet", "daemonsets", namespaced=True)
AUTOSCALERS = Resource(
    "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", namespaced=True
)
PODS = Resource("", "v1", "Pod", "pods", namespaced=True)
REPLICA_SETS = Resource("apps", "v1", "ReplicaSet", "replicasets", namespaced=True)
CLAIMS = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", namespaced=True)
VOLUMES = Resource("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
EVENTS = Resource("", "v1", "Event", "events", namespaced=True)
BUNDLES = Resource("applyprune.dev", "v1alpha1", "Bundle", "bundles", namespaced=True)
SECRETS = Resource("", "v1", "Secret", "secrets", namespaced=True)
SERVICE_ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts", namespaced=True)
LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True)


# Typed reads of fields: a missing field, or one of another type, is the default, as in kstatus.


def field(body: Mapping[str, Any], *path: str) -> object:
    """Return the value at a path; None if it is missing."""
    value: object = body
    for name in path:
        value = mapping(value).get(name)
    return value


def text(body: Mapping[str, Any], *path: str, default: str = "") -> str:
    """Return the string at a path, else the default."""
    value = field(body, *path)
    return value if isinstance(value, str) else default


def whole_number(body: Mapping[str, Any], *path: str) -> int | None:
    """Return the integer at a path; None if it is missing. A boolean is not an integer."""
    value = field(body, *path)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def count(body: Mapping[str, Any], *path: str, default: int = 0) -> int:
    """Return the integer at a path, else the default: controllers omit a count of zero."""
    value = whole_number(body, *path)
    return default if value is None else value


def items(body: Mapping[str, Any], *path: str) -> Sequence[Any]:
    """Return the list at a path, else an empty sequence."""
    value = field(body, *path)
    return value if isinstance(value, list) else ()


def mapping(value: object) -> Mapping[str, Any]:
    """Return the value if it is a mapping, else an empty mapping."""
    return value if isinstance(value, dict) else {}


def condition(body: Mapping[str, Any], type_: str) -> Condition | None:
    """Return the first condition of a type; None if there is none."""
    return next((found for found in conditions(body) if found.type == type_), None)


def conditions(body: Mapping[str, Any]) -> Sequence[Condition]:
    """Return the conditions in the order of the object."""
    generation = whole_number(body, "metadata", "generation")
    found = []
    for item in (mapping(entry) for entry in items(body, "status", "conditions")):
        observed = whole_number(item, "observedGeneration")
        found.append(
            Condition(
                text(item, "type"),
                text(item, "status"),
                text(item, "reason"),
                one_line(text(item, "message")),
                outdated=observed is not None and generation is not None and observed < generation,
            )
        )
    return found


class Condition(Struct, frozen=True):
    """An item of ``status.conditions``."""

    type: str
    status: str
    reason: str
    message: str
    """The message, on one line."""
    outdated: bool
    """Whether its observedGeneration is older than the object's generation."""

    @property
    def told(self) -> str:
        """Return ``reason: message``, or only the part that is not empty."""
        return ": ".join(part for part in (self.reason, self.message) if part)


_SHOWN = 400


def one_line(words: str) -> str:
    """Return what a controller wrote on one line that is safe to print and not too long."""
    line = visible(" ".join(words.split()))
    return f"{line[:_SHOWN]}…" if len(line) > _SHOWN else line
