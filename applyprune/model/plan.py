"""The plan of a run: every fate and every request, decided before the first write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum, auto
from typing import Any, TypeAlias

from msgspec import Struct

from applyprune.model.fate import Fate
from applyprune.model.fieldset import Drift, Path
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry, Wave
from applyprune.model.live import LiveObject, Resource
from applyprune.model.options import Propagation
from applyprune.model.problem import ChangedKey, Origin, Problem, ProblemKind
from applyprune.model.text import and_more
from applyprune.values import Packed, hiding

_SHOWN = 3


class Plan(Struct, frozen=True):
    """All steps of a run, in order."""

    applies: tuple[ApplyStep, ...]
    removals: tuple[RemoveStep, ...]
    """The steps for entries that have left the set, in the order of deletion."""
    no_prune: str = ""
    """Why this run may not prune; empty if it may."""
    guards: tuple[GuardResult, ...] = ()
    """The result of each guard that applies to the deletions; empty without any."""
    refusal: Problem | None = None
    """The problem if a guard blocks the prune."""
    if_approved: Removals | None = None
    """What a refused prune becomes if its deletions are approved; None if that changes nothing."""
    recovered: tuple[InventoryEntry, ...] = ()
    """Entries for unlisted objects with the set's label and field manager."""
    restored: bool = False
    """Whether the inventory is a copy, or lists other objects than the live ones."""
    deletions: str = ""
    """The digest of all deletions: prunes and recreations, with UIDs and cascaded deletions.

    It approves exactly these deletions. It is empty if nothing would be deleted, or if nothing may
    be deleted because the inventory is a copy.
    """
    new_set: bool = False
    """Whether the set has no inventory yet."""
    creates_namespace: bool = False
    """Whether the run creates the namespace of the inventory, alone or as an object of the set."""
    consequences: tuple[Consequence, ...] = ()
    """What the run causes beyond these steps, in their order."""
    digest: str = ""
    """The digest of the whole plan: of the set, the options, and every object."""
    warnings: tuple[Problem, ...] = ()
    """What the user should know before the first write."""
    inventory: str = ""
    """The UID and the generation of the inventory that it was made from."""
    lacks_rights: bool = False
    """Whether the account lacks a right that the run needs; then it writes nothing."""
    forbidden: tuple[tuple[Ref, Problem], ...] = ()
    """What the account may not do to objects without a step: the inventory, its namespace."""
    needs_approval: str = ""
    """The digest to approve so that all of the plan may run; empty if none is needed."""
    continues: bool = False
    """Whether it is the rest of deletions that were approved, and that an earlier run began."""
    records: tuple[ToolRecord, ...] = ()
    """What other tools still have of the objects that it adopts; what runs in the cluster first."""

    __repr__ = hiding("if_approved")

    @property
    def offered(self) -> Mapping[Ref, InventoryEntry]:
        """Return the entries of what other sets may still take, as an offer has them."""
        steps = (step for step in self.removals if step.cause is Cause.OFFERED)
        return {step.entry.ref: step.entry for step in steps}

    @property
    def waits_for(self) -> frozenset[Ref]:
        """Return what must be ready before this run prunes something."""
        return frozenset(wait.ref for step in self.removals for wait in step.waits_for)

    @property
    def steps(self) -> tuple[ApplyStep | RemoveStep, ...]:
        """Return the steps for all objects: of the input, then those that have left the set."""
        return *self.applies, *self.removals

    @property
    def faults(self) -> tuple[ApplyStep, ...]:
        """Return the steps that the check refuses; with any, a run writes nothing.

        An object that could not be read is none of them: it fails alone.
        """
        return tuple(
            step
            for step in self.applies
            if step.fate is Fate.REFUSE and step.cause is not Cause.UNREAD
        )

    @property
    def stops(self) -> bool:
        """Return whether a fault, or a right that the account lacks, keeps a run from writing."""
        lacks_rights = self.lacks_rights  # guard: missing-rights -> False
        return bool(self.faults) or lacks_rights

    @property
    def writes(self) -> bool:
        """Return whether any step needs a request that changes something."""
        return (
            bool(self.recovered)
            or any(step.request is not None or step.is_recorded for step in self.applies)
            or (
                not self.no_prune
                and any(step.fate not in {Fate.REFUSE, Fate.LEAVE} for step in self.removals)
            )
        )


