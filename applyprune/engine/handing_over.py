"""Carrying out a change of hands: the guarded patch, and the one that settles it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.errors import ApplypruneError
from applyprune.planning.managed_fields import hand_over_patch, settle_patch

if TYPE_CHECKING:
    from applyprune.engine.ports import Cluster
    from applyprune.model.live import Live
    from applyprune.model.resources import Resource
    from applyprune.planning.tracking import SetIdentity


def hand_over(
    cluster: Cluster, resource: Resource, live: Live, *, old: str, target: SetIdentity
) -> Live:
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
