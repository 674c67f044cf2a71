"""Whose an object is: the set's, another set's, another tool's or nobody's.

Ownership is proved by the UID and by what was applied last, never by a name: the owner follows from
the object's label, managedFields and UID, compared with the inventory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from applyprune.errors import RunFailed
from applyprune.model.fate import Fate
from applyprune.model.fieldset import (
    MISSING,
    FieldSet,
    Path,
    Writer,
    from_pointer,
    is_under,
    list_item,
    to_server,
    value_at,
    without_fields,
)
from applyprune.model.identity import GVK, Ref, kubectl_name
from applyprune.model.inventory import ApplyFingerprint, InventoryEntry, Ownership
from applyprune.model.kinds import SECRET, Trait, kinds_with
from applyprune.model.live import LiveObject
from applyprune.model.plan import ApplyStep, Desired
from applyprune.model.problem import Origin, Problem
from applyprune.model.text import is_dns_label
from applyprune.planning.applyset import (
    OWNED_BY,
    PART_OF,
    TOOL,
    ApplySetIdentity,
    set_of,
)
from applyprune.planning.managed_fields import (
    APPLIED_METADATA,
    BEFORE_FIRST_APPLY,
    FORMER,
    UNKNOWN,
    WITNESS,
    is_applied,
    manager_by_label,
    other_writers,
    own_apply_digest,
    own_fields,
    own_writer,
    removals,
    taken,
)
from applyprune.planning.marks import IGNORE_FIELDS, OwnerMark, owner_marks, owner_named
from applyprune.planning.normalize import (
    CA_BUNDLE,
    body_to_send,
    canonical_text,
    manifest_digest,
    may_be_secret,
    split_pointers,
)
from applyprune.planning.secrets import HIDDEN
from applyprune.planning.uids import is_among, uid_in

if TYPE_CHECKING:
    from applyprune.model.inventory import Inventory


class Owner(StrEnum):
    """The owner of a live object from the view of one set."""

    RECORDED = "recorded"
    """It is the object of the inventory entry."""
    CLAIMED = "claimed"
    """It has our label and our manager's Apply entry, but no inventory entry."""
    NOBODY = "nobody"
    """It has no set's label and no inventory entry."""
    OTHER = "other"
    """It has another set's label."""


def owner_of(live: LiveObject, entry: InventoryEntry | None, applyset: ApplySetIdentity) -> Owner:
    """Return the owner of a live object.

    A label alone proves nothing: controllers copy labels to objects that they create (such as the
    Endpoints of a Service), but these never have our manager's Apply entry. An entry without a UID
    comes from the write before the apply. Then the object is ours if it did not exist before and
    now has our label and field manager, or if its UID is that from before the apply.
    """
    if foreign_label(live, applyset):
        return Owner.OTHER
    marked = is_marked(live, applyset)
    if entry is not None:
        uid = entry.uid or entry.uid_before_apply
        if marked if uid is None else uid == live.uid:
            return Owner.RECORDED
    return Owner.CLAIMED if marked else Owner.NOBODY


def owner_to_apply(
    live: LiveObject, entry: InventoryEntry | None, applyset: ApplySetIdentity
) -> Owner:
    """Return the owner of an object of the input.

    A record alone makes nothing ours: an object with neither label nor field manager is adopted.
    """
    owner = owner_of(live, entry, applyset)
    is_ours = PART_OF in live.labels or is_applied(live, applyset.manager)
    # guard: record-adopts-nothing -> owner is Owner.RECORDED and False
    if owner is Owner.RECORDED and not is_ours:
        return Owner.NOBODY
    return owner


def ownership_of(entry: InventoryEntry, live: LiveObject, applyset: ApplySetIdentity) -> Ownership:
    """Return whether a set owns an object: the inventory and the object itself must both say so.

    Whoever may edit the inventory's ConfigMap cannot make the set own an object.
    """
    owned = entry.ownership is Ownership.OWNED and has_witness(live, applyset)
    return Ownership.OWNED if owned else Ownership.ADOPTED


