"""The plan: what a run does with each object of the input and the inventory, and how it would end.

It is made from the input, the inventory and the state of the cluster, before any write.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import TypeVar

from applyprune.errors import (
    ApplypruneError,
    ConflictsFound,
    Invalid,
    NotApproved,
    NotReady,
    PlanOutdated,
    PruneRefused,
    RunFailed,
)
from applyprune.model.events import ObjectDone, Pending, Waiting
from applyprune.model.fate import Fate, Outcome
from applyprune.model.fieldset import Path, Writer
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry
from applyprune.model.kinds import CRD
from applyprune.model.live import Absent, LiveObject, Missing, Unknown, deleted_at
from applyprune.model.options import Approval, Mode, Options, WaitMode
from applyprune.model.plan import (
    ApplyStep,
    Cause,
    Desired,
    Guard,
    GuardResult,
    GuardVerdict,
    PatchRequest,
    Plan,
    RemoveStep,
    wait_reason,
)
from applyprune.model.problem import Problem, ProblemKind
from applyprune.model.text import and_more, counted
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.cascade import uncounted_problem
from applyprune.planning.conflicts import (
    drift_to_revert,
    drifted_fields,
    excluding_parts,
    forces,
    own_options,
    rewritten_problem,
    unowned_problem,
)
from applyprune.planning.decide import (
    FINISHED,
    JOB_DELETED,
    TERMINATING,
    UNKNOWN_RESULT,
    existing_step,
    job_record,
    new_entry,
    refused_step,
    step_of_deleted,
    step_of_unapplied,
    was_deleted,
    with_controllers_objects,
)
from applyprune.planning.managed_fields import dead_versions, with_marks_of
from applyprune.planning.normalize import body_to_send, with_autoscaler
from applyprune.planning.order import pruned_references
from applyprune.planning.ownership import foreign_label, takes_no_more
from applyprune.planning.prune_waits import no_wait_warning, with_waits
from applyprune.planning.recovery import (
    CHANGING,
    current_entries,
    is_restored,
    recovered_entries,
    restored_problem,
)
from applyprune.planning.removals import (
    entries_to_remove,
    remove_step,
    remove_steps,
    without_other_uid,
)
from applyprune.planning.requests import apply_request
from applyprune.planning.served_kinds import defined_kinds
from applyprune.planning.server_errors import undeclared_elsewhere
from applyprune.planning.staying_fields import fields_in
from applyprune.planning.world import World
from applyprune.values import replace

_Step = TypeVar("_Step", ApplyStep, RemoveStep)


def make_plan(world: World) -> Plan:
    """Decide about every object of the input and every entry of the inventory.

    If the options select a part of the input, nothing has left the set.
    """
    inventory, options = world.inventory, world.options
    restored = is_restored(world)
    entries = current_entries(world, restored=restored)
    removed_entries = entries_to_remove(world)
    released = {entry.ref for entry in removed_entries}
    members = [member for member in world.desired if member.ref not in released]
    applies = with_controllers_objects(_apply_steps(members, entries, world), world)
    # What is left alone and gets no entry of its own must not be lost either.
    unlisted = {step.desired.ref for step in applies if step.is_unlisted}
    # guard: left-alone-recovered -> {member.ref for member in world.desired}
    listed = {member.ref for member in world.desired} - unlisted
    removed, if_approved = remove_steps(removed_entries, world)
    removals, guards, refusal = removed.steps, removed.guards, removed.refusal
    prunes = options.prune.enabled and options.mode is not Mode.ORPHAN
    if removals and restored and prunes:
        refusal = restored_problem(inventory, options.mode)
        refused = GuardResult(Guard.RESTORED_INVENTORY, GuardVerdict.REFUSED, refusal.reason)
        guards, if_approved = (*guards, refused), None
        removals = tuple(map(without_other_uid, removals))
    no_prune, applies, removals = settled(applies, removals, refusal, options)
    return Plan(
        applies,
        removals,
        no_prune,
        guards=guards,
        refusal=refusal,
        if_approved=if_approved,
        recovered=tuple(recovered_entries(world.marked, world.resources, but=listed)),
        restored=restored,
        new_set=not (inventory.exists or world.marked),
        creates_namespace=bool(world.new_namespace)
        or any(
            step.fate is Fate.CREATE and step.desired.ref == world.applyset.own_namespace
            for step in applies
        ),
        inventory=f"{inventory.uid}/{inventory.generation}",
    )


def warnings_of(plan: Plan, applyset: ApplySetIdentity, options: Options) -> Iterator[Problem]:
    """Yield what only the fates of a whole plan show."""
    waits = options.wait.mode is not WaitMode.NONE
    if not (waits or plan.no_prune):
        reason = wait_reason(with_waits(plan.removals, plan.applies), "before")
        if reason:
            yield no_wait_warning(reason)
    if uncounted := uncounted_problem(plan, applyset):
        yield uncounted
    yield from pruned_references(plan)
    if rewritten := rewritten_problem({step.desired.ref: step.rewritten for step in plan.applies}):
        yield rewritten
    if unowned := unowned_problem({step.desired.ref: step.unowned for step in plan.applies}):
        yield unowned


def settled(
    applies: Sequence[ApplyStep],
    removals: Sequence[RemoveStep],
    refusal: Problem | None,
    options: Options,
    stays: str = "",
) -> tuple[str, tuple[ApplyStep, ...], tuple[RemoveStep, ...]]:
    """Return why nothing is pruned, if so, and the steps with what follows from all of them.

    ``stays`` says why nothing is pruned in any case; empty if it may be.
    """
    refused = f"{options.mode.removal} refused" if refusal is not None else ""
    always = (refused or stays) if removals and stays else ""
    no_prune = always or _no_prune(applies, removals, refusal, options)
    waits = options.wait.mode is not WaitMode.NONE and not no_prune
    removals = with_waits(removals, applies if waits else ())
    return (
        no_prune,
        tuple(map(_step_with_exit_code, applies)),
        tuple(map(_step_with_exit_code, removals)),
    )


def with_offers(plan: Plan, world: World, *, missing: str, stays: str) -> Plan:
    """Return a plan that offers what it would prune, as long as other sets may still take it.

    An offer deletes nothing, so a guard matters only for what nobody takes. But an approval comes
    first: none may be ``missing``. A fault in the input does not matter if it is only that other
    sets have its objects: two sets may want something from each other. ``stays`` says why nothing
    is pruned in any case: then nothing is offered either.
    """
    siblings, options = world.siblings, world.options
    if siblings is None or not siblings.undecided or plan.restored:
        return plan
    # guard: offer-of-whole-input -> plan.lacks_rights
    if stays or plan.lacks_rights:
        return plan
    # Of a plan with a fault, nobody asks for an approval.
    is_open = bool(missing) or bool(plan.faults) or plan.refusal is not None
    # guard: approval-before-offer never
    if is_open and options.approval is not Approval.AUTOMATIC:
        return plan
    if not all(_is_of_other_set(step, world) for step in plan.faults):
        return plan
    reason = f"offered to {and_more(siblings.undecided, _SHOWN)}"
    offered = [
        replace(
            step,
            fate=Fate.LEAVE,
            cause=Cause.OFFERED,
            reason=reason,
            entry=replace(step.entry, offered=siblings.key),
            problem=None,
            request=None,
        )
        if step.is_doomed and step.live is not None and not step.is_going
        else step
        for step in plan.removals
    ]
    no_prune, applies, removals = settled(plan.applies, offered, None, options)
    if no_prune and not (options.prune.enabled and plan.faults):
        return plan
    return replace(plan, applies=applies, removals=removals, refusal=None, no_prune=no_prune)


_SHOWN = 3


def _is_of_other_set(step: ApplyStep, world: World) -> bool:
    return step.live is not None and bool(foreign_label(step.live, world.applyset))


def _no_prune(
    applies: Sequence[ApplyStep],
    removals: Sequence[RemoveStep],
    refusal: Problem | None,
    options: Options,
) -> str:
    if not removals:
        return ""
    if not options.prune.enabled:
        return "--no-prune"
    if refusal is not None:
        return f"{options.mode.removal} refused"
    if any(step.fate is Fate.REFUSE for step in applies):
        return "some objects in the input cannot be applied"
    if options.mode in {Mode.APPLY, Mode.PRUNE} and any(
        step.problem is not None for step in removals
    ):
        return "the state of an object to prune is unknown"
    return ""


def _step_with_exit_code(step: _Step) -> _Step:
    return step if step.problem is None else replace(step, problem=with_own_exit_code(step.problem))


def _apply_steps(
    desired: Sequence[Desired], entries: Mapping[Ref, InventoryEntry], world: World
) -> tuple[ApplyStep, ...]:
    if world.options.mode is not Mode.APPLY:
        return ()
    definitions = {
        member.ref: _apply_step(member, entries.get(member.ref), world)
        for member in desired
        if member.ref.group_kind == CRD
    }
    # A CRD that will change may change the values of its custom resources.
    moving = {
        kind: CHANGING
        for step in definitions.values()
        if step.fate is not Fate.LEAVE
        for kind in defined_kinds(step.desired.body)
    }
    world = replace(world, schemas={**world.schemas, **moving})
    return tuple(
        definitions.get(member.ref) or _apply_step(member, entries.get(member.ref), world)
        for member in desired
    )


def _apply_step(desired: Desired, entry: InventoryEntry | None, world: World) -> ApplyStep:
    applyset, options = world.applyset, world.options
    state = world.states[desired.ref]
    if not isinstance(state, LiveObject):
        untouched = step_of_unapplied(desired, entry, state, applyset)
        if untouched is not None:
            return untouched
    if isinstance(state, Unknown):
        unread = entry or new_entry(desired, None)
        refused = refused_step(desired, unread, state.problem, None)
        return replace(refused, cause=Cause.UNREAD)
    if isinstance(state, Missing):
        # The replicas are sent, but the same manifest has the same digest in the next run.
        off = options.apply.no_default_ignore
        desired = with_autoscaler(desired, world.autoscalers, off)
        completed = entry is not None and entry.job is not None and entry.job.completed
        again = (
            (options.apply.reapply_all or options.reruns_jobs)
            # guard: finished-job
            and not completed
        )
        is_gone = isinstance(state, Absent)
        may_be_done = entry is not None and is_gone and _may_have_finished(desired, entry)
        deleted = entry is not None and may_be_done and was_deleted(entry.job, world.now)
        if entry is None or again or deleted or not may_be_done:
            reason = "; ".join([*desired.ignore_reasons, *[JOB_DELETED] * deleted])
            created = ApplyStep(desired, Fate.CREATE, new_entry(desired, None), reason=reason)
            created = replace(created, request=apply_request(created, applyset, options))
            return step_of_deleted(created, entry, state, options)
        return ApplyStep(
            desired, Fate.LEAVE, entry, reason=FINISHED if completed else UNKNOWN_RESULT
        )
    if (
        entry is not None
        and state.terminating
        and state.uid == entry.uid
        and _may_have_finished(desired, entry)
        and not was_deleted(job_record(desired, state, entry), deleted_at(state))
    ):
        return ApplyStep(desired, Fate.LEAVE, entry, state, TERMINATING)
    return existing_step(desired, entry, state, world)


def _may_have_finished(desired: Desired, entry: InventoryEntry) -> bool:
    """Return whether a Job that is gone, or is going, may have been removed by its TTL."""
    return desired.has_ttl and bool(entry.uid) and entry.digest == desired.digest


# The request for an object, made again when its state has changed or was read in full.


def with_new_request(
    step: ApplyStep,
    live: LiveObject | None,
    applyset: ApplySetIdentity,
    options: Options,
    *,
    is_reply: bool = False,
) -> ApplyStep:
    """Return a step with the request for a state of its object that is newer, or read in full.

    ``is_reply`` says that it is the reply to the request before the apply.
    """
    claims = (
        is_reply
        and step.request is not None
        and isinstance(step.request.before, PatchRequest)
        and step.request.before.claims
    )
    reverts = _reverts(step, live, applyset, options)
    fresh = replace(step, live=live)
    if live is not None:
        fresh = replace(fresh, migration=with_marks_of(step.migration, live))
    request = apply_request(fresh, applyset, options, reverts=bool(reverts))
    claimed_from = step.live if claims else step.claimed_from
    excluding = (pair for pair in step.reverts if pair[0] in step.desired.excluding)
    reverts = tuple(sorted({*reverts, *excluding}))
    released: tuple[tuple[str, str], ...] = ()
    if live is not None and step.desired.releasing:
        released = fields_in(live, step.desired.releasing, applyset.manager)
    return replace(
        fresh, request=request, reverts=reverts, released=released, claimed_from=claimed_from
    )


def _reverts(
    step: ApplyStep, live: LiveObject | None, applyset: ApplySetIdentity, options: Options
) -> tuple[tuple[str, str], ...]:
    """Return the drifted fields that are reverted, if that is asked for.

    Where the options force everything, nothing is left to decide.
    """
    fails = own_options(step.desired, options).fails_on_drift
    if live is None or fails or forces(step.desired, live, options, applyset):
        return ()
    return drift_to_revert(step, live, applyset)


def with_checked_request(
    step: ApplyStep,
    live: LiveObject | None,
    applyset: ApplySetIdentity,
    options: Options,
    *,
    is_reply: bool = False,
) -> ApplyStep:
    """Do what ``with_new_request`` does, during an apply; raise RunFailed if that exceeds the plan.

    ``is_reply`` says that it is the reply to the request before the apply.
    """
    fresh = with_new_request(step, live, applyset, options, is_reply=is_reply)
    if reason := exceeds_plan(step, fresh, applyset, is_reply=is_reply):
        where = step.desired.origin
        raise RunFailed(f"{step.desired.ref} {reason}", location=where, hint="Run again.")
    return fresh


def removed_again(step: RemoveStep, world: World) -> RemoveStep:
    """Decide again about an entry that has left; raise RunFailed if that exceeds the plan.

    ``world`` has the object as it is now.
    """
    # Bind an entry without a confirmed UID to the object that the plan saw.
    entry = step.entry
    if not entry.uid and step.live is not None:
        entry = replace(entry, uid=step.live.uid)
    again = replace(remove_step(entry, world), entry=entry)
    if reason := exceeds_plan(step, again, world.applyset):
        raise RunFailed(f"{entry.ref} {reason}", hint="Run again.")
    return again


def exceeds_plan(
    shown: ApplyStep | RemoveStep,
    now: ApplyStep | RemoveStep,
    applyset: ApplySetIdentity,
    *,
    is_reply: bool = False,
) -> str:
    """Return why a step, decided again during the run, does more than the plan has shown.

    It is empty if it does the same or less: an apply takes the object from no other set, takes no
    field that it has not taken by the plan, and reverts no further drift; and only the plan as a
    whole may decide a deletion. A reply to the set's own request, ``is_reply``, shows its doing.
    """
    if isinstance(shown, RemoveStep) or isinstance(now, RemoveStep):
        # guard: unplanned-deletion -> False
        deletes_more = now.fate is Fate.PRUNE and shown.fate is not Fate.PRUNE
        return "changed during this run, and could be deleted now" if deletes_more else ""
    before, live = shown.live, now.live
    planned = foreign_label(before, applyset) if before is not None else ""
    # guard: taken-by-another-set never
    if live is not None and foreign_label(live, applyset) not in {"", planned}:
        return "was taken by another set during this run"
    forces_more = _is_forced(now) and not (
        is_reply
        # guard: unplanned-force always
        or takes_no_more(shown.desired, before, live)
    )
    if forces_more or not {*now.reverts} <= {*shown.reverts}:  # guard: unplanned-revert never
        return "changed during this run, after force was decided"
    if not {*now.released} <= {*shown.released}:  # guard: unplanned-release never
        return "changed during this run: others own more of what leaves it"
    return ""


def with_own_version(
    step: ApplyStep, error: ApplypruneError, applyset: ApplySetIdentity, options: Options
) -> ApplyStep | None:
    """Return the step that first rewrites the entries of other versions; None for another error.

    The server converts an object to the version of each entry in managedFields. If a schema of that
    version lacks a field which the object now has, such as a new default, it refuses every
    apply. Only the ``apiVersion`` of such entries is rewritten.
    """
    desired, live = step.desired, step.live
    own = frozenset({desired.resource.gvk.api_version})
    if (
        not isinstance(error, Invalid)
        or live is None
        or desired.versions == own
        or not dead_versions(live, own)
        or not undeclared_elsewhere(error, body_to_send(desired))
    ):
        return None
    narrowed = replace(step, desired=replace(desired, versions=own))
    return with_checked_request(narrowed, live, applyset, options)


def with_excluding(
    step: ApplyStep,
    live: LiveObject,
    beside: Sequence[tuple[Path, Writer]],
    applyset: ApplySetIdentity,
    options: Options,
) -> ApplyStep:
    """Return the step that also removes the fields of others which exclude the manifest's."""
    parts = excluding_parts(body_to_send(step.desired), beside)
    desired = replace(step.desired, excluding=tuple(pointer for pointer, _ in parts))
    excluding = replace(step, desired=desired, reverts=parts)
    return with_new_request(excluding, live, applyset, options)


