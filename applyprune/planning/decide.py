"""Decide what an apply does with an object: apply it, adopt it, leave it alone or refuse it.

What the inventory records before the apply is decided here as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Self

from msgspec import Struct

from applyprune.errors import RunFailed
from applyprune.model.fate import Fate
from applyprune.model.fieldset import ObjectWriter
from applyprune.model.identity import kubectl_name
from applyprune.model.inventory import InventoryEntry, JobRecord, Ownership
from applyprune.model.kinds import IN_EACH_NAMESPACE, NAMESPACE
from applyprune.model.live import LiveObject, Missing, NotListed, State, Unknown, text, whole_number
from applyprune.model.options import Adopt, AdoptFrom, Options
from applyprune.model.plan import OUTSIDE, ApplyRule, ApplyStep, Cause, Desired, Migration
from applyprune.model.problem import Problem
from applyprune.model.text import time_of
from applyprune.planning.applyset import PART_OF, SET_ID, SHARD_OF, ApplySetIdentity
from applyprune.planning.conflicts import (
    DELETED,
    filled_by_others,
    last_owned,
    own_options,
    repeats_last_apply,
    step_drift,
)
from applyprune.planning.managed_fields import (
    loses_replicas,
    manager_by_label,
    migration_of,
    own_fields,
    sets_replicas,
    split_problem,
)
from applyprune.planning.marks import APPLY, leave_mark
from applyprune.planning.normalize import with_autoscaler, with_unknown_autoscaler
from applyprune.planning.ownership import (
    UNREAD,
    OtherSet,
    Owner,
    foreign_label,
    foreign_owner,
    has_witness,
    is_label_of_nobody,
    is_listed_elsewhere,
    is_marked,
    label_problem,
    name_error,
    other_applier,
    owned_by_tool,
    owner_of,
    owner_to_apply,
    place_of_set,
    taken_from,
    unchanged,
    what_is_known,
)
from applyprune.planning.readiness import has_completed
from applyprune.planning.recovery import CHANGING
from applyprune.planning.removals import stays_as_owned
from applyprune.planning.requests import apply_request, takes_over
from applyprune.planning.uids import is_among, known_as
from applyprune.planning.world import World
from applyprune.values import replace


def existing_step(
    desired: Desired, entry: InventoryEntry | None, live: LiveObject, world: World
) -> ApplyStep:
    """Decide about an object of the input that exists; ``entry`` is its entry, if it has one."""
    left = step_of_unapplied(desired, entry, live, world.applyset)
    return left or _Existing.of(entry, live, world).step(desired)


class _Existing(Struct, frozen=True):
    """An object of the input that exists, and whose it is."""

    entry: InventoryEntry | None
    live: LiveObject
    world: World
    judged: Owner
    """The owner that decides whether it may be applied."""
    owner: Owner
    """The owner; also by an interrupted adoption, which has not marked the object yet."""
    known: InventoryEntry | None
    """Its entry, if it is the listed object."""
    migration: Migration
    """Which fields of it become the set's own: their managers no longer count."""

    @classmethod
    def of(cls, entry: InventoryEntry | None, live: LiveObject, world: World) -> Self:
        options, manager = world.options.apply, world.manager
        judged = owner_to_apply(live, entry, world.applyset)
        is_confirmed = entry is None or bool(entry.uid)
        owner = judged if is_confirmed else owner_of(live, entry, world.applyset)
        known = entry if owner is Owner.RECORDED else None
        # An adoption is not complete until a response has confirmed it.
        adopts = known is None or is_adoption(known)
        migration = migration_of(live, known, options, manager=manager, adopts=adopts)
        return cls(entry, live, world, judged, owner, known, migration)

    def step(self, desired: Desired) -> ApplyStep:
        live, world, known, applyset = self.live, self.world, self.known, self.world.applyset
        desired = with_lost_replicas(desired, self.entry, live, world)
        desired = ignoring_autoscaled_replicas(desired, world)
        union = entry_before_apply(desired, live, known, applyset)
        if (problem := self._obstacle(desired)) is not None:
            # An existing entry stays; an object that is not ours gets no entry.
            entry = self.entry or replace(union, uid_before_apply=live.uid)
            return refused_step(desired, entry, problem, live)
        desired = self._without_filled(desired, union)
        takes = takes_over(desired, live, applyset, self.migration)
        left = self._unchanged(desired, union, takes=takes) or self._drifted(desired)
        if left is not None:
            return left
        if known is None:
            owns = self._may_own()
            # If the run ends before the reply, the record and the object say so.
            union = replace(union, ownership=Ownership.OWNED) if owns else union
        else:
            owns = is_adoption(known) and union.ownership is Ownership.OWNED
        step = ApplyStep(
            desired,
            Fate.CHANGE if known else Fate.ADOPT,
            union,
            live,
            reason="; ".join((*self._adopted(desired, owns=owns), *desired.ignore_reasons)),
            fence=known is not None and known.deleting,
            migration=self.migration,
            becomes_owned=owns,
            takes_over=takes,
            is_reapplied=self._is_reapplied(desired) and not self._has_new_schema(desired),
        )
        step = replace(step, request=apply_request(step, applyset, world.options))
        return replace(step, taken_from=taken_from(step, self.owner, self._tool, applyset))

    def _unchanged(
        self, desired: Desired, union: InventoryEntry, *, takes: bool
    ) -> ApplyStep | None:
        """Return the step of an object of which an apply would change nothing; else None."""
        known, options, kind = self.known, self.world.options, desired.ref.group_kind
        manager, schema = self.world.manager, self.world.schemas.get(kind)
        if not (
            known is not None
            and not options.apply.reapply_all  # guard: diff-values
            and not (takes or known.deleting or known.orphaning or known.offered)
            and not (options.tries_rewritten and known.stored)  # guard: tried-again
            and known.orphan_reason == desired.orphan_reason
            and (kind not in self.world.schemas or schema is not None)
            and unchanged(desired, known, self.live, manager=manager, schema=schema)
        ):
            return None
        # Other objects may have changed its wave; this is recorded with the next write.
        listed = replace(
            known,
            wave=desired.wave,
            depends_on=desired.depends_on,
            job=union.job,
            crd=known.crd if schema is None else desired.resource.full_plural,
        )
        return ApplyStep(desired, Fate.LEAVE, listed, self.live)

    def _drifted(self, desired: Desired) -> ApplyStep | None:
        """Return the step of an object that stays until its manifest changes; else None."""
        entry, live, options = self.entry, self.live, self.world.options.apply
        if entry is None or live.terminating:
            return None
        if not options.keep_drift:  # guard: kept-drift always
            return None
        if self._has_new_schema(desired) or options.reapply_all or not self._is_reapplied(desired):
            return None
        step = ApplyStep(desired, Fate.LEAVE, entry, live, is_reapplied=True)
        return _kept_with_drift(step, entry, Cause.DRIFT_KEPT)

    def _has_new_schema(self, desired: Desired) -> bool:
        """Return whether this run changes the CRD of its kind."""
        return self.world.schemas.get(desired.ref.group_kind) == CHANGING

    def _is_reapplied(self, desired: Desired) -> bool:
        """Return whether the last confirmed apply has sent the same manifest to a live object."""
        if self.entry is None or not was_applied(desired, self.entry):
            return False
        # Of a Secret whose values were not read, the keys must do.
        # guard: changed-secret -> True
        return repeats_last_apply(desired, self.entry, self.live, self.world.manager) is not False

    def _without_filled(self, desired: Desired, entry: InventoryEntry) -> Desired:
        """Return a manifest whose empty values are left to others that have filled them."""
        if not desired.packed.may_contain("{}", "[]", "null"):
            return desired
        live, manager = self.live, self.world.manager
        losers = {*self.migration.managers, manager_by_label(live)}
        filled = filled_by_others(desired.packed, live, manager, losers, owned=last_owned(entry))
        if not filled:
            return desired
        reasons = (f"{pointer} is left to {who}" for pointer, who in filled)
        return replace(
            desired,
            ignored=(*desired.ignored, *(pointer for pointer, _ in filled)),
            ignore_reasons=(*desired.ignore_reasons, *reasons),
        )

    def _adopted(self, desired: Desired, *, owns: bool) -> Sequence[str]:
        """Return what an adoption takes over; empty for an object that is listed already."""
        if self.known is not None:
            return ()
        if not owns:
            before = self._tool or _OWNERS.get(self.owner, "no set")
            return (f"adopted: it existed and belonged to {before}",)
        stays = stays_as_owned(desired.orphan_reason, self.live, self.world.applyset)
        later = f"; a later prune orphans it: {stays}" if stays else ": a later prune deletes it"
        return (f"adopted, as owned{later}",)

    def _may_own(self) -> bool:
        """Return whether an adopted object becomes owned: a later prune deletes it."""
        live, applyset, options = self.live, self.world.applyset, self.world.options.apply
        giver = self._giver
        if options.adopt_as is not Ownership.OWNED and not _is_owned_by(live, giver):
            return False
        if (live.ref.group_kind, live.ref.name) in IN_EACH_NAMESPACE:
            return False  # a controller would create it again
        if live.ref == applyset.own_namespace:  # guard: own-namespace-adopted never
            return False  # `delete` would take all that was there before: only its name says so
        if foreign_owner(live, applyset.manager):
            return False  # no prune deletes it
        if options.adopt is Adopt.ALL or giver is not None:
            return True
        taken = self.migration.managers
        tool = owned_by_tool(live, applyset) or other_applier(live, applyset, but=taken)
        # guard: own-nothing-of-others -> True
        return self.owner is not Owner.OTHER and not tool

    @property
    def _giver(self) -> OtherSet | None:
        """Return the set that gives the object to this one; None if none does.

        The object has its label, and its inventory lists the object. And the user has named that
        set, or it offers the object to this one, or it is a set of the same command whose input
        does not have the object any more. No command decides what a Bundle's set gives.
        """
        live, world = self.live, self.world
        label = foreign_label(live, world.applyset)
        if not label:
            return None
        if not is_listed_elsewhere(live, world.others):  # guard: listed-by-giver never
            return None
        adopt, siblings, giver = world.options.apply.adopt, world.siblings, world.others[label]
        offered = giver.offered.get(known_as(live, giver.offered), "")
        # guard: offered-to-siblings -> bool(offered)
        if siblings is not None and siblings.takes and offered == siblings.key:
            return giver
        has_bundle = bool(giver.owner)  # guard: bundle-gives-nothing -> False
        # guard: given-in-command never
        if world.command.gives(label, live.ref) and not has_bundle:
            return giver
        if not isinstance(adopt, AdoptFrom):
            return None
        named = ApplySetIdentity(adopt.name, adopt.namespace or world.applyset.namespace)
        # guard: named-giver -> giver
        return giver if label == named.id else None

    @property
    def _tool(self) -> str:
        """Return what of another tool owns it, if it belongs to no set; empty if nothing does."""
        # The record of an interrupted adoption does not say that it was meant.
        is_free = self.judged in {Owner.NOBODY, Owner.CLAIMED}
        return owned_by_tool(self.live, self.world.applyset) if is_free else ""

    def _obstacle(self, desired: Desired) -> Problem | None:
        """Return why the object may not be applied to the set; None if it may."""
        live, adopt, judged = self.live, self.world.options.apply.adopt, self.judged
        if (error := name_error(desired.ref, live, desired.origin)) is not None:
            return error.problem
        is_any_adopted, tool = adopt is Adopt.ALL, self._tool
        withheld = self._withheld if judged is Owner.OTHER else ""
        message, reason, hint = "", "", ""
        if live.terminating:
            message, hint = "is being deleted", "Run again after it is deleted."
            if held := ", ".join(live.finalizers):
                reason = f"its finalizers have not finished: {held}"
        elif SET_ID in live.labels or SHARD_OF in live.labels:
            message = "is the inventory of a set"
            hint = "Remove it from the input. To rename a set, apply its input under the new name, "
            hint += "with --adopt=set/NAME of the old one."
        elif judged is Owner.OTHER and not (is_any_adopted or self._giver is not None):
            return self._of_other_set(desired)
        elif withheld:  # guard: withheld-set never
            message, reason = "belongs to a set whose plans need an approval", withheld
        elif tool and not is_any_adopted:  # guard: owned-by-tool never
            message, hint = f"belongs to {tool}", "To take it into this set: --adopt=all."
            reason = "its labels or annotations say so, and the other tool may write it again"
        elif judged is Owner.NOBODY and adopt is Adopt.NONE:
            message = "already exists and belongs to no set"
            hint = "To adopt it into this set: --adopt=unowned."
        if message:
            return _not_applied(desired, message, reason, hint)
        return split_problem(desired, live) if live.body is not None else None

    @property
    def _withheld(self) -> str:
        """Return why no object may be adopted from the set of this one; empty if it may."""
        label = foreign_label(self.live, self.world.applyset)
        if not label or self.world.withheld is None:
            return ""
        # The object has got the label since the sets were asked about.
        return self.world.withheld.get(label, "it was taken by that set during this run")

    def _of_other_set(self, desired: Desired) -> Problem:
        live, applyset, others = self.live, self.world.applyset, self.world.others
        if self.entry and (unproven := label_problem(self.entry, live, others, applyset)):
            return replace(unproven, location=str(desired.origin), origin=desired.origin)
        label, (namespace, name) = live.labels[PART_OF], place_of_set(live)
        if is_label_of_nobody(live, others):
            return _of_nobody(desired, label, what_is_known(label, others), name)
        if name:
            reason = f"it belongs to the set {name} in namespace {namespace}"
            is_near = namespace == applyset.namespace
            meant = [] if name == applyset.name else [f"the set {name}"]
            meant += [] if is_near else [f"-n {namespace}"]
            hints = [f"Did you mean {' with '.join(meant)}?"]
        else:
            reason = f"its label {PART_OF} is {label}"
            hints = [f"To find that set: kubectl get cm -A -l {SET_ID}={label}"]
        hints.append(f"If this set only needs it, annotate it in the input: {APPLY}: exists.")
        given = f"{AdoptFrom(name, '' if namespace == applyset.namespace else namespace)}"
        hints.append(
            f"To take it from that set: --adopt={given if name else Adopt.ALL}. The other set then "
            "drops it from its inventory; while its own input has it, its runs fail."
        )
        problem = _not_applied(desired, "belongs to another set", reason, "\n  ".join(hints))
        # An account that may not list all inventories cannot know whether there is such a set.
        is_unknown = not name and not others.get(label, UNREAD).is_read
        remedy = "If there is no such set, this takes it: spec.adopt: all" if is_unknown else ""
        return replace(problem, remedy=remedy)


