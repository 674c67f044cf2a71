"""What the server's reply to a request of the plan means, and what is to be done after it.

A 200 is not yet success: the reply may be about another object, or about one that is being deleted,
or a gateway may have answered with that of a dry run or of another request (design.md, safety rule
9). What a reply does not prove, a read must show. A refused guard means that the object has changed
since the plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from applyprune.errors import ApplypruneError, Conflict, RunFailed
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import GroupKind
from applyprune.model.inventory import Ownership
from applyprune.model.live import Absent, LiveObject, Unknown, is_after
from applyprune.model.plan import CREATE_ONLY, ApplyRequest, ApplyStep, Cause, PatchRequest
from applyprune.planning.applyset import OWNED_BY
from applyprune.planning.comparison import (
    NOT_ALLOWED,
    NOT_CREATED,
    RefusedChange,
    changes_ownership,
    recreation_obstacle,
    says_immutable,
    unproven_recreation,
    unproven_stored,
    with_immutable_fields_named,
    with_stored_values_named,
)
from applyprune.planning.conflicts import drifted_fields, rewritten_fields
from applyprune.planning.decide import existing_step, job_record, new_entry
from applyprune.planning.field_writers import is_by_hand
from applyprune.planning.managed_fields import BEFORE_FIRST_APPLY, own_fields, own_writer
from applyprune.planning.normalize import body_to_send, may_be_secret
from applyprune.planning.ownership import (
    FIXED_GENERATION,
    Owner,
    applied_digest,
    confirmed_takings,
    fingerprint_of,
    foreign_label,
    has_witness,
    marks_to_record,
    name_error,
    owned_fields_of,
    owner_of,
    values_match,
)
from applyprune.planning.prune_waits import takes_time
from applyprune.planning.requests import apply_request
from applyprune.planning.server_errors import is_about_stored
from applyprune.planning.staying_fields import staying_fields, staying_words
from applyprune.planning.world import World
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from applyprune.model.identity import Ref
    from applyprune.model.inventory import InventoryEntry
    from applyprune.model.live import State
    from applyprune.model.options import Options
    from applyprune.model.plan import Desired
    from applyprune.model.problem import Origin
    from applyprune.planning.applyset import ApplySetIdentity


# Whether a write is stored. The reply to a dry run has the same text, but no resourceVersion, that
# of the request, or the one that the object had before.


def proves_apply(step: ApplyStep, reply: LiveObject, applyset: ApplySetIdentity) -> bool:
    """Return whether the reply to an apply can only be that of a write which is stored.

    ``step.live`` is the object before it. If this is false, the object must be read.
    """
    if not _is_whole(step, reply, applyset):  # guard: reply-is-whole never
        return False
    before = step.live
    if before is None:
        # The reply to the create of the one that this run has deleted says nothing of a new one.
        deleted = step.deletion.precondition.uid if step.deletion is not None else ""
        is_new = is_after(reply, CREATE_ONLY.resource_version)  # guard: created-is-stored -> True
        return is_new and reply.uid != deleted
    if reply.uid != before.uid:
        return False
    if reply.resource_version == before.resource_version:
        return is_repeated(step, reply) and _changes_nothing(step, reply, applyset)
    if not is_after(reply, before.resource_version):
        return False
    # If somebody has written it since, even a dry run's reply has another resourceVersion.
    guarded = step.request is not None and bool(step.request.precondition.resource_version)
    others = () if guarded else _writes_of_others(reply, applyset)
    return {*others} <= {*_writes_of_others(before, applyset)}  # guard: others-in-the-reply -> True


def proves_patch(
    request: PatchRequest | ApplyRequest, before: LiveObject, reply: LiveObject
) -> bool:
    """Return whether the reply to a request that changes an object shows that this is stored.

    What is sent next follows from its labels, annotations and managers, so it lacks none of these
    as a whole, unless the request removes them.
    """
    if reply.uid != before.uid or not is_after(reply, before.resource_version):
        return False
    operations = request.operations if isinstance(request, PatchRequest) else ()
    removed = {one["path"] for one in operations if one["op"] == "remove"}
    parts = (
        ("labels", before.labels, reply.labels),
        ("annotations", before.annotations, reply.annotations),
        ("managedFields", before.managed_fields, reply.managed_fields),
    )
    lost = {f"/metadata/{part}" for part, had, has in parts if had and not has}
    return lost <= removed  # guard: parts-in-the-reply -> True


def _is_whole(step: ApplyStep, reply: LiveObject, applyset: ApplySetIdentity) -> bool:
    """Return whether a reply lacks nothing of what every applied object has.

    What our Apply entry names of its labels and annotations is in them.
    """
    ours = own_writer(reply, applyset.manager)
    if ours is None:
        return False
    owned = ours.fields.at(("metadata",))
    for part, texts in (("labels", reply.labels), ("annotations", reply.annotations)):
        if any(isinstance(key, str) and key not in texts for key in owned.at((part,)).below):
            return False
    has_generation = reply.generation is not None
    counts = step.live is not None and step.live.generation is not None
    return "creationTimestamp" in reply.metadata and (has_generation or not counts)


def is_repeated(step: ApplyStep, reply: LiveObject) -> bool:
    """Return whether a reply shows the object as it was before the apply, as far as it was read.

    The apply has changed nothing, or the reply is that to an earlier request. To send it again
    does no harm, and tells.
    """
    before = step.live
    if before is None or before.resource_version != reply.resource_version:
        return False
    if before.packed_body is not None:
        return before.packed_body == reply.packed_body
    metadata = (reply.packed_metadata, reply.packed_managers)
    return (before.packed_metadata, before.packed_managers) == metadata


def _changes_nothing(step: ApplyStep, reply: LiveObject, applyset: ApplySetIdentity) -> bool:
    """Return whether an apply may have left its object as it was, which the reply shows.

    The check has said so, or the last apply was the same, or the object has exactly what is sent.
    """
    desired, before, recorded = step.desired, step.live, step.entry.fingerprint
    # A patch before the apply may have brought all that an object lacked that another set gives.
    is_given = before is not None and step.becomes_owned and has_witness(before, applyset)
    if step.is_checked and not is_given:
        return step.fate is Fate.LEAVE  # guard: shown-change -> True
    is_recorded = recorded is not None and recorded.resource_version == reply.resource_version
    is_secret = may_be_secret(desired.body)  # no digest of its values is kept
    if step.is_reapplied and is_recorded and not is_secret:
        return True
    # In a dry run's reply, the time of our entry is new, unless the last apply was in the same
    # second. Then only the generation or the values tell.
    is_counted = desired.ref.group_kind not in FIXED_GENERATION and reply.generation is not None
    if step.request is None or before is None or not (is_counted or before.packed_body):
        return False  # guard: same-second
    ours = own_fields(reply, applyset.manager)
    return values_match(desired, reply) and not ours - ours.set_by(step.request.body)


def _writes_of_others(live: LiveObject, applyset: ApplySetIdentity) -> Iterator[tuple[str, ...]]:
    """Yield who else has written an object, and when."""
    for one in live.writers:
        if one.manager not in {applyset.manager, BEFORE_FIRST_APPLY}:
            yield one.manager, one.operation, one.subresource, one.time


def shows_apply(
    step: ApplyStep, reply: LiveObject, stored: LiveObject, applyset: ApplySetIdentity
) -> bool:
    """Return whether an object, read after a reply that proves nothing, has what the reply says."""
    before = step.live
    if before is not None:
        version = before.resource_version
        is_earlier = reply.resource_version not in {"", version} and not is_after(reply, version)
        if is_earlier or reply.uid != before.uid or stored.uid != before.uid:
            return False  # guard: reply-to-another-request
    if is_repeated(step, reply):
        return stored.packed_body == reply.packed_body
    if _is_whole(step, reply, applyset):
        said, found = own_writer(reply, applyset.manager), own_writer(stored, applyset.manager)
        if said is None or found is None or said.fields != found.fields:
            return False  # guard: fields-in-the-read
        # guard: values-in-the-read -> True
        return bool(said.fields.part_of(reply.body) == said.fields.part_of(stored.body))
    # It lacks something itself: then it must be about the very state that is stored.
    keeps_no_record = own_writer(stored, applyset.manager) is None
    is_new = is_after(stored, before.resource_version if before is not None else "")
    is_that = reply.resource_version == stored.resource_version
    return is_that and (is_new or keeps_no_record)  # guard: state-in-the-read -> True


def not_stored(state: State) -> RunFailed:
    """Return the error for a write that the server has confirmed, and that is not stored.

    ``state`` is the state of the object after the reply.
    """
    found = "the object is not as the reply says"
    if isinstance(state, Absent):
        found = "the object does not exist"
    return RunFailed(
        "it was not written",
        reason=f"the server answered that it was, but afterwards, {found}",
        hint=_NOT_THE_SERVER,
    )


def not_deleted(ref: Ref, origin: Origin | str = "") -> RunFailed:
    """Return the error for an object whose deletion the server has confirmed, and that stays."""
    return RunFailed(
        f"{ref} was not deleted",
        location=origin,
        reason="the server answered that it was, but the object exists, and is not being deleted",
        hint=_NOT_THE_SERVER,
    )


_NOT_THE_SERVER = (
    "A gateway or proxy may have answered in its place, for example with the reply of a dry run. "
    "Run again."
)


class ConfirmedApply(Struct, frozen=True):
    """A confirmed apply: the entry for the inventory, and the result."""

    entry: InventoryEntry
    outcome: Outcome
    reason: str
    """Why, and from whom it has taken fields; may be empty."""
    rewritten: tuple[str, ...]
    """The fields that are stored with another value than the manifest's."""