def with_released(
    step: ApplyStep,
    live: LiveObject,
    held: Sequence[tuple[Path, Writer]],
    applyset: ApplySetIdentity,
    options: Options,
) -> ApplyStep:
    """Return the step that also releases the fields of others which hold what leaves with it."""
    parts = excluding_parts(body_to_send(step.desired), held)
    desired = replace(step.desired, releasing=tuple(pointer for pointer, _ in parts))
    releasing = with_new_request(replace(step, desired=desired), live, applyset, options)
    losers = {manager for _, manager in releasing.released}
    return replace(releasing, taken_from=tuple(sorted({*step.taken_from, *losers})))


def _is_forced(step: ApplyStep) -> bool:
    """Return whether force takes other fields than those that are reverted."""
    return step.request is not None and step.request.force and not step.reverts


# How a run would end for each object of a plan: the events of a dry run.


NOT_CHECKED = "not checked by the server"


def forecast(plan: Plan, options: Options) -> Iterator[ObjectDone]:
    """Yield how a run would end for each object, in the order of the run."""
    yield from map(apply_forecast, plan.applies)
    for entry in plan.recovered:
        yield back_in_the_inventory(entry, options)
    for step in plan.removals:
        if plan.no_prune:
            yield not_pruned(step, plan.no_prune)
        else:
            yield removal_forecast(step, options)


