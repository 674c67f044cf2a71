"""Make the requests for the objects of a plan, as values: only here is decided what is sent.

Some applies need other requests first: fields must change hands before the manifest is sent. Each
of these requests changes the object's state. So a request names only the first of them, and the
same function makes the next request from the reply. ``cluster/requests.py`` makes HTTP of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from applyprune.model.fieldset import Writer
from applyprune.model.options import Propagation
from applyprune.model.plan import (
    CREATE_ONLY,
    NO_MIGRATION,
    ApplyRequest,
    DeleteRequest,
    Migration,
    PatchRequest,
    Precondition,
)
from applyprune.planning.applyset import OWNED_BY, PART_OF, WANTED, ApplySetIdentity
from applyprune.planning.comparison import renamed
from applyprune.planning.conflicts import forces
from applyprune.planning.managed_fields import (
    NO_REMOVALS,
    FieldRemovals,
    before_removal,
    claim_patch,
    dead_versions,
    has_migration,
    identity_body,
    is_contested,
    manager_by_label,
    mark_patch,
    marked_writers,
    may_remove,
    migrate_patch,
    orphan_patch,
    removals,
    remove_manager_patch,
    renamed_writers,
    settle_patch,
    split_fields,
    transfer_patch,
    unlabel_patch,
    version_patch,
    with_contested,
    with_live_values,
    yield_steps,
)
from applyprune.planning.normalize import body_to_send
from applyprune.planning.ownership import has_witness, is_last_applied
from applyprune.values import packed, replace

if TYPE_CHECKING:
    from applyprune.model.identity import Ref
    from applyprune.model.inventory import InventoryEntry
    from applyprune.model.live import LiveObject, Resource
    from applyprune.model.options import Options
    from applyprune.model.plan import ApplyStep, Desired


def apply_request(
    desired: Desired,
    live: LiveObject | None,
    applyset: ApplySetIdentity,
    options: Options,
    *,
    migration: Migration = NO_MIGRATION,
    fence: bool = False,
    reverts: bool = False,
    owns: bool | None = None,
) -> ApplyRequest:
    """Return the request that applies a manifest to an object in the state ``live``.

    ``reverts`` says that it reverts drift, and that force takes nothing else.
    ``migration`` says which fields become ours first. ``fence`` says that a delete
    of an interrupted run may still be on its way. ``owns`` says whether the object gets the
    annotation of ownership; None for: if it is created, or has it already. If ``before`` of the
    request is set, send that first, and call this again with the state in its reply. ``live`` must
    be read in full if ``needs_body`` says so.
    """
    by_user = forces(desired, live, options, applyset)
    force = reverts or by_user
    if live is None:
        body = desired.body if owns is False else _witnessed(desired.body, applyset)
        return ApplyRequest(
            desired.resource, desired.ref, packed(body), applyset.manager, force, CREATE_ONLY
        )
    found = removals(desired, live, applyset, force=by_user)
    # The force that reverts drift would also empty what null contests.
    force = by_user or (reverts and not found.contested)  # guard: drift-beside-null
    uid = live.uid  # guard: apply-uid
    version = live.resource_version if force else ""  # guard: forced-apply-version
    guard = Precondition(uid, version)
    body = _body(desired, live, applyset, found)
    before = _before(desired, live, applyset, migration, found)
    if before is None and fence:
        before = _fencing(desired, live, body, applyset, guard, force=force)
    return ApplyRequest(
        desired.resource,
        desired.ref,
        packed(_witnessed(body, applyset) if owns else body),
        applyset.manager,
        force,
        guard,
        before,
        removes=bool(found.nulls),
    )


def needs_body(
    desired: Desired,
    live: LiveObject,
    applyset: ApplySetIdentity,
    entry: InventoryEntry | None = None,
) -> bool:
    """Return whether the request for an object can only be made from its values."""
    is_applied = entry is not None and is_last_applied(desired, entry, live, applyset.manager)
    return bool(
        split_fields(desired, live)
        or yield_steps(desired, live, applyset).fields
        or (may_remove(desired) and not is_applied)
        or is_contested(desired, live, applyset.manager)
    )


def takes_over(
    desired: Desired, live: LiveObject, applyset: ApplySetIdentity, migration: Migration
) -> bool:
    """Return whether fields or the label of others become ours before the apply."""
    return _has_other_label(live, applyset) or has_migration(
        live, migration, desired.packed, applyset.manager
    )


def dry_run_request(step: ApplyStep, applyset: ApplySetIdentity) -> ApplyRequest:
    """Return the request whose dry run shows the result of a step; its ``request`` is set.

    A dry run cannot move fields to another owner first. So it sends the fields that the step leaves
    to others with their live values.
    """
    request, live = step.request, step.live
    if request is None:
        raise ValueError(f"nothing is sent for {step.desired.ref}")
    body = request.body
    if live is not None and (fields := yield_steps(step.desired, live, applyset).fields):
        body = with_live_values(live, body, fields)
    body = before_removal(body, planned_removals(step, applyset))
    return replace(request, packed=packed(body), before=None)


def planned_removals(step: ApplyStep, applyset: ApplySetIdentity) -> FieldRemovals:
    """Return what a step removes from its object before the apply, or by it."""
    if step.live is None or step.request is None:
        return NO_REMOVALS
    # Where drift is reverted, the user has not forced anything.
    force = step.request.force and not step.reverts
    return removals(step.desired, step.live, applyset, force=force)


def forced(request: ApplyRequest) -> ApplyRequest:
    """Return a request for a dry run in which the fields that change hands cause no conflict."""
    return replace(request, force=True)


def trial_request(
    desired: Desired, applyset: ApplySetIdentity, *, name: str, namespace: str
) -> ApplyRequest:
    """Return the request that creates an object under another name; only for a dry run."""
    ref: Ref = replace(desired.ref, name=name, namespace=namespace)
    sent_first = _witnessed(desired.body, applyset)
    body: Mapping[str, Any] = renamed(sent_first, name=name, namespace=namespace)
    return ApplyRequest(
        desired.resource, ref, packed(body), applyset.manager, precondition=CREATE_ONLY
    )


def _body(
    desired: Desired, live: LiveObject, applyset: ApplySetIdentity, found: FieldRemovals
) -> Mapping[str, Any]:
    """Return the body to send for an existing object; without its annotation, it would lose it."""
    body = with_contested(body_to_send(desired), found)
    return _witnessed(body, applyset) if has_witness(live, applyset) else body


def _before(
    desired: Desired,
    live: LiveObject,
    applyset: ApplySetIdentity,
    migration: Migration,
    found: FieldRemovals,
) -> PatchRequest | ApplyRequest | None:
    """Return the first request that must precede the apply; None if none has to."""
    resource, ref = desired.resource, desired.ref
    if dead := dead_versions(live, desired.versions):
        patch = version_patch(live, dead, resource.gvk.api_version)
        return PatchRequest(resource, ref, patch)
    if (moving := _moving(desired, live, applyset, migration)) is not None:
        return moving
    if found:
        patch = claim_patch(
            live,
            (*found.nulls, *found.defaults),
            manager=applyset.manager,
            api_version=resource.gvk.api_version,
        )
        return PatchRequest(resource, ref, patch, claims=True)
    return None


def _moving(
    desired: Desired, live: LiveObject, applyset: ApplySetIdentity, migration: Migration
) -> PatchRequest | ApplyRequest | None:
    """Return the first request that gives fields another owner; None if none has to."""
    resource, ref = desired.resource, desired.ref
    if _has_other_label(live, applyset):
        if old := manager_by_label(live):
            return transfer_request(resource, live, old=old, applyset=applyset, owned=False)
        return PatchRequest(resource, ref, unlabel_patch(live))
    if has_migration(live, migration, desired.packed, applyset.manager):
        patch = migrate_patch(
            live,
            migration,
            desired.packed,
            manager=applyset.manager,
            api_version=resource.gvk.api_version,
        )
        return PatchRequest(resource, ref, patch)
    todo = yield_steps(desired, live, applyset)
    if todo.release:
        return PatchRequest(resource, ref, remove_manager_patch(live, applyset.yielded))
    if todo.fields:  # guard: second-owner
        # The guards belong to the state that has these values.
        return ApplyRequest(
            resource,
            ref,
            packed(with_live_values(live, identity_body(desired), todo.fields)),
            applyset.yielded,
            precondition=Precondition(live.uid, live.resource_version),
        )
    return None


def _fencing(
    desired: Desired,
    live: LiveObject,
    body: Mapping[str, Any],
    applyset: ApplySetIdentity,
    guard: Precondition,
    *,
    force: bool,
) -> ApplyRequest | None:
    """Return the request that makes a delete fail which an interrupted run may have sent.

    A new resourceVersion makes that delete's precondition fail. A repeated apply alone would not
    change it. The apply that follows removes the annotation, which changes it once more.
    """
    if WANTED in live.annotations:
        return None
    return ApplyRequest(
        desired.resource,
        desired.ref,
        packed(_annotated(body, WANTED, live.resource_version)),
        applyset.manager,
        force,
        guard,
    )


def _annotated(body: Mapping[str, Any], name: str, text: str) -> Mapping[str, Any]:
    metadata = body["metadata"]
    annotations = {**(metadata.get("annotations") or {}), name: text}
    return {**body, "metadata": {**metadata, "annotations": annotations}}


def _witnessed(body: Mapping[str, Any], applyset: ApplySetIdentity) -> Mapping[str, Any]:
    """Return a body with the annotation that says that the set owns the object.

    It is only sent in a create-only request, for an object that has it already, or for an adoption
    as owned, which the user has asked for: what the inventory says never produces it.
    """
    return _annotated(body, OWNED_BY, applyset.id)


def _has_other_label(live: LiveObject, applyset: ApplySetIdentity) -> bool:
    return live.labels.get(PART_OF, applyset.id) != applyset.id


def delete_request(
    resource: Resource, live: LiveObject, propagation: Propagation = Propagation.BACKGROUND
) -> DeleteRequest:
    """Return the request that deletes exactly this object, in the state that was judged."""
    judged = Precondition(live.uid, live.resource_version)
    return DeleteRequest(resource, live.ref, judged, propagation)


def orphan_request(
    resource: Resource, live: LiveObject, applyset: ApplySetIdentity
) -> PatchRequest:
    """Return the request that removes the set's label and field manager from an object."""
    version = resource.gvk.api_version
    return PatchRequest(resource, live.ref, orphan_patch(live, applyset.manager, version))