_NO_WITNESS = (
    f"recorded as adopted: a webhook or policy has removed the annotation {OWNED_BY}, so a prune "
    "will not delete it"
)


def confirmed(
    step: ApplyStep,
    after: LiveObject,
    applyset: ApplySetIdentity,
    schemas: Mapping[GroupKind, int | None],
    known: Outcome,
) -> ConfirmedApply:
    """Return what the reply to an apply confirms; ``after`` is the object in it.

    ``step.live`` is the object before the last request. ``schemas`` has the generation of each
    custom kind's CRD. ``known`` is CREATED, UPDATED if a request before the apply has changed the
    object, else UNCHANGED. Raises RunFailed if the reply is about another object, or about one that
    is being deleted or has another name.
    """
    desired = step.desired
    if (error := name_error(desired.ref, after, desired.origin)) is not None:
        raise error
    if step.live is not None and after.uid != step.live.uid:
        raise _changed_meanwhile(desired, "was deleted and re-created by somebody else")
    if after.terminating:
        raise RunFailed(
            f"{desired.ref} is being deleted",
            location=desired.origin,
            reason="the apply succeeded, but the object will be removed",
            hint="Run again when it is gone.",
        )
    schema = schemas.get(desired.ref.group_kind)
    fingerprint = fingerprint_of(after, applyset.manager, schema)
    if desired.ref.group_kind in schemas and schema is None:
        fingerprint = None
    has_all = values_match(desired, after)
    is_as_sent = may_be_secret(desired.body) or (not desired.ignored and has_all)
    rewritten: tuple[str, ...] = ()
    if not has_all:
        # What is only sent at creation is left to others.
        rewritten = rewritten_fields(body_to_send(desired), after, applyset.manager)
    created = known is Outcome.CREATED
    ownership = step.entry.ownership
    becomes_owned = ownership is Ownership.OWNED and (created or step.becomes_owned)
    # The annotation comes with the apply.
    lost = becomes_owned and not has_witness(after, applyset)
    if lost:
        ownership = Ownership.ADOPTED  # guard: witness-taken-off
    entry = replace(
        step.entry,
        uid=after.uid,
        ownership=ownership,
        digest=desired.digest,
        stored="" if is_as_sent else applied_digest(after, applyset.manager),
        defaulted=_defaulted(desired, after, applyset) if is_as_sent else "",
        fingerprint=fingerprint,
        owned_fields=owned_fields_of(after, applyset.manager),
        marks=marks_to_record(step.entry, after, applyset),
        deleting=False,
        changed=step.entry.changed or takes_time(desired),
        job=job_record(desired, after, step.entry),
        crd=step.entry.crd if schema is None else desired.resource.full_plural,
    )
    if created:
        notes = [step.reason, _NO_WITNESS if lost else ""]
        return ConfirmedApply(entry, Outcome.CREATED, "; ".join(filter(None, notes)), rewritten)
    before = step.claimed_from or step.live
    moved = (
        before is None
        or known is Outcome.UPDATED
        or _changed_by_apply(desired, before, after, applyset)
    )
    outcome = Outcome.UPDATED if moved else Outcome.UNCHANGED
    if not moved:
        entry = replace(entry, changed=step.entry.changed)
    return ConfirmedApply(entry, outcome, _reason(step, after, applyset), rewritten)