def apply_forecast(step: ApplyStep) -> ObjectDone:
    """Return how a run would end for an object of the input."""
    outcome = Outcome.SKIPPED if step.is_skipped else step.fate.applied or Outcome.FAILED
    reverts = f"reverts {drifted_fields(step.reverts)}" if step.reverts else ""
    reason = "" if step.problem else step.not_checked or step.reason or reverts
    return ObjectDone(step.desired.ref, outcome, step.desired.origin, reason, step.problem)


def removal_forecast(step: RemoveStep, options: Options) -> ObjectDone:
    """Return how a run would end for an entry that has left the set."""
    outcome = step.fate.removed or Outcome.FAILED
    reason = step.reason
    if step.fate is Fate.PRUNE:
        outcome = Outcome.DELETED if options.mode is Mode.DELETE else Outcome.PRUNED
        reason = ""
        if step.live is not None and step.live.terminating:
            reason = "it is being deleted already"
    if step.problem is not None:
        reason = ""
    return ObjectDone(
        step.entry.ref, outcome, reason=step.not_checked or reason, problem=step.problem
    )


def not_pruned(step: RemoveStep, reason: str) -> ObjectDone:
    """Return the event for an entry that a run does not prune."""
    if step.fate is Fate.REFUSE and step.problem is not None:
        return ObjectDone(step.entry.ref, Outcome.FAILED, problem=step.problem)
    return ObjectDone(step.entry.ref, Outcome.NOT_PRUNED, reason=reason)


