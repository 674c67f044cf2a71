"""What an object belongs to, and who sets which of its fields, by the object itself.

Only labels, annotations, owners and managedFields are read: no value of a field is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from applyprune.model.events import FieldsOfManager, ObjectBelongs
from applyprune.model.fieldset import Path, Writer, to_server
from applyprune.model.identity import Ref
from applyprune.model.inventory import Inventory
from applyprune.model.live import LiveObject, items, mapping, text
from applyprune.planning.applyset import PART_OF, ApplySetIdentity
from applyprune.planning.history import run_that_applied
from applyprune.planning.managed_fields import own_writer
from applyprune.planning.normalize import targets
from applyprune.planning.ownership import owning_tools
from applyprune.planning.uids import uid_in

_KUBECTL = "kubectl.kubernetes.io/last-applied-configuration"
_MOST_MANAGERS = 10
_MOST_FIELDS = 5


def belonging(
    live: LiveObject, inventory: Inventory | None, scalers: Sequence[LiveObject] = ()
) -> ObjectBelongs:
    """Return what an object belongs to.

    ``inventory`` is that of the set whose label the object has; None if there is none, or if it
    cannot be read. ``scalers`` are the autoscalers of its namespace, in full.
    """
    applied, source, manager = "", "", ""
    if inventory is not None and _lists(inventory, live):
        # Its fields are those of the set, and so are marks of tools among them.
        manager = ApplySetIdentity(inventory.name, inventory.namespace).manager
        writer = own_writer(live, manager)
        if writer is not None and writer.time:
            applied = writer.time
            run = run_that_applied(inventory, live.ref, applied)
            source = run.source.text if run is not None else ""
    writers = tuple(_writers(live, manager, scalers))
    return ObjectBelongs(
        live.ref,
        tuple(_claims(live, inventory, manager)),
        applied,
        source,
        writers[:_MOST_MANAGERS],
        max(0, len(writers) - _MOST_MANAGERS),
    )


def _lists(inventory: Inventory, live: LiveObject) -> bool:
    entry = inventory.entries.get(live.ref)
    return entry is not None and (
        uid_in(live.ref.group, entry.uid or entry.uid_before_apply or "")
        == uid_in(live.ref.group, live.uid)
    )


def _claims(live: LiveObject, inventory: Inventory | None, manager: str) -> Iterator[str]:
    """Yield what the object belongs to, by each mark of an owner: several tools may claim it."""
    if label := live.labels.get(PART_OF, ""):
        if inventory is None:
            yield f"an ApplySet whose parent cannot be found: {PART_OF}={label}"
        else:
            named = f"the set {inventory.name} in namespace {inventory.namespace}"
            yield named if manager else f"{named}, which does not list it"
    yield from dict.fromkeys(owning_tools(live, manager))
    for owner in items(live.metadata, "ownerReferences"):
        how = "its controller" if owner.get("controller") else "its owner"
        yield f"{how}, {text(owner, 'kind')} {text(owner, 'name')}"
    if _KUBECTL in live.annotations and not (label or items(live.metadata, "ownerReferences")):
        yield "whoever uses kubectl apply with its manifest"


def _writers(
    live: LiveObject, manager: str, scalers: Sequence[LiveObject]
) -> Iterator[FieldsOfManager]:
    """Yield who sets which fields, but for the set itself and for the status, the newest first."""
    others = (one for one in live.writers if one.subresource != "status")
    for writer in sorted(others, key=lambda one: one.time, reverse=True):
        if writer.manager == manager or not (fields := list(map(_named, writer.fields.leaves()))):
            continue
        shown = tuple(sorted(fields)[:_MOST_FIELDS])
        yield FieldsOfManager(
            _who(writer, live.ref, scalers), shown, len(fields) - len(shown), writer.time
        )


def _named(path: Path) -> str:
    """Return a field, by its words where people know it by them."""
    match path:
        case ("metadata", "labels", str(key)):
            return f"the label {key}"
        case ("metadata", "annotations", str(key)):
            return f"the annotation {key}"
    return to_server(path)


def _who(writer: Writer, ref: Ref, scalers: Sequence[LiveObject]) -> str:
    if writer.subresource != "scale":
        return writer.manager or "an unknown manager"
    for scaler in scalers:
        if targets({"kind": scaler.ref.kind, **mapping(scaler.body)}, ref):
            return f"the autoscaler {scaler.ref.name}"
    return f"{writer.manager}, which scales it"