# The steps of a plan.


class Cause(StrEnum):
    """What has led to a fate, where something else depends on it; the reason has the words."""

    ORDINARY = auto()
    UNREAD = auto()
    """Its state could not be read: only this object fails."""
    LEAVE_MARK = auto()
    """An annotation of its manifest or of the object says so."""
    CONFLICT_SKIPPED = auto()
    """Other managers own its fields, and its manifest says to skip it then."""
    NOT_APPROVED = auto()
    """It must be recreated, and that is not approved."""
    DRIFT_KEPT = auto()
    """The options keep its drift."""
    CONTENDED = auto()
    """Another manager keeps changing it back."""
    ADOPTED = auto()
    """The set has not created it, so it is orphaned."""
    MARKED = auto()
    """Its manifest, or somebody in the cluster, has annotated it to be orphaned."""
    SHARED = auto()
    """Another tool or another applier manages it now, so it is orphaned."""
    OWNED = auto()
    """Somebody has given it an owner that stays, so it is orphaned, or stays with that owner."""
    IN_USE = auto()
    """Live Pods use it, and no rollout of this set ends that."""
    NO_RIGHT_TO_COUNT = auto()
    """Only a right is missing to count what it owns."""
    OFFERED = auto()
    """Another set may still take it."""
    MOVES = auto()
    """Another set of the same command has it in its input."""


_DRIFT_STAYS = {Cause.DRIFT_KEPT, Cause.CONTENDED}
_SKIPPED = {Cause.LEAVE_MARK, Cause.CONFLICT_SKIPPED, Cause.NOT_APPROVED}


class ToolRecord(Struct, frozen=True):
    """What another tool still has of objects that a set adopts: it may change or delete them."""

    tool: str
    owner: str
    """What it is, in words: ``release web in namespace shop``."""
    objects: int
    """How many of the adopted objects say that they are in it."""
    command: str = ""
    """The command that ends it; empty if none is known."""
    runs: bool = False
    """Whether the tool runs in the cluster, and writes the objects again."""

    def __str__(self) -> str:
        """Return what it is, and the command on the same line."""
        return f"{self.said}: {self.to_end}: {self.command}" if self.command else self.said

    @property
    def said(self) -> str:
        """Return ``still recorded by Helm (release web in namespace shop)``."""
        return f"still {'applied' if self.runs else 'recorded'} by {self.tool} ({self.owner})"

    @property
    def to_end(self) -> str:
        """Return the words before the command."""
        return "to end that" if self.runs else "to end that record"


class Migration(Struct, frozen=True):
    """Which fields of other managers become the set's own before an apply."""

    whole: frozenset[tuple[str, str]] = frozenset()
    """The managers, with their operation, whose fields are all taken."""
    proven: frozenset[str] = frozenset()
    """The managers of which only fields are taken that provably belong to the set."""
    last: InventoryEntry | None = None
    """The record of the set's last confirmed apply; None for an adoption, or if there is none."""
    restores: bool = False
    """Whether the set gets back its lost Apply entry, with the recorded fields."""
    named: frozenset[tuple[str, str]] = frozenset()
    """Those of ``whole`` that only the user has named: what the default rules leave them stays."""
    rules_off: frozenset[str] = frozenset()
    """The default rules that are switched off."""
    marks: tuple[tuple[Path, str], ...] = ()
    """The marks of other tools on what is adopted, with their values: the apply removes them."""

    __repr__ = hiding("last", "marks")

    @property
    def recorded(self) -> str:
        """Return the fields that the last confirmed apply owned, as in the inventory."""
        return "" if self.last is None else self.last.owned_fields

    @property
    def whole_managers(self) -> frozenset[str]:
        """Return the names of the managers whose fields are all taken."""
        return frozenset(name for name, _ in self.whole)

    @property
    def managers(self) -> frozenset[str]:
        """Return the names of all managers that lose fields."""
        return self.whole_managers | self.proven


NO_MIGRATION = Migration()