def back_in_the_inventory(entry: InventoryEntry, options: Options) -> ObjectDone:
    """Return the event for an unlisted object of the set that the run records again."""
    absent = "not selected" if options.applies_part else "not in the input"
    reason = f"back in the inventory; it is {absent}"
    return ObjectDone(entry.ref, Outcome.NOT_PRUNED, reason=reason)


_IF_CHANGED = "if it has changed: this account may not read it"
_NOT_READ = "not checked: this account may not read it"


def unchecked(step: _Step, mode: Mode) -> _Step:
    """Return a step that says, if it would send something, that no server has checked it.

    What this account may not read, such as the Secrets for one with the role ``view``, may change:
    the account of the run will know.
    """
    applies = isinstance(step, ApplyStep)
    if _is_unread(step):
        goes = Fate.ORPHAN if mode is Mode.ORPHAN else Fate.PRUNE
        fate, reason = (Fate.CHANGE, _IF_CHANGED) if applies else (goes, _NOT_READ)
        return replace(step, fate=fate, problem=None, not_checked=reason)
    sends = step.request is not None if applies else step.fate is Fate.PRUNE
    return replace(step, not_checked=NOT_CHECKED) if sends else step


def _is_unread(step: ApplyStep | RemoveStep) -> bool:
    """Return whether a step is refused because its object may not be read."""
    is_forbidden = step.problem is not None and step.problem.kind is ProblemKind.FORBIDDEN
    return step.fate is Fate.REFUSE and step.live is None and is_forbidden


