"""Make the requests for the objects of a plan, as values: only here is decided what is sent.

Some applies need other requests first: fields must change hands before the manifest is sent. Each
of these requests changes the object's state. So a request names only the first of them, and the
same function makes the next request from the reply. ``cluster/requests.py`` makes HTTP of them.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from applyprune.model.fieldset import FieldSet, Path, Writer, without_fields
from applyprune.model.inventory import Ownership
from applyprune.model.options import Propagation
from applyprune.model.plan import (
    CREATE_ONLY,
    ApplyRequest,
    DeleteRequest,
    Migration,
    PatchRequest,
    Precondition,
)
from applyprune.planning.applyset import (
    LAST_APPLIED,
    OWNED_BY,
    PART_OF,
    TOOL,
    WANTED,
    ApplySetIdentity,
    yielded_manager,
)
from applyprune.planning.comparison import renamed
from applyprune.planning.conflicts import forces
from applyprune.planning.managed_fields import (
    FORMER,
    NO_REMOVALS,
    OWN_MARKS,
    WITNESS,
    FieldRemovals,
    YieldSteps,
    as_stored,
    dead_versions,
    going_marks,
    has_migration,
    manager_by_label,
    may_remove,
    own_fields,
    own_writer,
    recorded_fields,
    removals,
    rewritten_writers,
    split_fields,
    taken,
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
    from applyprune.values import Packed


def apply_request(
    step: ApplyStep, applyset: ApplySetIdentity, options: Options, *, reverts: bool = False
) -> ApplyRequest:
    """Return the request that applies the manifest of a step to its object.

    ``reverts`` says that it reverts drift, and that force takes nothing else. If ``before`` of the
    request is set, send that first, and call this again with the state in its reply. The object
    must be read in full if ``needs_body`` says so.
    """
    desired, live = step.desired, step.live
    resource, ref, manager = desired.resource, desired.ref, applyset.manager
    by_user = forces(desired, live, options, applyset)
    if live is None:
        owned = step.entry.ownership is Ownership.OWNED
        body = _witnessed(desired.body, applyset) if owned else desired.body
        return ApplyRequest(resource, ref, packed(body), manager, reverts or by_user, CREATE_ONLY)
    found = removals(desired, live, applyset, force=by_user)
    force = by_user or reverts
    uid = live.uid  # guard: apply-uid -> ""
    todo = yield_steps(desired, live, applyset)
    relies = todo.relies_on_others  # guard: relied-on-version -> False
    version = live.resource_version if force or relies else ""  # guard: forced-apply-version -> ""
    guard = Precondition(uid, version)
    body = body_to_send(desired)
    if has_witness(live, applyset):  # without its annotation, it would lose it
        body = _witnessed(body, applyset)
    before = _before(step, live, applyset, todo, found)
    if before is None and step.fence and WANTED not in live.annotations:
        # A new resourceVersion makes the precondition of that delete fail. A repeated apply alone
        # would not change it; the apply that follows, without the annotation, does once more.
        fencing = packed(_annotated(body, WANTED, live.resource_version))
        before = ApplyRequest(resource, ref, fencing, manager, force, guard)
    whole = packed(_witnessed(body, applyset) if step.becomes_owned else body)
    removes = bool(found.of_others)
    return ApplyRequest(resource, ref, whole, manager, force, guard, before, removes=removes)


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
        or (not is_applied and may_remove(desired))
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
    # The server refuses these while the defaults are still there.
    body = without_fields(body, planned_removals(step, applyset).members)
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
    body = renamed(_witnessed(desired.body, applyset), name=name, namespace=namespace)
    manager = applyset.manager
    return ApplyRequest(desired.resource, ref, packed(body), manager, precondition=CREATE_ONLY)


_LONGEST_START = 40
"""Of a name: with what follows, it fits where the server asks for a DNS label."""


def unused_name(name: str) -> str:
    """Return a name that no object has; only for a dry run."""
    return f"{name[:_LONGEST_START].rstrip('-.')}-{uuid.uuid4().hex[:8]}"


def _before(
    step: ApplyStep,
    live: LiveObject,
    applyset: ApplySetIdentity,
    todo: YieldSteps,
    found: FieldRemovals,
) -> PatchRequest | ApplyRequest | None:
    """Return the first request that must precede the apply; None if none has to."""
    desired, migration = step.desired, step.migration
    resource, manager = desired.resource, applyset.manager
    if dead := dead_versions(live, desired.versions):
        return version_request(resource, live, dead)
    if _has_other_label(live, applyset):
        if old := manager_by_label(live):
            owned = step.becomes_owned  # guard: owned-at-once -> False
            return transfer_request(resource, live, old=old, applyset=applyset, owned=owned)
        return unlabel_request(resource, live)
    if has_migration(live, migration, desired.packed, manager):
        return migrate_request(resource, live, migration, desired.packed, manager)
    if todo.release:
        return remove_manager_request(resource, live, applyset.yielded)
    if todo.fields:  # guard: second-owner never
        # The guards belong to the state that has these values.
        names = {"name": live.ref.name, "namespace": live.ref.namespace}
        metadata = {key: text for key, text in names.items() if text}
        kind = {"apiVersion": resource.gvk.api_version, "kind": resource.kind}
        named = {**kind, "metadata": metadata}
        body = packed(with_live_values(live, named, todo.fields))
        guard = Precondition(live.uid, live.resource_version)
        return ApplyRequest(resource, desired.ref, body, applyset.yielded, precondition=guard)
    return _claim(resource, live, (*found.of_others, *found.defaults), manager) if found else None


def _annotated(body: Mapping[str, Any], name: str, text: str) -> Mapping[str, Any]:
    metadata = body["metadata"]
    annotations = {**(metadata.get("annotations") or {}), name: text}
    return {**body, "metadata": {**metadata, "annotations": annotations}}


def _witnessed(body: Mapping[str, Any], applyset: ApplySetIdentity) -> Mapping[str, Any]:
    """Return a body with the annotation that says that the set owns the object.

    It is only sent in a create-only request, for an object that has it already, or for an adoption
    as owned, which the user has asked for: what the inventory has said never produces it.
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