def _reason(step: ApplyStep, after: LiveObject, applyset: ApplySetIdentity) -> str:
    # The fields that go before the apply have changed hands since.
    before = step.claimed_from or step.live
    taken = ""
    if before is not None and step.taken_from and step.fate is not Fate.ADOPT:
        losers = confirmed_takings(step, before, after, applyset)
        taken = f"took fields from {', '.join(losers)}" if losers else ""
    staying: Iterable[str] = ()
    if not (step.is_checked and step.fate is Fate.ADOPT):  # else the check has said it
        staying = staying_words(step, step.live, after, after.body, applyset)
    if step.reverts:
        notes = [
            f"reverted {drifted_fields(step.reverts)}",
            taken,
            *step.desired.ignore_reasons,
            *staying,
        ]
        return "; ".join(filter(None, notes))
    return "; ".join(filter(None, (taken, _with_notes(step.reason, staying))))


def _with_notes(reason: str, notes: Iterable[str]) -> str:
    """Return the reason of a step with what stays; the check may have said that."""
    return "; ".join(filter(None, (reason, *(one for one in notes if one not in reason))))


def with_staying_fields(
    step: ApplyStep,
    before: LiveObject,
    after: LiveObject,
    state: Mapping[str, Any],
    applyset: ApplySetIdentity,
    created: Callable[[], Mapping[str, Any] | None],
) -> ApplyStep:
    """Return a step whose reason says what stays of others, by its dry run.

    ``state`` is the object afterwards. ``created`` returns it as the server would create it; it is
    only called where the server's defaults matter.
    """
    asks = False
    if step.fate is Fate.ADOPT:
        each = [*staying_fields(step, before, after, state, applyset, created={})]
        applied = [*staying_fields(step, before, after, state, applyset)]
        asks = len(each) > len(applied)  # some may be defaults
    made = created() if asks else None
    notes = staying_words(step, before, after, state, applyset, made)
    return replace(step, reason=_with_notes(step.reason, notes))