# How a run has ended, and what it waits for.


_NAMED = 10
_NOTHING_DONE: Mapping[Outcome, int] = {}


def verdict(
    problems: Iterable[Problem],
    refusal: Problem | None = None,
    *,
    held: bool = False,
    dry: bool = False,
    mode: Mode = Mode.APPLY,
    done: Mapping[Outcome, int] = _NOTHING_DONE,
) -> ApplypruneError | None:
    """Return the error for a run's failures; None if there are none.

    ``problems`` are those of single objects; ``refusal`` is that of the whole prune, and ``held``
    says that it has also stopped the apply. There are special exit codes if all failures are
    conflicts, timeouts or refusals. A ``dry`` run says what would have been, for it writes nothing
    in any case. ``done`` counts the outcomes of the run: what it says of nothing follows from that.
    """
    problems = tuple(problems)
    kinds = {problem.kind for problem in (*problems, *([refusal] if refusal else []))}
    if not kinds:
        return None
    some = counted(len(problems), "object")
    changed = sum(count for outcome, count in done.items() if outcome.is_change)
    if kinds <= {ProblemKind.PRUNE_REFUSED, ProblemKind.NOT_APPROVED}:
        told = some if problems else ""
        approvable = ProblemKind.NOT_APPROVED in kinds
        removal = f"the {mode.removal} {_WAS[dry]} refused"
        return _not_deleted(removal, told, done, approvable=approvable, held=held, dry=dry)
    if kinds == {ProblemKind.PLAN_OUTDATED}:
        return _outdated(len(problems), 0 if dry else changed, _WAS[dry])
    also = f", and the {mode.removal} was refused" if refusal else ""
    if held:
        unchanged = "nothing more was changed" if changed else "nothing was changed"
        return _refused_plan(kinds, some, also, "the run would fail" if dry else unchanged)
    if kinds == {ProblemKind.CONFLICT}:
        return ConflictsFound(f"{some} failed: other field managers own some of their fields")
    if kinds == {ProblemKind.NOT_READY}:
        was = "was" if len(problems) == 1 else "were"
        return NotReady(f"{some} {was} not ready or not deleted before the timeout")
    return RunFailed(f"{some} failed{also}")


