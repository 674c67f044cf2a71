"""Carrying out a change of hands: from set to set, and from other managers to ours.

Each is a guarded patch; one that finds the object changed is made again from what it is now.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from applyprune.errors import ApplypruneError, Conflict, RunFailed
from applyprune.planning.applyset import PART_OF
from applyprune.planning.ownership.managed_fields import (
    hand_over_patch,
    migrate_patch,
    release_patch,
    set_manager,
    settle_patch,
)

if TYPE_CHECKING:
    from applyprune.engine.ports import Cluster
    from applyprune.model.live import LiveObject
    from applyprune.model.plan import ApplyStep
    from applyprune.model.resources import Resource
    from applyprune.planning.applyset import ApplySetIdentity


_TRIES = 8


def is_anothers(live: LiveObject, target: ApplySetIdentity) -> bool:
    """Return whether an object bears the label of another set."""
    return live.labels.get(PART_OF, target.id) != target.id


def take_in(cluster: Cluster, step: ApplyStep, target: ApplySetIdentity) -> ApplyStep:
    """Make an object ours before its apply, as its step says; return the step as it is then.

    The manager of another set becomes ours, and so do the fields of the managers that are to be
    migrated: what our manifest lacks goes with our apply. Where another set's manager is not
    known, for it is another tool's, only its label comes off. Raises RunFailed when the object
    never stands still.
    """
    one, live = step.desired, step.live
    for _ in range(_TRIES):
        if live is None or (step.live is not None and live.uid != step.live.uid):
            break
        try:
            if is_anothers(live, target):
                live = _released(cluster, one.resource, live, target)
            if step.migrate:
                version = one.resource.gvk.api_version
                patch = migrate_patch(live, step.migrate, target.manager, version)
                live = cluster.patch(one.resource, one.ref, patch)
        except Conflict:
            live = cluster.get(one.resource, one.ref)
        else:
            return replace(step, live=live)
    raise RunFailed(f"{one.ref} changes faster than it can be taken over", where=one.origin)


def _released(
    cluster: Cluster, resource: Resource, live: LiveObject, target: ApplySetIdentity
) -> LiveObject:
    if old := set_manager(live):
        return hand_over(cluster, resource, live, old=old, target=target)
    return cluster.patch(resource, live.ref, release_patch(live))


def hand_over(
    cluster: Cluster, resource: Resource, live: LiveObject, *, old: str, target: ApplySetIdentity
) -> LiveObject:
    """Give an object, as it was read, to another set; return it as it is then.

    Raises Conflict when it has changed since. What the second patch would settle is harmless: the
    new set's next apply owns its label's field as well.
    """
    patch = hand_over_patch(live, old=old, new=target.manager, label=target.id)
    after = cluster.patch(resource, live.ref, patch)
    try:
        settled = settle_patch(after, live, old=old, new=target.manager)
        return cluster.patch(resource, live.ref, settled)
    except ApplypruneError:
        return after
