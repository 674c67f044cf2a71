"""What a check of an inventory against the cluster finds, one value each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from applyprune.model.inventory import Entry
    from applyprune.model.live import Live
    from applyprune.model.refs import Ref
    from applyprune.model.resources import Resource


class Fault(StrEnum):
    """In what the record and the cluster differ."""

    DAMAGED = "damaged inventory"
    COPIED = "copied inventory"
    LOST = "no inventory"
    STRAY_SHARD = "stray shard"
    UNLISTED = "labelled but not listed"
    UNLABELLED = "listed but not labelled"
    OTHER_UID = "UID changed"
    GONE = "gone"
    KIND_GONE = "kind vanished"
    TWO_OWNERS = "two owners"
    UNKNOWN = "not known"


class Remedy(StrEnum):
    """What a repair does about a finding."""

    NONE = "nothing to repair"
    REWRITE = "write the inventory anew"
    LIST = "list it"
    UNLIST = "take it off the list"
    MARK = "put the set's marks back"


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference: about an object, or about the inventory itself when there is no ``ref``.

    ``entry`` is what LIST is to write. Where there are ``live`` and ``resource``, the object is to
    get the set's marks back.
    """

    fault: Fault
    remedy: Remedy
    what: str
    ref: Ref | None = None
    entry: Entry | None = None
    live: Live | None = None
    resource: Resource | None = None