class ApplyStep(Struct, frozen=True):
    """The step for one object of the input: CREATE, CHANGE, ADOPT, RECREATE, LEAVE or REFUSE."""

    desired: Desired
    fate: Fate
    entry: InventoryEntry
    """The entry that the inventory gets before the apply."""
    live: LiveObject | None = None
    """The live object; None if it does not exist or could not be read."""
    reason: str = ""
    """Why this is its fate, in words; may be empty."""
    cause: Cause = Cause.ORDINARY
    problem: Problem | None = None
    """Why the object is refused."""
    fence: bool = False
    """Whether an interrupted run may have sent a delete that has not arrived yet."""
    migration: Migration = NO_MIGRATION
    """The fields that become ours first."""
    request: ApplyRequest | None = None
    """What to send; None to send nothing.

    An object that a check found unchanged has one: its reply proves that we own its fields.
    """
    becomes_owned: bool = False
    """Whether the set owns the object that it adopts: a later prune deletes it."""
    takes_over: bool = False
    """Whether fields or the label of others become ours before the apply."""
    deletion: DeleteRequest | None = None
    """What to send first if it must be recreated; None if no check has found that."""
    not_checked: str = ""
    """What the server could not check, in words; empty if it has checked all, or was not asked."""
    is_checked: bool = False
    """Whether the fate is the result of a server dry run."""
    unowned: tuple[str, ...] = ()
    """The items of its lists that nobody owns, if every value was to be compared."""
    rewritten: tuple[str, ...] = ()
    """The fields that the server would store with another value, according to a dry run."""
    claimed_from: LiveObject | None = None
    """The object before this run made fields the set's own that the apply removes."""
    cascade: tuple[Cascaded, ...] = ()
    """The objects outside this plan that its recreation would delete."""
    unlisted: tuple[str, ...] = ()
    """The kinds that may not be listed, so that what of them it owns is not counted."""
    is_unlisted: bool = False
    """Whether it gets no entry, because it does not belong to the set."""
    is_awaited: bool = False
    """Whether it must exist, and did not when it was read."""
    is_recorded: bool = False
    """Whether its entry must be written although nothing is sent."""
    is_reapplied: bool = False
    """Whether the last confirmed apply has sent the same manifest."""
    alters: bool | None = None
    """Whether an adoption changes more than marks of tools and sets; None if no check has told."""
    drift: tuple[Drift, ...] = ()
    """What others have changed since the last apply and the manifest sets to another value.

    It is empty unless the options say what to do with drift.
    """
    reverts: tuple[tuple[str, str], ...] = ()
    """The drifted fields that the apply reverts: JSON pointers, each with who has changed it."""
    released: tuple[tuple[str, str], ...] = ()
    """The fields of others that go with a part that leaves: JSON pointers, each with its owner."""
    taken_from: tuple[str, ...] = ()
    """Who loses the object, or fields of it, to this apply: field managers and sets, in words.

    Before the server has checked it, whoever owns a field that is forced counts.
    """

    @property
    def is_new(self) -> bool:
        """Return whether the object does not exist yet, and the run creates or awaits it."""
        return self.fate is Fate.CREATE or (self.fate is Fate.ADOPT and self.live is None)

    @property
    def writes_first(self) -> bool:
        """Return whether the object changes before the apply, whatever that does.

        What is claimed for the apply to remove does not count: the server may set it again.
        """
        before = self.request.before if self.request is not None else None
        claims = isinstance(before, PatchRequest) and before.claims
        return before is not None and not claims  # guard: written-before-the-apply -> False

    @property
    def is_skipped(self) -> bool:
        """Return whether it is left although it differs from its manifest."""
        return self.keeps_drift or self.cause in _SKIPPED

    @property
    def keeps_drift(self) -> bool:
        """Return whether it is left although it may have drifted."""
        return self.cause in _DRIFT_STAYS


IN_PLACE = "it cannot be changed in place"
"""The reason of RECREATE."""
OUTSIDE = "it must exist, and does not belong to the set"
"""The reason of LEAVE for a manifest with ``ApplyRule.EXISTS``."""


