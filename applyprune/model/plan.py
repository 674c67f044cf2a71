"""The plan of a run: all decisions, made before any write."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry, Wave
from applyprune.model.plan_values.apply_rules import ApplyRule, Recreate
from applyprune.model.plan_values.consequence import Consequence
from applyprune.model.plan_values.guard_result import GuardResult
from applyprune.model.problem import Problem, ProblemKind
from applyprune.model.request import NO_MIGRATION, Migration
from applyprune.model.resources import Resource
from applyprune.values import Packed, dataclass, field

if TYPE_CHECKING:
    from typing import Any

    from applyprune.model.live import LiveObject
    from applyprune.model.manifest import Origin
    from applyprune.model.plan_values.drifted_field import Drift
    from applyprune.model.request import ApplyRequest, DeleteRequest, PatchRequest


class OnConflict(StrEnum):
    """What a manifest asks for if other managers own its fields."""

    FAIL = "fail"
    FORCE = "force"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Desired:
    """A desired object: a manifest with its endpoint, namespace, label and wave resolved."""

    ref: Ref
    resource: Resource
    """The endpoint that serves the object."""
    packed: Packed = field(hash=False, repr=False)
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
    recreate: Recreate = Recreate.NEVER
    """When its manifest allows to delete and recreate it."""
    apply: ApplyRule = ApplyRule.ALWAYS
    """Whether it is applied in each run."""
    apply_mark: str = ""
    """The annotation that says so, ours or another tool's; empty if it is applied in each run."""
    timeout: float | None = None
    """How many seconds each wait for it may take; None for that of the run."""
    conflicts: OnConflict = OnConflict.FAIL
    """What to do on a field conflict."""
    ignored: tuple[str, ...] = ()
    """The JSON pointers of fields that are only sent at creation."""
    left: tuple[str, ...] = ()
    """What the default rules leave to others, in words."""
    removed: tuple[str, ...] = ()
    """The JSON pointers of fields that the manifest sets to null: they are removed, not sent."""
    is_scaling_unknown: bool = False
    """Whether an autoscaler may set its replicas: those of its namespace could not be read."""
    pruned_autoscalers: frozenset[str] = frozenset()
    """The UIDs of the autoscalers that the run prunes: they will not set its replicas again."""
    versions: frozenset[str] = frozenset()
    """The API versions of a custom kind: those of its CRD in the input, else those served."""
    wait: str = ""
    """The wait annotation: ``skip``, ``started`` or empty."""
    ready_when: str = ""
    """The CEL expression that is true if the object is ready; empty for the rule of its kind."""

    @property
    def body(self) -> Mapping[str, Any]:
        """Return the body to send, without preconditions."""
        found: Mapping[str, Any] = self.packed.value
        return found


class Fate(StrEnum):
    """What is decided about one object, from the plan to the report."""

    CREATE = "create"
    CHANGE = "change"
    """Apply it; a check by the server shows whether that changes anything."""
    LEAVE = "leave"
    """Its fields stay as they are: they are as its manifest says, or must not change now."""
    RECREATE = "recreate"
    """Delete and create it: a field that cannot be changed in place has changed."""
    ADOPT = "adopt"
    """Apply it, and so take an existing object into the set."""
    ORPHAN = "orphan"
    """Keep it in the cluster, without the set's label and field manager."""
    PRUNE = "prune"
    """Delete it, because it has left the set or because the whole set is deleted."""
    REMOVE_FROM_INVENTORY = "remove-from-inventory"
    """Only remove its entry; do not change the object."""
    REFUSE = "refuse"
    """Do nothing, and report a problem."""

    @property
    def forecast(self) -> str:
        """Return the words for what will happen: ``will be created``."""
        return _FORECASTS[self]

    @property
    def is_applied(self) -> bool:
        """Return whether the manifest is sent."""
        return self in {Fate.CREATE, Fate.CHANGE, Fate.ADOPT, Fate.RECREATE}


_FORECASTS: Mapping[Fate, str] = {
    Fate.CREATE: "will be created",
    Fate.CHANGE: "will be updated",
    Fate.LEAVE: "will not change",
    Fate.RECREATE: "will be recreated",
    Fate.ADOPT: "will be adopted",
    Fate.ORPHAN: "will be orphaned",
    Fate.PRUNE: "will be pruned",
    Fate.REMOVE_FROM_INVENTORY: "will be removed from inventory",
    Fate.REFUSE: "is refused",
}


IN_PLACE = "it cannot be changed in place"
"""The reason of RECREATE."""


@dataclass(frozen=True, slots=True, order=True)
class Cascaded:
    """An object that is deleted because another one is."""

    ref: Ref
    uid: str