def has_witness(live: LiveObject, applyset: ApplySetIdentity) -> bool:
    """Return whether an object has the annotation that says that the set created it.

    Only the set's own Apply entry makes it count: controllers copy annotations to what they create.
    Between the two patches by which a set takes an object, the entry of these patches has it.
    """
    if live.annotations.get(OWNED_BY) != applyset.id:
        return False
    ours = own_writer(live, applyset.manager)
    if ours is None or ours.fields.names(WITNESS):
        return ours is not None
    # A patch has no field manager of its own: the server takes the name of the program.
    # guard: witness-of-a-patch -> True
    return any(one.manager == TOOL and one.fields.names(WITNESS) for one in live.writers)


def is_marked(live: LiveObject, applyset: ApplySetIdentity) -> bool:
    """Return whether an object has the set's label and its field manager's Apply entry."""
    return live.labels.get(PART_OF) == applyset.id and is_applied(live, applyset.manager)


def other_set(live: LiveObject) -> str:
    """Return the set whose label an object has, as ``web in namespace shop``; empty if unknown.

    The name comes from the field manager that belongs to the label.
    """
    namespace, name = place_of_set(live)
    return f"{name} in namespace {namespace}" if name else ""


def namespace_of_set(live: LiveObject) -> str:
    """Return the namespace of the set whose label an object has; empty if unknown."""
    return place_of_set(live)[0]


def place_of_set(live: LiveObject) -> tuple[str, str]:
    label = live.labels.get(PART_OF, "")
    for one in live.writers if label else ():
        if set_of(one.manager) == label and one.manager.count("/") > 1:
            _, namespace, name = one.manager.split("/")
            # Anybody may write any name; a message has it in a command.
            if is_dns_label(namespace) and is_dns_label(name):  # guard: named-set always
                return namespace, name
    return "", ""


def foreign_owner(
    live: LiveObject, manager: str, but: Collection[tuple[Ref, str]] = frozenset()
) -> str:
    """Return the owner that somebody else has set on an object, as ``Kind/name``; empty if none.

    By KEP-3659, a prune does not delete such an object. ``but`` are owners that do not count, each
    with its UID.
    """
    for owner in _foreign_owners(live, manager):
        if _found_in(owner, live, but) is None:
            return f"{owner.get('kind')}/{owner.get('name')}"
    return ""


def owners_among(
    live: LiveObject, manager: str, objects: Collection[tuple[Ref, str]]
) -> tuple[Ref, ...]:
    """Return those of some objects, each with its UID, that somebody else has made its owners."""
    owners = _foreign_owners(live, manager) if objects else ()
    found = (_found_in(owner, live, objects) for owner in owners)
    return tuple(ref for ref in found if ref is not None)


def _foreign_owners(live: LiveObject, manager: str) -> Iterator[Mapping[str, Any]]:
    """Yield the ownerReferences that are not ours by managedFields, as those of a manifest are."""
    ours = own_fields(live, manager)
    for owner in live.metadata.get("ownerReferences") or ():
        if not ours.names(("metadata", "ownerReferences", list_item({"uid": owner.get("uid")}))):
            yield owner


def _found_in(
    owner: Mapping[str, Any], live: LiveObject, objects: Collection[tuple[Ref, str]]
) -> Ref | None:
    """Return which of some objects an ownerReference names; a UID alone does not name one."""
    if not objects:
        return None
    kind = GVK.parse(str(owner.get("apiVersion")), str(owner.get("kind"))).group_kind
    for namespace in dict.fromkeys((live.ref.namespace, "")):
        ref = Ref(kind.group, kind.kind, namespace, str(owner.get("name")))
        if (ref, owner.get("uid")) in objects:  # guard: owner-of-the-set always
            return ref
    return None


# Whether another apply of a manifest would change nothing.
#
# The API server changes our manager's managedFields entry whenever somebody else changes or removes
# a field that we own. It does not change the entry for foreign fields and status. The entry has
# paths, not values. So an equal entry is sufficient only together with an equal generation (every
# change of a spec increments it) and equal labels and annotations (which do not affect it), or
# together with all live values, or with an equal resourceVersion. An equal resourceVersion is not
# sufficient alone: whoever may edit the inventory may write any into it.


FIXED_GENERATION = kinds_with(Trait.FIXED_GENERATION)


