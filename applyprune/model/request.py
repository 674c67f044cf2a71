"""The requests of a plan: exactly what is sent for an object, decided before the first write.

Also the rights that requests need. Only ``planning/requests.py`` makes requests, and the client
sends no other write of an object: a test over the code enforces both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from applyprune.model.identity import Ref
from applyprune.model.options import Propagation
from applyprune.model.resources import Resource
from applyprune.values import Packed, dataclass, field

if TYPE_CHECKING:
    from typing import Any

_ANY = "*"


@dataclass(frozen=True, slots=True)
class Precondition:
    """The state in which an object must be for a request to change it.

    An apply with the resourceVersion ``1`` and no UID creates the object, or fails with 409 if it
    exists. An apply with a UID fails with 409 if the object is missing, and with 422 if it is
    another one. An empty field demands nothing.
    """

    uid: str = ""
    resource_version: str = ""


CREATE_ONLY = Precondition(resource_version="1")  # guard: create-only
"""The object must not exist (design.md, safety rule 2)."""


@dataclass(frozen=True, slots=True)
class PatchRequest:
    """A JSON patch (RFC 6902) that tests its own guards.

    It changes managedFields, labels or annotations.
    """

    resource: Resource
    ref: Ref
    operations: Sequence[Mapping[str, Any]] = field(hash=False, repr=False)
    managers_after: Sequence[Mapping[str, Any]] | None = field(default=None, hash=False, repr=False)
    """The managedFields that the object must have afterwards; None to leave them.

    The server gives a patched label to the request's own manager. A second patch corrects that.
    """
    claims: bool = False
    """Whether it makes fields the set's own that the apply then removes."""


@dataclass(frozen=True, slots=True)
class Migration:
    """Which fields of other managers become the set's own before an apply."""

    whole: frozenset[tuple[str, str]] = frozenset()
    """The managers, with their operation, whose fields are all taken."""
    proven: frozenset[str] = frozenset()
    """The managers of which only fields are taken that provably belong to the set."""
    recorded: str = field(default="", repr=False)
    """The fields that the set's last confirmed apply owned, as in the inventory."""
    api_version: str = ""
    """The API version of ``recorded``."""
    restores: bool = False
    """Whether the set gets back its lost Apply entry, with the recorded fields."""

    @property
    def whole_managers(self) -> frozenset[str]:
        """Return the names of the managers whose fields are all taken."""
        return frozenset(name for name, _ in self.whole)

    @property
    def managers(self) -> frozenset[str]:
        """Return the names of all managers that lose fields."""
        return self.whole_managers | self.proven


NO_MIGRATION = Migration()


@dataclass(frozen=True, slots=True)
class ApplyRequest:
    """A server-side apply of one object."""

    resource: Resource
    ref: Ref
    packed: Packed = field(hash=False, repr=False)
    """The body, without preconditions."""
    manager: str
    """The field manager."""
    force: bool = False
    """Whether to take over fields that other field managers own."""
    precondition: Precondition = Precondition()
    before: PatchRequest | ApplyRequest | None = None
    """The request to send first: it moves fields to another owner.

    Its reply is a new state of the object. From that state the same function makes the rest.
    """
    removes: bool = False
    """Whether it removes fields that the manifest sets to null, and that the set does not own."""

    @property
    def body(self) -> Mapping[str, Any]:
        """Return the body, without preconditions."""
        found: Mapping[str, Any] = self.packed.value
        return found

    @property
    def guarded_body(self) -> Mapping[str, Any]:
        """Return the body with its preconditions, as it is sent."""
        guard: dict[str, str] = {}
        if self.precondition.uid:
            guard["uid"] = self.precondition.uid
        if self.precondition.resource_version:
            guard["resourceVersion"] = self.precondition.resource_version
        body = self.body
        return {**body, "metadata": {**body["metadata"], **guard}}


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """A delete of exactly one object in exactly one state (safety rule 3)."""

    resource: Resource
    ref: Ref
    precondition: Precondition
    """Both of its fields are set."""
    propagation: Propagation = Propagation.BACKGROUND

    def __post_init__(self) -> None:
        """Refuse a delete that would hit an object in any other state."""
        if not (self.precondition.uid and self.precondition.resource_version):
            raise ValueError(f"a delete without preconditions: {self.ref}")


Request: TypeAlias = PatchRequest | ApplyRequest | DeleteRequest


@dataclass(frozen=True, slots=True, order=True)
class Access:
    """One verb on one resource, or on one object, as the server authorizes a request."""

    verb: str
    group: str
    plural: str
    namespace: str = ""
    """The namespace; empty for cluster scope."""
    name: str = ""
    """The name of the object; empty if the request names none, as a POST, or for all objects."""

    @property
    def full_plural(self) -> str:
        """Return ``deployments.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


@dataclass(frozen=True, slots=True)
class AccessRule:
    """A rule of a role, as the server reports it."""

    verbs: frozenset[str]
    groups: frozenset[str]
    plurals: frozenset[str]
    names: frozenset[str]
    """The names of the objects that it is limited to; empty for all of them."""

    def allows(self, access: Access) -> bool:
        """Return whether the rule allows a request in its namespace."""
        return (
            not self.verbs.isdisjoint({access.verb, _ANY})
            and not self.groups.isdisjoint({access.group, _ANY})
            and not self.plurals.isdisjoint({access.plural, _ANY})
            and (not self.names or access.name in self.names)  # guard: resource-names
        )