@dataclass(frozen=True, slots=True)
class ApplyStep:
    """The step for one object of the input: CREATE, CHANGE, ADOPT, RECREATE, LEAVE or REFUSE."""

    desired: Desired
    fate: Fate
    entry: InventoryEntry
    """The entry that the inventory gets before the apply."""
    live: LiveObject | None = None
    """The live object; None if it does not exist or could not be read."""
    reason: str = ""
    """Why this is its fate, in words; may be empty."""
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
    rewritten: tuple[str, ...] = ()
    """The fields that the server would store with another value, according to a dry run."""
    claimed_from: LiveObject | None = None
    """The object before this run made fields the set's own that the apply removes."""
    is_unread: bool = False
    """Whether its state could not be read: then only this object fails."""
    is_contended: bool = False
    """Whether it is left because other managers own its fields and its manifest says so."""
    cascade: tuple[Cascaded, ...] = ()
    """The objects outside this plan that its recreation would delete."""
    awaits_approval: bool = False
    """Whether it is left because it must be recreated, and that is not approved."""

    is_left_alone: bool = False
    """Whether it is left because an annotation of its manifest or of the object says so."""
    is_unlisted: bool = False
    """Whether it gets no entry, because it does not belong to the set."""
    is_awaited: bool = False
    """Whether it must exist, and did not when it was read."""
    is_recorded: bool = False
    """Whether its entry must be written although nothing is sent."""
    is_reapplied: bool = False
    """Whether the last confirmed apply has sent the same manifest."""
    keeps_drift: bool = False
    """Whether it is left although it may have drifted, because the options say so."""
    drift: tuple[Drift, ...] = ()
    """What others have changed since the last apply and the manifest sets to another value.

    It is empty unless the options say what to do with drift.
    """

    @property
    def is_new(self) -> bool:
        """Return whether the object does not exist yet, and the run creates or awaits it."""
        return self.fate is Fate.CREATE or (self.fate is Fate.ADOPT and self.live is None)

    @property
    def is_skipped(self) -> bool:
        """Return whether it is left although it differs from its manifest."""
        return self.is_contended or self.awaits_approval or self.is_left_alone or self.keeps_drift

    @property
    def is_outside(self) -> bool:
        """Return whether it must exist, but does not belong to the set."""
        return self.desired.apply is ApplyRule.EXISTS

    @property
    def replaces(self) -> bool:
        """Return whether its old object is deleted before the server has refused a change."""
        return self.fate is Fate.RECREATE and self.desired.recreate is Recreate.ON_CHANGE

    reverts: tuple[tuple[str, str], ...] = ()
    """The drifted fields that the apply sets back: JSON pointers, each with who has changed it."""
    taken_from: tuple[str, ...] = ()
    """Who loses the object, or fields of it, to this apply: field managers and sets, in words.

    Before the server has checked it, whoever owns a field that is forced counts.
    """


class Kept(StrEnum):
    """Why an object is orphaned, where somebody can change that."""

    ADOPTED = "adopted"
    MARKED = "marked"
    """Its manifest, or somebody in the cluster, has annotated it."""
    SHARED = "shared"
    """Another tool or another applier runs it by now."""


@dataclass(frozen=True, slots=True)
class RemoveStep:
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
    problem: Problem | None = None
    """Why the object is refused."""
    kept: Kept | None = None
    """Why it is orphaned; None if it is not, or for any other reason."""
    is_left_alone: bool = False
    """Whether it is left because an annotation of the object says so."""
    request: DeleteRequest | PatchRequest | None = None
    """What to send; None to send nothing."""
    not_checked: str = ""
    """What the server could not check, in words; empty if it has checked all, or was not asked."""
    cascade: tuple[Cascaded, ...] = ()
    """The objects outside this prune that its deletion would delete too.

    Those that another one of them owns are left out: they come and go with their owner. This does
    not hold for the guarded kinds.
    """

    @property
    def is_doomed(self) -> bool:
        """Return whether the object is deleted, or would be if no guard refused that."""
        return self.fate is Fate.PRUNE or (
            self.problem is not None and self.problem.kind is ProblemKind.PRUNE_REFUSED
        )


@dataclass(frozen=True, slots=True)
class Removals:
    """The steps for entries that have left the set, with what the guards say about them."""

    steps: tuple[RemoveStep, ...]
    """The steps in the order of deletion."""
    guards: tuple[GuardResult, ...] = ()
    """The result of each guard that applies."""
    refusal: Problem | None = None
    """The problem that blocks the whole prune."""


@dataclass(frozen=True, slots=True)
class Plan:
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
    if_approved: Removals | None = field(default=None, repr=False)
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
    consequences: tuple[Consequence, ...] = ()
    """What the run causes beyond these steps, in their order."""
    digest: str = ""
    """The digest of the whole plan: of the set, the options, and every object."""
    waits_before_prune: str = ""
    """Why everything must be ready before anything is pruned; empty if it need not.

    All objects of the input count, changed or not: an earlier run may have changed them, and have
    given up before they were ready.
    """
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
            step for step in self.applies if step.fate is Fate.REFUSE and not step.is_unread
        )

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