class RemoveStep(Struct, frozen=True):
    """The step for an entry that has left the set.

    Its fate is PRUNE, ORPHAN, REMOVE_FROM_INVENTORY, LEAVE or REFUSE.
    """

    entry: InventoryEntry
    resource: Resource | None
    """The endpoint; None if the kind is not served."""
    fate: Fate
    live: LiveObject | None = None
    """The live object; None if it does not exist or could not be read."""
    reason: str = ""
    """Why this is its fate, in words; may be empty."""
    cause: Cause = Cause.ORDINARY
    problem: Problem | None = None
    """Why the object is refused."""
    request: DeleteRequest | PatchRequest | None = None
    """What to send; None to send nothing."""
    not_checked: str = ""
    """What the server could not check, in words; empty if it has checked all, or was not asked."""
    cascade: tuple[Cascaded, ...] = ()
    """The objects outside this prune that its deletion would delete too.

    Those that another one of them owns are left out: they come and go with their owner. This does
    not hold for the guarded kinds.
    """
    unlisted: tuple[str, ...] = ()
    """The kinds that may not be listed, so that what of them it owns is not counted."""
    rollouts: tuple[Ref, ...] = ()
    """The workloads of the input whose old Pods use it."""
    pod_labels: tuple[Mapping[str, str], ...] = ()
    """The labels of the Pods of a workload."""
    pods_unread: str = ""
    """Why it is unknown whether Pods use it; empty if it is known, or does not matter."""
    waits_for: tuple[PruneWait, ...] = ()
    """What must be ready before it is deleted."""
    owners: tuple[Ref, ...] = ()
    """The objects of the set that own it, and that this run deletes: it stays if one of them does.

    The manifest has not set them.
    """
    ignored: str = ""
    """Which ignore rule leaves out its manifest, and where that is; empty if none does."""

    __repr__ = hiding("pod_labels")

    @property
    def is_going(self) -> bool:
        """Return whether somebody has deleted the object already: nothing is left to decide."""
        return self.fate is Fate.PRUNE and self.live is not None and self.live.terminating

    @property
    def is_doomed(self) -> bool:
        """Return whether the object is deleted, or would be if no guard refused that."""
        return self.fate is Fate.PRUNE or (
            self.problem is not None and self.problem.kind is ProblemKind.PRUNE_REFUSED
        )


class PruneWait(Struct, frozen=True):
    """An object of the input that must be ready before another one is deleted."""

    ref: Ref
    reason: str
    """Why, in words that fit one object or many: ``old Pods use it``."""


def wait_reason(removals: Iterable[RemoveStep], word: str = "after") -> str:
    """Return what is pruned ``after`` or ``before`` something is ready, and why; may be empty."""
    found: dict[str, list[str]] = {}
    for step in removals:
        if step.waits_for:
            found.setdefault(waits_in_words(step), []).append(step.entry.ref.short)
    reasons = [f"{and_more(refs, _SHOWN)} {word} {waits}" for waits, refs in found.items()]
    return and_more(reasons, _SHOWN, "; ")


def waits_in_words(step: RemoveStep) -> str:
    """Return what must be ready before an object is deleted, by the reason."""
    found: dict[str, list[str]] = {}
    for wait in step.waits_for:
        found.setdefault(wait.reason, []).append(wait.ref.short)
    return ", ".join(f"{and_more(refs, _SHOWN)} ({why})" for why, refs in found.items())


class Removals(Struct, frozen=True):
    """The steps for entries that have left the set, with what the guards say about them."""

    steps: tuple[RemoveStep, ...]
    """The steps in the order of deletion."""
    guards: tuple[GuardResult, ...] = ()
    """The result of each guard that applies."""
    refusal: Problem | None = None
    """The problem that blocks the whole prune."""


class Cascaded(Struct, frozen=True, order=True):
    """An object that is deleted because another one is."""

    ref: Ref
    uid: str


# What a manifest asks for: its object, when that is applied, and when it is recreated.


class ApplyRule(StrEnum):
    """What a manifest asks for instead of being applied in each run."""

    ALWAYS = ""
    DISABLED = "disabled"
    """It is left out; an object that it names is left alone."""
    ONCE = "once"
    """Its object is created if it does not exist, and never changed."""
    EXISTS = "exists"
    """Its object must exist, and does not belong to the set."""


class OnConflict(StrEnum):
    """What a manifest asks for if other managers own its fields, whatever the options say."""

    UNSET = ""
    """The options decide."""
    FAIL = "fail"
    REVERT = "revert"
    FORCE = "force"
    SKIP = "skip"
    """Leave the object as it is while it conflicts; the run goes on without it."""