# The patches of labels, annotations and managedFields. There is no other way to remove a manager:
# the server removes the fields that only we own when an apply of ours leaves them out.


_LABEL = FieldSet.of(("metadata", "labels", PART_OF))
# Nobody sets this annotation, so that no apply conflicts with the manager that owns it.
_FORMER_FIELDS = FieldSet.of(("metadata", "annotations", "applyprune.dev/orphaned"))


def orphan_request(
    resource: Resource, live: LiveObject, applyset: ApplySetIdentity
) -> PatchRequest:
    """Return the request that removes the set's label, annotation and managers from an object.

    At least one entry stays in managedFields. The server books the fields of an object without any
    to ``before-first-apply``, and then the next apply conflicts with that, whoever sends it.
    """
    ours = (applyset.manager, applyset.yielded)
    writers = [one for one in live.writers if one.manager not in ours]
    if not writers:  # guard: parting-entry never
        writers = [_writer(FORMER, "Update", resource.gvk.api_version, _FORMER_FIELDS)]
    labels, annotations = _but(live.labels, PART_OF), _but(live.annotations, OWNED_BY)
    return _patch(resource, live, labels=labels, annotations=annotations, writers=writers)


def mark_request(
    resource: Resource, live: LiveObject, applyset: ApplySetIdentity, *, owned: bool
) -> PatchRequest:
    """Return the request that gives an object the set's label and field manager.

    The field manager gets an Apply entry that owns the label. With ``owned``, it also gets the
    annotation of ownership.
    """
    ours, annotations = own_writer(live, applyset.manager), live.annotations
    marked = ours or _writer(applyset.manager, "Apply", resource.gvk.api_version, _LABEL)
    if owned:
        marked = marked.with_fields(marked.fields | FieldSet.of(WITNESS))
        annotations = {**annotations, OWNED_BY: applyset.id}
    writers = [marked if one == ours else one for one in live.writers]
    if ours is None:
        writers.append(marked)
    return _labelled(resource, live, applyset, annotations, writers)


def transfer_request(
    resource: Resource,
    live: LiveObject,
    *,
    old: str,
    applyset: ApplySetIdentity,
    owned: bool = False,
) -> PatchRequest:
    """Return the request that gives an object of the field manager ``old`` to another set.

    With ``owned``, it also gets that set's annotation of ownership: the run may end before the
    apply that follows.
    """
    annotations = _but(live.annotations, OWNED_BY)
    if owned:
        annotations = {**annotations, OWNED_BY: applyset.id}
    # An interrupted transfer has left the marks with the name of the program.
    marks = FieldSet.of(*OWN_MARKS) if owned else FieldSet()
    # The transferred fields include those that the new manager already had.
    names = {old: applyset.manager, yielded_manager(old): applyset.yielded}
    writers = []
    for one in live.writers:
        if one.manager in names:
            fields = one.fields | marks if one == own_writer(live, old) else one.fields
            entry = {**one.entry, "manager": names[one.manager]}
            writers.append(Writer(entry).with_fields(fields))
        elif one.manager not in names.values():
            writers.append(one)
    return _labelled(resource, live, applyset, annotations, writers)


def _labelled(
    resource: Resource,
    live: LiveObject,
    applyset: ApplySetIdentity,
    annotations: Mapping[str, str],
    writers: Sequence[Writer],
) -> PatchRequest:
    """Return the request that sets these, and a set's label, which needs a second patch."""
    labels = {**live.labels, PART_OF: applyset.id}
    patch = _patch(resource, live, labels=labels, annotations=annotations, writers=writers)
    return replace(patch, managers_after=[one.entry for one in _settled(writers)])


def _settled(writers: Iterable[Writer]) -> Iterator[Writer]:
    """Yield entries without what the first of two patches of an interrupted run has left.

    The server has booked the marks to the name of the program.
    """
    for one in writers:
        if one.manager != TOOL:
            yield one
        elif left := one.fields.without(*OWN_MARKS):
            yield one.with_fields(left)


def settle_request(request: PatchRequest, after: LiveObject) -> PatchRequest | None:
    """Return the patch that follows another one, by the state in its reply; None if none does."""
    if request.managers_after is None:
        return None
    return _patch(request.resource, after, writers=map(Writer, request.managers_after))