_OWNERS = {Owner.OTHER: "another set", Owner.CLAIMED: "this set, but is not in its inventory"}


def _is_owned_by(live: LiveObject, giver: OtherSet | None) -> bool:
    """Return whether an object was owned by the set that gives it: record and object say so."""
    if giver is None or giver.applyset is None:
        return False
    is_recorded = is_among(live, giver.owned)  # guard: given-as-recorded -> True
    # guard: given-as-marked -> is_recorded
    return is_recorded and has_witness(live, giver.applyset)


def _of_nobody(desired: Desired, label: str, known: str, name: str) -> Problem:
    """Return the problem of an object with the label of a set that does not list it.

    ``name`` is the set that has applied it, if one has: its inventory may be lost.
    """
    hints = [
        "To take it into this set: --adopt=all.",
        f"If this set only needs it, annotate it in the input: {APPLY}: exists.",
    ]
    if not name:
        remove = f"kubectl label {kubectl_name(desired.ref, '')} {PART_OF}-"
        hints.append(f"If nobody needs the label, remove it: {remove}")
    reason = f"its label {PART_OF} is {label}, and {known}"
    problem = _not_applied(
        desired, "has the label of another set, which does not list it", reason, "\n  ".join(hints)
    )
    return replace(problem, remedy="To take it into this set: spec.adopt: all")