def unchanged(
    desired: Desired, entry: InventoryEntry, live: LiveObject, *, manager: str, schema: int | None
) -> bool:
    """Return whether another apply of the manifest would change nothing.

    ``schema`` is the CRD's generation for a custom resource (a new schema changes what is read
    without a change of the object), and None for any other kind. In doubt, return False: a repeated
    apply is harmless.
    """
    recorded = entry.fingerprint
    if recorded is None or recorded.schema != schema or live.terminating:
        return False
    if not is_last_applied(desired, entry, live, manager):  # guard: own-apply-entry never
        return False
    if needs_values(desired, entry, live):
        if live.body is None:
            return False
        # What admission has rewritten stays as it was rewritten: no write would change that.
        if entry.stored and applied_digest(live, manager) == entry.stored:
            return True
        return values_match(desired, live)
    return recorded.resource_version == live.resource_version or values_match(desired, live)


def needs_values(desired: Desired, entry: InventoryEntry, live: LiveObject) -> bool:
    """Return whether only the live values can show that nothing has changed.

    This is so for every Secret (no digest of its values is stored). It is also so after a change of
    the resourceVersion, if the generation has changed too, if the kind has no usable generation, or
    if the server has stored other metadata than was sent.
    """
    recorded = entry.fingerprint
    if entry.digest != desired.digest or recorded is None or entry.uid != live.uid:
        return False
    is_mentioned = desired.ref.group_kind == SECRET or desired.packed.mentions("stringData")
    if is_mentioned and may_be_secret(desired.body):
        return True
    if recorded.resource_version == live.resource_version:
        return False
    is_counted = desired.ref.group_kind not in FIXED_GENERATION and live.generation is not None
    if not is_counted or live.generation != recorded.generation:
        return True
    return bool(entry.stored) and not values_match(desired, live)


def values_match(desired: Desired, live: LiveObject) -> bool:
    """Return whether the live object has the values that we send, as far as it was read.

    If the object was not read in full, compare the metadata; others may have added to our lists.
    """
    body = body_to_send(desired)
    if live.body is not None:
        return has_values(body, live.body)
    wanted = body["metadata"]
    # A change of these does not affect the generation.
    parts = (key for key in APPLIED_METADATA if wanted.get(key))
    return all(_includes(wanted[key], live.metadata.get(key)) for key in parts)


def _includes(wanted: object, live: object) -> bool:
    if isinstance(wanted, list):
        there = live if isinstance(live, list) else []
        return all(any(has_values(item, other) for other in there) for item in wanted)
    return has_values(wanted, live)


def has_values(wanted: object, live: object) -> bool:
    """Return whether the live object has every value of the manifest; compare lists item by item.

    Fields that are only in the live object are ignored. A list of another length or order is a
    difference, and also a value that the server has rewritten: then the manifest is sent.
    """
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(
            key in live and has_values(value, live[key]) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(live, list)
            and len(wanted) == len(live)
            and all(has_values(item, other) for item, other in zip(wanted, live, strict=True))
        )
    return type(wanted) is type(live) and wanted == live


def is_last_applied(
    desired: Desired, entry: InventoryEntry, live: LiveObject, manager: str
) -> bool:
    """Return whether our last confirmed apply sent this manifest, and still owns what it owned."""
    recorded = entry.fingerprint
    return (
        recorded is not None
        and entry.digest == desired.digest
        and entry.uid == live.uid
        and same_apply_entry(recorded, live, manager)
    )


def same_apply_entry(recorded: ApplyFingerprint, live: LiveObject, manager: str) -> bool:
    """Return whether our manager's Apply entry is unchanged since the last apply."""
    return own_apply_digest(live, manager) == (recorded.managed_fields, recorded.time)


def fingerprint_of(live: LiveObject, manager: str, schema: int | None) -> ApplyFingerprint | None:
    """Return the fingerprint of a confirmed apply; None if our managedFields entry is missing."""
    mark = own_apply_digest(live, manager)
    if mark is None:
        return None
    return ApplyFingerprint(live.resource_version, live.generation, *mark, schema)


