"""The inventory of a set: its entries, runs and lock, and how it differs from the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple, Self

from msgspec import Struct, field

from applyprune.model.fate import Outcome
from applyprune.model.identity import GVK, Ref
from applyprune.model.live import LiveObject, Resource
from applyprune.values import hiding, pattern


class StoredRoot(Struct, frozen=True):
    """What the ConfigMap of an inventory has besides the inventory, as read or last written."""

    own: str = ""
    """The digest of everything that applyprune itself has written; empty if nothing is stored."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """The labels of other tools."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """The annotations of other tools."""
    owner_references: tuple[Mapping[str, Any], ...] = ()
    finalizers: tuple[str, ...] = ()
    is_terminating: bool = False
    """Whether it is being deleted, and only the finalizers hold it."""
    faults: tuple[str, ...] = ()
    """What is wrong with its label and annotations; the entries are as they were written."""


class Inventory(Struct, frozen=True):
    """The inventory of a set, as read or as it will be written."""

    name: str
    namespace: str
    entries: Mapping[Ref, InventoryEntry] = field(default_factory=dict)
    uid: str = ""
    """The UID of the ConfigMap; empty if it does not exist."""
    resource_version: str = ""
    """The resourceVersion of the ConfigMap; empty if it does not exist."""
    generation: int = 0
    """The number of writes."""
    holder: LockHolder | None = None
    """The run that holds the lock."""
    copied: bool = False
    """Whether the header has another UID than the ConfigMap: a restored backup or a copy."""
    last: RunRecord | None = None
    """The last run that wrote the inventory."""
    earlier: tuple[RunRecord, ...] = ()
    """The runs before the last one that changed an object, the newest first."""
    owner: str = ""
    """The Bundle that owns the set, as ``Bundle NAMESPACE/NAME``; empty for the command line."""
    objects_of_runs: str = ""
    """The objects of the recorded runs, packed by ``planning.history``; anybody may have written
    another text."""
    plan: AppliedPlan | None = None
    """The plan file of the last run that wrote the inventory; None if it had none."""
    approved: ApprovedDeletions | None = None
    """The approved deletions that a run has begun with; None if nothing is left of them."""
    hinted_namespaces: frozenset[str] = frozenset()
    """The namespaces that the annotation of the ConfigMap names."""
    root: StoredRoot = StoredRoot()
    """What the ConfigMap has besides; writes carry over what other tools have added."""

    __repr__ = hiding("root", "objects_of_runs")

    @property
    def history(self) -> tuple[RunRecord, ...]:
        """Return the last runs that changed an object, the newest first."""
        last = (self.last,) if self.last is not None and self.last.has_changed else ()
        return (*last, *self.earlier)[:MOST_RUNS]

    @property
    def exists(self) -> bool:
        """Return whether the ConfigMap exists."""
        return bool(self.uid)


class Ownership(StrEnum):
    """Whether the set created an object or adopted it; by default only owned objects are pruned."""

    OWNED = "owned"
    ADOPTED = "adopted"


class Wave(NamedTuple):
    """When an object is applied; the tuples also order objects of different runs."""

    wave: int = 0
    """The wave of the annotation."""
    rank: int = 0
    """The rank of the kind."""
    depth: int = 0
    """The depth in the chain of dependencies within the rank."""


FIRST_WAVE = Wave()
"""The wave of an object before the plan puts it in order."""


class InventoryEntry(Struct, frozen=True):
    """The record of one object in the inventory."""

    ref: Ref
    plural: str
    """The plural of its kind, for the URL."""
    version: str
    """The API version of its last apply."""
    uid_before_apply: str | None
    """The UID of the object before the apply; None if it did not exist.

    With None, the apply may only create.
    """
    uid: str = ""
    """The UID of the object; empty until a response has confirmed the apply."""
    ownership: Ownership = Ownership.OWNED
    digest: str = ""
    """The digest of the manifest without Secret values; empty until the apply is confirmed."""
    stored: str = ""
    """The digest of the values that the server stored instead; empty if it rewrote none.

    It is also empty for a Secret.
    """
    defaulted: str = ""
    """The digest of the values with the server's defaults inside of ours; empty if it has none.

    A list that we own as a whole has its defaults too. It is also empty for a Secret.
    """
    fingerprint: ApplyFingerprint | None = None
    """The fingerprint of the last confirmed apply; None if there was none.

    It survives the write before the next apply: until that one changes the object, it is valid.
    """
    owned_fields: str = ""
    """The fields that the set's last confirmed apply owned: the canonical JSON text of a FieldsV1.

    It survives the write before the next apply. It is empty until an apply is confirmed.
    """
    marks: tuple[str, ...] = ()
    """The marks of other tools, each ``KEY=VALUE``, that say of none that it runs the object."""
    wave: Wave = FIRST_WAVE
    """Its wave at the apply: at a prune, the manifest no longer exists."""
    depends_on: tuple[Ref, ...] = ()
    """Its dependencies at the apply."""
    orphan_reason: str = ""
    """The annotation at the apply that forbids its deletion; empty if there was none."""
    deleting: bool = False
    """Whether a run intends to delete it."""
    orphaning: bool = False
    """Whether a run intends to orphan it."""
    offered: str = ""
    """To whom it is offered, as ``Siblings.key`` has it; empty for nobody."""
    job: JobRecord | None = None
    """The record of a Job with a TTL; None for any other object."""
    crd: str = ""
    """The CRD that defined its kind at the last apply; empty if none did or that is unknown."""
    changed: bool = False
    """Whether it has changed, or may have, since a run last saw it ready."""

    @property
    def api_version(self) -> str:
        """Return the API version of its last apply, with the group."""
        return GVK(self.ref.group, self.version, self.ref.kind).api_version

    @property
    def values_digest(self) -> str:
        """Return the digest of the values of our fields, as the last confirmed apply left them."""
        return self.stored or self.defaulted or self.digest


class ApplyFingerprint(Struct, frozen=True):
    """The fingerprint of a confirmed apply, by which a later run detects a no-op."""

    resource_version: str
    generation: int | None
    managed_fields: str
    """The digest of our manager's Apply entry in ``metadata.managedFields``."""
    time: str
    """The time of that entry."""
    schema: int | None = None
    """The generation of the CRD, for a custom resource."""