def _not_applied(desired: Desired, what: str, reason: str, hint: str) -> Problem:
    error = RunFailed(f"{desired.ref} {what}", reason=reason, hint=hint)
    return error.problem_at(desired.origin)


def with_lost_replicas(
    desired: Desired, entry: InventoryEntry | None, live: LiveObject, world: World
) -> Desired:
    """Return an object of the input that knows whether its apply would remove the replicas."""
    # Nothing is parsed for most objects.
    if not live.packed_managers.mentions("f:replicas") or sets_replicas(desired):
        return desired
    migration = _Existing.of(entry, live, world).migration
    loses = loses_replicas(desired, live, migration, world.applyset)
    return replace(desired, loses_replicas=True) if loses else desired


def ignoring_autoscaled_replicas(desired: Desired, world: World) -> Desired:
    """Return an object of the input whose replicas an autoscaler sets, or may set."""
    off = world.options.apply.no_default_ignore
    desired = with_autoscaler(desired, world.autoscalers, off)
    if desired.ref.namespace in world.unread_autoscalers:
        desired = with_unknown_autoscaler(desired, off)
    return desired


def refused_step(
    desired: Desired, entry: InventoryEntry, problem: Problem, live: LiveObject | None
) -> ApplyStep:
    where = problem.location or str(desired.origin)
    return ApplyStep(desired, Fate.REFUSE, entry, live, problem=replace(problem, location=where))