_WAS = {False: "was", True: "would be"}


def _were(count: int, *, dry: bool = False) -> str:
    return "would be" if dry else "was" if count == 1 else "were"


def _not_deleted(
    removal: str,
    some: str,
    done: Mapping[Outcome, int],
    *,
    approvable: bool,
    held: bool,
    dry: bool,
) -> ApplypruneError:
    """Return the error for what a guard or a missing approval has stopped.

    ``some`` are the objects that it is about; empty if it is about the whole prune.
    """
    was, more = _WAS[dry], ""
    gone = done.get(Outcome.PRUNED, 0) + done.get(Outcome.DELETED, 0)
    recreated = done.get(Outcome.RECREATED, 0)
    count = gone + (recreated if some else 0)
    # A dry run that is held only forecasts them.
    if count and not (held and dry):  # guard: deleted-before-the-refusal never
        before = f"{count} {_were(count, dry=dry)} deleted before that"
        refused = f"the deletion of {some} {was} refused" if some else removal
        return RunFailed(f"{refused}, and {before}")
    if not dry and any(count for outcome, count in done.items() if outcome.is_change):
        more = " more"
    no_deletion = f"nothing {was} {'pruned' if recreated else 'deleted'}"
    if approvable and held:
        return NotApproved(f"the plan is not approved: nothing{more} {was} written")
    if approvable:
        return NotApproved(f"the deletions are not approved: {no_deletion}")
    if held:
        return PruneRefused(
            f"{removal}: nothing{more} {was} applied, and {no_deletion}",
            hint="To apply without the prune: --no-prune.",
        )
    return PruneRefused(f"{removal}: {no_deletion}")


