"""What goes with a Bundle: its finalizer deletes the objects of its own set.

No API server does that, so nothing but the Bundle and its inventory say it. What is said here is
what ``controller/removal.py`` does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from applyprune.errors import UsageError
from applyprune.model.fate import Fate
from applyprune.model.inventory import InventoryEntry
from applyprune.model.live import BUNDLES, LiveObject, field, mapping, text
from applyprune.planning.applyset import PART_OF, ApplySetIdentity, applyset_identity
from applyprune.planning.marks import FINALIZER, ORPHAN
from applyprune.planning.removals import remove_step
from applyprune.planning.world import World

ELSEWHERE = "its objects are in another cluster"


def owner_of_set(namespace: str, name: str) -> str:
    """Return the owner that the inventory of a Bundle's set names."""
    return f"{BUNDLES.kind} {namespace}/{name}"


def takes_set(bundle: LiveObject) -> bool:
    """Return whether the deletion of a Bundle, read in full, deletes the objects of its set.

    A suspended Bundle counts: its removal only waits.
    """
    # guard: bundle-orphans never
    if FINALIZER not in bundle.finalizers or bundle.annotations.get(ORPHAN) == "true":
        return False
    spec = mapping((bundle.body or {}).get("spec"))
    policy = text(spec, "deletionPolicy", default="MirrorPrune")
    if policy == "MirrorPrune":
        return field(spec, "prune", "enabled") is not False
    return policy != "Orphan"


def set_of_bundle(bundle: LiveObject) -> ApplySetIdentity | str:
    """Return the set of a Bundle, read in full; or why its objects cannot be counted."""
    spec = mapping((bundle.body or {}).get("spec"))
    if spec.get("kubeConfig") is not None:  # guard: bundle-elsewhere never
        return ELSEWHERE
    name = text(spec, "inventoryName") or bundle.ref.name
    try:
        return applyset_identity(name, bundle.ref.namespace)
    except UsageError as error:
        return error.message


def taken_objects(world: World, unread: Collection[InventoryEntry]) -> Iterator[LiveObject]:
    """Yield what the deletion of a Bundle deletes; ``world`` is that of the delete of its set.

    Of what could not be read, its entry tells; it counts.
    """
    for ref, entry in sorted(world.inventory.entries.items()):
        live = world.live(ref) if ref in world.states else None
        # guard: bundle-label -> live is None
        if live is None or live.labels.get(PART_OF) != world.applyset.id:
            continue
        if remove_step(entry, world).fate in {Fate.PRUNE, Fate.REFUSE}:
            yield live
    for entry in unread:
        metadata = {"name": entry.ref.name, "namespace": entry.ref.namespace}
        yield LiveObject.of(entry.ref, entry.uid, "", metadata)