# Objects of the input that are not applied: an annotation or the rule for drift says so.
#
# Nothing is sent for such an object, so its entry keeps the record of the last apply.


_DRIFTED = "its manifest has not changed, so its drift stays"
_CONTENDED = "somebody keeps changing it back"


def step_of_unapplied(
    desired: Desired,
    entry: InventoryEntry | None,
    state: State,
    applyset: ApplySetIdentity,
) -> ApplyStep | None:
    """Return the step of an object that is not applied; None if it is applied as usual.

    A listed object stays listed, so that it never counts as one that has left the set.
    """
    live = state if isinstance(state, LiveObject) else None
    if desired.apply is ApplyRule.DISABLED:  # guard: disabled-manifest never
        return _step_of_marked(desired, entry, live, f"its manifest is marked {desired.apply_mark}")
    if desired.apply is ApplyRule.EXISTS and not isinstance(state, Unknown):
        return _must_exist(desired, live)
    if live is None:
        return None
    if desired.apply is ApplyRule.ONCE and not live.terminating:
        return _created_once(desired, entry, live, applyset)
    # guard: left-alone never
    if mark := leave_mark(live.metadata, own_fields(live, applyset.manager)):
        return _step_of_marked(desired, entry, live, f"it is marked {mark} in the cluster")
    return None