class JobRecord(Struct, frozen=True):
    """What is recorded of a Job with a TTL, which may be gone because it has finished."""

    created: str
    """The time of its creation, by the server's clock."""
    ttl: int
    """Its ``ttlSecondsAfterFinished``."""
    completed: bool = False
    """Whether a run has seen its condition Complete."""


class RunSource(Struct, frozen=True):
    """Where the input of a run came from."""

    shown: str = ""
    """The paths from the root of the work tree, or the address; empty if there was no input."""
    commit: str = ""
    """The commit of the work tree, or the revision of the source; empty if unknown."""
    differs: bool = False
    """Whether a file that was read is not the one of that commit."""
    paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What reads it again: ``filename`` and ``kustomize``, with paths from the root of the work
    tree; empty if nothing does."""

    @property
    def text(self) -> str:
        """Return ``deploy/prod @ 3f2a91c``, with ``+`` if it differs; empty if nothing is known."""
        commit = f"{short_commit(self.commit)}{'+' * self.differs}" if self.commit else ""
        return " @ ".join(filter(None, (self.shown, commit)))


NO_SOURCE = RunSource()
_SHORT = 7
_OBJECT_ID = pattern(r"\b([0-9a-f]{40}|[0-9a-f]{64})\b")


def is_object_id(text: str) -> bool:
    """Return whether a text is a whole ID of an object in Git."""
    return _OBJECT_ID.fullmatch(text) is not None


def short_commit(commit: str) -> str:
    """Return a commit with 7 digits, also in a revision: ``main@sha1:3f2a91c``."""
    return _OBJECT_ID.sub(lambda found: found[0][:_SHORT], commit)


class RunRecord(Struct, frozen=True):
    """A run that wrote the inventory; a run without changes writes nothing.

    It is information for people: whoever may write the inventory may forge it.
    """

    run: str
    """The ID of the run; the User-Agent of each of its requests ends with it."""
    mode: str
    who: str
    """The user and the host of the run, or its Bundle."""
    at: str
    """The end of the run, or its start if the end is not recorded; RFC 3339 in UTC."""
    exit_code: int | None = None
    """The exit code; None while the run works, and if it was killed."""
    actor: str = ""
    """Who it was run for, as `actor` or the pipeline says; empty if unknown."""
    url: str = ""
    """The job of a pipeline; empty if unknown."""
    source: RunSource = NO_SOURCE
    """Where its input came from."""
    number: int = 0
    """Its number among the runs of the set that changed something, from 1; 0 if unknown."""
    is_whole: bool = False
    """Whether it applied a whole input and pruned what had left it."""
    created: int = 0
    changed: int = 0
    pruned: int = 0

    @property
    def has_changed(self) -> bool:
        """Return whether the run has changed an object, or may have."""
        return self.exit_code is None or self.created + self.changed + self.pruned > 0


MOST_RUNS = 10
"""The runs that an inventory keeps."""


class Changes(Struct, frozen=True):
    """What a run has done: how many objects it has created, changed otherwise, and deleted."""

    created: int = 0
    changed: int = 0
    pruned: int = 0
    objects: Mapping[Outcome, ObjectsOfOutcome] = field(default_factory=dict)


class ObjectsOfOutcome(Struct, frozen=True):
    """The objects of a run with one outcome."""

    count: int
    refs: tuple[Ref, ...]
    """The first of them."""


class AppliedPlan(Struct, frozen=True):
    """The plan file that the last run was bound to."""

    checksum: str
    """The checksum of the file."""
    done: bool = False
    """Whether all of it was done."""


class ApprovedDeletions(Struct, frozen=True):
    """The deletions that somebody has approved, until all of them are done."""

    digest: str
    """The digest that is approved: of these deletions, or of the whole plan."""
    packed: str
    """The text that has this digest, compressed, in base64; anybody may have written another."""

    __repr__ = hiding("packed")


OF_CLUSTER = " of cluster "
"""In the name of an owner, before the UID of the cluster with its Bundle, if that is another."""


# The lock: its holder, and what another run knows about that.


class LockHolder(Struct, frozen=True):
    """The run that holds the inventory lock.

    A holder is alive while ``renewals`` changes. An observer may take the lock after ``renewals``
    did not change for ``lease`` seconds of its own clock. Clocks of two machines are never
    compared.
    """

    run: str
    """The ID of the run."""
    who: str
    """The user of the run."""
    lease: float
    """Seconds without a renewal after which another run may take the lock."""
    renewals: int = 0


LONGEST_LEASE = 30.0
"""The longest lease in seconds; no run is blocked longer by a holder that does not renew."""


def valid_lease(seconds: float) -> float:
    """Return a lease that can be kept; LONGEST_LEASE for any number that is none."""
    return float(seconds) if 0 < seconds <= LONGEST_LEASE else LONGEST_LEASE


class HolderObservation(Struct, frozen=True):
    """That a lock holder has written nothing since a time.

    It can be given to a later run, or to another process, on the same machine: the times are boot
    time, and mean nothing on another machine or after another boot.

    Nobody needs to watch in between. Each write of a holder, and so each renewal, raises the number
    of writes. If two looks show the same number of the same inventory, the holder has not renewed
    its lock in the time between them, whatever the observer did. A sleep of the observer's machine
    counts, because that time has passed for the holder too: if it slept as well, its own lease is
    over by the same clock, and it must renew before it writes. A pause of a virtual machine does
    not count, because boot time stops then: the silence seems shorter than it was.
    """

    uid: str
    """The UID of the inventory's ConfigMap."""
    generation: int
    """The number of writes of the inventory."""
    holder: LockHolder
    """The holder, with its number of renewals."""
    since: float
    """When the first reply that shows this state had arrived."""

    @property
    def over_at(self) -> float:
        """Return when another run may take the lock; a look must be asked for after that."""
        return self.since + self.holder.lease