def _outdated(count: int, changed: int, was: str) -> ApplypruneError:
    """Return the error for objects that no longer fit the plan."""
    fit = "object no longer fits" if count == 1 else "objects no longer fit"
    if changed:
        before = f"{changed} {_were(changed)} changed before that"
        return RunFailed(f"{count} {fit} the plan, and {before}")
    return PlanOutdated(
        f"{count} {fit} the plan: nothing {was} written",
        hint="Make the plan again, and review it again.",
    )


def _refused_plan(
    kinds: Collection[ProblemKind], some: str, also: str, what: str
) -> ApplypruneError:
    if kinds == {ProblemKind.CONFLICT}:
        return ConflictsFound(f"{what}: other field managers own fields of {some}")
    return RunFailed(f"{what}: {some} cannot be applied{also}")


def with_own_exit_code(problem: Problem, done: Mapping[Outcome, int] = _NOTHING_DONE) -> Problem:
    """Return an object's problem with the exit code of a run in which nothing else fails.

    ``done`` counts what the run has done before.
    """
    error = verdict((problem,), done=done)
    return problem if error is None else replace(problem, exit_code=error.exit_code)


def waiting(reasons: Mapping[Ref, str], what: str, elapsed: float, timeout: float) -> Waiting:
    """Return the event for the objects that a run waits for, with a reason for each.

    There is at least one object; ``what`` is the desired state. Times are in seconds.
    """
    # There may be 100,000 objects, and this is called every second.
    first, *others = nsmallest(_NAMED + 1, reasons)
    named = tuple(Pending(ref, reasons[ref]) for ref in others)
    return Waiting(first, what, elapsed, timeout, reasons[first], named, len(reasons))