def _must_exist(desired: Desired, live: LiveObject | None) -> ApplyStep:
    # Its state is not part of the plan: somebody else may delete and create it at any time.
    is_there = live is not None and not live.terminating
    return ApplyStep(
        desired,
        Fate.LEAVE,
        new_entry(desired, live),
        reason=OUTSIDE if is_there else f"{OUTSIDE}; it does not exist yet",
        is_unlisted=True,
        is_awaited=not is_there,
    )


def _created_once(
    desired: Desired, entry: InventoryEntry | None, live: LiveObject, applyset: ApplySetIdentity
) -> ApplyStep:
    """Leave an existing object as it is; it is the set's own only if the set has created it."""
    reason = f"it exists, and its manifest is marked {desired.apply_mark}"
    if entry is None or owner_of(live, entry, applyset) is not Owner.RECORDED:
        return _step_of_marked(desired, entry, live, reason)
    # The reply to the create may have been lost.
    uid = entry.uid or (live.uid if is_marked(live, applyset) else "")
    step = ApplyStep(desired, Fate.LEAVE, entry, live, reason)
    return _listed(step, replace(entry, uid=uid))


def _step_of_marked(
    desired: Desired, entry: InventoryEntry | None, live: LiveObject | None, reason: str
) -> ApplyStep:
    step = ApplyStep(
        desired, Fate.LEAVE, entry or new_entry(desired, live), live, reason, Cause.LEAVE_MARK
    )
    return replace(step, is_unlisted=True) if entry is None else _listed(step, entry)


def step_of_deleted(
    step: ApplyStep, entry: InventoryEntry | None, state: Missing, options: Options
) -> ApplyStep:
    """Return the step that creates an object; as LEAVE if somebody has deleted it, and that stays.

    Only a proof that it does not exist counts: what a list lacks is created as usual.
    """
    is_known = was_applied(step.desired, entry) and not isinstance(state, NotListed)
    fails = own_options(step.desired, options).fails_on_drift
    if fails or entry is None or not is_known:
        return step
    step = replace(step, drift=(DELETED,), is_reapplied=True)
    if options.apply.keep_drift and not options.apply.reapply_all:  # guard: kept-deletion never
        return _kept_with_drift(step, entry, Cause.DRIFT_KEPT)
    return without_contended(step, entry, options)


