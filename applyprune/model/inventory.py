"""The record of one set: a header, and an entry for each object that the set may own."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.model.refs import Ref

ABSENT = "absent"
"""``Entry.found`` of an object that was not there before the set's first apply."""


class Made(StrEnum):
    """How an object came to be ours; only a created one is deleted when it leaves the set."""

    CREATED = "created"
    ADOPTED = "adopted"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a confirmed apply left behind, by which a later run knows that nothing has changed.

    ``managed`` is the digest of our own manager's Apply entry in ``metadata.managedFields`` and
    ``time`` that entry's time; ``schema`` is the generation of the CRD, for a custom resource.
    """

    resource_version: str
    generation: int | None
    managed: str
    time: str
    schema: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One object of the set, as it was recorded.

    ``found`` is what the union write saw before the apply: ABSENT, or the UID that was there.
    ``uid`` is empty until a reply confirmed the apply. ``digest`` (of the manifest, without Secret
    values) and ``evidence`` are empty from the union write until the confirmed reply. ``deleting``
    is the recorded intent to delete, ``letting_go`` that to abandon. ``wave``, ``after`` and
    ``keep`` are as they were at the apply: when the object is pruned its manifest is gone.
    """

    ref: Ref
    plural: str
    version: str
    found: str
    uid: str = ""
    made: Made = Made.CREATED
    digest: str = ""
    evidence: Evidence | None = None
    wave: int = 0
    after: tuple[Ref, ...] = ()
    keep: str = ""
    deleting: bool = False
    letting_go: bool = False


@dataclass(frozen=True, slots=True)
class Holder:
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
    entries: Mapping[Ref, Entry] = field(default_factory=dict, hash=False)
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    holder: Holder | None = None
    copied: bool = False
    last: LastRun | None = None
    owner: str = ""

    @property
    def exists(self) -> bool:
        """Return whether the ConfigMap is there."""
        return bool(self.uid)