def owned_fields_of(live: LiveObject, manager: str) -> str:
    """Return the fields that our Apply entry owns, as the inventory records them; empty if none."""
    ours = own_writer(live, manager)
    return "" if ours is None else canonical_text(ours.fields.fields_v1)


def applied_digest(live: LiveObject, manager: str) -> str:
    """Return the digest of the values of the fields that we own, as the digest of a manifest.

    ``live`` is read in full.
    """
    ours = own_writer(live, manager) or Writer({})
    return digest_of_fields(live, ours.fields, ours.entry.get("apiVersion"))


def digest_of_fields(live: LiveObject, fields: FieldSet, api_version: object) -> str:
    """Return the digest of the values of some fields, as the digest of a manifest."""
    # No manifest has the annotation of ownership.
    owned = without_fields(fields.part_of(live.body), [WITNESS])
    named = {key: live.metadata[key] for key in ("name", "namespace") if key in live.metadata}
    values = {
        **owned,
        "apiVersion": api_version,
        "kind": live.ref.kind,
        "metadata": {**owned.get("metadata", {}), **named},
    }
    return manifest_digest(values)


# Whether another tool manages an object.
#
# People migrate from one tool to another: the new tool applies the object, then it leaves the input
# of the old one. A prune must not delete it then. Marks alone prove nothing, because they outlive
# their tools, and rendered charts carry Helm's. So a mark counts only if it was not there when the
# set took the object in, and is not the manifest's own, or if its manager has written the object
# since the set's last apply. An Apply entry counts if it has a field outside
# ``metadata`` and ``status``, whether the set has it too or not: somebody declares a part of the
# object. Who only labels an object does not, nor who fills in what is left to others.
#
# For an object that is not the set's own, a mark alone counts: the user can say that it is
# outdated.


def other_owner(entry: InventoryEntry, live: LiveObject, applyset: ApplySetIdentity) -> str:
    """Return which other tool manages an object, and what shows that; empty if none does."""
    recorded = entry.fingerprint.time if entry.fingerprint is not None else ""
    for mark, path, text in _owner_marks(live):
        shown = f"({mark.key}: {text or HIDDEN})"
        if f"{mark.key}={text}" not in entry.marks:
            return f"it now carries {mark.tool}'s mark {shown}, which this set did not write"
        times = (one.time for one in _others(live, applyset) if path in one.fields)
        if recorded and any(time > recorded for time in times):  # RFC 3339 in UTC
            return f"{mark.tool} has written it since the last apply {shown}"
    return other_applier(live, applyset)


def other_applier(
    live: LiveObject, applyset: ApplySetIdentity, *, but: Collection[str] = ()
) -> str:
    """Return which other manager applies fields of an object; empty if none does.

    ``but`` are managers that do not count.
    """
    own = own_fields(live, applyset.manager)
    found = ""
    for one in _others(live, applyset):
        if one.operation != "Apply" or one.manager in but:
            continue
        theirs = _substance(one, own, live)
        if shared := {path for path in theirs if not own or path in own}:
            first = min(map(to_server, shared))
            return f"{one.manager} applies it too ({first})"
        if theirs and not found:  # guard: applier-of-other-fields never
            found = f"{one.manager} applies a part of it ({min(map(to_server, theirs))})"
    return found


def _others(live: LiveObject, applyset: ApplySetIdentity) -> Iterator[Writer]:
    for one in other_writers(live, applyset.manager):
        if one.manager != applyset.manager and not one.subresource:
            yield one


def _substance(writer: Writer, own: FieldSet, live: LiveObject) -> set[Path]:
    """Return the fields of an entry that declare a part of an object; ``own`` are the set's.

    The rules of a ClusterRole that the set lets a controller collect declare nothing, nor does a
    ``caBundle``, or what the set's manifest ignores.
    """
    ignored: list[Path] = []
    if "aggregationRule" in own.below:
        ignored.append(("rules",))
    if ("metadata", "annotations", IGNORE_FIELDS) in own:
        for pointer in split_pointers(live.annotations.get(IGNORE_FIELDS, "")):
            with suppress(ValueError):  # anybody may have written it
                ignored.append(from_pointer(pointer))
    return {
        path
        for path in writer.fields.leaves()
        if path[0] not in {"metadata", "status"}
        and path[-1] != CA_BUNDLE
        and not any(is_under(path, above) for above in ignored)
    }