def _defaulted(desired: Desired, after: LiveObject, applyset: ApplySetIdentity) -> str:
    """Return the digest of the stored values if the server has put defaults inside of ours."""
    if may_be_secret(desired.body) or not _holds_defaults(desired.body):
        return ""
    digest = applied_digest(after, applyset.manager)
    return digest if digest != desired.digest else ""  # guard: defaults-inside -> ""


def _holds_defaults(value: object) -> bool:
    """Return whether a list of mappings, or an empty part, may get defaults that we own then."""
    if isinstance(value, list):
        return not value or any(isinstance(item, dict) for item in value)
    return isinstance(value, dict) and (not value or any(map(_holds_defaults, value.values())))


def _changed_by_apply(
    desired: Desired, before: LiveObject, after: LiveObject, applyset: ApplySetIdentity
) -> bool:
    """Return whether our apply changed the object, rather than somebody else its status."""
    if before.resource_version == after.resource_version:
        return False
    if before.generation is None or before.generation != after.generation:
        return True
    # The time of our entry proves nothing: the server also renews it when it only tidies up. And
    # somebody may write as our field manager, within the same second of the entry's time.
    return (
        changes_ownership(before, after, applyset.manager)
        or desired.ref.group_kind in FIXED_GENERATION
        or not values_match(desired, before)
    )