def with_drift(
    step: ApplyStep, entry: InventoryEntry | None, manager: str, options: Options
) -> ApplyStep:
    """Return a step with its drift; as LEAVE if that is of a manager that keeps changing it back.

    ``step.live`` was read in full, and ``entry`` is the recorded one.
    """
    drifted = replace(step, drift=step_drift(step, manager))
    return drifted if entry is None else without_contended(drifted, entry, options)


def without_contended(step: ApplyStep, entry: InventoryEntry, options: Options) -> ApplyStep:
    """Return a step as LEAVE if it is contended by who has changed it; it stays listed."""
    writers = {ObjectWriter.of(step.desired.ref, drift.manager) for drift in step.drift}
    if not writers & options.contended:  # guard: contended-object always
        return step
    return _kept_with_drift(step, entry, Cause.CONTENDED)


def _kept_with_drift(step: ApplyStep, entry: InventoryEntry, cause: Cause) -> ApplyStep:
    reason = _CONTENDED if cause is Cause.CONTENDED else _DRIFTED
    left = replace(step, fate=Fate.LEAVE, reason=reason, cause=cause, request=None, reverts=())
    return _listed(left, entry)


def _listed(step: ApplyStep, entry: InventoryEntry) -> ApplyStep:
    """Return a step that keeps an entry, with a mark against deletion that the manifest has now.

    Nothing is sent, so nothing else would record that mark.
    """
    desired = step.desired
    reason = desired.orphan_reason or entry.orphan_reason
    listed = replace(entry, wave=desired.wave, depends_on=desired.depends_on, orphan_reason=reason)
    return replace(step, entry=listed, is_recorded=reason != entry.orphan_reason)


def was_applied(desired: Desired, entry: InventoryEntry | None) -> bool:
    """Return whether the last confirmed apply of a listed object has sent the same manifest.

    What an interrupted run has marked to be deleted or orphaned is applied again in any case. The
    digest does not show the values of a Secret; the live object does: see ``_is_reapplied``.
    """
    if entry is None or not entry.uid or entry.digest != desired.digest:
        return False
    is_marked_so = entry.orphan_reason == desired.orphan_reason
    return is_marked_so and not (entry.deleting or entry.orphaning)


# What controllers create in a new Namespace: the set adopts it.
#
# They create it within milliseconds, so a create-only request would often fail.


_BY_CONTROLLER = "a controller creates it in a new Namespace"


def with_controllers_objects(steps: Sequence[ApplyStep], world: World) -> tuple[ApplyStep, ...]:
    """Return steps that adopt what controllers create in the Namespaces that the run creates."""
    creates = {world.new_namespace} - {""}
    creates |= {
        step.desired.ref.name
        for step in steps
        if step.desired.ref.group_kind == NAMESPACE and step.fate is Fate.CREATE
    }
    if not creates:
        return tuple(steps)
    return tuple(
        _adopted_from_controller(step, world)
        if step.fate is Fate.CREATE
        and step.desired.apply is ApplyRule.ALWAYS  # what is only created once is never adopted
        and (step.desired.ref.group_kind, step.desired.ref.name) in IN_EACH_NAMESPACE
        and step.desired.ref.namespace in creates
        else step
        for step in steps
    )


def _adopted_from_controller(step: ApplyStep, world: World) -> ApplyStep:
    desired = step.desired
    if world.options.apply.adopt is Adopt.NONE:
        error = RunFailed(
            f"{desired.ref} would exist already, and belong to no set",
            reason=_BY_CONTROLLER,
            hint="To adopt it into this set: --adopt=unowned.",
        )
        return refused_step(desired, step.entry, error.problem_at(desired.origin), None)
    entry = replace(step.entry, ownership=Ownership.ADOPTED)
    adopted = replace(step, fate=Fate.ADOPT, entry=entry, reason=f"adopted: {_BY_CONTROLLER}")
    # The request creates the object if the controller is slow.
    return replace(adopted, request=apply_request(adopted, world.applyset, world.options))


# The entry before an apply, and after one that has certainly changed nothing.