def unlabel_request(resource: Resource, live: LiveObject) -> PatchRequest:
    """Return the request that removes a set's label that another tool owns.

    Otherwise every take-over would end in a conflict about the label.
    """
    return _patch(resource, live, labels=_but(live.labels, PART_OF))


def remove_manager_request(resource: Resource, live: LiveObject, manager: str) -> PatchRequest:
    """Return the request that removes a field manager; its fields keep their values."""
    writers = [one for one in live.writers if one.manager != manager]
    # A list with one empty entry clears managedFields; the server ignores an empty list.
    return _patch(resource, live, writers=writers or [Writer({})])


def migrate_request(
    resource: Resource, live: LiveObject, migration: Migration, body: Packed, manager: str
) -> PatchRequest:
    """Return the request that gives a manager its fields; kubectl's annotation goes with them.

    If it has none, its entry owns the set's label. The apply that follows sets the label, so it
    conflicts with nobody.
    """
    ours, fields = own_writer(live, manager), own_fields(live, manager)
    version = resource.gvk.api_version
    if ours is None and migration.restores and migration.last is not None:
        fields, version = recorded_fields(migration), migration.last.api_version
    others: list[Writer] = []
    for one in live.writers:
        if one == ours:
            continue
        if not (part := taken(one, migration, body)):
            others.append(one)
        elif left := one.fields - part:
            others.append(one.with_fields(left))
        fields |= as_stored(part, live.ref.group_kind)
    fields |= going_marks(migration, body)  # nobody may own them
    writers = [*others, _writer(manager, "Apply", version, fields or _LABEL)]
    annotations = _but(live.annotations, LAST_APPLIED) if migration.whole else live.annotations
    return _patch(resource, live, annotations=annotations, writers=writers)


def _claim(
    resource: Resource, live: LiveObject, paths: Sequence[Path], manager: str
) -> PatchRequest:
    """Return the request that gives a manager some fields; no value changes."""
    ours = own_writer(live, manager)
    others: list[Writer] = []
    for one in live.writers:
        if one == ours:
            continue
        if not any(path in one.fields for path in paths):
            others.append(one)
        elif left := one.fields.without(*paths):
            others.append(one.with_fields(left))
    entry = ours or _writer(manager, "Apply", resource.gvk.api_version, _LABEL)
    entry = entry.with_fields(entry.fields | FieldSet.of(*paths))
    return replace(_patch(resource, live, writers=[*others, entry]), claims=True)


def version_request(resource: Resource, live: LiveObject, dead: Collection[str]) -> PatchRequest:
    """Return the request that rewrites API versions in managedFields; nothing else changes."""
    return _patch(resource, live, writers=rewritten_writers(live, dead, resource.gvk.api_version))


def _patch(
    resource: Resource,
    live: LiveObject,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    writers: Iterable[Writer] | None = None,
) -> PatchRequest:
    """Return the request that changes these of an object, in the state in which it was read."""
    # Imported here: most runs never edit managedFields.
    from jsonpatch import make_patch

    managers = [one.entry for one in (live.writers if writers is None else writers)]
    parts = {
        "labels": (live.labels, live.labels if labels is None else labels),
        "annotations": (live.annotations, live.annotations if annotations is None else annotations),
        "managedFields": ([one.entry for one in live.writers], managers),
    }
    # The server omits empty maps, so a patch cannot change a part of an empty map.
    was, will = ({key: both[at] for key, both in parts.items() if both[at]} for at in (0, 1))
    operations = [
        {"op": "test", "path": "/metadata/uid", "value": live.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": live.resource_version},
        *make_patch({"metadata": was}, {"metadata": will}).patch,
    ]
    return PatchRequest(resource, live.ref, operations)


def _but(texts: Mapping[str, str], name: str) -> Mapping[str, str]:
    """Return labels or annotations without one."""
    return {key: text for key, text in texts.items() if key != name}


def _writer(manager: str, operation: str, api_version: str, fields: FieldSet) -> Writer:
    entry = {"manager": manager, "operation": operation, "apiVersion": api_version}
    return Writer({**entry, "fieldsType": "FieldsV1"}).with_fields(fields)


# The requests of an import. Each is only sent as a dry run, so the field manager owns nothing.


_IMPORT = "applyprune-import"


def creation_trial(resource: Resource, ref: Ref, body: Mapping[str, Any]) -> ApplyRequest:
    """Return the request that creates an object under a name that no object has."""
    name = unused_name(ref.name)
    sent = packed(renamed(body, name=name, namespace=ref.namespace))
    other: Ref = replace(ref, name=name)
    return ApplyRequest(resource, other, sent, _IMPORT, precondition=CREATE_ONLY)


def apply_trial(
    resource: Resource, live: LiveObject, body: Mapping[str, Any], *, force: bool
) -> ApplyRequest:
    """Return the request that applies a manifest to the live object itself."""
    guard = Precondition(live.uid)
    return ApplyRequest(resource, live.ref, packed(body), _IMPORT, force=force, precondition=guard)