def dry_run_reply(step: ApplyStep, after: LiveObject, applyset: ApplySetIdentity) -> ApplyStep:
    """Return a step with what webhooks rewrite, by the reply to its dry run.

    Raises RunFailed if they change its name.
    """
    desired = step.desired
    if (error := name_error(desired.ref, after, desired.origin, exists=False)) is not None:
        raise error
    rewritten = rewritten_fields(body_to_send(desired), after, applyset.manager)
    return replace(step, rewritten=rewritten)


def refused_guard(
    step: ApplyStep, live: LiveObject | None, error: ApplypruneError, applyset: ApplySetIdentity
) -> bool:
    """Return whether a refused apply has in truth created the object, and only its reply was lost.

    ``live`` is the object as it is now; None if it does not exist. Return False if its guards still
    hold: then the server refuses the manifest itself. Otherwise raise RunFailed with what has
    happened to the object, or ``error`` if nothing explains it.
    """
    desired, request = step.desired, step.request
    if live is None:
        if step.live is None:
            raise error
        hint = "Run again to re-create it."
        raise _changed_meanwhile(desired, "was deleted by somebody else", hint) from error
    if step.live is None and owner_of(live, step.entry, applyset) is Owner.RECORDED:
        return True
    if step.live is None or live.uid != step.live.uid:
        raise created_by_others(desired) from error
    judged = request.precondition.resource_version if request is not None else ""
    # Of a manifest that the server refuses, force has taken nothing.
    if isinstance(error, Conflict) and judged not in {"", live.resource_version}:
        raise RunFailed(
            f"{desired.ref} changed during this run, after force was decided",
            location=desired.origin,
            hint="Run again.",
        ) from error
    return False


def refuse_false_absence(uid: str, state: State, error: ApplypruneError) -> None:
    """Raise RunFailed unless a GET confirms what a 404 to a DELETE or PATCH says.

    An admission webhook may answer with a 404 about an object that exists. ``state`` is the state
    of the object after that reply; ``uid`` is the UID of the object that the request was about.
    """
    if isinstance(state, Absent):
        return
    if isinstance(state, LiveObject):
        if state.uid != uid:
            return  # another object has its name now
        raise RunFailed(
            "it still exists",
            reason=f"the server answered 404: {error.message}",
            hint="An admission webhook may have refused the request with this reply.",
        ) from error
    problem = state.problem if isinstance(state, Unknown) else None
    raise RunFailed(
        "it is unknown whether it exists",
        reason=f"the server answered 404: {error.message}"
        + (f"; afterwards, {problem.message}" if problem else ""),
        hint="Run again.",
    ) from error


def created_by_others(desired: Desired) -> RunFailed:
    return _changed_meanwhile(desired, "was created by somebody else")


def _changed_meanwhile(desired: Desired, how: str, hint: str = "Run again.") -> RunFailed:
    return RunFailed(f"{desired.ref} {how} during this run", location=desired.origin, hint=hint)


_DRIFT_ONLY = "its manifest has not changed, and reverting drift deletes nothing"
_REWRITTEN = "a webhook rewrites its values, so it is unknown whether the manifest has changed them"


