"""What a check of an inventory against the cluster finds, one value each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.model.inventory import Entry
    from applyprune.model.live import LiveObject
    from applyprune.model.refs import Ref
    from applyprune.model.resources import Resource


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

    fault: MismatchType
    remedy: Repair
    what: str
    ref: Ref | None = None
    entry: Entry | None = None
    live: LiveObject | None = None
    resource: Resource | None = None