class Desired(Struct, frozen=True):
    """A desired object: a manifest with its endpoint, namespace, label and wave resolved."""

    ref: Ref
    resource: Resource
    """The endpoint that serves the object."""
    packed: Packed
    """The body to send, without preconditions."""
    digest: str
    """The digest of the body in the inventory."""
    wave: Wave
    """When the object is applied."""
    orphan_reason: str
    """The annotation that forbids its deletion; empty if there is none."""
    has_ttl: bool
    """Whether it is a Job with a TTL, which may be gone because it has finished."""
    origin: Origin
    """The place of the manifest in the input."""
    depends_on: tuple[Ref, ...] = ()
    """The objects of the set in its depends-on annotation."""
    needs: frozenset[Ref] = frozenset()
    """The objects of the set that its fields name."""
    recreate: bool = False
    """Whether its manifest allows to recreate it, if it cannot be changed in place."""
    apply: ApplyRule = ApplyRule.ALWAYS
    """Whether it is applied in each run."""
    apply_mark: str = ""
    """The annotation that says so, ours or another tool's; empty if it is applied in each run."""
    timeout: float | None = None
    """How many seconds each wait for it may take; None for that of the run."""
    conflicts: OnConflict = OnConflict.UNSET
    """What to do on a field conflict."""
    ignored: tuple[str, ...] = ()
    """The JSON pointers of fields that are only sent at creation."""
    ignore_reasons: tuple[str, ...] = ()
    """Which fields are left to others though the manifest has them, and why, in words."""
    excluding: tuple[str, ...] = ()
    """The JSON pointers of others' fields that drift has set, and that exclude the manifest's."""
    releasing: tuple[str, ...] = ()
    """The JSON pointers of parts that it gives up, and that are released with others' fields."""
    loses_replicas: bool = False
    """Whether the set owns its live replicas, and its manifest sets none: they would be reset."""
    is_scaling_unknown: bool = False
    """Whether an autoscaler may set its replicas: those of its namespace could not be read."""
    versions: frozenset[str] = frozenset()
    """The API versions of a custom kind: those of its CRD in the input, else those served."""
    wait: str = ""
    """The wait annotation: ``skip``, ``started`` or empty."""
    ready_when: str = ""
    """The CEL expression that is true if the object is ready; empty for the rule of its kind."""
    changed_keys: tuple[ChangedKey, ...] = ()
    """The keys of which YAML makes another text, and of which only a schema says whose they are."""

    @property
    def body(self) -> Mapping[str, Any]:
        """Return the body to send, without preconditions."""
        found: Mapping[str, Any] = self.packed.value
        return found

    @property
    def is_outside(self) -> bool:
        """Return whether it must exist, but does not belong to the set."""
        return self.apply is ApplyRule.EXISTS


# The requests: exactly what is sent for an object, and the rights that this needs.
#
# ``planning/requests.py`` makes those of a plan. The store of an inventory makes one more: the
# delete of the inventory itself.


class Precondition(Struct, frozen=True):
    """The state in which an object must be for a request to change it.

    An apply with the resourceVersion ``1`` and no UID creates the object, or fails with 409 if it
    exists. An apply with a UID fails with 409 if the object is missing, and with 422 if it is
    another one. An empty field demands nothing.
    """

    uid: str = ""
    resource_version: str = ""


CREATE_ONLY = Precondition(resource_version="1")  # guard: create-only -> Precondition()
"""The object must not exist (design.md, safety rule 2)."""


class ApplyRequest(Struct, frozen=True):
    """A server-side apply of one object."""

    resource: Resource
    ref: Ref
    packed: Packed
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
    """Whether it removes fields of others, which exclude or hold what is the set's."""

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


class PatchRequest(Struct, frozen=True):
    """A JSON patch (RFC 6902) that tests its own guards.

    It changes managedFields, labels or annotations.
    """

    resource: Resource
    ref: Ref
    operations: Sequence[Mapping[str, Any]]
    managers_after: Sequence[Mapping[str, Any]] | None = None
    """The managedFields that the object must have afterwards; None to leave them.

    The server gives a patched label to the request's own manager. A second patch corrects that.
    """
    claims: bool = False
    """Whether it makes fields the set's own that the apply then removes."""

    __repr__ = hiding("operations", "managers_after")

    @property
    def changes(self) -> bool:
        """Return whether it changes anything, and does not only test its guards."""
        return any(operation["op"] != "test" for operation in self.operations)