def owned_by_tool(live: LiveObject, applyset: ApplySetIdentity) -> str:
    """Return what of another tool owns an object: ``the Helm release web in namespace shop``.

    Marks that our own last apply has written do not count. Empty if nothing owns it.
    """
    return next(owning_tools(live, applyset.manager), "")


def owning_tools(live: LiveObject, manager: str) -> Iterator[str]:
    """Yield what of other tools owns an object, for each mark that this manager has not applied."""
    for mark, text in tool_marks(live, manager):
        named = owner_named(mark, text, live.labels, live.annotations)
        yield named if text else mark.named.format(HIDDEN)


def tool_marks(live: LiveObject, manager: str) -> Iterator[tuple[OwnerMark, str]]:
    """Yield the marks by which other tools own an object, without those of this manager's apply.

    Each comes with its value, which is empty for a Secret.
    """
    ours = own_fields(live, manager)
    for mark, path, text in _owner_marks(live):
        if path not in ours:
            yield mark, text


def marks_to_record(
    entry: InventoryEntry, live: LiveObject, applyset: ApplySetIdentity
) -> tuple[str, ...]:
    """Return the marks of an object after an apply that say of no other tool that it manages it.

    These are the manifest's own, and those that it had when the set took it in. ``entry`` is from
    before the apply.
    """
    ours, is_new = own_fields(live, applyset.manager), not entry.uid
    marks = ((f"{mark.key}={text}", path) for mark, path, text in _owner_marks(live))
    return tuple(
        recorded
        for recorded, path in marks
        # guard: mark-of-a-later-tool always
        if is_new or recorded in entry.marks or path in ours
    )


def _owner_marks(live: LiveObject) -> Iterator[tuple[OwnerMark, Path, str]]:
    """Yield the marks by which other tools own an object, each with its path and value.

    managedFields prove what anybody uses. Of a Secret, the value is empty: anybody may have copied
    a value of its data into an annotation.
    """
    secret = live.ref.group_kind == SECRET  # guard: mark-of-a-secret -> False
    for mark, text in owner_marks(live.labels, live.annotations):
        path = ("metadata", mark.part, mark.key)
        writers = (one.manager for one in live.writers if path in one.fields)
        # guard: label-of-anybody always
        if not mark.managers or not mark.managers.isdisjoint(writers):
            yield mark, path, "" if secret else text


# Whether an object with another set's label belongs to that set.
#
# Anybody who may change labels may write any label, and the name of a field manager is free text.
# So the label counts only if the inventory of the set that it names lists the UID of the object.
# Otherwise the object stays in our inventory, and the run reports it.


class OtherSet(Struct, frozen=True):
    """What is known of the set that a foreign label names."""

    applyset: ApplySetIdentity | None = None
    """None if there is no inventory with this id."""
    uids: frozenset[str] = frozenset()
    """What all objects that its inventory lists are known by."""
    owned: frozenset[str] = frozenset()
    """Those of them that it lists as owned."""
    offered: Mapping[str, str] = field(default_factory=dict)
    """To whom it offers some of them, by what they are known by."""
    is_read: bool = True
    """Whether it is known what the set lists."""
    owner: str = ""
    """The Bundle that it belongs to; empty if there is none."""

    @property
    def named(self) -> str:
        """Return its name, as ``web in namespace shop``; empty if there is no such set."""
        known = self.applyset
        return "" if known is None else f"{known.name} in namespace {known.namespace}"


UNREAD = OtherSet(is_read=False)
"""A set whose inventory could not be read."""


