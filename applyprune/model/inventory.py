"""The record of one set: a header, and an entry for each object that the set may own.

What a check of an inventory against the cluster finds, one value each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.model.identity import Ref
    from applyprune.model.live import LiveObject
    from applyprune.model.resources import Resource


class Ownership(StrEnum):
    """Whether the set created an object or adopted it; only an owned one is ever pruned."""

    OWNED = "owned"
    ADOPTED = "adopted"


class Wave(NamedTuple):
    """When an object is applied; tuples order the objects of different runs as well.

    ``wave`` is what the manifest asks for, ``rank`` comes from the kind, and ``depth`` from the
    chain of dependencies within that rank.
    """

    wave: int = 0
    rank: int = 0
    depth: int = 0


FIRST_WAVE = Wave()
"""The wave of an object that no plan has put in order yet."""


@dataclass(frozen=True, slots=True)
class ApplyFingerprint:
    """What a confirmed apply left behind: by it a later run detects that nothing has changed.

    ``managed_fields`` is the digest of our own manager's Apply entry in ``metadata.managedFields``
    and ``time`` that entry's time; ``schema`` is the generation of the CRD, for a custom resource.
    """

    resource_version: str
    generation: int | None
    managed_fields: str
    time: str
    schema: int | None = None


@dataclass(frozen=True, slots=True)
class InventoryEntry:
    """One object of the set, as it was recorded.

    ``uid_before_apply`` is what the union write saw before the apply: the UID that was there, or
    None when there was no object; then the apply may only create.
    ``uid`` is empty until a reply confirmed the apply. ``digest`` (of the manifest, without Secret
    values) and ``fingerprint`` are empty from the union write until the confirmed reply.
    ``deleting`` is the recorded intent to delete, ``orphaning`` that to orphan. ``wave``,
    ``depends_on`` and ``orphan_reason`` are as they were at the apply: when the object is pruned
    its manifest is gone.
    """

    ref: Ref
    plural: str
    version: str
    uid_before_apply: str | None
    uid: str = ""
    ownership: Ownership = Ownership.OWNED
    digest: str = ""
    fingerprint: ApplyFingerprint | None = None
    wave: Wave = FIRST_WAVE
    depends_on: tuple[Ref, ...] = ()
    orphan_reason: str = ""
    deleting: bool = False
    orphaning: bool = False


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Who works on the set now.

    A holder is live while ``renewals`` moves; an observer that has seen it stand still for
    ``lease`` seconds of its own monotonic clock may take over. Clocks of two machines are never
    compared. ``process`` identifies a process on its host beyond reuse of its number.
    """

    run: str
    who: str
    host: str
    process: str
    lease: float
    renewals: int = 0


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last run that wrote the inventory; ``at`` is its end, RFC 3339 in UTC, ``who`` ran it.

    ``exit_code`` is what the run came to. A run that found nothing to do writes nothing, so it is
    not the one named here.
    """

    run: str
    mode: str
    who: str
    at: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class Inventory:
    """The inventory of one set as read, or as it is to be written.

    ``owner`` names the Bundle that owns the set (``Bundle NAMESPACE/NAME``), empty for one that the
    command line applies. ``last`` is the last run that wrote anything. ``uid`` and
    ``resource_version`` are the ConfigMap's, empty when it does not exist yet. ``copied`` says that
    the header names another UID than the ConfigMap has: a restored backup or a copy.
    ``generation`` counts writes.
    """

    name: str
    namespace: str
    entries: Mapping[Ref, InventoryEntry] = field(default_factory=dict, hash=False)
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    holder: LockHolder | None = None
    copied: bool = False
    last: LastRun | None = None
    owner: str = ""

    @property
    def exists(self) -> bool:
        """Return whether the ConfigMap is there."""
        return bool(self.uid)


class MismatchType(StrEnum):
    """In what the record and the cluster differ."""

    DAMAGED = "damaged-inventory"
    COPIED = "copied-inventory"
    LOST = "no-inventory"
    STRAY_SHARD = "stray-shard"
    UNLISTED = "labelled-not-listed"
    UNLABELLED = "listed-not-labelled"
    OTHER_UID = "uid-changed"
    GONE = "gone"
    KIND_GONE = "kind-not-served"
    TWO_OWNERS = "two-owners"
    UNKNOWN = "unknown"

    @property
    def text(self) -> str:
        """Return the mismatch as text says it: ``labelled but not listed``."""
        return _FAULTS.get(self, self.value.replace("-", " "))


_FAULTS: Mapping[MismatchType, str] = {
    MismatchType.UNLISTED: "labelled but not listed",
    MismatchType.UNLABELLED: "listed but not labelled",
    MismatchType.OTHER_UID: "UID changed",
    MismatchType.KIND_GONE: "kind not served",
}


class Repair(StrEnum):
    """What a repair does about a finding."""

    NONE = "none"
    REWRITE = "rewrite-inventory"
    LIST = "add-to-inventory"
    UNLIST = "remove-from-inventory"
    MARK = "restore-label"

    @property
    def text(self) -> str:
        """Return the repair as text says it: ``restore the set's label``."""
        return _REMEDIES[self]


_REMEDIES: Mapping[Repair, str] = {
    Repair.NONE: "nothing to repair",
    Repair.REWRITE: "rewrite the inventory",
    Repair.LIST: "add it to the inventory",
    Repair.UNLIST: "remove it from the inventory",
    Repair.MARK: "restore the set's label",
}


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One difference: about an object, or about the inventory itself when there is no ``ref``.

    ``entry`` is what LIST is to write. Where there are ``live`` and ``resource``, the object is to
    get the set's marks back.
    """

    type: MismatchType
    repair: Repair
    message: str
    ref: Ref | None = None
    entry: InventoryEntry | None = None
    live: LiveObject | None = None
    resource: Resource | None = None