def mark_request(
    resource: Resource, live: LiveObject, applyset: ApplySetIdentity, *, owned: bool
) -> PatchRequest:
    """Return the request that gives an object the set's label and field manager.

    With ``owned``, it also gets the annotation of ownership.
    """
    version = resource.gvk.api_version
    return PatchRequest(
        resource,
        live.ref,
        mark_patch(live, version, applyset, owned=owned),
        managers_after=[one.entry for one in marked_writers(live, version, applyset, owned=owned)],
    )


def transfer_request(
    resource: Resource, live: LiveObject, *, old: str, applyset: ApplySetIdentity, owned: bool
) -> PatchRequest:
    """Return the request that gives an object of the field manager ``old`` to another set.

    ``owned`` says that the other set owns the object as the old one did; otherwise it adopts it.
    """
    return PatchRequest(
        resource,
        live.ref,
        transfer_patch(live, old=old, new=applyset.manager, label=applyset.id, owned=owned),
        managers_after=[one.entry for one in renamed_writers(live, old, applyset.manager)],
    )


def settle_request(request: PatchRequest, after: LiveObject) -> PatchRequest | None:
    """Return the patch that follows another one, by the state in its reply; None if none does."""
    if request.managers_after is None:
        return None
    writers = [*map(Writer, request.managers_after)]
    return PatchRequest(request.resource, request.ref, settle_patch(after, writers))