def other_set_in(inventory: Inventory | None) -> OtherSet:
    """Return the set of an inventory; ``inventory`` is None if none has the label's id.

    A copied or restored inventory may list what the set does not have any more.
    """
    if inventory is None:
        return OtherSet()
    applyset = ApplySetIdentity(inventory.name, inventory.namespace)
    if inventory.copied:
        return OtherSet(applyset, is_read=False)
    # An adoption is listed by the UID from before the apply until a reply has confirmed it.
    listed = {
        uid_in(ref.group, uid): entry
        for ref, entry in inventory.entries.items()
        if (uid := entry.uid or entry.uid_before_apply)
    }
    owned = {uid for uid, entry in listed.items() if entry.ownership is Ownership.OWNED}
    offered = {
        uid: entry.offered
        for uid, entry in listed.items()
        if entry.offered and not entry.deleting  # guard: offer-before-deletion -> entry.offered
    }
    return OtherSet(applyset, frozenset(listed), frozenset(owned), offered, owner=inventory.owner)


def is_label_unproven(
    entry: InventoryEntry,
    live: LiveObject,
    others: Mapping[str, OtherSet],
    applyset: ApplySetIdentity,
) -> bool:
    """Return whether an object of ours has the label of a set that is not known to list it.

    It is ours if it is the listed object, or still has our manager's Apply entry.
    """
    if not foreign_label(live, applyset) or is_listed_elsewhere(live, others):
        return False
    return entry.uid == live.uid or is_applied(live, applyset.manager)


def label_problem(
    entry: InventoryEntry,
    live: LiveObject,
    others: Mapping[str, OtherSet],
    applyset: ApplySetIdentity,
) -> Problem | None:
    """Return the problem of an object of ours with the label of a set that may not list it."""
    if not is_label_unproven(entry, live, others, applyset):
        return None
    label, ref = live.labels.get(PART_OF, ""), entry.ref
    # Not a hint: a Bundle says it too. A forged entry can name any object: nobody must be told to
    # label one that the set's field manager has not applied.
    check = f"applyprune inventory check {applyset.arguments}"
    what_to_do = f"The set's field manager has not applied it: see {check}"
    if is_applied(live, applyset.manager):
        fix = f"kubectl label --overwrite {kubectl_name(ref, '')} {PART_OF}={applyset.id}"
        what_to_do = f"To give it this set's label again: {fix}"
    return RunFailed(
        f"{ref} has the label of another set, which is not known to list it",
        reason=f"its label {PART_OF} is {label}, and {what_is_known(label, others)}. {what_to_do}",
    ).problem


def is_label_of_nobody(live: LiveObject, others: Mapping[str, OtherSet]) -> bool:
    """Return whether it is known that the set whose label an object has does not list it."""
    other = others.get(live.labels.get(PART_OF, ""), UNREAD)
    return other.is_read and not is_among(live, other.uids)


def is_listed_elsewhere(live: LiveObject, others: Mapping[str, OtherSet]) -> bool:
    """Return whether the set whose label an object has lists its UID."""
    other = others.get(live.labels.get(PART_OF, ""), UNREAD)
    return is_among(live, other.uids)  # guard: listed-elsewhere -> True


def foreign_label(live: LiveObject, applyset: ApplySetIdentity) -> str:
    """Return the label of another set that an object has; empty if it has none."""
    label = live.labels.get(PART_OF, "")
    return "" if label == applyset.id else label


def what_is_known(label: str, others: Mapping[str, OtherSet]) -> str:
    """Return in words why a foreign label proves nothing."""
    other = others.get(label, UNREAD)
    if not other.is_read:
        named = f"the inventory of {other.named}" if other.named else "the inventory of that set"
        return f"{named} could not be read, or is a copy"
    if not other.named:
        return "there is no inventory with this id"
    return f"the inventory of {other.named} does not list its UID"


# Why an existing object may not be applied: its name, its state, or its owner.


def name_error(
    ref: Ref, live: LiveObject, where: Origin | str = "", *, exists: bool = True
) -> RunFailed | None:
    """Return the error for an object whose metadata has another name; None if it has its own.

    ``exists`` is false if only a dry run shows it.
    """
    if not live.other_name:  # guard: other-name always
        return None
    will, hint = "would be", "Change the webhook, or the name in the manifest."
    if exists:
        will, remove = "was", f"kubectl delete {kubectl_name(ref, '')}, or prune it"
        hint = f"To remove it: {remove}. Before the next apply, change the webhook, or the name in "
        hint += "the manifest."
    return RunFailed(
        f"{ref} {will} created with the name {live.other_name}",
        location=where,
        reason="a mutating admission webhook has probably changed its name",
        hint=hint,
    )