def refused_recreation(
    change: RefusedChange, applyset: ApplySetIdentity, options: Options
) -> RunFailed | None:
    """Return why an object may not be recreated, with the fields; None if it may.

    It may if its manifest has changed a field that was refused, that only the set has written, and
    that the server would create so. If the server would not create it, the refusal may be about
    something else than an immutable field. It also may if nobody else has written the stored values
    that a changed CRD does not allow.
    """
    step, is_stored = change.step, is_about_stored(change.error)
    if change.created is None and not (is_stored or says_immutable(change.error)):
        return None
    reason = recreation_obstacle(step.desired, step.entry, change.live, applyset, options)
    if change.created is None and (not reason or reason == NOT_ALLOWED):
        reason = NOT_CREATED
    if reason in {"", NOT_ALLOWED}:
        # guard: stored-by-others -> "" if is_stored else _unproven(change, applyset.manager)
        unproven = (
            unproven_stored(change, applyset.manager)
            if is_stored
            else _unproven(change, applyset.manager)
        )
        reason = unproven or reason
    if is_stored:
        return with_stored_values_named(change, reason) if reason else None
    return with_immutable_fields_named(change, reason, applyset.manager) if reason else None


def _unproven(change: RefusedChange, manager: str) -> str:
    if change.repeats_last_apply(manager):
        return _DRIFT_ONLY  # guard: drift-deletes-nothing -> ""
    if change.is_of_rewritten_values(manager):
        return _REWRITTEN  # guard: rewritten-secret -> ""
    if change.beside:
        names = sorted({writer.manager for _, writer in change.beside})
        return f"{' and '.join(names)} owns fields beside it"  # guard: fields-beside -> ""
    return unproven_recreation(change, manager)


# An object that exists although the run was about to create it.


def created_instead(
    step: ApplyStep, read: Callable[[], State], world: World, *, reviewed: bool
) -> ApplyStep | None:
    """Return the step that creates an object which was to be adopted, and is gone since the plan.

    None for any other step, if the object may still exist, and if the plan was ``reviewed``: nobody
    has agreed to a new object.
    """
    is_adoption = step.fate is Fate.ADOPT  # guard: only-adoptions-are-created -> True
    if not is_adoption or reviewed:  # guard: reviewed-adoption -> not is_adoption
        return None
    if not isinstance(read(), Absent):  # guard: gone-is-proved never
        return None
    desired = step.desired
    created = ApplyStep(desired, Fate.CREATE, new_entry(desired, None), reason=_GONE_SINCE)
    return replace(created, request=apply_request(created, world.applyset, world.options))


_GONE_SINCE = "created: what was to be adopted is gone since the plan"


def found_at_create(
    step: ApplyStep,
    live: LiveObject,
    error: ApplypruneError,
    world: World,
    *,
    reviewed: bool,
) -> ApplyStep | None:
    """Return the step for an object that a step was to create, by the rules for any existing one.

    None if it was not to be created, or is our own: only the reply was lost. Raises RunFailed if
    the plan was ``reviewed`` and creates it, or if a person or another applier has made it, and no
    controller: nobody has agreed to take it from them.
    """
    is_new = step.live is None
    if not is_new or owner_of(live, step.entry, world.applyset) is Owner.RECORDED:
        return None
    adopts = step.fate is Fate.ADOPT
    if reviewed and not adopts:  # guard: reviewed-create never
        raise created_by_others(step.desired) from error
    # Only a plan that has shown the object may make it the set's own.
    options = replace(world.options.apply, adopt_as=Ownership.ADOPTED)
    adopts_only = replace(world, options=replace(world.options, apply=options))
    found = existing_step(step.desired, None, live, adopts_only)
    if found.problem is not None or found.cause is Cause.LEAVE_MARK:
        return found
    # guard: found-from-controller never
    if foreign_label(live, world.applyset) or _is_somebodys(live):
        raise created_by_others(step.desired) from error
    late = "adopted: a controller has created it during this run"
    return replace(found, reason=step.reason if adopts else late)


def _is_somebodys(live: LiveObject) -> bool:
    """Return whether a person or an applier has written an object, by its field managers."""
    return any(
        one.operation == "Apply" or is_by_hand(one.manager)
        for one in live.writers
        if not one.subresource
    )