def observe(
    earlier: HolderObservation | None, inventory: Inventory, now: float
) -> HolderObservation | None:
    """Return what is known after a look, whose reply came ``now``; None if no run holds the lock.

    ``earlier`` is what was known before. It holds only as long as nothing has changed. A run ID and
    a number of renewals alone do not show that: an inventory that was created again may have been
    copied.
    """
    if inventory.holder is None:
        return None
    if (
        earlier is not None
        and earlier.uid == inventory.uid  # guard: same-inventory-observed
        and earlier.generation == inventory.generation  # guard: no-write-observed
        and earlier.holder == inventory.holder  # guard: same-holder-observed
    ):
        return earlier
    return HolderObservation(inventory.uid, inventory.generation, inventory.holder, since=now)


class Mismatch(Struct, frozen=True):
    """A mismatch between the inventory and the cluster."""

    type: MismatchType
    repair: Repair
    message: str
    """What differs, in words."""
    ref: Ref | None = None
    """The object; None if the mismatch is about the inventory itself."""
    entry: InventoryEntry | None = None
    """The entry that the repair LIST writes."""
    live: LiveObject | None = None
    """The object that gets its label and field manager back."""
    resource: Resource | None = None
    """The endpoint of that object."""
    owned: bool = False
    """Whether that object also gets the annotation that says that the set created it."""


class _Worded(StrEnum):
    """Its members may have other words in text output than their values."""

    text: str

    def __new__(cls, value: str, text: str = "") -> Self:
        """Make a member from its row."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.text = text or value.replace("-", " ")
        return member


class MismatchType(_Worded):
    """The type of a mismatch between the inventory and the cluster."""

    DAMAGED = "damaged-inventory"
    COPIED = "copied-inventory"
    LOST = "no-inventory"
    STRAY_SHARD = "stray-shard"
    UNLISTED = "labelled-not-listed", "labelled but not listed"
    UNLABELLED = "listed-not-labelled", "listed but not labelled"
    NOT_APPLIED = "listed-not-applied", "listed but not applied"
    TO_ORPHAN = "to-be-orphaned"
    OTHER_UID = "uid-changed", "UID changed"
    GONE = "gone"
    KIND_GONE = "kind-not-served", "kind not served"
    TWO_OWNERS = "two-owners"
    NO_WITNESS = "owned-not-annotated", "owned but not annotated"
    UNKNOWN = "unknown"


class Repair(_Worded):
    """What a repair does about a mismatch."""

    NONE = "none", "nothing to repair"
    REWRITE = "rewrite-inventory", "rewrite the inventory"
    LIST = "add-to-inventory", "add it to the inventory"
    UNLIST = "remove-from-inventory", "remove it from the inventory"
    MARK = "restore-label", "restore the set's label"
    OWN = "write-annotation", "write the annotation of ownership"
    ADOPT = "record-as-adopted", "record it as adopted"