# From whom an apply takes an object, or fields of it: a person must agree to that.


def taken_from(
    step: ApplyStep, owner: Owner, tool: str, applyset: ApplySetIdentity
) -> tuple[str, ...]:
    """Return who loses the object, or fields of it: field managers, and a set as ``the set web``.

    ``tool`` is what of another tool owns it.
    """
    live = step.live
    if live is None or step.request is None:
        return ()
    packed = step.desired.packed
    # Of a manager from which nothing is taken, the default rules leave all to it.
    names = {one.manager for one in live.writers if taken(one, step.migration, packed)}
    if owner is Owner.NOBODY:
        names |= {one.manager for one in live.writers if not one.subresource}
    elif owner is not Owner.OTHER:
        # The fields were ours before somebody cleared managedFields.
        names.discard(BEFORE_FIRST_APPLY)
    if step.request.force:
        names |= {manager for manager, _, _ in _lost_fields(step.desired, live)}
        names |= removed_from(step, live, applyset)
        is_same = live.body is not None and has_values(body_to_send(step.desired), live.body)
        if not (live.writers or is_same):
            names.add(UNKNOWN)  # guard: unknown-loses
    names -= {"", FORMER, applyset.manager, applyset.yielded}
    if owner is Owner.OTHER:
        named = other_set(live)
        names -= {manager_by_label(live)}
        names.add(f"the set {named}" if named else "another set")
    return tuple(sorted(names | ({tool} - {""})))


def removed_from(step: ApplyStep, live: LiveObject, applyset: ApplySetIdentity) -> frozenset[str]:
    """Return the managers that lose fields to a guarded patch, for the apply to remove them."""
    force = step.request is not None and step.request.force and not step.reverts
    found = removals(step.desired, live, applyset, force=force)
    return frozenset(
        one.manager
        for one in (other_writers(live, applyset.manager) if found.of_others else ())
        if any(one.fields.names(path) for path in found.of_others)
    )


def _lost_fields(desired: Desired, live: LiveObject) -> Iterator[tuple[str, Path, Any]]:
    """Yield each field that the manifest sets to another value, as far as known.

    That is its manager, path and value.
    """
    for one in live.writers:
        for path in one.fields.leaves():
            wanted = value_at(desired.body, path)
            value = MISSING if live.body is None else value_at(live.body, path)
            if wanted is not MISSING and value != wanted:
                yield one.manager, path, value


def takes_no_more(desired: Desired, before: LiveObject | None, now: LiveObject | None) -> bool:
    """Return whether force takes nothing from an object that it did not take from it ``before``.

    The same managers lose the same fields, or fewer, and these have the values that were read.
    """
    if now is None:
        return True
    if before is None or before.uid != now.uid:
        return False
    read = {(manager, path): value for manager, path, value in _lost_fields(desired, before)}
    return all(
        (manager, path) in read and read[manager, path] in (MISSING, value)
        for manager, path, value in _lost_fields(desired, now)
    )


def confirmed_takings(
    step: ApplyStep, before: LiveObject, after: LiveObject, applyset: ApplySetIdentity
) -> tuple[str, ...]:
    """Return ``step.taken_from`` as the server's reply to a dry run confirms it.

    An equal value takes nothing, because both managers own the field then. ``before`` was read in
    full. An adoption takes the object as a whole.
    """
    if step.fate is not Fate.CHANGE:
        return step.taken_from
    kept = _owned(after)
    lost = {name for name, paths in _owned(before).items() if not paths <= kept[name]}
    lost -= {"", BEFORE_FIRST_APPLY, applyset.manager, applyset.yielded}
    lost -= {manager for _, manager in step.reverts}  # these fields were the set's own
    return tuple(sorted(lost | ({UNKNOWN, *step.migration.managers} & {*step.taken_from})))


def _owned(live: LiveObject) -> defaultdict[str, set[Path]]:
    # A status changes all the time.
    owned: defaultdict[str, set[Path]] = defaultdict(set)
    for one in live.writers:
        if one.subresource != "status":
            owned[one.manager].update(one.fields.leaves())
    return owned