def new_entry(desired: Desired, live: LiveObject | None) -> InventoryEntry:
    """Return the entry that an object without one gets; ``live`` is None if it does not exist."""
    return InventoryEntry(
        ref=desired.ref,
        plural=desired.resource.plural,
        version=desired.resource.version,
        uid_before_apply=None if live is None else live.uid,
        ownership=Ownership.OWNED if live is None else Ownership.ADOPTED,
        wave=desired.wave,
        depends_on=desired.depends_on,
        orphan_reason=desired.orphan_reason,
    )


def entry_before_apply(
    desired: Desired,
    live: LiveObject,
    entry: InventoryEntry | None,
    applyset: ApplySetIdentity,
) -> InventoryEntry:
    """Return the entry of an existing object without the digest of an apply.

    ``entry`` is the present entry; None if the object is not the listed one. What the last
    confirmed apply left stays recorded, because the next one may fail: while the object is as it
    was then, nobody has changed it.
    """
    fresh = new_entry(desired, live)
    if entry is None:
        return fresh
    return replace(
        fresh,
        uid=live.uid,
        ownership=_ownership(entry, live, applyset),
        fingerprint=entry.fingerprint,
        owned_fields=entry.owned_fields,
        marks=entry.marks,
        deleting=entry.deleting,
        changed=entry.changed,
        job=job_record(desired, live, entry),
        crd=entry.crd,
    )


def is_adoption(entry: InventoryEntry) -> bool:
    """Return whether an entry is of an existing object, and no reply has confirmed the apply."""
    return not entry.uid and entry.uid_before_apply is not None


def _ownership(entry: InventoryEntry, live: LiveObject, applyset: ApplySetIdentity) -> Ownership:
    # An interrupted run has orphaned it already, so it is adopted again.
    if entry.orphaning and not has_witness(live, applyset):
        return Ownership.ADOPTED
    # Only the requests that take an object as owned bring the annotation.
    # guard: interrupted-takeover -> is_adoption(entry)
    if is_adoption(entry) and not has_witness(live, applyset):
        return Ownership.ADOPTED
    return entry.ownership


def entry_of_untouched(recorded: InventoryEntry, before: InventoryEntry) -> InventoryEntry:
    """Return the entry of an object that a run wanted to apply, and has certainly not changed.

    ``recorded`` is the entry that the run has read, ``before`` the one that it wrote before the
    apply. What either of them keeps from deletion stays.
    """
    return replace(recorded, orphan_reason=before.orphan_reason or recorded.orphan_reason)


# Jobs with `ttlSecondsAfterFinished` that do not exist any more.
#
# Their TTL counts from their end. One that is gone before its creation plus its TTL, and that no
# run has seen complete, was deleted by somebody: it is created as any other object. No run runs
# another one again by itself.


FINISHED = "finished, and removed by its TTL"
TERMINATING = "being removed, and not created again: it has a TTL"
UNKNOWN_RESULT = "it is gone, and no run has recorded that it completed: its result is unknown"
JOB_DELETED = "somebody deleted it: its TTL cannot have removed it yet"
_TTL = ("spec", "ttlSecondsAfterFinished")


def job_record(
    desired: Desired, live: LiveObject, before: InventoryEntry | None
) -> JobRecord | None:
    """Return what the inventory keeps of a live Job with a TTL; None for any other object.

    ``before`` is its entry so far.
    """
    if not desired.has_ttl:
        return None
    known = before.job if before is not None and before.uid == live.uid else None
    recorded = known.ttl if known is not None else whole_number(desired.body, *_TTL)
    ttl = recorded if live.body is None else whole_number(live.body, *_TTL)
    created = text(live.metadata, "creationTimestamp")
    if ttl is None or time_of(created) is None:
        return known
    completed = has_completed(live) or (known is not None and known.completed)
    return JobRecord(created, ttl, completed=completed)


def was_deleted(record: JobRecord | None, at: datetime | None) -> bool:
    """Return whether somebody has deleted a Job that was gone at a time of the server's clock."""
    created = None if record is None else time_of(record.created)
    if record is None or record.completed or created is None or at is None:
        return False
    return at < created + timedelta(seconds=record.ttl)  # guard: before-ttl -> False