class DeleteRequest(Struct, frozen=True):
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


class Access(Struct, frozen=True, order=True):
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


_ANY = "*"


class AccessRule(Struct, frozen=True):
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
            and (not self.names or access.name in self.names)  # guard: resource-names always
        )


class ConsequenceKind(StrEnum):
    """What a plan causes beyond the changes of the objects themselves."""

    ROLLOUT = "rollout"
    """The Pods of a workload are replaced, a few at a time."""
    RESTART = "restart"
    """All Pods of a workload stop, then start."""
    ON_DELETE = "on-delete"
    """The Pods of a workload only change when they are deleted."""
    PAUSED = "paused"
    """The Pods of a workload only change when its rollout is resumed."""
    SCALES = "scales"
    """A workload gets another number of replicas, because its manifest no longer sets it."""
    READ_BY = "read-by"
    """Workloads of the set read a ConfigMap or Secret whose values change."""
    OLD_VALUE = "old-value"
    """Workloads of the set keep old values until their Pods restart."""
    SWITCHES = "switches"
    """A Service sends its traffic to Pods of the set that are not ready yet."""
    VOLUME_DELETED = "volume-deleted"
    """The volume of a deleted PersistentVolumeClaim is deleted or wiped, with its data."""
    VOLUME_KEPT = "volume-kept"
    """The volume of a deleted PersistentVolumeClaim stays, with its data."""
    CASCADE = "cascade"
    """Other objects are deleted with a deleted one."""
    FIELDS_LOST = "fields-lost"
    """Other managers lose fields to the set, or with an object that is deleted."""


class Consequence(Struct, frozen=True):
    """One thing that a plan causes beyond the change of the object itself."""

    kind: ConsequenceKind
    ref: Ref
    """The object of the plan that causes it, or that it happens to."""
    message: str
    """What happens, in words."""
    count: int | None = None
    """How many Pods, volumes or other objects it happens to; None if that is unknown."""
    refs: tuple[Ref, ...] = ()
    """The other objects that it happens to."""
    certain: bool = True
    """Whether it is known; otherwise something was not read or not checked by the server."""


class GuardResult(Struct, frozen=True):
    """The result of one guard for the prune of a plan."""

    guard: Guard
    verdict: GuardVerdict
    message: str
    """What the guard has found, in words."""
    option: str = ""
    """The option that would allow exactly this; empty if it passed, or if no option can."""
    lifted_by: str = ""
    """The option, or the approval, that has lifted it; empty if nothing has."""

    def __str__(self) -> str:
        """Return the result in one line: ``guard max-prune lifted by --max-prune 9: …``."""
        by = f" by {self.lifted_by}" if self.lifted_by else ""
        return f"guard {self.guard} {self.verdict}{by}: {self.message}"


class Guard(StrEnum):
    """What is checked before a prune as a whole."""

    EMPTY_INPUT = "empty-input"
    """Every part of the input contains an object."""
    ORPHAN_NAMES = "orphan-names"
    """Every ``--orphan`` option matches an object."""
    INPUT_INSIDE = "input-inside"
    """Nothing would be deleted that contains objects of the input."""
    NOTHING_IN_COMMON = "nothing-in-common"
    """The input and the inventory have an object in common."""
    OTHER_NAMESPACE = "other-namespace"
    """The input does not have the deleted objects in another namespace."""
    MORE_THAN_HALF = "more-than-half"
    """At least half of the set's own live objects stay."""
    MAX_PRUNE = "max-prune"
    """The number of deletions, with cascades, is within the limit."""
    GUARDED_KIND = "guarded-kind"
    """No object of a kind that contains data or other objects would be deleted."""
    CASCADE = "cascade"
    """No deletion cascades to objects that must stay."""
    CONTROLLER_IN_USE = "controller-in-use"
    """No Bundle needs the controller that would be deleted."""
    APPROVED_DELETIONS = "approved-deletions"
    """What would be deleted is what the given approval covers."""
    RESTORED_INVENTORY = "restored-inventory"
    """The inventory is neither a copy nor restored from a backup."""


class GuardVerdict(StrEnum):
    """What a guard says about a prune."""

    PASSED = "passed"
    LIFTED = "lifted"
    """It would refuse the prune, but the user has allowed exactly that."""
    REFUSED = "refused"
